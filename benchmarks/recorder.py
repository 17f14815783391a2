"""What one call of the recorder costs the loop that makes it: nanoseconds, beside plain Python.

PYTHONPATH=. .venv/bin/python benchmarks/recorder.py
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from measure import machine

from ettledger.recorder import Identity, Recorder, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

ROUND = 1_000
"""Calls of one contender before the next has its turn."""


def main() -> None:
    options = parsed()
    with tempfile.TemporaryDirectory(prefix="ettledger-bench-") as folder:
        calls, closing = contenders(Path(folder))
        taken = measured(calls, options.calls, options.pause_us)
        for close in closing:
            close()
        written = sum(len(f.read_bytes().splitlines()) for f in Path(folder).glob("step*.jsonl"))
    of = machine()
    print(f"{of['processor']}, Python {of['python']}, load {of['load'][0]:.1f}\n")
    print(f"{options.calls:,} calls of each, one per {options.pause_us} µs of Python.\n")
    print("| | median ns | p99 ns | p99.9 ns |\n|---|--:|--:|--:|")
    for name, nanoseconds in taken.items():
        print(row(name, nanoseconds))
    print(f"\n{written:,} steps were written of the {options.calls:,} told to be.")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The cost of one call of the recorder.")
    parser.add_argument("--calls", type=int, default=50_000, help="of each (%(default)s)")
    parser.add_argument("--pause-us", type=int, default=50, help="between two (%(default)s)")
    return parser.parse_args()


def contenders(folder: Path) -> tuple[dict[str, Callable[[int], Any]], list[Callable[[], Any]]]:
    """What is called with the number of a step, and what is to be closed."""

    def recorder(name: str, **options: Any) -> Recorder:
        return Recorder(str(folder / name), Identity(job_id="rec-42", rank=0), **options)

    told, every, phases = (
        recorder("step.jsonl"),
        recorder("thinned.jsonl", every_s=1.0),
        recorder("phase.jsonl"),
    )
    off = Recorder("", Identity())
    kept: list[int] = []
    plain = (folder / "plain.jsonl").open("a", encoding="utf-8")
    flushed = (folder / "flushed.jsonl").open("a", encoding="utf-8")

    def line(step: int) -> str:
        fields = {"ts": now_ms(), "job_id": "rec-42", "rank": 0, "event": "step", "step": step}
        return json.dumps(fields) + "\n"

    def flush(step: int) -> None:
        flushed.write(line(step))
        flushed.flush()

    def phase(_: int) -> None:
        with phases.phase("data_stall"):
            pass

    calls: dict[str, Callable[[int], Any]] = {
        "nothing (the stopwatch)": lambda _: None,
        "`list.append`": kept.append,
        "`step`, recorder off": off.step,
        "`step`": told.step,
        "`step`, `every_s=1.0`": every.step,
        "a phase, begun and ended": phase,
        "`json.dumps`, `file.write`": lambda step: plain.write(line(step)),
        "`json.dumps`, `file.write`, `file.flush`": flush,
    }
    return calls, [f.close for f in (told, every, phases, plain, flushed)]


def measured(
    calls: dict[str, Callable[[int], Any]], count: int, pause_us: int
) -> dict[str, list[int]]:
    """Nanoseconds of each call; contenders take turns, with work of the loop between two calls."""
    taken: dict[str, list[int]] = {name: [] for name in calls}
    for begin in range(0, count, ROUND):
        for name, call in calls.items():
            for step in range(begin, min(begin + ROUND, count)):
                work(pause_us)
                begun = time.perf_counter_ns()
                call(step)
                taken[name].append(time.perf_counter_ns() - begun)
    return taken


def work(microseconds: int) -> None:
    """Python that holds the interpreter lock, as a loop without any native call would."""
    until = time.perf_counter_ns() + microseconds * 1000
    while time.perf_counter_ns() < until:
        pass


def row(name: str, nanoseconds: list[int]) -> str:
    cuts = quantiles(nanoseconds, n=1000)
    return f"| {name} | {median(nanoseconds):,.0f} | {cuts[989]:,.0f} | {cuts[998]:,.0f} |"


if __name__ == "__main__":
    main()
