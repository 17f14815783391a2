"""MLPerf logs: lines with `:::MLLOG {json}`; one file is one job with one attempt."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import msgspec

from pipelines.ingest.accelerators import count_accelerators
from pipelines.ingest.records import (
    Event,
    Numbered,
    Reading,
    Reject,
    RejectError,
    Said,
)
from pipelines.ingest.signs import SIGNS, TELLING, sign_in
from pipelines.ingest.times import END_MS, LEAST_INTEGER_MS
from pipelines.taxonomy import Outcome

SOURCE = "mllog"
MARKER = b":::MLLOG"

_INIT, _EVALUATION = "trainer_init", "evaluation"
_PATH_PARTS = 3  # MLPerf's layout is <system>/<benchmark>/result_<n>.txt
_STATUS = {"success": Outcome.SUCCEEDED, "aborted": Outcome.CANCELLED}
_PLACEHOLDER = re.compile(r"PLACEHOLDER")
_WORLD = re.compile(rb"GLOBAL_RANK: \d+, MEMBER: \d+/(\d{1,6})\b")


@dataclass(slots=True)
class _Moment:
    """A time and the line that said it."""

    at: int
    line: int


@dataclass(slots=True)
class _Run:
    """What the lines of one file come to, folded over the ranks.

    Only marks and evaluations grow with the file, by some integers each.
    """

    first: _Moment | None = None
    last: _Moment | None = None
    init_start: _Moment | None = None
    init_stop: _Moment | None = None
    run_start: _Moment | None = None
    run_stop: _Moment | None = None
    status: Any = None
    ranks_started: int = 0
    # Columns side by side: time, line, and samples of marks; whether a block began with it.
    mark_at: array[int] = field(default_factory=lambda: array("q"))
    mark_line: array[int] = field(default_factory=lambda: array("q"))
    mark_samples: array[int] = field(default_factory=lambda: array("q"))
    mark_begins: bytearray = field(default_factory=bytearray)
    evaluations: list[tuple[int, int, bool, Any]] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    batch_size: int | None = None
    world_sizes: set[int] = field(default_factory=set)
    sign: tuple[int, str] | None = None  # which of SIGNS, and the words found


class _Line(msgspec.Struct):
    time_ms: Any = None
    key: Any = None
    value: Any = None
    metadata: Any = None


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """MLLOG lines to the events of one job, which come after the last line.

    Lines without the marker and settings are ignored; lines with it that cannot be read are
    rejects. A file in which no run begins, ends or is described (a power meter's) has no job.
    """
    run = _Run()
    tally = reading.tally
    for number, text in lines:
        if MARKER not in text:
            _overhear(run, text)
            tally.ignored_count += 1
            continue
        try:
            entry = _decode(text.partition(MARKER)[2])
            has_told = _tell(run, number, entry)
        except RejectError as reason:
            yield tally.reject(number, reason, text)
            continue
        tally.event_line_count += has_told
        tally.ignored_count += not has_told
    if tally.event_line_count:
        yield from _events(run, reading)
    else:
        tally.notes.append("no line of it tells of a run: no job")


def _overhear(run: _Run, text: bytes) -> None:
    """What other programs' lines tell: the world size, and signs of a failure."""
    if found := _WORLD.search(text):
        run.world_sizes.add(int(found[1]))
    elif (sign := sign_in(text.decode(errors="replace"))) and sign[0] < TELLING:
        run.sign = min(run.sign or sign, sign)


def _decode(text: bytes) -> _Line:
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as strict:
        try:  # The logger writes NaN and Infinity, which strict JSON has not.
            entry = json.loads(text)
            json.dumps(entry, ensure_ascii=False).encode()  # no lone surrogates
        except (ValueError, RecursionError):
            raise RejectError(f"a torn {MARKER.decode()} line, not JSON: {strict}") from None
        if not isinstance(entry, dict):
            raise RejectError(f"{MARKER.decode()} is followed by no JSON object") from None
        return msgspec.convert(entry, _Line)


_decoder = msgspec.json.Decoder(_Line)


def _tell(run: _Run, number: int, entry: _Line) -> bool:
    """Fold one line into the run; False where it says nothing that is read."""
    at = _time(entry.time_ms)
    if not isinstance(entry.key, str):
        raise RejectError(f"key is {entry.key!r}: expected a string")
    here = _Moment(at, number)
    if run.first is None or at < run.first.at:
        run.first = here
    if run.last is None or at >= run.last.at:
        run.last = here
    metadata = entry.metadata if isinstance(entry.metadata, dict) else {}
    has_mark = entry.key in _PROGRESS and _add_mark(run, here, entry.key, metadata)
    fold = _FOLDS.get(entry.key)
    if fold is not None:
        fold(run, here, entry, metadata)
    return has_mark or fold is not None


def _time(value: Any) -> int:
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    if is_whole and LEAST_INTEGER_MS <= value < END_MS:
        return int(value)
    raise RejectError(f"time_ms is {value!r}: expected epoch milliseconds, from 10^11 on")


# Keys whose samples_count is the training position. Of the others, eval_stop and eval_accuracy
# count the evaluation's own samples in some logs.
_PROGRESS = frozenset({"block_start", "block_stop", "eval_start", "train_loss", "run_stop"})


def _add_mark(run: _Run, here: _Moment, key: str, metadata: dict[str, Any]) -> bool:
    samples = _count(metadata.get("samples_count"))
    if samples is None:
        return False
    run.mark_at.append(here.at)
    run.mark_line.append(here.line)
    run.mark_samples.append(samples)
    run.mark_begins.append(key == "block_start")
    return True


def _count(value: Any) -> int | None:
    """A whole number from 0 to 2^63 - 1, also where written as 1536.0; else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**63 and value % 1 == 0 else None


def _init_start(run: _Run, here: _Moment, _: _Line, __: dict[str, Any]) -> None:
    run.ranks_started += 1
    run.init_start = _earlier(run.init_start, here)


def _init_stop(run: _Run, here: _Moment, _: _Line, __: dict[str, Any]) -> None:
    run.init_stop = _later(run.init_stop, here)


def _run_start(run: _Run, here: _Moment, _: _Line, __: dict[str, Any]) -> None:
    run.run_start = _earlier(run.run_start, here)


def _run_stop(run: _Run, here: _Moment, _: _Line, metadata: dict[str, Any]) -> None:
    run.run_stop = _later(run.run_stop, here)
    if run.run_stop is here:
        run.status = metadata.get("status")


def _evaluation(run: _Run, here: _Moment, entry: _Line, metadata: dict[str, Any]) -> None:
    of = tuple(str(metadata.get(key)) for key in ("samples_count", "epoch_num", "step_num"))
    run.evaluations.append((here.at, here.line, entry.key == "eval_start", of))


def _word(run: _Run, _: _Moment, entry: _Line, __: dict[str, Any]) -> None:
    if isinstance(entry.value, str) and entry.value:
        run.words.setdefault(entry.key, entry.value)


def _batch_size(run: _Run, _: _Moment, entry: _Line, __: dict[str, Any]) -> None:
    run.batch_size = _count(entry.value) or run.batch_size


def _earlier(kept: _Moment | None, here: _Moment) -> _Moment:
    return here if kept is None or here.at < kept.at else kept


def _later(kept: _Moment | None, here: _Moment) -> _Moment:
    return here if kept is None or here.at >= kept.at else kept


_FOLDS: dict[str, Callable[[_Run, _Moment, _Line, dict[str, Any]], None]] = {
    "init_start": _init_start,
    "init_stop": _init_stop,
    "run_start": _run_start,
    "run_stop": _run_stop,
    "eval_start": _evaluation,
    "eval_stop": _evaluation,
    "submission_benchmark": _word,
    "submission_org": _word,
    "submission_platform": _word,
    "global_batch_size": _batch_size,
}


def _events(run: _Run, reading: Reading) -> Iterator[Event]:
    """The events of a run whose lines are all folded."""
    job = job_id(reading.file.name)

    def event(here: _Moment, kind: str, **said: Any) -> Event:
        return here.line, here.at, Said(job_id=job, event=kind, attempt=0, **said)

    yield _start(run, reading, event)
    for here, kind in ((run.init_start, "phase_begin"), (run.init_stop, "phase_end")):
        if here:
            yield event(here, kind, phase=_INIT)
    for here, kind in _evaluations(run):
        yield event(here, kind, phase=_EVALUATION)
    yield from _progress(run, event)
    yield from _end(run, event)
    reading.tally.notes.extend(_notes(run))


_Make = Callable[..., Event]


def job_id(name: str) -> str:
    """The job of a file: its name without the suffix, and without that of a compression.

    >>> job_id("NVIDIA/results/eos_n8_ngc23.04/bert/result_4.txt.gz")
    'NVIDIA/results/eos_n8_ngc23.04/bert/result_4'
    """
    path = PurePosixPath(name)
    if path.suffix in (".gz", ".zst"):
        path = path.with_suffix("")
    return str(path.with_suffix(""))


def _start(run: _Run, reading: Reading, event: _Make) -> Event:
    """The attempt starts with the file's earliest line: what the launcher did is wall time too."""
    platform = run.words.get("submission_platform", "")
    count = count_accelerators(
        platform=platform,
        path="/".join(PurePosixPath(reading.file.path).parts[-_PATH_PARTS:]),
        ranks_started=run.ranks_started,
        world_sizes=run.world_sizes,
    )
    if count.number is None:
        reading.tally.notes.append(f"accelerators unknown: {count.evidence}")
    return event(
        run.first,
        "attempt_started",
        gpus=count.number,
        model=_name(run, "submission_benchmark"),
        team=_name(run, "submission_org"),
        attrs={"gpus_from": count.evidence} | ({"platform": platform} if platform else {}),
    )


def _name(run: _Run, key: str) -> str | None:
    """A submission field, unless it is a form that nobody filled in."""
    word = run.words.get(key)
    return None if word is None or _PLACEHOLDER.search(word) else word


def _evaluations(run: _Run) -> Iterator[tuple[_Moment, str]]:
    """Begins and ends of evaluations, the ranks' duplicates folded: first start, last stop.

    Starts that follow one another without a stop are one evaluation where they name the same
    position; else the earlier was never closed, and stays a begin without an end.
    """
    opened: Any = None
    stop: _Moment | None = None
    for at, line, is_start, position in sorted(run.evaluations):
        here = _Moment(at, line)
        if not is_start:
            stop = here
            continue
        if stop:
            yield stop, "phase_end"
            opened, stop = None, None
        if opened != position:
            yield here, "phase_begin"
            opened = position
    if stop:
        yield stop, "phase_end"


def _progress(run: _Run, event: _Make) -> Iterator[Event]:
    """The entry into the loop and the steps: a step wherever the samples rise.

    Samples that never rise are no position: then the run, from its start to its stop, is one step.
    """
    marks = sorted(zip(run.mark_at, run.mark_samples, run.mark_line, run.mark_begins, strict=True))
    entry = run.run_start or run.init_stop or (_Moment(marks[0][0], marks[0][2]) if marks else None)
    if entry is None:
        return
    attrs = None if run.run_start else {"inferred": "true"}
    marks = [mark for mark in marks if mark[0] >= entry.at]
    base = marks[0][1] if marks and (marks[0][3] or not (run.run_start or run.init_stop)) else 0
    rising = _rising(marks, base)
    if rising:
        yield event(entry, "train_begin", step=_step(run, base, 0), samples=base, attrs=attrs)
        for order, (here, samples) in enumerate(rising, start=1):
            yield event(here, "step", step=_step(run, samples, order), samples=samples)
        return
    yield event(entry, "train_begin", step=0, attrs=attrs)
    if run.run_stop and run.run_stop.at >= entry.at:
        yield event(run.run_stop, "step", step=1)


def _rising(marks: list[tuple[int, int, int, int]], base: int) -> list[tuple[_Moment, int]]:
    """Of marks in time order those above all before them, and above `base`.

    Some logs give a block's begin at its end, and a checkpoint's position when it is evaluated
    later: neither rises, neither is progress.
    """
    rising, highest = [], base
    for at, samples, line, _ in marks:
        if samples > highest:
            rising.append((_Moment(at, line), samples))
            highest = samples
    return rising


def _step(run: _Run, samples: int, order: int) -> int:
    """The optimiser step of a position; its rank among the marks where the batch is not said."""
    return samples // run.batch_size if run.batch_size else order


def _end(run: _Run, event: _Make) -> Iterator[Event]:
    """The attempt ends with the file's latest line, where the log says that it ended.

    `aborted` means that the target quality was not reached: nobody's failure, so `cancelled`.
    """
    if run.last is None:
        return
    if run.run_stop:
        here = _Moment(run.last.at, run.run_stop.line)
        outcome, attrs = _outcome(run.status)
        yield event(here, "attempt_ended", outcome=outcome, attrs=attrs)
    elif run.sign is not None:
        sign, words = run.sign
        of = SIGNS[sign]
        attrs = {"sign": words}
        yield event(run.last, "attempt_ended", outcome=of.outcome, cause=of.cause, attrs=attrs)


def _outcome(status: Any) -> tuple[str | None, dict[str, str] | None]:
    if status is None:
        return None, None
    attrs = {"status": str(status)}
    known = _STATUS.get(status) if isinstance(status, str) else None
    return known or Outcome.UNKNOWN, attrs


def _notes(run: _Run) -> Iterator[str]:
    """What is odd about the file, in words."""
    if not run.init_start:
        yield "no init_start: the time before the run is unattributed"
    if not run.run_start:
        yield "no run_start: the entry into the loop is inferred"
    if not run.run_stop and run.sign is None:
        yield "no run_stop and no sign of a failure: the end is unknown"
    elif not run.run_stop:
        yield "no run_stop, and a sign of a failure: failed"
    for key in ("submission_benchmark", "submission_org"):
        if key in run.words and not _name(run, key):
            yield f"{key} is the placeholder {run.words[key]}"
