"""The top of the first page in words: what was lost, to what, whose it is, and for which days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dashboards import format as words
from dashboards.components import look
from dashboards.period import LOSS_STAGES, Period, Totals, ratio
from pipelines.taxonomy import Stage, Taxonomy

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Loss:
    """The largest overhead source, ready to be read."""

    label: str
    owner: str
    definition: str
    amount: str
    share: str
    colour: str


def headline(period: Period, taxonomy: Taxonomy) -> dict[str, Any]:
    """Everything that the template's head needs, as words."""
    totals = period.totals
    told = _balance(totals)
    by_gpu = bool(totals.held_gpu_ms)
    unit = "GPU-hours" if by_gpu else "hours"
    return {
        "by_gpu": by_gpu,
        "ett": words.bounded(_ett(totals), _untold(totals), sign=""),
        "is_bound": bool(_untold(totals)) and not _is_unknown(totals),
        "is_unknown": _is_unknown(totals),
        "untold": _told_untold(period),
        "wall_ett": words.bounded(totals.ett_ratio, totals.untold_ms, "at least "),
        "held": f"{told.held} {unit}",
        "effective": f"{told.effective} {unit}",
        "lost": f"{told.lost} {unit}",
        "cost": _cost(totals, taxonomy),
        "largest": _largest(period, taxonomy),
        "stages": [] if _is_unknown(totals) else _stages(totals, told, unit),
        "sizeless": _told_sizeless(period.jobs) if totals.held_gpu_ms else None,
        "jobs": words.count(len(period.jobs)),
        "running": int(period.jobs["is_censored"].sum()),
    }


def _ett(totals: Totals) -> float | None:
    """By GPU time, or by wall time where no GPU was counted at all."""
    return totals.gpu_ett_ratio if totals.held_gpu_ms else totals.ett_ratio


def _untold(totals: Totals) -> int:
    """The time of jobs of whose training no source tells, in the measure of `_ett`."""
    return totals.untold_gpu_ms if totals.held_gpu_ms else totals.untold_ms


def _is_unknown(totals: Totals) -> bool:
    """Does no source tell of training at all?"""
    return bool(_untold(totals)) and _ett(totals) is None


def _amount(totals: Totals, gpu_ms: int, ms: int) -> str:
    """An amount in GPU-hours, or in hours where no GPU was counted at all."""
    if totals.held_gpu_ms:
        return f"{words.gpu_hours(gpu_ms)} GPU-hours"
    return f"{words.gpu_hours(ms)} hours"


def _cost(totals: Totals, taxonomy: Taxonomy) -> dict[str, str] | None:
    if totals.lost_cost is None or not totals.held_gpu_ms:
        return None
    share = ratio(totals.priced_gpu_ms, totals.lost_gpu_ms)
    is_whole = totals.priced_gpu_ms == totals.lost_gpu_ms
    note = "" if is_whole else f"for the {words.percent(share)} of the loss that has a price"
    return {"amount": words.money(totals.lost_cost, taxonomy.currency), "note": note}


def _largest(period: Period, taxonomy: Taxonomy) -> Loss | None:
    if period.ranking.empty:
        return None
    first = period.ranking.iloc[0]
    component = look(first["component"], taxonomy)
    return Loss(
        label=component.label,
        owner=first["owner"],
        definition=component.definition.replace("`", ""),
        amount=_amount(period.totals, int(first["lost_gpu_ms"]), int(first["lost_ms"])),
        share=words.percent(first["share_ratio"]),
        colour=component.colour,
    )


def _spent(totals: Totals) -> dict[Stage, int]:
    return totals.stage_gpu_ms if totals.held_gpu_ms else totals.stage_ms


def _balance(totals: Totals) -> words.Balance:
    spent = _spent(totals)
    return words.balance(spent[Stage.EFFECTIVE], [spent[s] for s in LOSS_STAGES])


def _stages(totals: Totals, told: words.Balance, unit: str) -> list[dict[str, Any]]:
    spent = _spent(totals)
    whole = sum(spent.values())
    losses = words.loss_shares(spent[Stage.EFFECTIVE], [spent[s] for s in LOSS_STAGES])
    share = words.bounded(_ett(totals), _untold(totals))
    effective = f"{'≥ ' if _untold(totals) else ''}{told.effective} {unit}"
    said = {Stage.EFFECTIVE: (share, effective)}
    hours = [f"{loss} {unit}" for loss in told.losses]
    said |= dict(zip(LOSS_STAGES, zip(losses, hours, strict=True), strict=True))
    return [
        {
            "label": stage.label,
            "colour": stage.colour,
            "share": said[stage][0],
            "width": round(100 * spent[stage] / whole, 3) if whole else 0,
            "amount": said[stage][1],
        }
        for stage in Stage
    ]


def _sizeless(jobs: pd.DataFrame) -> pd.Series:
    """The wall time, in ms, of each job with some of which no line says how many GPUs it held."""
    ms = jobs["shown_effective_ms"] + jobs["shown_lost_ms"]
    return ms[(jobs["max_gpus"] == 0) & (ms > 0)]


