"""Who writes: job, attempt, rank and host, as the environment of the process tells them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Identity:
    """What is said on every line, or by default on `attempt_started`. None: not known.

    `leads`: this process writes what is said of the whole job (attempts, steps, checkpoints), not
    only its own phases and interruptions.
    """

    job_id: str | None = None
    cluster: str | None = None
    attempt: int | None = None
    rank: int | None = None
    host: str | None = None
    gpus: int | None = None
    held: bool | None = None
    leads: bool = True
    is_elastic: bool = False
    """A torchrun agent started this process and may start it again."""


def of_trainer(environ: Mapping[str, str]) -> Identity:
    """One rank of a job."""
    attempt, rank = _attempt(environ), _rank(environ)
    restarts = _count(environ, "TORCHELASTIC_RESTART_COUNT")
    return Identity(
        job_id=_job_id(environ),
        cluster=_word(environ, "ETTLEDGER_CLUSTER", "SLURM_CLUSTER_NAME"),
        attempt=attempt,
        rank=rank,
        host=socket.gethostname(),
        gpus=_count(environ, "ETTLEDGER_GPUS", "WORLD_SIZE"),
        # Restarts in place of a numbered attempt are inside it: what was before is not known.
        held=True if attempt is None and restarts else None,
        leads=rank == 0,
        is_elastic=restarts is not None,
    )


def of_launcher(environ: Mapping[str, str]) -> Identity:
    """What starts the ranks, and has none. Of one on each node the first node's leads."""
    return Identity(
        job_id=_job_id(environ),
        cluster=_word(environ, "ETTLEDGER_CLUSTER", "SLURM_CLUSTER_NAME"),
        attempt=_attempt(environ),
        host=socket.gethostname(),
        gpus=_count(environ, "ETTLEDGER_GPUS", "SLURM_GPUS"),
        leads=_word(environ, "SLURM_NODEID", "NODE_RANK") in (None, "0"),
    )


def path_in(environ: Mapping[str, str]) -> str | None:
    """Where to write, unless the caller says."""
    return _word(environ, "ETTLEDGER_PATH")


def is_off(environ: Mapping[str, str]) -> bool:
    """Whether the environment forbids recording."""
    return environ.get("ETTLEDGER_OFF", "") not in ("", "0")


def _job_id(environ: Mapping[str, str]) -> str | None:
    """The training intent; an array's task is a job of its own."""
    array = [environ.get(f"SLURM_ARRAY_{part}_ID") for part in ("JOB", "TASK")]
    if "ETTLEDGER_JOB_ID" not in environ and all(array):
        return "_".join(filter(None, array))
    found = _word(environ, "ETTLEDGER_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
    return None if found == "none" else found  # what torchrun has where it was given no --rdzv-id


def _attempt(environ: Mapping[str, str]) -> int | None:
    """Slurm's count of requeues, absent before the first.

    TorchElastic's count of restarts is no number of an attempt: each agent has its own, a change of
    membership does not raise it, and a new agent begins at 0 again.
    """
    given = _count(environ, "ETTLEDGER_ATTEMPT", "SLURM_RESTART_COUNT")
    if given is None and environ.get("SLURM_JOB_ID"):
        return 0
    return given


def _rank(environ: Mapping[str, str]) -> int | None:
    """The global rank. A process that nobody numbered is alone: rank 0."""
    found = _count(environ, "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    if found is not None or "LOCAL_RANK" not in environ:
        return found or 0
    is_first_node = environ.get("NODE_RANK", "0") == "0"  # elsewhere the local rank is not the rank
    return _count(environ, "LOCAL_RANK") if is_first_node else None


def _word(environ: Mapping[str, str], *names: str) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _count(environ: Mapping[str, str], *names: str) -> int | None:
    """The first that is a plain number: `a100:4` of SLURM_GPUS is none."""
    texts = (environ.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isascii() and text.isdecimal()), None)
