"""Entries of Google's ml-goodput-measurement: one JSON object each, by line or in an array."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipelines.ingest.records import (
    Event,
    Numbered,
    Reading,
    Reject,
    RejectError,
    Said,
)
from pipelines.ingest.times import seconds_ms, shown
from pipelines.taxonomy import Outcome

SOURCE = "goodput"

_FIRST_LOAD, _LATER_LOAD = "trainer_init.first_batch", "data_stall"
_EVALUATION, _OTHER = "evaluation", "stalled"
_NANO = 10**9  # rates are in 10^-9 ms a step, as in docs/accounting.md
_LARGEST = 2**63 - 2  # the step after it must fit too


class _Fact(NamedTuple):
    """One thing that an entry tells: what kind, when (epoch ms), and what belongs to it."""

    kind: str  # attempt, end, step, load or phase
    at: int
    is_end: bool = False
    phase: str | None = None
    span_id: str | None = None
    step: int = 0


def _pair(
    name: str, kind: str, phase: str | None = None
) -> dict[str, tuple[str, bool, str | None]]:
    return {f"{name}_start_time": (kind, False, phase), f"{name}_end_time": (kind, True, phase)}


# Field that holds a time -> kind of fact, whether it is an end, and the phase.
_TIMES: dict[str, tuple[str, bool, str | None]] = {
    "job_start_time": ("attempt", False, None),
    "job_end_time": ("end", True, None),
    "step_start_time": ("step", False, None),
    **_pair("data_loading", "load"),
    **_pair("custom_badput_event", "phase"),
    **_pair("tpu_init", "phase", "trainer_init.device_init"),
    **_pair("training_prep", "phase", "trainer_init.pre_train"),
    **_pair("elastic_wait", "phase", "restart_gap"),
    **_pair("elastic_reinit", "phase", "trainer_init"),
}
# event_type -> phase, and the fields with its start and its duration.
_CHECKPOINTS = {
    "save": ("checkpoint_save", "checkpoint_manager_blocking"),
    "restore": ("checkpoint_restore", "checkpoint_manager"),
}


@dataclass(slots=True)
class _Attempt:
    """What must wait for the end of an attempt: its steps (three integers each), loads, ends."""

    number: int
    step_at: array[int] = field(default_factory=lambda: array("q"))
    step_line: array[int] = field(default_factory=lambda: array("q"))
    step_count: array[int] = field(default_factory=lambda: array("q"))
    loads: list[tuple[int, int, bool]] = field(default_factory=list)  # time, line, is it an end
    ends: list[tuple[int, int]] = field(default_factory=list)  # time, line


class _Last(NamedTuple):
    """The last step started in an attempt that said its end."""

    attempt: int
    step: int
    at: int
    end_at: int
    end_line: int


@dataclass(slots=True)
class _Job:
    """One job_name of the log: its attempt at hand, and what waits for the end of the log."""

    name: str
    attempt: _Attempt | None = None
    rates: list[int] = field(default_factory=list)  # can pass 64 bits
    unrated: list[_Last] = field(default_factory=list)

    def event(self, line: int, at: int, kind: str, attempt: int, **said: Any) -> Event:
        """An event of this job."""
        return line, at, Said(job_id=self.name, event=kind, attempt=attempt, **said)


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Entries to events (rules: docs/formats.md); entries of other kinds are ignored.

    Steps wait for the end of their attempt, since they count in the order of their times.
    """
    jobs: dict[str, _Job] = {}
    tally = reading.tally
    for number, text in lines:
        if not text.strip():
            tally.ignored_count += 1
            continue
        try:
            name, facts = read_entry(text)
        except RejectError as reason:
            yield tally.reject(number, reason, text)
            continue
        if not facts:
            tally.ignored_count += 1
            continue
        tally.event_line_count += 1
        job = jobs.setdefault(name, _Job(name))
        for fact in facts:
            yield from _add(job, number, fact)
    for job in jobs.values():
        yield from _close(job, is_followed=False)
        yield from _complete(job)


