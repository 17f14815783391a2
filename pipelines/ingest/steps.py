"""Steps, phases and ends out of a trainer's lines, as its profile describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

from pipelines.ingest.expressions import compiled
from pipelines.ingest.listener import Context, Line, Told
from pipelines.ingest.profile import Pattern, Profile
from pipelines.taxonomy import DEFAULT, Area

_Values = dict[str, Any]
_Tell = Callable[[Any, Pattern, _Values, Line], list[Told]]
_STARTS = frozenset({"start", "stage", "restored", "train_begin"})
"""Kinds that only a trainer which is starting writes."""
_OUTSIDE = _STARTS | {"attempt_ended"}
"""Kinds of lines that no trainer writes inside its loop."""
_NO_PROGRESS = frozenset({"start", "fact", "clock"})
_START_UP = frozenset(
    name
    for name, component in DEFAULT.components.items()
    if component.area in (Area.HARDWARE_SETUP, Area.LAUNCHER_INIT, Area.TRAINER_INIT)
    or name == "checkpoint_restore"
) - {"trainer_init.first_batch"}
"""Phases that are over when the loop is entered; a loop may itself wait for its first batch."""


@dataclass(slots=True)
class _Entry:
    """What is known of the way into the loop, since the trainer started or was set back."""

    at: int | None = None
    step: int | None = None
    batch: int | None = None
    stage_at: int | None = None
    said_by: Line | None = None
    is_started: bool = False
    is_told: bool = False


class _Position(NamedTuple):
    """What the last step line said: its step, the samples so far, the global batch size."""

    step: int
    samples: int
    batch: int | None


@dataclass(slots=True)
class _Emitter:
    """What was heard from one rank: its last step, when that was, and a step that is held back."""

    rank: int | None
    host: str | None
    entry: _Entry | None = None
    step: int | None = None
    at: Decimal | None = None
    origin: Decimal | None = None
    since: Decimal | None = None
    held: tuple[Line, _Values] | None = None


@dataclass(slots=True)
class Steps:
    """Hears one trainer. Lines without a clock are placed by the durations that they state."""

    context: Context
    profile: Profile
    source: ClassVar[str] = "steps"
    is_amid: ClassVar[bool] = False
    words: frozenset[str] = field(init=False)
    _wanted: dict[frozenset[str], tuple[Pattern, ...]] = field(default_factory=dict)
    _entry: _Entry = field(default_factory=_Entry)
    _emitters: dict[tuple[int | None, str | None], _Emitter] = field(default_factory=dict)
    _interval: int | None = None
    _total: int | None = None
    _is_starting: bool = False
    _is_underway: bool = False  # something else than the start was heard of it
    _outside_at: int | None = None  # the last line that is no part of training: start-up, end
    _launch: int = 1  # in this file
    _ended: Told | None = None
    _begun: dict[tuple[str, int | None], Told] = field(default_factory=dict)
    _voice: _Emitter | None = None  # who speaks of the entries
    _unvoiced: list[Told] = field(default_factory=list)
    _last: _Position | None = None
    _samples_at: dict[int, int] = field(default_factory=dict)  # of entries and saves, by step
    _counts_samples: bool = field(init=False)

    def __post_init__(self) -> None:
        """What to listen for follows from the profile."""
        self.words = frozenset(pattern.needs for pattern in self.profile.patterns)
        steps = (p for p in self.profile.patterns if p.kind == "step")
        self._counts_samples = any("samples" in compiled(p.expression).names for p in steps)

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What the patterns that fit this line tell, in the profile's order."""
        text = line.text if line.is_cut else line.text + "\n"
        told: list[Told] | None = None
        for pattern in self._patterns_for(line.words):
            known = line.read.pop(pattern.name, None) if line.read else None
            said = known or pattern.read(text)
            if said is not None:
                of_this = self._of(pattern, said, line)
                told = of_this if told is None else told + of_this
        return told

    def _patterns_for(self, words: frozenset[str]) -> tuple[Pattern, ...]:
        """Those whose literal is among the words, in the profile's order."""
        known = self._wanted.get(words)
        if known is None:
            known = tuple(p for p in self.profile.patterns if p.needs in words)
            self._wanted[words] = known
        return known

    def end(self) -> Sequence[Told]:
        """Steps held back for a second one that never came, and an end after which lines came."""
        told = [*self._unfulfilled(), *self._unvoiced]
        self._unvoiced = []
        for emitter in self._emitters.values():
            told += self._without_second(emitter)
        if self._ended and (self.context.last_at or 0) > (self._ended.at or 0):
            attrs = {**self._ended.attrs, "clock": "last line"}
            told.append(Told("attempt_ended", self.context.last_at, self._ended.fields, attrs))
        return told

    def _of(self, pattern: Pattern, said: _Values, line: Line) -> list[Told]:
        told: list[Told] = []
        if "clock" in said and (at := self.context.instant(said["clock"])) is not None:
            said["at"] = at
        elif line.at is not None:
            said["at"] = line.at
        if pattern.kind in _STARTS:
            told += self._starting(pattern, said)
        self._is_underway = self._is_underway or pattern.kind not in _NO_PROGRESS
        self._interval = said.get("interval", self._interval)
        if pattern.kind in _OUTSIDE or pattern.says.get("phase") in _START_UP:
            self._outside_at = _latest(self._outside_at, self._now(said))
        if "rank" not in said:
            return told + self._tells[pattern.kind](self, pattern, said, line)
        line = replace(line, rank=said["rank"])
        of_rank = self._tells[pattern.kind](self, pattern, said, line)
        for each in of_rank:
            each.said_by = each.said_by or line
        return told + of_rank

    def _now(self, said: _Values) -> int | None:
        at: int | None = said.get("at", self.context.last_at)
        return at

    # -- starts ----------------------------------------------------------------------------------

    def _starting(self, pattern: Pattern, said: _Values) -> list[Told]:
        """The first sign of a trainer that starts; a start that was under way has failed."""
        is_again = pattern.kind == "start" and self._is_underway
        if self._is_starting and not is_again:
            return []
        told = [*self._unfulfilled(), Told("attempt_started", said.get("at"))]
        self._is_starting = True
        self._ended = self._total = None
        self._entry = _Entry(is_started=True)
        self._launch += self._is_underway
        self._is_underway = False
        self.context.entries += 1
        return told

    def _unfulfilled(self) -> list[Told]:
        """Phases that no end followed, and an entry that no step followed."""
        told, entry = [t for t in self._begun.values() if t.at is not None], self._entry
        self._begun.clear()
        if entry.is_told or entry.at is None or entry.step is None:
            return told
        entry.is_told = True
        samples = self._samples_of(entry.step)
        if samples is None and self._counts_samples:
            return [*told, Told("alive", entry.at, said_by=entry.said_by)]
        fields = {"step": entry.step, "samples": samples}
        begin = Told("train_begin", entry.at, fields, said_by=entry.said_by)
        if self._voice is not None:
            return [*told, _by(self._voice, begin)]
        self._unvoiced.append(begin)
        return told

    def _samples_of(self, step: int) -> int | None:
        """The samples after a step: said before, or its share where every step had as many.

        Batches only grow: if the last line's samples are its steps times its batch, all were equal.
        """
        if step == 0 or step in self._samples_at:
            return self._samples_at.get(step, 0)
        if self._last is not None and step <= self._last.step:
            each, rest = divmod(self._last.samples, self._last.step)
            if not rest and each == self._last.batch:
                return step * each
        return None

    def _start(self, pattern: Pattern, said: _Values, line: Line) -> list[Told]:
        """A start with a time of its own is where the first stage begins."""
        self._entry.stage_at = said.get("at")
        return self._fact(pattern, said, line)

    def _fact(self, _: Pattern, said: _Values, __: Line) -> list[Told]:
        for name, value in said.items():
            if name == "gpus" and self.context.gpus is None:
                self.context.gpus = value
            elif name == "total":
                self._total = value
            elif isinstance(value, str) and name != "clock":
                self.context.fields.setdefault(name, value)
        return []

    def _stage(self, pattern: Pattern, said: _Values, _: Line) -> list[Told]:
        """A phase from the stage before to this one."""
        begin, now = self._entry.stage_at, self._now(said)
        self._entry.stage_at = now
        if begin is None or now is None or not pattern.says.get("phase"):
            return []
        phase = {"phase": pattern.says["phase"]}
        return [Told("phase_begin", begin, phase), Told("phase_end", now, phase)]

    def _restored(self, pattern: Pattern, said: _Values, _: Line) -> list[Told]:
        self._entry.step = said.get("step", pattern.says.get("step"))
        self._take_samples(said)
        return []

    def _take_samples(self, said: _Values) -> None:
        """The samples and the global batch size that are said of the position of the entry."""
        self._entry.batch = said.get("batch", self._entry.batch)
        if "samples" in said and self._entry.step is not None:
            self._samples_at[self._entry.step] = said["samples"]

    def _train_begin(self, _: Pattern, said: _Values, line: Line) -> list[Told]:
        """The entry; told with the first step, which knows more of the position."""
        self._entry.at, self._entry.said_by = self._now(said), line
        self._entry.step = said.get("step", self._entry.step)
        self._take_samples(said)
        return []

    # -- steps -----------------------------------------------------------------------------------

    def _step(self, _: Pattern, said: _Values, line: Line) -> list[Told]:
        """A step line: which emitter's, and of which entry."""
        if not self._is_of_loop(said):
            return []
        said["last_at"] = self.context.last_at
        emitter = self._emitters.get((line.rank, line.host)) or self._new_emitter(line)
        if "since" in said and "at" not in said:
            said["place"] = _on_bar(emitter, said)
        if said["step"] == 0:  # a bar that has just appeared
            self._entry.at = self._entry.at if self._entry.at is not None else self._now(said)
            return []
        if emitter.entry is not self._entry:
            return [*self._without_second(emitter), *self._first(emitter, said, line)]
        return self._next(emitter, said, line)

    def _new_emitter(self, line: Line) -> _Emitter:
        """One who was not heard before; or, after a start, the successor of the only one.

        Megatron's last rank prints: of another number of workers that is another rank.
        """
        voice = self._voice
        is_successor = voice is not None and len(self._emitters) == 1
        if voice is None or not is_successor or voice.entry is self._entry:
            emitter = _Emitter(line.rank, line.host)
            self._voice = voice or emitter
        else:
            emitter = voice
        self._emitters[line.rank, line.host] = emitter
        return emitter

    def _is_of_loop(self, said: _Values) -> bool:
        """Is it no bar of an evaluation, which has another length? Steps count over epochs."""
        total = said.get("total")
        if total is None:
            return True
        self._total = self._total or total
        said["step"] += said.get("epoch", 0) * total
        return "epoch" in said or total == self._total

    def _next(self, emitter: _Emitter, said: _Values, line: Line) -> list[Told]:
        """A step after another one: a lower one is a way back, the same one is printed twice."""
        before = emitter.step or 0
        if said["step"] < before:
            return self._set_back(emitter, said, line)
        if said["step"] == before:
            return []
        if emitter.held is not None:
            return self._release(emitter, said, line)
        self.context.progress += 1
        return [self._step_told(emitter, line, said, said["step"] - before)]

    def _set_back(self, emitter: _Emitter, said: _Values, line: Line) -> list[Told]:
        """A lower step than the last: the trainer went back to a checkpoint."""
        told = self._without_second(emitter)
        self._entry = _Entry()
        self._launch += 1
        self.context.entries += 1
        return told + self._first(emitter, said, line)

    def _without_second(self, emitter: _Emitter) -> list[Told]:
        """A step that was held back for a second one, which does not come."""
        held, emitter.held = emitter.held, None
        if held is None:
            return []
        told = self._step_told(emitter, *held, None)
        return [] if told.at is None else [told]

    def _first(self, emitter: _Emitter, said: _Values, line: Line) -> list[Told]:
        """The first step after an entry: how many it stands for says what came before it."""
        emitter.entry = self._entry
        said["not_before"] = self._not_before(emitter)
        if self._entry.batch is not None:
            said.setdefault("batch", self._entry.batch)
        count = self._count(said["step"])
        if count is None or self._lacks_batch(said, count):
            emitter.held, emitter.step = (line, said), said["step"]
            return []
        return self._entered(emitter, said, line, count)

    def _not_before(self, emitter: _Emitter) -> int | None:
        """What came before the first step and is no part of its training: when it was over.

        The file's first line, the last line of a start-up or an end, the step before a way back.
        """
        before = None if emitter.at is None else round(emitter.at)
        return _latest(self.context.first_at, self._outside_at, before)

    def _count(self, step: int) -> int | None:
        """How many steps the first line stands for."""
        restored = self._entry.step
        if restored is not None and restored < step:
            return step - restored
        return None if self._interval is None else min(self._interval, step)

    def _lacks_batch(self, said: _Values, count: int) -> bool:
        """Does the line leave open how many samples came before it, which a second one can tell?"""
        return "samples" in said and self._samples_before(said, said["step"] - count, count) is None

    def _release(self, emitter: _Emitter, said: _Values, line: Line) -> list[Told]:
        """The second line tells the interval, and so what the first one stands for."""
        held, emitter.held = emitter.held, None
        count = said["step"] - (emitter.step or 0)
        self.context.progress += 1
        told: list[Told] = []
        if held is not None:
            of_first = self._count(held[1]["step"]) or min(count, held[1]["step"])
            told = self._entered(emitter, _with_batch(held[1], said, count), held[0], of_first)
        return [*told, self._step_told(emitter, line, said, count)]

    def _entered(self, emitter: _Emitter, said: _Values, line: Line, count: int) -> list[Told]:
        """The entry into the loop, and the first step."""
        entry, before = self._entry, said["step"] - count
        emitter.at = None if entry.at is None else Decimal(entry.at)
        step = self._step_told(emitter, line, said, count)
        at = self._entry_at(said, step.at, count)
        told: list[Told] = []
        if before == 0 and not entry.is_started:
            told, entry.is_started = [Told("attempt_started", at, said_by=line)], True
        self._is_starting = False
        if at is None or entry.is_told:
            return [*told, step]
        entry.is_told = True
        samples = self._samples_before(said, before, count)
        if samples is None and "samples" in said:
            return [*told, step]  # without samples it would make those of the whole job worthless
        is_said = entry.at is not None and entry.step == before
        attrs = {} if is_said else {"inferred": "true"}
        if samples is not None:
            self._samples_at[before] = samples
        begin = Told("train_begin", at, {"step": before, "samples": samples}, attrs, line)
        speaker = self._voice or emitter
        begins = [_by(speaker, each) for each in (*self._unvoiced, begin)]
        self._unvoiced = []
        return [*told, *begins, step]

    def _entry_at(self, said: _Values, step_at: int | None, count: int) -> int | None:
        """When the loop was entered: as it was said, or by the first step's duration.

        That is the mean of steps of which others may be shorter: it leads to no time at which the
        trainer was still starting.
        """
        if self._entry.at is not None:
            return self._entry.at
        at = self._entry.stage_at
        if step_at is not None and "duration" in said:
            at = step_at - round(said["duration"] * count)
        if at is None:
            return None
        at = _latest(at, said["not_before"])
        return at if at is None or step_at is None else min(at, step_at)

    def _samples_before(self, said: _Values, before: int, count: int) -> int | None:
        """The samples consumed before the first step, where they were said or its line says it."""
        if "samples" not in said:
            return None
        if before == 0:
            return 0
        if (known := self._samples_at.get(before)) is not None:
            return known
        if "batch" not in said:
            return None
        samples: int = said["samples"] - said["batch"] * count
        return samples if samples >= 0 else None

    def _step_told(self, emitter: _Emitter, line: Line, said: _Values, count: int | None) -> Told:
        """A step at its own time, or where the durations since the last known time lead."""
        attrs: dict[str, str] = {}
        at = said.get("at")
        if at is None and (place := self._placed(emitter, said, count)) is not None:
            emitter.at, at = place, round(place)
            self.context.last_at = max(at, self.context.last_at or at)
            attrs = {"clock": "durations"}
        elif at is not None:
            emitter.at = Decimal(at)
        elif (at := said["last_at"]) is not None:
            attrs = {"clock": "line before"}
        step, samples = said["step"], said.get("samples")
        emitter.step = step
        if samples is not None:
            self._last = _Position(step, samples, said.get("batch"))
        self._counts_samples = samples is not None
        fields = {"step": step, "samples": samples, "rank": emitter.rank, "host": emitter.host}
        if emitter.rank != line.rank:
            attrs["printed_by_rank"] = str(line.rank)
        return Told("step", at, fields, attrs, line)

    def _placed(self, emitter: _Emitter, said: _Values, count: int | None) -> Decimal | None:
        """The time of a step that names none. It is not before a time that the file named."""
        last = said["last_at"]
        base = emitter.at if emitter.at is not None else last
        if base is None or last is None:
            return None
        if "place" in said:
            place: Decimal | None = said["place"]
            return place
        if "duration" not in said or count is None:
            return None
        return max(Decimal(base + said["duration"] * count), Decimal(last))

    # -- phases, checkpoints, ends ---------------------------------------------------------------

    def _begin_or_end(self, pattern: Pattern, said: _Values, line: Line) -> list[Told]:
        """A checkpoint's phases carry its step as span, so that saves may overlap.

        And their launch, from the second in the file on: a save that was cut off has no end.

        A begin without a clock waits for its end: where no time was named between them, the log
        does not say how long it was, and neither is told.
        """
        fields, at = _of(pattern, "phase", "blocking"), self._now(said)
        span = fields["phase"], said.get("step")
        if "step" in said:
            self._keep_samples(said["step"])
            again = f", start {self._launch}" if self._launch > 1 else ""
            fields["span_id"] = f"{said['step']}{again}"
        attrs = {} if "at" in said else {"clock": "line before"}
        told = Told(pattern.kind, at, fields, attrs, line)
        waiting = self._begun.pop(span, None)
        if pattern.kind == "phase_begin" and "at" not in said:
            self._begun[span] = told
            return [waiting] if waiting else []
        if waiting is None:
            return [told]
        return [] if waiting.at == at else [waiting, told]

    def _keep_samples(self, step: int) -> None:
        """The samples of a checkpoint, for the run that goes on from it."""
        if self._last is not None and self._last.step == step:
            self._samples_at[step] = self._last.samples

    def _phase(self, pattern: Pattern, said: _Values, _: Line) -> list[Told]:
        """A phase of a stated duration. A line with a clock is its end.

        Of one without a clock only the duration is known: it is put at the last time before, and
        said to be inferred.
        """
        length = round(said["duration"])
        at = said.get("at")
        begin = self.context.last_at if at is None else at - length
        if begin is None:
            return []
        self.context.last_at = max(begin + length, self.context.last_at or 0)
        fields = _of(pattern, "phase", "blocking")
        attrs = {"duration": "stated"}
        if at is None:
            attrs |= {"clock": "line before", "inferred": "true"}
        span = fields | {"span_id": f"stated {begin}"}
        edges = (("phase_begin", begin), ("phase_end", begin + length))
        return [Told(event, when, dict(span), dict(attrs)) for event, when in edges]

    def _durable(self, _: Pattern, said: _Values, __: Line) -> list[Told]:
        self._keep_samples(said["step"])
        return [Told("checkpoint_durable", said.get("at"), {"step": said["step"]})]

    def _interruption(self, pattern: Pattern, said: _Values, line: Line) -> list[Told]:
        cause = _of(pattern, "cause")
        return [Told("interruption", said.get("at"), cause, {"sign": line.text.strip()[:200]})]

    def _attempt_ended(self, pattern: Pattern, said: _Values, line: Line) -> list[Told]:
        fields = _of(pattern, "outcome", "cause")
        attrs = {"sign": line.text.strip()[:200]}
        self._ended = Told("attempt_ended", self._now(said), fields, attrs)
        return [self._ended]

    def _clock(self, _: Pattern, __: _Values, ___: Line) -> list[Told]:
        return []

    _tells: ClassVar[dict[str, _Tell]] = {
        "step": _step,
        "start": _start,
        "stage": _stage,
        "restored": _restored,
        "train_begin": _train_begin,
        "phase_begin": _begin_or_end,
        "phase_end": _begin_or_end,
        "phase": _phase,
        "checkpoint_durable": _durable,
        "interruption": _interruption,
        "attempt_ended": _attempt_ended,
        "fact": _fact,
        "clock": _clock,
    }


