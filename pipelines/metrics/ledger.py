"""The ledger: every millisecond of every job in exactly one component."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import overlay, tiling_from_starts, union
from pipelines.taxonomy import (
    EFFECTIVE,
    FAILURE_DETECTION,
    REPEATED,
    REQUEUE_WAIT,
    RESTART_GAP,
    STALLED,
    TEARDOWN,
    UNATTRIBUTED,
    WARMUP,
    Outcome,
    Stage,
)

_ALWAYS = Window.unboundedPreceding


def free_clock(attempts: DataFrame, covers: DataFrame) -> DataFrame:
    """Per attempt: f_begin and f_end, its envelope on the job's free clock.

    The free clock stands still under explicit blocking phases, over the whole job in order.
    """
    covered = covers.groupBy("att").agg(F.sum(F.expr("end - begin")).alias("covered"))
    course = Window.partitionBy("job").orderBy("att")
    upto = F.sum(F.coalesce("covered", F.lit(0))).over(course.rowsBetween(_ALWAYS, 0))
    return (
        attempts.join(covered, on="att", how="left")
        .withColumn("_upto", upto)
        .withColumn("f_end", F.col("end") - F.col("_upto"))
        .withColumn("f_begin", F.expr("begin - _upto + coalesce(covered, 0)"))
        .drop("_upto", "covered")
    )


def free_segments(clocked: DataFrame, covers: DataFrame) -> DataFrame:
    """The stretches of each attempt under no explicit phase: (att, begin, end, offset).

    Begin and end are on the free clock; with `offset` added they are wall time.
    """
    course = Window.partitionBy("job").orderBy("att", "begin")
    upto = F.sum(F.expr("end - begin")).over(course.rowsBetween(_ALWAYS, 0))
    after = covers.withColumn("offset", upto).select("att", F.col("end").alias("wall"), "offset")
    first = clocked.select(
        "att", F.col("begin").alias("wall"), F.expr("begin - f_begin").alias("offset")
    )
    starts = union([after, first]).join(clocked.select("att", "f_end"), on="att", how="inner")
    return tiling_from_starts(
        starts.select(
            "att",
            F.expr("wall - offset").alias("begin"),
            F.col("f_end").alias("end"),
            F.col("wall").alias("turn"),
            "offset",
        ),
        key=["att"],
        end="end",
    ).drop("turn")


def labels(
    clocked: DataFrame, ends: DataFrame, plain: DataFrame, priced: DataFrame, idle: DataFrame
) -> DataFrame:
    """What each attempt's free time was: (att, begin, end, component, is_inferred), free clock.

    `clocked` has outcome and f_begin, f_end; `ends` the free-clock span of the marks (f_first,
    f_last); `priced` the exceptional progress intervals, `idle` the pairs that were no training,
    `plain` the stretches of plain training between them.
    """
    known = clocked.join(ends, on="att", how="left")
    before = known.select(
        "att",
        F.col("f_begin").alias("begin"),
        F.coalesce("f_first", "f_end").alias("end"),
        F.lit(UNATTRIBUTED).alias("component"),
        F.lit(False).alias("is_inferred"),
    )
    after = known.where("f_last IS NOT NULL").select(
        "att",
        F.col("f_last").alias("begin"),
        F.col("f_end").alias("end"),
        after_the_last_mark(F.col("outcome")).alias("component"),
        F.lit(False).alias("is_inferred"),
    )
    between = idle.select(
        "att",
        F.col("f0").alias("begin"),
        F.col("f1").alias("end"),
        F.when(F.col("is_gap"), RESTART_GAP).otherwise(UNATTRIBUTED).alias("component"),
        F.lit(False).alias("is_inferred"),
    )
    return union([before, after, between, plain, _parts(priced)]).where("begin < end")


def after_the_last_mark(outcome: Column) -> Column:
    """The component of the time after an attempt's last mark, by its outcome."""
    failed = [o.value for o in Outcome if o.is_failure]
    ended = [Outcome.SUCCEEDED.value, Outcome.CANCELLED.value]
    return (
        F.when(outcome.isin(*failed), FAILURE_DETECTION)
        .when(outcome.isin(*ended), TEARDOWN)
        .otherwise(UNATTRIBUTED)
    )


def plain_stretches(progress: DataFrame, ends: DataFrame) -> DataFrame:
    """Plain training between the exceptional pairs of an attempt, as few long intervals.

    `progress` are the pairs that are *not* plain; the stretches are what they leave between the
    first mark and the last. `audit` compares their sum with the plain pairs themselves.
    """
    blocks = union(
        [
            progress.select("att", "f0", "f1", "seq"),
            ends.select("att", F.col("f_first").alias("f0"), F.col("f_first").alias("f1"),
                        F.lit(-1).cast("long").alias("seq")),
        ]
    )  # fmt: skip
    course = Window.partitionBy("att").orderBy("f1", "seq")
    return (
        blocks.withColumn("next", F.lead("f0").over(course))
        .join(ends.select("att", "f_last"), on="att", how="inner")
        .select(
            "att",
            F.col("f1").alias("begin"),
            F.coalesce("next", "f_last").alias("end"),
            F.lit(EFFECTIVE).alias("component"),
            F.lit(False).alias("is_inferred"),
        )
        .where("begin < end")
    )


