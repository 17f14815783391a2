"""Which run of a reused id, and which attempt, a line belongs to (docs/accounting.md, Jobs)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import filled_down, instant, merge, union

JOB = ["cluster", "job_id"]
RUN = [*JOB, "run"]
MARKS = ("step", "train_begin")
OF_THE_JOB = ("job_submitted", "job_finished")
# At the very millisecond of a start, these look back: they end what was before it.
LOOKS_BACK = (
    "attempt_ended",
    "interruption",
    "phase_end",
    "step",
    "checkpoint_durable",
    "job_finished",
)
_CONTENT = [
    *JOB,
    "at",
    "event",
    "attempt",
    "rank",
    "host",
    "step",
    "samples",
    "phase",
    "span_id",
    "is_blocking",
    "gpus",
    "is_held",
    "outcome",
    "cause",
    "model",
    "team",
    "priority",
    "attrs",
]
_OF_A_MARK = [*JOB, "at", "event", "attempt", "rank", "host", "step", "samples"]
_ALWAYS = Window.unboundedPreceding


def emitter() -> list[Column]:
    """The order of emitters: no rank before rank 0, then the host's name."""
    return [
        F.coalesce(F.col("rank"), F.lit(-1)).alias("e_rank"),
        F.coalesce(F.col("host"), F.lit("")).alias("e_host"),
    ]


def lines_until(events: DataFrame, *, as_of: int) -> tuple[DataFrame, DataFrame]:
    """Mark lines and other lines up to `as_of` (epoch ms), the others without exact duplicates.

    Two equal marks are one mark anyway, so the long stream is spared the search for duplicates;
    `rest`, a hash of all else that a mark's line says, tells copies where lines are counted.
    """
    read = events.withColumn("at", instant("event_at")).where(F.col("at") <= F.lit(as_of))
    is_mark = F.col("event").isin(*MARKS)
    others = [c for c in _CONTENT if c not in _OF_A_MARK]
    marks = read.where(is_mark).select(*_OF_A_MARK, F.xxhash64("attempt", *others).alias("rest"))
    return marks, read.where(~is_mark).select(*_CONTENT).distinct()


def run_starts(others: DataFrame) -> DataFrame:
    """Where a finished job's id is used again: (cluster, job_id, at, run), run from 2.

    A start later than a finish of the run opens a new run; a finish at the millisecond where a run
    opens belongs to the run before. So at an instant with both, "a finish was seen" toggles; the
    state before each instant is the last one that was set, toggled by the parity of those since.
    """
    control = others.where(F.col("event").isin("job_submitted", "attempt_started", "job_finished"))
    is_finish = F.col("event") == "job_finished"
    ticks = control.groupBy(*JOB, "at").agg(
        F.max(is_finish.cast("int")).alias("closes"),
        F.max((~is_finish).cast("int")).alias("opens"),
    )
    course = Window.partitionBy(*JOB).orderBy("at")
    both = F.col("closes") * F.col("opens")
    seen = (
        ticks.withColumn("flips", F.sum(both).over(course.rowsBetween(_ALWAYS, 0)))
        .withColumn("flips_then", F.col("flips"))
        .withColumn("closed_then", F.col("closes"))
    )
    known = filled_down(seen, "flips_then", "closed_then", where=both == 0, key=JOB, order=["at"])
    flips_since = F.col("flips") - F.coalesce("flips_then", F.lit(0))
    after = (F.coalesce("closed_then", F.lit(0)) + flips_since) % 2
    state = known.withColumn("after", after).withColumn("before", F.lag("after").over(course))
    run = F.row_number().over(course) + 1
    return state.where("opens = 1 AND before = 1").select(*JOB, "at", run.cast("long").alias("run"))


def with_run(lines: DataFrame, runs: DataFrame) -> DataFrame:
    """Add `run` (from 1) to few lines, by a merge with the run starts in time order."""
    turn = F.when(F.col("event").isin(*LOOKS_BACK), 0).otherwise(2)
    course = Window.partitionBy(*JOB).orderBy("at", "turn").rowsBetween(_ALWAYS, 0)
    return (
        merge([runs.withColumn("turn", F.lit(1)), lines.withColumn("turn", turn)])
        .withColumn("run", F.coalesce(F.max("run").over(course), F.lit(1).cast("long")))
        .where("event IS NOT NULL")
        .drop("turn")
    )


def with_few_runs(lines: DataFrame, runs: DataFrame) -> DataFrame:
    """Add `run` to many lines: nearly all are of jobs whose id is used once, and need no search."""
    reused = F.broadcast(runs.select(*JOB).distinct())
    once = lines.join(reused, on=JOB, how="left_anti").withColumn("run", F.lit(1).cast("long"))
    again = with_run(lines.join(reused, on=JOB, how="left_semi"), runs)
    return union([once, again.select(*once.columns)])


def believed_starts(starts: DataFrame) -> DataFrame:
    """The `attempt_started` lines that are read, each with its number.

    Of unnumbered ones only the lowest emitter's are read; each takes the number after that of the
    start before it (0 where there is none).
    """
    is_open = F.col("attempt").isNull()
    lowest = F.min(F.when(is_open, F.struct("e_rank", "e_host"))).over(Window.partitionBy(*RUN))
    read = (
        starts.select("*", *emitter())
        .withColumn("lowest", lowest)
        .where(~is_open | (F.struct("e_rank", "e_host") == F.col("lowest")))
        .drop("lowest", "e_rank", "e_host")
    )
    numbers = _numbered(read.select(*RUN, "at", "attempt").distinct())
    is_said = F.col("attempt").eqNullSafe(F.col("said"))
    return (
        read.join(numbers, on=[*RUN, "at"], how="inner")
        .where(is_said)
        .withColumn("attempt", F.col("number"))
        .drop("said", "number")
    )


