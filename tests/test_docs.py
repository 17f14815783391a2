"""The pages say what is: links, names, commands and blocks work, and every worked figure is true."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipelines import cli
from pipelines.ingest.lifecycle import read_line
from pipelines.ingest.records import RejectError
from pipelines.tables import TABLES
from pipelines.taxonomy import DEFAULT
from tests.oracle import account

ROOT = Path(__file__).parent.parent
CASES = ROOT / "tests" / "cases"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONCEPTS = sorted((ROOT / "docs" / "concepts").glob("*.md"))
ACCOUNTING = ROOT / "docs" / "accounting.md"
LIFECYCLE = ROOT / "docs" / "lifecycle-events.md"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = {"sh", "console", "bash", "shell"}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


def blocks(page, *languages):
    """The fenced blocks of a page in these languages."""
    return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def prose(page):
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def ett(*words):
    result = CliRunner().invoke(cli.ett, list(words))
    assert result.exit_code == 0, f"ett {shlex.join(words)}: {result.output} {result.exception!r}"
    return result.output


# --- links and names ------------------------------------------------------------------------------


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings]
    return set(words)


@every_page
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`]*`", "", prose(page))
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert missing == []


def test_every_concept_is_linked_from_the_accounting():
    text = ACCOUNTING.read_text()
    assert [p.name for p in CONCEPTS if f"(concepts/{p.name})" not in text] == []


def test_glossaries_are_what_the_code_declares(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("glossaries", ROOT / "scripts" / "glossaries.py")
    glossaries = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(glossaries)
    monkeypatch.setattr("sys.argv", ["glossaries.py", "--check"])
    assert glossaries.main() == 0, capsys.readouterr().err


@cache
def names_in_the_code():
    folders = (
        "pipelines",
        "dashboards",
        "simulator",
        "recorder/ettledger",
        "scripts",
        "benchmarks",
    )
    files = [p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".js", "")]
    texts = [p.read_text() for p in [*files, ROOT / "pyproject.toml"] if p.is_file()]
    return {name for text in texts for name in re.findall(r"\w+", text)}


@every_page
def test_names_exist(page):
    """Every `snake_case` name is one of the code's, every `table__name` and component is declared."""
    named = set(re.findall(r"`([a-z]\w*(?:\.\w+)*)`", prose(page)))
    known = names_in_the_code()
    strange = [n for n in named if "_" in n and not known.issuperset(n.split("."))]
    tables = [n for n in named if "__" in n and n.strip("_") == n and n not in TABLES]
    parents = {c.parent for c in DEFAULT} - {None}
    children = [n for n in named if n.rpartition(".")[0] in parents and n not in DEFAULT.components]
    assert (strange, tables, children) == ([], [], [])


def test_architecture_lays_out_the_modules():
    [layout] = [b for b in blocks(ROOT / "docs" / "architecture.md", "text") if "pipelines/" in b]
    inside = layout.split("pipelines/\n")[1].split("dashboards/")[0]
    modules = {p.name for p in (ROOT / "pipelines").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"\w+\.py", inside)) == modules


def test_readme_and_changelog_are_of_this_version():
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE).group(1)
    changes = (ROOT / "CHANGELOG.md").read_text()
    latest = changes.split(f"## [{version}]", 1)[1].split("\n## ")[0]
    assert "### Numbers changed" in latest


# --- commands and blocks --------------------------------------------------------------------------


def commands(page, program):
    """The words of every call of a program in a page's shell blocks."""
    lines = "".join(blocks(page, *SHELL)).replace("\\\n", " ").splitlines()
    calls = [c.strip() for x in lines for c in re.split(r"\s[|;]\s|&&", x.removeprefix("$ "))]
    return [shlex.split(c, comments=True)[1:] for c in calls if c.startswith(f"{program} ")]


@every_page
def test_commands_exist(page):
    """Every `ett …` of a shell block is a command with those options; it is not run here."""
    for name, *words in commands(page, "ett"):
        try:
            cli.ett.commands[name].make_context(name, words)
        except click.exceptions.Exit:  # --help
            continue


@every_page
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {words[0] for words in commands(page, "make")}
    asked |= set(re.findall(r"`make ([a-z-]+)`", prose(page)))
    assert asked - targets == set()


