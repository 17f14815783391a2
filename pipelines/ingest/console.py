"""Console logs: lines cleaned and joined, handed to those who understand them; whose job it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import PurePosixPath

from pipelines.ingest.cleaning import LONGEST_CLOCK, Plain, plain
from pipelines.ingest.dlrover import DLRover
from pipelines.ingest.identity import Key
from pipelines.ingest.lines import Lines
from pipelines.ingest.listener import Context, Line, Listener, Told
from pipelines.ingest.nvrx import Nvrx
from pipelines.ingest.profile import Pattern, Profile, built_in
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.settings import Sources
from pipelines.ingest.signs import TRACEBACK, Signs
from pipelines.ingest.steps import Steps
from pipelines.ingest.torchelastic import TorchElastic
from pipelines.ingest.words import Words, words_of

SOURCE = "console"

_HEAD_BYTES = 16 * 1024 * 1024
"""What is read before the trainer and the job have to be known."""
_MOST_PARTS = 4  # of a wrapped line
_LISTENERS: tuple[Callable[[Context], Listener], ...] = (TorchElastic, Nvrx, DLRover, Signs)
_MARKS = (
    " CANCELLED AT ", TRACEBACK, "CUDA out of memory", "NVRM: Xid", "Watchdog caught collective",
    "orker group", "torch.distributed.elastic", "torch/distributed/elastic", "torchelastic",
    "- Cycle: ",
)  # fmt: skip
_ENDINGS = frozenset({"gz", "zst", "log", "out", "err", "txt"})
_LONGEST_ROTATION = 3  # digits

_DATE = re.compile(rb"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")
_FIELDS = re.compile(
    r"SLURM_JOB_?ID\b[=:'\" ]+(?P<slurm_job_id>\d+)"
    r"|\b(?:JOB|STEP) (?P<of_step>\d+)(?:\.\w+)? ON |StepId=(?P<of_error>\d+)"
    r"|--jobid[= ](?P<of_srun>\d+)"
    r"|SLURM_RESTART_COUNT[=:'\" ]+(?P<slurm_restart_count>\d+)"
    r"|SLURM_ARRAY_JOB_ID[=:'\" ]+(?P<slurm_array_job_id>\d+)"
    r"|SLURM_ARRAY_TASK_ID[=:'\" ]+(?P<slurm_array_task_id>\d+)"
    r"|TORCHELASTIC_RUN_ID[=:'\" ]+(?P<torchelastic_run_id>[\w.-]+)"
)
_FIELD_WORDS = frozenset(
    {"SLURM_", "STEP ", "JOB ", "StepId=", "--jobid", "TORCHELASTIC_RUN_ID"}
)  # fmt: skip


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
    marks = words_of((*_MARKS, *_marks(sources.profiles)))
    return bool(marks.found_in(line))


@lru_cache(maxsize=8)
def _marks(profiles: tuple[Profile, ...]) -> tuple[str, ...]:
    """What the site's and the packaged profiles know their lines by."""
    return tuple(mark for profile in (*profiles, *built_in()) for mark in profile.mark)


def _profile_of(line: bytes, sources: Sources) -> Profile | None:
    """The profile whose mark the line holds: the site's own come first."""
    found = words_of(_marks(sources.profiles)).found_in(line)
    if not found:
        return None
    known = (*sources.profiles, *built_in())
    return next(profile for profile in known if not found.isdisjoint(profile.mark))


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """The lines of a console log to what its listeners understand, one job a file.

    Lines that nobody understands are ignored. Where the file names no time at all, all are.
    """
    profile, about, lines = _chosen(lines, reading.sources)
    context = Context(reading)
    context.clock.about = about
    steps: list[Listener] = [Steps(context, profile)] if profile else []
    job = _Job(context, [*steps, *(make(context) for make in _LISTENERS)])
    begins = _begins(profile)
    words = words_of((*job.words, *_literals(begins)))
    cleaner, joiner = _Cleaner(context, words), _Joiner(begins, words)
    for number, raw in lines:
        if not joiner.held and not job.is_amid and cleaner.passes_over(raw):
            reading.tally.ignored_count += 1
        else:
            try:
                cleaned = cleaner.take(number, raw)
            except RejectError as reason:
                yield reading.tally.reject(number, reason, raw.rstrip(b"\n"))
                continue
            for line in joiner.take(cleaned):
                if (reject := job.hear(line)) is not None:
                    yield reject
        yield from job.release(len(raw))
    for line in [*joiner.rest(), *cleaner.rest()]:
        if (reject := job.hear(line)) is not None:
            yield reject
    yield from job.end()


