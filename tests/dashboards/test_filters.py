"""Filters, pages and the way through them in a real browser: four clicks to the job that shows why."""

from __future__ import annotations

import csv
import subprocess
import tarfile
from urllib.parse import quote

import pytest

from dashboards.cube import read_cube
from dashboards.period import read_period
from dashboards.published import Published
from dashboards.sitedata import drawn
from pipelines import tables
from pipelines.taxonomy import DEFAULT
from tests.dashboards.browser import missing
from tests.dashboards.fleet import HOSTILE
from tests.dashboards.test_browser import (
    DRAWN,
    ENTER,
    ESCAPE,
    JOB_DRAWN,
    TAB,
    complaints,
    csv_of,
    text,
)

AXE = "axe-core@4.10.3"
PAGES = [
    "#fleet", "#owner=reliability", "#component=restart_gap", "#model=ranker",
    "#job=h100-east/llm-405b-pretrain", "#fleet&team=nobody",
]  # fmt: skip
SETTLED = f"({DRAWN}) || (!document.getElementById('job').hidden && {JOB_DRAWN})"


@pytest.fixture
def at(browser, site):
    """Opens a page by its hash."""

    def go(hash_="#fleet", width=1440, *, dark=False):
        browser.look(width, dark=dark)
        browser.open("about:blank")
        browser.open(f"file://{site}/index.html{hash_}")
        browser.until(SETTLED)
        return browser

    return go


def choose(browser, name, label):
    """Tick a choice by its words, as a reader does."""
    browser.run(
        "const box = document.getElementById(`filter-${arguments[0]}`);"
        "box.open = true;"
        "[...box.querySelectorAll('label')].find(l => l.textContent === arguments[1]).click()",
        name,
        label,
    )
    browser.until(f"location.hash.includes('{name}=') && {DRAWN}")


def csv_rows(browser, listing):
    """The rows that the table's CSV has; a folded table is opened first."""
    host = f"document.querySelector('[data-listing={listing}]')"
    browser.run(f"const fold = {host}.closest('details'); if (fold) fold.open = true")
    browser.until(f"{host}.querySelector('.tools button')")
    return list(csv.DictReader(csv_of(browser, f"[data-listing={listing}]").splitlines()))


def click(browser, selector, words):
    browser.run(
        "[...document.querySelectorAll(arguments[0])].find(a => a.textContent.trim() === arguments[1]).click()",
        selector,
        words,
    )


def spent(warehouse, **only):
    """The published rows of jobs' time, those alone that have these values."""
    table = tables.SCORECARD_JOB_COMPONENT
    frame = Published(warehouse).read(table, table.names)
    for name, value in only.items():
        frame = frame[frame[name] == value]
    return frame


def spent_of(job_id, published):
    """The wall time, in ms, that is published of one job."""
    table = tables.SCORECARD_JOB_COMPONENT
    frame = published.read(table, ["job_id", "duration_ms"])
    return frame.loc[frame["job_id"] == job_id, "duration_ms"].sum()


def test_four_clicks_lead_from_the_fall_to_the_job_that_shows_why(at):
    page = at()
    page.run("document.querySelector('#head-changed p:last-child a').click()")  # the worst day
    page.until(f"location.hash.includes('from=') && {DRAWN}")
    page.run("document.querySelector('#ranking tbody a[href^=\"#component\"]').click()")
    page.until(f"location.hash.startsWith('#component=') && {DRAWN}")
    assert "from=" in page.run("return location.hash")
    page.run("document.querySelector('#head-largest a').click()")  # its owner
    page.until(f"location.hash.startsWith('#owner=') && {DRAWN}")
    page.run("document.querySelector('#jobs tbody a').click()")
    page.until(f"location.hash.startsWith('#job=') && {JOB_DRAWN}")
    assert page.run("return document.querySelectorAll('#job .barlayer .point').length") > 3
    assert "from=" in page.run("return document.getElementById('job-back').getAttribute('href')")
    for start in ("#owner=", "#component=", "#fleet"):
        page.back()
        page.until(f"location.hash.startsWith('{start}') && {DRAWN}")
    page.forward()
    page.until(f"location.hash.startsWith('#component=') && {DRAWN}")
    assert complaints(page) == []


