"""Rows in, rows out: small frames from dictionaries and back, many logs accounted in one walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark.sql import functions as F

from pipelines import tables, walk
from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_frame
from pipelines.scratch import Scratch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
AS_OF = 1_768_003_200_000  # 2026-01-10T00:00:00Z, to which the logs of a shared walk are moved


ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "decimal(38,0)": pa.decimal128(38, 0),
}


def frame(spark: SparkSession, columns: str, rows: list[Row]) -> DataFrame:
    """Rows as a frame; `columns` is DDL (`job long, phase string`), and an absent key is null.

    By way of Arrow, for then Spark plans it as the constant that it is.
    """
    schema = pa.schema(
        [(name, ARROW[type_]) for name, type_ in map(str.split, columns.split(", "))]
    )
    unknown = {key for row in rows for key in row} - set(schema.names)
    assert not unknown, f"not among the columns: {unknown}"
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema), columns)


def rows(result: DataFrame, *columns: str) -> list[Row]:
    """The rows of a frame, with only these columns where some are named, sorted by all of them."""
    chosen = result.select(*columns) if columns else result
    return sorted(chosen.toArrow().to_pylist(), key=lambda row: [_place(v) for v in row.values()])


def tuples(result: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """As `rows`, without the names: for tables with a row a line."""
    return [tuple(row.values()) for row in rows(result, *columns)]


def _place(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


@dataclass(frozen=True)
class Log:
    """One of many logs: its lines as text, and by how many ms it is moved in time once read."""

    name: str
    lines: list[str]
    shift: int = 0


def walked(
    spark: SparkSession, folder: Path, logs: list[Log], settings: walk.Settings
) -> tuple[walk.Frames, dict[str, int]]:
    """All logs through the real reader and one walk: the ledger's frames, and rejects by log.

    Engines need seconds for a walk, however short, so many logs share one. Each is moved in time to
    the `as_of` that they share, and its clusters are named `<log>|<cluster>`: no job is shared.
    """
    raw, kept = folder / "raw", folder / "kept"
    for log in logs:
        path = raw / f"{log.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in log.lines), encoding="utf-8")
    scratch = Scratch(LocalFileSystem(), str(kept), kept.as_uri())
    names = set()

    def keep(name: str, told: DataFrame) -> DataFrame:
        assert name not in names, f"{name} is kept twice"
        names.add(name)
        return scratch.keep(name, told)

    book = walk.logbook(files_frame(spark, raw_files([raw])), settings, keep)
    moves = [{"source_file": f"{x.name}.jsonl", "log": x.name, "shift": x.shift} for x in logs]
    events = (
        book[tables.LOGBOOK_EVENT.name]
        .join(frame(spark, "source_file string, log string, shift long", moves), on="source_file")
        .withColumn("event_at", F.timestamp_millis(F.unix_millis("event_at") + F.col("shift")))
        .withColumn("ds", F.to_date("event_at"))
        .withColumn("cluster", F.concat("log", F.lit("|"), "cluster"))
    )
    rejects = {
        row["source_file"].removesuffix(".jsonl"): row["reject_count"]
        for row in rows(book[tables.LOGBOOK_FILE.name], "source_file", "reject_count")
    }
    return walk.ledger(tables.LOGBOOK_EVENT.select_from(events), settings, keep), rejects


def by_log(jobs: list[Row]) -> dict[str, list[Row]]:
    """Accounts of a shared walk by log, with their own clusters again (`default` is not named)."""
    found: dict[str, list[Row]] = {}
    for job in jobs:
        log, _, cluster = job["cluster"].partition("|")
        own = {} if cluster == "default" else {"cluster": cluster}
        found.setdefault(log, []).append(
            {**own, **{k: v for k, v in job.items() if k != "cluster"}}
        )
    return found
