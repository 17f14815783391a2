"""One allocation out of several accounts of it: whom to believe, and where they disagree.

The rule of trust (docs/sources.md): of an allocation - submission, start, end, accelerators,
outcome - the strongest role that tells of a start is believed; what the weaker ones say inside its
windows fills in what it leaves unsaid. Everything else belongs to whoever says it, and is placed
by time where the strongest does not number its attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.ingest.sources import SOURCES, Role
from pipelines.intervals import filled_down, instant, merge, timestamp, union
from pipelines.tables import LOGBOOK_EVENT

JOB = ["cluster", "job_id"]
ALLOCATION = ("job_submitted", "attempt_started", "attempt_ended", "job_finished")
TOLERANCE_MS = 60_000
"""How far two sources' instants of one start or end may lie apart and still be the same."""
_DIMENSIONS = ("model", "team", "priority")
_OPEN = 1 << 62  # later than any instant: a window that no line has closed


def roles_in(events: DataFrame) -> DataFrame:
    """The roles (`trust`, the lowest the most trusted) that speak in these events: few rows."""
    return events.select(_trust().alias("trust")).distinct()


def _trust() -> Column:
    order = {name: list(Role).index(known.role) for name, known in SOURCES.items()}
    return _looked_up(order, default=len(Role))


def _clock(of: str = "source") -> Column:
    return _looked_up({name: s.clock_ms for name, s in SOURCES.items()}, default=1, of=of)


def _looked_up(values: Mapping[str, int], default: int, of: str = "source") -> Column:
    found = F.lit(default)
    for name, value in values.items():
        found = F.when(F.col(of) == name, value).otherwise(found)
    return found


def mixed_jobs(events: DataFrame) -> DataFrame:
    """Jobs of which several roles speak: (cluster, job_id, best), the strongest that tells a start.

    A job without any start has no window to fit the others into: it is left as it is.
    """
    trust = _trust()
    started = F.when(F.col("event") == "attempt_started", trust)
    return (
        events.groupBy(*JOB)
        .agg(F.min(started).alias("best"), F.max(trust).alias("weakest"))
        .where("best < weakest")
        .select(*JOB, "best")
    )


def lines_of(events: DataFrame, jobs: DataFrame, kinds: Sequence[str] = ALLOCATION) -> DataFrame:
    """Lines of some kinds of mixed jobs, with `at`, `best`, `is_strong`, `clock_ms`."""
    return (
        events.where(F.col("event").isin(*kinds))
        .join(F.broadcast(jobs), on=JOB, how="inner")
        .withColumn("at", instant("event_at"))
        .withColumn("is_strong", _trust() <= F.col("best"))
        .withColumn("clock_ms", _clock().cast("long"))
    )


