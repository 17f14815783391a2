"""The output of an allocation: what launcher, trainer and scheduler write to one file, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.taxonomy import Outcome
from simulator.formats import failures, megatron, torchelastic
from simulator.formats.site import Joining, Place, Prefixes, place_of, slurm_id
from simulator.formats.slurm import GPUS_PER_NODE, first_node, node_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.formats.failures import Sign
    from simulator.formats.story import Allocation, Launch, Story
    from simulator.intents import Intent

Line = tuple[int, str]
"""When (epoch ms), and what is written then: one line or several."""

_FIRST_PID, _PIDS = 20_000, 70_000


@dataclass(frozen=True, slots=True)
class Console:
    """Where an allocation of a job writes. `number`: Slurm's of the job, None elsewhere."""

    place: Place
    one: Intent
    job_id: str
    number: int | None
    host: str
    pid: int
    prefixes: Prefixes

    @property
    def run_id(self) -> str:
        """The rendezvous' name."""
        return self.job_id if self.number is None else str(self.number)

    def glog(self, level: str, at: int, where: str, text: str) -> str:
        """A line of PyTorch's own logging: no year, no zone."""
        when = self.place.local(at)
        return f"{level}{when:%m%d %H:%M:%S.%f} {self.pid} {where}] {text}"

    def signs(self, launch: Launch) -> list[Sign]:
        """Its failures."""
        return list(failures.signs(launch))


def consoles(one: Intent, told: Story) -> Iterator[tuple[str, str]]:
    """(file name, text) of each allocation of a job that trains."""
    place = place_of(one)
    number = slurm_id(one, told.job_id) if place.scheduler == "slurm" else None
    for allocation in told.allocations:
        kind = (one.index + allocation.number) % len(place.prefixes)
        console = Console(
            place=place,
            one=one,
            job_id=told.job_id,
            number=number,
            host=f"{told.job_id}-node-0" if number is None else first_node(number),
            pid=_FIRST_PID + (one.index * 977 + allocation.number * 131) % _PIDS,
            prefixes=place.prefixes[kind],
        )
        if text := _text(console, allocation):
            yield _name(console, allocation), text


def _name(console: Console, allocation: Allocation) -> str:
    place, number = console.place, allocation.number
    if console.number is None:
        return f"{place.name}/jobs/{console.job_id}/attempt_{number}.log"
    if place.joining is Joining.SLURM_ID:
        return f"{place.name}/jobs/{console.number}/attempt_{number}.out"
    return f"{place.name}/jobs/{console.job_id}/slurm-{console.number}_{number}.out"


def _text(console: Console, allocation: Allocation) -> str:
    """All lines in order of time; of one moment the root before what follows from it."""
    told: list[Line] = []
    for launch in allocation.launches:
        starts = [s for s in launch.spans if s.phase == torchelastic.LAUNCHER]
        if starts and launch is allocation.launches[0] and console.number is not None:
            told.append((starts[0].begin, _script(console, allocation)))
        nodes = -(-launch.gpus // GPUS_PER_NODE)
        agent, first, last = (p.format(node=nodes - 1) for p in console.prefixes)
        told += _prefixed(last, megatron.iterations(console, launch))
        told += failures.lines(console, launch)
        told += _prefixed(first, megatron.lines(console, launch))
        told += _prefixed(agent, torchelastic.lines(console, launch))
    told += _last_words(console, allocation)
    return "".join(f"{text}\n" for _, text in sorted(told, key=lambda line: line[0]))


def _prefixed(prefix: str, own: Iterable[Line]) -> Iterator[Line]:
    """What a launcher puts before each line of its processes."""
    for at, text in own:
        yield at, "\n".join(prefix + line for line in text.split("\n")) if prefix else text


def _script(console: Console, allocation: Allocation) -> str:
    """What the batch script prints, with the names that join the file to the accounting."""
    nodes = -(-allocation.gpus // GPUS_PER_NODE)
    told = [
        "+ module purge",
        "+ export MASTER_PORT=29500",
        f"SLURM_JOB_ID={console.number}",
        f"SLURM_JOB_NAME={console.job_id}",
        f"SLURM_JOB_NODELIST={node_list(console.number or 0, nodes)}",
        f"SLURM_NNODES={nodes}",
    ]
    if allocation.number:
        told.insert(3, f"SLURM_RESTART_COUNT={allocation.number}")
    return "\n".join(told)


def _last_words(console: Console, allocation: Allocation) -> Iterator[Line]:
    """What srun says of tasks that failed, and slurmstepd of a job that somebody cancelled."""
    last = allocation.last
    if console.number is None or allocation.end is None or not last.moments:
        return
    if last.outcome is Outcome.CANCELLED and (text := failures.cancelled(console, last.last_ms)):
        yield last.last_ms, text
    elif last.outcome is Outcome.FAILED and last.of("attempt_ended") and last.of("interruption"):
        step = f"{console.number}.{len(allocation.launches) - 1}"
        failed = f"srun: error: {console.host}: task 0: Exited with exit code 1"
        yield allocation.end, f"{failed}\nsrun: Terminating StepId={step}"
