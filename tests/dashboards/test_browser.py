"""The pages in a real browser, opened from the folder: what is clicked, typed and linked works."""

from __future__ import annotations

import csv
import time
from dataclasses import asdict
from urllib.parse import quote

import pytest

from dashboards import format as words
from tests.dashboards.fleet import HOSTILE
from tests.dashboards.test_format import BALANCES, CASES

ENTER, TAB, ESCAPE = "\ue007", "\ue004", "\ue00c"
DRAWN = "window.ett?.page?.isSettled() && !document.getElementById('fleet').hidden"
JOB_DRAWN = "document.querySelectorAll('#job .plot .main-svg').length >= 1"
JOB_ROWS = "#fleet [data-listing=jobs] tbody tr"


@pytest.fixture
def fleet(browser, site):
    """The fleet page, freshly opened at desktop size."""
    browser.look(1440)
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html")
    browser.until(DRAWN)
    browser.console()
    return browser


def link(cluster, job_id):
    return f"#job={quote(cluster, safe='')}/{quote(job_id, safe='')}"


def text(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).textContent", selector)


def complaints(browser):
    """What the console says of errors and of the content policy."""
    return [m for m in browser.console() if "favicon" not in m]


def test_the_page_draws_without_a_server_and_without_a_complaint(fleet):
    assert complaints(fleet) == []
    assert fleet.run(f"return document.querySelectorAll('{JOB_ROWS}').length") == 25
    assert fleet.run("return document.querySelectorAll('#ranking svg .barlayer .point').length") > 5


@pytest.mark.parametrize("width", [390, 768, 1440, 2560])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_runs_out_of_the_page(fleet, width, dark):
    fleet.look(width, dark=dark)
    fleet.until("[...document.querySelectorAll('#fleet .plot')].every(p => !p.clientWidth || Math.abs(p.clientWidth - p._fullLayout.width) < 2)")  # fmt: skip
    assert fleet.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    surface = fleet.run("return getComputedStyle(document.querySelector('.hero')).backgroundColor")
    assert (surface == "rgb(23, 29, 38)") is dark


def test_charts_follow_the_colour_scheme(fleet):
    paper = "document.querySelector('#days .plot')._fullLayout.paper_bgcolor"
    assert fleet.run(f"return {paper}") == "#ffffff"
    fleet.look(1440, dark=True)
    assert fleet.until(f"{paper} === '#171d26'")


def test_a_click_opens_a_job_and_back_and_forward_work(fleet):
    fleet.run("scrollTo(0, 900); document.querySelector(arguments[0] + ' a').click()", JOB_ROWS)
    fleet.until(JOB_DRAWN)
    assert text(fleet, "#job-title") == "llm-405b-pretrain"
    assert fleet.run("return location.hash") == link("h100-east", "llm-405b-pretrain")
    assert fleet.run("return document.getElementById('fleet').hidden")
    fleet.back()
    fleet.until("!document.getElementById('fleet').hidden && scrollY === 900")
    fleet.forward()
    fleet.until("document.getElementById('fleet').hidden")
    assert complaints(fleet) == []


@pytest.mark.parametrize("job_id", HOSTILE)
def test_a_hostile_job_is_text_everywhere_and_has_a_deep_link(browser, site, job_id):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html{link('h100-west', job_id)}")
    browser.until(JOB_DRAWN)
    shown = job_id.replace("\u202e", "\\u202e")
    assert text(browser, "#job-title") == shown
    assert (
        browser.run(
            "return document.querySelectorAll('img, #job a[href^=javascript], svg a').length"
        )
        == 0
    )
    assert shown in browser.run("return document.title")
    browser.run("location.hash = '#jobs'")
    browser.until(DRAWN)
    found = "return [...document.querySelectorAll('#jobs tbody tr a')].map(a => a.textContent)"
    browser.run("const i = document.querySelector('#jobs input'); i.value = arguments[0]; i.dispatchEvent(new Event('input'))", job_id.lower())  # fmt: skip
    assert shown in browser.run(found)
    browser.run("[...document.querySelectorAll('#jobs tbody tr a')].find(a => a.textContent === arguments[0]).click()", shown)  # fmt: skip
    browser.until(f"{JOB_DRAWN} && !document.getElementById('job').hidden")
    assert text(browser, "#job-title") == shown
    assert complaints(browser) == []


