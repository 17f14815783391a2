"""The site as files: whole or not at all, complete, and nothing of a log is ever markup in it."""

from __future__ import annotations

import base64
import json
import os
import re
import time
import zlib
from html.parser import HTMLParser
from urllib.parse import unquote

import pandas as pd
import pytest

from dashboards import listings, pages
from dashboards.folder import KEPT_AT_LEAST, MARKER, replaced, versions
from dashboards.jobs import MOST_INTERVALS
from dashboards.packed import unpack
from dashboards.pages import write_site
from dashboards.period import read_period
from dashboards.published import Published
from dashboards.scripts import as_json
from pipelines import tables
from pipelines.errors import UsageError, WarehouseError
from tests.dashboards.fleet import HOSTILE, days, write_table, write_warehouse


class Page(HTMLParser):
    """What a browser would see: tags with their attributes, and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)

    def of(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def data_of(path):
    """(name, value) of a data file: one call with two JSON arguments, and nothing else."""
    call = re.fullmatch(r"ett\.put\((.*)\);\n", path.read_text("ascii"), re.DOTALL)
    return json.loads(f"[{call.group(1)}]")


def details_of(site):
    """The detail of every job by its id."""
    _, jobs = data_of(site / "data/jobs.js")
    where = unpack(jobs["packed"])
    places = zip(where["piece"].tolist(), where["place"].tolist(), strict=True)
    pieces = {}
    for piece in set(where["piece"].tolist()):
        deflated = data_of(site / f"jobs/{piece}.js")[1]
        pieces[piece] = json.loads(zlib.decompress(base64.b64decode(deflated)))
    return {
        job_id: pieces[piece][place]
        for job_id, (piece, place) in zip(jobs["job_id"], places, strict=True)
    }


@pytest.fixture(scope="module")
def page(site):
    return Page((site / "index.html").read_text("utf-8"))


def test_every_file_that_the_page_names_is_there(site, page):
    named = [a["src"] for a in page.of("script")] + [
        a["href"] for a in page.of("link") if a["rel"] == "stylesheet"
    ]
    assert len(named) > 10
    assert [name for name in named if not (site / name).is_file()] == []


def test_the_page_has_no_script_of_its_own_and_a_strict_policy(site, page):
    text = (site / "index.html").read_text("utf-8")
    assert all("src" in attrs for attrs in page.of("script"))
    assert not re.search(r"<script[^>]*>[^<]", text)
    assert not [a for _, attrs in page.tags for a in attrs if a.startswith("on")]
    policy = next(
        a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"


def test_nothing_is_loaded_from_a_network(site):
    for path in [site / "index.html", *(site / "assets").iterdir()]:
        assert not re.search(
            r"(src|href)=[\"']?(https?:)?//|@import|url\(\s*['\"]?http", path.read_text("utf-8")
        ), path


def test_the_page_says_what_was_lost_and_whose_it_is(page, published):
    text = " ".join("".join(page.text).split())
    first = read_period(published).ranking.iloc[0]
    assert f"owned by {first['owner']}" in text
    assert "Provisional, because a job of the day was still open: 2026-11-06" in text
    assert "Newer lines came in for 2026-11-02" in text
    assert "sail 0.7.2" in text


def test_data_files_hold_json_and_nothing_that_could_end_a_script(site):
    files = [p for name in ("data", "jobs", "cube", "attempts") for p in (site / name).iterdir()]
    names = [data_of(path)[0] for path in files]
    assert names == [path.relative_to(site).with_suffix("").as_posix() for path in files]
    assert [path for path in files if "<" in path.read_text("ascii").replace("\\u003c", "")] == []


def test_every_job_has_a_place_and_hostile_names_are_kept_as_they_are(site, published):
    found = details_of(site)
    jobs = read_period(published).jobs.set_index("job_id")
    assert len(found) == 40
    assert set(HOSTILE) <= set(found)
    for job_id, detail in found.items():
        assert detail["tables"]["facts"]["wall_ms"] == [jobs.loc[job_id, "wall_ms"]]


def test_hostile_text_is_escaped_where_plotly_would_read_it(site):
    figures = [detail["figure"] or {} for detail in details_of(site).values()]
    figures += data_of(site / "data/site.js")[1]["figures"].values()
    for figure in map(json.dumps, figures):
        assert not re.search(
            r"<(?!b>|/b>|br>|extra>|/extra>|span style=|/span>)", figure.replace('\\"', '"')
        )


def test_a_job_is_whole_to_the_millisecond(site):
    detail = details_of(site)["crash-loop"]
    intervals, facts = detail["tables"]["intervals"], detail["tables"]["facts"]
    assert sum(intervals["duration_ms"]) == facts["wall_ms"][0]
    assert sum(detail["tables"]["components"]["duration_ms"]) == facts["wall_ms"][0]
    assert len(detail["tables"]["recoveries"]["ttr_ms"]) == 109
    ends = [a + b for a, b in zip(intervals["started_at"], intervals["duration_ms"], strict=True)]
    assert ends[:-1] == intervals["started_at"][1:]


def test_a_huge_job_lists_its_longest_rows_and_says_so(site):
    detail = details_of(site)["step-by-step"]
    assert len(detail["tables"]["intervals"]["duration_ms"]) == MOST_INTERVALS
    assert "ledger__interval" in detail["left_out"][0]
    assert "drawn pooled" in detail["figure"]["layout"]["meta"]["notes"][0]


def test_listings_only_name_published_columns_or_sums_of_them():
    published = {column for table in tables.TABLES.values() for column in table.names}
    sums = {
        "share_ratio",
        "priced_gpu_ms",
        "note",
        "flags",
        "change_ratio",
        "lost_share_ratio",
        "last_ds",
    }
    sums |= {"length", "size"}  # what rows are grouped by
    quantiles = {"p50_ms", "p95_ms", "max_ms"}
    names = {f.name for listing in listings.LISTINGS.values() for f in listing.fields}
    assert {n for n in names - published - sums - quantiles if not n.startswith("shown_")} == set()


def test_the_summary_and_the_marker_say_what_was_written(warehouse, tmp_path):
    written = write_site(warehouse, tmp_path / "site", days=days()[1:3])
    assert written.days == tuple(days()[1:3])
    assert written.index.is_file()
    assert written.file_count == sum(p.is_file() for p in (tmp_path / "site").rglob("*"))
    marker = json.loads((tmp_path / "site" / MARKER).read_text())
    assert marker["days"] == ["2026-11-02", "2026-11-03"]


def test_the_old_site_is_kept_and_a_failed_one_changes_nothing(warehouse, tmp_path, monkeypatch):
    out = tmp_path / "site"
    write_site(warehouse, out, title="First")
    write_site(warehouse, out, title="Second")
    assert "Second" in (out / "index.html").read_text()
    (kept,) = versions(out)
    assert "First" in (kept / "index.html").read_text()

    def fails(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(pages, "_write_marker", fails)
    with pytest.raises(OSError, match="no space"):
        write_site(warehouse, out, title="Third")
    assert "Second" in (out / "index.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["site", "site.versions"]


def test_old_versions_go_after_a_while_but_the_last_few_stay(tmp_path):
    out = tmp_path / "site"
    for age_days in (90, 80, 70, 60, 50, 1):
        with replaced(out) as folder:
            (folder / MARKER).write_text("{}")
        written = time.time() - 86_400 * age_days
        os.utime(out / MARKER, (written, written))
    ages = [round((time.time() - (v / MARKER).stat().st_mtime) / 86_400) for v in versions(out)]
    assert ages == [50, 60, 70]
    assert len(ages) == KEPT_AT_LEAST


def test_a_folder_of_somebody_else_is_left_alone(warehouse, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="not a site of ettledger"):
        write_site(warehouse, tmp_path / "home")
    assert [p.name for p in tmp_path.rglob("*")] == ["home", "thesis.txt"]
    with pytest.raises(UsageError, match="is a file"):
        write_site(warehouse, tmp_path / "home/thesis.txt")


def test_swapping_works_where_the_system_cannot_exchange(warehouse, tmp_path, monkeypatch):
    monkeypatch.setattr("dashboards.folder._exchanged", lambda *_: False)
    for title in ("First", "Second"):
        write_site(warehouse, tmp_path / "site", title=title)
    assert "Second" in (tmp_path / "site/index.html").read_text()
    (kept,) = versions(tmp_path / "site")
    assert "First" in (kept / "index.html").read_text()


def test_a_warehouse_without_a_day_gives_a_page_that_says_so(tmp_path):
    table = tables.WAREHOUSE_PUBLICATION
    write_table(tmp_path / "warehouse", table, pd.DataFrame(columns=table.names))
    written = write_site(tmp_path / "warehouse", tmp_path / "site")
    assert (written.days, written.job_count) == ((), 0)
    assert "No day has been published yet" in written.index.read_text()


def test_a_missing_table_stops_the_site(tmp_path):
    (tmp_path / "warehouse").mkdir()
    with pytest.raises(WarehouseError, match="warehouse__publication"):
        write_site(tmp_path / "warehouse", tmp_path / "site")
    assert [p.name for p in tmp_path.iterdir()] == ["warehouse"]


def test_a_hostile_title_is_text(warehouse, tmp_path):
    written = write_site(warehouse, tmp_path / "site", title=HOSTILE[0], days=days()[:1])
    assert "<img" not in written.index.read_text()
    assert HOSTILE[0] in "".join(Page(written.index.read_text()).text)


def test_a_fleet_that_held_no_gpu_is_told_in_wall_hours(tmp_path):
    warehouse = write_warehouse(tmp_path / "warehouse")
    for table in (
        tables.SCORECARD_FLEET,
        tables.CHARGES_OWNER_COMPONENT,
        tables.SCORECARD_JOB_COMPONENT,
    ):
        zero_gpus(warehouse, table)
    text = " ".join(
        "".join(Page(write_site(warehouse, tmp_path / "site").index.read_text()).text).split()
    )
    assert "the share of the wall time that trained on new data" in text
    assert "GPU-hours were lost" not in text


def zero_gpus(warehouse, table):
    frame = Published(warehouse).read(table, table.names)
    for column in [c for c in frame.columns if c.endswith("gpu_ms")]:
        frame[column] = 0
    for column in {"gpu_ett_ratio", "lost_cost"} & set(frame.columns):
        frame[column] = None
    write_table(warehouse, table, frame)


def test_json_for_a_page_is_ascii_and_refuses_what_json_lacks():
    assert as_json({"a": "</script>\u2028é"}) == '{"a":"\\u003c/script>\\u2028\\u00e9"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(float("nan"))


def test_hostile_ids_survive_a_link():
    # The browser encodes with encodeURIComponent; what unquote undoes is what it undoes.
    assert unquote("%3Ca%3E%2Fb%23%26") == "<a>/b#&"
