"""OpenTelemetry spans as OTLP JSON: attempts, phases and steps of those who already trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from pipelines.ingest import lifecycle
from pipelines.ingest.records import Event, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.times import seconds_ms, shown
from pipelines.taxonomy import Outcome

SOURCE = "otlp"
PREFIX = "ettledger."
"""Before a field of the lifecycle format, in the name of an attribute: `ettledger.step`."""

ATTEMPT, JOB, STEP = "attempt", "job", "step"
TARGETS = (ATTEMPT, JOB, STEP)
"""What a span can be besides a phase."""

_JOB_IDS = (
    f"{PREFIX}job_id", "job_id", "slurm.job_id", "slurm.job.id", "k8s.job.name", "service.name",
)  # fmt: skip
_EMITTER = {
    "cluster": (f"{PREFIX}cluster", "slurm.cluster.name", "k8s.cluster.name"),
    "attempt": (f"{PREFIX}attempt",),
    "rank": (f"{PREFIX}rank", "process.rank", "rank"),
    "host": (f"{PREFIX}host", "host.name", "k8s.node.name"),
}
_ALIASES = {"slurm.job_id": "slurm_job_id", "slurm.job.id": "slurm_job_id", "k8s.pod.name": "pod"}
_BARE = frozenset({"step", "samples"})  # on a span or event that is read, these need no prefix
_OF_THE_KEY = frozenset({"job_id", "cluster"})
_NUMBERS = frozenset({"attempt", "rank", "step", "samples", "gpus"})
_FLAGS = frozenset({"blocking", "held"})
_OF_A_JOB = frozenset({"held", "model", "team", "priority", "gpus"})
_AT_END = frozenset({"outcome", "cause"})
_FIELDS = _NUMBERS | _FLAGS | _OF_A_JOB | _AT_END | {"host", "phase"}
_STATUS = {1: "ok", 2: "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error"}
_OUTCOMES = {"ok": str(Outcome.SUCCEEDED), "error": str(Outcome.FAILED)}
_MOST_DIGITS = 18
_MOST_NAMES = 1000
_SHOWN_NAMES = 20
_SHOWN_FAULTS = 3
_ABSENT = Raw(b"")

_Fields = dict[str, Any]
_Told = tuple[int, Said]


class _Value(msgspec.Struct, rename="camel"):
    """An AnyValue: one of these is there. Integers of 64 bits are strings in OTLP JSON."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: Any = None
    kvlist_value: Any = None
    bytes_value: str | None = None


class _Attribute(msgspec.Struct):
    key: str = ""
    value: _Value = msgspec.field(default_factory=_Value)


