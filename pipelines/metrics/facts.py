"""What the timeline and the ledger say of whole jobs and attempts, and their published rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.intervals import (
    DAY_MS,
    day,
    day_number,
    filled_down,
    merge,
    split_at_midnight,
    timestamp,
    union,
)
from pipelines.metrics.speed import div, product
from pipelines.taxonomy import REPEATED, UNATTRIBUTED, Cause, Outcome, Stage

NAMES = ["cluster", "job_id"]


def named_jobs(jobs: DataFrame, dimensions: DataFrame) -> DataFrame:
    """Per `job`: cluster, job_id (the published name), model, team, priority."""
    return jobs.join(dimensions, on=["cluster", "job_id", "run"], how="left").select(
        "job", "cluster", F.col("name").alias("job_id"), "model", "team", "priority"
    )


def interval_rows(pieces: DataFrame, named: DataFrame) -> DataFrame:
    """ledger__interval: pieces cut at midnight, with names and dimensions."""
    rows = (
        split_at_midnight(pieces)
        .join(F.broadcast(named), on="job", how="inner")
        .withColumn("duration_ms", F.col("end") - F.col("begin"))
        .withColumn("gpu_ms", F.col("duration_ms") * F.col("gpus"))
    )
    return tables.LEDGER_INTERVAL.select_from(_with_instants(rows))


def attempt_rows(
    attempts: DataFrame, spans: DataFrame, outside: DataFrame, named: DataFrame
) -> DataFrame:
    """timeline__attempt: one row per attempt on each day it touches."""
    rows = (
        _on_each_day(attempts)
        .join(spans.select("att", "first_mark", "last_mark"), on="att", how="left")
        .join(outside, on="att", how="left")
        .drop("cluster", "job_id")
        .join(F.broadcast(named), on="job", how="inner")
        .withColumn("attempt_index", F.col("index"))
        .withColumn("first_mark_at", timestamp("first_mark"))
        .withColumn("last_mark_at", timestamp("last_mark"))
        .withColumn("outside_line_count", F.coalesce("outside_line_count", F.lit(0)))
    )
    return tables.TIMELINE_ATTEMPT.select_from(_with_instants(rows))


def phase_rows(joined: DataFrame, attempts: DataFrame, named: DataFrame) -> DataFrame:
    """timeline__phase: joined spans, blocking and hidden ones, cut at midnight."""
    rows = (
        split_at_midnight(joined)
        .join(F.broadcast(attempts.select("att", "attempt")), on="att", how="inner")
        .join(F.broadcast(named), on="job", how="inner")
        .withColumn("component", F.col("phase"))
        .withColumn("duration_ms", F.col("end") - F.col("begin"))
    )
    return tables.TIMELINE_PHASE.select_from(_with_instants(rows))


def interruption_rows(struck: DataFrame, attempts: DataFrame, named: DataFrame) -> DataFrame:
    """scorecard__interruption, on the day that each began; `place` orders those of an attempt."""
    infrastructure = [c.value for c in Cause if c.is_infrastructure]
    course = Window.partitionBy("att").orderBy("place")
    rows = (
        struck.join(F.broadcast(attempts.select("att", "attempt")), on="att", how="inner")
        .join(F.broadcast(named), on="job", how="inner")
        .withColumn("ds", day(F.col("began")))
        .withColumn("interruption_index", F.row_number().over(course) - 1)
        .withColumn("began_at", timestamp("began"))
        .withColumn("is_infrastructure", F.col("cause").isin(*infrastructure))
    )
    return tables.SCORECARD_INTERRUPTION.select_from(rows)


def recovery_rows(
    recovered: DataFrame, struck: DataFrame, attempts: DataFrame, named: DataFrame
) -> DataFrame:
    """scorecard__recovery, on the day that each began.

    Its cause is that of the latest interruption begun by then, as for any other instant; null where
    there was none. `struck` has (job, att, place, began, cause).
    """
    number = attempts.select("att", "attempt")
    began = struck.select("job", "att", "place", "cause", F.col("began").alias("at"))
    course = [
        began.withColumn("turn", F.lit(0)),
        recovered.withColumn("at", F.col("begin")).withColumn("turn", F.lit(1)),
    ]
    is_struck = F.col("turn") == 0
    order = ["at", "turn", "att", "place"]
    caused = (
        filled_down(merge(course), "cause", where=is_struck, key=["job"], order=order)
        .where(~is_struck)
        .select(*recovered.columns, "cause")
    )
    rows = (
        caused.join(number.toDF("from_att", "from_attempt"), on="from_att", how="inner")
        .join(number.toDF("to_att", "to_attempt"), on="to_att", how="inner")
        .join(F.broadcast(named), on="job", how="inner")
        .withColumn("ds", day(F.col("begin")))
        .withColumn("started_at", timestamp("begin"))
        .withColumn("resumed_at", timestamp("end"))
        .withColumn("new_data_at", timestamp("new_data"))
        .withColumn("ttr_ms", F.col("end") - F.col("begin"))
        .withColumn("time_to_new_data_ms", F.col("new_data") - F.col("begin"))
    )
    return tables.SCORECARD_RECOVERY.select_from(rows)


def source_rows(covered: DataFrame, named: DataFrame) -> DataFrame:
    """scorecard__job_source, from what each source told of a `job` on each day."""
    rows = covered.join(F.broadcast(named.select("job", *NAMES)), on="job", how="inner")
    return tables.SCORECARD_JOB_SOURCE.select_from(
        rows.withColumn("first_event_at", timestamp("at")).withColumn(
            "last_event_at", timestamp("last_at")
        )
    )


def disagreement_rows(disagreed: DataFrame, named: DataFrame) -> DataFrame:
    """scorecard__disagreement, from single disagreements of a `job` at the window's begin `at`."""
    key = ["job", "ds", "field", "source", "other_source"]
    first = F.min(F.struct("at", "believed", "other")).alias("first")
    counted = (
        disagreed.withColumn("ds", day(F.col("at")))
        .groupBy(*key)
        .agg(
            F.count("*").alias("difference_count"),
            F.max("difference_ms").alias("largest_difference_ms"),
            first,
        )
        .withColumn("believed", F.col("first.believed"))
        .withColumn("other", F.col("first.other"))
    )
    rows = counted.join(F.broadcast(named.select("job", *NAMES)), on="job", how="inner")
    return tables.SCORECARD_DISAGREEMENT.select_from(rows)