def windows(lines: DataFrame) -> DataFrame:
    """The strongest role's allocations: one row per start, with what was said of it.

    Columns: cluster, job_id, window (from 1), begin, end (null: open), next_begin, waits_from (when
    it was submitted, and the window before was over), number, source, gpus, outcome, cause, model,
    team, priority, is_numbered, is_submitted. The last two are of the whole job.
    """
    strong = _believed_starts(lines.where("is_strong"))
    is_start, is_end = F.col("event") == "attempt_started", F.col("event") == "attempt_ended"
    starts = (
        strong.where(is_start)
        .groupBy(*JOB, "at")
        .agg(
            F.min("source").alias("source"),
            F.max("attempt").alias("number"),
            F.max("gpus").alias("gpus"),
            *(F.max(name).alias(name) for name in _DIMENSIONS),
        )
        .withColumn("turn", F.lit(1))
    )
    ends = strong.where(is_end).select(
        *JOB, "at", "outcome", "cause", F.lit(0).alias("turn"), F.col("at").alias("ended")
    )
    course = Window.partitionBy(*JOB).orderBy("at", "turn").rowsBetween(*_SO_FAR)
    told = (
        merge([starts, ends])
        .withColumn("window", F.sum("turn").over(course))
        .where("window > 0")
        .groupBy(*JOB, "window")
        .agg(
            F.max(F.when(F.col("turn") == 1, F.col("at"))).alias("begin"),
            F.max("ended").alias("end"),
            *(F.max(name).alias(name) for name in ("source", "number", "gpus", *_DIMENSIONS)),
            F.max(F.when(F.col("outcome") != "unknown", F.col("outcome"))).alias("outcome"),
            F.max(F.when(F.col("cause") != "unknown", F.col("cause"))).alias("cause"),
        )
    )
    of_job = Window.partitionBy(*JOB)
    by_time = of_job.orderBy("window")
    submitted = strong.groupBy(*JOB).agg(
        F.max(F.col("event") == "job_submitted").alias("is_submitted")
    )
    free_from = F.lag("end").over(by_time) + TOLERANCE_MS + 1
    is_first = F.col("window") == 1
    waits = F.when(is_first, F.col("asked")).otherwise(F.greatest("asked", free_from))
    is_waiting = F.col("asked").isNotNull() & (is_first | free_from.isNotNull())
    return (
        told.join(_asked(strong, starts), on=[*JOB, "window"], how="left")
        .withColumn("next_begin", F.lead("begin").over(by_time))
        .withColumn("waits_from", F.when(is_waiting, waits))
        .withColumn("is_numbered", F.min(F.col("number").isNotNull()).over(of_job))
        .join(submitted, on=JOB, how="inner")
    )


def _asked(strong: DataFrame, starts: DataFrame) -> DataFrame:
    """The latest submission before each window's start, and after the start before it."""
    submissions = strong.where("event = 'job_submitted'").select(
        *JOB, "at", F.lit(0).alias("turn"), F.col("at").alias("asked")
    )
    course = Window.partitionBy(*JOB).orderBy("at", "turn").rowsBetween(*_SO_FAR)
    before = F.sum("turn").over(course) - F.col("turn")
    return (
        merge([starts.select(*JOB, "at", "turn"), submissions])
        .withColumn("window", before + 1)
        .groupBy(*JOB, "window")
        .agg(F.max("asked").alias("asked"))
    )


def _believed_starts(strong: DataFrame) -> DataFrame:
    """Of unnumbered starts only the lowest emitter's: the others' are of the same attempts."""
    is_open = (F.col("event") == "attempt_started") & F.col("attempt").isNull()
    emitter = F.struct(F.coalesce("rank", F.lit(-1)), F.coalesce("host", F.lit("")))
    lowest = F.min(F.when(is_open, emitter)).over(Window.partitionBy(*JOB))
    marked = strong.withColumn("is_higher", is_open & (emitter > lowest))
    return marked.where("NOT is_higher").drop("is_higher")


_SO_FAR = (Window.unboundedPreceding, 0)
_OF_WINDOW = (
    "window", "begin", "end", "next_begin", "number", "source", "gpus", "outcome", "cause",
    *_DIMENSIONS,
)  # fmt: skip


def fitted(lines: DataFrame, known: DataFrame) -> DataFrame:
    """The weaker roles' lines, each with the window (`w_…`) that it falls into, if any.

    A line falls into the last window that begins at most TOLERANCE_MS after it, unless that ended
    more than TOLERANCE_MS before it. So does the last start after a window was asked for, where no
    start falls into it otherwise: before hardware was granted nothing can have started, so its
    clock is slow.
    """
    weak = lines.where("NOT is_strong")
    is_start = F.col("event") == "attempt_started"
    usual = F.col("begin") - TOLERANCE_MS
    early = F.least(usual, F.coalesce("waits_from", usual))
    starts = _described(_placed(weak.where(is_start), known, early), known)
    others = _described(_placed(weak.where(~is_start), known, usual), known)
    until = F.coalesce("w_end", F.lit(_OPEN)) + TOLERANCE_MS
    in_window = Window.partitionBy(*JOB, "w_window")
    is_early = F.col("at") < F.col("w_begin") - TOLERANCE_MS
    is_the_one = (F.col("at") == F.max("at").over(in_window)) & F.min(is_early).over(in_window)
    is_inside = F.col("w_window").isNotNull() & (F.col("at") <= until)
    return union(
        [
            starts.withColumn("is_inside", is_inside & (~is_early | is_the_one)),
            others.withColumn("is_inside", is_inside),
        ]
    )


