"""Interruptions: lines grouped, breaks matched with them, causes, and to which a cost is charged."""

from __future__ import annotations

from pipelines.attribution import interruptions
from tests.frames import frame, tuples

STRIKE = "job long, att long, at long, step long, cause string"
SPAN = "job long, att long, first_mark long, last_mark long"
PAIR = "job long, att long, seq long, t0 long, is_gap boolean"
ATTEMPT = "job long, att long, end long, is_last boolean, outcome string, ended_cause string"
GROUP = "job long, att long, place long, began long, last_line long, cause string"
BREAK = "job long, att long, place long, kind string, began long, mark_before long"
STRUCK = "job long, att long, place long, kind string, began long, cause string"
BEFORE, AFTER = -1, 1 << 60  # places before and after all marks of an attempt
DEAD_AFTER = 100


def test_lines_between_the_same_two_marks_are_one(spark):
    """Attempt 1 has marks from 10 to 50, pairs 3 and 5 with lines; attempt 2 has no mark."""
    told = [
        (1, 5, "storage"),
        (1, 20, None),  # at the first mark of pair 3
        (1, 25, "unknown"),
        (1, 29, "network"),
        (1, 28, "hardware"),
        (1, 28, "node_lost"),
        (1, 45, None),
        (1, 50, "timeout"),  # at the last mark: after it
        (1, 60, "hardware"),
        (2, 70, "planned"),
    ]
    strikes = [{"job": 1, "att": att, "at": at, "cause": cause} for att, at, cause in told]
    groups = interruptions.groups(
        frame(spark, STRIKE, strikes),
        frame(spark, SPAN, [{"job": 1, "att": 1, "first_mark": 10, "last_mark": 50}]),
        frame(
            spark,
            PAIR,
            [{"att": 1, "seq": 3, "t0": 20}, {"att": 1, "seq": 5, "t0": 40}],
        ),
    )
    assert tuples(groups, "att", "place", "began", "last_line", "cause") == [
        (1, BEFORE, None, 5, "storage"),
        (1, 3, 20, 29, "hardware"),
        (1, 5, 40, 45, None),
        (1, AFTER, 50, 60, "timeout"),
        (2, AFTER, None, 70, "planned"),
    ]


def attempts(spark, *told):
    """(attempt, is it the last, outcome, cause told at its end), each ending at 1000."""
    return frame(
        spark,
        ATTEMPT,
        [
            {"job": 1, "att": a, "end": 1000, "is_last": last, "outcome": o, "ended_cause": c}
            for a, last, o, c in told
        ],
    )


def test_restarts_and_bad_ends_are_breaks(spark):
    known = attempts(
        spark,
        (1, False, "succeeded", None),  # another follows
        (2, True, "succeeded", None),
        (3, True, "cancelled", None),
        (4, True, "preempted", None),
        (5, True, "unknown", None),
    )
    gaps = frame(spark, PAIR, [{"job": 1, "att": 2, "seq": 7, "t0": 30, "is_gap": True}])
    spans = frame(spark, SPAN, [{"att": 1, "last_mark": 50}, {"att": 2, "last_mark": 60}])
    told = interruptions.breaks(known, gaps, spans)
    assert tuples(told, "att", "place", "kind", "began", "mark_before") == [
        (1, AFTER, "end", 50, 50),
        (2, 7, "restart", 30, 30),
        (4, AFTER, "end", 1000, None),  # without a mark: at its end
    ]


def groups(spark, *told):
    """(attempt, place, last line, cause), each begun 5 before its last line."""
    return frame(
        spark,
        GROUP,
        [
            {"job": 1, "att": a, "place": p, "began": at - 5, "last_line": at, "cause": cause}
            for a, p, at, cause in told
        ],
    )


def breaks(spark, *told):
    """(attempt, place, kind, last mark before it)."""
    return frame(
        spark,
        BREAK,
        [
            {"job": 1, "att": a, "place": p, "kind": kind, "began": mark, "mark_before": mark}
            for a, p, kind, mark in told
        ],
    )


