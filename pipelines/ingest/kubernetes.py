"""Kubernetes objects and Events as JSON: alone, in lists, on lines, or as a watch gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from pipelines.ingest.documents import Documents
from pipelines.ingest.identity import Key
from pipelines.ingest.kubernetes_jobs import job_facts, workload_facts
from pipelines.ingest.kubernetes_objects import (
    EVENT,
    JOBS,
    POD,
    WORKLOAD,
    Part,
    Thing,
    part,
    text,
    time,
)
from pipelines.ingest.kubernetes_pods import pod_facts
from pipelines.ingest.listener import Told
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.taxonomy import Cause

SOURCE = "kubernetes"

_WATCHED = frozenset({"ADDED", "MODIFIED", "DELETED"})
_DIMENSIONS = ("model", "team", "priority")
_DIMENSIONED = ("job_submitted", "attempt_started")
# Reasons of Events that tell of an interruption; all others repeat what the objects say better.
_EVENT_CAUSES: dict[str, Cause] = {
    "Preempted": Cause.PREEMPTION,
    "EvictedDueToPreempted": Cause.PREEMPTION,
    "EvictedDueToNodeFailures": Cause.NODE_LOST,
    "EvictedDueToPodsReadyTimeout": Cause.UNKNOWN,
    "TaintManagerEviction": Cause.NODE_LOST,
    "NodeNotReady": Cause.NODE_LOST,
    "OOMKilling": Cause.OUT_OF_MEMORY,
    "Evicted": Cause.UNKNOWN,
    "ExitedWithCode": Cause.UNKNOWN,
    "BackoffLimitExceeded": Cause.UNKNOWN,
}
_RESTARTING = re.compile(r"^\w*JobRestarting$")

_Jobs = dict[tuple[str, str, str], Key]
"""Whose job an object is, by kind, namespace and name: Events about it do not say."""
_MOST_REMEMBERED = 100_000

_decode = msgspec.json.Decoder(dict).decode


def parse(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Objects to events, each by itself: the same object gives the same events.

    Objects that tell nothing of a job's course are ignored.
    """
    tally, jobs = reading.tally, _Jobs()
    for number, raw in documents:
        try:
            told = _read(raw, reading, jobs)
        except (msgspec.MsgspecError, UnicodeDecodeError, RejectError, RecursionError) as error:
            reason = error if isinstance(error, RejectError) else f"no object: {error}"
            yield tally.reject(number, reason, raw)
            continue
        tally.event_line_count += bool(told)
        tally.ignored_count += not told
        yield from ((number, at, said) for at, said in told)


def _read(raw: bytes, reading: Reading, jobs: _Jobs) -> list[tuple[int, Said]]:
    thing = Thing(_unwrapped(_decode(raw)))
    if thing.kind == EVENT:
        return _about(thing, reading, jobs)
    facts = _facts(thing)
    if facts is None or not thing.name:
        return []
    fields = thing.fields()
    key = _key(thing, fields, reading, jobs)
    if len(jobs) < _MOST_REMEMBERED:
        jobs[thing.kind, thing.namespace, thing.name] = key
    dimensions = _dimensions(reading, fields)
    return [_said(key, told, dimensions) for told in facts if told.at is not None]


def _key(thing: Thing, fields: dict[str, str], reading: Reading, jobs: _Jobs) -> Key:
    """The job of an object. One that lacks the rule's field is where its owner, seen before, is."""
    by = reading.settings.identity.field
    if by and by not in fields and by != "id" and thing.owner:
        kind, name = thing.owner
        if known := jobs.get((kind, thing.namespace, name)):
            return known
    return reading.key(f"{thing.namespace}/{thing.job_name}", fields)


def _unwrapped(body: Part) -> Part:
    """The object of a watch's notice."""
    return part(body, "object") if body.get("type") in _WATCHED and "object" in body else body


