"""Measuring contenders: each in a fresh process, in turn, and what came out as a table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).parent
CONTENDERS = HERE / "contenders"
FRESH = "{fresh}"
"""Stands in a contender's arguments for an empty folder that is gone afterwards."""
_SHARED = ("pyspark", "pysail", "pyarrow", "pandas", "msgspec", "deltalake", "dagster")


@dataclass(frozen=True)
class Contender:
    """A process to measure: a script of contenders/, its arguments, and the Python that runs it."""

    name: str
    script: str
    arguments: Sequence[str]
    python: str = sys.executable


@dataclass(frozen=True)
class Row:
    """One line of a table: a lap of a contender, or several added up."""

    label: str
    contender: str
    laps: tuple[str, ...]


@dataclass
class Measurement:
    """What one process said: seconds by lap, peak memory, and a result."""

    seconds: dict[str, float]
    cpu_seconds: dict[str, float]
    peak_mib: float | None
    result: Any


Measurements = dict[str, list[Measurement]]


@dataclass
class Comparison:
    """Contenders measured in alternation, and the lines of their table.

    `count` of `unit` is the work of each, for rates; `baseline` is the label of the row that the
    others are compared with. `check` is given all measurements: it raises where results differ,
    and returns what is worth saying of them.
    """

    title: str
    about: str
    unit: str
    count: int
    contenders: list[Contender]
    rows: list[Row]
    baseline: str
    check: Callable[[Measurements], list[str]] = field(default=lambda _: [])


class DifferenceError(Exception):
    """Contenders computed different results: their times are not comparable."""


def run(comparison: Comparison, repeats: int) -> Measurements:
    """Measure every contender `repeats` times, taking turns, so that a busy minute hits all."""
    found: Measurements = {c.name: [] for c in comparison.contenders}
    for turn in range(repeats):
        for contender in comparison.contenders:
            began = time.monotonic()
            found[contender.name].append(run_once(contender))
            took = time.monotonic() - began
            said = f"{comparison.title}, {turn + 1} of {repeats}: {contender.name} {took:.1f} s"
            print(said, file=sys.stderr, flush=True)
    return found


def run_once(contender: Contender) -> Measurement:
    """One fresh process; its last line of output is the measurement."""
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory(prefix="ettledger-bench-") as fresh:
        arguments = [fresh if a == FRESH else a for a in contender.arguments]
        command = [contender.python, str(CONTENDERS / contender.script), *arguments]
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    if ended.returncode:
        raise SystemExit(f"{contender.name} failed: {' '.join(command)}\n{ended.stderr}")
    return Measurement(**json.loads(ended.stdout.splitlines()[-1]))


def figures(comparison: Comparison, found: Measurements) -> list[dict[str, Any]]:
    """Each row's median, lowest and highest wall seconds, processor seconds, rate and memory."""
    return [_figure(row, comparison.count, found[row.contender]) for row in comparison.rows]


def _figure(row: Row, count: int, measured: list[Measurement]) -> dict[str, Any]:
    walls = [sum(m.seconds[lap] for lap in row.laps) for m in measured]
    peaks = [m.peak_mib for m in measured if m.peak_mib is not None]
    return {
        "label": row.label,
        "median_s": median(walls),
        "lowest_s": min(walls),
        "highest_s": max(walls),
        "cpu_s": median(sum(m.cpu_seconds[lap] for lap in row.laps) for m in measured),
        "per_s": count / median(walls),
        "peak_mib": max(peaks) if peaks else None,
    }


def table(comparison: Comparison, lines: list[dict[str, Any]]) -> str:
    """The figures as Markdown; speeds are ratios of medians, above 1 where a row is faster."""
    base = next(line for line in lines if line["label"] == comparison.baseline)
    head = (
        f"| | median s (lowest to highest) | {comparison.unit}/s | speed"
        " | processor s | speed by processor | peak MiB |"
    )
    body = [
        f"| {line['label']}"
        f" | {line['median_s']:.2f} ({line['lowest_s']:.2f} to {line['highest_s']:.2f})"
        f" | {line['per_s']:,.0f}"
        f" | {base['median_s'] / line['median_s']:.3g}"
        f" | {line['cpu_s']:.2f}"
        f" | {base['cpu_s'] / line['cpu_s']:.3g}"
        f" | {_mib(line['peak_mib'])} |"
        for line in lines
    ]
    return "\n".join([head, "|---|--:|--:|--:|--:|--:|--:|", *body])


def _mib(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f}"


def machine() -> dict[str, Any]:
    """What was measured on: processor, cores, memory, load, Python and packages."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _SHARED},
    }


def _first(path: str, name: str) -> str | None:
    """The value of the first line `name: value` of a file; None where there is none."""
    if not Path(path).exists():
        return None
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None
