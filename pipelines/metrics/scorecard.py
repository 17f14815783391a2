"""Scorecards: ratios of sums of the ledger, by job, attempt, model, team, component, day, fleet."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.metrics.facts import NAMES, if_told, measured, ratio, sums


def job_cards(facts: DataFrame, job_days: DataFrame) -> DataFrame:
    """scorecard__job: whole jobs, on each day they touch."""
    days = job_days.select("ds", *NAMES)
    return tables.SCORECARD_JOB.select_from(days.join(facts, on=NAMES, how="inner"))


def job_component_cards(intervals: DataFrame) -> DataFrame:
    """scorecard__job_component: day x job x component x stage."""
    key = ["ds", *NAMES, "model", "team", "component", "stage"]
    inferred = F.when(F.col("is_inferred"), F.col("duration_ms")).otherwise(0)
    summed = intervals.groupBy(*key).agg(
        F.sum("duration_ms").alias("duration_ms"),
        F.sum("gpu_ms").alias("gpu_ms"),
        F.sum(inferred).alias("inferred_ms"),
    )
    return tables.SCORECARD_JOB_COMPONENT.select_from(summed)


def attempt_cards(
    pieces: DataFrame, timeline_attempts: DataFrame, named: DataFrame, told_by: DataFrame
) -> DataFrame:
    """scorecard__attempt: whole attempts, on each day they touch; gaps are not theirs.

    `told_by` has (job, is_training_told): where it is not, the ratios are unknown.
    """
    whole = (
        measured(pieces)
        .where("attempt IS NOT NULL")
        .groupBy("job", "attempt")
        .agg(*sums())
        .join(F.broadcast(named.select("job", *NAMES)), on="job", how="inner")
        .join(F.broadcast(told_by.select("job", "is_training_told")), on="job", how="left")
        .withColumn("ett_ratio", if_told(ratio("effective_ms", "wall_ms")))
        .withColumn("gpu_ett_ratio", if_told(ratio("effective_gpu_ms", "held_gpu_ms")))
    )
    days = timeline_attempts.select("ds", *NAMES, "attempt", "outcome")
    return tables.SCORECARD_ATTEMPT.select_from(
        whole.join(days, on=[*NAMES, "attempt"], how="inner")
    )


def component_cards(intervals: DataFrame) -> DataFrame:
    """scorecard__component: day x cluster x component x stage."""
    inferred = F.when(F.col("is_inferred"), F.col("duration_ms")).otherwise(0)
    summed = intervals.groupBy("ds", "cluster", "component", "stage").agg(
        F.sum("duration_ms").alias("duration_ms"),
        F.sum("gpu_ms").alias("gpu_ms"),
        F.sum(inferred).alias("inferred_ms"),
        F.countDistinct("job_id").alias("job_count"),
    )
    return tables.SCORECARD_COMPONENT.select_from(summed)


def roll_up(job_days: DataFrame, table: tables.Table) -> DataFrame:
    """Sums over jobs by the table's key, and their ratios; never an average of ratios."""
    added = [c.name for c in (*tables.ADDITIVE, *tables.UNTOLD)]
    summed = (
        job_days.groupBy(*table.key)
        .agg(
            F.sum((F.col("wall_ms") > 0).cast("long")).alias("job_count"),
            F.sum(F.col("is_censored").cast("long")).alias("censored_count"),
            *(F.sum(c).alias(c) for c in added),
        )
        .withColumn("ett_ratio", _of_told("effective_ms", "wall_ms", "untold_ms"))
        .withColumn("gpu_ett_ratio", _of_told("effective_gpu_ms", "held_gpu_ms", "untold_gpu_ms"))
    )
    return table.select_from(summed)


def _of_told(part: str, whole: str, untold: str) -> Column:
    """The ratio, a lower bound where some of the whole is untold; null where all of it is."""
    return F.when(F.col(untold) < F.col(whole), ratio(part, whole))


def scorecards(frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """Every scorecard table that is a roll-up of the ledger's frames."""
    intervals = frames[tables.LEDGER_INTERVAL.name]
    rolled = (
        tables.SCORECARD_MODEL,
        tables.SCORECARD_TEAM,
        tables.SCORECARD_DAY,
        tables.SCORECARD_FLEET,
    )
    return {
        tables.SCORECARD_JOB.name: job_cards(frames["job_facts"], frames["job_days"]),
        tables.SCORECARD_JOB_COMPONENT.name: job_component_cards(intervals),
        tables.SCORECARD_ATTEMPT.name: attempt_cards(
            frames["pieces"],
            frames[tables.TIMELINE_ATTEMPT.name],
            frames["named"],
            frames["told_by"],
        ),
        tables.SCORECARD_COMPONENT.name: component_cards(intervals),
        **{table.name: roll_up(frames["job_days"], table) for table in rolled},
        **{
            name: frames[name]
            for name in (
                tables.SCORECARD_RECOVERY.name,
                tables.SCORECARD_INTERRUPTION.name,
                tables.SCORECARD_JOB_SOURCE.name,
                tables.SCORECARD_DISAGREEMENT.name,
            )
        },
    }