def _on_each_day(frame: DataFrame) -> DataFrame:
    """One row per interval and day it touches, its length as it is; also where it has none."""
    last = F.greatest(F.col("begin"), F.col("end") - 1)
    days = F.sequence(day_number(F.col("begin")), day_number(last))
    return frame.withColumn("_day", F.explode(days)).withColumn("ds", day(F.col("_day") * DAY_MS))


def _with_instants(frame: DataFrame) -> DataFrame:
    return frame.withColumn("started_at", timestamp("begin")).withColumn(
        "ended_at", timestamp("end")
    )


def sums() -> list[Column]:
    """The additive columns of every scorecard, over rows with duration_ms, gpu_ms, stage, …."""
    effective = F.col("stage") == Stage.EFFECTIVE.value

    def total(measure: str, condition: Column, name: str) -> Column:
        return F.sum(F.when(condition, F.col(measure)).otherwise(0)).alias(name)

    stages = [s for s in Stage if s is not Stage.EFFECTIVE]
    return [
        F.sum("duration_ms").alias("wall_ms"),
        F.sum("gpu_ms").alias("held_gpu_ms"),
        total("duration_ms", effective, "effective_ms"),
        total("gpu_ms", effective, "effective_gpu_ms"),
        *(total("duration_ms", F.col("stage") == s.value, f"{s.value}_ms") for s in stages),
        *(total("gpu_ms", F.col("stage") == s.value, f"{s.value}_gpu_ms") for s in stages),
        total("duration_ms", F.col("component") == UNATTRIBUTED, "unattributed_ms"),
        total("duration_ms", F.col("is_inferred"), "inferred_ms"),
        total("duration_ms", F.col("component") == REPEATED, "repeated_ms"),
    ]


def measured(pieces: DataFrame) -> DataFrame:
    """Pieces with duration_ms and gpu_ms."""
    return pieces.withColumn("duration_ms", F.col("end") - F.col("begin")).withColumn(
        "gpu_ms", F.col("duration_ms") * F.col("gpus")
    )


def hidden(joined: DataFrame) -> DataFrame:
    """(job, component, hidden_ms): the length of spans that held nothing up."""
    return (
        joined.where("NOT is_blocking")
        .groupBy("job", F.col("phase").alias("component"))
        .agg(F.sum(F.expr("end - begin")).alias("hidden_ms"))
    )


def lost_tails(
    miles: DataFrame, durable: DataFrame, pairs: DataFrame, priced: DataFrame
) -> DataFrame:
    """Per `job`: lost_tail_ms, effective time beyond its highest durable checkpoint step.

    0 for a job that still runs or succeeded; null where it never reported a checkpoint. `durable`
    has (job, step) lines.
    """
    is_safe = F.col("is_censored") | (F.col("outcome") == Outcome.SUCCEEDED.value)
    highest = durable.groupBy("job").agg(F.max("step").alias("durable_step"))
    ended = miles.select("job", is_safe.alias("is_safe")).join(highest, on="job", how="left")
    at_risk = F.broadcast(ended.where("NOT is_safe AND durable_step IS NOT NULL"))
    marks = ["att", "seq"]
    costs = priced.select(*marks, "repeated_ms", "effective_ms")
    beyond = (
        pairs.where("is_progress")
        .join(at_risk.select("job", "durable_step"), on="job", how="inner")
        .where("s1 > durable_step")
        .join(costs, on=marks, how="left")
        .withColumn("repeated", F.coalesce("repeated_ms", F.lit(0)))
        .withColumn("new", F.coalesce("effective_ms", F.expr("f1 - f0")))
    )
    steps = F.col("s1") - F.col("s0")
    free = F.col("new") + F.col("repeated")
    kept_steps = F.greatest(F.col("durable_step") - F.col("s0"), F.lit(0))
    kept = div(product(F.least(kept_steps, steps), free), steps).cast("long")
    lost = F.when(steps > 0, free - F.greatest(F.col("repeated"), kept)).otherwise(F.col("new"))
    tails = beyond.groupBy("job").agg(F.sum(lost).alias("tail"))
    return ended.join(tails, on="job", how="left").select(
        "job",
        F.when(F.col("is_safe"), 0)
        .when(F.col("durable_step").isNotNull(), F.coalesce("tail", F.lit(0)))
        .cast("long")
        .alias("lost_tail_ms"),
    )


