"""One job's detail: what it must say before its bars are read."""

from __future__ import annotations

import pytest

from dashboards.jobs import details, longest, read_jobs
from dashboards.period import read_period
from tests.dashboards.fleet import days


@pytest.fixture(scope="module")
def told(published):
    """The details of all jobs by job id, of the days after the first two."""
    shown = days()[2:]
    jobs = read_period(published, shown).jobs
    return {jobs["job_id"][i]: d for i, d in details(read_jobs(published, shown), jobs)}


def test_a_job_that_began_before_the_days_shown_says_so(told):
    detail = told["llm-405b-pretrain"]
    assert any("before the first day shown (2026-11-03)" in note for note in detail["notes"])
    assert any("Still running" in note for note in detail["notes"])
    assert detail["tables"]["facts"]["wall_ms"] == [489_600_000]
    assert sum(detail["tables"]["intervals"]["duration_ms"]) < 489_600_000


def test_a_job_that_never_trained_says_so(told):
    assert told["never-trained"]["notes"] == ["It trained on no new data in the days shown."]


def test_a_job_whose_gpus_nobody_said_says_so(told):
    (note,) = told["no-gpus-said"]["notes"]
    assert note.startswith("No line said how many GPUs it held: it has wall time, and no GPU time.")
    assert told["no-gpus-said"]["stages"]["effective"] == [135 * 60_000, 0]


def test_owners_are_the_charged_ones_and_training_has_none(told):
    components = told["never-trained"]["tables"]["components"]
    owners = dict(zip(components["component"], components["owner"], strict=True))
    assert owners["compile"] == "compiler"
    assert owners["failure_detection"] == "reliability"
    trained = told["unclaimed-start"]["tables"]["components"]
    assert (
        dict(zip(trained["component"], trained["owner"], strict=True))["effective_training"] is None
    )


def test_a_job_without_any_attempt_has_no_figure_and_no_row(published):
    jobs = read_period(published).jobs
    waiting = jobs.iloc[[0]].assign(job_id="still-queued", started_at=None, ended_at=None)
    ((_, detail),) = details(read_jobs(published, days()), waiting)
    assert detail["figure"] is None
    assert all(not column for name, table in detail["tables"].items() if name != "facts" for column in table.values())  # fmt: skip


def test_the_longest_rows_stay_in_order_of_time(monkeypatch):
    monkeypatch.setattr("dashboards.jobs.MOST_INTERVALS", 2)
    kept, left_out = longest(
        {"started_at": [1, 2, 3, 4], "duration_ms": [5_000, 1_000, 7_000, 2_000]}
    )
    assert kept == {"started_at": [1, 3], "duration_ms": [5_000, 7_000]}
    assert left_out == [
        "These are the 2 longest of 4 rows; the others, 3.0 s together, are in the table ledger__interval."
    ]
