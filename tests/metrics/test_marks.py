"""Marks: whose lines are believed, what position counts, and what lies between two of them."""

from __future__ import annotations

import pytest

from pipelines.metrics import marks
from tests.frames import frame, tuples
from tests.metrics.lines import OF_ONE_JOB, placed_marks

ENVELOPE = (
    "cluster string, job_id string, run long, attempt long, job long, att long, begin long,"
    " end long"
)
BELIEVED = "job long, att long, at long, turn int, step long, samples long"
COVER = "job long, att long, begin long, end long"
STRIKE = "job long, att long, at long, cause string"


def envelope(spark, begin, end):
    own = {"run": 1, "attempt": 0, "job": 1, "att": 1, "begin": begin, "end": end}
    return frame(spark, ENVELOPE, [OF_ONE_JOB | own])


def test_the_lowest_emitter_inside_is_believed_for_each_kind(spark):
    """No rank comes before rank 0; ranks say `train_begin` that rank 0 does not."""
    lines = placed_marks(
        spark,
        {"at": 5, "event": "train_begin", "step": 0},  # before the attempt: counts for nothing
        {"at": 10, "event": "train_begin", "step": 0, "rank": 1},
        {"at": 10, "event": "train_begin", "step": 0, "rank": 2},
        {"at": 20, "step": 1, "rank": 0, "host": "b"},
        {"at": 21, "step": 1, "rank": 0, "host": "a"},
        {"at": 30, "step": 2, "rank": 0, "host": "a"},
        {"at": 30, "event": "train_begin", "step": 2, "rank": 1},
        {"at": 31, "step": 3, "rank": 0, "host": "a"},  # after the attempt
    )
    attempts = envelope(spark, 10, 30)
    believed = marks.lowest_emitters(marks.emitters(marks.marks_inside(lines, attempts)))
    spans = marks.mark_spans(believed)
    assert tuples(believed, "event", "e_rank", "e_host", "line_count") == [
        ("step", 0, "a", 2),
        ("train_begin", 1, "", 2),
    ]
    assert tuples(spans) == [(1, 1, 10, 30)]
    # At one millisecond the step comes first, except at the attempt's first mark.
    assert tuples(marks.believed_marks(lines, believed, attempts, spans), "at", "turn", "step") == [
        (10, 0, 0),
        (21, 1, 1),
        (30, 1, 2),
        (30, 2, 2),
    ]


@pytest.mark.parametrize(
    ("told", "by_samples"),
    [
        ([(1, 5, None), (2, 6, None)], False),
        ([(1, 5, 50), (2, 6, 60)], True),
        ([(1, 5, 50), (2, 6, None)], False),
        ([(1, 5, 50), (1, 5, None), (1, 4, None)], True),  # the one without is no mark: folded
        ([(1, 5, 50), (1, 6, None)], False),  # the higher step counts, and lacks samples
    ],
)
def test_samples_are_the_position_where_every_mark_has_them(spark, told, by_samples):
    lines = [
        {"job": 1, "att": 1, "at": at, "turn": 1, "step": step, "samples": samples}
        for at, step, samples in told
    ]
    with_samples = sum(samples is not None for *_, samples in told)
    believed = frame(
        spark,
        "job long, line_count long, samples_count long",
        [{"job": 1, "line_count": len(told), "samples_count": with_samples}],
    )
    assert tuples(marks.positions(believed, frame(spark, BELIEVED, lines))) == [(1, by_samples)]


BEGIN, STEP, AGAIN = 0, 1, 2  # turns: the first train_begin, a step, a later train_begin


def pairs(spark, told, *, covers=(), strikes=(), by_samples=False):
    """The pairs of marks (attempt, at, turn, step) or (…, samples) of one job."""
    names = ("att", "at", "turn", "step", "samples")
    lines = [{"job": 1} | dict(zip(names, mark, strict=False)) for mark in told]
    return marks.pairs(
        frame(spark, BELIEVED, lines),
        frame(spark, "job long, by_samples boolean", [{"job": 1, "by_samples": by_samples}]),
        frame(spark, COVER, [{"job": 1, "att": a, "begin": b, "end": e} for a, b, e in covers]),
        frame(spark, STRIKE, [{"job": 1, "att": a, "at": at} for a, at in strikes]),
    )


def test_pairs_know_the_time_without_phases_and_the_highest_position_before(spark):
    """Attempt 1 runs steps 1 to 4 with a save from 13 to 17; attempt 2 begins again at step 2."""
    told = pairs(
        spark,
        [
            (1, 10, BEGIN, 0),
            (1, 12, STEP, 1),
            (1, 20, STEP, 4),
            (2, 50, BEGIN, 2),
            (2, 55, STEP, 5),
        ],
        covers=[(1, 13, 17), (2, 51, 52)],
    )
    assert tuples(told, "att", "t0", "t1", "f0", "f1", "n", "p0", "s0", "s1", "high") == [
        (1, None, 10, None, 10, None, None, None, 0, None),
        (1, 10, 12, 10, 12, 1, 0, 0, 1, 0),
        (1, 12, 20, 12, 16, 3, 1, 1, 4, 1),
        (2, None, 50, None, 46, None, None, None, 2, 4),
        (2, 50, 55, 46, 50, 3, 2, 2, 5, 4),
    ]


def test_a_mark_under_a_phase_has_the_free_time_of_its_begin(spark):
    told = pairs(spark, [(1, 0, BEGIN, 0), (1, 6, STEP, 1), (1, 9, STEP, 2)], covers=[(1, 4, 8)])
    assert tuples(told, "t1", "f1") == [(0, 0), (6, 4), (9, 5)]


def test_what_a_pair_is(spark):
    told = pairs(
        spark,
        [
            (1, 0, BEGIN, 0),
            (1, 10, STEP, 1),  # progress, the first
            (1, 20, STEP, 1),  # nothing gained: neither
            (1, 30, STEP, 2),  # progress after a pair that was no training: a resume
            (1, 40, STEP, 3),
            (1, 50, AGAIN, 2),  # a rollback
            (1, 60, STEP, 3),  # progress after a train_begin: a resume
            (1, 70, AGAIN, 4),  # rises, but the loop was entered again after an interruption
            (1, 80, STEP, 5),
        ],
        strikes=[(1, 45), (1, 60), (1, 75)],
    )
    columns = ("t1", "is_progress", "is_gap", "is_struck", "is_resume", "is_stretch_start")
    yes, no = True, False
    assert tuples(told, *columns) == [
        (0, no, no, no, no, no),
        (10, yes, no, no, yes, yes),
        (20, no, no, no, no, no),
        (30, yes, no, no, yes, yes),
        (40, yes, no, no, no, no),
        (50, no, yes, yes, no, no),
        (60, yes, no, no, yes, yes),
        (70, no, yes, yes, no, no),
        (80, yes, no, yes, yes, yes),
    ]


def test_of_equal_instants_the_highest_step_and_then_samples_count(spark):
    told = pairs(
        spark,
        [
            (1, 0, BEGIN, 0, 0),
            (1, 9, STEP, 2, 20),
            (1, 9, STEP, 1, 99),  # a lower step, whatever its samples
            (1, 9, STEP, 2, 10),
            (1, 12, STEP, 3, 30),
        ],
        by_samples=True,
    )
    assert tuples(told, "t1", "s1", "n", "high") == [
        (0, 0, None, None),
        (9, 2, 20, 0),
        (12, 3, 10, 20),
    ]
