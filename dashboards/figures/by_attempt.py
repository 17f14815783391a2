"""One job's life: a lane of coloured bars per attempt, recoveries and hidden work below."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import plotly.graph_objects as go

from dashboards import format as words
from dashboards.columns import Columns, plain
from dashboards.components import look
from dashboards.figures.text import plain as plain_text
from dashboards.theme import TEMPLATES, text_on
from pipelines.taxonomy import DEFAULT, REPEATED, Stage, Taxonomy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

MOST_BARS = 2_000  # beyond this a browser draws slowly, and a screen has no more pixels
MOST_LANES = 40
_SLICES = 1_000
_INTERRUPTION = "#C8102E"
_HATCH = {"shape": "/", "fillmode": "overlay", "fgcolor": "#ffffff", "size": 6, "solidity": 0.3}
_HOVER = "<b>%{fullData.name}</b><br>%{customdata}<extra></extra>"
_LABELLED = 24  # a bar of this part of the axis, or more of it, has room for a name
_CROWD = 40  # more marks than this would cover one another


class Bar(NamedTuple):
    """A stretch of one component on one lane; times in ms, UTC. `folded` rows were merged in it."""

    start: int
    ms: int
    folded: int
    lane: int
    component: str
    stage: str
    gpus: int
    is_inferred: bool
    cause: str | None

    @property
    def end(self) -> int:
        """The end, exclusive."""
        return self.start + self.ms

    @property
    def looks(self) -> tuple[Any, ...]:
        """What tells it apart from a neighbour: everything but the times."""
        return self[3:]


def attempts(
    intervals: pd.DataFrame,
    *,
    attempts: pd.DataFrame,
    recoveries: pd.DataFrame,
    interruptions: pd.DataFrame,
    hidden: pd.DataFrame,
    taxonomy: Taxonomy = DEFAULT,
) -> go.Figure:
    """Draw one job's attempts on a time axis. Every frame holds rows of that job only.

    `intervals`: `ledger__interval` (attempt, started_at, duration_ms, component, stage, gpus,
    is_inferred, cause); `attempts`: `timeline__attempt` (attempt, outcome, gpus, is_censored);
    `recoveries`: `scorecard__recovery` (started_at, ttr_ms); `interruptions`:
    `scorecard__interruption` (attempt, began_at, kind, cause, is_infrastructure); `hidden`: the
    rows of `timeline__phase` that took no wall time (component, started_at, duration_ms).

    `layout.meta.notes` says what was drawn merged; times are never left out.
    """
    spec = attempts_spec(
        plain(intervals.sort_values("started_at", kind="stable")),
        attempts=plain(attempts),
        recoveries=plain(recoveries),
        interruptions=plain(interruptions),
        hidden=plain(hidden.sort_values(["component", "started_at"], kind="stable")),
        taxonomy=taxonomy,
    )
    return go.Figure({**spec, "layout": {**spec["layout"], "template": TEMPLATES["light"]}})


def attempts_spec(
    intervals: Columns,
    *,
    attempts: Columns,
    recoveries: Columns,
    interruptions: Columns,
    hidden: Columns,
    taxonomy: Taxonomy = DEFAULT,
) -> dict[str, Any]:
    """The figure of `attempts` as plain Plotly data, from plain columns.

    `intervals` is in order of `started_at`, `hidden` in order of component and `started_at`.
    """
    numbers = _attempt_of_each(intervals["attempt"])
    lane_of, lanes = _lanes(numbers, attempts)
    bars, notes = _drawable(list(_bars(intervals, [lane_of[n] for n in numbers])), taxonomy)
    if len(lanes) < len(lane_of):
        notes.append(f"{len(lane_of):,} attempts share {len(lanes)} lanes, several to a lane.")
    span = _span(intervals)
    traces = [*_components(bars, span, taxonomy), *_interruptions(interruptions, lane_of)]
    for lane, trace in _lower_lanes(recoveries, hidden, len(lanes), span, taxonomy):
        lanes.append(lane)
        traces.append(trace)
    return {"data": traces, "layout": _layout(lanes, span, notes)}


@dataclass(frozen=True, slots=True)
class Lane:
    """The name of a lane, a second line for it, and a short name for narrow screens."""

    name: str
    more: str
    short: str

    @property
    def label(self) -> str:
        """Both lines, as Plotly's markup."""
        return f'{self.name}<br><span style="font-size:10px">{self.more}</span>'