def _chosen(lines: Numbered, sources: Sources) -> tuple[Profile | None, int | None, Numbered]:
    """The profile of the first line with a mark, a time named up to it, and all the lines."""
    seen: list[tuple[int, bytes]] = []
    size = 0
    stream = iter(lines)
    for number, raw in stream:
        seen.append((number, raw))
        size += len(raw)
        if (profile := _profile_of(raw, sources)) is not None:
            return profile, _about(seen), chain(seen, stream)
        if size > _HEAD_BYTES:
            break
    return None, _about(seen), chain(seen, stream)


def _about(head: Iterable[tuple[int, bytes]]) -> int | None:
    """A time that these lines name with its year, in epoch ms: it tells that of the others."""
    for _, raw in head:
        if found := _DATE.search(raw):
            with suppress(ValueError):
                named = datetime.fromisoformat(f"{found[1].decode()}+00:00")
                return round(named.timestamp() * 1000)
    return None


# -- lines ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cleaner:
    """Lines of the file to Lines with their times; the parts that a collector cut are joined."""

    context: Context
    words: Words
    _parts: list[Plain] = field(default_factory=list)
    _number: int = 0
    _owed: int = 0  # lines of the file that no Line stands for yet

    def passes_over(self, raw: bytes) -> bool:
        """Is it plain to see, without cleaning the line, that nobody listens for it?

        It is no part of a cut line, names no clock and no pod, and holds no word.
        """
        if b":" in raw[:LONGEST_CLOCK] or b"\x1b" in raw or b"\r" in raw or raw[:5] == b"[pod/":
            return False
        return not self._owed and not self._parts and not self.words.found_in(raw)

    def take(self, number: int, raw: bytes) -> list[Line]:
        """The states of one line of the file: a carriage return begins another."""
        text = raw.decode(errors="replace")
        is_cut = not text.endswith("\n")
        text = text.rstrip("\r\n")
        if not self._parts and "\r" not in text:
            said = plain(text)
            if not said.is_partial and said.fields is None:  # as most lines are
                self._number = number
                line = self._line_of(said)
                line.lines, line.is_cut, self._owed = self._owed + 1, is_cut, 0
                return [line]
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
        return [self._line_of(said)]

    def _line_of(self, said: Plain) -> Line:
        clock, stamp = self.context.clock, said.stamp or said.collected
        if said.collected and said.stamp and not said.stamp.zone and not clock.zone:
            stamp = said.collected
        placed = clock.of(stamp, self.context.last_at) if stamp else None
        line = Line(self._number, said.text, said.raw, said.rank, said.host)
        if placed is not None:
            line.at = placed.at
            if placed.is_ambiguous:
                line.attrs = placed.attrs
        line.words = self.words.found_in(said.text)
        return line


def _begins(profile: Profile | None) -> tuple[Pattern, ...]:
    """The patterns whose lines a terminal may have wrapped."""
    return tuple(p for p in profile.patterns if p.begins) if profile else ()


def _literals(patterns: Sequence[Pattern]) -> tuple[str, ...]:
    """Every part of such a line that matters holds one of these."""
    return tuple(word for p in patterns for word in (p.needs, p.first_word) if word)


class _Joiner:
    """Joins a line that a terminal wrapped, where only the whole is a line of the profile."""

    def __init__(self, patterns: Sequence[Pattern], words: Words) -> None:
        self._patterns = patterns
        self._literals = frozenset(_literals(patterns))
        self._words = words
        self.held: list[Line] = []

    def take(self, lines: list[Line]) -> list[Line]:
        """Lines in their order; a first part is held back until its rest has come, or has not."""
        if not self._patterns:
            return lines
        if len(lines) == 1:  # as mostly
            return self._one(lines[0])
        return [line for each in lines for line in self._one(each)]

    def rest(self) -> list[Line]:
        """What is held back."""
        held, self.held = self.held, []
        return held

    def _one(self, line: Line) -> list[Line]:
        if not self.held and line.words.isdisjoint(self._literals):
            return [line]
        if self._is_whole(line):
            return [*self.rest(), line]
        return self._begun(line) if not self.held or self._may_begin(line) else self._next(line)

    def _may_begin(self, line: Line) -> bool:
        return any(p.first_word in line.words and p.may_begin(line.text) for p in self._patterns)

    def _begun(self, line: Line) -> list[Line]:
        """A line with which a wrapped one may begin is held back; others are let go."""
        if not self._may_begin(line):
            return [line]
        released, self.held = self.held, [line]
        return released

    def _next(self, line: Line) -> list[Line]:
        """A line behind one that is held back: perhaps its rest."""
        self.held.append(line)
        whole = self._whole()
        if whole is not None:
            self.held = []
            return [whole]
        return self.rest() if len(self.held) >= _MOST_PARTS else []

    def _is_whole(self, line: Line) -> bool:
        """Is it a line of the profile? What it says is kept with it."""
        text = line.text if line.is_cut else line.text + "\n"
        for pattern in self._patterns:
            if pattern.needs in line.words and (said := pattern.read(text)) is not None:
                line.read = {**(line.read or {}), pattern.name: said}
        return line.read is not None

    def _whole(self) -> Line | None:
        """The parts as one line: a terminal drops the space at which it wraps, or it does not."""
        first, last = self.held[0], self.held[-1]
        for between in (" ", ""):
            text = between.join(line.text for line in self.held)
            raw = between.join(line.raw for line in self.held)
            count = sum(line.lines for line in self.held)
            joined = Line(
                first.number, text, raw, first.rank, first.host, first.at, count, last.is_cut,
                first.attrs, self._words.found_in(text),
            )  # fmt: skip
            if self._is_whole(joined):
                return joined
        return None


