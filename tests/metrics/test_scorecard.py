"""Scorecards: sums of the ledger and ratios of those sums."""

from __future__ import annotations

from datetime import date

from pyspark.sql import functions as F

from pipelines import tables
from pipelines.metrics import scorecard
from tests.frames import frame, rows, tuples

D1, D2 = date(2026, 11, 1), date(2026, 11, 2)
INTERVAL = ", ".join(f"{c.name} {c.type}" for c in tables.LEDGER_INTERVAL.columns)
SUMS = [c.name for c in (*tables.ADDITIVE, *tables.UNTOLD)]
DAYS = (
    "ds date, cluster string, job_id string, model string, team string, is_censored boolean, "
    + ", ".join(f"{name} long" for name in SUMS)
)


def job_days(spark):
    """A small job at 100 %, a large one at 50 % of its GPU time on both days, one that waits."""
    told = [
        (D1, "west", "small", "m1", False, 10, 10, 100, 100),
        (D1, "west", "large", "m2", True, 10, 5, 900, 450),
        (D2, "west", "large", "m2", True, 20, 10, 1800, 900),
        (D2, "west", "waits", "m1", True, 0, 0, 0, 0),
        (D2, "east", "small", "m1", False, 40, 40, 400, 400),
    ]
    names = (
        "ds", "cluster", "job_id", "model", "is_censored", "wall_ms", "effective_ms",
        "held_gpu_ms", "effective_gpu_ms",
    )  # fmt: skip
    zeros = dict.fromkeys(SUMS, 0)
    return frame(spark, DAYS, [zeros | dict(zip(names, row, strict=True)) for row in told])


FIGURES = ("job_count", "censored_count", "wall_ms", "ett_ratio", "gpu_ett_ratio")


def test_a_roll_up_is_a_ratio_of_sums_never_a_mean_of_ratios(spark):
    told = scorecard.roll_up(job_days(spark), tables.SCORECARD_FLEET)
    assert tuples(told, "ds", *FIGURES) == [
        (D1, 2, 1, 20, 15 / 20, 550 / 1000),
        (D2, 2, 2, 60, 50 / 60, 1300 / 2200),
    ]


def test_a_ratio_is_a_lower_bound_where_some_is_untold_and_null_where_all_is(spark):
    days = job_days(spark)
    told = scorecard.roll_up(
        days.withColumn("untold_ms", F.expr("if(wall_ms = 10, wall_ms, 0)")).where("wall_ms = 10"),
        tables.SCORECARD_MODEL,
    )
    assert tuples(told, "model", "untold_ms", "ett_ratio") == [("m1", 10, None), ("m2", 10, None)]
    told = scorecard.roll_up(
        days.withColumn("untold_ms", F.expr("if(job_id = 'small', wall_ms, 0)")),
        tables.SCORECARD_FLEET,
    )
    assert tuples(told, "ds", "untold_ms", "ett_ratio") == [(D1, 10, 15 / 20), (D2, 40, 50 / 60)]


def test_a_roll_up_has_a_row_for_each_value_of_its_key(spark):
    told = scorecard.roll_up(job_days(spark), tables.SCORECARD_MODEL)
    assert tuples(told, "ds", "cluster", "model", *FIGURES) == [
        (D1, "west", "m1", 1, 0, 10, 1.0, 1.0),
        (D1, "west", "m2", 1, 1, 10, 0.5, 0.5),
        (D2, "east", "m1", 1, 0, 40, 1.0, 1.0),
        (D2, "west", "m1", 0, 1, 0, None, None),
        (D2, "west", "m2", 1, 1, 20, 0.5, 0.5),
    ]
    teams = scorecard.roll_up(job_days(spark), tables.SCORECARD_TEAM)
    assert tuples(teams.where("cluster = 'west'"), "ds", "team", "job_count") == [
        (D1, None, 2),
        (D2, None, 1),
    ]


