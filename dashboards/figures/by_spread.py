"""How a component's time per attempt spreads: from the median to the 95th percentile, by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from dashboards import format as words
from dashboards.figures.text import plain as plain_text
from dashboards.theme import TEMPLATES

if TYPE_CHECKING:
    import pandas as pd

MOST_GROUPS = 20
_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_UNITS = ((_SECOND, "s"), (_MINUTE, "m"), (_HOUR, "h"))
_TICKS = [(n * ms, f"{n} {unit}") for ms, unit in _UNITS for n in (1, 3, 10, 30)]


def spread(frame: pd.DataFrame, *, colour: str = "#0072B2") -> go.Figure:
    """Draw `spread_spec(frame)` as a figure in the light theme."""
    spec = spread_spec(frame, colour=colour)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def spread_spec(frame: pd.DataFrame, *, colour: str = "#0072B2") -> dict[str, Any]:
    """Draw a line from `p50_ms` to `p95_ms` for each of the first groups, as plain Plotly data.

    `frame`: one row per `group` (its name), with `p50_ms`, `p95_ms` and `attempt_count`.
    """
    shown = frame[frame["p95_ms"] > 0].head(MOST_GROUPS)
    rows = shown[["group", "p50_ms", "p95_ms", "attempt_count"]].values.tolist()
    names = [plain_text(str(group), 48) for group, *_ in rows]
    line: list[float | None] = [x for _, p50, p95, _ in rows for x in (p50, p95, None)]
    at = [y for y in range(len(rows)) for _ in range(3)]
    hover = [f"{n:,.0f} attempts" for *_, n in rows]
    traces = [
        {
            "type": "scatter", "mode": "lines", "meta": {"key": "line"}, "showlegend": False,
            "x": line, "y": at, "line": {"color": colour, "width": 6}, "hoverinfo": "skip",
        },
        _marks("p50_ms", "p50: half take longer", "circle", colour, [r[1] for r in rows], hover),
        _marks("p95_ms", "p95: one in twenty takes longer", "diamond", colour,
               [r[2] for r in rows], hover),
    ]  # fmt: skip
    layout = {
        "height": 100 + 30 * len(rows),
        "hovermode": "closest",
        "xaxis": {
            "type": "log",
            "tickvals": [ms for ms, _ in _TICKS],
            "ticktext": [t for _, t in _TICKS],
            "title": {"text": "time per attempt, logarithmic"},
        },
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": names,
            "range": [len(rows) - 0.4, -0.6],
            "zeroline": False,
            "fixedrange": True,
        },
    }
    return {"data": traces if rows else [], "layout": layout}


def _marks(
    key: str, name: str, symbol: str, colour: str, values: list[float], hover: list[str]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "meta": {"key": key},
        "x": values,
        "y": list(range(len(values))),
        "customdata": [f"{words.duration(v)} · {h}" for v, h in zip(values, hover, strict=True)],
        "marker": {"symbol": symbol, "size": 11, "color": colour},
        "hovertemplate": "%{fullData.name}<br>%{customdata}<extra></extra>",
    }
