"""Charges: the ledger's loss by owner and component, and by cause; both sum to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from pipelines.attribution import charges
from pipelines.tables import LEDGER_INTERVAL
from pipelines.taxonomy import DEFAULT
from tests.frames import frame, tuples

HOUR_MS = 3_600_000
SITE = replace(
    DEFAULT,
    model_owners={("m1", "evaluation"): "quality"},
    prices={"default": 2.0, "west": 3.0},
)


def ledger(spark):
    told = [
        ("east", "m1", "effective_training", None, 10, 10),
        ("east", "m1", "evaluation", None, 1, 4),
        ("east", "m2", "evaluation", None, 2, 2),
        ("west", "m1", "requeue_wait", "network", 5, 0),
        ("west", "m1", "restart_gap", "network", 1, 8),
    ]
    names = ("cluster", "model", "component", "cause")
    rows = [
        dict(zip(names, row, strict=False))
        | {
            "ds": date(2026, 11, 1),
            "team": "t",
            "duration_ms": row[4] * HOUR_MS,
            "gpu_ms": row[5] * HOUR_MS,
        }
        for row in told
    ]
    columns = ", ".join(f"{c.name} {c.type}" for c in LEDGER_INTERVAL.columns)
    return frame(spark, columns, rows)


def test_by_owner(spark):
    told = charges.by_owner(ledger(spark), SITE)
    assert tuples(told, "owner", "component", "cluster", "lost_gpu_ms", "lost_cost") == [
        ("model team", "evaluation", "east", 2 * HOUR_MS, 4.0),
        ("quality", "evaluation", "east", 4 * HOUR_MS, 8.0),
        ("reliability", "restart_gap", "west", 8 * HOUR_MS, 24.0),
        ("scheduler", "requeue_wait", "west", 0, 0.0),
    ]


def test_by_cause(spark):
    told = charges.by_cause(ledger(spark), SITE)
    assert tuples(told, "cause", "model", "lost_ms", "lost_gpu_ms") == [
        (None, "m1", HOUR_MS, 4 * HOUR_MS),
        (None, "m2", 2 * HOUR_MS, 2 * HOUR_MS),
        ("network", "m1", 6 * HOUR_MS, 8 * HOUR_MS),
    ]


def test_without_a_price_the_cost_is_unknown_not_nothing(spark):
    told = charges.by_owner(ledger(spark), DEFAULT)
    assert {cost for (cost,) in tuples(told, "lost_cost")} == {None}
