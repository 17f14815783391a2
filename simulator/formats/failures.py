"""The signs of a failure in a job's output: what dies, why, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.scenario import phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.console import Console, Line
    from simulator.formats.story import Launch, Moment

_LAUNCHER = phase("launcher_init")


class Fate(Enum):
    """What becomes of the launch."""

    NOTICE = "it is told that it will be stopped"
    PASSING = "it goes on"
    RESTARTED = "its workers are restarted"
    FAILED = "its workers die, and it with them"
    KILLED = "the scheduler stops it"


@dataclass(frozen=True, slots=True)
class Sign:
    """One failure as seen in the output at `at_ms`; `cause` None: nothing shows it."""

    at_ms: int
    fate: Fate
    cause: Cause | None


def signs(launch: Launch) -> Iterator[Sign]:
    """Every interruption that the course said, and the scheduler's kill where it said none."""
    told = launch.of("interruption")
    for moment in told:
        said = moment.fields.get("cause")
        cause = Cause(said) if said else None
        yield Sign(moment.at_ms, _fate(launch, moment, cause), cause)
    is_killed = launch.outcome in (Outcome.PREEMPTED, Outcome.TIMED_OUT)
    ends_unsaid = not told or launch.trains_after(told[-1].at_ms)
    if launch.end is not None and is_killed and ends_unsaid:
        yield Sign(launch.end, Fate.KILLED, Cause(launch.cause) if launch.cause else Cause.TIMEOUT)


def _fate(launch: Launch, moment: Moment, cause: Cause | None) -> Fate:
    at = moment.at_ms
    again = [s.begin for s in launch.spans if s.phase == _LAUNCHER and s.begin >= at]
    entered = [m.at_ms for m in launch.of("train_begin") if m.at_ms < at]
    if again and entered and not launch.trains_between(at, again[0]):
        return Fate.RESTARTED
    if launch.trains_after(at):
        is_notice = cause in (Cause.PREEMPTION, Cause.PLANNED)
        return Fate.NOTICE if is_notice else Fate.PASSING
    stops = (Outcome.PREEMPTED, Outcome.TIMED_OUT)
    return Fate.KILLED if launch.outcome in stops else Fate.FAILED


def lines(console: Console, launch: Launch) -> Iterator[Line]:
    """(epoch ms, text) of what dies, before anybody else notices."""
    for sign in console.signs(launch):
        text = _text(console, sign)
        if text:
            yield sign.at_ms, text


def _text(console: Console, sign: Sign) -> str | None:
    """The first words of a failure; None where there are none."""
    at, cause = sign.at_ms, sign.cause
    if sign.fate in (Fate.NOTICE, Fate.KILLED):
        return _killed(console, at, cause)
    if sign.fate is Fate.PASSING:
        return _passing(console, cause)
    if cause is Cause.HARDWARE:
        when = f"{console.place.local(at):%a %b %e %H:%M:%S %Y}"
        who = f"pid={console.pid + 1}, name=python3"
        xid = f"NVRM: Xid (PCI:0000:3b:00): 79, {who}, GPU has fallen off the bus."
        return f"{console.host}: [{when}] {xid}"
    if cause is Cause.NETWORK:
        return _watchdog(console, at)
    if cause is Cause.NODE_LOST:
        return _killed(console, at, cause) if sign.fate is Fate.FAILED else None
    return _traceback(cause)


def _killed(console: Console, at: int, cause: Cause | None) -> str | None:
    """How Slurm says that it stops a job; in a container only the signal is seen."""
    why = {
        Cause.PREEMPTION: " DUE TO PREEMPTION",
        Cause.PLANNED: " DUE TO JOB REQUEUE",
        Cause.TIMEOUT: " DUE TO TIME LIMIT",
        Cause.NODE_LOST: " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
    }
    if console.number is None:
        return None
    when = console.place.seconds(at)
    reason = why.get(cause, "") if cause else ""
    what = (f"JOB {console.number}", f"STEP {console.number}.0")
    end = f"ON {console.host} CANCELLED AT {when}{reason} ***"
    return "\n".join(f"slurmstepd: error: *** {name} {end}" for name in what)


def cancelled(console: Console, at: int) -> str | None:
    """How Slurm says that somebody cancelled the job."""
    return _killed(console, at, None)


def _passing(console: Console, cause: Cause | None) -> str | None:
    if cause is Cause.NETWORK:
        what = "NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0, retrying"
        return f"{console.host}:{console.pid + 1}:1402 [0] {what}"
    return None


def _watchdog(console: Console, at: int) -> str:
    when = console.place.local(at)
    stamp = f"E{when:%m%d %H:%M:%S.%f}000"
    what = (
        "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=48213, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        "ran for 600023 milliseconds before timing out."
    )
    return f"[rank5]:[{stamp} ProcessGroupNCCL.cpp:616] {what}"


_CUDA_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. "
    "GPU 3 has a total capacity of 79.15 GiB of which 1.21 GiB is free. "
    "Process 3251 has 77.93 GiB memory in use."
)
_TRACES = {
    Cause.OUT_OF_MEMORY: (
        '  File "/opt/megatron/megatron/core/transformer/mlp.py", line 112, in forward',
        "    intermediate_parallel = self.activation_func(intermediate_parallel)",
        _CUDA_OUT_OF_MEMORY,
    ),
    Cause.STORAGE: (
        '  File "/opt/megatron/megatron/core/datasets/indexed_dataset.py", line 418, in read',
        "    os.preadv(self._fd, [view], offset)",
        "OSError: [Errno 5] Input/output error: '/lustre/data/corpus_text_document.bin'",
    ),
    Cause.USER_CODE: (
        '  File "/workspace/pretrain_gpt.py", line 148, in loss_func',
        "    return loss.view(shape)",
        "RuntimeError: shape '[8, 4096]' is invalid for input of size 16384",
    ),
}


def _traceback(cause: Cause | None) -> str | None:
    if cause not in _TRACES:
        return None
    head = (
        "Traceback (most recent call last):",
        '  File "/workspace/pretrain_gpt.py", line 265, in <module>',
        "    pretrain(",
    )
    return "\n".join(f"[rank3]: {line}" for line in (*head, *_TRACES[cause]))
