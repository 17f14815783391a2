"""Console logs: lines cleaned and joined, handed to those who understand them; whose job it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from pipelines.ingest.cleaning import Plain, plain
from pipelines.ingest.dlrover import DLRover
from pipelines.ingest.identity import Key
from pipelines.ingest.lines import Lines
from pipelines.ingest.listener import Context, Line, Listener, Told
from pipelines.ingest.nvrx import Nvrx
from pipelines.ingest.profile import Profile, built_in
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.settings import Sources
from pipelines.ingest.signs import TRACEBACK, Signs
from pipelines.ingest.steps import Steps
from pipelines.ingest.torchelastic import TorchElastic

SOURCE = "console"

_HEAD_BYTES = 16 * 1024 * 1024
"""What is read before the trainer and the job have to be known."""
_MOST_PARTS = 4  # of a wrapped line
_LISTENERS: tuple[Callable[[Context], Listener], ...] = (TorchElastic, Nvrx, DLRover, Signs)
_MARKS = (
    b" CANCELLED AT ", TRACEBACK.encode(), b"CUDA out of memory", b"NVRM: Xid",
    b"Watchdog caught collective", b"orker group", b"torch.distributed.elastic",
    b"torch/distributed/elastic", b"torchelastic", b"- Cycle: ",
)  # fmt: skip
_ENDINGS = frozenset({"gz", "zst", "log", "out", "err", "txt"})
_LONGEST_ROTATION = 3  # digits

_FIELDS = re.compile(
    r"SLURM_JOB_?ID\b[=:'\" ]+(?P<slurm_job_id>\d+)"
    r"|\b(?:JOB|STEP) (?P<of_step>\d+)(?:\.\w+)? ON |StepId=(?P<of_error>\d+)"
    r"|--jobid[= ](?P<of_srun>\d+)"
    r"|SLURM_RESTART_COUNT[=:'\" ]+(?P<slurm_restart_count>\d+)"
    r"|SLURM_ARRAY_JOB_ID[=:'\" ]+(?P<slurm_array_job_id>\d+)"
    r"|SLURM_ARRAY_TASK_ID[=:'\" ]+(?P<slurm_array_task_id>\d+)"
    r"|TORCHELASTIC_RUN_ID[=:'\" ]+(?P<torchelastic_run_id>[\w.-]+)"
)
_FIELD_WORDS = ("SLURM_", "STEP ", "JOB ", "StepId=", "--jobid", "TORCHELASTIC_RUN_ID")


class ConsoleLines(Lines):
    r"""Lines with their `\n`: a last one without it was cut off."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self._is_last = False
        for number, text in super().__iter__():
            yield number, text if self._is_last else text + b"\n"

    def _last(self, held: bytes, *, is_dropping: bool) -> Iterator[tuple[int, bytes]]:
        self._is_last = True
        return super()._last(held, is_dropping=is_dropping)


def is_console(line: bytes, sources: Sources) -> bool:
    """Is this a line of a trainer, a launcher or a scheduler, or a sign of a failure?"""
    return any(mark in line for mark in _MARKS) or _profile_of(line, sources) is not None


def _profile_of(line: bytes, sources: Sources) -> Profile | None:
    """The profile whose mark the line holds: the site's own come first."""
    for profile in (*sources.profiles, *built_in()):
        if any(mark.encode() in line for mark in profile.mark):
            return profile
    return None


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """The lines of a console log to what its listeners understand, one job a file.

    Lines that nobody understands are ignored. Where the file names no time at all, all are.
    """
    profile, lines = _chosen(lines, reading.sources)
    context = Context(reading)
    steps: list[Listener] = [Steps(context, profile)] if profile else []
    job = _Job(context, [*steps, *(make(context) for make in _LISTENERS)])
    cleaner, joiner = _Cleaner(context), _Joiner(profile)
    for number, raw in lines:
        try:
            cleaned = cleaner.take(number, raw)
        except RejectError as reason:
            yield reading.tally.reject(number, reason, raw.rstrip(b"\n"))
            continue
        for line in joiner.take(cleaned):
            yield from job.hear(line)
        yield from job.release(len(raw))
    for line in [*joiner.rest(), *cleaner.rest()]:
        yield from job.hear(line)
    yield from job.end()


def _chosen(lines: Numbered, sources: Sources) -> tuple[Profile | None, Numbered]:
    """The profile of the first line with a mark, and the lines from their begin."""
    seen: list[tuple[int, bytes]] = []
    size = 0
    stream = iter(lines)
    for number, raw in stream:
        seen.append((number, raw))
        size += len(raw)
        if (profile := _profile_of(raw, sources)) is not None:
            return profile, chain(seen, stream)
        if size > _HEAD_BYTES:
            break
    return None, chain(seen, stream)


