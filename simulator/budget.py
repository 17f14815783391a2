"""How many lines a fleet will write, and the log intervals that make it write as many as wanted."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from pipelines.errors import UsageError
from simulator.intents import DAY_MS, LOW, Ending, Intent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from simulator.scenario import Scenario

_LONGEST_LINE_MS = 600_000
_USUAL_ETT = 0.8
_LINES_PER_ATTEMPT = 34
_LINES_PER_SAVE = 3
_LINES_AFTER = 8
_HOURS_PER_DAY = 24
_LINES_PER_UPLOAD = 5
_SCALES = (1e-4, 1e4)
_HALVINGS = 40
_SAMPLED = 512
_TRUST = 0.05
_MARGIN = 1.15


@dataclass(frozen=True, slots=True)
class Expectation:
    """Of one job: steps it will log (each rank's), and lines it writes however often it logs."""

    steps: float
    other_lines: float


def expect(scenario: Scenario, intent: Intent, as_of_ms: int) -> Expectation:
    """What `intent` is likely to write by `as_of_ms`."""
    room = as_of_ms - intent.submitted_ms - intent.queue_ms
    if room <= 0:
        return Expectation(0, 1)
    saved_s = scenario.checkpoint_seconds(intent.gpus)
    stops = _stops_per_day(scenario, intent)
    work = intent.stop_step * intent.step_ms
    repeated = work * stops * saved_s / 2 * 1000 / DAY_MS
    trained = min(work + repeated, room * _USUAL_ETT)
    days = trained / _USUAL_ETT / DAY_MS
    attempts = 1 + stops * days
    if intent.ending is Ending.FAILED:
        attempts += intent.crashes - 1
    bumps = scenario.data_stalls_per_day + scenario.stalls_per_day + scenario.recompiles_per_day
    asynchronous = scenario.async_checkpoint_ratio
    save = _LINES_PER_UPLOAD * asynchronous + _LINES_PER_SAVE * (1 - asynchronous)
    saves = trained / 1000 / saved_s * save
    phases = 2 * (bumps * days + trained / 1000 / scenario.evaluation_every_s)
    ranks = len(intent.habits.ranks) or 1
    return Expectation(
        steps=trained / intent.step_ms * ranks,
        other_lines=ranks * (attempts * _LINES_PER_ATTEMPT + saves + phases) + _LINES_AFTER,
    )


def _stops_per_day(scenario: Scenario, intent: Intent) -> float:
    stops = scenario.failures_per_gpu_day * intent.gpus + scenario.drains_per_day
    stops += _HOURS_PER_DAY / scenario.time_limit_h
    if intent.priority == LOW:
        stops += scenario.preemptions_per_day
    return stops / (1 - scenario.start_up_failure_ratio)


def log_interval(intent: Intent, scale: float) -> float:
    """Steps per line where lines are `scale` times as rare as intended; never over ten minutes."""
    most = max(1.0, _LONGEST_LINE_MS / intent.step_ms)
    return min(max(1.0, intent.log_every * scale), most)


@dataclass(slots=True)
class _Count:
    """Lines of one kind: expected of all jobs, and expected and written of those that are over."""

    expected: float = 0.0
    due: float = 0.0
    written: float = 0.0

    @property
    def left(self) -> float:
        """Lines to come, after what the expectations have been worth so far."""
        trust = self.expected * _TRUST
        return (self.expected - self.due) * (self.written + trust) / (self.due + trust + 1)


@dataclass(slots=True)
class Budget:
    """Lines still to be written against what the jobs to come will write at `scale`.

    `order`: the jobs' indices, those that write most first, so that the others can make up for
    what those wrote too much or too little.
    """

    lines: float
    scale: float
    order: Sequence[int] = ()
    steps: _Count = field(default_factory=_Count)
    others: _Count = field(default_factory=_Count)

    def allow(self, intent: Intent) -> float:
        """Steps per line for the next job."""
        room = max(self.lines - self.others.left, 1.0)
        return log_interval(intent, self.scale * self.steps.left / room)

    def spend(
        self, intent: Intent, expected: Expectation, lines: tuple[int, int], every: int
    ) -> None:
        """The job `expected` so has written `lines` (of steps, others), a step line per `every`."""
        step_lines, other_lines = lines
        usual = log_interval(intent, self.scale)
        self.lines -= step_lines + other_lines
        self.steps.due += expected.steps / usual
        self.steps.written += step_lines * every / usual
        self.others.due += expected.other_lines
        self.others.written += other_lines


def plan_budget(
    wanted: int, jobs: int, expectations: Iterator[tuple[Intent, Expectation]]
) -> Budget:
    """The budget of `jobs` jobs, of which `expectations` tells, that are to write `wanted` lines.

    The scale comes from the first of them. Raises UsageError where no log interval does.
    """
    sample = list(islice(expectations, _SAMPLED))
    target = wanted * len(sample) / jobs
    _check(wanted, sample, jobs)
    low, high = _SCALES
    for _ in range(_HALVINGS):
        scale = (low * high) ** 0.5
        low, high = (scale, high) if _lines(sample, scale) > target else (low, scale)
    planned = Budget(wanted, scale)
    sizes = list[tuple[float, int]]()
    for intent, expected in chain(sample, expectations):
        step_lines = expected.steps / log_interval(intent, scale)
        planned.steps.expected += step_lines
        planned.others.expected += expected.other_lines
        sizes.append((-step_lines - expected.other_lines, intent.index))
    planned.order = array("q", (index for _, index in sorted(sizes)))
    return planned


def usual_lines(sample: Sequence[tuple[Intent, Expectation]]) -> float:
    """Lines per job where every job logs as often as intended."""
    return _lines(sample, 1.0) / len(sample)


def _lines(sample: Iterable[tuple[Intent, Expectation]], scale: float) -> float:
    return sum(e.steps / log_interval(i, scale) + e.other_lines for i, e in sample)


def _check(wanted: int, sample: Sequence[tuple[Intent, Expectation]], jobs: int) -> None:
    fewest, most = (_lines(sample, s) * jobs / len(sample) for s in reversed(_SCALES))
    fewest, most = fewest * _MARGIN, most / _MARGIN
    if not fewest <= wanted <= most:
        raise UsageError(
            f"{jobs} jobs cannot write {wanted} events: between {fewest:.0f} (a line each ten "
            f"minutes) and {most:.0f} (a line each step) are possible; change events, jobs or days"
        )
