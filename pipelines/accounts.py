"""The accounts of jobs as plain dictionaries: what `ett account --json` and `ett job` print."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.taxonomy import Stage

Row = dict[str, Any]
Key = tuple[str, str]
JOB = ["cluster", "job_id"]
NEEDED = (
    tables.LEDGER_INTERVAL.name,
    tables.TIMELINE_PHASE.name,
    tables.SCORECARD_RECOVERY.name,
    tables.SCORECARD_INTERRUPTION.name,
)
FLAGS = {
    "censored": "is_censored",
    "clock_conflict": "is_clock_conflict",
    "presumed_dead": "is_presumed_dead",
    "position_uncertain": "is_position_uncertain",
}
ALSO = ("lost_tail_ms", "queue_wait_ms", "tts_ms")


def accounts(frames: dict[str, DataFrame]) -> list[Row]:
    """One dictionary per job, ordered by cluster and job, from the frames of `walk.ledger`.

    The engine sums the long tables first; what is collected has a row per job, day and component.
    """
    day_sums = [*JOB, "ds", "component", "stage"]
    summed = {
        tables.LEDGER_INTERVAL.name: ledger_sums(frames[tables.LEDGER_INTERVAL.name], day_sums),
        tables.TIMELINE_PHASE.name: ledger_sums(
            frames[tables.TIMELINE_PHASE.name], [*JOB, "component", "is_blocking"]
        ),
    }
    collected = {
        name.split("__")[1]: _by_job(summed.get(name, frames[name]).toArrow()) for name in NEEDED
    }
    facts = frames["job_facts"].orderBy("cluster", "job_id").toArrow().to_pylist()
    return [
        account(fact, **{grain: rows.get(_key(fact), []) for grain, rows in collected.items()})
        for fact in facts
    ]


def ledger_sums(rows: DataFrame, key: list[str]) -> DataFrame:
    """`duration_ms` summed by `key`."""
    return rows.groupBy(*key).agg(F.sum("duration_ms").alias("duration_ms"))


def account(
    fact: Row,
    *,
    interval: list[Row],
    phase: list[Row],
    recovery: list[Row],
    interruption: list[Row],
) -> Row:
    """One job in the shape of the accounting cases, with the fields of `also` beside it."""
    recovered = sorted(recovery, key=lambda r: (r["started_at"], r["resumed_at"]))
    name = {} if fact["cluster"] == "default" else {"cluster": fact["cluster"]}
    return {
        **name,
        "job_id": fact["job_id"],
        "wall_ms": fact["wall_ms"],
        "components": _sums(interval, "component"),
        "stages": _ordered(_sums(interval, "stage"), [s.value for s in Stage]),
        "held_gpu_ms": fact["held_gpu_ms"],
        "effective_gpu_ms": fact["effective_gpu_ms"],
        "ett_ratio": fact["ett_ratio"],
        "ttr_ms": [r["ttr_ms"] for r in recovered],
        "time_to_new_data_ms": [r["time_to_new_data_ms"] for r in recovered],
        "interruptions": _counts(interruption, "cause"),
        "flags": [flag for flag, column in FLAGS.items() if fact[column]],
        "hidden_ms": _sums([p for p in phase if not p["is_blocking"]], "component"),
        **{name: fact[name] for name in ALSO},
        "sources": (fact["sources"] or "").split(", "),
        "days": _days(interval),
    }


def _key(row: Row) -> Key:
    return row["cluster"], row["job_id"]


def _by_job(table: pa.Table) -> dict[Key, list[Row]]:
    jobs: dict[Key, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        jobs[_key(row)].append(row)
    return jobs


def _sums(rows: list[Row], column: str) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        sums[row[column]] += row["duration_ms"]
    return dict(sorted(sums.items()))


def _ordered(sums: dict[str, int], order: list[str]) -> dict[str, int]:
    return {key: sums[key] for key in order if key in sums}


def _counts(rows: list[Row], column: str) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row[column]] += 1
    return dict(sorted(counts.items()))


def _days(interval: list[Row]) -> dict[str, dict[str, int]]:
    days: dict[str, list[Row]] = defaultdict(list)
    for row in interval:
        days[row["ds"].isoformat()].append(row)
    return {ds: _sums(rows, "component") for ds, rows in sorted(days.items())}