@pytest.mark.parametrize(
    ("name", "label", "column", "value"),
    [("cluster", "lab", "cluster", "lab"), ("team", "ads", "team", "ads"), ("model", "vision-xl", "model", "vision-xl")],
)  # fmt: skip
def test_a_filter_acts_on_every_table(at, warehouse, name, label, column, value):
    page = at()
    choose(page, name, label)
    rows = spent(warehouse, **{column: value})
    lost = rows[rows["component"] != "effective_training"]["gpu_ms"].sum()
    assert sum(float(r["held_gpu_ms"]) for r in csv_rows(page, "days")) == rows["gpu_ms"].sum()
    for listing in ("ranking", "owners", "days"):
        assert sum(float(r["lost_gpu_ms"]) for r in csv_rows(page, listing)) == lost
    for listing in ("models", "jobs"):
        assert sum(float(r["shown_lost_gpu_ms"]) for r in csv_rows(page, listing)) == lost
    assert {r["job_id"].lstrip("'") for r in csv_rows(page, "jobs")} == set(rows["job_id"])
    held = page.run("return document.querySelector('#days .plot').data[0].x.length")
    assert held == (rows.groupby("ds")["gpu_ms"].sum() > 0).sum()


def test_any_of_several_choices_will_do_and_they_stay_in_the_address(at, warehouse):
    page = at()
    choose(page, "team", "ads")
    choose(page, "team", "perception")
    page.until(f"location.hash === '#fleet&team=ads,perception' && {DRAWN}")
    assert text(page, "#filter-told") == "all days, team ads or perception"
    rows = spent(warehouse)
    rows = rows[rows["team"].isin(["ads", "perception"])]
    assert sum(float(r["held_gpu_ms"]) for r in csv_rows(page, "days")) == rows["gpu_ms"].sum()
    assert {r["job_id"] for r in csv_rows(page, "jobs")} == set(rows["job_id"])
    choose(page, "team", "ads")  # ticked before: it goes again
    page.until(f"location.hash === '#fleet&team=perception' && {DRAWN}")
    assert {r["team"] for r in csv_rows(page, "jobs")} == {"perception"}
    page.back()
    page.until(f"location.hash === '#fleet&team=ads,perception' && {DRAWN}")
    ticked = "return [...document.querySelectorAll('#filter-team input:checked')].map(i => i.parentElement.textContent)"  # fmt: skip
    assert page.run(ticked) == ["ads", "perception"]


def test_nobody_and_a_comma_can_be_chosen_too(at):
    page = at("#fleet&team=-,ads&size=513%20to%204%2C096,not%20said")
    assert [r["job_id"] for r in csv_rows(page, "jobs")] == ["no-gpus-said"]
    assert text(page, "#filter-told") == "all days, team not said or ads, size 513 to 4,096 or not said"  # fmt: skip


def test_a_list_of_choices_opens_closes_and_can_be_reached_by_keyboard(at):
    page = at()
    is_open = "return document.getElementById('filter-team').open"
    page.run("document.querySelector('#filter-team summary').focus()")
    page.press(ENTER)
    assert page.run(is_open)
    page.press(TAB, " ")
    page.until(f"location.hash.startsWith('#fleet&team=') && {DRAWN}")
    assert page.run(is_open)
    page.press(ESCAPE)
    assert not page.run(is_open)
    assert page.run("return document.activeElement.matches('#filter-team summary')")
    assert page.run("return document.activeElement.getAttribute('aria-label')").startswith("Team: ")
    page.run("document.querySelector('#filter-team summary').click()")
    page.run("document.getElementById('head-title').click()")
    assert not page.run(is_open)


def test_days_and_sizes_filter_too_and_clear_undoes_all(at, warehouse):
    page = at("#fleet&from=2026-11-02&to=2026-11-03&size=513%20to%204%2C096")
    rows = spent(warehouse, job_id="llm-405b-pretrain")
    rows = rows[[str(d) in ("2026-11-02", "2026-11-03") for d in rows["ds"]]]
    assert [r["job_id"] for r in csv_rows(page, "jobs")] == ["llm-405b-pretrain"]
    assert sum(float(r["held_gpu_ms"]) for r in csv_rows(page, "days")) == rows["gpu_ms"].sum()
    assert text(page, "#filter-told") == "2026-11-02 to 2026-11-03, size 513 to 4,096"
    page.run("document.getElementById('filter-clear').click()")
    page.until(f"location.hash === '#fleet' && {DRAWN}")
    assert len(csv_rows(page, "jobs")) == 40


def test_an_owner_keeps_its_losses_and_leaves_the_others_grey(at, published):
    page = at("#fleet&owner=reliability")
    ranking = read_period(published).ranking
    lost = ranking[ranking["owner"] == "reliability"]["lost_gpu_ms"].sum()
    assert sum(float(r["lost_gpu_ms"]) for r in csv_rows(page, "ranking")) == lost
    assert {r["owner"] for r in csv_rows(page, "ranking")} == {"reliability"}
    names = page.run("return document.querySelector('#days .plot').data.map(t => t.name)")
    assert "Losses of other owners than reliability" in names


def test_costs_are_the_published_ones(at, published):
    rows = csv_rows(at(), "ranking")
    told = {(r["component"], r["owner"]): r["lost_cost"] for r in rows}
    for row in read_period(published).ranking.itertuples():
        assert float(told[row.component, row.owner] or "nan") == pytest.approx(row.lost_cost, nan_ok=True)  # fmt: skip


