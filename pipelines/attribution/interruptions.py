"""Interruptions: one for each restart, each bad end, and each notice that led to neither."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import close_latest_open, merge, union
from pipelines.taxonomy import Cause, Outcome

# Places in an attempt's course, before and after the `seq` of any mark.
_BEFORE_THE_MARKS = -1
_AFTER_THE_MARKS = 1 << 60
_ALWAYS = Window.unboundedPreceding


def groups(strikes: DataFrame, spans: DataFrame, struck: DataFrame) -> DataFrame:
    """Interruption lines between the same two marks, as one: (job, att, place, began, …).

    `strikes` are the lines (job, att, at, cause); `spans` has (att, first_mark, last_mark);
    `struck` are the pairs of marks with a line in [t0, t1): (att, seq, t0). A group's `place` is
    the `seq` of its pair, or before or after all marks; without marks all lines are after them. It
    began at the mark before it (null: there is none). Adds last_line, and cause: the first known.
    """
    is_known = F.col("cause").isNotNull() & (F.col("cause") != Cause.UNKNOWN.value)
    first_known = F.min(F.when(is_known, F.struct("at", "cause")))
    return (
        _placed(strikes, spans, struck)
        .groupBy("job", "att", "place", "began")
        .agg(F.max("at").alias("last_line"), first_known.alias("first"))
        .select("job", "att", "place", "began", "last_line", F.col("first.cause").alias("cause"))
    )


def _placed(strikes: DataFrame, spans: DataFrame, struck: DataFrame) -> DataFrame:
    """Lines with `place` and `began`: the last pair that began by then is the one with the line."""
    course = Window.partitionBy("att").orderBy("at", "turn").rowsBetween(_ALWAYS, 0)
    pairs = struck.select("att", F.col("seq"), F.col("t0").alias("at"), F.col("t0"))
    walked = (
        merge([pairs.withColumn("turn", F.lit(0)), strikes.withColumn("turn", F.lit(1))])
        .withColumn("seq", F.max("seq").over(course))
        .withColumn("t0", F.max("t0").over(course))
        .where("turn = 1")
        .join(spans.select("att", "first_mark", "last_mark"), on="att", how="left")
    )
    is_after = F.coalesce(F.col("at") >= F.col("last_mark"), F.lit(True))
    is_before = F.col("at") < F.col("first_mark")
    place = F.when(is_after, _AFTER_THE_MARKS).when(is_before, _BEFORE_THE_MARKS)
    began = F.when(is_after, F.col("last_mark")).when(~is_before, F.col("t0"))
    return walked.select(
        "job",
        "att",
        "at",
        "cause",
        place.otherwise(F.col("seq")).cast("long").alias("place"),
        began.alias("began"),
    )


def breaks(attempts: DataFrame, gaps: DataFrame, spans: DataFrame) -> DataFrame:
    """Restarts inside attempts, and ends that count: (job, att, place, kind, began, mark_before).

    An end counts where the attempt failed, was preempted or timed out, or another attempt follows.
    """
    restarts = gaps.select(
        "job",
        "att",
        F.col("seq").alias("place"),
        F.lit("restart").alias("kind"),
        F.col("t0").alias("began"),
        F.col("t0").alias("mark_before"),
    )
    failed = [o.value for o in Outcome if o.is_failure]
    counts = ~F.col("is_last") | F.col("outcome").isin(*failed)
    ends = (
        attempts.where(counts)
        .join(spans.select("att", "last_mark"), on="att", how="left")
        .select(
            "job",
            "att",
            F.lit(_AFTER_THE_MARKS).cast("long").alias("place"),
            F.lit("end").alias("kind"),
            F.coalesce("last_mark", "end").alias("began"),
            F.col("last_mark").alias("mark_before"),
        )
    )
    return union([restarts, ends])


def interruptions(
    groups_: DataFrame, breaks_: DataFrame, attempts: DataFrame, *, dead_after: int
) -> DataFrame:
    """One row per interruption: (job, att, place, kind, began, cause).

    A break takes the group of its own place; one without a line takes as a notice the latest
    earlier group that belongs to no other, if its last line is at most `dead_after` (ms) before the
    last mark before the break. A group that led to none counts by itself.
    """
    place = ["att", "place"]
    own = breaks_.join(
        groups_.select(*place, "last_line", F.col("cause").alias("own_cause")), on=place, how="left"
    )
    silent = own.where("last_line IS NULL").drop("last_line", "own_cause")
    free = groups_.join(breaks_.select(*place), on=place, how="left_anti")
    noticed = _notices(free, silent, dead_after=dead_after)
    cause = F.coalesce("own_cause", "notice_cause").alias("cause")
    struck = own.join(noticed.drop("notice_place"), on=place, how="left").select(
        "job", *place, "kind", "began", cause
    )
    used = noticed.select("att", F.col("notice_place").alias("place"))
    alone = _alone(free.join(used, on=place, how="left_anti"), attempts)
    return _with_cause(union([struck, alone]), attempts)


def _alone(groups_: DataFrame, attempts: DataFrame) -> DataFrame:
    """Groups that led to nothing; in an attempt without marks they began at its end."""
    began = F.coalesce("began", "att_end").alias("began")
    return groups_.join(
        attempts.select("att", F.col("end").alias("att_end")), on="att", how="inner"
    ).select("job", "att", "place", F.lit("notice").alias("kind"), began, "cause")


def _notices(free: DataFrame, silent: DataFrame, *, dead_after: int) -> DataFrame:
    """Which silent break takes which free group: (att, place, notice_place, notice_cause)."""
    null = F.lit(None).cast("long")
    course = union(
        [
            free.select("att", "place", F.lit(True).alias("is_open"), "cause", "last_line",
                        F.col("place").alias("at"), null.alias("mark_before")),
            silent.select("att", "place", F.lit(False).alias("is_open"),
                          F.lit(None).cast("string").alias("cause"), null.alias("last_line"),
                          F.col("place").alias("at"), "mark_before"),
        ]
    )  # fmt: skip
    taken = close_latest_open(course, key=["att"], order=["place"]).where("closed_at IS NOT NULL")
    marks = silent.select(
        "att", F.col("place").alias("closed_at"), F.col("mark_before").alias("mark")
    )
    return (
        taken.join(marks, on=["att", "closed_at"], how="inner")
        .where(F.col("mark") - F.col("last_line") <= F.lit(dead_after))
        .select(
            "att",
            F.col("closed_at").alias("place"),
            F.col("place").alias("notice_place"),
            F.col("cause").alias("notice_cause"),
        )
    )


def _with_cause(struck: DataFrame, attempts: DataFrame) -> DataFrame:
    known = struck.join(attempts.select("att", "outcome", "ended_cause"), on="att", how="inner")
    is_end = F.col("kind") == "end"
    is_late = F.col("place") == _AFTER_THE_MARKS
    stated = F.when(is_end | is_late, F.col("ended_cause"))
    implied = F.when(is_end, implied_cause(F.col("outcome")))
    return known.withColumn(
        "cause", F.coalesce("cause", stated, implied, F.lit(Cause.UNKNOWN.value))
    ).drop("outcome", "ended_cause")


def implied_cause(outcome: Column) -> Column:
    """The cause of an end by its outcome alone."""
    branches = F.when(F.lit(False), Cause.UNKNOWN.value)
    for known in Outcome:
        branches = branches.when(outcome == known.value, known.implied_cause.value)
    return branches


def cause_tiling(struck: DataFrame, walls: DataFrame) -> DataFrame:
    """To which interruption an instant is charged: (job, begin, end, cause) tiles the wall.

    The latest interruption begun at or before it; of equal begins the later in the order of
    attempts and then of the attempt's course. Before the first, cause is null. `walls` has (job,
    wall_begin, wall_end).
    """
    ends = struck.join(walls.select("job", "wall_end"), on="job", how="inner").select(
        "job",
        F.col("began").alias("begin"),
        F.col("wall_end").alias("end"),
        "cause",
        "att",
        "place",
    )
    first = walls.select(
        "job",
        F.col("wall_begin").alias("begin"),
        F.col("wall_end").alias("end"),
        F.lit(None).cast("string").alias("cause"),
        F.lit(-1).cast("long").alias("att"),
        F.lit(-1).cast("long").alias("place"),
    )
    course = Window.partitionBy("job", "begin").orderBy(F.col("att").desc(), F.col("place").desc())
    latest = union([first, ends]).withColumn("_n", F.row_number().over(course)).where("_n = 1")
    after = Window.partitionBy("job").orderBy("begin")
    return (
        latest.withColumn("_next", F.coalesce(F.lead("begin").over(after), F.col("end")))
        .withColumn("end", F.least("_next", "end"))
        .where("begin < end")
        .select("job", "begin", "end", "cause")
    )
