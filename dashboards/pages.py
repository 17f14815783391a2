"""The static site: published tables in, a folder of pages out, whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from dashboards import listings
from dashboards.components import look
from dashboards.figures import days_spec, ranking_spec
from dashboards.folder import MARKER, replaced
from dashboards.headline import coverage, headline, quality
from dashboards.jobs import details, read_jobs
from dashboards.period import Period, days_shown, read_period
from dashboards.published import Published
from dashboards.scripts import write_data, write_pieces
from dashboards.theme import TEMPLATES
from pipelines.taxonomy import DEFAULT, Stage, Taxonomy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    import pandas as pd

_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class SiteSummary:
    """What was written: the page to open, and how much stands behind it."""

    index: Path
    days: tuple[date, ...]
    job_count: int
    file_count: int
    size_bytes: int


def write_site(
    warehouse: Path,
    out: Path,
    *,
    title: str = "Training fleet",
    days: Sequence[date] | None = None,
    taxonomy: Taxonomy = DEFAULT,
) -> SiteSummary:
    """Write the site of `warehouse` to the folder `out`, in one step; the old one is kept.

    `days` None means every published day. `taxonomy` gives labels, colours and the currency;
    owners and amounts are the published ones. Raises WarehouseError where the warehouse, a table
    or every day asked for is missing, UsageError where `out` holds something else.
    """
    published = Published(warehouse)
    publications = days_shown(published, days)
    out = Path(out).absolute()
    with replaced(out) as folder:
        _write_static(folder)
        if publications.empty:
            _write_nothing_published(folder, published, title)
            jobs = 0
        else:
            jobs = _write_fleet(folder, published, list(publications["ds"]), title, taxonomy)
        _write_marker(folder, publications)
        files = [p for p in folder.rglob("*") if p.is_file()]
        size = sum(p.stat().st_size for p in files)
    shown = tuple(publications["ds"])
    return SiteSummary(out / "index.html", shown, jobs, len(files), size)


def _write_static(folder: Path) -> None:
    shutil.copytree(_HERE / "assets", folder / "assets")
    (folder / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")


def _write_marker(folder: Path, publications: pd.DataFrame) -> None:
    """What the site is made of, for people and for the next run that replaces it."""
    made_of = {
        "days": [day.isoformat() for day in publications["ds"]],
        "as_of": sorted({moment.isoformat() for moment in publications["as_of"]}),
        "engine": sorted(set(publications["engine"])),
        "ettledger_version": sorted(set(publications["ettledger_version"])),
    }
    (folder / MARKER).write_text(json.dumps(made_of, indent=1) + "\n", encoding="utf-8")


def _write_nothing_published(folder: Path, published: Published, title: str) -> None:
    page = _TEMPLATES.get_template("nothing.html.jinja")
    html = page.render(title=title, warehouse=str(published.warehouse))
    (folder / "index.html").write_text(html, encoding="utf-8")


def _write_fleet(
    folder: Path, published: Published, dates: list[date], title: str, taxonomy: Taxonomy
) -> int:
    period = read_period(published, dates)
    book = read_jobs(published, dates)
    places = write_pieces(folder, details(book, period.jobs, taxonomy=taxonomy))
    write_data(folder, "data/site", _site(period, title, taxonomy))
    write_data(folder, "data/fleet", _fleet(period, taxonomy))
    write_data(folder, "data/jobs", _jobs(period, places))
    page = _TEMPLATES.get_template("fleet.html.jinja")
    html = page.render(
        title=title,
        head=headline(period, taxonomy),
        coverage=coverage(period),
        quality=quality(period),
        glossary=list(taxonomy),
        stages=list(Stage),
    )
    (folder / "index.html").write_text(html, encoding="utf-8")
    return len(period.jobs)


def _site(period: Period, title: str, taxonomy: Taxonomy) -> dict[str, Any]:
    """What every page needs: names, colours, tables' declarations, the figures' two themes."""
    seen = {*taxonomy.components, *period.ranking["component"]}
    components = {key: look(key, taxonomy) for key in sorted(seen)}
    return {
        "title": title,
        "currency": taxonomy.currency,
        "components": {
            key: {"label": c.label, "colour": c.colour, "definition": c.definition}
            for key, c in components.items()
        },
        "stages": {s.value: {"label": s.label, "colour": s.colour} for s in Stage},
        "listings": listings.described(),
        "themes": TEMPLATES,
    }


def _fleet(period: Period, taxonomy: Taxonomy) -> dict[str, Any]:
    return {
        "figures": {
            "days": days_spec(period.days),
            "ranking": ranking_spec(period.ranking, taxonomy=taxonomy),
        },
        "tables": {
            "days": {**listings.DAYS.columns(period.days), "note": _day_notes(period)},
            "ranking": listings.RANKING.columns(period.ranking),
            "files": listings.FILES.columns(period.files),
            "rejects": listings.REJECTS.columns(period.rejects),
        },
    }


def _day_notes(period: Period) -> list[list[str]]:
    is_open = period.days["is_provisional"].astype(bool).tolist()
    return [
        ["provisional"] * is_provisional + ["stale"] * (day in period.stale)
        for day, is_provisional in zip(period.days["ds"], is_open, strict=True)
    ]


def _jobs(period: Period, places: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """The jobs table, and in which piece and place each job's detail lies."""
    jobs = period.jobs
    table = listings.JOBS.columns(jobs)
    flags = {
        "is_censored": "running",
        "is_presumed_dead": "presumed dead",
        "is_clock_conflict": "clock conflict",
    }
    told = [[word for name, word in flags.items() if table[name][i]] for i in range(len(jobs))]
    return {"table": {**table, "flags": told}, "places": [places[i] for i in range(len(jobs))]}
