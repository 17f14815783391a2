"""The envelope of an attempt: when it started and ended, how, and on how many accelerators."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from pipelines.metrics import attempts
from tests.frames import frame, tuples
from tests.metrics.lines import OF_ONE_JOB, placed_lines, placed_marks

AS_OF, DEAD_AFTER = 1000, 100
JOBS = "cluster string, job_id string, run long, job long, name string"
ENVELOPE = (
    "cluster string, job_id string, run long, attempt long, job long, att long, index long,"
    " begin long, end long, is_last boolean, is_presumed boolean"
)
SPAN = "att long, first_mark long, last_mark long"


def test_jobs_are_numbered_and_later_runs_named(spark):
    lines = placed_lines(
        spark,
        {"job_id": "b"},
        {"job_id": "a", "run": 2},
        {"job_id": "a"},
        {"cluster": "a", "job_id": "z", "run": 3},
    )
    jobs = attempts.jobs_from_lines([lines, placed_marks(spark, {"job_id": "b"})])
    assert tuples(jobs, "job", "cluster", "name") == [
        (1, "a", "z#3"),
        (2, "c", "a"),
        (3, "c", "a#2"),
        (4, "c", "b"),
    ]


def envelopes(spark, *, marks=(), others=(), control=()):
    """Of jobs named by numbers from 0."""
    jobs = [
        {"cluster": "c", "job_id": f"{n}", "run": 1, "job": n, "name": f"{n}"} for n in range(9)
    ]
    return attempts.envelopes(
        placed_marks(spark, *marks),
        placed_lines(spark, *others),
        placed_lines(spark, *control),
        frame(spark, JOBS, jobs),
        as_of=AS_OF,
        dead_after=DEAD_AFTER,
    )


START, END = {"event": "attempt_started", "at": 5}, {"event": "attempt_ended"}
FINISH = {"event": "job_finished"}


def of_jobs(lines):
    """Lines of several jobs in one list."""
    return [{"job_id": f"{n}"} | line for n, own in enumerate(lines) for line in own]


def test_the_end_of_the_last_attempt(spark):
    """Each has a mark at 6, which is its last event where nothing later is said."""
    told = [
        ([START, END | {"at": 8}, END | {"at": 9}], [], 9, "attempt_ended"),
        ([START, END | {"at": 4}], [FINISH | {"at": 7}], 7, "job_finished"),
        ([START], [FINISH | {"at": 4}], 6, "presumed"),  # finished before it started
        ([START], [], 6, "presumed"),  # silent for dead_after
        ([START, {"at": AS_OF - DEAD_AFTER}], [], AS_OF - DEAD_AFTER, "presumed"),
        ([START, {"at": AS_OF - DEAD_AFTER + 1}], [], AS_OF, "as_of"),
    ]
    found = envelopes(
        spark,
        marks=of_jobs([{"at": 6}] for _ in told),
        others=of_jobs(others for others, *_ in told),
        control=of_jobs(control for _, control, *_ in told),
    )
    columns = ("job", "begin", "end", "end_kind", "is_presumed_dead", "is_censored")
    assert tuples(found, *columns) == [
        (job, 5, end, kind, kind == "presumed", kind == "as_of")
        for job, (*_, end, kind) in enumerate(told)
    ]


def test_attempts_in_order_and_one_cut_by_its_successor(spark):
    told = envelopes(
        spark,
        marks=of_jobs([[{"at": 3, "attempt": 7}, {"at": 25, "attempt": 2}]]),
        others=of_jobs(
            [
                [
                    START | {"at": 10, "attempt": 1},
                    END | {"at": 30, "attempt": 1},
                    START | {"at": 20, "attempt": 2},
                    START | {"at": 22, "attempt": 2},  # the earliest start counts
                ]
            ]
        ),
        control=of_jobs([[FINISH | {"at": 40}]]),
    )
    columns = ("att", "attempt", "begin", "end", "end_kind", "is_cut", "is_last")
    assert tuples(told, *columns) == [
        (1, 7, 3, 3, "presumed", False, False),  # never started: from its earliest event
        (2, 1, 10, 20, "attempt_ended", True, False),
        (3, 2, 20, 40, "job_finished", False, True),
    ]


def three_attempts(spark):
    told = [
        OF_ONE_JOB
        | {"run": 1, "attempt": n, "job": 1, "att": n + 1, "index": n, "begin": 10 * n}
        | {"end": 10 * n + 8, "is_last": n == 2, "is_presumed": False}
        for n in range(3)
    ]
    return frame(spark, ENVELOPE, told)


@pytest.mark.parametrize(
    ("starts", "held"),
    [
        ([], [(1, 0, False), (2, 0, False), (3, 0, False)]),
        (
            [{"attempt": 1, "gpus": 8}, {"attempt": 2, "is_held": True}],
            [(1, 8, False), (2, 8, False), (3, 8, True)],
        ),
        (
            [
                {"attempt": 0, "at": 5, "gpus": 4, "rank": 0},
                {"attempt": 0, "at": 5, "gpus": 6, "rank": 0},  # the highest of equal ones
                {"attempt": 0, "at": 5, "gpus": 64, "rank": 1},
                {"attempt": 0, "at": 4},
                {"attempt": 0, "at": 9, "gpus": 99},
            ],
            [(1, 6, False), (2, 6, False), (3, 6, False)],
        ),
    ],
)
def test_accelerators_are_as_before_where_nobody_says(spark, starts, held):
    lines = placed_lines(spark, *starts)
    assert tuples(attempts.accelerators(three_attempts(spark), lines)) == held


def test_the_outcome_of_the_last_attempt(spark):
    """Each starts at 20 and has its last mark at 25."""
    strike = {"event": "interruption"}
    told = [
        ([], [], "unknown", None),
        ([END | {"at": 25, "outcome": "unknown"}], [], "unknown", None),
        (
            [
                END | {"at": 25, "outcome": "failed", "cause": "network"},
                END | {"at": 26, "outcome": "cancelled", "rank": 1, "cause": "unknown"},
                END | {"at": 26, "outcome": "timed_out", "rank": 0, "cause": "storage"},
                END | {"at": 26, "outcome": "succeeded", "rank": 0},
                END | {"at": 27, "outcome": "unknown"},
                END | {"at": 19, "outcome": "preempted", "cause": "hardware"},  # before it started
            ],
            [FINISH | {"at": 99, "outcome": "failed"}],
            "succeeded",
            "network",
        ),
        ([], [FINISH | {"at": 1, "outcome": "cancelled"}], "cancelled", None),
        ([strike | {"at": 24}], [], "unknown", None),
        ([strike | {"at": 25}], [], "failed", None),  # at the last mark
    ]
    own = {"cluster": "c", "run": 1, "attempt": 0, "begin": 20, "is_last": True}
    known = [own | {"job_id": f"{n}", "att": n, "is_presumed": False} for n in range(len(told))]
    found = attempts.outcomes(
        frame(spark, ENVELOPE, known),
        placed_lines(spark, *of_jobs(others for others, *_ in told)),
        placed_lines(spark, *of_jobs(control for _, control, *_ in told)),
        frame(spark, SPAN, [{"att": n, "last_mark": 25} for n in range(len(told))]),
    )
    assert tuples(found, "att", "outcome", "ended_cause") == [
        (att, outcome, cause) for att, (*_, outcome, cause) in enumerate(told)
    ]


def test_an_end_without_a_word_is_a_failure_where_it_was_presumed_or_struck(spark):
    """Attempt 1 is presumed dead, attempt 2 was struck and has no mark; attempt 3 neither."""
    known = three_attempts(spark).withColumn("is_presumed", F.col("att") == 1)
    found = attempts.outcomes(
        known,
        placed_lines(spark, {"attempt": 1, "event": "interruption", "at": 1}),
        placed_lines(spark),
        frame(spark, SPAN, []),
    )
    assert tuples(found, "att", "outcome") == [(1, "failed"), (2, "failed"), (3, "unknown")]


def test_a_held_gap_keeps_the_fewer_accelerators(spark):
    told = frame(
        spark,
        "job long, att long, index long, begin long, end long, gpus long, is_held boolean",
        [
            {"job": 1, "att": 1, "index": 0, "begin": 0, "end": 10, "gpus": 8, "is_held": False},
            {"job": 1, "att": 2, "index": 1, "begin": 15, "end": 20, "gpus": 6, "is_held": True},
            {"job": 1, "att": 3, "index": 2, "begin": 20, "end": 30, "gpus": 6, "is_held": True},
            {"job": 1, "att": 4, "index": 3, "begin": 31, "end": 40, "gpus": 6, "is_held": False},
            {"job": 2, "att": 5, "index": 0, "begin": 50, "end": 60, "gpus": 6, "is_held": True},
        ],
    )
    assert tuples(attempts.gaps(told), "att", "begin", "end", "is_held", "gpus") == [
        (1, 10, 15, True, 6),
        (3, 30, 31, False, 0),
    ]


def test_lines_outside_are_counted_copies_once(spark):
    marks = placed_marks(
        spark,
        {"at": 9},
        {"at": 9},
        {"at": 9, "rest": 1},  # it says something else besides
        {"at": 8},
        {"at": 5, "attempt": 1},
    )
    others = placed_lines(spark, {"at": 11, "event": "phase_end"}, {"at": 7, "event": "phase_end"})
    told = attempts.outside_counts(three_attempts(spark), marks, others)
    assert tuples(told) == [(1, 3), (2, 1)]


def test_model_team_and_priority_are_the_first_said(spark):
    starts = placed_lines(
        spark, START | {"at": 5, "model": "late", "team": "t5"}, START | {"at": 4, "priority": "p4"}
    )
    control = placed_lines(
        spark,
        {"event": "job_submitted", "at": 1, "model": "m1"},
        {"event": "job_finished", "at": 0, "team": "not asked"},
    )
    told = attempts.dimensions(starts, control)
    assert tuples(told, "model", "team", "priority") == [("m1", "t5", "p4")]


def test_a_job_waits_from_its_submission_to_its_first_start(spark):
    """Jobs 0 and 1 start at 0, before one was submitted: the clocks disagree; 2 and 3 never do."""
    submitted = {"event": "job_submitted"}
    control = [
        [submitted | {"at": 3}, submitted | {"at": 1}],
        [FINISH | {"at": 99}],
        [submitted | {"at": 1}],
        [submitted | {"at": 1}, FINISH | {"at": 7}, FINISH | {"at": 9}],
    ]
    jobs = [{"cluster": "c", "job_id": f"{n}", "run": 1, "job": n} for n in range(len(control))]
    queues = attempts.queues(
        frame(
            spark, ENVELOPE, [{"job": job, "begin": begin} for job in (0, 1) for begin in (0, 9)]
        ),
        placed_lines(spark, *of_jobs(control)),
        frame(spark, JOBS, jobs),
        as_of=AS_OF,
    )
    assert tuples(queues, "job", "queue_wait_ms", "first_line") == [
        (0, -1, 1),
        (1, None, 99),
        (2, AS_OF - 1, 1),
        (3, 8, 1),
    ]
