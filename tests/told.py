"""The frames of a walk in the words of the oracle, so that the two can be compared whole."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pipelines import tables
from pipelines.accounts import accounts
from tests.oracle import merged

if TYPE_CHECKING:
    from pipelines.walk import Frames

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = {
    "intervals": tables.LEDGER_INTERVAL,
    "attempts": tables.TIMELINE_ATTEMPT,
    "phases": tables.TIMELINE_PHASE,
    "recoveries": tables.SCORECARD_RECOVERY,
    "interruptions": tables.SCORECARD_INTERRUPTION,
}


def as_the_oracle_tells(frames: Frames) -> list[Row]:
    """One dictionary per job like those of `oracle.account`, without marks and pairs."""
    rows: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for name, table in TABLES.items():
        rows[name] = defaultdict(list)
        for row in frames[table.name].toArrow().to_pylist():
            rows[name][row["cluster"], row["job_id"]].append(row)
    return [
        {key: value for key, value in job.items() if key != "sources"}
        | of_job(
            **{
                name: jobs[job.get("cluster", "default"), job["job_id"]]
                for name, jobs in rows.items()
            }
        )
        for job in accounts(frames)
    ]


def comparable(job: Row) -> Row:
    """A job of the oracle, or of the walk, with what both tell in one order."""
    return job | {
        "flags": sorted(job["flags"]),
        "recoveries": ordered(job["recoveries"]),
        "interruption_list": ordered(job["interruption_list"]),
        "attempts": [
            {k: v for k, v in attempt.items() if k not in ("marks", "pairs")}
            for attempt in job["attempts"]
        ],
    }


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(v is not None, v) for _, v in sorted(row.items())])


def of_job(
    *,
    intervals: list[Row],
    attempts: list[Row],
    phases: list[Row],
    recoveries: list[Row],
    interruptions: list[Row],
) -> Row:
    """What the published rows of one job say."""
    pieces = [
        SimpleNamespace(begin=ms(r["started_at"]), end=ms(r["ended_at"]), **r) for r in intervals
    ]
    pieces.sort(key=lambda r: r.begin)
    return {
        "rows": merged(pieces, lambda r: (r.component, r.stage, r.gpus, r.is_inferred, r.attempt)),
        "causes_of_rows": merged(pieces, lambda r: (r.component, r.stage, r.cause)),
        "lost_by_cause": lost_by_cause(intervals),
        "recoveries": [recovery(r) for r in recoveries],
        "failures": sum(r["is_infrastructure"] for r in interruptions),
        "interruption_list": [
            {
                "attempt": r["attempt"],
                "kind": r["kind"],
                "cause": r["cause"],
                "begin": ms(r["began_at"]),
            }
            for r in interruptions
        ],
        "attempts": attempts_of(attempts, phases),
    }


def ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(milliseconds=1)


def lost_by_cause(intervals: list[Row]) -> dict[str | None, list[int]]:
    lost: dict[str | None, list[int]] = {}
    for row in intervals:
        if row["component"] != "effective_training":
            wall, gpu = lost.get(row["cause"], [0, 0])
            lost[row["cause"]] = [wall + row["duration_ms"], gpu + row["gpu_ms"]]
    return lost


def recovery(row: Row) -> Row:
    return {
        "begin": ms(row["started_at"]),
        "end": ms(row["resumed_at"]),
        "from_attempt": row["from_attempt"],
        "to_attempt": row["to_attempt"],
        "ttr_ms": row["ttr_ms"],
        "new_data_at": ms(row["new_data_at"]),
        "time_to_new_data_ms": row["time_to_new_data_ms"],
    }


def attempts_of(attempts: list[Row], phases: list[Row]) -> list[Row]:
    """Each attempt once, in order: published rows are one for each day that it touches."""
    once = {row["attempt_index"]: row for row in attempts}
    return [
        {
            "number": row["attempt"],
            "start": ms(row["started_at"]),
            "end": ms(row["ended_at"]),
            "outcome": row["outcome"],
            "gpus": row["gpus"],
            "held": row["is_held"],
            "end_kind": row["end_kind"],
            "is_cut": row["is_cut"],
            "outside_line_count": row["outside_line_count"],
            "spans": spans_of([p for p in phases if p["attempt"] == row["attempt"]]),
        }
        for _, row in sorted(once.items())
    ]


def spans_of(phases: list[Row]) -> list[tuple[Any, ...]]:
    """Spans as they were before they were cut at midnight."""
    pieces = sorted(
        (p["component"], p["is_blocking"], ms(p["started_at"]), ms(p["ended_at"]), p["is_inferred"], p["gating_rank"])
        for p in phases
    )  # fmt: skip
    joined: list[tuple[Any, ...]] = []
    for piece in pieces:
        if joined and joined[-1][:2] == piece[:2] and joined[-1][3] == piece[2]:
            joined[-1] = (*joined[-1][:3], *piece[3:])
        else:
            joined.append(piece)
    return joined