def read_entry(text: bytes) -> tuple[str, list[_Fact]]:
    """The job of one entry and what it tells: nothing, where no field of it is known.

    Raises RejectError with the reason.
    """
    try:
        members = _members(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectError(f"not a JSON object: {error}") from error
    fields = {name: bytes(raw) for name, raw in members.items() if bytes(raw) != b"null"}
    job = _string(fields, "job_name")
    if not job:
        raise RejectError("job_name is missing: every entry names its job")
    return job, [*_timed(fields), *_checkpoint(fields)]


_members = msgspec.json.Decoder(dict[str, Raw]).decode


def _string(fields: dict[str, bytes], name: str) -> str | None:
    if name not in fields:
        return None
    try:
        return msgspec.json.decode(fields[name], type=str)
    except msgspec.MsgspecError:
        raise RejectError(f"{name} is {shown(fields[name])}: expected a string") from None


def _timed(fields: dict[str, bytes]) -> Iterator[_Fact]:
    if "step_count" in fields and "step_start_time" not in fields:
        raise RejectError("step_count without step_start_time: nothing says when")
    for name in (name for name in _TIMES if name in fields):  # one order, whatever the hash seed
        kind, is_end, phase = _TIMES[name]
        fact = _Fact(kind, seconds_ms(fields[name]), is_end, phase)
        if kind == "step":
            fact = fact._replace(step=_step_count(fields))
        elif name.startswith("custom_badput_event"):
            type_ = _string(fields, "custom_badput_event_type") or ""
            phase = _EVALUATION if "eval" in type_.lower() else _OTHER
            fact = fact._replace(phase=phase, span_id=type_)
        elif name.startswith("elastic_wait"):
            fact = fact._replace(span_id=_string(fields, "elastic_wait_event_type"))
        yield fact


def _step_count(fields: dict[str, bytes]) -> int:
    raw = fields.get("step_count", b"null")
    is_count = raw.isdigit() and len(raw) <= len(str(_LARGEST)) and int(raw) <= _LARGEST
    if is_count:
        return int(raw)
    raise RejectError(f"step_count is {shown(raw)}: expected an integer from 0 to 2^63 - 2")


def _checkpoint(fields: dict[str, bytes]) -> Iterator[_Fact]:
    """A checkpoint saved or restored: its start and its duration are in one entry."""
    phase, name = _CHECKPOINTS.get(_string(fields, "event_type") or "", (None, ""))
    start = fields.get(f"{name}_start_time")
    duration = fields.get(f"{name}_duration_secs")
    if phase is None or start is None or duration is None:
        return
    begin, end = seconds_ms(start), seconds_ms(start, plus=duration)
    if end < begin:
        raise RejectError(f"{name}_duration_secs is {shown(duration)}: negative")
    yield _Fact("phase", begin, phase=phase)
    yield _Fact("phase", end, is_end=True, phase=phase)


def _add(job: _Job, line: int, fact: _Fact) -> Iterator[Event]:
    """Take one fact into its job; what need not wait comes out as an event."""
    if fact.kind == "attempt":
        number = job.attempt.number + 1 if job.attempt else 0
        yield from _close(job, is_followed=True)
        job.attempt = _Attempt(number)
        yield job.event(line, fact.at, "attempt_started", number)
        return
    attempt = job.attempt = job.attempt or _Attempt(0)  # before the first start
    if fact.kind == "step":
        attempt.step_at.append(fact.at)
        attempt.step_line.append(line)
        attempt.step_count.append(fact.step)
    elif fact.kind == "load":
        attempt.loads.append((fact.at, line, fact.is_end))
    elif fact.kind == "end":
        attempt.ends.append((fact.at, line))
    else:
        kind = "phase_end" if fact.is_end else "phase_begin"
        said = {"phase": fact.phase, "span_id": fact.span_id}
        yield job.event(line, fact.at, kind, attempt.number, **said)


def _close(job: _Job, *, is_followed: bool) -> Iterator[Event]:
    """What waited for the end of the attempt at hand."""
    attempt = job.attempt
    if attempt is None:
        return
    yield from _loads(job, attempt)
    known = len(job.rates)
    last_at, last_step = yield from _steps(job, attempt)
    outcome = None if is_followed else Outcome.SUCCEEDED
    for at, line in attempt.ends:
        yield job.event(line, at, "attempt_ended", attempt.number, outcome=outcome)
    if attempt.ends and last_at is not None:
        last = _Last(attempt.number, last_step, last_at, *max(attempt.ends))
        rates = job.rates[known:]
        if rates:
            yield from _completed(job, last, rates)
        else:
            job.unrated.append(last)


def _loads(job: _Job, attempt: _Attempt) -> Iterator[Event]:
    """Loads of data: for the first batch where they begin before the first step, else stalls."""
    first_step = min(attempt.step_at, default=None)
    phase = _FIRST_LOAD
    for at, line, is_end in sorted(attempt.loads, key=lambda load: load[0]):
        if not is_end:
            is_first = first_step is None or at < first_step
            phase = _FIRST_LOAD if is_first else _LATER_LOAD
        kind = "phase_end" if is_end else "phase_begin"
        yield job.event(line, at, kind, attempt.number, phase=phase)


def _steps(job: _Job, attempt: _Attempt) -> Generator[Event, None, tuple[int | None, int]]:
    """Steps in the order of their times; returns when the last was started, and which."""
    at_of, step_of = attempt.step_at, attempt.step_count
    before: int | None = None
    before_at = 0
    for i in sorted(range(len(at_of)), key=at_of.__getitem__):
        at, step = at_of[i], step_of[i]
        if step == before:
            continue
        kind = "step" if before is not None and step > before else "train_begin"
        if before is not None and step > before:
            job.rates.append((at - before_at) * _NANO // (step - before))
        yield job.event(attempt.step_line[i], at, kind, attempt.number, step=step)
        before, before_at = step, at
    return (None, 0) if before is None else (before_at, before)


def _completed(job: _Job, last: _Last, rates: list[int]) -> Iterator[Event]:
    """The last step is taken to complete at the usual speed, and not after the end."""
    if last.end_at < last.at:
        return
    median = sorted(rates)[(len(rates) - 1) // 2]
    at = min(last.end_at, last.at + median // _NANO)
    said = {"step": last.step + 1, "attrs": {"inferred": "true"}}
    yield job.event(last.end_line, at, "step", last.attempt, **said)


def _complete(job: _Job) -> Iterator[Event]:
    """Last steps of attempts without a speed of their own: the log's; without that, unknown."""
    for last in job.unrated:
        if job.rates:
            yield from _completed(job, last, job.rates)
