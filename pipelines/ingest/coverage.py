"""Who tells of a job, and what: the sources of each job on each day."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.ingest.sources import SOURCES
from pipelines.intervals import day, instant

JOB = ["cluster", "job_id"]
PROGRESS = tuple(name for name, known in SOURCES.items() if known.is_progress_told)
"""Sources that tell of training steps: of a job that none of them speaks of, ETT is unknown."""


def told_lines(events: DataFrame, *, as_of: int) -> DataFrame:
    """Every line up to `as_of` (epoch ms): cluster, job_id, source, event, at, word.

    `word` is the kind of event, or the phase's name.
    """
    word = F.coalesce("phase", "event").alias("word")
    lines = events.select(*JOB, "source", "event", word, instant("event_at").alias("at"))
    return lines.where(F.col("at") <= F.lit(as_of))


def coverage(placed: DataFrame) -> DataFrame:
    """What each source tells of each run of a job on each day, from `told_lines` with their run.

    Columns: cluster, job_id, run, ds, source, at (its first line, epoch ms), last_at, event_count,
    told (its words).
    """
    key = [*JOB, "run", "ds", "source"]
    counted = (
        placed.withColumn("ds", day(F.col("at")))
        .groupBy(*key, "word")
        .agg(F.count("*").alias("count"), F.min("at").alias("at"), F.max("at").alias("last_at"))
    )
    return counted.groupBy(*key).agg(
        F.min("at").alias("at"),
        F.max("last_at").alias("last_at"),
        F.sum("count").alias("event_count"),
        F.array_join(F.sort_array(F.collect_list("word")), ", ").alias("told"),
    )


def summary(covered: DataFrame) -> DataFrame:
    """Per `job`: its sources in words, and whether one of them tells of training."""
    is_told = F.max(F.col("source").isin(*PROGRESS))
    return covered.groupBy("job").agg(
        F.array_join(F.sort_array(F.collect_set("source")), ", ").alias("sources"),
        is_told.alias("is_training_told"),
    )
