"""The figures of a period: sums of published additive columns, and ratios of those sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from dashboards.published import Published, latest
from pipelines import tables
from pipelines.errors import WarehouseError
from pipelines.taxonomy import EFFECTIVE, UNATTRIBUTED, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

JOB = ["cluster", "job_id"]
LOSS_STAGES = [s for s in Stage if s is not Stage.EFFECTIVE]
MOST_FILES = 500
MOST_REJECTS = 500
MOST_JOINS = 500


@dataclass(frozen=True)
class Totals:
    """The whole period in milliseconds; `cost` is the priced part of the loss, null without one."""

    wall_ms: int
    effective_ms: int
    held_gpu_ms: int
    effective_gpu_ms: int
    inferred_ms: int
    unattributed_ms: int
    unattributed_gpu_ms: int
    untold_ms: int
    untold_gpu_ms: int
    stage_gpu_ms: dict[Stage, int]
    stage_ms: dict[Stage, int]
    lost_cost: float | None
    priced_gpu_ms: int

    @property
    def lost_gpu_ms(self) -> int:
        """GPU time held and not spent on new data."""
        return self.held_gpu_ms - self.effective_gpu_ms

    @property
    def lost_ms(self) -> int:
        """Wall time not spent on new data."""
        return self.wall_ms - self.effective_ms

    @property
    def ett_ratio(self) -> float | None:
        """ETT% by wall time, as `known_ratio` has it."""
        return known_ratio(self.effective_ms, self.wall_ms, self.untold_ms)

    @property
    def gpu_ett_ratio(self) -> float | None:
        """ETT% by GPU time held, as `known_ratio` has it."""
        return known_ratio(self.effective_gpu_ms, self.held_gpu_ms, self.untold_gpu_ms)


@dataclass(frozen=True)
class Period:
    """Everything that the first page says. Frames keep the published columns' names and units.

    `days` has a row per day, `ranking` per component and owner (largest first), `jobs` per job
    (largest loss first). `publications` is what the warehouse says of each day; `stale` are days
    whose figures no longer fit the logbook, `restated` those whose final figures changed later.
    `joins` are names that did not join, `disagreements` counts what sources said otherwise.
    """

    publications: pd.DataFrame
    stale: list[date]
    restated: list[date]
    totals: Totals
    days: pd.DataFrame
    ranking: pd.DataFrame
    jobs: pd.DataFrame
    files: pd.DataFrame
    rejects: pd.DataFrame
    joins: pd.DataFrame
    lines: dict[str, int]
    disagreements: int

    @property
    def dates(self) -> list[date]:
        """The days, in order."""
        return list(self.publications["ds"])


def ratio(part: float, whole: float) -> float | None:
    """A ratio of two sums, or None where there is nothing to share."""
    return part / whole if whole else None


def known_ratio(part: float, whole: float, untold: float) -> float | None:
    """A lower bound where no source tells of some of the whole, None where none tells of any.

    >>> known_ratio(30, 100, 20), known_ratio(0, 100, 100)
    (0.3, None)
    """
    return part / whole if untold < whole else None


def ratios(part: pd.Series, whole: pd.Series) -> pd.Series:
    """`ratio` of two columns, null where there is nothing to share."""
    return part.astype("float64") / whole.astype("float64").where(whole != 0)


def days_shown(published: Published, asked: Sequence[date] | None) -> pd.DataFrame:
    """The publications of the days asked for, or of all days.

    Raises WarehouseError where days were asked for and none of them is published.
    """
    told = published.publications()
    if asked is None:
        return told
    shown = told[told["ds"].isin(list(asked))].reset_index(drop=True)
    if shown.empty:
        there = f"{told['ds'].min()} to {told['ds'].max()}" if len(told) else "no day at all"
        raise WarehouseError(
            f"none of the {len(asked)} days asked for is published in {published.warehouse}; "
            f"it has {there}. Publish them with `ett run --from --to`, or ask for others"
        )
    return shown


def read_period(published: Published, days: Sequence[date] | None = None) -> Period:
    """Read and sum one period; `days` None means every published day."""
    publications = days_shown(published, days)
    dates = list(publications["ds"])
    stale = set(published.stale_days())
    restated = set(published.restated_days())
    fleet = _fleet(published, dates).merge(publications[["ds", "is_provisional"]], on="ds")
    charges = _charges(published, dates)
    files, lines = _files(published)
    joins, lines["unjoined_count"] = _joins(published)
    return Period(
        publications=publications,
        stale=[day for day in dates if day in stale],
        restated=[day for day in dates if day in restated],
        totals=_totals(fleet, charges, _unattributed_gpu_ms(published, dates)),
        days=_days(fleet, charges),
        ranking=ranking(charges),
        jobs=_jobs(published, dates),
        files=files,
        rejects=_rejects(published),
        joins=joins,
        lines=lines,
        disagreements=_disagreements(published, dates),
    )


_SUMS = [
    "wall_ms", "effective_ms", "held_gpu_ms", "effective_gpu_ms", "inferred_ms", "unattributed_ms",
    "untold_ms", "untold_gpu_ms",
]  # fmt: skip


def _fleet(published: Published, dates: list[date]) -> pd.DataFrame:
    stages = [f"{s.value}_{unit}" for s in LOSS_STAGES for unit in ("ms", "gpu_ms")]
    columns = ["ds", *_SUMS, *stages, "ett_ratio", "gpu_ett_ratio"]
    fleet = published.read(tables.SCORECARD_FLEET, columns, dates)
    return fleet.sort_values("ds", ignore_index=True)


def _charges(published: Published, dates: list[date]) -> pd.DataFrame:
    columns = ["ds", "owner", "component", "lost_ms", "lost_gpu_ms", "lost_cost"]
    charges = published.read(tables.CHARGES_OWNER_COMPONENT, columns, dates)
    is_priced = charges["lost_cost"].notna()
    return charges.assign(priced_gpu_ms=charges["lost_gpu_ms"].where(is_priced, 0))


def _unattributed_gpu_ms(published: Published, dates: list[date]) -> int:
    rows = published.read(tables.SCORECARD_COMPONENT, ["component", "gpu_ms"], dates)
    return int(rows.loc[rows["component"] == UNATTRIBUTED, "gpu_ms"].sum())


def _totals(fleet: pd.DataFrame, charges: pd.DataFrame, unattributed_gpu_ms: int) -> Totals:
    def total(column: str) -> int:
        return int(fleet[column].sum())

    cost = charges["lost_cost"].sum(min_count=1)
    return Totals(
        wall_ms=total("wall_ms"),
        effective_ms=total("effective_ms"),
        held_gpu_ms=total("held_gpu_ms"),
        effective_gpu_ms=total("effective_gpu_ms"),
        inferred_ms=total("inferred_ms"),
        unattributed_ms=total("unattributed_ms"),
        unattributed_gpu_ms=unattributed_gpu_ms,
        untold_ms=total("untold_ms"),
        untold_gpu_ms=total("untold_gpu_ms"),
        stage_gpu_ms={s: total(f"{s.value}_gpu_ms") for s in Stage},
        stage_ms={s: total(f"{s.value}_ms") for s in Stage},
        lost_cost=None if pd.isna(cost) else float(cost),
        priced_gpu_ms=int(charges["priced_gpu_ms"].sum()),
    )


def _days(fleet: pd.DataFrame, charges: pd.DataFrame) -> pd.DataFrame:
    cost = charges.groupby("ds")["lost_cost"].sum(min_count=1)
    lost = fleet["held_gpu_ms"] - fleet["effective_gpu_ms"]
    return fleet.assign(lost_gpu_ms=lost, lost_cost=fleet["ds"].map(cost).astype("float64"))


def ranking(charges: pd.DataFrame) -> pd.DataFrame:
    """Sum charges by component and owner, the largest loss of GPU time first.

    Adds `share_ratio`, the source's part of the whole loss: of GPU time, or of wall time where no
    GPU was counted at all.
    """
    sums = charges.groupby(["component", "owner"], as_index=False).agg(
        lost_gpu_ms=("lost_gpu_ms", "sum"),
        lost_ms=("lost_ms", "sum"),
        priced_gpu_ms=("priced_gpu_ms", "sum"),
        lost_cost=("lost_cost", lambda costs: costs.sum(min_count=1)),
    )
    measure = "lost_gpu_ms" if sums["lost_gpu_ms"].sum() else "lost_ms"
    whole = sums[measure].sum()
    order = ["lost_gpu_ms", "lost_ms", "component", "owner"]
    ranked = sums.sort_values(order, ascending=[False, False, True, True], ignore_index=True)
    return ranked.assign(share_ratio=ranked[measure].astype("float64") / (whole or float("nan")))


_JOB_FACTS = [
    "ds", *JOB, "model", "team", "priority", "started_at", "ended_at", "attempt_count", "max_gpus",
    "outcome", "queue_wait_ms", "tts_ms", "interruption_count", "failure_count", "recovery_count",
    "lost_tail_ms", "hidden_ms", "is_censored", "is_presumed_dead", "is_clock_conflict",
    "wall_ms", "held_gpu_ms", "effective_ms", "effective_gpu_ms", "ett_ratio", "gpu_ett_ratio",
    "is_position_uncertain", "is_training_told", "sources",
]  # fmt: skip


def _jobs(published: Published, dates: list[date]) -> pd.DataFrame:
    """A row per job: facts of the whole job, and `shown_*` sums of the days shown."""
    facts = latest(published.read(tables.SCORECARD_JOB, _JOB_FACTS, dates), JOB)
    columns = [*JOB, "component", "stage", "duration_ms", "gpu_ms"]
    spent = published.read(tables.SCORECARD_JOB_COMPONENT, columns, dates)
    jobs = facts.merge(_stages_of_jobs(spent), on=JOB, how="left", validate="one_to_one")
    jobs = jobs.merge(_largest_losses(spent), on=JOB, how="left", validate="one_to_one")
    sums = [c for c in jobs.columns if c.startswith("shown_") and c.endswith("_ms")]
    jobs[sums] = jobs[sums].fillna(0)  # a job without any attempt holds nothing
    held = jobs["shown_effective_gpu_ms"] + jobs["shown_lost_gpu_ms"]
    is_told = jobs["is_training_told"].astype(bool)
    jobs["shown_gpu_ett_ratio"] = ratios(jobs["shown_effective_gpu_ms"], held).where(is_told)
    jobs["lost_tail_ms"] = jobs["lost_tail_ms"].where(is_told)
    jobs["untold_ms"] = jobs["wall_ms"].mask(is_told, 0)
    jobs["untold_gpu_ms"] = jobs["held_gpu_ms"].mask(is_told, 0)
    order = ["shown_lost_gpu_ms", "shown_lost_ms", *JOB]
    return jobs.sort_values(order, ascending=[False, False, True, True], ignore_index=True)


def _stages_of_jobs(spent: pd.DataFrame) -> pd.DataFrame:
    """Sum each job's stages; one `shown_<stage>_ms` and `_gpu_ms` column each, and the losses."""
    sums = spent.groupby([*JOB, "stage"])[["duration_ms", "gpu_ms"]].sum()
    out = pd.DataFrame(index=spent.groupby(JOB).size().index)
    for source, unit in (("duration_ms", "ms"), ("gpu_ms", "gpu_ms")):
        wide = sums[source].unstack("stage")
        for stage in Stage:
            column = wide[stage.value] if stage.value in wide else pd.Series(0, index=out.index)
            out[f"shown_{stage.value}_{unit}"] = column.fillna(0).astype("Int64")
        out[f"shown_lost_{unit}"] = sum(out[f"shown_{s.value}_{unit}"] for s in LOSS_STAGES)
    return out.reset_index()


