"""The command as a user runs it: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from pipelines import cli, clock, terminal
from pipelines.errors import UsageError
from pipelines.taxonomy import DEFAULT

CASES = Path(__file__).parent / "cases"


def ett(*words):
    """The result of `ett WORDS`."""
    return CliRunner().invoke(cli.ett, [str(w) for w in words])


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Case 02 as a log file: a crash, a queue, two steps done again."""
    told = json.loads((CASES / "02_crash_replay_requeue.json").read_text())
    log = tmp_path_factory.mktemp("logs") / "job.jsonl"
    log.write_text("\n".join(json.dumps(e) for e in told["events"]) + "\nnot json\n")
    return log, told


@pytest.fixture(scope="module")
def published(case, tmp_path_factory):
    """A warehouse that `ett run` made of the case."""
    log, told = case
    home = tmp_path_factory.mktemp("home")
    result = ett("run", log, "--warehouse", home / "warehouse", "--as-of", told["as_of"])
    assert result.exit_code == 0, result.output
    return home, result


def test_account_prints_the_accounts_as_json(case):
    log, told = case
    result = ett("account", log, "--as-of", told["as_of"], "--json")
    printed = json.loads(result.stdout)
    [expected] = told["expected"]["jobs"]
    [job] = printed["jobs"]
    assert printed["rejects"] == 1
    assert {key: job[key] for key in expected if key != "also"} == {
        key: value for key, value in expected.items() if key != "also"
    }
    assert job["lost_tail_ms"] == expected["also"]["lost_tail_ms"]


def test_account_prints_a_table_and_the_rejects(case):
    log, told = case
    result = ett("account", log, "--as-of", told["as_of"])
    assert "43.0%" in result.stdout
    assert "requeue_wait 1 m 50 s" in result.stdout
    assert "job.jsonl:38: not JSON" in result.output


def test_run_publishes_and_says_where_the_page_is(published):
    home, result = published
    assert "published 1 day, 2025-12-01 to 2025-12-01" in result.output
    assert str(home / "site" / "index.html") in result.output
    assert (home / "site" / "index.html").is_file()


def test_a_second_run_finds_nothing_new(published, case):
    home, _ = published
    log, told = case
    again = ett("run", log, "--warehouse", home / "warehouse", "--as-of", told["as_of"])
    assert again.exit_code == 0, again.output
    assert "0 of 1 files read" in again.output


def test_top_ranks_the_losses_with_their_owners(published):
    home, _ = published
    result = ett("top", "--warehouse", home / "warehouse")
    lines = result.output.splitlines()
    assert "ETT 56.3%" in lines[0]
    assert lines[2].split()[:4] == ["1", "Trainer", "init", "trainer"]


def test_job_explains_one_job(published):
    home, _ = published
    result = ett("job", "job-a", "--warehouse", home / "warehouse")
    assert "ETT 43.0% of 7 m 45 s" in result.output
    assert "recoveries 3 m 10 s; interruptions hardware x1" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["account", "no/such/folder"], "no file or folder at 'no/such/folder'"),
        (["top", "--warehouse", "no/such/warehouse"], "there is no warehouse at no/such/warehouse"),
        (["account", "x", "--engine", "flink"], "no file or folder at 'x'"),
        (["simulate", "x", "--scenario", "best"], "baseline"),
        (["account", "\x1b[31m\n[/]"], "no file or folder at '\\x1b[31m\\n[/]'"),
        (["run", ".", "--from", "0001-01-01", "--to", "9999-12-31"], "days are more than a run"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["ett", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    told = capsys.readouterr().err
    assert stopped.value.code == cli.EXIT_FAILED
    assert said in told.replace("\n", " ")
    assert "Traceback" not in told


def test_a_job_that_is_not_there_names_the_nearest(published):
    home, _ = published
    result = ett("job", "job-b", "--warehouse", home / "warehouse")
    assert "did you mean 'job-a'?" in str(result.exception)


@pytest.mark.parametrize("command", sorted(cli.ett.commands))
def test_every_command_has_help_with_an_example(command):
    result = ett(command, "--help")
    assert result.exit_code == 0
    assert command == "doctor" or f"ett {command}" in result.output


def test_doctor_finds_the_default_engine():
    result = ett("doctor")
    assert "counts to 3" in result.output


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1764576000000", 1_764_576_000_000),
        ("2025-12-01T08:00:00Z", 1_764_576_000_000),
        ("2025-12-01T09:00:00.001+01:00", 1_764_576_000_001),
    ],
)
def test_a_moment_is_ms_or_rfc_3339(text, ms):
    assert clock.moment_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1764576000", "would be seconds"),
        ("2025-12-01T08:00:00", "has no zone"),
        ("tomorrow", "is no moment"),
        ("²", "is no moment"),
        ("--5", "is no moment"),
        (5000 * "9", "is no moment"),
        (17 * "9", "outside the years 1 to 9999"),
        ("9999-12-31T23:59:59-01:00", "outside the years 1 to 9999"),
        ("2025-12-01", "write 2025-12-01T00:00:00Z for UTC"),
    ],
)
def test_a_moment_that_cannot_be_read_says_why(text, said):
    with pytest.raises(UsageError, match=said):
        clock.moment_ms(text)


