"""The envelope of each attempt: when it started and ended, how, and on how many accelerators."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import filled_down, union
from pipelines.metrics.placing import RUN, emitter
from pipelines.taxonomy import Cause, Outcome

ATTEMPT = [*RUN, "attempt"]
_ALWAYS = Window.unboundedPreceding


def jobs_from_lines(lines: Sequence[DataFrame]) -> DataFrame:
    """One row per run of a job that any line speaks of, with its dense key `job` and its name.

    An id that is itself what a later run of another id is named keeps apart by a `#1` of its own.
    """
    runs = union([frame.select(*RUN).distinct() for frame in lines]).distinct()
    order = Window.partitionBy(F.lit(0)).orderBy(*RUN)
    suffix = F.concat(F.lit("#"), F.col("run").cast("string"))
    named = runs.withColumn(
        "name", F.concat("job_id", F.when(F.col("run") == 1, F.lit("")).otherwise(suffix))
    )
    is_taken = F.count("*").over(Window.partitionBy("cluster", "name")) > 1
    is_first = F.col("run") == 1
    return named.select(
        *RUN,
        F.row_number().over(order).cast("long").alias("job"),
        F.when(is_taken & is_first, F.concat("name", F.lit("#1")))
        .otherwise(F.col("name"))
        .alias("name"),
    )


def envelopes(
    marks: DataFrame,
    others: DataFrame,
    control: DataFrame,
    jobs: DataFrame,
    *,
    as_of: int,
    dead_after: int,
) -> DataFrame:
    """One row per attempt: keys `job` and `att`, order `index`, begin, end, and how it ended.

    `marks` and `others` are placed lines of attempts (others with `attempt_started`), `control`
    the job_submitted and job_finished lines with their run.
    """
    heard = _heard(marks, others)
    started = heard.withColumn("begin", F.coalesce("started", "first_heard"))
    finished = (
        control.where("event = 'job_finished'").groupBy(*RUN).agg(F.max("at").alias("finished"))
    )
    course = Window.partitionBy(*RUN).orderBy("begin", "attempt")
    everyone = Window.partitionBy(F.lit(0)).orderBy("job", "index")
    ordered = (
        started.join(_stated_ends(started, others), on=ATTEMPT, how="left")
        .join(finished, on=RUN, how="left")
        .join(jobs, on=RUN, how="inner")
        .withColumn("index", (F.row_number().over(course) - 1).cast("long"))
        .withColumn("next_begin", F.lead("begin").over(course))
        .withColumn("is_last", F.col("next_begin").isNull())
    )
    return _with_end(ordered, as_of=as_of, dead_after=dead_after).withColumn(
        "att", F.row_number().over(everyone).cast("long")
    )


def _stated_ends(started: DataFrame, others: DataFrame) -> DataFrame:
    """The latest `attempt_ended` of each attempt; one before its start says nothing."""
    return (
        others.where("event = 'attempt_ended'")
        .join(started.select(*ATTEMPT, "begin"), on=ATTEMPT, how="inner")
        .where("at >= begin")
        .groupBy(*ATTEMPT)
        .agg(F.max("at").alias("stated_end"))
    )


def _heard(marks: DataFrame, others: DataFrame) -> DataFrame:
    """First and last sign of life of each attempt, and its earliest `attempt_started`."""
    is_start = F.col("event") == "attempt_started"
    parts = [
        frame.groupBy(*ATTEMPT).agg(
            F.min("at").alias("first_heard"),
            F.max("at").alias("last_heard"),
            F.min(F.when(is_start, F.col("at"))).alias("started"),
        )
        for frame in (marks, others)
    ]
    return (
        union(parts)
        .groupBy(*ATTEMPT)
        .agg(
            F.min("first_heard").alias("first_heard"),
            F.max("last_heard").alias("last_heard"),
            F.min("started").alias("started"),
        )
    )


def _with_end(ordered: DataFrame, *, as_of: int, dead_after: int) -> DataFrame:
    is_stated = F.col("stated_end").isNotNull()
    is_finished = F.col("is_last") & (F.col("finished") >= F.col("begin"))
    is_silent = ~F.col("is_last") | (F.lit(as_of) - F.col("last_heard") >= F.lit(dead_after))
    kind = (
        F.when(is_stated, "attempt_ended")
        .when(is_finished, "job_finished")
        .when(is_silent, "presumed")
        .otherwise("as_of")
    )
    own_end = (
        F.when(is_stated, F.col("stated_end"))
        .when(is_finished, F.col("finished"))
        .when(is_silent, F.col("last_heard"))
        .otherwise(F.lit(as_of))
    )
    is_presumed = F.col("end_kind") == "presumed"
    return (
        ordered.withColumn("end_kind", kind)
        .withColumn("own_end", own_end)
        .withColumn("is_cut", F.coalesce(F.col("next_begin") < F.col("own_end"), F.lit(False)))
        .withColumn("end", F.least("own_end", F.coalesce("next_begin", "own_end")))
        .withColumn("is_presumed", is_presumed)
        .withColumn("is_presumed_dead", is_presumed & F.col("is_last"))
        .withColumn("is_censored", F.col("end_kind") == "as_of")
        .select(
            *ATTEMPT, "name", "job", "index", "begin", "end", "end_kind", "is_last", "is_cut",
            "is_presumed", "is_presumed_dead", "is_censored",
        )
    )  # fmt: skip


def accelerators(attempts: DataFrame, starts: DataFrame) -> DataFrame:
    """Per attempt: `gpus` (as before where not said; 0 where never said) and `is_held`."""
    said = F.when(
        F.col("gpus").isNotNull(),
        F.struct("at", "e_rank", "e_host", (-F.col("gpus")).alias("less")),
    )
    stated = (
        starts.select("*", *emitter())
        .groupBy(*ATTEMPT)
        .agg(F.min(said).alias("said"), F.max("is_held").alias("held"))
        .select(*ATTEMPT, (-F.col("said.less")).alias("stated"), "held")
    )
    known = attempts.select(*ATTEMPT, "job", "att", "index").join(stated, on=ATTEMPT, how="left")
    is_said = F.col("stated").isNotNull()
    first = F.min(F.struct("index", "stated")).alias("first")
    firsts = known.where(is_said).groupBy("job").agg(first)
    return (
        filled_down(known, "stated", where=is_said, key=["job"], order=["index"])
        .join(firsts, on="job", how="left")
        .select(
            "att",
            F.coalesce("stated", "first.stated", F.lit(0)).cast("long").alias("gpus"),
            F.coalesce("held", F.lit(False)).alias("is_held"),
        )
    )


def outcomes(
    attempts: DataFrame, others: DataFrame, control: DataFrame, spans: DataFrame
) -> DataFrame:
    """Per attempt (`att`): its outcome, and the first cause that an `attempt_ended` names.

    `spans` has (att, first_mark, last_mark) of attempts with marks.
    """
    ends = (
        others.where("event = 'attempt_ended'")
        .join(attempts.select(*ATTEMPT, "att", "begin"), on=ATTEMPT, how="inner")
        .where("at >= begin")
    )
    finishes = control.where("event = 'job_finished'").join(
        attempts.where("is_last").select(*RUN, "att"), on=RUN, how="inner"
    )
    struck = _struck(attempts, others, spans)
    joined = (
        attempts.select("att", "is_presumed")
        .join(_last_known(ends, "ended"), on="att", how="left")
        .join(_last_known(finishes, "finished"), on="att", how="left")
        .join(_first_cause(ends), on="att", how="left")
        .join(struck, on="att", how="left")
    )
    is_failed = F.col("is_presumed") | F.coalesce("is_struck", F.lit(False))
    otherwise = F.when(is_failed, Outcome.FAILED.value).otherwise(Outcome.UNKNOWN.value)
    return joined.select(
        "att", F.coalesce("ended", "finished", otherwise).alias("outcome"), "ended_cause"
    )


def _last_known(ends: DataFrame, name: str) -> DataFrame:
    """The last outcome that is known: latest, then lowest emitter, then first by name."""
    best = F.min(F.struct((-F.col("at")).alias("age"), "e_rank", "e_host", "outcome"))
    return (
        ends.where(F.col("outcome") != Outcome.UNKNOWN.value)
        .select("*", *emitter())
        .groupBy("att")
        .agg(best.alias("best"))
        .select("att", F.col("best.outcome").alias(name))
    )


def _first_cause(ends: DataFrame) -> DataFrame:
    return (
        ends.where(F.col("cause") != Cause.UNKNOWN.value)
        .groupBy("att")
        .agg(F.min(F.struct("at", "cause")).alias("best"))
        .select("att", F.col("best.cause").alias("ended_cause"))
    )


def _struck(attempts: DataFrame, others: DataFrame, spans: DataFrame) -> DataFrame:
    """Does an interruption lie at or after the last mark, or anywhere where there is no mark?"""
    is_late = F.col("last_mark").isNull() | (F.col("at") >= F.col("last_mark"))
    return (
        others.where("event = 'interruption'")
        .join(attempts.select(*ATTEMPT, "att"), on=ATTEMPT, how="inner")
        .join(spans.select("att", "last_mark"), on="att", how="left")
        .groupBy("att")
        .agg(F.max(is_late).alias("is_struck"))
    )


def gaps(attempts: DataFrame) -> DataFrame:
    """Between attempts: (job, att before, begin, end, is_held, gpus); a held gap keeps the fewer.

    `attempts` has `gpus` and `is_held` joined. Gaps of no length are left out.
    """
    course = Window.partitionBy("job").orderBy("index")
    held = F.lead("is_held").over(course)
    fewer = F.least(F.col("gpus"), F.lead("gpus").over(course))
    return (
        attempts.select(
            "job",
            "att",
            F.col("end").alias("begin"),
            F.lead("begin").over(course).alias("stop"),
            held.alias("is_held"),
            F.when(held, fewer).otherwise(F.lit(0)).cast("long").alias("gpus"),
        )
        .where("begin < stop")
        .withColumnRenamed("stop", "end")
    )


def outside_counts(attempts: DataFrame, marks: DataFrame, others: DataFrame) -> DataFrame:
    """Per attempt with lines outside it: (att, outside_line_count), exact copies counted once."""
    envelope = F.broadcast(attempts.select(*ATTEMPT, "att", "begin", "end"))

    def outside(lines: DataFrame) -> DataFrame:
        return lines.join(envelope, on=ATTEMPT, how="inner").where("at < begin OR at > end")

    return (
        union([outside(marks).distinct().select("att"), outside(others).select("att")])
        .groupBy("att")
        .agg(F.count("*").alias("outside_line_count"))
    )


def dimensions(starts: DataFrame, control: DataFrame) -> DataFrame:
    """Per run of a job: model, team and priority, each from the first line that says it."""
    named = union(
        [
            frame.select(*RUN, "at", "model", "team", "priority", *emitter())
            for frame in (starts, control.where("event = 'job_submitted'"))
        ]
    )

    def first(column: str) -> Column:
        said = F.struct("at", "e_rank", "e_host", column)
        return F.min(F.when(F.col(column).isNotNull(), said)).alias(column)

    names = ("model", "team", "priority")
    return (
        named.groupBy(*RUN)
        .agg(*(first(n) for n in names))
        .select(*RUN, *(F.col(f"{n}.{n}").alias(n) for n in names))
    )


def queues(attempts: DataFrame, control: DataFrame, jobs: DataFrame, *, as_of: int) -> DataFrame:
    """Per `job`: queue_wait_ms, first start - earliest submission; null without a submission.

    Adds `first_line`, the instant that stands for a job without any attempt.
    """
    submitted = (
        control.where("event = 'job_submitted'").groupBy(*RUN).agg(F.min("at").alias("submitted"))
    )
    finished = (
        control.where("event = 'job_finished'").groupBy(*RUN).agg(F.max("at").alias("finished"))
    )
    started = attempts.groupBy("job").agg(F.min("begin").alias("started"))
    return (
        jobs.join(submitted, on=RUN, how="left")
        .join(finished, on=RUN, how="left")
        .join(started, on="job", how="left")
        .select(
            "job",
            (F.coalesce("started", "finished", F.lit(as_of)) - F.col("submitted")).alias(
                "queue_wait_ms"
            ),
            F.coalesce("submitted", "finished").alias("first_line"),
        )
    )
