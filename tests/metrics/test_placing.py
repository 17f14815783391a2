"""Which run of a reused id a line belongs to, and which attempt."""

from __future__ import annotations

import pytest

from pipelines.metrics import placing
from tests.frames import frame, tuples

CONTROL = "cluster string, job_id string, at long, event string"
STARTS = "cluster string, job_id string, run long, at long, attempt long, rank long, host string"
JOB = {"cluster": "default", "job_id": "a"}


@pytest.mark.parametrize(
    ("told", "runs"),
    [
        ([(0, "attempt_started"), (5, "job_finished")], []),
        ([(0, "attempt_started"), (5, "job_finished"), (9, "job_submitted")], [(9, 2)]),
        ([(5, "job_finished"), (5, "attempt_started")], []),
        # At 9 the start opens a run; the finish of that millisecond is still the run before's.
        (
            [
                (5, "job_finished"),
                (9, "attempt_started"),
                (9, "job_finished"),
                (20, "job_submitted"),
            ],
            [(9, 2)],
        ),
        (
            [
                (5, "job_finished"),
                (9, "attempt_started"),
                (12, "job_finished"),
                (20, "job_submitted"),
            ],
            [(9, 2), (20, 3)],
        ),
    ],
)
def test_a_start_later_than_a_finish_opens_a_run(spark, told, runs):
    lines = frame(spark, CONTROL, [JOB | {"at": at, "event": event} for at, event in told])
    assert tuples(placing.run_starts(lines), "at", "run") == runs


@pytest.mark.parametrize(
    ("told", "numbers"),
    [
        ([(0, None, None), (5, None, None)], [(0, 0), (5, 1)]),
        (
            [(0, 4, None), (5, None, None), (9, 2, None), (12, None, None)],
            [(0, 4), (5, 5), (9, 2), (12, 3)],
        ),
        # Of unnumbered starts only the lowest emitter's are read: no rank comes before rank 0.
        ([(0, None, None), (3, None, 0), (5, None, None)], [(0, 0), (5, 1)]),
    ],
)
def test_an_unnumbered_start_takes_the_next_number(spark, told, numbers):
    lines = [JOB | {"run": 1, "at": at, "attempt": n, "rank": rank} for at, n, rank in told]
    believed = placing.believed_starts(frame(spark, STARTS, lines))
    assert tuples(believed, "at", "attempt") == numbers
