"""Which days and jobs a run concerns: what new lines change, and whose history a day needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.intervals import DAY_MS, instant, union
from pipelines.tables import LOGBOOK_EVENT, LOGBOOK_JOB

JOB = ["cluster", "job_id"]
EPOCH = date(1970, 1, 1)
LONGEST_DAYS = 3660
"""How many days a job may last, and a run computes at most: beyond ten years a clock was wrong."""


def start_ms(day: date) -> int:
    """Epoch milliseconds at which a UTC day begins."""
    return (day - EPOCH).days * DAY_MS


def day_of_ms(instant_ms: int) -> date:
    """The UTC day of an instant in epoch milliseconds."""
    return EPOCH + timedelta(days=instant_ms // DAY_MS)


def spans(days: Sequence[date]) -> list[tuple[date, date]]:
    """The unbroken runs of days, in order, each as its first and last.

    >>> spans([date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 5)])[1]
    (datetime.date(2026, 1, 5), datetime.date(2026, 1, 5))
    """
    found: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if found and day - found[-1][1] == timedelta(days=1):
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found


def between(first: date, last: date) -> list[date]:
    """The days from the first to the last, both included."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def changed(new: DataFrame, old: DataFrame) -> DataFrame:
    """What differs between the events of some files as read now and as read before.

    Both are logbook__event rows of the same files, `old` without rows for new files. The result
    has one row (ds, cluster, job_id) for each job and day with a line that came, went or changed.
    Every row counts once for `new` and once against `old`, with a hash of all its columns: an
    unchanged day comes to nothing, without a sort or a join.
    """
    columns = [F.coalesce(F.col(c).cast("string"), F.lit("\x00")) for c in LOGBOOK_EVENT.names]

    def weighed(events: DataFrame, sign: int) -> DataFrame:
        print_ = F.xxhash64(F.concat_ws("\x1f", *columns)).cast("decimal(38,0)")
        return events.select("ds", *JOB, F.lit(sign).alias("n"), (print_ * sign).alias("print"))

    return (
        union([weighed(new, 1), weighed(old, -1)])
        .groupBy("ds", *JOB)
        .agg(F.sum("n").alias("n"), F.sum("print").alias("print"))
        .where("n <> 0 OR print <> 0")
        .select("ds", *JOB)
    )


def job_days(events: DataFrame) -> DataFrame:
    """logbook__job rows of logbook__event rows."""
    return LOGBOOK_JOB.select_from(
        events.groupBy("ds", *JOB).agg(
            F.min("event_at").alias("first_event_at"),
            F.max("event_at").alias("last_event_at"),
            F.count("*").alias("event_count"),
        )
    )


def lifetimes(jobs: DataFrame) -> DataFrame:
    """Per job id: first_day and last_day with a line, first_ms and last_ms, of logbook__job."""
    return jobs.groupBy(*JOB).agg(
        F.min("ds").alias("first_day"),
        F.max("ds").alias("last_day"),
        F.min(instant("first_event_at")).alias("first_ms"),
        F.max(instant("last_event_at")).alias("last_ms"),
    )


def is_credible() -> Column:
    """Does a lifetime last less than ten years? Each of its days is a row of every table."""
    return F.datediff("last_day", "first_day") < LONGEST_DAYS


def days_lived(lives: DataFrame, concerned: DataFrame) -> DataFrame:
    """Every day (ds) from the first to the last line of the jobs that `concerned` names.

    A job whose lifetime is not credible has no days.
    """
    return (
        lives.where(is_credible())
        .join(concerned.select(*JOB).distinct(), on=JOB, how="left_semi")
        .select(
            F.explode(F.sequence("first_day", "last_day", F.expr("INTERVAL 1 DAY"))).alias("ds")
        )
        .distinct()
    )


def jobs_touching(
    jobs: DataFrame, first: date, last: date, *, as_of_ms: int, dead_after_ms: int
) -> DataFrame:
    """The job ids whose wall time may touch the days `first` to `last`, never one too few.

    `jobs` is logbook__job; a job whose lifetime is not credible is set aside. A job touches the
    days if it began before their end and spoke at or after their start, or if it may still be
    running at `as_of` (heard less than `dead_after` ago), for then it lasts until then.
    """
    until = jobs.where(F.col("ds") <= F.lit(day_of_ms(as_of_ms)))
    known = lifetimes(until).where(is_credible())
    spoke = F.col("last_ms") >= start_ms(first)
    is_alive = F.col("last_ms") > as_of_ms - dead_after_ms
    lasts = spoke | (is_alive & F.lit(as_of_ms >= start_ms(first)))
    began = F.col("first_ms") < start_ms(last) + DAY_MS
    return known.where(began & lasts).select(*JOB)