def _placed(weak: DataFrame, known: DataFrame, opens: Column) -> DataFrame:
    """Lines with the number `w_window` of the last window that `opens` at or before them."""
    edges = known.select(*JOB, "window", F.lit(0).alias("turn"), opens.alias("when"))
    timed = weak.withColumn("turn", F.lit(1)).withColumn("when", F.col("at"))
    is_edge = F.col("turn") == 0
    placed = filled_down(
        merge([edges, timed]), "window", where=is_edge, key=JOB, order=["when", "turn"]
    )
    return placed.where(~is_edge).withColumnRenamed("window", "w_window")


def _described(placed: DataFrame, known: DataFrame) -> DataFrame:
    """Placed lines with what is known of their window, and of the windows of their job."""
    named = known.select(*JOB, *(F.col(c).alias(f"w_{c}") for c in _OF_WINDOW))
    of_job = known.groupBy(*JOB).agg(
        F.max("is_submitted").alias("is_submitted"),
        F.min("begin").alias("first_begin"),
        F.max("begin").alias("last_begin"),
        F.first("source").alias("strongest"),
    )
    return (
        placed.join(F.broadcast(named), on=[*JOB, "w_window"], how="left")
        .join(F.broadcast(of_job), on=JOB, how="left")
        .withColumn("w_source", F.coalesce("w_source", "strongest"))
        .withColumn("nearest", F.coalesce("w_begin", "first_begin"))
    )


def adopted(weak: DataFrame) -> DataFrame:
    """What is left of the weaker roles' lines: moved to the window's edge, less what it knows.

    Dropped are submissions where the strongest tells one, a finish that a later start belies, and
    in an open window an end that is followed by another start of a weaker role: inside an
    allocation that is a restart, of which other lines tell.
    """
    event = F.col("event")
    in_window = Window.partitionBy(*JOB, "w_window")
    latest_start = F.max(F.when(event == "attempt_started", F.col("at"))).over(in_window)
    is_end = event.isin("attempt_ended", "job_finished")
    is_closed = F.col("is_inside") & F.col("w_end").isNotNull()
    is_adopted_start = F.col("is_inside") & (event == "attempt_started")
    is_moved = is_adopted_start | (is_closed & is_end)
    at = F.when(is_adopted_start, F.col("w_begin")).when(is_closed & is_end, F.col("w_end"))
    is_belied = (event == "job_finished") & F.col("is_inside") & F.col("w_next_begin").isNotNull()
    is_restarted = is_end & F.col("is_inside") & (F.col("at") < F.col("latest_start"))
    is_followed = F.col("w_end").isNull() & F.coalesce(is_restarted, F.lit(False))
    is_known = (event == "job_submitted") & F.col("is_submitted")
    unsaid = {
        name: F.when(is_moved & F.col(f"w_{name}").isNotNull(), None).otherwise(F.col(name))
        for name in ("gpus", "outcome", "cause", *_DIMENSIONS)
    }
    return (
        weak.withColumn("latest_start", latest_start)
        .where(~is_belied & ~is_known & ~is_followed)
        .withColumn("moved", at)
        .withColumns(unsaid)
        .withColumn("rank", F.when(~is_moved, F.col("rank")))
        .withColumn("host", F.when(~is_moved, F.col("host")))
        .withColumn("attempt", F.when(is_moved, F.col("w_number")).otherwise(F.col("attempt")))
        .withColumn("event_at", F.coalesce(timestamp("moved"), F.col("event_at")))
    )


