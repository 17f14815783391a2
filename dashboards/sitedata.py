"""The data files of the site: what the browser gets, by the name that it loads each under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from dashboards import cube as cubes
from dashboards import figures, listings
from dashboards.components import look
from dashboards.figures.by_day import OTHER
from dashboards.figures.by_recovery import EDGES_MS, bins
from dashboards.theme import TEMPLATES
from pipelines.taxonomy import EFFECTIVE, Stage, Taxonomy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dashboards.cube import Cube
    from dashboards.period import Period


def files(
    period: Period,
    cube: Cube,
    places: Mapping[int, tuple[int, int]],
    *,
    title: str,
    taxonomy: Taxonomy,
) -> Iterator[tuple[str, Any]]:
    """Each file's name and value; `places` says where each job's detail lies."""
    rows = [(f"cube/{n}", piece) for n, piece in enumerate(cubes.packed_rows(cube))]
    yield from rows
    yield from ((f"attempts/{n}", piece) for n, piece in enumerate(cubes.packed_attempts(cube)))
    yield "data/jobs", cubes.packed_jobs(cube, places)
    yield "data/events", cubes.packed_events(cube)
    yield (
        "data/files",
        {
            "files": listings.FILES.columns(period.files),
            "rejects": listings.REJECTS.columns(period.rejects),
            "joins": listings.JOINS.columns(period.joins),
        },
    )
    yield "data/site", _site(period, cube, len(rows), title, taxonomy)


def _site(
    period: Period, cube: Cube, piece_count: int, title: str, taxonomy: Taxonomy
) -> dict[str, Any]:
    """What every page needs: names, colours, what the numbers count, tables, figures, themes."""
    seen = {*taxonomy.components, *cube.codes["component"]}
    components = {key: look(key, taxonomy) for key in sorted(seen)}
    return {
        "title": title,
        "currency": taxonomy.currency,
        "components": {
            key: {"label": c.label, "colour": c.colour, "definition": c.definition.replace("`", "")}
            for key, c in components.items()
        },
        "stages": {s.value: {"label": s.label, "colour": s.colour} for s in Stage},
        "listings": listings.described(),
        "themes": TEMPLATES,
        "figures": drawn(period, cube, taxonomy),
        "dims": {
            **cubes.dimensions(cube),
            "piece_count": piece_count,
            "ttr_edges": list(EDGES_MS),
            "ttr_bins": bins(),
            "provisional": _numbers(cube, period.publications.loc[_is_open(period), "ds"]),
            "stale": _numbers(cube, period.stale),
        },
    }


def _is_open(period: Period) -> pd.Series:
    return period.publications["is_provisional"].astype(bool)


def _numbers(cube: Cube, days: Any) -> list[int]:
    where = {day: number for number, day in enumerate(cube.dates)}
    return [where[day] for day in days]


def drawn(period: Period, cube: Cube, taxonomy: Taxonomy) -> dict[str, Any]:
    """The figures of the whole period. Under a filter the browser fills in other numbers."""
    return {
        "days": figures.days_spec(period.days.assign(**{OTHER: 0})),
        "losses": figures.losses_spec(losses_by_day(period, cube), taxonomy=taxonomy),
        "ranking": figures.ranking_spec(period.ranking, taxonomy=taxonomy),
        "recoveries": figures.recoveries_spec(cube.recoveries),
        "causes": figures.causes_spec(cube.interruptions),
        "spread": figures.spread_spec(spread_by_component(cube, taxonomy)),
    }


def losses_by_day(period: Period, cube: Cube) -> pd.DataFrame:
    """A row per day and component: `lost_gpu_ms`, and all that was held on the day."""
    named = cube.rows.merge(cube.codes["component"], left_on="code", right_index=True)
    lost = named[named["component"] != EFFECTIVE]
    sums = lost.groupby(["day", "component"], as_index=False).agg(lost_gpu_ms=("gpu_ms", "sum"))
    sums["ds"] = [cube.dates[day] for day in sums["day"]]
    return sums.merge(period.days[["ds", "held_gpu_ms"]], on="ds").drop(columns="day")


def spread_by_component(cube: Cube, taxonomy: Taxonomy) -> pd.DataFrame:
    """A row per component: the median and the 95th percentile of its time per attempt."""
    by_component = cube.attempts.astype({"duration_ms": "float64"}).groupby("component")
    median, high = (by_component["duration_ms"].quantile(share) for share in (0.5, 0.95))
    return pd.DataFrame(
        {
            "group": [look(key, taxonomy).label for key in median.index],
            "p50_ms": median.to_numpy(),
            "p95_ms": high.to_numpy(),
            "attempt_count": by_component.size().to_numpy(),
        }
    )
