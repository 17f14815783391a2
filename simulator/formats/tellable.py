"""What the joined sources can tell of the truth: component by component, and job by job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pipelines.taxonomy import (
    COMPILE,
    DEFAULT,
    EFFECTIVE,
    FAILURE_DETECTION,
    REPEATED,
    RESTART_GAP,
    STALLED,
    TEARDOWN,
    UNATTRIBUTED,
    WARMUP,
)
from simulator.formats.site import PLACES, Place
from simulator.loop import EVALUATION, SAVE
from simulator.scenario import phase
from simulator.startup import RESTORE

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.formats.story import Story

SCHEDULER_CLOCK_MS = 1000


class Telling(StrEnum):
    """How well the time of a component can be recovered."""

    EXACTLY = "exactly"
    INFERRED = "inferred"
    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class Tellable:
    """How a cluster's sources tell of one component.

    `clock_ms`: to the step of which clock its edges are known, null where they are not said.
    `found_as`: components under which its time may be found besides its own, `unattributed`, and
    whatever is inferred. `why`: in words.
    """

    telling: Telling
    clock_ms: int | None
    found_as: tuple[str, ...]
    why: str


_SETUP = phase("hardware_setup")
_PARENT = phase("trainer_init")
_FAMILY = tuple(c.key for c in DEFAULT if _PARENT in (c.key, c.parent))
_UNCLAIMED = (UNATTRIBUTED, RESTART_GAP, FAILURE_DETECTION)
_IN_A_STEP = (EFFECTIVE, REPEATED, STALLED)


def doubts(told: Story, *, waits_held: bool) -> frozenset[str]:
    """Why these sources cannot say enough of this job, besides what its course leaves open."""
    own = set()
    if waits_held:
        own.add("it waited on hardware kept when the time was over")
    if any(len({launch.gpus for launch in a.launches}) > 1 for a in told.allocations):
        own.add("another world size inside an allocation: one speed is taken for both")
    return frozenset(own)


def components(place: Place) -> dict[str, Tellable]:
    """Every component of the taxonomy, as the sources of `place` tell of it."""
    told = {c.key: _EXACT_BY_SCHEDULER for c in DEFAULT}
    told |= dict.fromkeys((_SCHEDULING, _SETUP), _set_up(place))
    told |= dict.fromkeys(_FAMILY, _start_up(place))
    told |= dict.fromkeys((EFFECTIVE, REPEATED), _training(place))
    told |= dict.fromkeys((SAVE, EVALUATION), _holding(place))
    if not place.is_recent:
        told[EVALUATION] = _UNTIMED_EVALUATION
    told |= dict.fromkeys((phase("data_stall"), STALLED), _IN_THE_LOOP)
    gaps = Tellable(Telling.EXACTLY, SCHEDULER_CLOCK_MS, _PLACED_EARLY, _GAPS)
    told |= dict.fromkeys((UNATTRIBUTED, RESTART_GAP), gaps)
    return told | {
        FAILURE_DETECTION: _DETECTION,
        phase("launcher_init"): _LAUNCHER,
        RESTORE: _restore(place),
        COMPILE: _COMPILE,
        WARMUP: _first_step(place),
        phase("model_publish"): _PUBLISH,
    }


_SCHEDULING = phase("scheduling")
_PLACED_EARLY = (*_FAMILY, RESTORE, COMPILE)
_GAPS = "gaps between phases are shorter than what the dated lines tell apart"
_EXACT_BY_SCHEDULER = Tellable(
    Telling.EXACTLY,
    SCHEDULER_CLOCK_MS,
    (),
    "the scheduler dates the allocation, the trainer its last line",
)
_IN_THE_LOOP = Tellable(
    Telling.INFERRED,
    None,
    (*_IN_A_STEP, FAILURE_DETECTION),
    "nobody says it: a line that takes much longer than the others is stalled, less does not show",
)
_UNTIMED_EVALUATION = Tellable(
    Telling.UNSAID,
    None,
    (*_IN_A_STEP, SAVE, RESTART_GAP, FAILURE_DETECTION, TEARDOWN),
    "this version does not say how long it took: the next line is late, the save that follows "
    "seems to come at once",
)
_DETECTION = Tellable(
    Telling.EXACTLY,
    SCHEDULER_CLOCK_MS,
    (SAVE, *_PLACED_EARLY),
    "the scheduler dates the end, the trainer its last line, with which a last save seems to begin",
)
_LAUNCHER = Tellable(
    Telling.EXACTLY, 1, _UNCLAIMED, "torchrun dates its start and that of the workers"
)
_COMPILE = Tellable(
    Telling.INFERRED,
    None,
    (*_IN_A_STEP, *_FAMILY, *_UNCLAIMED),
    "before the loop a line says how long it took, not when; in the loop it makes one line slow",
)
_PUBLISH = Tellable(
    Telling.UNSAID,
    None,
    (TEARDOWN, FAILURE_DETECTION, RESTART_GAP),
    "after the last step all is teardown, failure detection where it is stopped, or a gap where "
    "the workers are started again; a job of its own says nothing but that it ran",
)


def _set_up(place: Place) -> Tellable:
    if place.scheduler == "slurm":
        why = "Slurm does not say when the script was started"
        return Tellable(Telling.UNSAID, None, _UNCLAIMED, why)
    why = "the pods' conditions date them"
    return Tellable(Telling.EXACTLY, SCHEDULER_CLOCK_MS, _UNCLAIMED, why)


def _start_up(place: Place) -> Tellable:
    why = "the trainer dates some ends: one date stands for several phases, none for a begin"
    return Tellable(Telling.INFERRED, place.clock_ms, (*_PLACED_EARLY, *_UNCLAIMED), why)


def _restore(place: Place) -> Tellable:
    why = "a timer says how long it took, no line says when it began"
    return Tellable(Telling.INFERRED, place.clock_ms, (*_PLACED_EARLY, *_UNCLAIMED), why)


def _first_step(place: Place) -> Tellable:
    why = "the first line after a start takes longer than the others"
    return Tellable(Telling.INFERRED, place.clock_ms, (*_IN_A_STEP, FAILURE_DETECTION), why)


def _training(place: Place) -> Tellable:
    why = "every line has its time, its iteration and its samples"
    return Tellable(Telling.EXACTLY, place.clock_ms, (), why)


def _holding(place: Place) -> Tellable:
    why = (
        "the line before dates its begin, a timer says how long it took; one that was cut off "
        "has no timer"
    )
    beside = () if place.is_recent else _IN_A_STEP
    found = (FAILURE_DETECTION, RESTART_GAP, TEARDOWN, *beside)
    return Tellable(Telling.EXACTLY, place.clock_ms, found, why)


def write(path: Path) -> None:
    """Write the statement for every cluster as JSON."""
    said = {
        place.name: {
            "scheduler": place.scheduler,
            "zone": place.zone,
            "trainer_clock_ms": place.clock_ms,
            "components": {key: asdict(t) for key, t in components(place).items()},
        }
        for place in PLACES.values()
    }
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