# -- lines ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cleaner:
    """Lines of the file to Lines with their times; the parts that a collector cut are joined."""

    context: Context
    _parts: list[Plain] = field(default_factory=list)
    _number: int = 0
    _owed: int = 0  # lines of the file that no Line stands for yet

    def take(self, number: int, raw: bytes) -> list[Line]:
        """The states of one line of the file: a carriage return begins another."""
        text = raw.decode(errors="replace")
        is_cut = not text.endswith("\n")
        text = text.rstrip("\r\n")
        states = [s for s in text.split("\r") if s.strip()] if "\r" in text else [text]
        lines: list[Line] = []
        try:
            for state in states or [""]:
                lines += self._line(number, plain(state))
        except RejectError:
            self._parts.clear()
            raise
        self._owed += 1
        return self._counted(lines, is_cut=is_cut)

    def rest(self) -> list[Line]:
        """A part whose rest never came."""
        try:
            lines = self._whole() if self._parts else []
        except RejectError:
            lines = []
        if not lines and self._owed:
            lines = [Line(self._number, "", "")]
        return self._counted(lines, is_cut=True)

    def _counted(self, lines: list[Line], *, is_cut: bool) -> list[Line]:
        """The last of them stands for the lines of the file that came to it."""
        for line in lines:
            line.lines = 0
        if lines:
            lines[-1].lines, lines[-1].is_cut, self._owed = self._owed, is_cut, 0
        return lines

    def _line(self, number: int, said: Plain) -> list[Line]:
        for name, value in (said.fields or {}).items():
            self.context.fields.setdefault(name, value)
        if not self._parts:
            self._number = number
        self._parts.append(said)
        return [] if said.is_partial else self._whole()

    def _whole(self) -> list[Line]:
        """The parts as one. The emitter's clock holds, unless only the collector's names a zone."""
        first, said = self._parts[0], self._parts[-1]
        if len(self._parts) > 1:
            said = plain("".join(part.raw for part in self._parts))
            said.collected = first.collected
        self._parts.clear()
        clock, stamps = self.context.clock, [said.stamp, said.collected]
        if said.stamp and said.collected and not said.stamp.zone and not clock.zone:
            stamps.reverse()
        stamp = stamps[0] or stamps[1]
        placed = clock.of(stamp, self.context.last_at) if stamp else None
        at, attrs = (placed.at, placed.attrs) if placed else (None, {})
        return [Line(self._number, said.text, said.raw, said.rank, said.host, at, attrs=attrs)]


class _Joiner:
    """Joins a line that a terminal wrapped, where only the whole is a line of the profile."""

    def __init__(self, profile: Profile | None) -> None:
        patterns = profile.patterns if profile else ()
        self._patterns = tuple(p for p in patterns if p.begins)
        self._held: list[Line] = []

    def take(self, lines: list[Line]) -> list[Line]:
        """Lines in their order; a first part is held back until its rest has come, or has not."""
        if not self._patterns:
            return lines
        return [line for each in lines for line in self._one(each)]

    def rest(self) -> list[Line]:
        """What is held back."""
        held, self._held = self._held, []
        return held

    def _one(self, line: Line) -> list[Line]:
        if self._is_whole(line):
            return [*self.rest(), line]
        if any(p.may_begin(line.text) for p in self._patterns):
            released, self._held = self._held, [line]
            return released
        if not self._held:
            return [line]
        self._held.append(line)
        whole = self._whole()
        if whole is not None:
            self._held = []
            return [whole]
        return self.rest() if len(self._held) >= _MOST_PARTS else []

    def _is_whole(self, line: Line) -> bool:
        text = line.text if line.is_cut else line.text + "\n"
        return any(p.read(text) is not None for p in self._patterns)

    def _whole(self) -> Line | None:
        """The parts as one line: a terminal drops the space at which it wraps, or it does not."""
        first, last = self._held[0], self._held[-1]
        for between in (" ", ""):
            text = between.join(line.text for line in self._held)
            raw = between.join(line.raw for line in self._held)
            count = sum(line.lines for line in self._held)
            joined = Line(
                first.number, text, raw, first.rank, first.host, first.at, count, last.is_cut,
                first.attrs,
            )  # fmt: skip
            if self._is_whole(joined):
                return joined
        return None


