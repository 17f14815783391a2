"""Slurm accounting as JSON (`sacct --json`, sonar's jobs): documents to the columns of sacct."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from pipelines.ingest.records import Event, Numbered, Reading, Reject, RejectError
from pipelines.ingest.slurm import Teller

_BEGIN = re.compile(rb"^\s*\{", re.MULTILINE)  # messages of sacct may stand before it
_SACCT = (b'"Slurm"', b'"slurm"', b'"submission"')
_NO_JOBS = re.compile(rb'"jobs"\s*:\s*\[\s*\]')
_SONAR_HEAD = b'"slurm_jobs"'
_Read = Callable[[dict[str, Any]], str]


def is_slurm(begin: bytes) -> bool:
    """Is it sacct's JSON (not squeue's, which has no `submission`), or sonar's?"""
    if not _BEGIN.search(begin.removeprefix(b"\xef\xbb\xbf")):
        return False
    has_jobs = b'"jobs"' in begin and (b'"job_id"' in begin or _NO_JOBS.search(begin))
    return _SONAR_HEAD in begin or bool(has_jobs and any(word in begin for word in _SACCT))


def parse(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Documents (a job of sacct with its steps, or a report of sonar with many jobs) to events."""
    tally, teller = reading.tally, Teller(reading)
    lost: list[str] = []
    for number, text in documents:
        try:
            events = _document(text, number, teller, lost)
        except RejectError as reason:
            yield tally.reject(number, reason, text)
            continue
        tally.event_line_count += bool(events)
        tally.ignored_count += not events
        yield from events
    teller.end()
    if lost:  # the unit of accounting is the document: what it lost besides is said here
        tally.notes.append(f"{len(lost)} jobs or steps could not be read; the first: {lost[0]}")


def _document(text: bytes, number: int, teller: Teller, lost: list[str]) -> list[Event]:
    document = _decoded(text)
    if not isinstance(document, dict):
        raise RejectError("a job is expected, as a JSON object")
    is_job = "job_id" in document
    records = sacct_records(document) if is_job else _sonar_records(document)
    told: list[Event] = []
    faults: list[RejectError] = []
    for record in records:
        try:
            told += teller.tell(number, record)
        except RejectError as reason:
            faults.append(reason)
            if is_job and not told:  # the job itself, without which its steps say nothing
                break
    if faults and not told:
        raise faults[0]
    lost += [f"document {number}, {fault}" for fault in faults]
    return told


def _decoded(text: bytes) -> Any:
    """The document; bytes that are no UTF-8, as users put them into names, become U+FFFD."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        utf8 = text.decode("utf-8", "replace").encode()
        if utf8 != text:
            return _decoded(utf8)
        raise RejectError(f"not JSON: {error}") from error


def sacct_records(job: dict[str, Any]) -> Iterator[dict[str, str]]:
    """A job of `sacct --json` and its steps, as rows of named columns.

    Raises RejectError where it has no `time`: then it is squeue's.
    """
    time = job.get("time")
    if not isinstance(time, dict):
        raise RejectError("a job without `time`: sacct's JSON is expected, not squeue's")
    job_id = _job_id(job, _at(job, "array"), _at(job, "het"))
    record = _columns(_JOB, job) | _times(time) | {"JobID": job_id}
    tres = _at(job, "tres").get("allocated")
    if isinstance(tres, list):
        record["AllocTRES"] = ",".join(filter(None, map(_tres, tres)))
    yield record
    for step in _dicts(job.get("steps")):
        name = _text(_at(step, "step").get("id")) or "step"
        if isinstance(times := step.get("time"), dict):
            own = name.rpartition(".")[2]
            yield _columns(_STEP, step) | _times(times) | {"JobID": f"{job_id}.{own}"}


def _job_id(job: dict[str, Any], array: dict[str, Any], het: dict[str, Any]) -> str:
    """`123`, `123_4` or `123+1`, as sacct prints them."""
    task, offset = _number(array.get("task_id")), _number(het.get("job_offset"))
    if task is not None and (of := _number(array.get("job_id"))):
        return f"{of}_{task}"
    if waiting := _text(array.get("task")):
        return f"{_number(array.get('job_id')) or _number(job.get('job_id'))}_[{waiting}]"
    if het_id := _number(het.get("job_id")):
        return f"{het_id}+{offset or 0}"
    return _text(job.get("job_id"))


def _columns(names: Mapping[str, _Read], of: dict[str, Any]) -> dict[str, str]:
    return {column: word for column, read in names.items() if (word := read(of))}


def _state(of: dict[str, Any]) -> str:
    state = of.get("state")
    words = state.get("current") if isinstance(state, dict) else state
    return ",".join(map(str, words)) if isinstance(words, list) else _text(words)


def _exit_code(of: dict[str, Any]) -> str:
    code, signal = _at(of, "exit_code"), _at(_at(of, "exit_code"), "signal")
    number = _number(code.get("return_code"))
    if number is None and not code:
        return ""
    sent = signal.get("id", signal.get("signal_id"))
    return f"{number or 0}:{_number(sent) or 0}"


def _comment(of: dict[str, Any]) -> str:
    comment = of.get("comment")
    return _text(comment.get("job") if isinstance(comment, dict) else comment)


def _plain(name: str) -> _Read:
    return lambda of: _text(of.get(name))


_STEP = {"State": _state, "ExitCode": _exit_code}
_JOB: dict[str, _Read] = {
    **_STEP,
    "JobIDRaw": _plain("job_id"),
    "JobName": _plain("name"),
    "Account": _plain("account"),
    "User": _plain("user"),
    "Cluster": _plain("cluster"),
    "Partition": _plain("partition"),
    "QOS": _plain("qos"),
    "NodeList": _plain("nodes"),
    "AllocNodes": _plain("allocation_nodes"),
    "FailedNode": _plain("failed_node"),
    "Restarts": _plain("restart_cnt"),
    "SubmitLine": _plain("submit_line"),
    "WorkDir": _plain("working_directory"),
    "Extra": _plain("extra"),
    "WCKey": lambda job: _text(_at(job, "wckey").get("wckey")),
    "Comment": _comment,
    "Reason": lambda job: _text(_at(job, "state").get("reason")),
}


def _times(time: dict[str, Any]) -> dict[str, str]:
    names = {"Submit": "submission", "Start": "start", "End": "end", "ElapsedRaw": "elapsed",
             "Suspended": "suspended"}  # fmt: skip
    found = {column: _number(time.get(name)) for column, name in names.items()}
    return {column: str(number) for column, number in found.items() if number is not None}


def _tres(entry: Any) -> str:
    """`gres/gpu:a100=4` of an entry of `tres`."""
    if not isinstance(entry, dict) or (count := _number(entry.get("count"))) is None:
        return ""
    name = _text(entry.get("name"))
    return f"{_text(entry.get('type'))}{'/' if name else ''}{name}={count}"


def _number(value: Any) -> int | None:
    """A number, also in its wrapper; None where it is not set or infinite."""
    if isinstance(value, dict):
        is_set = value.get("set", True) and not value.get("infinite")
        value = value.get("number") if is_set else None
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < _LARGEST else None


_LARGEST = 1e15


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = _number(value)
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if is_plain else ""


def _at(of: dict[str, Any], name: str) -> dict[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _sonar_records(document: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The jobs of a report of sonar, steps among them."""
    told = _at(_at(document, "data"), "attributes")
    for job in _dicts(told.get("slurm_jobs")):
        record = _columns(_SONAR, job)
        het = {"job_id": job.get("het_job_id"), "job_offset": job.get("het_job_offset")}
        array = {"job_id": job.get("array_job_id"), "task_id": job.get("array_task_id")}
        if array["job_id"]:
            array["task_id"] = job.get("array_task_id", 0)  # sonar leaves out what is zero
        job_id = _job_id(job, array, het)
        step = _text(job.get("job_step"))
        record["JobID"] = f"{job_id}.{step}" if step else job_id
        if cluster := _text(told.get("cluster")):
            record["Cluster"] = cluster
        yield record


def _nodes(job: dict[str, Any]) -> str:
    nodes = job.get("nodes")
    return ",".join(map(str, nodes)) if isinstance(nodes, list) else ""


_SONAR: dict[str, _Read] = {
    "JobIDRaw": _plain("job_id"),
    "JobName": _plain("job_name"),
    "State": _plain("job_state"),
    "User": _plain("user_name"),
    "Account": _plain("account"),
    "Partition": _plain("partition"),
    "Reservation": _plain("reservation"),
    "Submit": _plain("submit_time"),
    "Start": _plain("start_time"),
    "End": _plain("end_time"),
    "Suspended": _plain("suspend_time"),
    "ExitCode": _plain("exit_code"),
    "NodeList": _nodes,
    "AllocTRES": lambda job: (
        _text(job.get("allocated_resources")) or _text(_at(job, "sacct").get("AllocTRES"))
    ),
    "ElapsedRaw": lambda job: _text(_at(job, "sacct").get("ElapsedRaw")),
}
