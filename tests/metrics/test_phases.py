"""Phases: pairing at one millisecond, joining across ranks, and who has an instant."""

from __future__ import annotations

import pytest

from pipelines.metrics import phases
from pipelines.taxonomy import DEFAULT
from tests.frames import frame, tuples
from tests.metrics.lines import OF_ONE_JOB, placed_lines

LINES = (
    "att long, e_rank long, e_host string, rank long, phase string, span string, at long,"
    " is_open boolean, is_blocking boolean"
)
JOINED = (
    "job long, att long, phase string, is_blocking boolean, begin long, end long,"
    " is_inferred boolean, gating_rank long"
)
SPANS = (
    "job long, att long, rank long, e_rank long, e_host string, phase string,"
    " is_blocking boolean, begin long, end long, is_inferred boolean"
)


def line(at, *, is_open, is_blocking=True, rank=0):
    return {
        "att": 1, "e_rank": rank, "e_host": "", "rank": rank, "phase": "evaluation", "span": "",
        "at": at, "is_open": is_open, "is_blocking": is_blocking,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("told", "spans"),
    [
        ([(1, "begin"), (3, "end")], [(1, 3)]),
        ([(1, "begin"), (3, "end"), (3, "begin"), (5, "end")], [(1, 3), (3, 5)]),
        ([(1, "begin"), (1, "end")], [(1, 1)]),
        ([(1, "end"), (2, "begin")], [(2, None)]),
        ([(1, "begin"), (2, "begin"), (3, "end")], [(1, None), (2, 3)]),
    ],
)
def test_ends_close_the_latest_open_begin(spark, told, spans):
    lines = [line(at, is_open=word == "begin") for at, word in told]
    assert tuples(phases.paired_spans(frame(spark, LINES, lines)), "begin", "end") == spans


def test_of_begins_at_one_millisecond_the_blocking_one_is_closed_first(spark):
    lines = [
        line(1, is_open=True, is_blocking=True),
        line(1, is_open=True, is_blocking=False),
        line(5, is_open=False),
    ]
    paired = phases.paired_spans(frame(spark, LINES, lines))
    assert tuples(paired, "is_blocking", "end") == [(False, None), (True, 5)]


def test_ranks_are_joined_and_the_last_to_end_is_the_gating_one(spark):
    spans = [
        {"rank": 0, "e_rank": 0, "begin": 0, "end": 10, "is_inferred": False},
        {"rank": 2, "e_rank": 2, "begin": 8, "end": 15, "is_inferred": False},
        {"rank": 1, "e_rank": 1, "begin": 15, "end": 15 + 5, "is_inferred": True},
        {"rank": 0, "e_rank": 0, "begin": 30, "end": 40, "is_inferred": False},
    ]
    fixed = {"job": 1, "att": 1, "e_host": "", "phase": "compile", "is_blocking": True}
    joined = phases.joined_spans(frame(spark, SPANS, [fixed | s for s in spans]))
    assert tuples(joined, "begin", "end", "is_inferred", "gating_rank") == [
        (0, 20, True, 1),
        (30, 40, False, 0),
    ]


def test_the_innermost_has_the_instant_and_a_child_beats_its_parent(spark):
    told = [
        ("launcher_init", 0, 15),
        ("trainer_init.device_init", 5, 25),
        ("trainer_init", 10, 110),
        ("trainer_init.process_group_init", 20, 60),
        ("compile", 70, 90),
        ("evaluation", 200, 210),
    ]
    fixed = {"job": 1, "att": 1, "is_blocking": True, "is_inferred": False}
    spans = [fixed | {"phase": p, "begin": b, "end": e} for p, b, e in told]
    covers = phases.covers(frame(spark, JOINED, spans), DEFAULT)
    assert tuples(covers, "begin", "end", "phase") == [
        (0, 5, "launcher_init"),
        (5, 20, "trainer_init.device_init"),
        (20, 60, "trainer_init.process_group_init"),
        (60, 70, "trainer_init"),
        (70, 90, "compile"),
        (90, 110, "trainer_init"),
        (200, 210, "evaluation"),
    ]


def test_an_absent_span_id_is_not_an_empty_one(spark):
    begin = {"event": "phase_begin", "phase": "compile", "at": 1}
    lines = placed_lines(
        spark,
        begin | {"rank": 3, "host": "h", "is_blocking": False},
        begin | {"span_id": ""},
        begin | {"event": "phase_end", "span_id": "s"},
        begin | {"event": "interruption"},
    )
    attempts = frame(
        spark,
        "cluster string, job_id string, run long, attempt long, att long",
        [OF_ONE_JOB | {"run": 1, "attempt": 0, "att": 1}],
    )
    told = phases.phase_lines(lines, attempts)
    assert tuples(told, "e_rank", "e_host", "span", "is_open", "is_blocking") == [
        (-1, "", "#", True, True),
        (-1, "", "#s", False, True),
        (3, "h", "", True, False),
    ]


def test_a_phase_that_never_ended_lasts_to_the_next_thing_that_happened(spark):
    """Attempt 1 lives from 10 to 50, with a mark at 20 and an interruption at 30."""
    told = [(5, None), (20, None), (30, None), (8, 12), (45, 60), (1, 9)]
    fixed = {"att": 1, "e_rank": 0, "e_host": "", "rank": 0, "phase": "stalled"}
    spans = [fixed | {"is_blocking": True, "begin": b, "end": e} for b, e in told]
    closed = phases.closed_spans(
        frame(spark, SPANS.removesuffix(", is_inferred boolean").removeprefix("job long, "), spans),
        frame(spark, "job long, att long, begin long, end long",
              [{"job": 1, "att": 1, "begin": 10, "end": 50}]),
        frame(spark, "att long, at long", [{"att": 1, "at": 20}, {"att": 2, "at": 6}]),
        frame(spark, "att long, at long", [{"att": 1, "at": 30}]),
    )  # fmt: skip
    assert tuples(closed, "begin", "end", "is_inferred") == [
        (10, 12, False),
        (10, 20, True),
        (20, 30, True),
        (30, 50, True),
        (45, 50, False),
    ]


def test_equal_begins_and_ends_are_settled_by_the_end_and_then_the_taxonomy(spark):
    told = [("evaluation", 0, 10), ("data_stall", 0, 5), ("compile", 20, 30), ("stalled", 20, 30)]
    fixed = {"job": 1, "att": 1, "is_blocking": True, "is_inferred": False}
    spans = [fixed | {"phase": p, "begin": b, "end": e} for p, b, e in told]
    spans.append(fixed | {"phase": "restart_gap", "begin": 0, "end": 9, "is_blocking": False})
    covers = phases.covers(frame(spark, JOINED, spans), DEFAULT)
    assert tuples(covers, "begin", "end", "phase") == [
        (0, 5, "data_stall"),
        (5, 10, "evaluation"),
        (20, 30, "compile"),
    ]