def test_a_break_takes_its_own_lines_or_the_latest_notice(spark):
    told = interruptions.interruptions(
        groups(
            spark,
            (1, 3, 100, "network"),  # of its own restart
            (1, 5, 200, "planned"),  # taken by the restart at 8
            (1, 6, 210, "storage"),  # the latest before 7: taken by it
            (2, 4, 100, "hardware"),  # too long before the end
            (2, AFTER - 1, 950, "node_lost"),  # led to nothing
            (3, 2, 300, "unknown"),
            (4, 2, 300, "service"),  # just recent enough
        ),
        breaks(
            spark,
            (1, 3, "restart", 95),
            (1, 7, "restart", 220),
            (1, 8, "restart", 230),
            (1, 9, "restart", 240),  # no notice is left
            (2, 5, "restart", 100 + DEAD_AFTER + 1),
            (4, 3, "restart", 300 + DEAD_AFTER),
        ),
        attempts(
            spark,
            (1, True, "succeeded", "service"),
            (2, True, "succeeded", None),
            (3, True, "succeeded", None),
            (4, True, "succeeded", None),
        ),
        dead_after=DEAD_AFTER,
    )
    assert tuples(told, "att", "place", "kind", "began", "cause") == [
        (1, 3, "restart", 95, "network"),
        (1, 7, "restart", 220, "storage"),
        (1, 8, "restart", 230, "planned"),
        (1, 9, "restart", 240, "unknown"),
        (2, 4, "notice", 95, "hardware"),
        (2, 5, "restart", 201, "unknown"),
        (2, AFTER - 1, "notice", 945, "node_lost"),
        (3, 2, "notice", 295, "unknown"),
        (4, 3, "restart", 400, "service"),
    ]


def test_the_cause_of_an_end(spark):
    """Its lines', else what the end says, else what the outcome implies."""
    told = interruptions.interruptions(
        groups(spark, (1, AFTER, 960, "network"), (2, AFTER, 960, None), (8, AFTER, 960, None)),
        breaks(spark, *((att, AFTER, "end", 950) for att in range(1, 8))),
        attempts(
            spark,
            (1, False, "failed", "storage"),
            (2, False, "failed", "storage"),
            (3, True, "preempted", None),
            (4, True, "timed_out", None),
            (5, False, "cancelled", None),
            (6, False, "succeeded", None),
            (7, True, "failed", None),
            (8, True, "succeeded", "planned"),  # no break: a notice after the last mark
        ),
        dead_after=DEAD_AFTER,
    )
    assert tuples(told, "att", "kind", "cause") == [
        (1, "end", "network"),
        (2, "end", "storage"),
        (3, "end", "preemption"),
        (4, "end", "timeout"),
        (5, "end", "cancelled"),
        (6, "end", "planned"),
        (7, "end", "unknown"),
        (8, "notice", "planned"),
    ]


def test_an_instant_is_charged_to_the_latest_interruption_begun(spark):
    """Of equal begins the later in the order of attempts and then of the course."""
    told = [
        (1, 3, 20, "network"),
        (1, 4, 20, "hardware"),
        (2, 1, 50, "storage"),
        (1, AFTER, 50, "timeout"),
        (3, AFTER, 100, "planned"),  # at the end of the wall: nothing is charged to it
    ]
    struck = [
        {"job": 1, "att": a, "place": p, "began": began, "cause": c} for a, p, began, c in told
    ]
    walls = [
        {"job": 1, "wall_begin": 0, "wall_end": 100},
        {"job": 2, "wall_begin": 5, "wall_end": 9},
    ]
    tiling = interruptions.cause_tiling(
        frame(spark, STRUCK, struck),
        frame(spark, "job long, wall_begin long, wall_end long", walls),
    )
    assert tuples(tiling) == [
        (1, 0, 20, None),
        (1, 20, 50, "hardware"),
        (1, 50, 100, "storage"),
        (2, 5, 9, None),
    ]
