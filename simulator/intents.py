"""What people want to train: one training job before anything has happened to it."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import exp, gcd, log
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.scenario import JobClass, Workload

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LOW, NORMAL, HIGH = "low", "normal", "high"
_GOLDEN = (5**0.5 - 1) / 2
_NANO = 10**9
_SUBMITTED_WITHIN = 0.85
_MOST_CRASHES = 3


class Layout(StrEnum):
    """How a cluster keeps its jobs' logs."""

    BY_ATTEMPT = "a file per attempt"
    BY_DAY = "a file per job and day, and a scheduler log per day"
    BY_JOB = "a file per job"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and how it keeps its logs."""

    name: str
    layout: Layout


CLUSTERS = (
    Cluster("cedar", Layout.BY_ATTEMPT),
    Cluster("basalt", Layout.BY_DAY),
    Cluster("heron", Layout.BY_JOB),
)


class Ending(StrEnum):
    """What becomes of a job that no infrastructure stops."""

    SUCCEEDED = "the target was reached"
    CANCELLED = "its user stopped it"
    FAILED = "a defect in its own code stops it, each time again"
    SILENT = "it dies with its launcher, and nobody says so"


@dataclass(frozen=True, slots=True)
class Habits:
    """How a job reports. `batch`: samples per GPU and step, 0 where marks carry no samples."""

    batch: int
    ranks: tuple[int, ...]
    says_compile: bool
    says_parent: bool
    is_elastic: bool
    is_numbered: bool
    is_jittery: bool
    resends: bool
    says_last_end: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """One training job as intended: `steps` of `step_ms` on `gpus`, a line per `log_every`.

    It stops at `stop_step` (= `steps` where it is to succeed).
    """

    index: int
    cluster: Cluster
    job_id: str
    model: str
    team: str
    priority: str
    gpus: int
    submitted_ms: int
    queue_ms: int
    steps: int
    step_ms: int
    log_every: int
    ending: Ending
    stop_step: int
    crashes: int
    publishes: bool
    habits: Habits


def intent(workload: Workload, *, seed: int, index: int, start_ms: int, days: int) -> Intent:
    """The job number `index` of a fleet; a function of its arguments only."""
    rng = Random(f"{seed}:intent:{index}")
    kind = _class_of(workload, index)
    model, team = rng.choice(kind.models), rng.choice(kind.teams)
    gpus = rng.choice(kind.gpus)
    ending = _ending(workload, rng)
    habits = _habits(workload, kind, ending, rng)
    step_ms = countable_ms(round(1000 * _log_uniform(rng, *kind.step_s)), habits.batch * gpus)
    hours = _log_uniform(rng, *_fitting(kind.hours, days))
    steps = max(2, round(hours * HOUR_MS / step_ms))
    return Intent(
        index=index,
        cluster=rng.choice(CLUSTERS),
        job_id=f"{model}-{index:05d}",
        model=model,
        team=team,
        priority=_priority(workload, kind, rng),
        gpus=gpus,
        submitted_ms=start_ms + round(rng.uniform(0, _SUBMITTED_WITHIN) * days * DAY_MS),
        queue_ms=_queue_ms(workload, kind, gpus, rng),
        steps=steps,
        step_ms=step_ms,
        log_every=max(1, round(1000 * rng.uniform(*kind.line_s) / step_ms)),
        ending=ending,
        stop_step=steps if ending is Ending.SUCCEEDED else max(1, round(steps * rng.random())),
        crashes=rng.randint(1, _MOST_CRASHES),
        publishes=rng.random() < workload.publishes_ratio,
        habits=habits,
    )


def countable_ms(step_ms: int, batch: int) -> int:
    """The next step time at or above `step_ms` whose time per sample is whole nanoseconds.

    The accounting counts speeds in nanoseconds; other step times cost it a millisecond here and
    there, and such a log could not say enough. `batch` is samples per step, 0 for none.
    """
    grain = batch // gcd(batch, _NANO) if batch else 1
    return -(-step_ms // grain) * grain


def _class_of(workload: Workload, index: int) -> JobClass:
    """Classes come in their shares in every stretch of indices, not only on average."""
    shares = list(accumulate(c.share for c in workload.classes))
    place = bisect(shares, (index * _GOLDEN) % 1 * shares[-1])
    return workload.classes[min(place, len(shares) - 1)]


def _ending(workload: Workload, rng: Random) -> Ending:
    chance = rng.random()
    for ending, ratio in (
        (Ending.CANCELLED, workload.cancelled_ratio),
        (Ending.FAILED, workload.failed_ratio),
        (Ending.SILENT, workload.silent_ratio),
    ):
        chance -= ratio
        if chance < 0:
            return ending
    return Ending.SUCCEEDED


def _habits(workload: Workload, kind: JobClass, ending: Ending, rng: Random) -> Habits:
    def is_so(ratio: float) -> bool:
        return rng.random() < ratio

    has_samples = is_so(workload.samples_ratio)
    many = is_so(workload.ranks_ratio) and ending is not Ending.SILENT
    return Habits(
        batch=rng.choice(kind.batches) if has_samples else 0,
        ranks=(0, 1, 2, 3) if many else (),
        says_compile=is_so(workload.compile_phase_ratio),
        says_parent=is_so(workload.parent_phase_ratio),
        is_elastic=is_so(workload.elastic_ratio) and has_samples,
        is_numbered=not is_so(workload.unnumbered_ratio),
        is_jittery=is_so(workload.jittery_ratio),
        resends=is_so(workload.resends_ratio),
        says_last_end=not is_so(workload.no_attempt_end_ratio),
    )


def _priority(workload: Workload, kind: JobClass, rng: Random) -> str:
    if kind.is_urgent:
        return HIGH
    return LOW if rng.random() < workload.low_priority_ratio else NORMAL


def _queue_ms(workload: Workload, kind: JobClass, gpus: int, rng: Random) -> int:
    wait = workload.queue.draw_ms(rng, gpus)
    if not kind.is_urgent and rng.random() < workload.long_queue_ratio:
        return round(rng.uniform(*workload.long_queue_days) * DAY_MS)
    return wait


def _fitting(hours: tuple[float, float], days: int) -> tuple[float, float]:
    """The hours of a class, shortened where the simulated time could not show such a job."""
    longest = min(hours[1], 24.0 * days)
    return min(hours[0], longest / 2), longest


def _log_uniform(rng: Random, low: float, high: float) -> float:
    return exp(rng.uniform(log(low), log(high)))