def _parts(priced: DataFrame) -> DataFrame:
    """Warm-up first, then repeated, then new, then stalled: an interval's parts in time order."""
    parts = priced.select(
        "att",
        F.expr(
            "stack(4,"
            f" '{WARMUP}', f0, f0 + warmup_ms,"
            f" '{REPEATED}', f0 + warmup_ms, f0 + warmup_ms + repeated_ms,"
            f" '{EFFECTIVE}', f0 + warmup_ms + repeated_ms, f1 - stall_ms,"
            f" '{STALLED}', f1 - stall_ms, f1) AS (component, begin, end)"
        ),
    )
    is_inferred = F.col("component").isin(WARMUP, STALLED)
    return parts.select("att", "begin", "end", "component", is_inferred.alias("is_inferred"))


def attempt_rows(labelled: DataFrame, segments: DataFrame, covers: DataFrame) -> DataFrame:
    """Labels brought back to wall time, and explicit phases: (att, begin, end, component, …)."""
    pieces = overlay(
        ["att"],
        label=labelled.select("att", "begin", "end"),
        segment=segments.select("att", "begin", "end"),
    )
    named = labelled.select("att", F.col("begin").alias("label"), "component", "is_inferred")
    placed = segments.select("att", F.col("begin").alias("segment"), "offset")
    free = (
        pieces.join(named, on=["att", "label"], how="inner")
        .join(placed, on=["att", "segment"], how="inner")
        .select(
            "att",
            F.expr("begin + offset").alias("begin"),
            F.expr("end + offset").alias("end"),
            "component",
            "is_inferred",
            F.lit(None).cast("long").alias("gating_rank"),
        )
    )
    explicit = covers.select(
        "att", "begin", "end", F.col("phase").alias("component"), "is_inferred", "gating_rank"
    )
    return union([free, explicit])


def job_rows(rows: DataFrame, attempts: DataFrame, gaps: DataFrame) -> DataFrame:
    """Rows of attempts and of the gaps between them, with the accelerators held.

    Columns: job, att (of a gap: the attempt before it), attempt (null in a gap), begin, end,
    component, gpus, is_inferred, gating_rank.
    """
    held = attempts.select("att", "job", "attempt", "gpus")
    inside = rows.join(F.broadcast(held), on="att", how="inner")
    between = gaps.select(
        "job",
        "att",
        F.lit(None).cast("long").alias("attempt"),
        "begin",
        "end",
        F.when(F.col("is_held"), RESTART_GAP).otherwise(REQUEUE_WAIT).alias("component"),
        "gpus",
        F.lit(False).alias("is_inferred"),
        F.lit(None).cast("long").alias("gating_rank"),
    )
    return union([inside.select(*between.columns), between])


def with_uncertain(rows: DataFrame, uncertain: DataFrame) -> DataFrame:
    """The job rows, repeated training inferred in jobs (`job`) whose position is uncertain."""
    marked = F.broadcast(uncertain.withColumn("is_uncertain", F.lit(True)))
    is_doubtful = F.coalesce("is_uncertain", F.lit(False)) & (F.col("component") == REPEATED)
    return (
        rows.join(marked, on="job", how="left")
        .withColumn("is_inferred", F.col("is_inferred") | is_doubtful)
        .drop("is_uncertain")
    )


def pieces(rows: DataFrame, stages: DataFrame, causes: DataFrame) -> DataFrame:
    """Rows of jobs cut where their stage or their cause changes, with `stage` and `cause`.

    Effective training is its own stage. Only recoveries, starts and repeated work are charged to an
    interruption (docs/accounting.md, Cost by cause).
    """
    cut = overlay(
        ["job"],
        row=rows.select("job", "begin", "end"),
        stage_begin=stages.select("job", "begin", "end"),
        cause_begin=causes.select("job", "begin", "end"),
    )
    stage = F.when(F.col("component") == EFFECTIVE, Stage.EFFECTIVE.value).otherwise(F.col("stage"))
    is_charged = stage.isin(Stage.TIME_TO_START.value, Stage.TIME_TO_RECOVER.value) | (
        F.col("component") == REPEATED
    )
    return (
        cut.join(
            rows.withColumnRenamed("begin", "row").drop("end"), on=["job", "row"], how="inner"
        )
        .join(
            stages.select("job", F.col("begin").alias("stage_begin"), "stage"),
            on=["job", "stage_begin"],
            how="inner",
        )
        .join(
            causes.select("job", F.col("begin").alias("cause_begin"), "cause"),
            on=["job", "cause_begin"],
            how="inner",
        )
        .select(
            "job", "att", "attempt", "begin", "end", "component", stage.alias("stage"), "gpus",
            "is_inferred", F.when(is_charged, F.col("cause")).alias("cause"), "gating_rank",
        )
    )  # fmt: skip


def progress_difference(pairs: DataFrame, labelled: DataFrame) -> DataFrame:
    """Attempts whose progress intervals and labels disagree: (att, in_pairs, in_labels), in ms.

    Plain training is what the exceptional pairs leave over, so it balances by construction; this
    compares it with the pairs themselves. Empty where all is well; the worst comes first.
    """
    trained = [EFFECTIVE, REPEATED, WARMUP, STALLED]
    in_pairs = (
        pairs.where("is_progress").groupBy("att").agg(F.sum(F.expr("f1 - f0")).alias("in_pairs"))
    )
    in_labels = (
        labelled.where(F.col("component").isin(*trained))
        .groupBy("att")
        .agg(F.sum(F.expr("end - begin")).alias("in_labels"))
    )
    both = in_pairs.join(in_labels, on="att", how="full").select(
        "att",
        F.coalesce("in_pairs", F.lit(0)).alias("in_pairs"),
        F.coalesce("in_labels", F.lit(0)).alias("in_labels"),
    )
    return both.where("in_pairs != in_labels").orderBy(
        F.abs(F.col("in_pairs") - F.col("in_labels")).desc(), "att"
    )
