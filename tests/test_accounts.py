"""Accounts as dictionaries, from rows of one job."""

from __future__ import annotations

from datetime import UTC, date, datetime

from pipelines.accounts import account

FACT = {
    "cluster": "west", "job_id": "j", "wall_ms": 100, "held_gpu_ms": 800, "effective_gpu_ms": 400,
    "ett_ratio": 0.5, "lost_tail_ms": None, "queue_wait_ms": -3, "tts_ms": 40,
    "is_censored": True, "is_clock_conflict": False, "is_presumed_dead": True,
    "is_position_uncertain": False, "sources": "slurm, steps",
}  # fmt: skip
D1, D2 = date(2026, 11, 1), date(2026, 11, 2)


def at(hour):
    return datetime(2026, 11, 1, hour, tzinfo=UTC)


def summed(ds, component, stage, ms):
    return {"ds": ds, "component": component, "stage": stage, "duration_ms": ms}


def test_a_job_in_the_shape_of_the_cases():
    told = account(
        FACT,
        interval=[
            summed(D2, "effective_training", "effective", 40),
            summed(D1, "effective_training", "effective", 10),
            summed(D1, "compile", "time_to_start", 25),
            summed(D1, "compile", "wasted_training", 5),
            summed(D2, "teardown", "shutdown", 20),
        ],
        phase=[
            {"component": "compile", "is_blocking": True, "duration_ms": 30},
            {"component": "checkpoint_save", "is_blocking": False, "duration_ms": 7},
        ],
        recovery=[
            {"started_at": at(9), "resumed_at": at(10), "ttr_ms": 2, "time_to_new_data_ms": None},
            {"started_at": at(4), "resumed_at": at(5), "ttr_ms": 1, "time_to_new_data_ms": 3},
        ],
        interruption=[{"cause": "network"}, {"cause": "hardware"}, {"cause": "network"}],
    )
    assert told == {
        "cluster": "west",
        "job_id": "j",
        "wall_ms": 100,
        "components": {"compile": 30, "effective_training": 50, "teardown": 20},
        "stages": {"effective": 50, "time_to_start": 25, "wasted_training": 5, "shutdown": 20},
        "held_gpu_ms": 800,
        "effective_gpu_ms": 400,
        "ett_ratio": 0.5,
        "ttr_ms": [1, 2],
        "time_to_new_data_ms": [3, None],
        "interruptions": {"hardware": 1, "network": 2},
        "flags": ["censored", "presumed_dead"],
        "hidden_ms": {"checkpoint_save": 7},
        "lost_tail_ms": None,
        "queue_wait_ms": -3,
        "sources": ["slurm", "steps"],
        "tts_ms": 40,
        "days": {
            "2026-11-01": {"compile": 30, "effective_training": 10},
            "2026-11-02": {"effective_training": 40, "teardown": 20},
        },
    }


def test_the_default_cluster_is_not_named():
    told = account(
        FACT | {"cluster": "default"}, interval=[], phase=[], recovery=[], interruption=[]
    )
    assert "cluster" not in told
    assert told["components"] == told["stages"] == told["days"] == {}
