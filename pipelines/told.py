"""What the published tables say, for `ett top` and `ett job`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from dashboards.format import gpu_hours, percent
from dashboards.published import Published
from pipelines import tables
from pipelines.accounts import account
from pipelines.errors import InputError, nearest

Row = dict[str, Any]
_SUMS = ("lost_ms", "lost_gpu_ms", "lost_cost")
_OF_A_JOB = (
    tables.LEDGER_INTERVAL,
    tables.TIMELINE_PHASE,
    tables.SCORECARD_RECOVERY,
    tables.SCORECARD_INTERRUPTION,
)


@dataclass(frozen=True)
class Ranking:
    """Overhead sources, the largest loss of GPU time first, and the sums of the days they cover."""

    rows: list[Row]
    days: list[date]
    held_gpu_ms: int
    effective_gpu_ms: int
    jobs_without_gpus: int
    untold_gpu_ms: int = 0


@dataclass(frozen=True)
class JobStory:
    """One job: its account, its model, and its rows of the ledger."""

    account: Row
    model: str | None
    intervals: list[Row]


def ranking(warehouse: str, *, first: date | None, last: date | None) -> Ranking:
    """The charges by component and owner, of the published days from `first` to `last`."""
    published = Published(Path(warehouse))
    fleet = _rows(
        published,
        tables.SCORECARD_FLEET,
        ["ds", "held_gpu_ms", "effective_gpu_ms", "untold_gpu_ms"],
        None,
    )
    days = sorted(
        row["ds"]
        for row in fleet
        if (not first or row["ds"] >= first) and (not last or row["ds"] <= last)
    )
    charges = _rows(published, tables.CHARGES_OWNER_COMPONENT, ["owner", "component", *_SUMS], days)
    known = set(days)
    covered = [row for row in fleet if row["ds"] in known]
    return Ranking(
        rows=sorted(
            _summed(charges), key=lambda r: (-r["lost_gpu_ms"], -r["lost_ms"], r["component"])
        ),
        days=days,
        held_gpu_ms=sum(row["held_gpu_ms"] for row in covered),
        effective_gpu_ms=sum(row["effective_gpu_ms"] for row in covered),
        jobs_without_gpus=_jobs_without_gpus(published, days),
        untold_gpu_ms=sum(row["untold_gpu_ms"] for row in covered),
    )


def days_between(warehouse: str, first: date | None, last: date | None) -> list[date] | None:
    """The published days within the bounds; None where there are none, which means every day."""
    if first is None and last is None:
        return None
    days = Published(Path(warehouse)).publications()["ds"]
    return [d for d in days if (first or date.min) <= d <= (last or date.max)]


def _jobs_without_gpus(published: Published, days: Sequence[date]) -> int:
    """Jobs with wall time whose accelerators no line tells: their GPU time is missing."""
    cards = _rows(
        published, tables.SCORECARD_JOB, ["cluster", "job_id", "wall_ms", "max_gpus"], days
    )
    silent = (c for c in cards if c["wall_ms"] and not c["max_gpus"])
    return len({(c["cluster"], c["job_id"]) for c in silent})


def headline(found: Ranking) -> str:
    """One line: the days, ETT% by GPU time, and what was lost."""
    if not found.days:
        return "no day of that range is published"
    is_known = found.held_gpu_ms > found.untold_gpu_ms
    ratio = found.effective_gpu_ms / found.held_gpu_ms if is_known else None
    lost = gpu_hours(found.held_gpu_ms - found.effective_gpu_ms)
    first, last = found.days[0], found.days[-1]
    span = f"{first}" if first == last else f"{first} to {last}"
    silent, untold = found.jobs_without_gpus, found.untold_gpu_ms
    caveat = f"; {silent:,} jobs never say how many GPUs they held: not in it" if silent else ""
    if untold:
        caveat += f"; of {gpu_hours(untold)} GPU-hours no source tells of training"
    bound = "at least " if untold and ratio is not None else ""
    return (
        f"{span}: ETT {bound}{percent(ratio)} of"
        f" {gpu_hours(found.held_gpu_ms)} GPU-hours, {lost} lost{caveat}"
    )


def job(warehouse: str, job_id: str, *, cluster: str | None) -> JobStory:
    """One job of the warehouse. Raises InputError where it is not there, or is not the only one."""
    published = Published(Path(warehouse))
    names = [c.name for c in tables.SCORECARD_JOB.columns]
    cards = _rows(published, tables.SCORECARD_JOB, names, None)
    found = [c for c in cards if c["job_id"] == job_id and cluster in (None, c["cluster"])]
    clusters = sorted({c["cluster"] for c in found})
    if not found:
        every = sorted({c["job_id"] for c in cards})
        raise InputError(f"no job '{job_id}' is published in {warehouse}: {nearest(job_id, every)}")
    if len(clusters) > 1:
        raise InputError(
            f"'{job_id}' is a job of several clusters: say --cluster {' or '.join(clusters)}"
        )
    fact = max(found, key=lambda c: c["ds"])
    rows = {table.name.split("__")[1]: _of(published, table, fact) for table in _OF_A_JOB}
    return JobStory(account(fact, **rows), fact["model"], rows["interval"])


def _of(published: Published, table: tables.Table, fact: Row) -> list[Row]:
    names = [c.name for c in table.columns]
    span = (fact["started_at"], fact["ended_at"])
    days = None if None in span else _days(span[0].date(), span[1].date())
    rows = _rows(published, table, names, days)
    return [r for r in rows if (r["cluster"], r["job_id"]) == (fact["cluster"], fact["job_id"])]


def _days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _rows(
    published: Published, table: tables.Table, columns: Sequence[str], days: Sequence[date] | None
) -> list[Row]:
    frame = published.read(table, columns, days)
    return [
        {str(key): None if value is None or value != value else value for key, value in row.items()}  # noqa: PLR0124
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def _summed(charges: Sequence[Row]) -> list[Row]:
    sums: dict[tuple[str, str], Row] = {}
    for row in charges:
        key = (row["owner"], row["component"])
        so_far = sums.setdefault(
            key,
            {
                "owner": key[0],
                "component": key[1],
                "lost_ms": 0,
                "lost_gpu_ms": 0,
                "lost_cost": None,
            },
        )
        so_far["lost_ms"] += row["lost_ms"]
        so_far["lost_gpu_ms"] += row["lost_gpu_ms"]
        if row["lost_cost"] is not None:
            so_far["lost_cost"] = (so_far["lost_cost"] or 0.0) + row["lost_cost"]
    return list(sums.values())
