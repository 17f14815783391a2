"""Who told of the jobs: where no source tells of training, ETT is unknown and sums are bounds."""

from __future__ import annotations

import re
import shutil

import pytest
from deltalake import write_deltalake

from dashboards import figures
from dashboards import format as words
from dashboards.headline import headline, quality
from dashboards.jobs import details, read_jobs
from dashboards.pages import write_site
from dashboards.period import known_ratio, read_period
from dashboards.published import Published
from pipelines import tables
from pipelines.errors import WarehouseError
from pipelines.taxonomy import DEFAULT
from tests.dashboards.fleet import HOSTILE, days, write_warehouse
from tests.dashboards.test_browser import DRAWN, JOB_DRAWN, complaints, text
from tests.dashboards.test_filters import choose, csv_rows

UNTOLD = ("llm-405b-pretrain", "no-gpus-said", "never-trained")
BOUNDS = [
    ([0.382, 0], "38.2%"),
    ([0.382, 5], "≥ 38.2%"),
    ([0.382, 5, "at least "], "at least 38.2%"),
    ([0.0001, 5], "≥ 0%"),
    ([0.9999, 5], "≥ 99.9%"),
    ([1, 0], "100%"),
    ([None, 5], "—"),
]


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """A warehouse where of three jobs only a scheduler speaks."""
    folder = tmp_path_factory.mktemp("partly") / "warehouse"
    return Published(write_warehouse(folder, is_told=lambda job_id: job_id not in UNTOLD))


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """A warehouse where only a scheduler speaks of any job."""
    folder = tmp_path_factory.mktemp("silent") / "warehouse"
    return Published(write_warehouse(folder, is_told=lambda _: False))


@pytest.fixture(scope="module")
def pages(partly, silent, tmp_path_factory):
    """The folders of both sites."""
    out = tmp_path_factory.mktemp("sites")
    return {
        name: write_site(published.warehouse, out / name).index.parent
        for name, published in (("partly", partly), ("silent", silent))
    }


@pytest.fixture
def at(browser, pages):
    """Opens a page of a site by its hash."""

    def go(site, hash_="#fleet", width=1440):
        browser.look(width)
        browser.open("about:blank")
        browser.open(f"file://{pages[site]}/index.html{hash_}")
        browser.until(JOB_DRAWN if hash_.startswith("#job=") else DRAWN)
        return browser

    return go


def details_of(published):
    """The details of all jobs by job id."""
    jobs = read_period(published).jobs
    return {jobs["job_id"][i]: d for i, d in details(read_jobs(published, days()), jobs)}


@pytest.mark.parametrize(
    ("part", "whole", "untold", "share"),
    [(30, 100, 0, 0.3), (30, 100, 20, 0.3), (0, 100, 100, None), (0, 0, 0, None)],
)
def test_a_ratio_is_null_where_all_is_untold(part, whole, untold, share):
    assert known_ratio(part, whole, untold) == share


@pytest.mark.parametrize(("arguments", "said"), BOUNDS)
def test_a_bound_says_that_it_is_one(arguments, said):
    assert words.bounded(*arguments) == said


def test_the_untold_time_of_the_days_is_that_of_the_jobs(partly):
    period = read_period(partly)
    untold = period.jobs[~period.jobs["is_training_told"]]
    held = untold["shown_effective_gpu_ms"] + untold["shown_lost_gpu_ms"]
    assert set(untold["job_id"]) == set(UNTOLD)
    assert period.totals.untold_gpu_ms == held.sum() > 0
    assert period.totals.untold_ms == untold["untold_ms"].sum()
    assert untold["shown_gpu_ett_ratio"].isna().all()
    assert untold["gpu_ett_ratio"].isna().all()


def test_the_headline_is_a_bound_or_unknown(partly, silent, published):
    part, none, whole = (headline(read_period(p), DEFAULT) for p in (partly, silent, published))
    assert part["is_bound"]
    assert part["untold"]["jobs"] == "3 jobs"
    assert part["wall_ett"].startswith("at least ")
    assert part["stages"][0]["share"] == f"≥ {part['ett']}"
    assert none["is_unknown"]
    assert (none["ett"], none["wall_ett"], none["stages"]) == ("—", "—", [])
    assert none["untold"]["jobs"] == "40 jobs"
    assert not whole["is_bound"]
    assert whole["untold"] is None


def test_quality_counts_what_sources_leave_open(partly):
    told = {q["key"]: q["value"] for q in quality(read_period(partly))}
    counts = {key: told[key] for key in ("untold", "uncertain", "disagreements", "unjoined")}
    assert counts == {"untold": "3", "uncertain": "1", "disagreements": "4", "unjoined": "1"}
    assert read_period(partly).joins["own_id"].tolist() == [HOSTILE[1]]