def _span(intervals: Columns) -> list[int]:
    """The axis from the first begin to the last end, with a little room beside them."""
    begin = intervals["started_at"][0]
    end = intervals["started_at"][-1] + intervals["duration_ms"][-1]
    room = max((end - begin) // 100, 1)
    return [begin - room, end + room]


def _attempt_of_each(attempts: list[int | None]) -> list[int]:
    """The attempt of each row; a gap between attempts is drawn behind the one that it follows."""
    last = next((number for number in attempts if number is not None), 0)
    drawn = []
    for number in attempts:
        last = last if number is None else number
        drawn.append(last)
    return drawn


def _lanes(numbers: Iterable[int], attempts: Columns) -> tuple[dict[int, int], list[Lane]]:
    """The lane of each attempt, and the lanes; many attempts share lanes, in order."""
    present = sorted(set(numbers))
    facts = zip(attempts["gpus"], attempts["outcome"], attempts["is_censored"], strict=True)
    told = dict(zip(attempts["attempt"], facts, strict=True))
    share = -(-len(present) // MOST_LANES) if present else 1
    lane_of = {number: i // share for i, number in enumerate(present)}
    groups = [present[i : i + share] for i in range(0, len(present), share)]
    if share > 1:
        names = [f"{group[0]} to {group[-1]}" for group in groups]
        return lane_of, [Lane(f"attempts {name}", "", name) for name in names]
    return lane_of, [_lane(number, told.get(number)) for number in present]


def _lane(number: int, told: tuple[int, str, bool] | None) -> Lane:
    name, short = f"attempt {number}", f"#{number}"
    if told is None:
        return Lane(name, "", short)
    gpus, outcome, is_censored = told
    held = words.plural(gpus, "GPU") if gpus else "GPUs not said"
    ended = "running" if is_censored else plain_text(outcome.replace("_", " "))
    return Lane(name, f"{held}, {ended}", short)


def _bars(intervals: Columns, lanes: list[int]) -> Iterator[Bar]:
    names = ("component", "stage", "gpus", "is_inferred", "cause")
    times = (intervals["started_at"], intervals["duration_ms"], repeat(1))
    rows = zip(*times, lanes, *(intervals[n] for n in names), strict=False)  # `repeat` is endless
    return map(Bar._make, rows)


def _drawable(bars: list[Bar], taxonomy: Taxonomy) -> tuple[list[Bar], list[str]]:
    """Bars that a screen can show: neighbours that look alike are one; slivers are pooled."""
    joined = list(_joined(bars))
    if len(joined) <= MOST_BARS:
        return joined, []
    begin, end = min(b.start for b in joined), max(b.end for b in joined)
    width = max((end - begin) // _SLICES, 1)
    pooled = list(_pooled(joined, begin, width, taxonomy))
    count = sum(b.ms < width for b in joined)
    return pooled, [
        (
            f"{count:,} rows shorter than {words.duration(width)} are drawn pooled: within each "
            f"{words.duration(width)} their times are exact, their order is not. "
            "The table below lists rows one by one."
        )
    ]


def _joined(bars: Iterable[Bar]) -> Iterator[Bar]:
    last: Bar | None = None
    for bar in bars:
        if last and last.end == bar.start and last.looks == bar.looks:
            last = Bar(last.start, last.ms + bar.ms, last.folded + bar.folded, *bar.looks)
            continue
        if last:
            yield last
        last = bar
    if last:
        yield last


def _pooled(bars: list[Bar], begin: int, width: int, taxonomy: Taxonomy) -> Iterator[Bar]:
    """Runs of slivers inside one slice of the screen become one bar per component."""

    def slice_of(bar: Bar) -> tuple[int, ...]:
        if bar.ms >= width:
            return bar.lane, bar.start, -1
        return bar.lane, (bar.start - begin) // width, -2

    for _, group in groupby(bars, slice_of):
        yield from _one_each(list(group), taxonomy)


def _one_each(run: list[Bar], taxonomy: Taxonomy) -> Iterator[Bar]:
    """The same time, component by component in taxonomy order, from the run's start on."""
    if len(run) == 1:
        yield run[0]
        return
    at = run[0].start
    alike = sorted(run, key=lambda b: (look(b.component, taxonomy).order, b.component, b.stage))
    for _, group in groupby(alike, lambda b: (b.component, b.stage)):
        same = list(group)
        total = sum(b.ms for b in same)
        inferred = any(b.is_inferred for b in same)
        yield same[0]._replace(start=at, ms=total, is_inferred=inferred, folded=len(same))
        at += total


def _components(bars: list[Bar], span: list[int], taxonomy: Taxonomy) -> Iterator[dict[str, Any]]:
    of_component: dict[str, list[Bar]] = {}
    for bar in bars:
        of_component.setdefault(bar.component, []).append(bar)
    for key in sorted(of_component, key=lambda k: (look(k, taxonomy).order, k)):
        component, mine = look(key, taxonomy), of_component[key]
        name = plain_text(component.label, 40)
        trace = _bar_trace(name, _to_scale(component.colour))
        if key == REPEATED:
            trace["marker"]["pattern"] = _HATCH
        trace["base"] = [b.start for b in mine]
        trace["x"] = [b.ms for b in mine]
        trace["y"] = [b.lane for b in mine]
        trace["customdata"] = [_hover(b) for b in mine]
        if key != REPEATED:  # the hatching leaves no room for words
            trace |= _labels([name] * len(mine), trace["x"], span, component.colour)
        yield trace


def _labels(names: list[str], lasted: list[int], span: list[int], colour: str) -> dict[str, Any]:
    """Names inside the bars that are wide enough for one, so that few need the legend."""
    least = (span[1] - span[0]) / _LABELLED
    shown = [name if ms >= least else "" for name, ms in zip(names, lasted, strict=True)]
    if not any(shown):
        return {}
    return {
        "text": shown,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": text_on(colour), "size": 11},
    }


def _bar_trace(name: str, colour: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "width": 0.72,
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": _HOVER,
    }


def _to_scale(colour: str) -> str:
    """The colour, not quite opaque, so that a sliver is rounded to the pixel.

    Plotly widens opaque ones until they can be seen; many would then seem to be most of the time.
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.99)"


def _hover(bar: Bar) -> str:
    rows = f" · {bar.folded:,} rows" if bar.folded > 1 else ""
    said = _said(bar.stage, bar.gpus, bar.cause, bar.is_inferred)
    return _at(bar.start, f"{words.duration(bar.ms)} · {said}{rows}")


@lru_cache(10_000)  # a fleet's millions of bars say few different things
def _said(stage: str, gpus: int, cause: str | None, is_inferred: bool) -> str:  # noqa: FBT001 - a key of the cache
    parts = [Stage(stage).label.lower(), words.plural(gpus, "GPU")]
    if cause:
        parts.append(f"cause: {plain_text(cause)}")
    if is_inferred:
        parts.append("inferred")
    return " · ".join(parts)


def _at(ms: int, text: str) -> str:
    """The hover's lines: when, and what."""
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minute = divmod(minutes, 60)
    return f"{_day(hours // 24)} {hours % 24:02}:{minute:02}:{seconds:02} UTC<br>{text}"


@lru_cache(10_000)
def _day(days: int) -> str:
    """The day that is so many after the epoch, as ISO text."""
    return f"{datetime.fromtimestamp(86_400 * days, UTC):%Y-%m-%d}"


def _interruptions(told: Columns, lane_of: dict[int, int]) -> Iterator[dict[str, Any]]:
    names = ("attempt", "began_at", "kind", "cause", "is_infrastructure")
    struck = [row for row in zip(*(told[n] for n in names), strict=True) if row[0] in lane_of]
    if not struck:
        return
    yield {
        "type": "scatter",
        "mode": "markers",
        "name": "Interruption",
        "x": [began_at for _, began_at, *_ in struck],
        "y": [lane_of[attempt] - 0.46 for attempt, *_ in struck],
        "marker": {
            "symbol": "triangle-down",
            "size": 11 if len(struck) < _CROWD else 7,
            "color": _INTERRUPTION,
        },
        "customdata": [
            _at(
                began_at,
                f"{plain_text(cause.replace('_', ' '))} ({plain_text(kind)})"
                f"{', counted in NoF' if is_infrastructure else ''}",
            )
            for _, began_at, kind, cause, is_infrastructure in struck
        ],
        "hovertemplate": _HOVER,
    }


def _lower_lanes(
    recoveries: Columns, hidden: Columns, first: int, span: list[int], taxonomy: Taxonomy
) -> Iterator[tuple[Lane, dict[str, Any]]]:
    """Under the attempts: recoveries, then a lane per component that ran beside training."""
    lane = first
    began, lasted = recoveries["started_at"], recoveries["ttr_ms"]
    if lasted:
        trace = _bar_trace("Recovery", Stage.TIME_TO_RECOVER.colour)
        trace["customdata"] = [
            _at(at, f"{words.duration(ms)} to recover (TTR)")
            for at, ms in zip(began, lasted, strict=True)
        ]
        trace["showlegend"] = False  # its lane has a name
        said = [words.duration(ms) for ms in lasted]
        trace |= _labels(said, lasted, span, Stage.TIME_TO_RECOVER.colour)
        yield Lane("recoveries", "time to recover", "TTR"), _placed(trace, began, lasted, lane)
        lane += 1
    spans = zip(hidden["component"], hidden["started_at"], hidden["duration_ms"], strict=True)
    for key, same in groupby(spans, lambda span: span[0]):
        component = look(key, taxonomy)
        bars, _ = _drawable([_hidden_bar(lane, *span) for span in same], taxonomy)
        told = component.label.removesuffix(" (blocking)")  # these spans are the others
        name = f"{plain_text(told, 40)}, beside training"
        trace = _bar_trace(name, _to_scale(component.colour))
        trace["customdata"] = [
            _at(b.start, f"{words.duration(b.ms)}, took no wall time") for b in bars
        ]
        trace |= {"showlegend": False, "opacity": 0.55}
        label = Lane("hidden work", plain_text(told, 30), "hidden")
        yield label, _placed(trace, [b.start for b in bars], [b.ms for b in bars], lane)
        lane += 1


def _hidden_bar(lane: int, key: str, start: int, ms: int) -> Bar:
    return Bar(start, ms, 1, lane, key, Stage.WASTED_TRAINING, 0, is_inferred=False, cause=None)


def _placed(
    trace: dict[str, Any], starts: list[int], lasted: list[int], lane: int
) -> dict[str, Any]:
    return trace | {"base": starts, "x": lasted, "y": [lane] * len(lasted), "width": 0.42}


def _layout(lanes: list[Lane], span: list[int], notes: list[str]) -> dict[str, Any]:
    is_roomy = len(lanes) <= MOST_LANES // 3
    return {
        "barmode": "overlay",
        "hovermode": "closest",
        "dragmode": "zoom",
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "height": 110 + (40 if is_roomy else 22) * max(len(lanes), 1),
        "xaxis": {"type": "date", "range": span, "showgrid": True},
        "yaxis": {
            "tickvals": list(range(len(lanes))),
            "ticktext": [lane.label if is_roomy and lane.more else lane.name for lane in lanes],
            "range": [len(lanes) - 0.4, -0.75],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "meta": {"notes": notes, "short": [lane.short for lane in lanes]},
    }