def test_components_by_day_and_by_job(spark):
    usual = {"ds": D1, "cluster": "c", "component": "compile", "stage": "time_to_start"}
    told = [
        usual | {"job_id": "a", "duration_ms": 5, "gpu_ms": 40, "is_inferred": False},
        usual | {"job_id": "a", "duration_ms": 3, "gpu_ms": 24, "is_inferred": True},
        usual | {"job_id": "b", "duration_ms": 2, "gpu_ms": 2, "is_inferred": False},
        usual
        | {"job_id": "b", "stage": "time_to_recover", "duration_ms": 1, "gpu_ms": 1}
        | {"is_inferred": False},
    ]
    intervals = frame(spark, INTERVAL, told)
    figures = ("duration_ms", "gpu_ms", "inferred_ms")
    by_job = scorecard.job_component_cards(intervals)
    assert tuples(by_job, "job_id", "stage", *figures) == [
        ("a", "time_to_start", 8, 64, 3),
        ("b", "time_to_recover", 1, 1, 0),
        ("b", "time_to_start", 2, 2, 0),
    ]
    by_day = scorecard.component_cards(intervals)
    assert tuples(by_day, "stage", *figures, "job_count") == [
        ("time_to_recover", 1, 1, 0, 1),
        ("time_to_start", 10, 66, 3, 2),
    ]


def test_attempts_are_summed_without_their_gaps(spark):
    usual = {"job": 1, "is_inferred": False, "stage": "time_to_recover"}
    pieces = [
        usual | {"attempt": 0, "begin": 0, "end": 10, "component": "effective_training"}
        | {"gpus": 8, "stage": "effective"},
        usual | {"attempt": 0, "begin": 10, "end": 30, "component": "unattributed", "gpus": 8},
        usual | {"begin": 30, "end": 90, "component": "restart_gap", "gpus": 4},
        usual | {"attempt": 1, "begin": 90, "end": 95, "component": "compile", "gpus": 4},
    ]  # fmt: skip
    key = {"cluster": "c", "job_id": "j"}
    days = [
        key | {"ds": D1, "attempt": 0, "outcome": "failed"},
        key | {"ds": D2, "attempt": 0, "outcome": "failed"},
        key | {"ds": D2, "attempt": 1, "outcome": "succeeded"},
    ]
    given = (
        frame(
            spark,
            "job long, attempt long, begin long, end long, component string, stage string,"
            " gpus long, is_inferred boolean",
            pieces,
        ),
        frame(spark, "ds date, cluster string, job_id string, attempt long, outcome string", days),
        frame(spark, "job long, cluster string, job_id string", [{"job": 1} | key]),
    )
    told_by = frame(spark, "job long, is_training_told boolean", [{"job": 1}])
    untold = scorecard.attempt_cards(*given, told_by.withColumn("is_training_told", F.lit(False)))
    assert tuples(untold, "wall_ms", "ett_ratio") == [(5, None), (30, None), (30, None)]
    told = scorecard.attempt_cards(*given, told_by.withColumn("is_training_told", F.lit(True)))
    columns = ("ds", "attempt", "outcome", "wall_ms", "held_gpu_ms", "unattributed_ms", "ett_ratio")
    assert tuples(told, *columns) == [
        (D1, 0, "failed", 30, 240, 20, 10 / 30),
        (D2, 0, "failed", 30, 240, 20, 10 / 30),
        (D2, 1, "succeeded", 5, 20, 0, 0.0),
    ]


def test_a_job_is_told_whole_on_each_day(spark):
    typed = {c.name: c for c in tables.SCORECARD_JOB.columns if c.name != "ds"}
    facts = frame(
        spark,
        ", ".join(f"{c.name} {c.type}" for c in typed.values()),
        [{"cluster": "c", "job_id": "j", "wall_ms": 100, "outcome": "failed"}],
    )
    days = frame(
        spark,
        "ds date, cluster string, job_id string",
        [{"ds": day, "cluster": "c", "job_id": "j"} for day in (D1, D2)],
    )
    told = scorecard.job_cards(facts, days)
    assert [{k: v for k, v in row.items() if v is not None} for row in rows(told)] == [
        {"ds": day, "cluster": "c", "job_id": "j", "wall_ms": 100, "outcome": "failed"}
        for day in (D1, D2)
    ]
