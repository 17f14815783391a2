"""What stops an attempt: failures, preemptions, drains, time limits; when, why and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.intents import DAY_MS, HOUR_MS, LOW, Intent
from simulator.life import NEVER

if TYPE_CHECKING:
    from random import Random

    from simulator.scenario import Scenario

_NOTICE_MS = (60_000, 600_000)


class Recovery(StrEnum):
    """How a job comes back."""

    INSIDE = "the launcher restarts the workers inside the attempt"
    HELD = "a new attempt on the hardware kept"
    REQUEUED = "a new attempt after waiting in the queue"
    NONE = "it does not"


@dataclass(slots=True)
class Incident:
    """One stop of an attempt at `at_ms`; `notice_ms`: when it is to be announced, if it is.

    `is_abrupt`: steps not yet logged are lost to the log.
    """

    at_ms: int
    outcome: Outcome
    cause: Cause
    recovery: Recovery
    is_abrupt: bool = False
    notice_ms: int = NEVER
    announced_ms: int | None = None

    @property
    def is_announced(self) -> bool:
        """Has an `interruption` line told of it before it came?"""
        return self.announced_ms is not None


def next_incident(
    scenario: Scenario, intent: Intent, *, gpus: int, now: int, limit_ms: int, rng: Random
) -> Incident:
    """The incident that stops an attempt of `gpus` first, as seen from `now`.

    `limit_ms`: when the attempt's time limit is reached.
    """
    return min(
        _failure(scenario, gpus, now, rng),
        _preemption(scenario, intent, now, rng),
        _drain(scenario, now, rng),
        Incident(limit_ms, Outcome.TIMED_OUT, Cause.TIMEOUT, Recovery.REQUEUED),
        key=lambda i: i.at_ms,
    )


def start_up_failure(scenario: Scenario, *, start: int, ready: int, rng: Random) -> Incident:
    """A failure while the attempt still starts, between `start` and `ready`."""
    incident = _failure(scenario, 1, start, rng)
    incident.at_ms = rng.randint(start + 1, max(start + 1, ready))
    if incident.recovery is Recovery.INSIDE:
        incident.recovery = Recovery.HELD
    return incident


def own_failure(intent: Intent, *, now: int, tries: int, rng: Random) -> Incident:
    """The job's own defect stops it, for good where no `tries` are left."""
    cause = Cause.OUT_OF_MEMORY if intent.index % 3 == 0 else Cause.USER_CODE
    recovery = rng.choice((Recovery.HELD, Recovery.REQUEUED)) if tries > 0 else Recovery.NONE
    return Incident(now, Outcome.FAILED, cause, recovery)


def time_limit(scenario: Scenario, start: int) -> int:
    """When an attempt begun at `start` has used up its time."""
    return start + round(scenario.time_limit_h * HOUR_MS)


def _after(per_day: float, now: int, rng: Random) -> int:
    return now + 1 + round(rng.expovariate(per_day / DAY_MS)) if per_day > 0 else NEVER


def _failure(scenario: Scenario, gpus: int, now: int, rng: Random) -> Incident:
    causes = list(scenario.causes)
    chance = rng.random()
    inside, held = scenario.restart_inside_ratio, scenario.restart_held_ratio
    recovery = Recovery.INSIDE if chance < inside else Recovery.REQUEUED
    if inside <= chance < inside + held:
        recovery = Recovery.HELD
    return Incident(
        at_ms=_after(scenario.failures_per_gpu_day * gpus, now, rng),
        outcome=Outcome.FAILED,
        cause=rng.choices(causes, [scenario.causes[c] for c in causes])[0],
        recovery=recovery,
        is_abrupt=rng.random() < scenario.abrupt_ratio,
    )


def _preemption(scenario: Scenario, intent: Intent, now: int, rng: Random) -> Incident:
    per_day = scenario.preemptions_per_day if intent.priority == LOW else 0.0
    at = _after(per_day, now, rng)
    is_noticed = rng.random() < scenario.notice_ratio
    notice = at - rng.randint(*_NOTICE_MS) if is_noticed and at < NEVER else NEVER
    return Incident(at, Outcome.PREEMPTED, Cause.PREEMPTION, Recovery.REQUEUED, notice_ms=notice)


def _drain(scenario: Scenario, now: int, rng: Random) -> Incident:
    at = _after(scenario.drains_per_day, now, rng)
    return Incident(at, Outcome.PREEMPTED, Cause.PLANNED, Recovery.REQUEUED)
