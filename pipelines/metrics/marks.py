"""Progress marks: which lines are believed, the position, and the pairs between two marks."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from pipelines.intervals import union
from pipelines.metrics.attempts import ATTEMPT
from pipelines.metrics.placing import RUN, emitter

_ALWAYS = Window.unboundedPreceding
# More than the turns at one millisecond: two small numbers in one long spare a window expression.
_TURNS = 8


def marks_inside(marks: DataFrame, attempts: DataFrame) -> DataFrame:
    """Mark lines within their attempt, with the keys `job` and `att` in place of names."""
    envelope = attempts.select(*ATTEMPT, "job", "att", "begin", "end")
    return (
        marks.join(F.broadcast(envelope), on=ATTEMPT, how="inner")
        .where("at BETWEEN begin AND end")
        .select(
            "job",
            "att",
            "at",
            "event",
            "samples",
            *emitter(),
        )
    )


def emitters(inside: DataFrame) -> DataFrame:
    """Per attempt, kind of mark and emitter: the span of its lines and how many carry samples."""
    return inside.groupBy("job", "att", "event", "e_rank", "e_host").agg(
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.count("*").alias("line_count"),
        F.count("samples").alias("samples_count"),
    )


def lowest_emitters(emitting: DataFrame) -> DataFrame:
    """The emitters that are believed: the lowest of each attempt and kind of mark."""
    lowest = Window.partitionBy("att", "event").orderBy("e_rank", "e_host")
    return emitting.withColumn("_n", F.row_number().over(lowest)).where("_n = 1").drop("_n")


def mark_spans(believed: DataFrame) -> DataFrame:
    """Per attempt with marks: (job, att, first_mark, last_mark)."""
    return believed.groupBy("job", "att").agg(
        F.min("first_at").alias("first_mark"), F.max("last_at").alias("last_mark")
    )


def believed_marks(
    marks: DataFrame, believed: DataFrame, attempts: DataFrame, spans: DataFrame
) -> DataFrame:
    """Marks of believed emitters inside their attempt: job, att, at, turn, step, samples.

    `turn` is their order at one millisecond: a step comes before a train_begin, except at the
    attempt's first mark. `marks` are placed lines; one join picks, names and clips them.
    """
    chosen = (
        believed.select("att", "event", "e_rank", "e_host")
        .join(attempts.select(*ATTEMPT, "job", "att", "begin", "end"), on="att", how="inner")
        .join(spans.select("att", "first_mark"), on="att", how="inner")
    )
    is_first = F.col("at") == F.col("first_mark")
    turn = F.when(F.col("event") == "step", 1).when(is_first, 0).otherwise(2)
    return (
        marks.select("*", *emitter())
        .join(F.broadcast(chosen), on=[*ATTEMPT, "event", "e_rank", "e_host"], how="inner")
        .where("at BETWEEN begin AND end")
        .select("job", "att", "at", turn.alias("turn"), "step", "samples")
    )


def positions(believed: DataFrame, lines: DataFrame) -> DataFrame:
    """Per `job`: `by_samples`, does every mark of it carry samples?

    Only where some lines carry them and others do not must equal instants be folded to know.
    """
    counted = believed.groupBy("job").agg(
        F.sum("line_count").alias("lines"), F.sum("samples_count").alias("with_samples")
    )
    is_pure = F.col("with_samples").isin(0) | (F.col("with_samples") == F.col("lines"))
    pure = counted.where(is_pure).select("job", (F.col("with_samples") > 0).alias("by_samples"))
    mixed = lines.join(
        F.broadcast(counted.where(~is_pure).select("job")), on="job", how="left_semi"
    )
    # -1 sorts a step without samples below any with them; it never leaves this expression.
    best = F.max(F.struct("step", F.coalesce("samples", F.lit(-1)).alias("samples")))
    folded = (
        mixed.groupBy("job", "att", "at", "turn")
        .agg(best.alias("best"))
        .groupBy("job")
        .agg((F.min("best.samples") >= 0).alias("by_samples"))
    )
    return union([pure, folded])


def uncertain_positions(position: DataFrame, others: DataFrame, jobs: DataFrame) -> DataFrame:
    """Jobs (`job`) whose steps may not mean the same data throughout.

    A launcher said several world sizes (attr `world_size`), and only steps are counted: with
    another number of workers a step may be another number of samples.
    """
    size = F.get_json_object("attrs", "$.world_size")
    several = F.countDistinct("size") > 1
    resized = (
        others.select(*RUN, size.alias("size"))
        .where("size IS NOT NULL")
        .groupBy(*RUN)
        .agg(several.alias("is_resized"))
        .where("is_resized")
        .join(F.broadcast(jobs), on=RUN, how="inner")
    )
    return position.where("NOT by_samples").join(resized, on="job", how="left_semi").select("job")


def pairs(
    marks: DataFrame, position: DataFrame, covers: DataFrame, strikes: DataFrame
) -> DataFrame:
    """One row per mark with the mark before it in its attempt: the pairs, in course.

    `marks` are believed lines; `covers` the disjoint intervals (job, att, begin, end) of explicit
    blocking phases; `strikes` the instants (job, att, at) of interruption lines.

    Columns: job, att, seq (order in the job), t0, t1 (instants), f0, f1 (the same on the *free
    clock*, which stands still under explicit blocking phases), n (positions gained), p0 (position),
    s0, s1 (steps), high (H: the highest position of any mark of the job up to the pair's first),
    and what it is: is_progress, is_gap (restart_gap), is_struck (an interruption lies in [t0, t1)),
    is_resume, is_stretch_start (progress that follows no progress). The first mark of an attempt
    has a row whose t0 is null.

    Everything is read off one order of one stream: it is sorted once.
    """
    course = Window.partitionBy("job").orderBy("att", "at", "turn", "step", "position")
    folded = _without_equal_instants(_stream(marks, position, covers, strikes), course)
    return _classified(_with_the_mark_before(_clocked(folded, course), course), course)


def _without_equal_instants(stream: DataFrame, course: WindowSpec) -> DataFrame:
    """Of several lines of a kind at one millisecond keep the highest step, then samples."""
    following = {f"n_{name}": F.lead(name).over(course) for name in ("att", "place")}
    is_followed = F.expr("att = n_att AND place = n_place")
    return (
        stream.withColumn("place", F.col("at") * _TURNS + F.col("turn"))
        .withColumns(following)
        .where(F.col("position").isNull() | ~F.coalesce(is_followed, F.lit(False)))
        .drop("place", *following)
    )


def _clocked(folded: DataFrame, course: WindowSpec) -> DataFrame:
    """Marks only, with their order `seq`, free-clock instant `f`, `high`, and lines so far."""
    sofar = course.rowsBetween(_ALWAYS, 0)
    told = {
        "seq": F.row_number().over(course).cast("long"),
        "covered": F.sum("shift").over(sofar),
        "ticked": F.sum("ticks").over(sofar),
        "high": F.max("position").over(course.rowsBetween(_ALWAYS, -1)),
    }
    return (
        folded.withColumns(told)
        .where("position IS NOT NULL")
        .withColumn("struck", F.expr(f"ticked div {_TURNS}"))
        .withColumn("f", F.expr(f"at - (covered + (ticked % {_TURNS}) * at)"))
        .drop("covered", "ticked", "shift", "ticks")
    )


def _with_the_mark_before(clocked: DataFrame, course: WindowSpec) -> DataFrame:
    """Add t0, f0, p0, s0, turn0 and struck0: null for the first mark of an attempt."""
    before = {"t0": "at", "f0": "f", "p0": "position", "s0": "step", "tally0": "tally"}
    is_same = F.col("b_att") == F.col("att")
    return (
        clocked.withColumn("tally", F.col("struck") * _TURNS + F.col("turn"))
        .withColumns({n: F.lag(c).over(course) for n, c in {**before, "b_att": "att"}.items()})
        .withColumns({name: F.when(is_same, F.col(name)) for name in before})
        .withColumn("turn0", F.col("tally0") % _TURNS)
        .withColumn("struck0", F.expr(f"tally0 div {_TURNS}"))
        .drop("b_att", "tally", "tally0")
    )


def _classified(paired: DataFrame, course: WindowSpec) -> DataFrame:
    """What each pair was.

    No training where the position does not rise, or where the loop was entered again after an
    interruption in it. A resume follows a train_begin or a pair that was no training.
    """
    rises = F.coalesce(F.col("position") > F.col("p0"), F.lit(False))
    is_struck = F.coalesce(F.col("struck") > F.col("struck0"), F.lit(False))
    is_begin, was_begin = F.col("turn") != 1, F.col("turn0") != 1
    is_gap = ~F.col("is_progress") & ((F.col("position") < F.col("high")) | is_struck)
    # The pair before in the attempt: its first mark (0), no training (1), or progress (2).
    kind = F.when(F.col("t0").isNull(), 0).when(F.col("is_progress"), 2).otherwise(1)
    return (
        paired.withColumn("is_progress", rises & ~(is_begin & is_struck))
        .withColumn("is_gap", F.col("t0").isNotNull() & is_gap)
        .withColumn("kind", kind)
        .withColumn("kind0", F.coalesce(F.lag("kind").over(course), F.lit(0)))
        .select(
            "job", "att", "seq", "t0", F.col("at").alias("t1"), "f0", F.col("f").alias("f1"),
            (F.col("position") - F.col("p0")).alias("n"), "p0", "s0", F.col("step").alias("s1"),
            "high", "is_progress", "is_gap", is_struck.alias("is_struck"),
            (F.col("is_progress") & (was_begin | (F.col("kind0") == 1))).alias("is_resume"),
            (F.col("is_progress") & (F.col("kind0") != F.lit(2))).alias("is_stretch_start"),
        )
    )  # fmt: skip


def _stream(
    marks: DataFrame, position: DataFrame, covers: DataFrame, strikes: DataFrame
) -> DataFrame:
    """Marks, edges of covers and interruptions as rows of one narrow stream.

    The time covered before an instant t is the sum of the ends up to t, less the sum of the begins,
    plus t if a cover is open at t: a running sum of `shift`. That of `ticks` counts the open cover
    as one and each interruption as `_TURNS`.
    """
    marked = marks.join(F.broadcast(position), on="job", how="inner").withColumn(
        "position", F.when(F.col("by_samples"), F.col("samples")).otherwise(F.col("step"))
    )
    begun = covers.withColumn("at", F.col("begin"))
    ended = covers.withColumn("at", F.col("end"))
    nothing = F.lit(None).cast("long")

    def told(frame: DataFrame, turn: Column, shift: Column, ticks: int, *mark: Column) -> DataFrame:
        return frame.select(
            "job", "att", "at", turn.alias("turn"), shift.cast("long").alias("shift"),
            F.lit(ticks).cast("long").alias("ticks"),
            *(value.alias(name) for name, value in zip(("step", "position"), mark, strict=True)),
        )  # fmt: skip

    return union(
        [
            told(marked, F.col("turn"), F.lit(0), 0, F.col("step"), F.col("position")),
            told(strikes, F.lit(3), F.lit(0), _TURNS, nothing, nothing),
            told(begun, F.lit(4), -F.col("at"), 1, nothing, nothing),
            told(ended, F.lit(4), F.col("at"), -1, nothing, nothing),
        ]
    )
