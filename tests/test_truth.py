"""A simulated fleet's ledger against its truth, which the simulator wrote beside the logs."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from pipelines import walk
from pipelines.accounts import accounts
from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_frame
from simulator import simulate

PLAIN = ("wall_ms", "held_gpu_ms", "effective_gpu_ms", "queue_wait_ms", "tts_ms", "ttr_ms")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return simulate(
        "baseline", out=folder, jobs=30, events=30_000, days=6, start=start, seed=11
    ), folder


@pytest.fixture(scope="module")
def told(fleet, spark, module_keep):
    summary, folder = fleet
    settings = walk.Settings(summary.as_of_ms)
    book = walk.logbook(files_frame(spark, raw_files([folder / "raw"])), settings, module_keep)
    ledger = walk.ledger(book["logbook__event"], settings, module_keep)
    return {(job.get("cluster", "default"), job["job_id"]): job for job in accounts(ledger)}


@pytest.fixture(scope="module")
def truth(fleet):
    _, folder = fleet
    jobs = pq.read_table(folder / "truth" / "jobs.parquet").to_pylist()
    exact = {(job["cluster"], job["job_id"]): job for job in jobs if job["is_exact"]}
    assert len(exact) > 0.9 * len(jobs)
    return exact


def test_every_job_is_found(told, truth):
    assert truth.keys() <= told.keys()


@pytest.mark.parametrize("field", PLAIN)
def test_the_figures_of_a_job_are_true(told, truth, field):
    wrong = {
        key: (told[key][field], job[field])
        for key, job in truth.items()
        if told[key][field] != job[field]
    }
    assert wrong == {}


@pytest.mark.parametrize("field", ["component", "stage"])
def test_every_millisecond_is_where_it_was(fleet, told, truth, field):
    _, folder = fleet
    true = {key: Counter() for key in truth}
    for row in pq.read_table(folder / "truth" / "intervals.parquet").to_pylist():
        key = (row["cluster"], row["job_id"])
        if key in true:
            true[key][row[field]] += row["ended_at_ms"] - row["started_at_ms"]
    wrong = {
        key: (told[key][f"{field}s"], dict(sums))
        for key, sums in true.items()
        if told[key][f"{field}s"] != dict(sums)
    }
    assert wrong == {}


def test_interruptions_are_counted_by_their_true_cause(told, truth):
    wrong = {
        key: (told[key]["interruptions"], job["interruptions"])
        for key, job in truth.items()
        if told[key]["interruptions"] != dict(job["interruptions"])
    }
    assert wrong == {}
