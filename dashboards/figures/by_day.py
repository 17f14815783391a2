"""ETT% and losses by day: shares of the GPU time held, stacked by stage or by component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from dashboards import format as words
from dashboards.components import look
from dashboards.figures.text import plain as plain_text
from dashboards.period import known_ratio
from dashboards.theme import TEMPLATES, TEXT_ON_EFFECTIVE
from pipelines.taxonomy import DEFAULT, Component, Stage, Taxonomy

if TYPE_CHECKING:
    import pandas as pd

_DAY_MS = 86_400_000
_MOST_LABELS = 16  # more bars than this leave no room for a number in each
OTHER, OTHER_COLOUR = "other_gpu_ms", "#8a94a3"
_SPARSE = 3  # calendar days per published day from which on the gaps are left out


def days(frame: pd.DataFrame) -> go.Figure:
    """Draw `days_spec(frame)` as a figure in the light theme."""
    spec = days_spec(frame)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def days_spec(frame: pd.DataFrame) -> dict[str, Any]:
    """Stack each day's stages as shares of `held_gpu_ms`, as plain Plotly data.

    `frame`: one row per `ds`, in order, with `held_gpu_ms`, `effective_gpu_ms`, the
    `<stage>_gpu_ms` of the other stages, `untold_gpu_ms` and `is_provisional`. Days that held no
    GPU are left out.
    With a column `other_gpu_ms` the losses that the stages leave out are drawn in grey.
    """
    shown = frame[frame["held_gpu_ms"] > 0]
    labels = [day.isoformat() for day in shown["ds"]]
    held = shown["held_gpu_ms"].tolist()
    traces = [_stage(stage, shown, labels, held) for stage in Stage]
    if OTHER in shown:
        traces.append(_bars("other", "Other losses", OTHER_COLOUR, shown[OTHER], labels, held))
    provisional = [x for x, is_open in zip(labels, shown["is_provisional"], strict=True) if is_open]
    if provisional:
        traces.append(_provisional(provisional))
    layout = _layout(shown["ds"].tolist())
    untold_ms = int(shown["untold_gpu_ms"].sum())
    if untold_ms:
        layout["meta"]["notes"].append(untold_note(untold_ms))
    return {"data": traces, "layout": layout}


def untold_note(gpu_ms: int) -> str:
    """What a share of a day's GPU time leaves open."""
    return (
        f"Of {words.gpu_hours(gpu_ms)} GPU-hours no source tells of training: they are drawn with "
        "the losses, and what is green is the least that trained on new data."
    )


def stage_column(stage: Stage) -> str:
    """The published column of a stage's GPU time."""
    return f"{stage.value}_gpu_ms"


def _stage(stage: Stage, frame: pd.DataFrame, labels: list[str], held: list[int]) -> dict[str, Any]:
    spent = frame[stage_column(stage)]
    trace = _bars(stage.value, stage.label, stage.colour, spent, labels, held)
    if stage is Stage.EFFECTIVE and len(labels) <= _MOST_LABELS:
        told = zip(spent, frame["held_gpu_ms"], frame["untold_gpu_ms"], strict=True)
        trace |= {
            "text": [words.bounded(known_ratio(*day), day[2]) for day in told],
            "textposition": "inside",
            "insidetextanchor": "end",
            "textangle": 0,
            "textfont": {"color": TEXT_ON_EFFECTIVE, "size": 12},
        }
    return trace


def _bars(
    key: str, name: str, colour: str, spent: pd.Series, labels: list[str], held: list[int]
) -> dict[str, Any]:
    """One colour of the stack; `meta.key` is what a filter in the browser fills it by."""
    return {
        "type": "bar",
        "name": name,
        "meta": {"key": key},
        "x": labels,
        "y": [gpu_ms / all_of_it for gpu_ms, all_of_it in zip(spent, held, strict=True)],
        "customdata": [words.gpu_hours(gpu_ms) for gpu_ms in spent],
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": "%{y:.1%} · %{customdata} GPU-h",
    }


def _provisional(labels: list[str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "Provisional day",
        "meta": {"key": "provisional"},
        "x": labels,
        "y": [1.035] * len(labels),
        "marker": {"symbol": "diamond-open", "size": 8, "color": "#8a94a3"},
        "hovertemplate": "its figures may still change",
    }


def _layout(shown: list[Any]) -> dict[str, Any]:
    span = (shown[-1] - shown[0]).days + 1 if shown else 1
    is_sparse = span >= _SPARSE * len(shown)
    axis: dict[str, Any] = {"type": "category"} if is_sparse else {"type": "date"}
    if not is_sparse:
        axis |= {"tickformat": "%b %-d", "hoverformat": "%a %Y-%m-%d", "showgrid": False}
        axis |= {"dtick": _DAY_MS} if len(shown) <= _MOST_LABELS else {}
    return {
        "barmode": "stack",
        "bargap": 0.25,
        "uniformtext": {"minsize": 10, "mode": "hide"},
        "hovermode": "x unified",
        "height": 360,
        "xaxis": axis,
        "yaxis": {
            "title": {"text": "of the GPU time held"},
            "tickformat": ".0%",
            "range": [0, 1.07],
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
        },
        "meta": {
            "notes": ["Days between the ones shown have no published GPU time."]
            if is_sparse and len(shown) > 1
            else []
        },
    }


def losses(frame: pd.DataFrame, *, taxonomy: Taxonomy = DEFAULT) -> go.Figure:
    """Draw `losses_spec(frame)` as a figure in the light theme."""
    spec = losses_spec(frame, taxonomy=taxonomy)
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def losses_spec(frame: pd.DataFrame, *, taxonomy: Taxonomy = DEFAULT) -> dict[str, Any]:
    """Stack what each component took of the GPU time held, day by day, as plain Plotly data.

    `frame`: one row per (`ds`, `component`) with `lost_gpu_ms`, and the day's `held_gpu_ms` of all
    components. Days that held no GPU are left out.
    """
    shown = frame[frame["held_gpu_ms"] > 0].sort_values("ds")
    traces = []
    for component in sorted({look(k, taxonomy) for k in shown["component"]}, key=_order):
        mine = shown[shown["component"] == component.key]
        name, labels = plain_text(component.label, 40), [day.isoformat() for day in mine["ds"]]
        held = mine["held_gpu_ms"].tolist()
        spent = mine["lost_gpu_ms"]
        traces.append(_bars(component.key, name, component.colour, spent, labels, held))
    layout = _layout(sorted(shown["ds"].unique()))
    title = {"text": "of the GPU time held"}
    axis = {"title": title, "tickformat": "~%", "rangemode": "tozero"}
    return {"data": traces, "layout": layout | {"height": 320, "yaxis": axis}}


def _order(component: Component) -> tuple[int, str]:
    return component.order, component.key
