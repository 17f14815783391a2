"""Interruptions by cause: those of the infrastructure, and the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from dashboards.theme import TEMPLATES

if TYPE_CHECKING:
    import pandas as pd

_KINDS = (
    ("failure_count", "Caused by the infrastructure: a failure (NoF)", "#D55E00"),
    ("other_count", "Other causes", "#8a94a3"),
)


def causes(frame: pd.DataFrame) -> go.Figure:
    """Draw `causes_spec(frame)` as a figure in the light theme."""
    spec = causes_spec(frame)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def causes_spec(frame: pd.DataFrame) -> dict[str, Any]:
    """Stack the interruptions of each cause, most first, as plain Plotly data.

    `frame`: one row per interruption with `cause` and `is_infrastructure`.
    """
    counts = Counter(frame["cause"].tolist())
    order = sorted(counts, key=lambda cause: (-counts[cause], cause))
    is_infrastructure = frame["is_infrastructure"].astype(bool)
    counted = {
        "failure_count": Counter(frame.loc[is_infrastructure, "cause"].tolist()),
        "other_count": Counter(frame.loc[~is_infrastructure, "cause"].tolist()),
    }
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "meta": {"key": key},
            "x": [counted[key][cause] for cause in order],
            "y": [cause.replace("_", " ") for cause in order],
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": "%{x} · %{y}<extra></extra>",
        }
        for key, name, colour in _KINDS
    ]
    layout = {
        "height": height(len(order)),
        "barmode": "stack",
        "bargap": 0.3,
        "hovermode": "closest",
        "xaxis": {"title": {"text": "interruptions"}, "rangemode": "tozero", "fixedrange": True},
        "yaxis": {"type": "category", "autorange": "reversed", "fixedrange": True},
    }
    return {"data": traces if order else [], "layout": layout}


def height(rows: int) -> int:
    """Pixels that so many bars need."""
    return 30 * rows + 70
