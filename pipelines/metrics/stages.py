"""Stages (L1) of a job's life, and its recoveries: where progress stopped and began again."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import tiling_from_starts, union
from pipelines.taxonomy import EFFECTIVE, Outcome, Stage

_ALWAYS = Window.unboundedPreceding
_LAST = 1 << 60  # after every mark of a job, in the order of points at one instant


def stretches(edges: DataFrame, spans: DataFrame) -> DataFrame:
    """Unbroken progress: (job, att, seq, begin, end, gap_count), one row per stretch.

    `edges` are the pairs that were no training and the pairs that start a stretch; `gap_count`
    counts the job's restart_gap pairs up to it.
    """
    course = Window.partitionBy("job").orderBy("seq")
    next_t0 = F.when(F.lead("att").over(course) == F.col("att"), F.lead("t0").over(course))
    return (
        edges.withColumn("next_t0", next_t0)
        .withColumn(
            "gap_count",
            F.sum(F.col("is_gap").cast("long")).over(course.rowsBetween(_ALWAYS, 0)),
        )
        .where("is_stretch_start")
        .join(F.broadcast(spans.select("att", "last_mark")), on="att", how="inner")
        .select(
            "job",
            "att",
            "seq",
            F.col("t0").alias("begin"),
            F.coalesce("next_t0", "last_mark").alias("end"),
            "gap_count",
        )
    )


def recoveries(runs: DataFrame) -> DataFrame:
    """Between two stretches of different attempts, or with a restart_gap between them.

    Columns: job, from_att, to_att, seq (of the stretch after it), begin, end.
    """
    course = Window.partitionBy("job").orderBy("seq")
    before = {c: F.lag(c).over(course) for c in ("att", "end", "gap_count")}
    is_recovery = (F.col("from_att") != F.col("att")) | (F.col("gaps_before") != F.col("gap_count"))
    return (
        runs.withColumn("from_att", before["att"])
        .withColumn("stopped", before["end"])
        .withColumn("gaps_before", before["gap_count"])
        .where(is_recovery)
        .select(
            "job",
            "from_att",
            F.col("att").alias("to_att"),
            "seq",
            F.col("stopped").alias("begin"),
            F.col("begin").alias("end"),
        )
    )


def milestones(
    attempts: DataFrame, runs: DataFrame, edges: DataFrame, spans: DataFrame
) -> DataFrame:
    """Per job with attempts: wall_begin, wall_end, first and last progress, and its last attempt.

    Columns: job, wall_begin, wall_end, first_progress, last_progress, and of the last attempt
    last_att, outcome, is_censored, is_presumed_dead, last_mark, is_trained (the last progress lies
    in it), is_gap_after (a restart_gap pair follows that progress).
    """
    walls = attempts.groupBy("job").agg(
        F.min("begin").alias("wall_begin"), F.max("end").alias("wall_end")
    )
    trained = runs.groupBy("job").agg(
        F.min("begin").alias("first_progress"),
        F.max("end").alias("last_progress"),
        F.max("att").alias("trained_att"),
        F.max("seq").alias("trained_seq"),
    )
    gap = edges.where("is_gap").groupBy("att").agg(F.max("seq").alias("gap_seq"))
    last = attempts.where("is_last").select(
        "job", "att", "outcome", "is_censored", "is_presumed_dead"
    )
    return (
        walls.join(last, on="job", how="inner")
        .join(spans.select("att", "last_mark"), on="att", how="left")
        .join(gap, on="att", how="left")
        .join(trained, on="job", how="left")
        .withColumn("is_trained", F.col("trained_att") == F.col("att"))
        .withColumn("is_gap_after", F.coalesce(F.expr("gap_seq > trained_seq"), F.lit(False)))
        .withColumnRenamed("att", "last_att")
        .drop("gap_seq", "trained_seq", "trained_att")
    )


def stage_tiling(miles: DataFrame, recovered: DataFrame) -> DataFrame:
    """The stage of rows that train nothing new: (job, begin, end, stage) tiles the wall."""
    windows = recovered.join(miles.select("job", "wall_end"), on="job", how="inner")
    trained = miles.where("first_progress IS NOT NULL")
    in_last = trained.where("is_trained")
    start, recover = F.lit(Stage.TIME_TO_START.value), F.lit(Stage.TIME_TO_RECOVER.value)
    waste = F.lit(Stage.WASTED_TRAINING.value)
    points = union(
        [
            _stage_from(miles, "wall_begin", start, F.lit(-2)),
            _stage_from(trained, "first_progress", waste, F.lit(-1)),
            _stage_from(windows, "begin", recover, F.col("seq") * 2),
            _stage_from(windows, "end", waste, F.col("seq") * 2 + 1),
            _stage_from(trained, "last_progress", _until_the_last_mark(), F.lit(_LAST)),
            _stage_from(in_last, "last_mark", _after_the_last_mark(), F.lit(_LAST + 1)),
        ]
    )
    return tiling_from_starts(points, key=["job"], end="end").drop("turn")


def _stage_from(frame: DataFrame, begin: str, stage: Column, turn: Column) -> DataFrame:
    """From when on which stage; of several at one instant the highest `turn` counts."""
    return frame.select(
        "job",
        F.col(begin).alias("begin"),
        F.col("wall_end").alias("end"),
        stage.alias("stage"),
        turn.cast("long").alias("turn"),
    )


def _until_the_last_mark() -> Column:
    """The stage after the job's last progress, up to its last mark."""
    is_over = ~F.col("is_trained") | F.col("is_gap_after")
    return F.when(is_over, Stage.TIME_TO_RECOVER.value).otherwise(Stage.WASTED_TRAINING.value)


def _after_the_last_mark() -> Column:
    """The stage after the last mark of a last attempt that made progress."""
    failed = [o.value for o in Outcome if o.is_failure]
    is_failed = F.col("outcome").isin(*failed) | F.col("is_presumed_dead")
    is_recovering = is_failed | (F.col("is_censored") & F.col("is_gap_after"))
    return (
        F.when(is_recovering, Stage.TIME_TO_RECOVER.value)
        .when(F.col("is_censored"), Stage.WASTED_TRAINING.value)
        .otherwise(Stage.SHUTDOWN.value)
    )


def with_new_data(recovered: DataFrame, rows: DataFrame) -> DataFrame:
    """Recoveries with `new_data`: the begin of the first effective row after each (null: none).

    Walked backwards in time, so that a running minimum is the next new data.
    """
    effective = rows.where(F.col("component") == EFFECTIVE)
    null = F.lit(None).cast("long")
    course = Window.partitionBy("job").orderBy(F.col("at").desc(), "turn")
    sought = union(
        [
            effective.select("job", F.col("begin").alias("at"), F.lit(0).alias("turn"),
                             null.alias("seq"), F.col("begin").alias("found")),
            recovered.select("job", F.col("end").alias("at"), F.lit(1).alias("turn"), "seq",
                             null.alias("found")),
        ]
    )  # fmt: skip
    found = (
        sought.withColumn("new_data", F.min("found").over(course.rowsBetween(_ALWAYS, 0)))
        .where("seq IS NOT NULL")
        .select("job", "seq", "new_data")
    )
    return recovered.join(found, on=["job", "seq"], how="left")