def test_readme_has_its_two_commands():
    words = [w for w in commands(ROOT / "README.md", "make") if w]
    assert words == [["demo"], ["test"]]


def test_readme_commands_run(tmp_path, monkeypatch):
    """The block "On your own logs", on the log of one job."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "logs" / "my-job.jsonl", "02_crash_replay_requeue", job_id="my-job")
    asked = commands(ROOT / "README.md", "ett")
    assert [words[0] for words in asked] == ["check", "account", "run", "top", "job", "doctor"]
    told = {words[0]: ett(*words) for words in asked}
    assert "1 jobs of which lifecycle speak" in told["check"]
    assert "43.0%" in told["account"]
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "warehouse" / "ledger__interval").is_dir()
    assert "Trainer init" in told["top"]
    assert "ETT 43.0% of 7 m 45 s" in told["job"]


def write_log(path, case, **changed):
    path.parent.mkdir(parents=True, exist_ok=True)
    events = json.loads((CASES / f"{case}.json").read_text())["events"]
    path.write_text("".join(json.dumps(e | changed) + "\n" for e in events))


def test_lifecycle_example_and_its_account(tmp_path, monkeypatch):
    """What the page prints is what `ett account` prints of the page's file."""
    monkeypatch.chdir(tmp_path)
    example = blocks(LIFECYCLE, "jsonl")[0]
    Path("example.jsonl").write_text(example)
    asked, *shown = blocks(LIFECYCLE, "console")[0].splitlines()
    printed = ett(*shlex.split(asked)[2:]).splitlines()
    assert [line.rstrip() for line in printed] == shown
    [job] = account(example.splitlines(), as_of=1_793_664_000_000)["jobs"]
    in_json = json.loads(blocks(LIFECYCLE, "json")[0])
    assert in_json == {key: job[key] for key in in_json}
    assert len(in_json) == 15


def test_lifecycle_rejects():
    lines, reasons = blocks(LIFECYCLE, "jsonl")[1].splitlines(), blocks(LIFECYCLE, "text")[0]
    said = []
    for number, line in enumerate(lines, start=1):
        with pytest.raises(RejectError) as rejected:
            read_line(line.encode(), DEFAULT)
        said.append(f"rejects.jsonl:{number}: {rejected.value}\n")
    assert "".join(said) == reasons


def test_lifecycle_writer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [code] = blocks(LIFECYCLE, "python")
    exec(code, {})
    lines = Path("rank0.jsonl").read_text().splitlines()
    told = account(lines, as_of=max(json.loads(line)["ts"] for line in lines))
    assert told["rejects"] == 0
    assert [job["attempts"][0]["outcome"] for job in told["jobs"]] == ["succeeded"]


# --- worked figures -------------------------------------------------------------------------------

CHECKED = re.compile(r"<!-- checked: (\w+) of (\S+)(?: (\S+))? -->\n\n((?:\|.*\n)+)")


def checked(kind):
    """The tables of a kind: page, case, job and the cells of each row."""
    found = []
    for page in PAGES:
        for of, case, job, table in CHECKED.findall(page.read_text()):
            rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
            cells = [[cell.strip(" |") for cell in row] for row in rows]
            if of == kind:
                found.append(pytest.param(case, job, cells, id=f"{page.stem}-{case}"))
    return pytest.mark.parametrize(("case", "job", "cells"), found)


@cache
def accounts(case):
    told = json.loads((CASES / f"{case}.json").read_text())
    zero = min(e["ts"] for e in told["events"] if isinstance(e.get("ts"), int))
    return zero, account(told["events"], as_of=told["as_of"])["jobs"]


def job_of(case, job):
    zero, jobs = accounts(case)
    [found] = [j for j in jobs if j["job_id"] == (job or jobs[0]["job_id"])]
    return zero, found


def at(fields, path):
    """The value at a dotted path, where keys may have dots themselves."""
    if path in fields:
        return fields[path]
    head = next(key for key in fields if path.startswith(f"{key}."))
    return at(fields[head], path.removeprefix(f"{head}."))


def name_in(cell):
    return re.search(r"`([^`]+)`", cell).group(1)


@checked("account")
def test_figures(case, job, cells):
    _, told = job_of(case, job)
    quoted = {name_in(path): json.loads(value) for path, value, *_ in cells}
    assert quoted == {path: at(told, path) for path in quoted}


