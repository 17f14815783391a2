"""Stages of a job's life, and its recoveries."""

from __future__ import annotations

import pytest

from pipelines.metrics import stages
from tests.frames import frame, tuples

EDGE = "job long, att long, seq long, t0 long, t1 long, is_gap boolean, is_stretch_start boolean"
SPAN = "job long, att long, first_mark long, last_mark long"
RUN = "job long, att long, seq long, begin long, end long, gap_count long"
ATTEMPT = (
    "job long, att long, begin long, end long, outcome string, is_last boolean,"
    " is_censored boolean, is_presumed_dead boolean"
)
MILES = (
    "job long, wall_begin long, wall_end long, first_progress long, last_progress long,"
    " last_att long, outcome string, is_censored boolean, is_presumed_dead boolean,"
    " last_mark long, is_trained boolean, is_gap_after boolean"
)
RECOVERY = "job long, from_att long, to_att long, seq long, begin long, end long"


def edges(spark, *told):
    """(attempt, seq, t0, t1, what): a start of progress, a restart_gap, or an idle pair."""
    return frame(
        spark,
        EDGE,
        [
            {"job": 1, "att": att, "seq": seq, "t0": t0, "t1": t1}
            | {"is_gap": what == "gap", "is_stretch_start": what == "start"}
            for att, seq, t0, t1, what in told
        ],
    )


def spans(spark, *told):
    return frame(spark, SPAN, [{"job": 1, "att": a, "last_mark": mark} for a, mark in told])


def test_stretches_of_progress_and_recoveries_between_them(spark):
    """A rollback is recovered from, an idle pair is not one; nor is an attempt without progress."""
    course = edges(
        spark,
        (1, 2, 10, 20, "start"),
        (1, 4, 30, 35, "idle"),
        (1, 5, 35, 40, "start"),
        (1, 6, 50, 60, "gap"),
        (1, 7, 60, 70, "start"),
        (3, 12, 200, 210, "start"),
    )
    told = stages.stretches(course, spans(spark, (1, 90), (2, 150), (3, 240)))
    assert tuples(told, "att", "seq", "begin", "end", "gap_count") == [
        (1, 2, 10, 30, 0),
        (1, 5, 35, 50, 0),
        (1, 7, 60, 90, 1),
        (3, 12, 200, 240, 1),
    ]
    recovered = stages.recoveries(told)
    assert tuples(recovered, "from_att", "to_att", "seq", "begin", "end") == [
        (1, 1, 7, 50, 60),
        (1, 3, 12, 90, 200),
    ]


def test_new_data_after_a_recovery(spark):
    """The first effective row at or after its end; none yet after the last."""
    recovered = [
        {"job": 1, "seq": 5, "begin": 5, "end": 10},
        {"job": 1, "seq": 6, "begin": 15, "end": 20},
        {"job": 1, "seq": 9, "begin": 30, "end": 40},
    ]
    told = [
        (0, "effective_training"),
        (12, "repeated_training"),
        (20, "effective_training"),
        (45, "evaluation"),
    ]
    rows = frame(
        spark,
        "job long, begin long, component string",
        [{"job": 1, "begin": begin, "component": component} for begin, component in told],
    )
    told = stages.with_new_data(frame(spark, RECOVERY, recovered), rows)
    assert tuples(told, "seq", "new_data") == [(5, 20), (6, 20), (9, None)]


@pytest.mark.parametrize(
    ("runs", "course", "trained"),
    [
        ([], [], (None, None, None, False)),
        ([(1, 3, 10, 50)], [(1, 9, 60, 65, "gap")], (10, 50, False, False)),
        ([(1, 3, 10, 50), (2, 8, 100, 120)], [(2, 7, 90, 95, "gap")], (10, 120, True, False)),
        ([(2, 8, 100, 120)], [(2, 9, 120, 130, "gap")], (100, 120, True, True)),
    ],
)
def test_milestones(spark, runs, course, trained):
    ran = [{"job": 1, "att": a, "seq": s, "begin": b, "end": e} for a, s, b, e in runs]
    attempts = [
        {"job": 1, "att": 1, "begin": 5, "end": 80, "is_last": False},
        {"job": 1, "att": 2, "begin": 85, "end": 140, "is_last": True, "outcome": "failed"},
    ]
    miles = stages.milestones(
        frame(spark, ATTEMPT, attempts),
        frame(spark, RUN, ran),
        edges(spark, *course),
        spans(spark, (1, 70), (2, 130)),
    )
    told = ("first_progress", "last_progress", "is_trained", "is_gap_after")
    assert tuples(miles, *told) == [trained]
    known = ("wall_begin", "wall_end", "last_att", "outcome", "last_mark")
    assert tuples(miles, *known) == [(5, 140, 2, "failed", 130)]


START, RECOVER, WASTE, SHUTDOWN = (
    "time_to_start",
    "time_to_recover",
    "wasted_training",
    "shutdown",
)
# What follows the last progress, from 80 on; the last mark is at 90 and the wall ends at 100.
AFTERWARDS = {
    "never trained": ({"first_progress": None}, [(0, 100, START)]),
    "succeeded": ({}, [(80, 90, WASTE), (90, 100, SHUTDOWN)]),
    "failed": ({"outcome": "failed"}, [(80, 90, WASTE), (90, 100, RECOVER)]),
    "presumed dead": ({"is_presumed_dead": True}, [(80, 90, WASTE), (90, 100, RECOVER)]),
    "runs on": ({"is_censored": True}, [(80, 90, WASTE), (90, 100, WASTE)]),
    "rolled back": ({"is_gap_after": True}, [(80, 90, RECOVER), (90, 100, SHUTDOWN)]),
    "rolled back, runs on": (
        {"is_gap_after": True, "is_censored": True},
        [(80, 90, RECOVER), (90, 100, RECOVER)],
    ),
    "trained before the last attempt": ({"is_trained": False}, [(80, 100, RECOVER)]),
}


def test_every_instant_of_a_job_has_a_stage(spark):
    """Each job trains from 10 to 80, and recovers from 30 to 40, save the one that never did."""
    usual = {
        "wall_begin": 0, "wall_end": 100, "first_progress": 10, "last_progress": 80,
        "outcome": "succeeded", "is_censored": False, "is_presumed_dead": False, "last_mark": 90,
        "is_trained": True, "is_gap_after": False,
    }  # fmt: skip
    miles = [usual | {"job": job} | said for job, (said, _) in enumerate(AFTERWARDS.values())]
    miles[0] |= {"last_progress": None, "is_trained": None, "last_mark": None}
    recovered = [
        {"job": job, "seq": 5, "begin": 30, "end": 40} for job in range(1, len(AFTERWARDS))
    ]
    told = stages.stage_tiling(frame(spark, MILES, miles), frame(spark, RECOVERY, recovered))
    before = [(0, 10, START), (10, 30, WASTE), (30, 40, RECOVER), (40, 80, WASTE)]
    tiles = {job: [] for job in range(len(AFTERWARDS))}
    for job, *tile in tuples(told, "job", "begin", "end", "stage"):
        tiles[job].append(tuple(tile))
    for job, (name, (_, after)) in enumerate(AFTERWARDS.items()):
        assert tiles[job] == ([] if name == "never trained" else before) + after, name
