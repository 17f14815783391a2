"""Published rows and figures of whole jobs."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from pipelines.intervals import DAY_MS
from pipelines.metrics import facts
from tests.frames import frame, rows, tuples

NAMED = "job long, cluster string, job_id string, model string, team string, priority string"
PIECE = (
    "job long, att long, attempt long, begin long, end long, component string, stage string,"
    " gpus long, is_inferred boolean, cause string, gating_rank long"
)
ATTEMPT = (
    "job long, att long, attempt long, index long, begin long, end long, outcome string, gpus long,"
    " is_held boolean, end_kind string, is_cut boolean, is_presumed_dead boolean,"
    " is_censored boolean, cluster string, job_id string"
)
SPAN = "job long, att long, first_mark long, last_mark long"
FIRST_DAY, SECOND_DAY = date(1970, 1, 1), date(1970, 1, 2)


def at(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def named(spark):
    told = {"job": 1, "cluster": "c", "job_id": "j#2", "model": "m", "team": "t"}
    return frame(spark, NAMED, [told])


def test_jobs_take_their_runs_name_and_dimensions(spark):
    key = {"cluster": "c", "job_id": "j"}
    jobs = frame(
        spark,
        "cluster string, job_id string, run long, job long, name string",
        [key | {"run": 1, "job": 1, "name": "j"}, key | {"run": 2, "job": 2, "name": "j#2"}],
    )
    dimensions = frame(
        spark,
        "cluster string, job_id string, run long, model string, team string, priority string",
        [key | {"run": 2, "model": "m"}],
    )
    assert tuples(facts.named_jobs(jobs, dimensions), "job", "job_id", "model") == [
        (1, "j", None),
        (2, "j#2", "m"),
    ]


def test_intervals_are_cut_at_midnight(spark):
    piece = {"job": 1, "attempt": 0, "begin": DAY_MS - 10, "end": DAY_MS + 5, "gpus": 8}
    words = {"component": "compile", "stage": "wasted_training", "is_inferred": True}
    told = facts.interval_rows(frame(spark, PIECE, [piece | words]), named(spark))
    usual = {
        "cluster": "c", "job_id": "j#2", "attempt": 0, "component": "compile",
        "stage": "wasted_training", "gpus": 8, "is_inferred": True, "cause": None,
        "gating_rank": None, "model": "m", "team": "t",
    }  # fmt: skip
    assert rows(told) == [
        usual
        | {"ds": FIRST_DAY, "started_at": at(DAY_MS - 10), "ended_at": at(DAY_MS)}
        | {"duration_ms": 10, "gpu_ms": 80},
        usual
        | {"ds": SECOND_DAY, "started_at": at(DAY_MS), "ended_at": at(DAY_MS + 5)}
        | {"duration_ms": 5, "gpu_ms": 40},
    ]


def attempts(spark):
    """Attempt 4 over midnight, attempt 5 of no length."""
    usual = {
        "job": 1, "gpus": 8, "is_held": False, "is_cut": False, "is_presumed_dead": False,
        "is_censored": False, "outcome": "failed", "end_kind": "attempt_ended", "cluster": "c",
        "job_id": "j",
    }  # fmt: skip
    over_midnight = {"att": 1, "attempt": 4, "index": 0, "begin": DAY_MS - 10, "end": DAY_MS + 5}
    without_length = {"att": 2, "attempt": 5, "index": 1, "begin": DAY_MS, "end": DAY_MS}
    return frame(spark, ATTEMPT, [usual | over_midnight, usual | without_length])


def test_attempts_are_told_whole_on_each_day_they_touch(spark):
    spans = frame(spark, SPAN, [{"att": 1, "first_mark": DAY_MS - 5, "last_mark": DAY_MS}])
    outside = frame(
        spark, "att long, outside_line_count long", [{"att": 2, "outside_line_count": 3}]
    )
    told = facts.attempt_rows(attempts(spark), spans, outside, named(spark))
    columns = ("ds", "job_id", "attempt", "attempt_index", "started_at", "first_mark_at")
    assert tuples(told, *columns, "outside_line_count") == [
        (FIRST_DAY, "j#2", 4, 0, at(DAY_MS - 10), at(DAY_MS - 5), 0),
        (SECOND_DAY, "j#2", 4, 0, at(DAY_MS - 10), at(DAY_MS - 5), 0),
        (SECOND_DAY, "j#2", 5, 1, at(DAY_MS), None, 3),
    ]


def test_phases_are_cut_at_midnight(spark):
    joined = frame(
        spark,
        "job long, att long, phase string, is_blocking boolean, begin long, end long,"
        " is_inferred boolean, gating_rank long",
        [
            {"job": 1, "att": 1, "phase": "compile", "is_blocking": False, "is_inferred": False}
            | {"begin": DAY_MS - 3, "end": DAY_MS + 2, "gating_rank": 7}
        ],
    )
    told = facts.phase_rows(joined, attempts(spark), named(spark))
    columns = ("ds", "attempt", "component", "duration_ms", "is_blocking", "gating_rank")
    assert tuples(told, *columns) == [
        (FIRST_DAY, 4, "compile", 3, False, 7),
        (SECOND_DAY, 4, "compile", 2, False, 7),
    ]


STRUCK = "job long, att long, place long, kind string, began long, cause string"


def test_interruptions_are_told_on_the_day_they_began(spark):
    struck = [
        {"att": 1, "place": 9, "kind": "restart", "began": DAY_MS - 1, "cause": "network"},
        {"att": 1, "place": 4, "kind": "notice", "began": DAY_MS - 1, "cause": "network"},
        {"att": 2, "place": 7, "kind": "end", "began": DAY_MS, "cause": "user_code"},
    ]
    struck = [{"job": 1} | one for one in struck]
    told = facts.interruption_rows(frame(spark, STRUCK, struck), attempts(spark), named(spark))
    columns = ("ds", "attempt", "interruption_index", "kind", "cause", "is_infrastructure")
    assert tuples(told, *columns) == [
        (FIRST_DAY, 4, 0, "notice", "network", True),
        (FIRST_DAY, 4, 1, "restart", "network", True),
        (SECOND_DAY, 5, 0, "end", "user_code", False),
    ]
    assert tuples(told, "began_at", "kind")[0] == (at(DAY_MS - 1), "notice")


def test_a_recovery_has_the_cause_of_the_latest_interruption_begun_by_then(spark):
    recovered = [
        {"job": 1, "from_att": 1, "to_att": 1, "seq": 3, "begin": 5, "end": 8, "new_data": 9},
        {"job": 1, "from_att": 1, "to_att": 1, "seq": 6, "begin": 20, "end": 25, "new_data": None},
        {"job": 1, "from_att": 1, "to_att": 2, "seq": 9, "begin": 30, "end": 99, "new_data": 99},
    ]
    struck = [
        {"job": 1, "att": 1, "place": 6, "began": 20, "cause": "network"},
        {"job": 1, "att": 1, "place": 8, "began": 30, "cause": "storage"},
        {"job": 1, "att": 1, "place": 9, "began": 30, "cause": "hardware"},
        {"job": 1, "att": 2, "place": 1, "began": 31, "cause": "timeout"},
    ]
    columns = "job long, from_att long, to_att long, seq long, begin long, end long, new_data long"
    told = facts.recovery_rows(
        frame(spark, columns, recovered),
        frame(spark, STRUCK, struck),
        attempts(spark),
        named(spark),
    )
    shown = ("started_at", "from_attempt", "to_attempt", "ttr_ms", "time_to_new_data_ms", "cause")
    assert tuples(told, *shown) == [
        (at(5), 4, 4, 3, 4, None),
        (at(20), 4, 4, 5, None, "network"),
        (at(30), 4, 5, 69, 69, "hardware"),
    ]


@pytest.mark.parametrize(
    ("said", "durable", "lost"),
    [
        ({"outcome": "succeeded"}, [5], 0),
        ({"outcome": "failed", "is_censored": True}, [5], 0),
        ({"outcome": "failed"}, [], None),
        # Beyond step 5: half of the pair to 6; of that to 9 what is new; all of the one to 12.
        ({"outcome": "failed"}, [3, 5], 50 + 60 + 300),
        ({"outcome": "failed"}, [12], 0),
    ],
)
def test_the_effective_time_beyond_the_last_durable_checkpoint(spark, said, durable, lost):
    pairs = [
        {"seq": 1, "s0": 0, "s1": 4, "f0": 0, "f1": 400},
        {"seq": 2, "s0": 4, "s1": 6, "f0": 400, "f1": 500},
        {"seq": 3, "s0": 6, "s1": 9, "f0": 500, "f1": 600},  # 40 ms of it trained before
        {"seq": 4, "s0": 9, "s1": 12, "f0": 600, "f1": 900},
    ]
    fixed = {"job": 1, "att": 1, "is_progress": True}
    told = facts.lost_tails(
        frame(
            spark,
            "job long, outcome string, is_censored boolean",
            [{"job": 1, "is_censored": False} | said],
        ),
        frame(spark, "job long, step long", [{"job": 1, "step": step} for step in durable]),
        frame(
            spark,
            "job long, att long, seq long, s0 long, s1 long, f0 long, f1 long, is_progress boolean",
            [fixed | pair for pair in pairs],
        ),
        frame(
            spark,
            "att long, seq long, repeated_ms long, effective_ms long",
            [{"att": 1, "seq": 3, "repeated_ms": 40, "effective_ms": 60}],
        ),
    )
    assert tuples(told) == [(1, lost)]


def test_a_job_without_an_attempt_waits_and_has_no_ratio(spark):
    """Job 1 trained for 60 of 100 ms on 8 accelerators; job 2 was only submitted.

    Of the training of job 3 no source could tell.
    """
    jobs = [{"job": job, "cluster": "c", "job_id": f"j{job}"} for job in (1, 2, 3)]
    usual = {"job": 1, "attempt": 0, "gpus": 8, "is_inferred": False}
    pieces = [
        usual | {"begin": 0, "end": 40, "component": "compile", "stage": "time_to_start"},
        usual | {"begin": 40, "end": 100, "component": "effective_training", "stage": "effective"},
        usual
        | {"job": 3, "end": 50, "component": "unattributed", "stage": "time_to_start"}
        | {"begin": 0},
    ]
    told_by = [
        {"job": 1, "sources": "lifecycle", "is_training_told": True},
        {"job": 2, "sources": "lifecycle", "is_training_told": True},
        {"job": 3, "sources": "slurm", "is_training_told": False},
    ]
    miles = {
        "job": 1, "wall_begin": 0, "wall_end": 100, "first_progress": 40, "last_progress": 100,
        "outcome": "succeeded", "is_censored": False, "is_presumed_dead": False,
    }  # fmt: skip
    told = facts.job_facts(
        {
            "named": frame(spark, NAMED, jobs),
            "pieces": frame(spark, PIECE, pieces),
            "milestones": frame(
                spark,
                "job long, wall_begin long, wall_end long, first_progress long, last_progress long,"
                " outcome string, is_censored boolean, is_presumed_dead boolean",
                [miles],
            ),
            "attempts": attempts(spark).where("att = 1"),
            "interruptions": frame(
                spark, STRUCK, [{"job": 1, "cause": "network"}, {"job": 1, "cause": "cancelled"}]
            ),
            "recovered": frame(spark, "job long", []),
            "joined": frame(
                spark, "job long, phase string, is_blocking boolean, begin long, end long", []
            ),
            "lost_tails": frame(spark, "job long, lost_tail_ms long", [{"job": 1}]),
            "queues": frame(
                spark,
                "job long, queue_wait_ms long, first_line long",
                [
                    {"job": 1, "queue_wait_ms": 7, "first_line": 0},
                    {"job": 2, "queue_wait_ms": 9, "first_line": DAY_MS},
                ],
            ),
            "told_by": frame(spark, "job long, sources string, is_training_told boolean", told_by),
            "uncertain": frame(spark, "job long", [{"job": 1}]),
        }
    )
    figures = ("wall_ms", "held_gpu_ms", "effective_gpu_ms", "ett_ratio", "gpu_ett_ratio", "tts_ms")
    assert tuples(told, "job_id", *figures) == [
        ("j1", 100, 800, 480, 0.6, 0.6, 40),
        ("j2", 0, 0, 0, None, None, None),
        ("j3", 50, 400, 0, None, None, None),
    ]
    assert tuples(told, "job_id", "sources", "is_position_uncertain") == [
        ("j1", "lifecycle", True),
        ("j2", "lifecycle", False),
        ("j3", "slurm", False),
    ]
    whole, told = told, told.where("job < 3")
    counts = ("interruption_count", "failure_count", "attempt_count", "recovery_count")
    assert tuples(told, "job_id", *counts) == [("j1", 2, 1, 1, 0), ("j2", 0, 0, 0, 0)]
    others = ("is_censored", "outcome", "queue_wait_ms", "lost_tail_ms")
    assert tuples(told, "job_id", *others) == [
        ("j1", False, "succeeded", 7, None),
        ("j2", True, None, 9, 0),
    ]
    intervals = facts.interval_rows(frame(spark, PIECE, pieces), frame(spark, NAMED, jobs))
    days = facts.job_days(intervals, whole)
    figures = ("wall_ms", "effective_ms", "untold_ms", "untold_gpu_ms")
    assert tuples(days.where("job_id = 'j3' AND wall_ms > 0"), *figures) == [(50, 0, 50, 400)]
    days = days.where("job_id <> 'j3'")
    assert tuples(days, "ds", "job_id", "wall_ms", "effective_ms", "is_censored") == [
        (FIRST_DAY, "j1", 100, 60, False),
        (SECOND_DAY, "j2", 0, 0, True),
    ]