def test_a_link_to_a_job_that_is_not_there_says_so(browser, site):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html#job=no/such")
    browser.until("document.getElementById('job-lead').textContent.includes('no job \"such\"')")
    browser.run("document.getElementById('job-back').click()")
    browser.until(DRAWN)


def test_sorting_and_search(fleet):
    column = "return [...document.querySelectorAll('#jobs tbody tr td:nth-child(2)')].map(e => e.textContent)"
    fleet.run(
        "[...document.querySelectorAll('#jobs th button')].find(b => b.textContent === 'GPUs').click()"
    )
    gpus = fleet.run(
        "return [...document.querySelectorAll('#jobs tbody .kind-count:not(.rank-0)')].length"
    )
    assert gpus
    assert (
        fleet.run("return document.querySelector('#jobs th[aria-sort]').getAttribute('aria-sort')")
        == "descending"
    )
    assert text(fleet, f"{JOB_ROWS} a") == "llm-405b-pretrain"
    fleet.run("document.querySelector('#jobs th[aria-sort] button').click()")
    assert text(fleet, f"{JOB_ROWS} a") == "no-gpus-said"
    fleet.run("location.hash = '#jobs&find=unattributed'")
    fleet.until(f"document.querySelectorAll('{JOB_ROWS}').length === 1")
    assert text(fleet, f"{JOB_ROWS} a") == "unclaimed-start"
    fleet.run("location.hash = '#jobs&find=zzz'")
    fleet.until("document.querySelector('#jobs .more').textContent.startsWith('Nothing matches')")
    assert fleet.run(column) == []


def test_the_keyboard_opens_a_job(fleet):
    fleet.run("document.querySelector('#jobs input').focus()")
    for _ in range(40):
        fleet.press(TAB)
        if fleet.run("return document.activeElement.matches('#jobs tbody a')"):
            break
    fleet.press(ENTER)
    fleet.until(JOB_DRAWN)
    assert fleet.run("return document.activeElement.id") == "job-title"


def test_the_job_chart_zooms_with_buttons_and_hides_with_the_legend(browser, site):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html{link('h100-east', 'crash-loop')}")
    browser.until(JOB_DRAWN)
    width = "(r => Date.parse(r[1]) - Date.parse(r[0]))(document.querySelector('#job .plot')._fullLayout.xaxis.range)"
    whole = browser.run(f"return {width}")
    browser.run("document.querySelector('#job .zoom [aria-label=\"Zoom in\"]').click()")
    browser.until(f"Math.abs({width} - {whole} / 2) < 2000")
    browser.run("document.querySelector('#job .zoom [aria-label=\"All of the job\"]').click()")
    browser.until(f"Math.abs({width} - {whole}) < 2000")
    browser.run(
        "[...document.querySelectorAll('#job .legend button')].find(b => b.textContent === 'Repeated training').click()"
    )
    browser.until(
        "document.querySelector('#job .plot').data.find(t => t.name === 'Repeated training').visible === false"
    )
    assert complaints(browser) == []


@pytest.mark.parametrize("name", ["Effective training", "Interruption", "Recovery"])
def test_what_a_bar_or_a_mark_says_when_pointed_at(browser, site, name):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html{link('h100-east', 'llm-405b-pretrain')}")
    browser.until(JOB_DRAWN)
    browser.run(
        "const p = document.querySelector('#job .plot');"
        "Plotly.Fx.hover(p, [{curveNumber: p.data.findIndex(t => t.name === arguments[0]), pointNumber: 0}])",
        name,
    )
    said = browser.until("document.querySelector('#job .hovertext')?.textContent")
    assert name in said
    assert "2026-11-01 " in said
    assert " UTC" in said


def csv_of(browser, selector):
    """The CSV that a click on the button would save, caught before it is saved."""
    return browser.run(
        "let caught; const keep = ett.csv.download; ett.csv.download = (name, content) => { caught = content; };"
        "document.querySelector(arguments[0]).querySelector('.tools button').click();"
        "ett.csv.download = keep; return caught",
        selector,
    )


