"""Interval algebra: each operation on a few rows, input and result on one screen."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from pipelines.intervals import (
    DAY_MS,
    close_latest_open,
    day,
    day_number,
    filled_down,
    instant,
    merge,
    overlay,
    split_at_midnight,
    tiling_from_starts,
    timestamp,
    with_island,
)
from tests.frames import frame, rows, tuples

KEYED = "job long, begin long, end long"


def keyed(spark, *intervals):
    return frame(spark, KEYED, [{"job": 1, "begin": b, "end": e} for b, e in intervals])


def test_instants_survive_as_timestamps(spark):
    given = frame(spark, "at long", [{"at": -1}, {"at": 0}, {"at": 1_764_547_199_999}])
    told = given.withColumn("moment", timestamp("at"))
    assert tuples(told.select(instant("moment").alias("at"))) == [
        (-1,),
        (0,),
        (1_764_547_199_999,),
    ]


def test_days_are_rounded_down_also_before_1970(spark):
    given = frame(spark, "at long", [{"at": at} for at in (-DAY_MS - 1, -1, 0, DAY_MS - 1, DAY_MS)])
    told = given.select(
        "at",
        day_number(F.col("at")).alias("number"),
        day(F.col("at")).alias("day"),
    )
    assert tuples(told) == [
        (-DAY_MS - 1, -2, date(1969, 12, 30)),
        (-1, -1, date(1969, 12, 31)),
        (0, 0, date(1970, 1, 1)),
        (DAY_MS - 1, 0, date(1970, 1, 1)),
        (DAY_MS, 1, date(1970, 1, 2)),
    ]


def test_merged_frames_lack_nothing(spark):
    times = frame(spark, "at long", [{"at": 1}])
    words = frame(spark, "word string, is_told boolean", [{"word": "x", "is_told": True}])
    merged = merge([times, words])
    assert merged.schema.simpleString() == "struct<at:bigint,word:string,is_told:boolean>"
    assert tuples(merged) == [(None, "x", True), (1, None, None)]


def test_values_are_filled_down_from_the_latest_row_that_says_them(spark):
    given = frame(
        spark,
        "key string, at long, word string, size long",
        [
            {"key": "a", "at": 1},
            {"key": "a", "at": 2, "word": "x", "size": 9},
            {"key": "a", "at": 3, "size": 1},  # no word: its size is not asked for
            {"key": "a", "at": 4, "word": "w"},
            {"key": "b", "at": 5},
        ],
    )
    is_said = F.col("word").isNotNull()
    filled = filled_down(given, "word", "size", where=is_said, key=["key"], order=["at"])
    assert tuples(filled) == [
        ("a", 1, None, None),
        ("a", 2, "x", 9),
        ("a", 3, "x", 9),
        ("a", 4, "w", None),
        ("b", 5, None, None),
    ]


def test_an_end_closes_the_latest_open_begin(spark):
    """Each key is a row of brackets; a letter names an opening, the end tells which it closes."""
    written = {"lone": "(", "pair": "()", "nested": "(())", "crowd": "(()())", "stray": "))()"}
    given = frame(
        spark,
        "key string, at long, is_open boolean",
        [
            {"key": key, "at": at, "is_open": bracket == "("}
            for key, brackets in written.items()
            for at, bracket in enumerate(brackets)
        ],
    )
    closed = close_latest_open(given, key=["key"], order=["at"])
    assert tuples(closed, "key", "at", "closed_at") == [
        ("crowd", 0, 5),
        ("crowd", 1, 2),
        ("crowd", 3, 4),
        ("lone", 0, None),
        ("nested", 0, 3),
        ("nested", 1, 2),
        ("pair", 0, 1),
        ("stray", 2, 3),
    ]


def test_islands_that_touch_are_one_only_where_asked(spark):
    spans = keyed(spark, (0, 10), (2, 4), (10, 20), (15, 30), (40, 50))
    touching = with_island(spans, key=["job"], touching=True)
    apart = with_island(spans, key=["job"], touching=False)
    assert tuples(touching, "begin", "island") == [(0, 1), (2, 1), (10, 1), (15, 1), (40, 2)]
    assert tuples(apart, "begin", "island") == [(0, 1), (2, 1), (10, 2), (15, 2), (40, 3)]


def test_an_overlay_cuts_two_tilings_by_one_another(spark):
    left = keyed(spark, (0, 10), (10, 30))
    right = keyed(spark, (0, 20), (20, 25), (25, 30))
    assert tuples(overlay(["job"], left=left, right=right), "begin", "end", "left", "right") == [
        (0, 10, 0, 0),
        (10, 20, 10, 0),
        (20, 25, 10, 20),
        (25, 30, 10, 25),
    ]


def test_of_starts_at_one_instant_the_highest_turn_counts(spark):
    starts = [(0, "a", 0), (5, "b", 1), (5, "c", 2), (9, "d", 3), (20, "late", 4)]
    given_ = [{"job": 1, "begin": b, "end": 12, "stage": s, "turn": t} for b, s, t in starts]
    tiling = tiling_from_starts(
        frame(spark, f"{KEYED}, stage string, turn long", given_), key=["job"], end="end"
    )
    assert tuples(tiling, "begin", "end", "stage") == [(0, 5, "a"), (5, 9, "c"), (9, 12, "d")]


def test_midnight_cuts_a_row_and_keeps_its_length(spark):
    cut = split_at_midnight(keyed(spark, (-5, 2 * DAY_MS + 7)))
    assert tuples(cut, "ds", "begin", "end") == [
        (date(1969, 12, 31), -5, 0),
        (date(1970, 1, 1), 0, DAY_MS),
        (date(1970, 1, 2), DAY_MS, 2 * DAY_MS),
        (date(1970, 1, 3), 2 * DAY_MS, 2 * DAY_MS + 7),
    ]


def tiled(cuts):
    edges = [0, *sorted(set(cuts)), 100]
    return list(pairwise(edges))


CUTS = st.lists(st.integers(1, 99), max_size=6)


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(CUTS, CUTS), min_size=20, max_size=20))
def test_an_overlay_tiles_what_its_parts_tile(spark, jobs):
    sides = [
        [
            {"job": job, "begin": b, "end": e}
            for job, cuts in enumerate(jobs)
            for b, e in tiled(cuts[side])
        ]
        for side in (0, 1)
    ]
    left, right = (frame(spark, KEYED, side) for side in sides)
    pieces = rows(overlay(["job"], left=left, right=right))
    for job, (first, second) in enumerate(jobs):
        own = [(p["begin"], p["end"]) for p in pieces if p["job"] == job]
        assert own == tiled([*first, *second])
