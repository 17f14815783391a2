"""The kinds of source: what each can tell of a job, how finely its clock ticks, whom to believe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipelines.errors import InputError, nearest


class Role(StrEnum):
    """Who speaks. The order is the order of trust in what is said of an allocation."""

    SCHEDULER = "scheduler"
    ORCHESTRATOR = "orchestrator"
    RECORDER = "recorder"
    LAUNCHER = "launcher"
    TRAINER = "trainer"
    COMPILER = "compiler"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of source. `clock_ms` is the step of its clock: instants are rounded down to it.

    `tells` says in words what it is read for; `is_progress_told`: can it tell of training steps?
    """

    name: str
    role: Role
    tells: str
    clock_ms: int = 1
    is_progress_told: bool = False


_S = Source
SOURCES: dict[str, Source] = {
    s.name: s
    for s in (
        _S("slurm", Role.SCHEDULER, "queue, allocation, accelerators, outcome and cause", 1000),
        _S("job_table", Role.SCHEDULER, "queue, allocation, accelerators and outcome", 1000),
        _S(
            "kubernetes",
            Role.ORCHESTRATOR,
            "queue, admission, pods, accelerators, outcome and cause",
            1000,
        ),
        _S("lifecycle", Role.RECORDER, "everything that its writer says", 1, True),
        _S("otlp", Role.RECORDER, "phases, and what else the spans say", 1, True),
        _S("goodput", Role.RECORDER, "start-up, steps, checkpoints", 1, True),
        _S("torchelastic", Role.LAUNCHER, "rendezvous, worker starts, failures, restarts"),
        _S("nvrx", Role.LAUNCHER, "restart cycles in the same allocation"),
        _S("dlrover", Role.LAUNCHER, "rendezvous, restarts, steps, checkpoints", 1, True),
        _S("console", Role.TRAINER, "the scheduler's and the runtime's last words"),
        _S("steps", Role.TRAINER, "steps, checkpoints, evaluations", 1, True),
        _S("mllog", Role.TRAINER, "initialisation, blocks, evaluations", 1, True),
        _S("torch_trace", Role.COMPILER, "compilations, their reasons, cache hits"),
        _S("unknown", Role.NOBODY, "nothing: no reader knows it"),
    )
}


def source(name: str) -> Source:
    """The source of this name, or an InputError that names the nearest one.

    >>> source("slurm").role
    <Role.SCHEDULER: 'scheduler'>
    """
    try:
        return SOURCES[name]
    except KeyError:
        raise InputError(f"unknown source '{name}': {nearest(name, SOURCES)}") from None
