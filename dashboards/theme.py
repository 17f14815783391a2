"""The look of every figure: one Plotly template for light and one for dark."""

from __future__ import annotations

from typing import Any

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', "
    "Arial, sans-serif"
)
TEXT_ON_EFFECTIVE = "#04231a"  # readable on the colour of effective time, light or dark
_INK, _PAPER = "#10161e", "#ffffff"

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
        "separatethousands": True,
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
            # Unseen ticks hold names and numbers off the bars.
            "yaxis": axis | {"ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"},
        },
    }


def text_on(colour: str) -> str:
    """The colour of words on a bar of `colour` (`#rrggbb`): dark or white, what stands out more.

    >>> text_on("#F0E442"), text_on("#004B9B")
    ('#10161e', '#ffffff')
    """
    light = _luminance(colour)
    on_white = 1.05 / (light + 0.05)
    return _PAPER if on_white > (light + 0.05) / (_luminance(_INK) + 0.05) else _INK


def _luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.1)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - of sRGB
        for c in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


TEMPLATES: dict[str, dict[str, Any]] = {"light": _template(_LIGHT), "dark": _template(_DARK)}
