"""Interval algebra on DataFrames: pairing, joining, overlaying, complementing, splitting by day.

Here and in the transforms an instant is a long of epoch milliseconds named `at`, `begin` or `end`;
an interval is half-open `[begin, end)`. Published tables turn instants into timestamps `*_at`.
Nothing here joins every interval with every other one of its key: work grows with the number of
intervals (times the logarithm of a sort), also for a job that has almost all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

DAY_MS = 86_400_000

_BEFORE = (Window.unboundedPreceding, -1)
_UP_TO_HERE = (Window.unboundedPreceding, Window.currentRow)


def instant(timestamp: str) -> Column:
    """Epoch milliseconds of a timestamp column."""
    return F.unix_millis(F.col(timestamp))


def timestamp(at: str) -> Column:
    """The timestamp of a column of epoch milliseconds."""
    return F.timestamp_millis(F.col(at))


def day_number(at: Column) -> Column:
    """UTC days since 1970-01-01, rounded down also before 1970."""
    return ((at - F.pmod(at, F.lit(DAY_MS))) / F.lit(DAY_MS)).cast("long")


def day(at: Column) -> Column:
    """The UTC day of an instant, as a date."""
    return F.to_date(F.timestamp_millis(at))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns in any order."""
    return reduce(DataFrame.unionByName, frames)


def merge(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames; a column that a frame lacks is null there.

    The nulls are cast: with `allowMissingColumns` Sail forgets the type of such a column.
    """
    types = {field.name: field.dataType for frame in frames for field in frame.schema}

    def completed(frame: DataFrame) -> DataFrame:
        known = set(frame.columns)
        return frame.select(
            *(F.col(c) if c in known else F.lit(None).cast(t).alias(c) for c, t in types.items())
        )

    return union([completed(frame) for frame in frames])


def filled_down(
    frame: DataFrame, *columns: str, where: Column, key: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """Replace columns by those of the latest row, up to each, for which `where` holds.

    Null where there is none. `last(ignorenulls)` would say the same, but Sail looks through all
    rows before each row anew.
    """
    course = Window.partitionBy(*key).orderBy(*order).rowsBetween(*_UP_TO_HERE)
    since = Window.partitionBy(*key, "_nth")
    told = {c: F.max(F.when(where, F.col(c))).over(since) for c in columns}
    return (
        frame.withColumn("_nth", F.sum(where.cast("long")).over(course))
        .withColumns(told)
        .drop("_nth")
    )


def close_latest_open(frame: DataFrame, *, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Pair each opening row with the closing row that ends it; a closing ends the latest open one.

    `frame` has the key, the order, `is_open`, and a payload `at`. The result has one row for each
    opening row, with all its columns and `closed_at`: the `at` of its closing row, null where it
    was never closed. A closing row with nothing open is dropped.

    A stack without a loop: with the depth of the stack as a running sum that never goes below
    zero, the rows of one depth alternate open, close, open, close; a stray closing row follows one.
    """
    course = Window.partitionBy(*key).orderBy(*order)
    sofar = course.rowsBetween(*_UP_TO_HERE)
    step = F.when(F.col("is_open"), 1).otherwise(-1)
    depth = F.col("_sum") - F.least(F.lit(0), F.min("_sum").over(sofar))
    levelled = frame.withColumn("_sum", F.sum(step).over(sofar)).withColumn(
        "_level", F.when(F.col("is_open"), depth).otherwise(depth + 1)
    )
    level = Window.partitionBy(*key, "_level").orderBy(*order)
    return (
        levelled.withColumn("closed_at", F.lead("at").over(level))
        .where("is_open")
        .drop("_sum", "_level")
    )


def with_island(
    frame: DataFrame, *, key: Sequence[str], touching: bool, name: str = "island"
) -> DataFrame:
    """Number the islands of intervals that overlap (with `touching` also: meet) within a key."""
    course = Window.partitionBy(*key).orderBy("begin", "end")
    reach = F.max("end").over(course.rowsBetween(*_BEFORE))
    is_apart = (F.col("begin") > reach) if touching else (F.col("begin") >= reach)
    return (
        frame.withColumn("_apart", F.coalesce(is_apart.cast("int"), F.lit(1)))
        .withColumn(name, F.sum("_apart").over(course.rowsBetween(*_UP_TO_HERE)))
        .drop("_apart")
    )


def overlay(key: Sequence[str], **tilings: DataFrame) -> DataFrame:
    """Cut tilings of the same spans by one another.

    Each of `tilings` has the key, `begin` and `end`; within a key its intervals follow one another
    without a gap and none is empty. The result has the key, `begin`, `end`, and for each tiling a
    column of its name: the `begin` of the interval that the piece lies in, to join on.
    """
    edges = union(
        [
            frame.select(
                *key,
                "begin",
                "end",
                *(
                    (F.col("begin") if name == other else F.lit(None).cast("long")).alias(other)
                    for other in tilings
                ),
            )
            for name, frame in tilings.items()
        ]
    )
    merged = edges.groupBy(*key, "begin").agg(
        F.max("end").alias("_end"), *(F.max(name).alias(name) for name in tilings)
    )
    course = Window.partitionBy(*key).orderBy("begin")
    sofar = course.rowsBetween(*_UP_TO_HERE)
    return merged.select(
        *key,
        "begin",
        F.coalesce(F.lead("begin").over(course), F.col("_end")).alias("end"),
        *(F.max(name).over(sofar).alias(name) for name in tilings),
    )


def tiling_from_starts(starts: DataFrame, *, key: Sequence[str], end: str) -> DataFrame:
    """Intervals from their begins: each lasts to the next, the last one to the column `end`.

    Of several starts at one `begin` the one highest by `turn` counts; empty intervals are dropped.
    """
    course = Window.partitionBy(*key).orderBy("begin", "turn")
    return (
        starts.withColumn("_next", F.lead("begin").over(course))
        .withColumn("_stop", F.least(F.coalesce(F.col("_next"), F.col(end)), F.col(end)))
        .where(F.col("begin") < F.col("_stop"))
        .drop("_next", end)
        .withColumnRenamed("_stop", end)
    )


def split_at_midnight(frame: DataFrame) -> DataFrame:
    """Cut intervals at UTC midnight: one row per interval and day, with `ds` (date) added."""
    first, last = day_number(F.col("begin")), day_number(F.col("end") - 1)
    days = frame.withColumn("_day", F.explode(F.sequence(first, last)))
    return (
        days.withColumn("begin", F.greatest(F.col("begin"), F.col("_day") * DAY_MS))
        .withColumn("end", F.least(F.col("end"), (F.col("_day") + 1) * DAY_MS))
        .withColumn("ds", day(F.col("begin")))
        .drop("_day")
    )
