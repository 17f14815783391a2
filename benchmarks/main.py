"""The command behind `make bench`: runs the comparisons and prints their tables."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import comparisons
from comparisons import Sizes
from measure import Comparison, figures, machine, run, table

from pipelines.engine import java_home

if TYPE_CHECKING:
    from collections.abc import Callable

ALL: dict[str, Callable[[Sizes], Comparison | list[Comparison]]] = {
    "reader": comparisons.reader,
    "sources": comparisons.sources,
    "ledger": comparisons.ledger,
    "goodput": comparisons.goodput,
    "writing": comparisons.writing,
}
DEFAULT_OUT = Path("build/bench")


def main() -> None:
    options = parsed()
    out: Path = options.out
    found: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(),
        "machine": machine(),
        "tables": [],
    }
    print(told(found["machine"]), flush=True)
    for name in options.only or ALL:
        work = comparisons.cleared(out / "work")
        made = ALL[name](sizes(options, work))
        for comparison in made if isinstance(made, list) else [made]:
            found["tables"].append(measured(comparison, options.repeats))
        shutil.rmtree(work)
    found["machine_after"] = machine()
    path = out / f"results-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"figures: {path}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run",
        description="Run the comparisons of docs/benchmarks.md, contenders in turn.",
        epilog="benchmarks/run --only ledger --marks 10000000 --repeats 1",
    )
    parser.add_argument("--only", nargs="+", choices=list(ALL), help="comparisons (default: all)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="times each is measured (%(default)s)"
    )
    parser.add_argument(
        "--lines", type=int, default=500_000, help="reader, sources: lines (%(default)s)"
    )
    parser.add_argument("--marks", type=int, default=2_000_000, help="ledger: marks (%(default)s)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="goodput: steps (%(default)s)")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="writing: lines (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=1_000, help="writing: jobs (%(default)s)")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder (%(default)s)")
    return parser.parse_args()


def sizes(options: argparse.Namespace, work: Path) -> Sizes:
    """What the options ask for; Spark only where there is a Java."""
    return Sizes(
        folder=work.absolute(),
        bench_python=os.environ["BENCH_PYTHON"],
        lines=options.lines,
        marks=options.marks,
        steps=options.steps,
        events=options.events,
        jobs=options.jobs,
        has_spark=not options.no_spark and java_home() is not None,
    )


def measured(comparison: Comparison, repeats: int) -> dict[str, Any]:
    """Run one comparison, print its table, and give its figures."""
    found = run(comparison, repeats)
    notes = comparison.check(found)
    lines = figures(comparison, found)
    shown = "\n\n".join([comparison.about, table(comparison, lines), *notes])
    print(f"\n## {comparison.title}\n\n{shown}", flush=True)
    return {
        "title": comparison.title,
        "about": comparison.about,
        "unit": comparison.unit,
        "count": comparison.count,
        "repeats": repeats,
        "figures": lines,
        "notes": notes,
    }


def told(of: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in of["packages"].items())
    return (
        f"{of['processor']}, {of['cores']} cores, {of['memory']} memory, {of['system']},"
        f" Python {of['python']}; {packages}; load {of['load'][0]:.1f}"
    )


if __name__ == "__main__":
    main()