def _facts(thing: Thing) -> Iterator[Told] | None:
    if thing.kind in JOBS:
        return job_facts(thing)
    if thing.kind == WORKLOAD:
        return workload_facts(thing)
    return pod_facts(thing) if thing.kind == POD else None


def _dimensions(reading: Reading, fields: dict[str, str]) -> dict[str, str]:
    """The job's dimensions out of the fields that the site's `mapping:` names."""
    named = ((name, reading.settings.mapping.get(name)) for name in _DIMENSIONS)
    return {name: fields[of] for name, of in named if of in fields}


def _said(key: Key, told: Told, dimensions: dict[str, str]) -> tuple[int, Said]:
    said = {k: v for k, v in told.fields.items() if v is not None}
    if told.event in _DIMENSIONED:
        joined = {"model": key.model, "team": key.team}
        said |= dimensions | {k: v for k, v in joined.items() if v is not None}
    return told.at or 0, Said(
        job_id=key.job_id, cluster=key.cluster, attempt=key.attempt, event=told.event,
        attrs=told.attrs or None, **said,
    )  # fmt: skip


def _about(event: Thing, reading: Reading, jobs: _Jobs) -> list[tuple[int, Said]]:
    """An Event that tells of an interruption: its first and its last time.

    Repeats between them are lost. The job is known where the Event is about a job, about an object
    that stood before it in the file, or where a rule of the site finds it.
    """
    reason = text(event.body, "reason")
    if reason not in _EVENT_CAUSES and not _RESTARTING.match(reason):
        return []
    about = part(event.body, "involvedObject") or part(event.body, "regarding")
    key = _job_of(event, about, reading, jobs)
    if key is None:
        return []
    attrs = {"reason": reason, "kind": text(about, "kind"), "object": text(about, "name")}
    if message := text(event.body, "message") or text(event.body, "note"):
        attrs["message"] = message[:256]
    cause = _EVENT_CAUSES.get(reason, Cause.UNKNOWN)
    told = (Told("interruption", at, {"cause": cause}, attrs) for at in _times(event.body))
    return [_said(key, one, {}) for one in told]


def _job_of(event: Thing, about: Part, reading: Reading, jobs: _Jobs) -> Key | None:
    kind, name = text(about, "kind"), text(about, "name")
    namespace = text(about, "namespace") or event.namespace
    if known := jobs.get((kind, namespace, name)):
        return known
    fields = event.fields() | {"namespace": namespace, "name": name}
    if kind == POD:
        fields["pod"] = name
    if kind in JOBS or reading.settings.identity.field in fields:
        return reading.key(f"{namespace}/{name}", fields)
    if _LONELY not in reading.tally.notes:
        reading.tally.notes.append(_LONELY)
    return None


_LONELY = "Events about objects whose job this file does not tell are ignored: list the objects too"


def _times(body: Part) -> list[int]:
    """First and last time of an Event, in either version of the API."""
    names = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    first = [at for name in names if (at := time(body, name)) is not None][:1]
    last = [
        time(body, "lastTimestamp"),
        time(body, "deprecatedLastTimestamp"),
        time(part(body, "series"), "lastObservedTime"),
    ]
    return sorted({*first, *(at for at in last if at is not None)})


_JSON = re.compile(rb"(?:(?:Warning: |[IWE]\d{4} ).*\n)*\s*[{\[]")  # kubectl's stderr before it
_OBJECT = re.compile(
    rb'"kind"\s*:\s*"(?:List|\w+List|Workload|Pod|Event|%s)"' % b"|".join(k.encode() for k in JOBS)
)


def _is_objects(begin: bytes) -> bool:
    is_json = _JSON.match(begin) is not None
    has_names = b'"apiVersion"' in begin and b'"metadata"' in begin
    return is_json and has_names and _OBJECT.search(begin) is not None


FORMAT = Format(SOURCE, Documents, parse, knows_begin=_is_objects)