def job_facts(frames: dict[str, DataFrame]) -> DataFrame:
    """One row per job, whole as known at `as_of`; scorecard__job without its day.

    Needs the frames of the ledger: named, attempts, milestones, pieces, interruptions, recovered,
    joined, lost_tails, queues, told_by, uncertain. A job without any attempt has wall 0 and is
    censored.
    """
    held = (
        frames["attempts"]
        .groupBy("job")
        .agg(
            F.count("*").alias("attempt_count"),
            F.max("gpus").alias("max_gpus"),
            F.max("is_cut").alias("is_clock_conflict"),
        )
    )
    parts = [
        measured(frames["pieces"]).groupBy("job").agg(*sums()),
        frames["milestones"].drop("last_att", "last_mark", "is_trained", "is_gap_after"),
        held,
        _interruption_counts(frames["interruptions"]),
        frames["recovered"].groupBy("job").agg(F.count("*").alias("recovery_count")),
        hidden(frames["joined"]).groupBy("job").agg(F.sum("hidden_ms").alias("hidden_ms")),
        frames["lost_tails"],
        frames["queues"],
        frames["told_by"],
        frames["uncertain"].select("job", F.lit(True).alias("is_position_uncertain")),
    ]
    facts = frames["named"]
    for part in parts:
        facts = facts.join(part, on="job", how="left")
    return _completed(facts)


def _interruption_counts(struck: DataFrame) -> DataFrame:
    infrastructure = [c.value for c in Cause if c.is_infrastructure]
    is_failure = F.col("cause").isin(*infrastructure)
    return struck.groupBy("job").agg(
        F.count("*").alias("interruption_count"),
        F.sum(is_failure.cast("long")).alias("failure_count"),
    )


def _completed(facts: DataFrame) -> DataFrame:
    """Sums and counts of a job with nothing to sum are 0, not unknown; ratios stay null."""
    counts = [
        c.name
        for c in tables.SCORECARD_JOB.columns
        if c.type == "long" and not c.is_nullable and c.name in facts.columns
    ]
    has_attempt = F.col("attempt_count").isNotNull()
    zeroed = facts.select(
        *(
            F.coalesce(F.col(c), F.lit(0)).cast("long").alias(c) if c in counts else F.col(c)
            for c in facts.columns
        ),
        has_attempt.alias("has_attempt"),
    )
    never = ("is_presumed_dead", "is_clock_conflict", "is_position_uncertain", "is_training_told")
    return (
        zeroed.withColumn("is_censored", F.coalesce("is_censored", F.lit(True)))
        .withColumns({name: F.coalesce(name, F.lit(False)) for name in never})
        .withColumn(
            "lost_tail_ms",
            if_told(F.when(F.col("has_attempt"), F.col("lost_tail_ms")).otherwise(F.lit(0))),
        )
        .withColumn("tts_ms", F.col("first_progress") - F.col("wall_begin"))
        .withColumn("started_at", timestamp("wall_begin"))
        .withColumn("ended_at", timestamp("wall_end"))
        .withColumn("ett_ratio", if_told(ratio("effective_ms", "wall_ms")))
        .withColumn("gpu_ett_ratio", if_told(ratio("effective_gpu_ms", "held_gpu_ms")))
    )


def if_told(share: Column) -> Column:
    """No source that could tell of training: what was effective is unknown, not nothing."""
    return F.when(F.col("is_training_told"), share)


def ratio(part: str, whole: str) -> Column:
    """The ratio part / whole as a double; null where the whole is 0."""
    return F.when(F.col(whole) > 0, F.col(part).cast("double") / F.col(whole).cast("double"))


def job_days(intervals: DataFrame, facts: DataFrame) -> DataFrame:
    """Additive sums by day and job, with is_censored and untold time; the base of every roll-up.

    A job without wall time has a row of zeros on the day of its first line.
    """
    key = ["ds", *NAMES]
    summed = intervals.groupBy(*key).agg(*sums())
    waiting = facts.where("NOT has_attempt").select(
        day(F.col("first_line")).alias("ds"),
        *NAMES,
        *(F.lit(0).cast("long").alias(c) for c in summed.columns if c not in key),
    )
    of_job = facts.select(*NAMES, "model", "team", "is_censored", "is_training_told")
    is_untold = ~F.col("is_training_told")
    return (
        union([summed, waiting])
        .join(F.broadcast(of_job), on=NAMES, how="inner")
        .withColumn("untold_ms", F.when(is_untold, F.col("wall_ms")).otherwise(0))
        .withColumn("untold_gpu_ms", F.when(is_untold, F.col("held_gpu_ms")).otherwise(0))
    )