def _largest_losses(spent: pd.DataFrame) -> pd.DataFrame:
    """The component that took most from each job."""
    lost = spent[spent["component"] != EFFECTIVE]
    sums = lost.groupby([*JOB, "component"], as_index=False)[["gpu_ms", "duration_ms"]].sum()
    ranked = sums.sort_values(
        ["gpu_ms", "duration_ms", "component"], ascending=[False, False, True]
    )
    first = ranked.drop_duplicates(JOB)
    return first[[*JOB, "component"]].rename(columns={"component": "shown_largest_loss"})


def _files(published: Published) -> tuple[pd.DataFrame, dict[str, int]]:
    """Files with rejects or a note (the worst first), and what became of all lines."""
    counts = ["line_count", "event_line_count", "reject_count", "ignored_count", "event_count"]
    files = published.read(tables.LOGBOOK_FILE, ["source", "source_file", *counts, "note"])
    lines = {"file_count": len(files)} | {name: int(files[name].sum()) for name in counts}
    odd = files[(files["reject_count"] > 0) | files["note"].notna()]
    worst = odd.sort_values(["reject_count", "source_file"], ascending=[False, True])
    lines["odd_file_count"] = len(worst)
    return worst.head(MOST_FILES).reset_index(drop=True), lines


def _rejects(published: Published) -> pd.DataFrame:
    table = tables.LOGBOOK_REJECT
    rejects = published.read(table, ["source_file", "source_line", "reason", "excerpt"])
    return rejects.sort_values(["source_file", "source_line"]).head(MOST_REJECTS)


def _joins(published: Published) -> tuple[pd.DataFrame, int]:
    """Names that a declared rule did not join, and how many; none where nobody declares rules."""
    columns = ["source", "source_file", "own_id", "cluster", "job_id", "reason"]
    joins = published.read_if_there(tables.LOGBOOK_JOIN, columns)
    unjoined = joins[joins["reason"].notna()].sort_values(["source_file", "own_id"])
    return unjoined.head(MOST_JOINS).reset_index(drop=True), len(unjoined)


def _disagreements(published: Published, dates: list[date]) -> int:
    table = tables.SCORECARD_DISAGREEMENT
    return int(published.read_if_there(table, ["difference_count"], dates).sum().iloc[0])