def is_other(trace):
    return trace.get("meta", {}).get("key") == "other"


def test_without_a_filter_the_browser_draws_what_the_figures_draw(at, published):
    period = read_period(published)
    specs = drawn(period, read_cube(published, period.dates, period.jobs), DEFAULT)
    page = at()
    for name in ("days", "ranking", "recoveries", "causes"):
        found = page.run(f"return document.querySelector('#{name} .plot').data.map(t => [t.x, t.y, t.text ?? null])")  # fmt: skip
        told = [[t["x"], t["y"], t.get("text")] for t in specs[name]["data"] if not is_other(t)]
        for drawn_trace, spec_trace in zip(found, told, strict=True):
            assert drawn_trace[:2] == [pytest.approx(spec_trace[0]), pytest.approx(spec_trace[1])]
            assert drawn_trace[2] == spec_trace[2]


def test_steps_of_time_are_in_the_address(at):
    page = at()
    click(page, "#days [data-by] button", "Week")
    page.until(f"location.hash === '#fleet&by=week' && {DRAWN}")
    assert [r["ds"] for r in csv_rows(page, "days")] == ["2026-11-01", "2026-11-02"]
    click(page, "#days [data-by] button", "Period")
    page.until(f"location.hash === '#fleet&by=period' && {DRAWN}")
    assert [r["last_ds"] for r in csv_rows(page, "days")] == ["2026-11-06"]


def test_a_component_page_has_its_quantiles(at, published):
    page = at("#component=requeue_wait")
    told = text(page, "#spread-lead")
    rows = csv_rows(page, "spread")
    period = read_period(published)
    mine = read_cube(published, period.dates, period.jobs).attempts
    mine = mine[mine["component"] == "requeue_wait"]["duration_ms"].astype("float64")
    assert sum(int(r["attempt_count"]) for r in rows) == len(mine)
    assert page.run("return ett.format.duration(arguments[0])", mine.quantile(0.95)) in told
    assert "Requeue wait" in page.run("return document.title")
    assert text(page, "#head-largest").startswith("Owned by scheduler")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_and_team_are_text_in_links_filters_and_titles(at, name):
    page = at(f"#model={quote(name, safe='')}")
    shown = name.replace("\u202e", "\\u202e")
    assert shown in page.run("return document.title")
    assert shown in text(page, "#head-title")
    assert len(csv_rows(page, "jobs")) == 1
    assert page.run("return document.querySelectorAll('main img, main a[href^=javascript], svg a').length") == 0  # fmt: skip
    page.run("location.hash = '#fleet'")
    page.until(f"location.hash === '#fleet' && {DRAWN}")
    choose(page, "team", shown)
    assert [r["team"].lstrip("'") for r in csv_rows(page, "jobs")] == [name]
    assert complaints(page) == []


def test_the_top_says_how_many_jobs_have_no_gpu_time(at, published):
    page = at()
    ms = spent_of("no-gpus-said", published)
    told = page.run("return ett.format.duration(arguments[0])", int(ms))
    assert text(page, "#head-sizeless").startswith(f"Not in these GPU-hours: 1 job with {told}")
    assert text(page, "[data-quality=sizeless] strong") == "1"
    choose(page, "team", "ads")
    assert not page.run("return document.getElementById('head-sizeless').checkVisibility()")


def test_the_losses_of_the_top_add_up_to_the_digit(at):
    page = at()
    numbers = "[...document.querySelectorAll(arguments[0])].map(e => parseFloat(e.textContent.replaceAll(',', '')))"  # fmt: skip
    held, effective, lost = page.run(f"return {numbers}", "#head-lead strong")[:3]
    parts = page.run(f"return {numbers}", "#head-legend .muted")
    assert effective == parts[0]
    assert sum(parts[1:]) == lost
    assert held == effective + lost
    shares = page.run(f"return {numbers}", "#head-legend strong")
    assert sum(shares) == pytest.approx(100)


@pytest.mark.parametrize("hash_", ["#fleet", "#owner=reliability", "#component=restart_gap", "#model=ranker"])  # fmt: skip
def test_the_top_names_the_job_to_look_at_first(at, hash_):
    page = at(hash_)
    job = page.run("return document.querySelector('#head-largest a[href^=\"#job\"]').textContent")
    most = page.run("return document.querySelector('#head-largest').textContent")
    assert f"Look first at {job}, which lost " in most
    if hash_.startswith("#component"):
        rows = csv_rows(page, "jobs")
        assert job == max(rows, key=lambda r: float(r["shown_lost_gpu_ms"]))["job_id"]