def test_csv_holds_raw_values_and_no_formula(fleet):
    rows = list(csv.DictReader(csv_of(fleet, "#jobs [data-listing=jobs]").splitlines()))
    assert len(rows) == 40
    by_id = {row["job_id"]: row for row in rows}
    assert by_id["llm-405b-pretrain"]["wall_ms"] == "489600000"
    assert by_id["llm-405b-pretrain"]["started_at"] == "2026-11-01T02:00:00.000Z"
    assert "'" + HOSTILE[1] in by_id
    assert HOSTILE[1] not in by_id
    assert not [v for row in rows for v in row.values() if v and v[0] in "=+@\t\r"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"), (" =1", "' =1"), ("+x", "'+x"), ("-x", "'-x"), ("@x", "'@x"), ("\tx", '"\'\tx"'),
        ("\uff1dx", "'\uff1dx"), ('a"b', '"a""b"'), ("a,b", '"a,b"'), ("a\nb", '"a\nb"'), (-5, "-5"), (None, ""), (True, "true"),
    ],
)  # fmt: skip
def test_csv_cells(fleet, value, cell):
    assert fleet.run("return ett.csv.cell(arguments[0])", value) == cell


def test_a_csv_is_really_saved(fleet, tmp_path):
    fleet.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    fleet.run("document.querySelector('#ranking .tools button').click()")
    saved = tmp_path / "ranking.csv"
    for _ in range(100):
        if saved.is_file():
            break
        time.sleep(0.05)
    assert saved.read_text("utf-8").startswith(
        "\ufeffcomponent,owner,lost_gpu_ms,share_ratio,change_ratio,lost_cost,lost_ms,priced_gpu_ms"
    )


def test_the_browser_says_numbers_in_the_same_words(fleet):
    said = fleet.run("return arguments[0].map(([name, value]) => ett.format[name](value))", [[name, value] for _, name, value, _ in CASES])  # fmt: skip
    assert said == [expected for *_, expected in CASES]
    exact = fleet.run("return [61250, 7501250, 999, 0].map(ett.format.exactDuration)")
    assert exact == ["0:01:01.250", "2:05:01.250", "0:00:00.999", "0:00:00.000"]


@pytest.mark.parametrize(("effective", "losses"), BALANCES)
def test_the_browser_balances_hours_as_python_does(fleet, effective, losses):
    said = fleet.run("return [ett.format.balance(...arguments), ett.format.lossShares(...arguments)]", effective, losses)  # fmt: skip
    assert said == [asdict(words.balance(effective, losses)), words.loss_shares(effective, losses)]


def test_every_chart_and_every_table_is_explained(fleet):
    told = "return [...document.querySelectorAll('[data-figure], [data-listing]')].filter(e => !e.closest('section').querySelector('.explained li:nth-child(3) span:not(:empty)')).map(e => e.outerHTML.slice(0, 80))"  # fmt: skip
    assert fleet.run(told) == []
    assert fleet.run("return document.querySelectorAll('.explained').length") >= 16


def test_a_name_in_the_legend_is_seen_alone_when_pointed_at(browser, site):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html{link('h100-east', 'llm-405b-pretrain')}")
    browser.until(JOB_DRAWN)
    strength = "document.querySelector('#job .plot').data.map(t => t.opacity ?? 1)"
    before = browser.run(f"return {strength}")
    browser.run("document.querySelector('#job .legend button').focus()")
    assert browser.until(f"{strength}.filter(s => s > 0.5).length === 1")
    browser.run("document.activeElement.blur()")
    assert browser.run(f"return {strength}") == before


def test_the_top_of_a_job_says_what_it_lost_and_whose_that_is(browser, site):
    browser.open("about:blank")
    browser.open(f"file://{site}/index.html{link('h100-east', 'llm-405b-pretrain')}")
    browser.until(JOB_DRAWN)
    assert text(browser, "#job-largest").startswith("Its largest loss: ")
    owner = browser.run("return document.querySelector('#job-largest a[href^=\"#owner\"]').textContent")  # fmt: skip
    assert owner in text(browser, "#components, #job [data-listing=components]")
    shares = browser.run("return [...document.querySelectorAll('#job-legend strong')].map(e => parseFloat(e.textContent))")  # fmt: skip
    assert sum(shares) == pytest.approx(100)


def test_every_control_and_picture_has_a_name(fleet):
    nameless = "return [...document.querySelectorAll('button, input, select, [role=img], [role=region], a')].filter(e => e.checkVisibility() && !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).length"  # fmt: skip
    assert fleet.run(nameless) == 0
    fleet.run("location.hash = arguments[0]", link("h100-east", "llm-405b-pretrain"))
    fleet.until(JOB_DRAWN)
    assert fleet.run(nameless) == 0
