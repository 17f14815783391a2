"""The truth of every job whose log says enough is what an independent account finds in its log."""

import pytest

from tests.oracle import account
from tests.simulator.fleets import intervals, jobs, lines

FIGURES = (
    "wall_ms", "held_gpu_ms", "effective_gpu_ms", "queue_wait_ms", "tts_ms", "ttr_ms",
    "time_to_new_data_ms", "flags",
)  # fmt: skip


@pytest.fixture(scope="module")
def told(exercise):
    out, summary = exercise
    found = account(lines(out), as_of=summary.as_of_ms)
    assert found["rejects"] == 0
    return {(job["cluster"], job["job_id"]): job for job in found["jobs"]}


@pytest.fixture(scope="module")
def truth(exercise):
    return jobs(exercise[0])


@pytest.fixture(scope="module")
def exact(truth):
    return {key: job for key, job in truth.items() if job["is_exact"]}


def differences(true, told):
    return {key: (value, told[key]) for key, value in true.items() if value != told[key]}


def test_the_same_jobs(truth, told):
    assert truth.keys() == told.keys()


def test_most_logs_say_enough(truth, exact):
    assert len(exact) > 0.9 * len(truth)


@pytest.mark.parametrize("figure", FIGURES)
def test_figures(exact, told, figure):
    true = {key: job[figure] for key, job in exact.items()}
    assert differences(true, {key: told[key][figure] for key in true}) == {}


def test_interruptions_by_cause(exact, told):
    true = {key: dict(job["interruptions"]) for key, job in exact.items()}
    assert differences(true, {key: told[key]["interruptions"] for key in true}) == {}


def test_hidden_time(exact, told):
    true = {k: job["hidden_ms"] for k, job in exact.items() if job["hidden_ms"] is not None}
    assert differences(true, {key: sum(told[key]["hidden_ms"].values()) for key in true}) == {}
    assert any(true.values())


def test_every_interval(exercise, exact, told):
    """Row for row: times, component, stage, GPUs and attempt."""
    true = {key: rows for key, rows in intervals(exercise[0]).items() if key in exact}
    found = {key: joined(told[key]["rows"]) for key in true}
    assert differences(true, found) == {}
    assert sum(map(len, true.values())) > 5000


def joined(rows):
    """The oracle's rows without `is_inferred`, those that go on the same joined."""
    out = []
    for start, end, component, stage, gpus, _, attempt in rows:
        row = (start, end, component, stage, gpus, attempt)
        if out and out[-1][1] == start and out[-1][2:] == row[2:]:
            row = (out.pop()[0], *row[1:])
        out.append(row)
    return out


def test_a_log_that_says_too_little_is_owned_up_to(truth, told):
    """Some doubts are well-founded: the account of the log differs from the truth."""
    doubted = {key: job for key, job in truth.items() if not job["is_exact"]}
    assert all(job["doubts"] for job in doubted.values())
    assert any(told[key]["effective_gpu_ms"] != j["effective_gpu_ms"] for key, j in doubted.items())