def _told_sizeless(jobs: pd.DataFrame) -> dict[str, str] | None:
    ms = _sizeless(jobs)
    if ms.empty:
        return None
    return {"jobs": words.plural(len(ms), "job"), "wall": words.duration(int(ms.sum()))}


def untold(jobs: pd.DataFrame) -> pd.DataFrame:
    """The jobs with time in the days shown of whose training no source tells."""
    has_time = jobs["shown_effective_ms"] + jobs["shown_lost_ms"] > 0
    return jobs[has_time & ~jobs["is_training_told"].astype(bool)]


def _told_untold(period: Period) -> dict[str, str] | None:
    totals = period.totals
    if not _untold(totals):
        return None
    amount = _amount(totals, totals.untold_gpu_ms, totals.untold_ms)
    return {"jobs": words.plural(len(untold(period.jobs)), "job"), "amount": amount}


def coverage(period: Period) -> dict[str, Any]:
    """Which days, as of when, by which engine and version, and which days may still change."""
    told = period.publications
    provisional = [day.isoformat() for day in told.loc[told["is_provisional"].astype(bool), "ds"]]
    moments = sorted(set(told["as_of"]))
    return {
        "first": told["ds"].iloc[0].isoformat(),
        "last": told["ds"].iloc[-1].isoformat(),
        "days": words.plural(len(told), "day"),
        "is_one_day": len(told) == 1,
        "provisional": provisional,
        "restated": [day.isoformat() for day in period.restated],
        "stale": [day.isoformat() for day in period.stale],
        "as_of": words.instant(moments[-1]),
        "oldest_as_of": words.instant(moments[0]) if len(moments) > 1 else None,
        "engines": sorted(set(told["engine"])),
        "versions": sorted(set(told["ettledger_version"])),
    }


def quality(period: Period) -> list[dict[str, str]]:
    """What the figures leave open, one entry each: the number, its name, and what it means."""
    totals, lines, jobs = period.totals, period.lines, period.jobs
    odd = lines["odd_file_count"]
    oddities = f" Something is odd about {words.plural(odd, 'file')}." if odd else ""
    return [
        {
            "value": words.percent(ratio(totals.unattributed_ms, totals.wall_ms)),
            "key": "unattributed",
            "name": "unattributed wall time",
            "meaning": f"Nobody's lines claim it: {words.duration(totals.unattributed_ms)}, "
            f"{words.gpu_hours(totals.unattributed_gpu_ms)} GPU-hours. "
            "Log the phase that runs then.",
        },
        {
            "value": words.percent(ratio(totals.inferred_ms, totals.wall_ms)),
            "key": "inferred",
            "name": "inferred wall time",
            "meaning": f"Concluded by a rule, not told by a line: "
            f"{words.duration(totals.inferred_ms)}. Log its begin and end to be sure of it.",
        },
        {
            "value": words.count(len(_sizeless(jobs))),
            "key": "sizeless",
            "name": "jobs of unknown size",
            "meaning": "No line says how many GPUs they held: they count by wall time, and not "
            "in any GPU-hours. Log gpus with attempt_started.",
        },
        {
            "value": words.count(len(untold(jobs))),
            "key": "untold",
            "name": "jobs of whose training no source tells",
            "meaning": "Their ETT% is unknown, and that of any sum with them a lower bound. "
            "Add their trainers' logs.",
        },
        {
            "value": words.count(int(jobs["is_position_uncertain"].sum())),
            "key": "uncertain",
            "name": "jobs with an uncertain position",
            "meaning": "Their world size changed and only steps are counted: what was trained "
            "again is an estimate. Log samples beside steps.",
        },
        {
            "value": words.count(period.disagreements),
            "key": "disagreements",
            "name": "disagreements between sources",
            "meaning": "The stronger source was believed; the page of a job says what the other "
            "one said.",
        },
        {
            "value": words.count(lines["unjoined_count"]),
            "key": "unjoined",
            "name": "names that did not join",
            "meaning": "In the whole warehouse: they are jobs of their own, without what other "
            "sources say of them. The list below has the reasons.",
        },
        {
            "value": words.count(int(jobs["is_censored"].sum())),
            "key": "running",
            "name": "jobs still running",
            "meaning": "Their figures are cut at the moment of the computation and will grow.",
        },
        {
            "value": words.count(int(jobs["is_presumed_dead"].sum())),
            "key": "dead",
            "name": "jobs presumed dead",
            "meaning": "They fell silent and told no end; their last event was taken for it.",
        },
        {
            "value": words.count(int(jobs["is_clock_conflict"].sum())),
            "key": "clock",
            "name": "jobs with clock conflicts",
            "meaning": "An attempt started before the one before it ended; that one was cut.",
        },
        {
            "value": words.count(lines["reject_count"]),
            "key": "rejects",
            "name": "rejected lines",
            "meaning": f"Of {words.count(lines['line_count'])} lines in "
            f"{words.plural(lines['file_count'], 'file')}: "
            f"{words.count(lines['event_line_count'])} told something, "
            f"{words.count(lines['ignored_count'])} were ignored.{oddities}",
        },
    ]