def _on_bar(emitter: _Emitter, said: _Values) -> Decimal | None:
    """The time of a state of a progress bar, by the time since it appeared.

    A first bar is there since the last time that the file named, at the latest; another one since
    the last step.
    """
    last, since = said["last_at"], said["since"]
    if last is None:
        return None
    if emitter.origin is None:
        emitter.origin = Decimal(last) - since
    elif since < (emitter.since or 0):
        emitter.origin = Decimal(last) if emitter.at is None else max(Decimal(last), emitter.at)
    emitter.since = since
    return max(emitter.origin + Decimal(since), Decimal(last))


def _latest(*times: int | None) -> int | None:
    """The latest of those that are known."""
    return max((at for at in times if at is not None), default=None)


def _of(pattern: Pattern, *names: str) -> dict[str, Any]:
    """What the profile itself says of such lines."""
    return {name: pattern.says[name] for name in names if name in pattern.says}


def _by(speaker: _Emitter, told: Told) -> Told:
    """The same, said by the one whose steps are read: of several only the lowest is believed."""
    told.fields |= {"rank": speaker.rank, "host": speaker.host}
    return told


def _with_batch(first: _Values, second: _Values, count: int) -> _Values:
    """The first line with the global batch size that a second one, `count` steps later, shows."""
    if "batch" in first or "samples" not in first or "samples" not in second:
        return first
    batch, rest = divmod(second["samples"] - first["samples"], count)
    return first if rest or batch < 0 else {**first, "batch": batch}