def test_disagreements_of_days_that_are_not_shown_do_not_count(partly):
    assert read_period(partly, days()[:2]).disagreements == 1


def test_a_job_lists_its_sources_once_and_what_they_said_otherwise(partly):
    told = details_of(partly)["llm-405b-pretrain"]["tables"]
    assert told["facts"]["sources"] == ["slurm"]
    assert told["sources"]["source"] == ["slurm"]
    assert told["sources"]["event_count"] == [6 * 7]  # seven on each of its days
    assert told["sources"]["told"] == ["attempt_started, job_submitted"]
    disputed = told["disagreements"]
    assert disputed["field"] == ["gpus", "started_at"]
    assert disputed["difference_count"] == [1, 3]
    assert disputed["largest_difference_ms"] == [None, 95_000]


def test_of_an_untold_job_nothing_is_nought(partly):
    detail = details_of(partly)["never-trained"]
    assert not detail["is_told"]
    assert detail["tables"]["attempts"]["ett_ratio"] == [None]
    assert detail["tables"]["attempts"]["repeated_ms"] == [None]
    assert detail["tables"]["facts"]["lost_tail_ms"] == [None]
    assert detail["notes"] == ["ETT is unknown: only slurm speaks of it; add the trainer's log."]


def test_an_uncertain_position_is_said(partly):
    assert details_of(partly)["crash-loop"]["notes"] == [
        "Its world size changed and only steps are counted: what was trained again is an estimate."
    ]


def test_the_days_of_a_chart_are_bounds_too(partly, silent):
    spec = figures.days_spec(read_period(partly).days)
    said = spec["data"][0]["text"]
    assert [share[0] for share in said] == ["≥"] * 5 + ["—"]  # on the last day one job is left
    assert "no source tells of training" in spec["layout"]["meta"]["notes"][0]
    assert set(figures.days_spec(read_period(silent).days)["data"][0]["text"]) == {"—"}


def test_a_warehouse_without_the_newer_tables_has_a_site_without_them(partly, tmp_path):
    older = shutil.copytree(partly.warehouse, tmp_path / "warehouse")
    for table in (tables.SCORECARD_JOB_SOURCE, tables.SCORECARD_DISAGREEMENT, tables.LOGBOOK_JOIN):
        shutil.rmtree(older / table.name)
    assert write_site(older, tmp_path / "site").job_count == 40
    detail = details_of(Published(older))["llm-405b-pretrain"]
    assert detail["tables"]["sources"]["source"] == []
    assert detail["tables"]["disagreements"]["field"] == []


def test_a_warehouse_without_the_newer_columns_says_what_to_do(partly, tmp_path):
    older = shutil.copytree(partly.warehouse, tmp_path / "warehouse")
    table = tables.SCORECARD_FLEET
    frame = partly.read(table, table.names).drop(columns=["untold_ms"])
    shutil.rmtree(older / table.name)
    write_deltalake(str(older / table.name), frame, partition_by=["ds"])
    with pytest.raises(
        WarehouseError, match=r"no column untold_ms: an older version.*fresh folder"
    ):
        write_site(older, tmp_path / "site")


def test_the_top_is_a_bound_as_long_as_a_filter_keeps_an_untold_job(at, partly):
    page, period = at("partly"), read_period(partly)
    ett = page.run("return ett.format.percent(arguments[0])", period.totals.gpu_ett_ratio)
    hours = page.run("return ett.format.gpuHours(arguments[0])", period.totals.untold_gpu_ms)
    assert text(page, "#head-big") == f"at least {ett}"
    assert text(page, "#head-untold").startswith(f"Of 3 jobs, with {hours} GPU-hours, no source")
    assert "at least " in text(page, "#head-lead")
    assert text(page, "[data-quality=untold] strong") == "3"
    assert text(page, "[data-quality=disagreements] strong") == "4"
    choose(page, "team", "ads")
    assert text(page, "#head-big").startswith(tuple("0123456789"))
    assert not page.run("return document.getElementById('head-untold').checkVisibility()")
    assert "at least" not in text(page, "#head-lead")
    for key, value in (
        ("untold", "0"),
        ("uncertain", "1"),
        ("disagreements", "0"),
        ("unjoined", "1"),
    ):
        assert text(page, f"[data-quality={key}] strong") == value


def test_days_outside_a_filter_do_not_count_as_disagreed(at):
    page = at("partly", "#fleet&to=2026-11-03")
    assert text(page, "[data-quality=disagreements] strong") == "2"