@checked("rows")
def test_rows(case, job, cells):
    zero, told = job_of(case, job)
    quoted = [(int(a), int(b), name_in(c), name_in(s)) for a, b, c, s, *_ in cells]
    rows = [((a - zero) / 1000, (b - zero) / 1000, c, s) for a, b, c, s, *_ in told["rows"]]
    assert quoted == rows


@checked("charges")
def test_charges(case, job, cells):
    _, told = job_of(case, job)
    lost, lost_gpu = Counter(), Counter()
    for begin, end, component, _, gpus, *_ in told["rows"]:
        lost[component] += end - begin
        lost_gpu[component] += (end - begin) * gpus
    del lost["effective_training"]
    quoted = {name_in(c): (owner, int(ms), int(gpu_ms)) for c, owner, ms, gpu_ms in cells}
    assert quoted == {c: (DEFAULT[c].owner, lost[c], lost_gpu[c]) for c in lost}


@checked("causes")
def test_causes(case, job, cells):
    _, told = job_of(case, job)
    quoted = {cause.strip("`"): [int(ms), int(gpu_ms)] for cause, ms, gpu_ms, *_ in cells}
    assert quoted == {cause or "null": lost for cause, lost in told["lost_by_cause"].items()}


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda p: p.stem)
def test_every_concept_has_an_example(page):
    assert CHECKED.search(page.read_text())
    assert "tests/cases/" in page.read_text()


MINUS, TIMES = "\u2212", "\u00d7"  # as the pages write them
OPERATORS = {MINUS: "-", "+": "+", TIMES: "*", "÷": "/", "div": "//"}
OPERATOR = "|".join(re.escape(sign) for sign in OPERATORS)
NUMBER = r"\d[\d,]*(?:\.\d+)?"
EQUATION = re.compile(
    rf"((?:[(]*{NUMBER}[)]* (?:{OPERATOR}) )+[(]*{NUMBER}[)]*) = ({NUMBER})( ?%)?"
)


def worth(expression):
    """The exact value of an expression in the notation of the pages."""
    tokens = re.findall(rf"{NUMBER}|[()]|{OPERATOR}", expression)
    numbers = {t: f"Fraction('{t.replace(',', '')}')" for t in tokens if t[0].isdigit()}
    python = " ".join(numbers.get(t) or OPERATORS.get(t, t) for t in tokens)
    return eval(python, {"Fraction": Fraction})


def equations():
    pages = [ACCOUNTING, LIFECYCLE, *CONCEPTS]
    lines = " ".join(" ".join(prose(page).split()) for page in pages)
    return [(left, right, percent) for left, right, percent in EQUATION.findall(lines)]


def test_sums_add_up():
    wrong = []
    for left, right, percent in equations():
        stated = right.replace(",", "")
        places = len(stated.partition(".")[2])
        value = worth(left) * (100 if percent else 1)
        if round(value, places) != Fraction(stated) or (not percent and value != Fraction(stated)):
            wrong.append(f"{left} = {right}{percent}")
    assert wrong == []
    assert len(equations()) > 30


# --- choices --------------------------------------------------------------------------------------


def line(second, event, **fields):
    return {"ts": 1_764_576_000_000 + second * 1000, "job_id": "j", "event": event, **fields}


def start(second, number, **fields):
    return line(second, "attempt_started", attempt=number, gpus=1, **fields)


def trained(number, *marks):
    """train_begin and step lines from (second, step) pairs."""
    events = ["train_begin"] + ["step"] * (len(marks) - 1)
    return [line(s, e, attempt=number, step=n) for e, (s, n) in zip(events, marks, strict=True)]


def ended(second, number, outcome="succeeded", **fields):
    return line(second, "attempt_ended", attempt=number, outcome=outcome, **fields)


def struck(second, cause):
    return line(second, "interruption", attempt=0, cause=cause)


def finished(second, **fields):
    return line(second, "job_finished", **fields)


def compiled_and_restored():
    phases = ("compile", "checkpoint_restore")
    edges = (("phase_begin", 1), ("phase_end", 5))
    return [line(s, e, attempt=0, phase=p) for p in phases for e, s in edges]


