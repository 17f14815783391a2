"""The usual speed of an attempt: the lower median of what is known, or nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from pipelines.metrics import speed
from tests.frames import frame, tuples

PAIRS = "job long, att long, seq long, n long, f0 long, f1 long, is_progress boolean"


def pairs(spark, attempts):
    """Progress intervals from (attempt, ms a step of one position) in course."""
    told = [
        {"job": 1, "att": att, "seq": i, "n": 1, "f0": 0, "f1": ms, "is_progress": True}
        for i, (att, ms) in enumerate(attempts)
    ]
    return frame(spark, PAIRS, told)


@pytest.mark.parametrize(
    ("told", "usual"),
    [
        # The first interval does not count; of 10, 20, 30, 40 the lower median is 20.
        ([(1, 99), (1, 40), (1, 10), (1, 30), (1, 20)], [(1, 20)]),
        # Two in each attempt: both take the job's, of 10, 10, 30, 50 the second.
        ([(1, 99), (1, 10), (1, 30), (2, 99), (2, 10), (2, 50)], [(1, 10), (2, 10)]),
        # Two in all: nothing is inferred.
        ([(1, 99), (1, 10), (1, 30)], [(1, None)]),
    ],
)
def test_the_usual_rate(spark, told, usual):
    intervals = pairs(spark, told)
    firsts = speed.first_progress(intervals)
    rates = speed.usual_rates(speed.counted_rates(intervals, firsts), firsts)
    expected = [(att, None if ms is None else Decimal(ms * speed.NANO)) for att, ms in usual]
    assert tuples(rates, "att", "m") == expected


def test_whole_division_is_exact_beyond_64_bits(spark):
    one = spark.range(1).select(
        speed.div(
            speed.product(F.lit(9_000_000_000_001), F.lit(5_000_000_000_000)),
            F.lit(9_000_000_000_000),
        ).alias("quotient")
    )
    assert tuples(one) == [(Decimal(9_000_000_000_001 * 5_000_000_000_000 // 9_000_000_000_000),)]


JUDGED = (
    "job long, att long, seq long, n long, t0 long, t1 long, f0 long, f1 long, p0 long, high long,"
    " is_progress boolean, is_resume boolean"
)
STEP_MS = 10_000
RATES = "job long, att long, first_seq long, m decimal(38,0)"


def progress(seq, *, ms=STEP_MS, n=1, ahead=0, inside=0, **said):
    """A progress interval of one attempt, `ahead` positions below the highest before it."""
    begin, p0 = seq * 1_000_000, 100
    return {
        "job": 1, "att": 1, "seq": seq, "n": n, "p0": p0, "high": p0 + ahead, "is_progress": True,
        "is_resume": False, "t0": begin, "t1": begin + ms, "f0": begin, "f1": begin + ms - inside,
    } | said  # fmt: skip


def judged(spark, *intervals, m=STEP_MS):
    rate = None if m is None else Decimal(m * speed.NANO)
    attempts = {interval["att"] for interval in intervals}
    rates = frame(spark, RATES, [{"job": 1, "att": a, "first_seq": 1, "m": rate} for a in attempts])
    return speed.judged(frame(spark, JUDGED, list(intervals)), rates)


def test_plain_training_is_new_data_and_nothing_else(spark):
    told = judged(
        spark,
        progress(1),  # the first of the attempt
        progress(2),
        progress(3, is_resume=True),
        progress(4, inside=1),  # a phase in it
        progress(5, ahead=1),  # repeated
        progress(6, ms=70_001),  # too slow, perhaps
        progress(7, ms=59_999),  # slow, yet nothing below a minute stalls
        progress(8, is_progress=False),
    )
    assert tuples(told.where("is_plain"), "seq") == [(2,), (7,)]
    assert tuples(told.where("is_warm"), "seq") == [(1,), (3,)]


def test_without_a_usual_speed_only_what_is_known_is_exceptional(spark):
    told = judged(spark, progress(2, ms=900_000), progress(3, ahead=1), m=None)
    assert tuples(told.where("is_plain"), "seq") == [(2,)]


def test_what_a_progress_interval_is_charged(spark):
    """Of each: what it is, and the ms of warm-up, stall, repeated and new training in it."""
    told = [
        # The first step: an excess of more than half a step, and of a tenth of what is expected.
        (progress(1, ms=15_000), 0, 0, 0, 15_000),
        (progress(1, ms=15_001), 5_001, 0, 0, 10_000),
        (progress(1, ms=110_000, n=10), 0, 0, 0, 110_000),
        (progress(1, ms=110_001, n=10), 10_001, 0, 0, 100_000),
        (progress(2, ms=16_000, is_resume=True), 6_000, 0, 0, 10_000),
        # Any other: more than four steps, half of what is expected, and a minute.
        (progress(2, ms=70_000, ahead=0, inside=1), 0, 0, 0, 69_999),
        (progress(2, ms=70_001), 0, 60_001, 0, 10_000),
        (progress(2, ms=300_000, n=20), 0, 0, 0, 300_000),
        (progress(2, ms=300_001, n=20), 0, 100_001, 0, 200_000),
        # Trained before: in proportion, rounded down, of what is left of the free time.
        (progress(2, ms=10_000, n=3, ahead=1), 0, 0, 3_333, 6_667),
        (progress(2, ms=10_000, n=3, ahead=7), 0, 0, 10_000, 0),
        (progress(1, ms=20_000, n=1, ahead=1, inside=4_000), 6_000, 0, 10_000, 0),
    ]
    intervals = [interval | {"att": att} for att, (interval, *_) in enumerate(told)]
    exceptions = judged(spark, *intervals).drop("is_plain")
    priced = speed.priced(exceptions, frame(spark, "att long, seq long", []))
    charged = tuples(priced, "att", "warmup_ms", "stall_ms", "repeated_ms", "effective_ms")
    assert charged == [(att, *ms) for att, (_, *ms) in enumerate(told)]


def test_four_steps_bound_a_stall_where_steps_are_long(spark):
    none = frame(spark, "att long, seq long", [])
    intervals = [progress(2, ms=500_000), progress(3, ms=500_001)]
    told = speed.priced(judged(spark, *intervals, m=100_000), none)
    assert tuples(told, "seq", "stall_ms") == [(2, 0), (3, 400_001)]


def test_a_compile_explains_a_slow_first_step(spark):
    warm = [progress(seq, ms=100_000, is_resume=True) for seq in (1, 2, 3, 4)]
    spans = [
        ("compile", True, 1_000_000, 1_000_001),
        ("compile", True, 2_000_000 - 9, 2_000_000),  # ends as the interval begins
        ("compile", True, 3_000_000 + 100_000, 3_500_000),  # begins as it ends
        ("compile", False, 4_000_000, 4_100_000),  # beside training
        ("evaluation", True, 4_000_000, 4_100_000),
    ]
    names = ("phase", "is_blocking", "begin", "end")
    joined = [{"att": 1} | dict(zip(names, span, strict=True)) for span in spans]
    exceptions = judged(spark, *warm)
    compiles = speed.compiled(
        exceptions,
        frame(spark, "att long, phase string, is_blocking boolean, begin long, end long", joined),
    )
    assert tuples(compiles) == [(1, 1)]
    priced = speed.priced(exceptions, compiles)
    assert tuples(priced, "seq", "warmup_ms") == [(1, 0), (2, 90_000), (3, 90_000), (4, 90_000)]
