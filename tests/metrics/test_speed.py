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
