"""The project's own ledger over a folder of logbook__event files, on one engine.

Usage: ledger_pipeline.py EVENTS SUMS --engine sail --until rows|charges [--again] [--steps]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fleets import AS_OF_MS
from probe import Laps, cpu_seconds
from pyarrow.fs import LocalFileSystem

from pipelines import tables, walk
from pipelines.engine import Engine, open_engine
from pipelines.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS = walk.Settings(AS_OF_MS)


class EnoughError(Exception):
    """Raised when the last frame that was asked for is kept."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=Path)
    parser.add_argument("sums", type=Path)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--until", choices=("rows", "charges"), required=True)
    parser.add_argument("--again", action="store_true", help="once more in the same session")
    parser.add_argument("--steps", action="store_true", help="say on stderr how long each took")
    arguments = parser.parse_args()
    laps = Laps()
    with laps.lap("start"):
        engine = open_engine(arguments.engine)
        engine.session.range(1).collect()
    for lap in ("first", "second") if arguments.again else ("first",):
        folder = tempfile.mkdtemp(prefix="ettledger-bench-")
        try:
            with laps.lap(lap):
                sums = account(engine, arguments.events, folder, arguments.until, arguments.steps)
        finally:
            shutil.rmtree(folder)
        if lap == "first":
            arguments.sums.write_text(json.dumps(sums), encoding="utf-8")
    laps.report(engine.version)
    engine.stop()


def account(
    engine: Engine,
    events: Path,
    folder: str,
    until: str,
    steps: bool,  # noqa: FBT001
) -> dict[str, dict[str, int]]:
    """Milliseconds of each component of each job."""
    scratch = Scratch(LocalFileSystem(), folder, Path(folder).as_uri())
    keep = timed(scratch.keep) if steps else scratch.keep
    book = engine.session.read.schema(tables.LOGBOOK_EVENT.ddl).parquet(str(events))
    return to_rows(book, keep) if until == "rows" else to_charges(book, keep)


def to_rows(book: DataFrame, keep: walk.Keep) -> dict[str, dict[str, int]]:
    """As far as the contenders go: the rows of the ledger, before stages, causes and days."""
    kept: dict[str, DataFrame] = {}

    def until_rows(name: str, frame: DataFrame) -> DataFrame:
        kept[name] = keep(name, frame)
        if name == "rows":
            raise EnoughError
        return kept[name]

    with suppress(EnoughError):
        walk.ledger(book, SETTINGS, until_rows)
    named = kept["jobs"].selectExpr("job", "name AS job_id")
    return summed(
        kept["rows"]
        .join(named, on="job", how="inner")
        .selectExpr("job_id", "component", "end - begin AS duration_ms")
    )


def to_charges(book: DataFrame, keep: walk.Keep) -> dict[str, dict[str, int]]:
    """The whole walk: ledger, scorecards and charges."""
    ledger = walk.ledger(book, SETTINGS, keep)
    for frames in (walk.scorecard(ledger, SETTINGS), walk.charges(ledger, SETTINGS)):
        for name, frame in frames.items():
            keep(name, frame)
    return summed(ledger[tables.LEDGER_INTERVAL.name])


def summed(rows: DataFrame) -> dict[str, dict[str, int]]:
    """Sums of (job_id, component, duration_ms) rows."""
    sums: dict[str, dict[str, int]] = {}
    totals = rows.groupBy("job_id", "component").agg({"duration_ms": "sum"})
    for job_id, component, ms in totals.collect():
        sums.setdefault(job_id, {})[component] = ms
    return sums


def timed(keep: walk.Keep) -> walk.Keep:
    """`keep` that says how long each frame took."""

    def kept(name: str, frame: DataFrame) -> DataFrame:
        cpu, begin = cpu_seconds(), time.perf_counter()
        frame = keep(name, frame)
        took = f"{time.perf_counter() - begin:8.2f} s {cpu_seconds() - cpu:8.2f} s cpu"
        print(f"{took}  {name}", file=sys.stderr, flush=True)
        return frame

    return kept


if __name__ == "__main__":
    main()
