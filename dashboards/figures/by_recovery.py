"""How long recoveries took: their number by length, in bins that widen with it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from dashboards import format as words
from dashboards.figures.text import plain as plain_text
from dashboards.theme import TEMPLATES
from pipelines.taxonomy import Stage

if TYPE_CHECKING:
    import pandas as pd

_MINUTE = 60_000
EDGES_MS = tuple(m * _MINUTE for m in (1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 240, 480, 1440))


def bins() -> list[str]:
    """The name of each bin: below the first edge, between two, and from the last on.

    >>> bins()[:3], bins()[-3:]
    (['<1 m', '1-2 m', '2-5 m'], ['4-8 h', '8-24 h', '>24 h'])
    """

    def between(begin: int, end: int) -> str:
        unit, size = ("m", _MINUTE) if begin < 60 * _MINUTE else ("h", 60 * _MINUTE)
        return f"{begin // size}-{end // size} {unit}"

    return ["<1 m", *(between(a, b) for a, b in pairwise(EDGES_MS)), ">24 h"]


def recoveries(frame: pd.DataFrame) -> go.Figure:
    """Draw `recoveries_spec(frame)` as a figure in the light theme."""
    spec = recoveries_spec(frame)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def recoveries_spec(frame: pd.DataFrame) -> dict[str, Any]:
    """Count recoveries by their `ttr_ms`, as plain Plotly data. `frame`: one row per recovery."""
    place = np.searchsorted(EDGES_MS, frame["ttr_ms"].to_numpy("int64"), side="right")
    counts = np.bincount(place, minlength=len(EDGES_MS) + 1).tolist()
    names = [plain_text(name) for name in bins()]
    trace = {
        "type": "bar",
        "name": "Recoveries",
        "showlegend": False,
        "meta": {"key": "count"},
        "x": [name.removesuffix(" m") for name in names],
        "y": counts,
        "text": [words.count(n) if n else "" for n in counts],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": Stage.TIME_TO_RECOVER.colour, "line": {"width": 0}},
        "customdata": names,
        "hovertemplate": "%{y} recoveries took %{customdata}<extra></extra>",
    }
    layout = {
        "height": 300,
        "bargap": 0.15,
        "hovermode": "closest",
        "xaxis": {
            "type": "category",
            "fixedrange": True,
            "tickangle": -45,
            "title": {"text": "time to recover: minutes, from 1 h on hours"},
        },
        "yaxis": {"title": {"text": "recoveries"}, "rangemode": "tozero", "fixedrange": True},
        "margin": {"l": 8, "r": 8, "t": 24, "b": 8},
    }
    return {"data": [trace] if sum(counts) else [], "layout": layout}