def late_ends(events: DataFrame, lines: DataFrame) -> DataFrame:
    """Ends whose clock is coarse, with the last line of others within its step: (…, at, until).

    A scheduler that writes whole seconds rounds them down; the trainer's last step may lie in that
    second. Where a start lies in it too, nobody can tell to which side such lines belong.
    """
    coarse = lines.where("is_strong AND clock_ms > 1")
    step = F.col("at") - F.expr("at % clock_ms")
    started = coarse.where("event = 'attempt_started'").select(*JOB, F.col("at").alias("second"))
    ended = (
        coarse.where("event = 'attempt_ended'")
        .select(*JOB, step.alias("second"), "at", "clock_ms", "best")
        .distinct()
        .join(started, on=[*JOB, "second"], how="left_anti")
    )
    clocks = sorted({known.clock_ms for known in SOURCES.values() if known.clock_ms > 1})
    return union([_late(events, ended.where(F.col("clock_ms") == c), c) for c in clocks])


def _late(events: DataFrame, ended: DataFrame, clock_ms: int) -> DataFrame:
    others = events.select(*JOB, instant("event_at").alias("said"), _trust().alias("trust"))
    seconds = others.withColumn("second", F.col("said") - F.col("said") % clock_ms)
    return (
        seconds.join(F.broadcast(ended), on=[*JOB, "second"], how="inner")
        .where("said > at AND trust > best")
        .groupBy(*JOB, "at")
        .agg(F.max("said").alias("until"))
    )


def believed(lines: DataFrame, late: DataFrame) -> DataFrame:
    """The strongest role's lines, ends moved to the last line within their clock's step."""
    moved = F.col("event").isin("attempt_ended", "job_finished") & F.col("until").isNotNull()
    return (
        lines.where("is_strong")
        .join(F.broadcast(late), on=[*JOB, "at"], how="left")
        .withColumn("event_at", F.when(moved, timestamp("until")).otherwise(F.col("event_at")))
    )


def reconciled(
    events: DataFrame, jobs: DataFrame, lines: DataFrame, known: DataFrame, weak: DataFrame
) -> DataFrame:
    """The events with one account of each allocation: rows as of logbook__event."""
    columns = LOGBOOK_EVENT.names
    unmixed = events.join(F.broadcast(jobs), on=JOB, how="left_anti")
    numbered = known.groupBy(*JOB).agg(F.min("is_numbered").alias("is_numbered"))
    others = (
        events.where(~F.col("event").isin(*ALLOCATION))
        .join(F.broadcast(jobs), on=JOB, how="inner")
        .withColumn("is_strong", _trust() <= F.col("best"))
    )
    late = late_ends(events, lines)
    weaker = union([f.select(*columns, "is_strong") for f in (adopted(weak), others)])
    keeps_number = F.col("is_strong") | F.col("is_numbered")
    placed = weaker.join(F.broadcast(numbered), on=JOB, how="left").withColumn(
        "attempt", F.when(keeps_number, F.col("attempt"))
    )
    strong = believed(lines, late)
    return union([f.select(*columns) for f in (unmixed, strong, placed)])