CHOICES = [
    (
        "opens only strictly later than the earliest `job_finished`",
        [start(0, 0), finished(9), line(9, "job_submitted"), finished(20), start(21, 0)],
        [{"job_id": "j", "queue_wait_ms": -9000}, {"job_id": "j#2", "queue_wait_ms": None}],
    ),
    (
        "dropped wholly",
        [
            line(0, "attempt_started", gpus=1),
            line(5, "attempt_ended", outcome="succeeded"),
            line(50, "attempt_started", rank=3, gpus=9),
        ],
        [{"wall_ms": 5000, "held_gpu_ms": 5000, "flags": []}],
    ),
    (
        "numbered ones ascending, then the unnumbered one",
        [
            *(start(0, 4), start(0, 2), line(0, "attempt_started")),
            *(line(0, "train_begin", step=0), line(5, "step", step=1), ended(5, 5)),
        ],
        [{"interruptions": {"unknown": 2}, "tts_ms": 0, "wall_ms": 5000}],
    ),
    (
        "has a presumed end, so it is `failed`",
        [start(0, 0), *trained(0, (1, 0), (9, 1)), start(20, 1), ended(22, 1)],
        [{"interruptions": {"unknown": 1}, "ttr_ms": [], "flags": []}],
    ),
    (
        "an outcome also where it lies before that attempt's start",
        [finished(3, outcome="cancelled"), *trained(0, (4, 0), (5, 1))],
        [{"flags": ["censored"], "components": {"effective_training": 1000, "teardown": 1_795_000}}],
    ),
    (
        "with an `interruption` at or after its last mark counts as",
        [start(1700, 0), *trained(0, (1710, 0), (1720, 1)), struck(1725, "network")],
        [{"flags": ["censored"], "interruptions": {"network": 1}, "lost_tail_ms": 0}],
    ),
    (
        "is 0 also where it never reported a checkpoint",
        [start(0, 0), *trained(0, (1, 0), (5, 2)), ended(6, 0)],
        [{"lost_tail_ms": 0}],
    ),
    (
        "Only the attempt's own `interruption` lines count",
        [
            *(start(0, 0), *trained(0, (1, 0), (3, 1)), ended(3, 0)),
            *(start(5, 1), *trained(1, (6, 1)), struck(7, "network")),
            *(line(8, "train_begin", attempt=1, step=2), ended(9, 1)),
        ],
        [{"components": {"effective_training": 4000, "requeue_wait": 2000, "unattributed": 2000,
                         "teardown": 1000}}],
    ),
    (
        "a `ttr_ms` of 0 is possible",
        [
            *(start(0, 0), *trained(0, (1, 0), (5, 2)), ended(5, 0, "failed", cause="storage")),
            *(start(5, 1), *trained(1, (5, 1), (7, 3)), ended(7, 1)),
        ],
        [{"ttr_ms": [0], "time_to_new_data_ms": [1000], "interruptions": {"storage": 1}}],
    ),
    (
        "the first in the order of the [taxonomy]",
        [start(0, 0), *compiled_and_restored(), ended(6, 0)],
        [{"components": {"checkpoint_restore": 4000, "unattributed": 2000}}],
    ),
    (
        "It may serve as the notice of a later restart or end",
        [start(0, 0), struck(2, "network"), *trained(0, (5, 0), (9, 1)), ended(12, 0, "failed")],
        [{"interruptions": {"network": 1}}],
    ),
    (
        "it begins at the attempt's end",
        [start(0, 0), struck(2, "network"), *trained(0, (5, 0), (9, 1)), ended(12, 0)],
        [{"interruptions": {"network": 1}, "lost_by_cause": {None: [8000, 8000]}}],
    ),
    (
        "An attempt without marks has one group",
        [start(0, 0), struck(2, "network"), struck(8, "storage"), ended(12, 0, "failed")],
        [{"interruptions": {"network": 1}}],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("said", "lines", "expected"), CHOICES, ids=[c[0] for c in CHOICES])
def test_choices(said, lines, expected):
    """The page states the choice, and the account makes it (30 minutes after the first second)."""
    section = ACCOUNTING.read_text().split("## Choices where the rule was open")[1]
    assert said in " ".join(section.split())
    jobs = account(lines, as_of=line(1800, "")["ts"])["jobs"]
    assert [{key: job[key] for key in want} for job, want in zip(jobs, expected, strict=True)] == (
        expected
    )
