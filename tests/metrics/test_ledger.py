"""The ledger: free time labelled, brought back to wall time, and cut by stage and cause."""

from __future__ import annotations

from pyspark.sql import functions as F

from pipelines.metrics import ledger
from tests.frames import frame, tuples

ATTEMPT = "job long, att long, attempt long, begin long, end long, outcome string, gpus long"
COVER = (
    "job long, att long, begin long, end long, phase string, is_inferred boolean, gating_rank long"
)
ENDS = "att long, f_first long, f_last long"
PAIR = "att long, seq long, f0 long, f1 long, is_gap boolean, is_progress boolean"
PRICED = "att long, f0 long, f1 long, warmup_ms long, repeated_ms long, stall_ms long"
LABEL = "att long, begin long, end long, component string, is_inferred boolean"
ROW = (
    "job long, att long, attempt long, begin long, end long, component string, gpus long,"
    " is_inferred boolean, gating_rank long"
)


def attempts(spark):
    """Attempt 1 from 100 to 160, attempt 2 from 200 to 230."""
    return frame(
        spark,
        ATTEMPT,
        [
            {"job": 1, "att": 1, "begin": 100, "end": 160, "outcome": "failed", "gpus": 8},
            {"job": 1, "att": 2, "begin": 200, "end": 230, "outcome": "succeeded", "gpus": 4},
        ],
    )


def covers(spark):
    """Phases from 110 to 120 and from 120 to 125 in the first, from 225 to its end in the second."""
    told = [(1, 110, 120, "compile"), (1, 120, 125, "evaluation"), (2, 225, 230, "model_publish")]
    return frame(
        spark,
        COVER,
        [
            {"job": 1, "att": att, "begin": b, "end": e, "phase": phase, "is_inferred": False}
            for att, b, e, phase in told
        ],
    )


def clocked(spark):
    return ledger.free_clock(attempts(spark), covers(spark))


def test_the_free_clock_stands_still_under_phases(spark):
    assert tuples(clocked(spark), "att", "f_begin", "f_end") == [(1, 100, 145), (2, 185, 210)]


def test_free_segments_lie_between_the_phases(spark):
    told = ledger.free_segments(clocked(spark), covers(spark))
    assert tuples(told, "att", "begin", "end", "offset") == [
        (1, 100, 110, 0),
        (1, 110, 145, 15),
        (2, 185, 210, 15),
    ]


def test_all_free_time_has_a_label(spark):
    """Before the marks, plain training, what stood out, idle pairs, and after the marks."""
    ends = frame(spark, ENDS, [{"att": 1, "f_first": 104, "f_last": 140}])
    exceptions = [
        {"att": 1, "seq": 3, "f0": 110, "f1": 120, "is_progress": True},
        {"att": 1, "seq": 5, "f0": 125, "f1": 130, "is_gap": True, "is_progress": False},
        {"att": 1, "seq": 6, "f0": 130, "f1": 133, "is_gap": False, "is_progress": False},
    ]
    unusual = frame(spark, PAIR, exceptions)
    parts = {"warmup_ms": 3, "repeated_ms": 2, "stall_ms": 1}
    told = ledger.labels(
        clocked(spark),
        ends,
        ledger.plain_stretches(unusual, ends),
        frame(spark, PRICED, [{"att": 1, "f0": 110, "f1": 120} | parts]),
        unusual.where("NOT is_progress"),
    )
    assert tuples(told) == [
        (1, 100, 104, "unattributed", False),
        (1, 104, 110, "effective_training", False),
        (1, 110, 113, "first_step_warmup", True),
        (1, 113, 115, "repeated_training", False),
        (1, 115, 119, "effective_training", False),
        (1, 119, 120, "stalled", True),
        (1, 120, 125, "effective_training", False),
        (1, 125, 130, "restart_gap", False),
        (1, 130, 133, "unattributed", False),
        (1, 133, 140, "effective_training", False),
        (1, 140, 145, "failure_detection", False),
        (2, 185, 210, "unattributed", False),
    ]


def test_the_time_after_the_last_mark_depends_on_the_outcome(spark):
    outcomes = ["cancelled", "failed", "preempted", "succeeded", "timed_out", "unknown"]
    told = frame(spark, "outcome string", [{"outcome": outcome} for outcome in outcomes])
    component = ledger.after_the_last_mark(F.col("outcome")).alias("component")
    assert tuples(told.select("outcome", component)) == [
        ("cancelled", "teardown"),
        ("failed", "failure_detection"),
        ("preempted", "failure_detection"),
        ("succeeded", "teardown"),
        ("timed_out", "failure_detection"),
        ("unknown", "unattributed"),
    ]