def test_sums_over_jobs_are_bounds_and_an_untold_job_is_unknown(at, partly):
    page = at("partly")
    jobs = {row["job_id"]: row for row in csv_rows(page, "jobs")}
    unknown = {job_id for job_id, row in jobs.items() if row["is_training_told"] == "false"}
    assert unknown == set(UNTOLD)
    assert {jobs[job_id]["shown_gpu_ett_ratio"] for job_id in unknown} == {""}
    assert sum(float(row["shown_untold_gpu_ms"]) for row in jobs.values()) == (
        read_period(partly).totals.untold_gpu_ms
    )
    shown = "return [...document.querySelectorAll('#models tbody tr')].map(r => [r.children[0].textContent, r.querySelector('.kind-ratio').textContent])"  # fmt: skip
    models = dict(page.run(shown))
    assert models["llm-405b"] == "—"
    assert models["llm-70b"].startswith("≥ ")
    assert not models["ranker"].startswith(("≥", "—"))


@pytest.mark.parametrize(
    ("hash_", "bound"),
    [
        ("#owner=observability", "at most "),
        ("#component=unattributed", "at most "),
        ("#owner=reliability", "at least "),
        ("#component=compile&team=ads", ""),
        ("#model=llm-70b", "at least "),
    ],
)
def test_every_page_says_which_way_its_number_is_a_bound(at, hash_, bound):
    said = text(at("partly", hash_), "#head-big")
    assert re.fullmatch(rf"{bound}[\d.]+%", said)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("hash_", ["#fleet", "#model=ranker"])
def test_a_fleet_of_which_nobody_tells_is_unknown_and_not_nought(at, hash_, width):
    page = at("silent", hash_, width)
    page.run("document.querySelectorAll('.folded').forEach(fold => { fold.open = true; })")
    page.until("document.querySelector('#days td.kind-ratio')")
    shares = "return [...new Set([...document.querySelectorAll('td.kind-ratio')].filter(e => e.checkVisibility()).map(e => e.textContent))]"  # fmt: skip
    assert page.run(shares) == ["—"]
    assert [text(page, f"#head-{name}") for name in ("big", "wall-ett")] == ["—", "—"]
    assert "unknown" in text(page, "#head-lead")
    assert "at least" not in text(page, "#head-changed")
    assert not page.run("return document.getElementById('head-legend').checkVisibility()")
    assert "no source tells of training" in text(page, "#days .plot")
    assert page.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.run("return document.body.innerText.match(/NaN|Infinity|undefined/g)") is None
    assert complaints(page) == []


def test_the_page_of_an_untold_job_says_who_speaks_of_it(at):
    page = at("partly", "#job=h100-east/llm-405b-pretrain")
    assert text(page, "#job-big") == "—"
    assert "ETT% is unknown" in text(page, "#job-big-label")
    assert "only slurm speaks of it" in text(page, "#job-notes")
    facts = page.run("return Object.fromEntries([...document.querySelectorAll('#job-facts > div')].map(d => [d.children[0].textContent, [d.children[1].textContent, d.children[1].firstChild.title]]))")  # fmt: skip
    assert facts["ETT% by GPU time"] == ["—", "unknown: no source tells of training"]
    assert facts["ETT% by wall time"][0] == "—"
    assert facts["Told by"][0] == "slurm"
    assert [r["told"] for r in csv_rows(page, "sources")] == ["attempt_started, job_submitted"]
    rows = csv_rows(page, "disagreements")
    assert [(r["field"], r["source"], r["other_source"]) for r in rows] == [
        ("gpus", "slurm", "lifecycle"),
        ("started_at", "slurm", "lifecycle"),
    ]
    assert "slurm: 2048" in text(page, "#job-disagreements tbody")


def test_a_job_without_disagreements_has_no_such_table(at):
    page = at("partly", "#job=h100-east/crash-loop")
    assert not page.run("return document.getElementById('job-disagreements').checkVisibility()")
    assert text(page, "#job-big") != "—"


def test_names_that_did_not_join_are_listed_as_text(at):
    page = at("partly")
    (row,) = csv_rows(page, "joins")
    assert row["own_id"] == f"'{HOSTILE[1]}"
    assert row["reason"] == "joins.csv has no row for it: add one"


@pytest.mark.parametrize(("arguments", "said"), BOUNDS)
def test_the_browser_says_bounds_in_the_same_words(at, arguments, said):
    assert at("partly").run("return ett.format.bounded(...arguments)", *arguments) == said
