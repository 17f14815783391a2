"""What one measured process says of itself: named laps, peak memory, and its result.

Standard library only: contenders run in the project's environment or in the benchmark's own.
"""

from __future__ import annotations

import gc
import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_KIB_PER_MIB = 1024


class Laps:
    """Wall and processor seconds of named stretches of a process, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Time what is inside; garbage of earlier laps is collected before it starts."""
        gc.collect()
        cpu, begin = cpu_seconds(), time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begin
        self.cpu_seconds[name] = cpu_seconds() - cpu

    def report(self, result: Any) -> None:
        """Print the measurement as the last line of the output, where `measure` looks for it."""
        said = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "peak_mib": peak_mib()}
        print(json.dumps(said | {"result": result}), flush=True)


class _Process(NamedTuple):
    parent: int
    cpu_seconds: float
    peak_kib: int


def cpu_seconds() -> float:
    """Processor time of this process and of those below it (a JVM) so far."""
    return sum(p.cpu_seconds for p in _tree()) or time.process_time()


def peak_mib() -> float | None:
    """Peak resident memory in MiB of this process and of those below it, summed.

    An upper bound where there are several: their peaks need not coincide. None where the system
    has no /proc.
    """
    return sum(p.peak_kib for p in _tree()) / _KIB_PER_MIB or None


def _tree() -> list[_Process]:
    """This process and those below it; nothing where the system has no /proc."""
    numbers = [int(p.name) for p in Path("/proc").glob("[0-9]*")]
    seen = {number: p for number in numbers if (p := _process(Path("/proc") / str(number)))}
    inside = {os.getpid()} & seen.keys()
    while more := {n for n, p in seen.items() if p.parent in inside} - inside:
        inside |= more
    return [seen[number] for number in inside]


def _process(folder: Path) -> _Process | None:
    """What the kernel says of a process; None where it has ended."""
    try:
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        times = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(times[11]) + int(times[12])  # user and system time
    peak = int(status.get("VmHWM", "0").split()[0])
    return _Process(int(status["PPid"]), ticks / os.sysconf("SC_CLK_TCK"), peak)
