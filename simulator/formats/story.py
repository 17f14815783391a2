"""What happened to one job, kept until other writers tell it: moments, launches, allocations."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.intents import Layout
from simulator.logs import LogFiles, Pen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipelines.taxonomy import Outcome
    from simulator.formats.rebook import RecordedBook, Run


class Moment(NamedTuple):
    """One line of the lifecycle log: when, its event, its other fields."""

    at_ms: int
    event: str
    fields: Mapping[str, Any]


class Steps(NamedTuple):
    """Step lines that follow one another; `samples` None where positions are steps."""

    times: Sequence[int]
    steps: Sequence[int]
    samples: Sequence[int] | None


class Span(NamedTuple):
    """A phase from `begin` to `end` (None: it never ended); not `blocking`: beside training."""

    phase: str
    begin: int
    end: int | None
    blocking: bool


class Nowhere(LogFiles):
    """Log files that nobody keeps: the lines are only counted."""

    def append(self, name: str, text: bytes) -> None:
        """Forget the lines."""


@dataclass(slots=True)
class Recorder(Pen):
    """A pen that keeps what it writes: of many ranks, what the job as a whole did.

    `moments` and `steps` lie under the number of their attempt, None before the first.
    """

    moments: dict[int | None, list[Moment]] = field(default_factory=dict)
    steps: dict[int | None, list[Steps]] = field(default_factory=dict)

    def say(self, at_ms: int, event: str, **fields: Any) -> None:
        """One line of the job itself."""
        Pen.say(self, at_ms, event, **fields)
        self._keep(at_ms, event, fields)

    def say_scheduler(self, at_ms: int, event: str, **fields: Any) -> None:
        """One line of the scheduler; where it keeps no log of its own, the job says it."""
        Pen.say_scheduler(self, at_ms, event, **fields)
        if self.layout is Layout.BY_DAY:
            self._keep(at_ms, event, fields)

    def say_steps(
        self, times: Sequence[int], steps: range, samples: range | None, *, until: int
    ) -> None:
        """Step lines."""
        Pen.say_steps(self, times, steps, samples, until=until)
        self.steps.setdefault(self.attempt, []).append(Steps(times, steps, samples))

    def _keep(self, at_ms: int, event: str, fields: Mapping[str, Any]) -> None:
        """The first rank begins a phase or enters the loop, the last one ends the phase."""
        speaker = self.ranks[-1] if self.ranks and event == "phase_end" else 0
        if fields.get("rank") in (None, speaker):
            self.moments.setdefault(self.attempt, []).append(Moment(at_ms, event, fields))


@dataclass(slots=True)
class Launch:
    """One attempt of the course: the launcher was started once. `end` None: it still runs.

    `moments`, `spans` and `steps` come in order of time.
    """

    number: int
    start: int
    end: int | None
    gpus: int
    outcome: Outcome
    moments: Sequence[Moment]
    spans: Sequence[Span]
    steps: Sequence[Steps]

    def of(self, event: str) -> list[Moment]:
        """Its moments of one kind, in order of time."""
        return [m for m in self.moments if m.event == event]

    def trains_between(self, begin: int, end: int) -> bool:
        """Does a step end in `(begin, end]`?"""
        return any(bisect_right(s.times, end) > bisect_right(s.times, begin) for s in self.steps)

    def trains_after(self, at_ms: int) -> bool:
        """Does a step end after `at_ms`?"""
        return any(s.times[-1] > at_ms for s in self.steps)

    def step_at(self, at_ms: int) -> int:
        """The step last completed by then, 0 where none was."""
        marks = [(m.at_ms, m.fields["step"]) for m in self.of("train_begin") if m.at_ms <= at_ms]
        done = ((own, bisect_right(own.times, at_ms)) for own in self.steps)
        marks += [(own.times[n - 1], own.steps[n - 1]) for own, n in done if n]
        return int(max(marks)[1]) if marks else 0

    @property
    def last_ms(self) -> int:
        """When the job itself was last heard of."""
        own = [m.at_ms for m in self.moments if not m.event.startswith(("attempt_", "job_"))]
        return max([self.start, *own, *(s.times[-1] for s in self.steps)])

    @property
    def cause(self) -> str | None:
        """Why it failed, as far as anybody said; None where it did not fail."""
        if not self.outcome.is_failure:
            return None
        if ended := self.of("attempt_ended"):
            return ended[-1].fields.get("cause")
        struck = [m for m in self.of("interruption") if not self.trains_after(m.at_ms)]
        return struck[-1].fields.get("cause") if struck else None


@dataclass(slots=True)
class Allocation:
    """Hardware granted once: one launch, or several where it was kept. `end` None: still held."""

    number: int
    launches: Sequence[Launch]
    end: int | None

    @property
    def start(self) -> int:
        """When it was granted."""
        return self.launches[0].start

    @property
    def gpus(self) -> int:
        """Accelerators granted: what a smaller launch leaves idle is held all the same."""
        return self.launches[0].gpus

    @property
    def last(self) -> Launch:
        """The launch that it ended with."""
        return self.launches[-1]


@dataclass(slots=True)
class Story:
    """One job. `submitted` None: it was never submitted. `is_lost`: it died, nobody said so."""

    job_id: str
    submitted: int | None
    allocations: Sequence[Allocation]
    is_lost: bool


def story(pen: Recorder, book: RecordedBook) -> Story:
    """The story of the job that `pen` wrote and `book` booked."""
    first = [m.at_ms for m in pen.moments.get(None, []) if m.event == "job_submitted"]
    runs = book.runs
    launches = [
        _launch(pen, run, is_over=not (book.is_censored and run is runs[-1])) for run in runs
    ]
    groups = list(_groups(launches, [run.is_held for run in runs]))
    is_kept = book.waits_held
    allocations = [
        Allocation(i, own, None if is_kept and own is groups[-1] else own[-1].end)
        for i, own in enumerate(groups)
    ]
    return Story(
        pen.job_id, first[0] if first else None, allocations, "presumed_dead" in book.flags
    )


def _launch(pen: Recorder, run: Run, *, is_over: bool) -> Launch:
    moments = sorted(pen.moments.get(run.number, []), key=lambda m: m.at_ms)
    return Launch(
        number=run.number,
        start=run.start,
        end=run.end if is_over else None,
        gpus=run.gpus,
        outcome=run.outcome,
        moments=moments,
        spans=_spans(moments),
        steps=pen.steps.get(run.number, []),
    )


def _spans(moments: Sequence[Moment]) -> list[Span]:
    """Phases in order of begin; an end closes the latest open begin of its phase."""
    spans: list[Span] = []
    still_open: dict[tuple[str, bool], list[int]] = {}
    for at, event, fields in moments:
        key = str(fields.get("phase")), bool(fields.get("blocking", True))
        if event == "phase_begin":
            still_open.setdefault(key, []).append(len(spans))
            spans.append(Span(key[0], at, None, key[1]))
        elif event == "phase_end":
            place = still_open[key].pop()
            spans[place] = spans[place]._replace(end=at)
    return spans


def _groups(launches: Sequence[Launch], held: Sequence[bool]) -> Iterator[list[Launch]]:
    """Launches on the same hardware together."""
    begins = [i for i, is_held in enumerate(held) if not is_held]
    for begin, end in pairwise([*begins, len(launches)]):
        yield list(launches[begin:end])
