"""The static site: published tables in, a folder of pages out, whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from dashboards import sitedata
from dashboards.cube import read_cube
from dashboards.folder import MARKER, replaced
from dashboards.headline import coverage, headline, quality
from dashboards.jobs import details, read_jobs
from dashboards.period import days_shown, read_period
from dashboards.published import Published
from dashboards.scripts import write_data, write_pieces
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
    cube = read_cube(published, dates, period.jobs)
    places = write_pieces(
        folder, details(read_jobs(published, dates), period.jobs, taxonomy=taxonomy)
    )
    for name, value in sitedata.files(period, cube, places, title=title, taxonomy=taxonomy):
        write_data(folder, name, value)
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