# -- the job -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Job:
    """The job of one file: its name, its attempts' starts, and events until the name is known."""

    context: Context
    listeners: Sequence[Listener]
    key: Key | None = None
    is_amid: bool = False
    """Does a listener wait for the next line, whatever that is?"""
    _known_ids: frozenset[str] = frozenset()
    _kept: list[Event] = field(default_factory=list)  # they wait for the name of the job
    _slurm_ids: set[str] = field(default_factory=set)
    _first: tuple[int, int] | None = None  # line and time of the first clock
    _launched: tuple[int, int] | None = None  # the same of the start that a launcher tells
    _latest: int | None = None  # of the events
    _bytes: int = 0
    _undated: int = 0
    _is_heard: bool = False  # a state of the line at hand
    _by_words: dict[frozenset[str], tuple[Listener, ...]] = field(default_factory=dict)
    _is_open: bool = False
    _is_counted: bool = False  # the launcher says how many accelerators there are
    _has_step: bool = False
    _ended_at: int | None = None  # the attempt, unless another one has started

    @property
    def words(self) -> tuple[str, ...]:
        """The literals for which somebody listens."""
        own = frozenset[str]().union(_FIELD_WORDS, *(each.words for each in self.listeners))
        return tuple(sorted(own))

    def hear(self, line: Line) -> Reject | None:
        """Hand a line to those who listen for it, and keep what they tell."""
        if line.at is not None:
            self.context.last_at = line.at
        if line.words and not line.words.isdisjoint(_FIELD_WORDS):
            self._name(line.text)
        tally = self.context.reading.tally
        try:
            is_heard = self._tell(line)
        except RejectError as reason:
            tally.ignored_count += max(line.lines - 1, 0)
            return tally.reject(line.number, reason, line.raw.encode(errors="replace"))
        if self._first is None and self.context.last_at is not None:
            self._first = line.number, self.context.last_at
            self.context.first_at = self.context.last_at
        self._is_heard = self._is_heard or is_heard
        if line.lines:
            tally.event_line_count += line.lines if self._is_heard else 0
            tally.ignored_count += 0 if self._is_heard else line.lines
            self._is_heard = False
        return None

    def _tell(self, line: Line) -> bool:
        """Has any listener understood the line, and could its time be told?"""
        is_heard = False
        called = self._listeners_for(line.words)
        for listener in called:
            told = listener.hear(line)
            if told is None:
                continue
            dated = [self._keep(each, line, listener.source) for each in told]
            is_heard = is_heard or not dated or any(dated)
        if called:
            self.is_amid = any(listener.is_amid for listener in called)
        return is_heard

    def _listeners_for(self, words: frozenset[str]) -> tuple[Listener, ...]:
        """Those who listen for one of the words, or are amid something."""
        if self.is_amid:
            return tuple(
                each for each in self.listeners if each.is_amid or not words.isdisjoint(each.words)
            )
        known = self._by_words.get(words)
        if known is None:
            known = tuple(each for each in self.listeners if not words.isdisjoint(each.words))
            self._by_words[words] = known
        return known

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
        at, attrs = told.at, told.attrs
        if at is None and (at := by.at) is None:
            at = self.context.last_at
            attrs = {"clock": "line before", **attrs}
        if source == Steps.source and not self._is_kept(told, by.number, at):
            return True
        if at is None:
            self._undated += 1
            return False
        if by.attrs and at == by.at:
            attrs = {**attrs, **by.attrs}
        if told.event == "attempt_started":  # a launcher's
            self._launched = self._launched or (by.number, at)
            self._is_counted = self._is_counted or "gpus" in told.fields
            self._is_open, self._ended_at = True, None
        elif told.event == "attempt_ended":
            self._ended_at = at
        fields = told.fields
        if "rank" not in fields or "host" not in fields:
            fields = {"rank": by.rank, "host": by.host, **fields}
        said = Said(job_id="", event=told.event, source=source, attrs=attrs or None, **fields)
        self._add((by.number, at, said))
        return True

    def _is_kept(self, told: Told, line: int, at: int | None) -> bool:
        """Is what the trainer tells an event itself? Its start is not.

        A first start opens the attempt, at the file's first time. After an end it opens another.
        Else the trainer started again in its attempt, and its entry into the loop says so.
        """
        is_start = told.event == "attempt_started"
        is_entry = is_start or told.event == "train_begin"
        if is_entry and at is not None and self._ended_at is not None and at >= self._ended_at:
            self._ended_at = None
            self._add((line, at, self._start_said()))
        elif is_start and not self._is_open and not self._has_step:
            if self.key is not None and at is not None:
                self._add((line, at, self._start_said()))
            self._is_open = True
        self._has_step = self._has_step or told.event == "step"
        return not is_start

    def _start_said(self, attrs: dict[str, str] | None = None) -> Said:
        gpus = self.context.gpus
        return Said(job_id="", event="attempt_started", source=SOURCE, gpus=gpus, attrs=attrs)

    def _add(self, event: Event) -> None:
        self._kept.append(event)
        if self._latest is None or event[1] > self._latest:
            self._latest = event[1]

    def release(self, size: int) -> Sequence[Event]:
        """Hand out events once the job is known, or has to be: `size` more bytes were read."""
        self._bytes += size
        begun: list[Event] = []
        if self.key is None:
            is_named = self._slurm_ids and self._has_step and self._is_open
            if self._first is None or (not is_named and self._bytes < _HEAD_BYTES):
                return ()
            begun = list(self._begin())
        elif not self._kept:
            return ()
        kept, self._kept = self._kept, []
        for _, _, said in kept:
            self._name_in(said)
        return begun + kept if begun else kept

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
        at = min([first, *(at for _, at, _ in self._kept)])
        attrs = {"clock": "first line"}
        if restarts := fields.get("slurm_restart_count"):
            attrs["slurm_restart_count"] = restarts
        if self._launched is not None:
            line, at = self._launched
            attrs["clock"] = "launcher"
        is_unsaid = self.context.gpus is not None and not self._is_counted
        if self._launched is None or is_unsaid:
            is_alive = Said(job_id="", event="alive", source=SOURCE, attrs=attrs)
            yield line, at, self._name_in(self._start_said(attrs) if self._is_open else is_alive)
        if not self._is_open and self._has_step:
            self.context.note("no start of a trainer in it: it goes on an attempt, or its part")

    def _name_in(self, said: Said) -> Said:
        """Say whose event it is."""
        key = self.key or Key("")
        said.job_id = key.job_id
        if said.cluster is None:
            said.cluster = key.cluster
        if said.attempt is None:
            said.attempt = key.attempt
        if said.rank is None:
            said.rank = key.rank
        if said.event == "attempt_started":
            said.model, said.team = key.model, key.team
        return said

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> Iterator[Event]:
        """What the listeners still have to tell, a last sign of life, and what is odd."""
        last = Line(self.context.reading.tally.accounted, "", "")
        for listener in self.listeners:
            for told in listener.end():
                self._keep(told, last, listener.source)
        at = self.context.last_at
        is_later = at is not None and (self._latest is None or at > self._latest)
        if at is not None and is_later and self._ended_at is None:
            attrs = {"clock": "last line"}
            said = Said(job_id="", event="alive", source=SOURCE, attrs=attrs)
            self._add((last.number, at, said))
        self._notes()
        if self._first is None:
            return
        if self.key is None:
            yield from self._begin()
        for number, at, said in self._kept:
            yield number, at, self._name_in(said)

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
            context.note("no zone declared, so its times are taken as UTC: declare `zone:` for it "
                         "under `sources:`")  # fmt: skip
        if context.clock.is_year_guessed:
            context.note("its times name no year: it is that of the file's last change")
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
