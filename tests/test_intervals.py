"""Interval algebra, each operation with its rows before and after."""

from __future__ import annotations

from datetime import date

from pyspark.sql import functions as F

from pipelines import intervals
from pipelines.intervals import DAY_MS
from tests.frames import frame, tuples


def test_instants_survive_as_timestamps(spark):
    given = frame(spark, "at long", [{"at": -1}, {"at": 0}, {"at": 1_764_547_199_999}])
    told = given.withColumn("moment", intervals.timestamp("at"))
    assert tuples(told.select(intervals.instant("moment").alias("at"))) == [
        (-1,),
        (0,),
        (1_764_547_199_999,),
    ]


def test_days_are_rounded_down_also_before_1970(spark):
    given = frame(spark, "at long", [{"at": at} for at in (-DAY_MS - 1, -1, 0, DAY_MS - 1, DAY_MS)])
    told = given.select(
        "at",
        intervals.day_number(F.col("at")).alias("number"),
        intervals.day(F.col("at")).alias("day"),
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
    merged = intervals.merge([times, words])
    assert merged.schema.simpleString() == "struct<at:bigint,word:string,is_told:boolean>"
    assert tuples(merged) == [(None, "x", True), (1, None, None)]


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
    closed = intervals.close_latest_open(given, key=["key"], order=["at"])
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


def test_islands_overlap_or_meet(spark):
    given = frame(
        spark,
        "key string, begin long, end long",
        [
            {"key": "a", "begin": 0, "end": 9},
            {"key": "a", "begin": 1, "end": 2},
            {"key": "a", "begin": 5, "end": 6},  # inside the first, though after the second
            {"key": "a", "begin": 9, "end": 11},  # meets the first
            {"key": "a", "begin": 12, "end": 13},
            {"key": "b", "begin": 10, "end": 12},
        ],
    )
    meeting = intervals.with_island(given, key=["key"], touching=True)
    apart = intervals.with_island(given, key=["key"], touching=False, name="n")
    assert [row[-1] for row in tuples(meeting)] == [1, 1, 1, 1, 2, 1]
    assert [row[-1] for row in tuples(apart)] == [1, 1, 1, 2, 3, 1]


def test_tilings_cut_one_another(spark):
    columns = "key long, begin long, end long"
    thirds = frame(spark, columns, [{"key": 1, "begin": b, "end": b + 10} for b in (0, 10, 20)])
    halves = frame(
        spark, columns, [{"key": 1, "begin": 0, "end": 15}, {"key": 1, "begin": 15, "end": 30}]
    )
    cut = intervals.overlay(["key"], third=thirds, half=halves)
    assert tuples(cut, "begin", "end", "third", "half") == [
        (0, 10, 0, 0),
        (10, 15, 10, 0),
        (15, 20, 10, 15),
        (20, 30, 20, 15),
    ]


def test_a_tiling_from_its_begins(spark):
    """At one begin the highest turn counts; a begin at or after the end is dropped."""
    starts = frame(
        spark,
        "key long, begin long, turn long, end long, what string",
        [
            {"key": 1, "begin": 0, "turn": 0, "end": 9, "what": "start"},
            {"key": 1, "begin": 4, "turn": 1, "end": 9, "what": "outdone"},
            {"key": 1, "begin": 4, "turn": 2, "end": 9, "what": "middle"},
            {"key": 1, "begin": 9, "turn": 3, "end": 9, "what": "too late"},
            {"key": 1, "begin": 12, "turn": 4, "end": 9, "what": "later still"},
        ],
    )
    tiled = intervals.tiling_from_starts(starts, key=["key"], end="end")
    assert tuples(tiled, "begin", "end", "what") == [(0, 4, "start"), (4, 9, "middle")]


def test_midnight_cuts_and_adds_nothing(spark):
    given = frame(
        spark,
        "name string, begin long, end long",
        [
            {"name": "within", "begin": 5, "end": DAY_MS},
            {"name": "across", "begin": DAY_MS - 5, "end": DAY_MS + 5},
            {"name": "two nights", "begin": -5, "end": DAY_MS + 1},
        ],
    )
    cut = intervals.split_at_midnight(given)
    assert tuples(cut, "name", "ds", "begin", "end") == [
        ("across", date(1970, 1, 1), DAY_MS - 5, DAY_MS),
        ("across", date(1970, 1, 2), DAY_MS, DAY_MS + 5),
        ("two nights", date(1969, 12, 31), -5, 0),
        ("two nights", date(1970, 1, 1), 0, DAY_MS),
        ("two nights", date(1970, 1, 2), DAY_MS, DAY_MS + 1),
        ("within", date(1970, 1, 1), 5, DAY_MS),
    ]
