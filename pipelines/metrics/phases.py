"""Phases: begins and ends paired into spans, spans joined across ranks, and the innermost kept."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import close_latest_open, union, with_island
from pipelines.metrics.attempts import ATTEMPT
from pipelines.metrics.placing import emitter
from pipelines.taxonomy import Taxonomy

SPAN_KEY = ["att", "e_rank", "e_host", "phase", "span"]
_ALWAYS = Window.unboundedPreceding


def phase_lines(others: DataFrame, attempts: DataFrame) -> DataFrame:
    """Phase lines of attempts: the key of a span, `at`, `is_open`, and `is_blocking` of begins.

    The span id is marked where it is said, so that an empty one differs from none.
    """
    return (
        others.where("event IN ('phase_begin', 'phase_end')")
        .join(F.broadcast(attempts.select(*ATTEMPT, "att")), on=ATTEMPT, how="inner")
        .select(
            "att",
            *emitter(),
            "rank",
            "phase",
            F.coalesce(F.concat(F.lit("#"), "span_id"), F.lit("")).alias("span"),
            "at",
            (F.col("event") == "phase_begin").alias("is_open"),
            F.coalesce("is_blocking", F.lit(True)).alias("is_blocking"),
        )
    )


def paired_spans(lines: DataFrame) -> DataFrame:
    """Spans from begin and end lines: an end closes the latest open begin of its key.

    At one millisecond the ends of spans open before it come first, then the begins (those that do
    not block first, so that the blocking ones are closed first), then the other ends. `end` is null
    where no end was stated; spans of no length are still there.
    """
    ticks = lines.groupBy(*SPAN_KEY, "at").agg(
        F.max("rank").alias("rank"),
        F.sum((F.col("is_open") & F.col("is_blocking")).cast("long")).alias("blocking"),
        F.sum((F.col("is_open") & ~F.col("is_blocking")).cast("long")).alias("hidden"),
        F.sum((~F.col("is_open")).cast("long")).alias("ends"),
    )
    turns = _with_open_before(ticks).select(
        *SPAN_KEY,
        "rank",
        "at",
        F.expr(
            "stack(4, 0, least(ends, before), 1, hidden, 2, blocking,"
            " 3, ends - least(ends, before)) AS (turn, times)"
        ),
    )
    rows = turns.where("times > 0").withColumn("nth", F.explode(F.expr("sequence(1L, times)")))
    return close_latest_open(
        rows.withColumn("is_open", F.col("turn").isin(1, 2)),
        key=SPAN_KEY,
        order=["at", "turn", "nth"],
    ).select(
        "att", "rank", "e_rank", "e_host", "phase",
        (F.col("turn") == F.lit(2)).alias("is_blocking"),
        F.col("at").alias("begin"),
        F.col("closed_at").alias("end"),
    )  # fmt: skip


def _with_open_before(ticks: DataFrame) -> DataFrame:
    """How many spans of the key are open just before each instant (`before`)."""
    course = Window.partitionBy(*SPAN_KEY).orderBy("at")
    sofar = course.rowsBetween(_ALWAYS, 0)
    net = F.col("blocking") + F.col("hidden") - F.col("ends")
    walked = ticks.withColumn("_sum", F.sum(net).over(sofar)).withColumn(
        "_depth", F.col("_sum") - F.least(F.lit(0).cast("long"), F.min("_sum").over(sofar))
    )
    return walked.withColumn("before", F.coalesce(F.lag("_depth").over(course), F.lit(0)))


def closed_spans(
    spans: DataFrame, attempts: DataFrame, marks: DataFrame, strikes: DataFrame
) -> DataFrame:
    """Spans with an end, clipped to their attempt; empty ones dropped.

    One that was never closed lasts to the first mark, interruption or attempt end later than its
    begin, and is `is_inferred`.
    """
    open_ = spans.where("end IS NULL")
    points = union([marks.select("att", "at"), strikes.select("att", "at")])
    closers = _next_point(open_, points)
    stated = spans.where("end IS NOT NULL").withColumn("is_inferred", F.lit(False))
    inferred = (
        open_.drop("end")
        .join(closers, on=["att", "begin"], how="left")
        .withColumn("is_inferred", F.lit(True))
    )
    envelope = attempts.select(
        "job", "att", F.col("begin").alias("att_begin"), F.col("end").alias("att_end")
    )
    return (
        union([stated, inferred])
        .join(F.broadcast(envelope), on="att", how="inner")
        .withColumn("begin", F.greatest("begin", "att_begin"))
        .withColumn("end", F.least(F.coalesce("end", "att_end"), "att_end"))
        .where("begin < end")
        .drop("att_begin", "att_end")
    )


def _next_point(begins: DataFrame, points: DataFrame) -> DataFrame:
    """(att, begin, end): the first of `points` later than each begin, where there is one.

    Walked backwards in time, so that a running minimum is the next instant; at one instant the
    begins come first and so do not see it.
    """
    probes = begins.select("att", "begin").distinct()
    ours = F.broadcast(probes.select("att").distinct())
    null = F.lit(None).cast("long")
    rows = union(
        [
            probes.select("att", F.col("begin").alias("at"), F.lit(0).alias("turn"), "begin",
                          null.alias("point")),
            # The few stand left: Sail hashes the left side of a join whose sizes it cannot tell.
            ours.join(points, on="att", how="inner").select(
                "att", "at", F.lit(1).alias("turn"), null.alias("begin"),
                F.col("at").alias("point")),
        ]
    )  # fmt: skip
    backwards = Window.partitionBy("att").orderBy(F.col("at").desc(), "turn")
    return (
        rows.withColumn("end", F.min("point").over(backwards.rowsBetween(_ALWAYS, 0)))
        .where("begin IS NOT NULL AND end IS NOT NULL")
        .select("att", "begin", "end")
    )


def joined_spans(spans: DataFrame) -> DataFrame:
    """Spans of one phase that overlap or touch, on whatever ranks, as one.

    `gating_rank` ends last (of equal ones the lowest emitter); `is_inferred` where the last end is
    and no stated end equals it. Blocking and other spans are joined apart.
    """
    key = ["job", "att", "phase", "is_blocking"]
    last = F.min(F.struct((-F.col("end")).alias("less"), "e_rank", "e_host", "rank"))
    stated_end = F.max(F.when(~F.col("is_inferred"), F.col("end")))
    return (
        with_island(spans, key=key, touching=True)
        .groupBy(*key, "island")
        .agg(
            F.min("begin").alias("begin"),
            F.max("end").alias("end"),
            last.alias("last"),
            stated_end.alias("stated_end"),
        )
        .select(
            *key,
            "begin",
            "end",
            (F.col("stated_end").isNull() | (F.col("stated_end") < F.col("end"))).alias(
                "is_inferred"
            ),
            F.col("last.rank").alias("gating_rank"),
        )
    )


def covers(joined: DataFrame, taxonomy: Taxonomy) -> DataFrame:
    """Who has an instant, of several explicit blocking phases: disjoint intervals per attempt.

    One with an active descendant in the taxonomy is out; of the rest the one that began last; equal
    begins: the one that ends first; equal ends: taxonomy order. A lone phase needs no search, and
    overlapping ones are searched within their island only.
    """
    key = ["job", "att"]
    blocking = joined.where("is_blocking").drop("is_blocking")
    islands = with_island(blocking, key=key, touching=False)
    size = F.count("*").over(Window.partitionBy(*key, "island"))
    sized = islands.withColumn("size", size)
    columns = [*key, "phase", "begin", "end", "is_inferred", "gating_rank"]
    crowded = sized.where("size > 1")
    return union([sized.where("size = 1").select(*columns), _innermost(crowded, taxonomy, columns)])


def _innermost(crowded: DataFrame, taxonomy: Taxonomy, columns: list[str]) -> DataFrame:
    island = ["job", "att", "island"]
    active = _active(crowded, island)
    child, parent = active.alias("child"), active.alias("parent")
    here = [F.col(f"child.{c}") == F.col(f"parent.{c}") for c in (*island, "at")]
    is_below = F.col("child.phase").startswith(F.concat("parent.phase", F.lit(".")))
    leaves = parent.join(child, on=[*here, is_below], how="left_anti")
    order = Window.partitionBy(*island, "at").orderBy(
        F.col("span_begin").desc(), "span_end", taxonomy_order(F.col("phase"), taxonomy)
    )
    winners = leaves.withColumn("_n", F.row_number().over(order)).where("_n = 1").drop("_n")
    return _merged(winners, island).select(*columns)


def _active(crowded: DataFrame, island: list[str]) -> DataFrame:
    """The spans active in each piece of an island: one row per piece and active phase.

    Spans of one phase are disjoint, so at each edge the one active is the last that began.
    """
    edges = union(
        [crowded.select(*island, F.col(edge).alias("at")) for edge in ("begin", "end")]
    ).distinct()
    course = Window.partitionBy(*island).orderBy("at")
    pieces = edges.withColumn("next", F.lead("at").over(course)).where("next IS NOT NULL")
    phases = crowded.select(*island, "phase").distinct()
    grid = pieces.join(phases, on=island, how="inner")
    begun = crowded.select(
        *island, "phase", F.col("begin").alias("at"), "begin", "end", "is_inferred", "gating_rank"
    )
    sofar = (
        Window.partitionBy(*island, "phase").orderBy("at").rowsBetween(_ALWAYS, Window.currentRow)
    )
    return (
        grid.join(begun, on=[*island, "phase", "at"], how="left")
        .withColumn("span_begin", F.max("begin").over(sofar))
        .withColumn("span_end", F.max("end").over(sofar))
        .where("span_end > at")
        .select(*island, "at", "next", "phase", "span_begin", "span_end")
        .join(
            begun.select(
                *island, "phase", F.col("begin").alias("span_begin"), "is_inferred", "gating_rank"
            ),
            on=[*island, "phase", "span_begin"],
            how="inner",
        )
    )


def _merged(winners: DataFrame, island: list[str]) -> DataFrame:
    """Pieces of one span that follow one another as one."""
    course = Window.partitionBy(*island).orderBy("at")
    is_same = (F.lag("phase").over(course) == F.col("phase")) & (
        F.lag("span_begin").over(course) == F.col("span_begin")
    )
    runs = winners.withColumn("_new", F.coalesce((~is_same).cast("int"), F.lit(1))).withColumn(
        "_run", F.sum("_new").over(course.rowsBetween(_ALWAYS, 0))
    )
    return runs.groupBy(*island, "_run", "phase").agg(
        F.min("at").alias("begin"),
        F.max("next").alias("end"),
        F.max("is_inferred").alias("is_inferred"),
        F.max("gating_rank").alias("gating_rank"),
    )


def taxonomy_order(phase: Column, taxonomy: Taxonomy) -> Column:
    """The place of a component key in the taxonomy, as a number."""
    branches = F.when(F.lit(False), 0)
    for place, component in enumerate(taxonomy):
        branches = branches.when(phase == component.key, place)
    return branches