def _numbered(slots: DataFrame) -> DataFrame:
    """Distinct starts with the number said, null where none was, and the number that they have."""
    is_open = F.col("attempt").isNull()
    order = ["at", "is_open", "attempt"]
    sofar = Window.partitionBy(*RUN).orderBy(*order).rowsBetween(_ALWAYS, 0)
    counted = (
        slots.withColumn("is_open", is_open)
        .withColumn("open_count", F.sum(is_open.cast("long")).over(sofar))
        .withColumn("base", F.col("attempt"))
        .withColumn("count_at_base", F.col("open_count"))
    )
    known = filled_down(counted, "base", "count_at_base", where=~is_open, key=RUN, order=order)
    since = F.col("open_count") - F.coalesce("count_at_base", F.lit(0))
    following = F.coalesce("base", F.lit(-1)) + since
    number = F.coalesce(F.col("attempt"), following).alias("number")
    return known.select(*RUN, "at", F.col("attempt").alias("said"), number)


def attempt_slots(starts: DataFrame, runs: DataFrame) -> DataFrame:
    """From when on an unnumbered line belongs to which attempt: (…, run, at, order, number).

    A run that opens with a submission has a slot there too, of its first attempt.
    """
    slots = starts.select(*RUN, "at", "attempt", F.lit(1).alias("order")).distinct()
    is_first = F.row_number().over(Window.partitionBy(*RUN).orderBy("at", "attempt")) == 1
    firsts = slots.withColumn("is_first", is_first).where("is_first").select(*RUN, "attempt")
    openings = runs.join(firsts, on=RUN, how="left").select(
        *RUN,
        "at",
        F.coalesce("attempt", F.lit(0)).cast("long").alias("attempt"),
        F.lit(0).alias("order"),
    )
    return union([slots, openings]).withColumnRenamed("attempt", "number")


def simple_jobs(slots: DataFrame) -> DataFrame:
    """Per job: is it one run (`is_one_run`), and its only attempt number (null: several)."""
    counted = slots.groupBy(*JOB).agg(
        F.max("run").alias("runs"), F.min("number").alias("low"), F.max("number").alias("high")
    )
    return counted.select(
        *JOB,
        (F.col("runs") == 1).alias("is_one_run"),
        F.when(F.col("low") == F.col("high"), F.col("low")).alias("only"),
        F.lit(True).alias("has_slot"),
    )


def place(lines: DataFrame, slots: DataFrame, jobs: DataFrame) -> DataFrame:
    """Add `run` and fill in `attempt` of lines of any event but `attempt_started`.

    Most lines need no search: their job has one run, and they carry a number or the job has one
    attempt. The rest is merged with the slots in time order. `jobs` are the `simple_jobs`.
    """
    known = lines.join(F.broadcast(jobs), on=JOB, how="left")
    is_one_run = F.coalesce("is_one_run", F.lit(True))
    only = F.when(F.col("has_slot").isNull(), F.lit(0).cast("long")).otherwise(F.col("only"))
    number = F.coalesce(F.col("attempt"), only)
    direct = known.where(is_one_run & number.isNotNull()).select(
        *(number.alias(c) if c == "attempt" else F.col(c) for c in lines.columns),
        F.lit(1).cast("long").alias("run"),
    )
    intricate = jobs.where("NOT is_one_run OR only IS NULL").select(*JOB, "is_one_run")
    searched = (
        lines.join(F.broadcast(intricate), on=JOB, how="inner")
        .where("NOT is_one_run OR attempt IS NULL")
        .select(*lines.columns)
    )
    ours = slots.join(intricate, on=JOB, how="inner").select(*slots.columns)
    return union([direct, _searched(searched, ours)])


def _searched(lines: DataFrame, slots: DataFrame) -> DataFrame:
    """Lines with the run and the attempt of the slot before them, or else of the run's first."""
    turn = F.when(F.col("event").isin(*LOOKS_BACK), 0).otherwise(2)
    first = F.min(F.struct("at", "order", "number")).alias("first")
    firsts = slots.groupBy(*RUN).agg(first).select(*RUN, F.col("first.number").alias("_first"))
    order = ["at", "turn", "order", "number"]
    sofar = Window.partitionBy(*JOB).orderBy(*order).rowsBetween(_ALWAYS, 0)
    merged = (
        merge([slots.withColumn("turn", F.lit(1)), lines.withColumn("turn", turn)])
        .withColumn("run", F.coalesce(F.max("run").over(sofar), F.lit(1).cast("long")))
        .withColumn("_last", F.col("number"))
    )
    is_slot = F.col("event").isNull()
    return (
        filled_down(merged, "_last", where=is_slot, key=RUN, order=order)
        .where("event IS NOT NULL")
        .join(F.broadcast(firsts), on=RUN, how="left")
        .withColumn("attempt", F.coalesce("attempt", "_last", "_first", F.lit(0).cast("long")))
        .select(*lines.columns, "run")
    )