def disagreements(weak: DataFrame) -> DataFrame:
    """What the weaker roles say otherwise of the same window.

    Fields: started_at and ended_at (instants beyond the window, or beyond the clock's step),
    allocation (a start outside every window, though the strongest role knows a later one), attempt
    (a number that is not the window's place), gpus, outcome, cause.

    Columns: cluster, job_id, event, at (of the window's begin), field, source, believed,
    other_source, other, difference_ms (null where the field is no instant).
    """
    event = F.col("event")
    inside = weak.where("is_inside")
    is_start, is_end = event == "attempt_started", event == "attempt_ended"
    early = F.when(is_start & (F.col("at") < F.col("w_begin")), F.col("w_begin") - F.col("at"))
    clock = _clock("w_source")
    following = F.coalesce("w_next_begin", "first_begin")
    apart = F.least(F.abs(F.col("at") - F.col("w_begin")), F.abs(F.col("at") - following))
    is_stray = is_start & ~F.col("is_inside") & (F.col("at") < F.col("last_begin"))
    numbered = inside.where(is_start & F.col("attempt").isNotNull() & F.col("w_number").isNull())
    late = F.when(is_end & (F.col("at") >= F.col("w_end") + clock), F.col("at") - F.col("w_end"))
    told = [
        _told(inside, "started_at", "w_begin", "at", early),
        _told(inside, "ended_at", "w_end", "at", late),
        _told(weak.where(is_stray), "allocation", "nearest", "at", apart),
        _told(
            numbered.withColumn("place", F.col("w_window") - 1), "attempt", "place", "attempt", None
        ),
        *(
            _told(inside.where(event == kind), name, f"w_{name}", name, None)
            for name, kind in (
                ("gpus", "attempt_started"),
                ("outcome", "attempt_ended"),
                ("cause", "attempt_ended"),
            )
        ),
    ]
    return union(told)


def cause_disagreements(struck: DataFrame) -> DataFrame:
    """Ends of which the last interruption names another cause than the strongest role.

    `struck` are the weaker roles' `interruption` lines, fitted to the windows. Their cause is the
    one that the accounting believes; the columns are those of `disagreements`.
    """
    is_known = F.col("cause").isNotNull() & (F.col("cause") != "unknown")
    latest = Window.partitionBy(*JOB, "w_window").orderBy(F.desc("at"), "cause", "source")
    last = (
        struck.where(F.col("is_inside") & is_known)
        .withColumn("place", F.row_number().over(latest))
        .where("place = 1 AND w_cause IS NOT NULL AND w_cause <> cause")
    )
    return last.select(
        *JOB,
        F.lit("attempt_started").alias("event"),
        F.col("w_begin").alias("at"),
        F.lit("cause").alias("field"),
        "source",
        F.col("cause").alias("believed"),
        F.col("w_source").alias("other_source"),
        F.col("w_cause").alias("other"),
        F.lit(None).cast("long").alias("difference_ms"),
    )


def _told(
    inside: DataFrame, field: str, believed: str, other: str, difference: Column | None
) -> DataFrame:
    """Rows where `other` contradicts `believed`: by a difference, or by being another word."""
    is_other = F.col(believed) != F.col(other)
    is_unsaid = F.col(other).cast("string") == "unknown"
    differs = difference.isNotNull() if difference is not None else is_other & ~is_unsaid
    is_instant = difference is not None
    return inside.where(differs).select(
        *JOB,
        F.lit("attempt_started").alias("event"),
        F.coalesce("w_begin", "first_begin").alias("at"),
        F.lit(field).alias("field"),
        F.col("w_source").alias("source"),
        _shown(believed, is_instant=is_instant).alias("believed"),
        F.col("source").alias("other_source"),
        _shown(other, is_instant=is_instant).alias("other"),
        (difference if difference is not None else F.lit(None)).cast("long").alias("difference_ms"),
    )


def _shown(column: str, *, is_instant: bool) -> Column:
    return (timestamp(column) if is_instant else F.col(column)).cast("string")


def no_disagreements(events: DataFrame) -> DataFrame:
    """The empty frame of `disagreements`, where one role alone speaks."""
    nothing = {
        "event": "string",
        "at": "long",
        "field": "string",
        "source": "string",
        "believed": "string",
    }
    nothing |= {"other_source": "string", "other": "string", "difference_ms": "long"}
    none = events.where("false")
    return none.select(*JOB, *(F.lit(None).cast(t).alias(name) for name, t in nothing.items()))
