"""Overhead sources ranked by the GPU time they took, in their components' colours, with owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from dashboards import format as words
from dashboards.columns import plain
from dashboards.components import look
from dashboards.figures.text import plain as plain_text
from dashboards.theme import TEMPLATES
from pipelines.taxonomy import DEFAULT, Taxonomy

if TYPE_CHECKING:
    import pandas as pd

MOST_BARS = 18
_HOUR_MS = 3_600_000


def ranking(frame: pd.DataFrame, *, taxonomy: Taxonomy = DEFAULT) -> go.Figure:
    """Draw `ranking_spec(frame)` as a figure in the light theme."""
    spec = ranking_spec(frame, taxonomy=taxonomy)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def ranking_spec(frame: pd.DataFrame, *, taxonomy: Taxonomy = DEFAULT) -> dict[str, Any]:
    """Draw one bar per overhead source, the largest first, as plain Plotly data.

    `frame`: one row per (`component`, `owner`), largest first, with `lost_gpu_ms`, `lost_ms`,
    `lost_cost` (null without a price) and `share_ratio`. Bars are GPU-hours; where no GPU was
    counted at all, wall hours. The smallest are drawn together beyond `MOST_BARS`.
    """
    measure, unit = ("lost_gpu_ms", "GPU-h") if frame["lost_gpu_ms"].sum() else ("lost_ms", "h")
    ranked = frame[frame[measure] > 0]
    columns = plain(ranked)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    bars = [_bar(row, measure, unit, taxonomy) for row in rows]
    if len(bars) > MOST_BARS:
        bars = [*bars[: MOST_BARS - 1], _rest(bars[MOST_BARS - 1 :], unit)]
    return {"data": [_bars(bars), _names(bars)] if bars else [], "layout": _layout(bars, unit)}


def _bar(row: dict[str, Any], measure: str, unit: str, taxonomy: Taxonomy) -> dict[str, Any]:
    component = look(row["component"], taxonomy)
    hours = words.gpu_hours(row[measure])
    cost = row["lost_cost"]
    priced = [] if cost is None else [words.money(cost, taxonomy.currency)]
    text = " · ".join([f"{hours} {unit}", words.percent(row["share_ratio"])])
    return {
        "hours": row[measure] / _HOUR_MS,
        "share": row["share_ratio"],
        "name": f"<b>{plain_text(component.label, 40)}</b>  {plain_text(row['owner'], 30)}",
        "colour": component.colour,
        "text": text,
        "hover": "<br>".join([f"owner: {plain_text(row['owner'])}", text, *priced]),
    }


def _rest(bars: list[dict[str, Any]], unit: str) -> dict[str, Any]:
    hours, share = sum(b["hours"] for b in bars), sum(b["share"] for b in bars)
    text = f"{words.gpu_hours(hours * _HOUR_MS)} {unit} · {words.percent(share)}"
    name = f"<b>{len(bars)} smaller sources</b>  see the table"
    return {"hours": hours, "name": name, "colour": "#8a94a3", "text": text, "hover": text}


def _bars(bars: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [b["hours"] for b in bars],
        "y": list(range(len(bars))),
        "width": 0.38,
        "offset": 0.02,
        "marker": {"color": [b["colour"] for b in bars]},
        "text": [b["text"] for b in bars],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [[b["name"], b["hover"]] for b in bars],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    }


def _names(bars: list[dict[str, Any]]) -> dict[str, Any]:
    """The names stand above their bars: there they fit on a telephone too."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": [0] * len(bars),
        "y": [i - 0.2 for i in range(len(bars))],
        "text": [b["name"] for b in bars],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _layout(bars: list[dict[str, Any]], unit: str) -> dict[str, Any]:
    longest = max((b["hours"] for b in bars), default=1)
    return {
        "height": 46 * len(bars) + 60,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": f"{unit} lost"},
            "range": [0, 1.6 * longest],
            "fixedrange": True,
        },
        "yaxis": {
            "range": [len(bars) - 0.4, -0.6],
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    }
