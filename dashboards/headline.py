"""The top of the first page in words: what was lost, to what, whose it is, and for which days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboards import format as words
from dashboards.components import look
from dashboards.period import Period, Totals, ratio
from pipelines.taxonomy import Stage, Taxonomy


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
    return {
        "by_gpu": bool(totals.held_gpu_ms),
        "ett": words.percent(totals.gpu_ett_ratio if totals.held_gpu_ms else totals.ett_ratio),
        "wall_ett": words.percent(totals.ett_ratio),
        "held": _amount(totals, totals.held_gpu_ms, totals.wall_ms),
        "effective": _amount(totals, totals.effective_gpu_ms, totals.effective_ms),
        "lost": _amount(totals, totals.lost_gpu_ms, totals.lost_ms),
        "cost": _cost(totals, taxonomy),
        "largest": _largest(period, taxonomy),
        "stages": [_stage(totals, stage) for stage in Stage],
        "jobs": words.plural(len(period.jobs), "job"),
        "running": int(period.jobs["is_censored"].sum()),
    }


def _amount(totals: Totals, gpu_ms: int, ms: int) -> str:
    """An amount in GPU-hours, or in hours where no GPU was counted at all."""
    if totals.held_gpu_ms:
        return f"{words.gpu_hours(gpu_ms)} GPU-hours"
    return f"{words.gpu_hours(ms)} hours"


def _cost(totals: Totals, taxonomy: Taxonomy) -> dict[str, str] | None:
    if totals.lost_cost is None:
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
        definition=component.definition,
        amount=_amount(period.totals, int(first["lost_gpu_ms"]), int(first["lost_ms"])),
        share=words.percent(first["share_ratio"]),
        colour=component.colour,
    )


def _stage(totals: Totals, stage: Stage) -> dict[str, Any]:
    by_gpu = bool(totals.held_gpu_ms)
    spent = totals.stage_gpu_ms if by_gpu else totals.stage_ms
    share = ratio(spent[stage], totals.held_gpu_ms if by_gpu else totals.wall_ms)
    return {
        "label": stage.label,
        "colour": stage.colour,
        "share": words.percent(share),
        "width": 0 if share is None else round(100 * share, 3),
        "amount": _amount(totals, totals.stage_gpu_ms[stage], totals.stage_ms[stage]),
    }


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