class _SpanEvent(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: Raw = _ABSENT
    attributes: list[_Attribute] = []


class _Status(msgspec.Struct):
    code: int | str = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel"):
    name: str = ""
    span_id: str = ""
    start_time_unix_nano: Raw = _ABSENT
    end_time_unix_nano: Raw = _ABSENT
    attributes: list[_Attribute] = []
    events: list[_SpanEvent] = []
    status: _Status = msgspec.field(default_factory=_Status)


class _Scope(msgspec.Struct):
    spans: list[Raw] = []


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_spans: list[_Scope] = []
    instrumentation_library_spans: list[_Scope] = []  # what scope_spans were until OTLP 0.15


def parse(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Documents, each one ResourceSpans, to what their spans tell (docs/sources/otlp.md).

    A document with a span that cannot be read is a reject that says which and why; its other
    spans are read all the same. One whose spans are all unknown is ignored, and the file's note
    names them, for the site may say what they mean.
    """
    tally, reader = reading.tally, _Reader(reading)
    for number, text in documents:
        told, faults = reader.read(text)
        for at, said in told:
            yield number, at, said
        if faults:
            yield tally.reject(number, _summary(faults, len(told)), text)
        else:
            tally.event_line_count += bool(told)
            tally.ignored_count += not told
    tally.notes.extend(_notes(reader.unknown))


class _Reader:
    """One file: the site's names for its spans, and the names of those that mean nothing here."""

    def __init__(self, reading: Reading) -> None:
        self.unknown: Counter[str] = Counter()
        self._reading = reading
        self._mapping = reading.settings.mapping

    def read(self, text: bytes) -> tuple[list[_Told], list[str]]:
        """What a document tells, and why parts of it could not be read."""
        told: list[_Told] = []
        faults: list[str] = []
        try:
            document = _decoded(_decode_document, text)
        except RejectError as reason:
            return [], [str(reason)]
        resource = _attributes(document.resource.attributes)
        for scope in (*document.scope_spans, *document.instrumentation_library_spans):
            for raw in scope.spans:
                try:
                    told += self._span(_decoded(_decode_span, bytes(raw)), resource)
                except RejectError as reason:
                    faults.append(str(reason))
        return told, faults

    def _span(self, span: _Span, resource: _Fields) -> list[_Told]:
        attributes = _attributes(span.attributes)
        target = self._target(span.name, attributes)
        events = [e for e in span.events if e.name.removeprefix(PREFIX) in lifecycle.KINDS]
        if target is None and not events:
            is_counted = span.name in self.unknown or len(self.unknown) < _MOST_NAMES
            self.unknown[span.name if is_counted else "others"] += 1
            return []
        try:
            emitter = self._emitter(resource | attributes)
            told = [] if target is None else self._whole(span, target, attributes, emitter)
            return told + [self._event(event, emitter) for event in events]
        except RejectError as reason:
            raise RejectError(f"span '{span.name}': {reason}") from None

    def _target(self, name: str, attributes: _Fields) -> str | None:
        """What a span is: a component, or one of TARGETS. The site has the first word."""
        stated = self._mapping.get(name) or attributes.get(f"{PREFIX}phase")
        if stated is not None:
            return str(stated)
        word = name.removeprefix(PREFIX)
        is_known = word in TARGETS or word in self._reading.taxonomy.phases
        return word if is_known else None

    def _emitter(self, attributes: _Fields) -> _Fields:
        """Job, cluster, attempt, rank and host; on attempts and jobs also what the job is."""
        names = {name: str(value) for name, value in attributes.items()}
        names |= {alias: names[name] for name, alias in _ALIASES.items() if name in names}
        by_rule = self._reading.settings.identity.field
        own_id = _first(names, _JOB_IDS) or names.get(by_rule or "")
        if own_id is None:
            raise RejectError(f"no attribute names the job: expected one of {', '.join(_JOB_IDS)}")
        key = self._reading.key(own_id, names)
        said = {field: _first(attributes, known) for field, known in _EMITTER.items()}
        said |= {n: attributes[PREFIX + n] for n in _OF_A_JOB if PREFIX + n in attributes}
        said |= {name: value for name, value in key._asdict().items() if value is not None}
        return _typed({name: value for name, value in said.items() if value is not None})

    def _whole(
        self, span: _Span, target: str, attributes: _Fields, emitter: _Fields
    ) -> list[_Told]:
        """The span itself: its begin, and its end where it has one."""
        begin, end = _at(span.start_time_unix_nano), _at(span.end_time_unix_nano)
        if begin is None:
            raise RejectError("startTimeUnixNano is missing or 0")
        if end is not None and end < begin:
            raise RejectError(f"it ends {begin - end} ms before it begins")
        fields, attrs = _lifted(attributes)
        fields.pop("phase", None)
        status = _status(span)
        if target == STEP:
            return [] if end is None else [self._told(end, STEP, emitter, fields, attrs | status)]
        if target in (ATTEMPT, JOB):
            return self._run(target, (begin, end), emitter, fields, attrs, status)
        fields |= {"phase": target, "span_id": span.span_id.lower() or None}
        told = [self._told(begin, "phase_begin", emitter, fields, attrs | status)]
        if end is not None:
            told.append(self._told(end, "phase_end", emitter, fields, {}))
        return told

    def _run(
        self,
        target: str,
        window: tuple[int, int | None],
        emitter: _Fields,
        fields: _Fields,
        attrs: _Fields,
        status: _Fields,
    ) -> list[_Told]:
        """An attempt or a job. A span with the status error failed, unless it says otherwise."""
        begin, end = window
        first, last = ("attempt_started", "attempt_ended")
        if target == JOB:
            first, last = ("job_submitted", "job_finished")
        start = {name: value for name, value in fields.items() if name not in _AT_END}
        told = [self._told(begin, first, emitter, start, attrs)]
        if end is None:
            return told
        stop = {name: value for name, value in fields.items() if name in _AT_END}
        if target == ATTEMPT and status.get("status") == "error":
            cause = {name: value for name, value in stop.items() if name == "cause"}
            told.append(self._told(end, "interruption", emitter, cause, status))
        outcome = _OUTCOMES.get(status.get("status", ""))
        told.append(self._told(end, last, emitter, {"outcome": outcome} | stop, status))
        return told

    def _event(self, event: _SpanEvent, emitter: _Fields) -> _Told:
        """An event on a span, named as a kind of the lifecycle format."""
        at = _at(event.time_unix_nano)
        if at is None:
            raise RejectError(f"the event '{event.name}' has no timeUnixNano")
        fields, attrs = _lifted(_attributes(event.attributes))
        return self._told(at, event.name.removeprefix(PREFIX), emitter, fields, attrs)

    def _told(
        self, at: int, event: str, emitter: _Fields, fields: _Fields, attrs: _Fields
    ) -> _Told:
        """An event by the rules of the lifecycle format, which checks every field."""
        is_start = event in ("attempt_started", "job_submitted")
        known = {n: v for n, v in emitter.items() if is_start or n not in _OF_A_JOB}
        line = {"ts": at, "event": event, **fields, **known, "attrs": attrs}
        return lifecycle.read_line(_encode(line), self._reading.taxonomy)


_decode_document = msgspec.json.Decoder(_ResourceSpans).decode
_decode_span = msgspec.json.Decoder(_Span).decode
_encode = msgspec.json.Encoder().encode


def _decoded(decode: Any, text: bytes) -> Any:
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise RejectError(f"not OTLP JSON: {error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectError(f"not JSON: {error}") from None


def _attributes(attributes: list[_Attribute]) -> _Fields:
    """Attributes by name; of one that stands twice the last counts, as in JSON."""
    found = ((attribute.key, _value(attribute.value)) for attribute in attributes)
    return {name: value for name, value in found if value is not None}


def _value(value: _Value) -> Any:
    if value.int_value is not None:
        text = str(value.int_value)
        return int(text) if _is_whole(text.removeprefix("-")) else text
    parts = (getattr(value, name) for name in value.__struct_fields__)
    return next((part for part in parts if part is not None), None)


def _is_whole(text: str) -> bool:
    """Digits that 64 bits surely hold."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _first(attributes: _Fields, names: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in names if name in attributes), None)


def _lifted(attributes: _Fields) -> tuple[_Fields, _Fields]:
    """Attributes that are fields of the lifecycle format, and all others."""
    fields: _Fields = {}
    attrs: _Fields = {}
    for key, value in attributes.items():
        name = key.removeprefix(PREFIX)
        if name != key and name in _OF_THE_KEY:
            continue
        is_field = name in _FIELDS and (name != key or name in _BARE)
        (fields if is_field else attrs)[name if is_field else key] = value
    return _typed(fields), attrs


def _typed(fields: _Fields) -> _Fields:
    """Numbers and flags as such, where an environment variable could only hold text."""
    typed = dict(fields)
    for name, value in fields.items():
        if not isinstance(value, str):
            continue
        if name in _NUMBERS and _is_whole(value):
            typed[name] = int(value)
        elif name in _FLAGS and value in ("true", "false"):
            typed[name] = value == "true"
    return typed


def _status(span: _Span) -> _Fields:
    word = _STATUS.get(span.status.code)
    said = {"status": word, "status_message": span.status.message or None}
    return {name: value for name, value in said.items() if value is not None}


def _at(raw: Raw) -> int | None:
    """Nanoseconds since 1970, a string or a number, in ms, half to even; None: not yet, or 0."""
    text = bytes(raw).strip(b'"')
    if not text.strip(b"0") or text == b"null":
        return None
    if not text.isdigit():
        raise RejectError(f"a time is {shown(bytes(raw))}: expected nanoseconds since 1970")
    return seconds_ms(text + b"e-9")


def _summary(faults: list[str], told: int) -> str:
    """Why a document is a reject, in one line."""
    more = len(faults) - _SHOWN_FAULTS
    text = "; ".join(faults[:_SHOWN_FAULTS]) + (f"; and {more} more" if more > 0 else "")
    return f"{text} (the rest of it told {told} events)" if told else text


def _notes(unknown: Counter[str]) -> Iterator[str]:
    if not unknown:
        return
    names = [f"{name} ({count})" for name, count in unknown.most_common(_SHOWN_NAMES)]
    more = len(unknown) - len(names)
    rest = f" and {more} more names" if more else ""
    yield f"spans ignored, `mapping:` can say what they are: {', '.join(names)}{rest}"