@pytest.mark.parametrize("as_of", ["1960-01-01T00:00:00Z", "0001-01-01T00:00:00.001Z"])
def test_a_moment_before_1973_is_passed_on_to_the_run_as_it_is(as_of):
    moment = clock.moment_ms(as_of)
    assert clock.moment_ms(clock.rfc3339(moment)) == moment


def test_a_demo_takes_nothing_away_that_is_not_of_a_demo(tmp_path):
    mine = tmp_path / "logs" / "mine.jsonl"
    mine.parent.mkdir()
    mine.write_text("x")
    result = ett("demo", tmp_path, "--events", "20000")
    assert "logs is not of a demo" in str(result.exception)
    assert mine.read_text() == "x"


def test_the_engines_own_errors_are_one_line(monkeypatch, capsys):
    error = type("EngineFailure", (Exception,), {"__module__": "pyspark.errors"})
    monkeypatch.setattr(cli, "ett", lambda **_: (_ for _ in ()).throw(error("no\nJVM stack")))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert (stopped.value.code, capsys.readouterr().err) == (1, "ett: the engine failed: no\n")


def test_names_from_logs_and_sites_are_shown_as_they_are_and_never_obeyed():
    name = "[/][red]x\x1b[31m\n"
    job = {
        "job_id": name, "ett_ratio": None, "wall_ms": 1, "held_gpu_ms": 0, "effective_gpu_ms": 0,
        "stages": {}, "components": {"compile": 1}, "flags": [], "sources": ["slurm"], "tts_ms": None, "ttr_ms": [],
        "interruptions": {},
    }  # fmt: skip
    lost = {
        "component": "compile",
        "owner": name,
        "lost_ms": 1,
        "lost_gpu_ms": 1,
        "lost_cost": None,
    }
    compile_ = replace(DEFAULT["compile"], label=name, owner=name)
    site = replace(DEFAULT, components={**DEFAULT.components, "compile": compile_})
    shown = Console(file=StringIO(), width=200)
    shown.print(terminal.jobs_table([job], width=200))
    shown.print(terminal.job_report(job, None, [], site))
    shown.print(terminal.ranking_table([lost], site, 5, currency=None))
    text = shown.file.getvalue()
    assert text.count("[/][red]x\\x1b[31m\\n") == 6
    assert "\x1b" not in text


def test_a_model_of_its_own_has_its_own_owner():
    site = replace(DEFAULT, model_owners={("m1", "evaluation"): "language-quality"})
    assert site.owner_of("evaluation", "m1") == "language-quality"
    assert site.owner_of("evaluation", "m2") == "model team"
    assert site.owner_of("compile", None) == "compiler"


def test_a_folder_without_files_is_an_error(tmp_path):
    result = ett("account", tmp_path)
    assert "no files in" in str(result.exception)


def test_files_without_a_job_are_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    result = ett("account", tmp_path)
    assert "no job in these files" in str(result.exception)
    assert "unknown" in result.output