def test_words_fit_a_page_that_lists_only_a_part(at):
    shown = "return [...document.querySelectorAll('#jobs .explained span')].filter(e => !e.hidden).map(e => e.textContent).join(' ')"  # fmt: skip
    assert "every job with time" in at().run(shown)
    part = at("#owner=reliability").run(shown)
    assert "every job" not in part
    assert "jobs that lost time to this" in part


def test_what_is_below_is_drawn_before_it_is_seen(at):
    page = at()
    page.run("Scheduler.prototype.yield = () => new Promise(() => {})")  # the rest has to wait
    page.run("location.hash = '#fleet&team=ads'")
    page.until("ett.page.isSeen() && location.hash.includes('ads')")
    teams = "new Set([...document.querySelectorAll('#jobs tbody tr')].map(r => r.children[3].textContent))"  # fmt: skip
    assert page.run(f"return {teams}.size") > 1  # as before the choice
    page.run("document.getElementById('jobs').scrollIntoView()")
    page.until(f"{teams}.size === 1")


def test_a_chart_out_of_sight_is_redrawn_when_it_comes_near(at):
    page = at()
    page.run("window.requestIdleCallback = () => {}; performance.clearMarks('ett-answered')")
    total = "document.querySelector('#causes .plot').data.flatMap(t => t.x).reduce((a, b) => a + b)"
    before = page.run(f"return {total}")
    page.run("location.hash = '#fleet&team=perception'")
    page.until("performance.getEntriesByName('ett-answered').length")
    told = sum(int(r["interruption_count"]) for r in csv_rows(page, "causes"))
    assert told < before == page.run(f"return {total}")
    page.run("document.getElementById('causes').scrollIntoView()")
    page.until(f"{total} === {told}")


def test_what_nobody_named_has_a_page_too(at):
    page = at("#model=-")
    assert [r["job_id"] for r in csv_rows(page, "jobs")] == ["no-gpus-said"]
    assert "not said" in text(page, "#head-title")


def test_an_empty_choice_says_why_it_is_empty(at):
    page = at("#fleet&team=nobody")
    assert "No job of this choice has any time in these days" in text(page, "#head-lead")
    empty = page.run("return [...document.querySelectorAll('#fleet .empty')].filter(e => e.checkVisibility()).map(e => e.textContent)")  # fmt: skip
    assert len(empty) > 6
    assert all(len(words) > 20 for words in empty)


def test_a_click_on_a_bar_shows_its_day(at):
    page = at()
    page.run("document.querySelector('#days .plot').emit('plotly_click', {points: [{pointIndex: 2}]})")  # fmt: skip
    page.until(f"location.hash === '#fleet&from=2026-11-03&to=2026-11-03' && {DRAWN}")


def test_the_keyboard_reaches_a_filter_and_a_source(at):
    page = at()
    page.run("document.querySelector('#filter-cluster summary').focus()")
    page.press(ENTER, TAB, " ")
    page.until(f"location.hash.includes('cluster=') && {DRAWN}")
    page.run("document.querySelector('#ranking .tools button').focus()")
    for _ in range(30):
        page.press(TAB)
        if page.run(
            "return document.activeElement.matches('#ranking tbody a[href^=\"#component\"]')"
        ):
            break
    page.press(ENTER)
    page.until(f"location.hash.startsWith('#component=') && {DRAWN}")
    assert page.run("return document.activeElement.id") == "head-title"


@pytest.mark.parametrize("hash_", PAGES)
@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_no_page_runs_out_of_its_width(at, hash_, width):
    page = at(hash_, width)
    assert page.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    cut = "return [...document.querySelectorAll('#ranking .scroll, #owners .scroll, #causes .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)"  # fmt: skip
    assert page.run(cut) == []


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The source of axe-core, from the npm registry; skipped where it cannot be had."""
    if missing():
        pytest.skip(f"no browser to test the pages in: {missing()}")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(["npm", "pack", AXE, "--silent"], cwd=folder, check=True, capture_output=True, timeout=120)  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(
            f"{AXE} checks the pages' accessibility and `npm pack` cannot fetch it: {error}"
        )
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        source = packed.extractfile("package/axe.min.js")
        return source.read().decode()


@pytest.mark.parametrize("hash_", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_to_mend(at, axe, hash_, dark):
    page = at(hash_, dark=dark)
    page.run(axe)
    told = page.run(
        "return axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
        ".then(r => [r.passes.length, r.violations.map(v => [v.id, v.nodes[0].html.slice(0, 200)])])"
    )
    assert told[0] > 20
    assert told[1] == []


def test_changes_are_said_in_points(at):
    said = at().run("return [0.0123, -0.0123, 0.0001, null].map(ett.format.points)")
    assert said == ["+1.2 pt", "−1.2 pt", "0 pt", "—"]  # noqa: RUF001 - a minus sign
