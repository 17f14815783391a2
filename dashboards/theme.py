"""The look of every figure: one Plotly template for light and one for dark."""

from __future__ import annotations

from typing import Any

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', "
    "Arial, sans-serif"
)
TEXT_ON_EFFECTIVE = "#04231a"  # readable on the colour of effective time, light or dark

_LIGHT = {
    "surface": "#ffffff",
    "text": "#1c2430",
    "muted": "#566173",
    "grid": "#e3e7ee",
}
_DARK = {
    "surface": "#171d26",
    "text": "#e6eaf0",
    "muted": "#a3aebd",
    "grid": "#2c3542",
}


def _template(ink: dict[str, str]) -> dict[str, Any]:
    axis = {
        "gridcolor": ink["grid"],
        "linecolor": ink["grid"],
        "zerolinecolor": ink["grid"],
        "tickfont": {"color": ink["muted"]},
        "title": {"font": {"color": ink["muted"]}},
        "automargin": True,
        "ticks": "",
    }
    # On a dark page a dark colour keeps its edge.
    outline = {"color": ink["muted"], "width": 1 if ink is _DARK else 0}
    return {
        "data": {"bar": [{"marker": {"line": outline}}]},
        "layout": {
            "font": {"family": FONT, "size": 12, "color": ink["text"]},
            "paper_bgcolor": ink["surface"],
            "plot_bgcolor": ink["surface"],
            "hoverlabel": {
                "bgcolor": ink["surface"],
                "bordercolor": ink["muted"],
                "font": {"family": FONT, "size": 12, "color": ink["text"]},
            },
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "yref": "paper"},
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": ink["muted"]},
            "xaxis": axis,
            "yaxis": axis,
        },
    }


TEMPLATES: dict[str, dict[str, Any]] = {"light": _template(_LIGHT), "dark": _template(_DARK)}