# -- the job -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kept:
    """An event that waits for the name of its job."""

    line: int
    at: int
    event: str
    source: str | None
    fields: dict[str, Any]
    attrs: dict[str, str]


@dataclass(slots=True)
class _Job:
    """The job of one file: its name, its attempts' starts, and events until the name is known."""

    context: Context
    listeners: Sequence[Listener]
    key: Key | None = None
    _known_ids: frozenset[str] = frozenset()
    _kept: list[_Kept] = field(default_factory=list)
    _slurm_ids: set[str] = field(default_factory=set)
    _first: tuple[int, int] | None = None  # line and time of the first clock
    _launched: tuple[int, int] | None = None  # the same of the start that a launcher tells
    _latest: int | None = None  # of the events
    _bytes: int = 0
    _undated: int = 0
    _is_heard: bool = False  # a state of the line at hand
    _is_open: bool = False
    _is_counted: bool = False  # the launcher says how many accelerators there are
    _has_step: bool = False
    _has_ended: bool = False

    def hear(self, line: Line) -> Iterator[Event | Reject]:
        """Hand a line to every listener, and keep what they tell."""
        if line.at is not None:
            self.context.last_at = line.at
        if any(word in line.text for word in _FIELD_WORDS):
            self._name(line.text)
        tally = self.context.reading.tally
        try:
            is_heard = self._tell(line)
        except RejectError as reason:
            yield tally.reject(line.number, reason, line.raw.encode())
            tally.ignored_count += max(line.lines - 1, 0)
            return
        if self._first is None and self.context.last_at is not None:
            self._first = line.number, self.context.last_at
        self._is_heard = self._is_heard or is_heard
        if line.lines:
            tally.event_line_count += line.lines if self._is_heard else 0
            tally.ignored_count += 0 if self._is_heard else line.lines
            self._is_heard = False

    def _tell(self, line: Line) -> bool:
        """Has any listener understood the line, and could its time be told?"""
        is_heard = False
        for listener in self.listeners:
            told = listener.hear(line)
            if told is None:
                continue
            dated = [self._keep(each, line, listener.source) for each in told]
            is_heard = is_heard or not dated or any(dated)
        return is_heard

    def _name(self, text: str) -> None:
        """Fields that join the file to a job, where the line prints them."""
        for found in _FIELDS.finditer(text):
            name = found.lastgroup or ""
            is_slurm = name in ("slurm_job_id", "of_step", "of_error", "of_srun")
            name = "slurm_job_id" if is_slurm else name
            self.context.fields.setdefault(name, found[found.lastgroup or 0])
            if is_slurm:
                self._slurm_ids.add(found[found.lastgroup or 0])

    # -- events ----------------------------------------------------------------------------------

    def _keep(self, told: Told, line: Line, source: str) -> bool:
        """Keep one event; False where no time is known for it."""
        by = told.said_by or line
        at, attrs = told.at, dict(told.attrs)
        if at is None and (at := by.at) is None:
            at = self.context.last_at
            attrs.setdefault("clock", "line before")
        if source == Steps.source and not self._is_kept(told, by.number, at):
            return True
        if at is None:
            self._undated += 1
            return False
        attrs |= by.attrs if at == by.at else {}
        if told.event == "attempt_started":  # a launcher's
            self._launched = self._launched or (by.number, at)
            self._is_counted = self._is_counted or "gpus" in told.fields
            self._is_open, self._has_ended = True, False
        self._has_ended = self._has_ended or told.event == "attempt_ended"
        fields = {"rank": by.rank, "host": by.host} | told.fields
        self._add(_Kept(by.number, at, told.event, source, fields, attrs))
        return True

    def _is_kept(self, told: Told, line: int, at: int | None) -> bool:
        """Is what the trainer tells an event itself? Its start is not.

        A first start opens the attempt, at the file's first time. After an end it opens another.
        Else the trainer started again in its attempt, and its entry into the loop says so.
        """
        is_start = told.event == "attempt_started"
        if self._has_ended and at is not None and (is_start or told.event == "train_begin"):
            self._has_ended = False
            self._add(_Kept(line, at, "attempt_started", SOURCE, self._gpus(), {}))
        elif is_start and not self._is_open and not self._has_step:
            if self.key is not None and at is not None:
                self._add(_Kept(line, at, "attempt_started", SOURCE, self._gpus(), {}))
            self._is_open = True
        self._has_step = self._has_step or told.event == "step"
        return not is_start

    def _gpus(self) -> dict[str, Any]:
        return {} if self.context.gpus is None else {"gpus": self.context.gpus}

    def _add(self, kept: _Kept) -> None:
        self._kept.append(kept)
        self._latest = kept.at if self._latest is None else max(self._latest, kept.at)

    def release(self, size: int) -> Iterator[Event]:
        """Hand out events once the job is known, or has to be: `size` more bytes were read."""
        self._bytes += size
        if self.key is None:
            is_named = self._slurm_ids and self._has_step and self._is_open
            if not is_named and self._bytes < _HEAD_BYTES:
                return
            if self._first is None:
                return
            yield from self._begin()
        for kept in self._kept:
            yield self._event(kept)
        self._kept.clear()

    def _begin(self) -> Iterator[Event]:
        """Name the job; its attempt starts with the file's first time, where the trainer starts.

        Where a launcher says when, that is the start, and the trainer only adds the accelerators.
        """
        reading, fields = self.context.reading, self.context.fields
        one = len(self._slurm_ids) == 1
        own_id = next(iter(self._slurm_ids)) if one else job_id(reading.file.name)
        if len(self._slurm_ids) > 1:
            self.context.note("several Slurm jobs wrote it: the job has the file's name")
        self.key, self._known_ids = reading.key(own_id, fields), frozenset(self._slurm_ids)
        line, first = self._first or (1, 0)
        at = min([first, *(kept.at for kept in self._kept)])
        attrs = {"clock": "first line"}
        if restarts := fields.get("slurm_restart_count"):
            attrs["slurm_restart_count"] = restarts
        if self._launched is not None:
            line, at = self._launched
            attrs["clock"] = "launcher"
        if self._launched is None or (self._gpus() and not self._is_counted):
            kind = "attempt_started" if self._is_open else "alive"
            said = self._gpus() if self._is_open else {}
            yield self._event(_Kept(line, at, kind, SOURCE, said, attrs))
        if not self._is_open and self._has_step:
            self.context.note("no start of a trainer in it: it goes on an attempt, or its part")

    def _event(self, kept: _Kept) -> Event:
        key = self.key or Key("")
        said: dict[str, Any] = {"cluster": key.cluster, "attempt": key.attempt, **kept.fields}
        if said.get("rank") is None:
            said["rank"] = key.rank
        if kept.event == "attempt_started":
            said |= {"model": key.model, "team": key.team}
        return kept.line, kept.at, Said(
            job_id=key.job_id, event=kept.event, source=kept.source,
            attrs=kept.attrs or None, **said,
        )  # fmt: skip

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> Iterator[Event]:
        """What the listeners still have to tell, a last sign of life, and what is odd."""
        last = Line(self.context.reading.tally.accounted, "", "")
        for listener in self.listeners:
            for told in listener.end():
                self._keep(told, last, listener.source)
        at = self.context.last_at
        if at is not None and (self._latest is None or at > self._latest) and not self._has_ended:
            self._add(_Kept(last.number, at, "alive", SOURCE, {}, {"clock": "last line"}))
        self._notes()
        if self._first is None:
            return
        if self.key is None:
            yield from self._begin()
        for kept in self._kept:
            yield self._event(kept)

    def _notes(self) -> None:
        context, tally = self.context, self.context.reading.tally
        if self._first is None:
            tally.ignored_count += tally.event_line_count
            tally.event_line_count = 0
            context.note("no line of it names a time: nothing can be told of it")
            return
        if self._undated:
            context.note(f"{self._undated} events before the first time are lost")
        if context.clock.is_assumed:
            context.note("no zone declared: its times are taken as UTC; declare `zone:` for it "
                         "under `sources:`")  # fmt: skip
        if context.clock.is_yearless:
            context.note("some times name no year: it is that of the nearest line that does, else "
                         "of the file's last change")  # fmt: skip
        if self.key is not None and self._slurm_ids != self._known_ids:
            context.note("a Slurm job is named behind the place where the job had to be known")


def job_id(name: str) -> str:
    """The job of a file that names none: its own name, without endings and rotation.

    >>> job_id("runs/tr11.out.2.gz"), job_id("slurm-123.out"), job_id("a.2024.log")
    ('runs/tr11', 'slurm-123', 'a.2024')
    """
    path = PurePosixPath(name)
    while path.suffix and _is_ending(path.suffix[1:]):
        path = path.with_suffix("")
    return str(path)


def _is_ending(suffix: str) -> bool:
    return suffix in _ENDINGS or (suffix.isdecimal() and len(suffix) <= _LONGEST_ROTATION)


FORMAT = Format(SOURCE, ConsoleLines, parse, knows_line=is_console, is_weak=True)