def test_labels_come_back_to_wall_time_around_the_phases(spark):
    labels = frame(
        spark,
        LABEL,
        [
            {"att": 1, "begin": 100, "end": 107, "component": "unattributed"},
            {"att": 1, "begin": 107, "end": 145, "component": "stalled", "is_inferred": True},
        ],
    )
    only = covers(spark).where("att = 1")
    segments = ledger.free_segments(clocked(spark).where("att = 1"), only)
    told = ledger.attempt_rows(labels, segments, only)
    assert tuples(told, "begin", "end", "component") == [
        (100, 107, "unattributed"),
        (107, 110, "stalled"),
        (110, 120, "compile"),
        (120, 125, "evaluation"),
        (125, 160, "stalled"),
    ]


def test_rows_hold_their_attempts_accelerators_and_gaps_their_own(spark):
    inside = frame(
        spark,
        f"{LABEL}, gating_rank long",
        [{"att": 2, "begin": 200, "end": 230, "component": "compile", "gating_rank": 7}],
    )
    gaps = frame(
        spark,
        "job long, att long, begin long, end long, is_held boolean, gpus long",
        [
            {"job": 1, "att": 1, "begin": 160, "end": 200, "is_held": True, "gpus": 4},
            {"job": 1, "att": 2, "begin": 230, "end": 240, "is_held": False, "gpus": 0},
        ],
    )
    told = ledger.job_rows(inside, attempts(spark).fillna({"attempt": 9}), gaps)
    assert tuples(told, "begin", "end", "component", "att", "attempt", "gpus", "gating_rank") == [
        (160, 200, "restart_gap", 1, None, 4, None),
        (200, 230, "compile", 2, 9, 4, 7),
        (230, 240, "requeue_wait", 2, None, 0, None),
    ]


def test_rows_are_cut_by_stage_and_cause(spark):
    """Effective training is its own stage; the cause is kept where it is charged."""
    told = [
        (0, 10, "unattributed"),
        (10, 20, "repeated_training"),
        (20, 30, "evaluation"),
        (30, 40, "effective_training"),
        (40, 50, "failure_detection"),
    ]
    rows = [{"job": 1, "att": 1, "begin": b, "end": e, "component": c} for b, e, c in told]
    stages = [(0, 5, "time_to_start"), (5, 40, "wasted_training"), (40, 50, "time_to_recover")]
    causes = [(0, 2, None), (2, 45, "network"), (45, 50, "storage")]
    cut = ledger.pieces(
        frame(spark, ROW, rows),
        tiling(spark, "stage", stages),
        tiling(spark, "cause", causes),
    )
    assert tuples(cut, "begin", "end", "component", "stage", "cause") == [
        (0, 2, "unattributed", "time_to_start", None),
        (2, 5, "unattributed", "time_to_start", "network"),
        (5, 10, "unattributed", "wasted_training", None),
        (10, 20, "repeated_training", "wasted_training", "network"),
        (20, 30, "evaluation", "wasted_training", None),
        (30, 40, "effective_training", "effective", None),
        (40, 45, "failure_detection", "time_to_recover", "network"),
        (45, 50, "failure_detection", "time_to_recover", "storage"),
    ]


def tiling(spark, name, told):
    columns = f"job long, begin long, end long, {name} string"
    return frame(spark, columns, [{"job": 1, "begin": b, "end": e, name: w} for b, e, w in told])


def test_progress_that_the_labels_lost_is_found(spark):
    """Attempt 1 lost 3 ms, attempt 2 has 10 ms too many, attempt 3 balances."""
    pairs = [(1, 0, 10), (1, 10, 15), (3, 0, 7)]
    labels = [
        (1, 0, 12, "effective_training"),
        (1, 12, 15, "restart_gap"),
        (2, 0, 10, "repeated_training"),
        (3, 0, 5, "stalled"),
        (3, 5, 7, "first_step_warmup"),
    ]
    told = ledger.progress_difference(
        frame(
            spark,
            PAIR,
            [{"att": a, "f0": b, "f1": e, "is_progress": True} for a, b, e in pairs],
        ),
        frame(
            spark,
            LABEL,
            [{"att": a, "begin": b, "end": e, "component": c} for a, b, e, c in labels],
        ),
    )
    worst_first = [tuple(row) for row in told.collect()]
    assert worst_first == [(2, 0, 10), (1, 15, 12)]
