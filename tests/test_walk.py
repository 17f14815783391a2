"""The walk: what is kept, what stops it, and one job whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pipelines import tables, walk
from pipelines.errors import ConservationError
from tests.frames import AS_OF, Log, frame, rows, tuples

PAIR = "att long, f0 long, f1 long, is_progress boolean"
LABEL = "att long, begin long, end long, component string"
ATTEMPT = "att long, cluster string, name string, attempt long"


def audited(spark, labelled):
    """Two attempts with 10 and 20 ms of progress, and as much of it labelled."""
    pairs = [{"att": att, "f0": 0, "f1": 10 * att, "is_progress": True} for att in (1, 2)]
    labels = [
        {"att": att, "begin": 0, "end": ms, "component": "effective_training"}
        for att, ms in enumerate(labelled, start=1)
    ]
    attempts = [
        {"att": att, "cluster": "west", "name": "j#2", "attempt": att + 6} for att in (1, 2)
    ]
    return {
        "pairs": frame(spark, PAIR, pairs),
        "labels": frame(spark, LABEL, labels),
        "attempts": frame(spark, ATTEMPT, attempts),
    }


def test_progress_that_adds_up_passes(spark):
    walk._audit(audited(spark, [10, 20]))


def test_lost_progress_stops_the_walk_and_names_the_worst_attempt(spark):
    with pytest.raises(ConservationError) as stopped:
        walk._audit(audited(spark, [9, 25]))
    assert str(stopped.value) == (
        "job j#2 in west, attempt 8: its progress intervals have 20 ms of free time, the ledger"
        " gave them 25 ms; nothing was published, please report this log"
    )


# --- one job, whole ------------------------------------------------------------------------------

ZERO = 1_764_576_000_000
OURS = "cluster = 'whole|default'"


def line(second, event, **said):
    return json.dumps({"ts": ZERO + second * 1000, "job_id": "j", "event": event, **said})


CRASHED_AND_RESUMED = [
    line(0, "job_submitted", model="m1", team="ranking"),
    line(5, "attempt_started", attempt=0, gpus=8),
    line(5, "phase_begin", attempt=0, phase="compile"),
    line(15, "phase_end", attempt=0, phase="compile"),
    line(15, "train_begin", attempt=0, step=0),
    *(line(15 + 10 * n, "step", attempt=0, step=n) for n in (1, 2, 3)),
    line(36, "checkpoint_durable", attempt=0, step=2),
    line(50, "interruption", attempt=0, cause="network"),
    line(55, "attempt_ended", attempt=0, outcome="failed"),
    line(60, "attempt_started", attempt=1, gpus=4, held=True),
    line(70, "train_begin", attempt=1, step=2),
    *(line(50 + 10 * n, "step", attempt=1, step=n) for n in (3, 4, 5)),
    line(105, "job_finished", outcome="succeeded"),
]


LOGS = {"whole": Log("whole", CRASHED_AND_RESUMED)}


@pytest.fixture(scope="module")
def frames(shared_walk):
    frames, _ = shared_walk
    return {
        name: frame.where(OURS) if "cluster" in frame.columns else frame
        for name, frame in frames.items()
    }


def at(second):
    return datetime.fromtimestamp(ZERO / 1000 + second, UTC)


def test_the_ledger_of_one_job(frames):
    columns = ("started_at", "ended_at", "component", "stage", "attempt", "gpus", "cause")
    start, waste, recover = "time_to_start", "wasted_training", "time_to_recover"
    assert tuples(frames[tables.LEDGER_INTERVAL.name], *columns) == [
        (at(5), at(15), "compile", start, 0, 8, None),
        (at(15), at(25), "effective_training", "effective", 0, 8, None),  # judged by itself
        (at(25), at(45), "effective_training", "effective", 0, 8, None),
        (at(45), at(55), "failure_detection", recover, 0, 8, "network"),
        (at(55), at(60), "restart_gap", recover, None, 4, "network"),
        (at(60), at(70), "unattributed", recover, 1, 4, "network"),
        (at(70), at(80), "repeated_training", waste, 1, 4, "network"),
        (at(80), at(100), "effective_training", "effective", 1, 4, None),
        (at(100), at(105), "teardown", "shutdown", 1, 4, None),
    ]


def test_the_scorecard_and_charges_of_one_job(frames):
    settings = walk.Settings(AS_OF)
    (card,) = rows(walk.scorecard(frames, settings)[tables.SCORECARD_JOB.name])
    assert {name: card[name] for name in ("model", "team", "ett_ratio", "tts_ms")} == {
        "model": "m1",
        "team": "ranking",
        "ett_ratio": 0.5,
        "tts_ms": 10_000,
    }
    (recovery,) = rows(
        frames[tables.SCORECARD_RECOVERY.name], "ttr_ms", "time_to_new_data_ms", "cause"
    )
    assert recovery == {"ttr_ms": 25_000, "time_to_new_data_ms": 35_000, "cause": "network"}
    charged = walk.charges(frames, settings)[tables.CHARGES_CAUSE.name]
    assert tuples(charged, "cause", "lost_ms", "lost_gpu_ms") == [
        (None, 15_000, 100_000),
        ("network", 35_000, 80_000 + 20_000 + 40_000 + 40_000),
    ]
