"""What starts a run: new files once, stale days once, yesterday each night."""

import os
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest

from pipelines.checks import day_due, freshness
from pipelines.resources import Fleet
from pipelines.schedules import nightly
from pipelines.sensors import new_files, recompute_stale_days
from pipelines.tables import WAREHOUSE_PUBLICATION, WAREHOUSE_STALE_DAY
from pipelines.warehouse import Warehouse
from tests.logs import started, write

FIRST = date(2026, 1, 1)


@pytest.fixture
def fleet(tmp_path):
    (tmp_path / "raw").mkdir()
    places = {"warehouse": str(tmp_path / "house"), "site": str(tmp_path / "site")}
    return Fleet(raw=[str(tmp_path / "raw")], **places)


def tick(sensor, fleet, cursor=None):
    """What a sensor asks for, and its new cursor."""
    with dg.build_sensor_context(cursor=cursor, resources={"fleet": fleet}) as context:
        return sensor(context), context.cursor


def test_new_files_are_asked_for_once(fleet, tmp_path):
    asked, cursor = tick(new_files, fleet)
    assert isinstance(asked, dg.SkipReason)

    log = write(tmp_path / "raw" / "a.jsonl", started("11-01 10:00"))
    first, cursor = tick(new_files, fleet, cursor)
    assert first.partition_key == datetime.now(UTC).date().isoformat()
    again, cursor = tick(new_files, fleet, cursor)
    assert isinstance(again, dg.SkipReason)

    write(log, started("11-01 10:00", gpus=16))
    changed, _ = tick(new_files, fleet, cursor)
    assert changed.run_key != first.run_key


def test_a_file_that_lands_with_an_old_time_is_seen(fleet, tmp_path):
    write(tmp_path / "raw" / "a.jsonl", started("11-01 10:00"))
    _, cursor = tick(new_files, fleet)
    late = write(tmp_path / "raw" / "b.jsonl", started("11-01 10:00", "b"))
    os.utime(late, (0, 0))

    asked, _ = tick(new_files, fleet, cursor)
    assert isinstance(asked, dg.RunRequest)


def mark(fleet, *days):
    now = datetime(2026, 2, 1, tzinfo=UTC)
    rows = [{"ds": d, "marked_at": now, "run_id": "r", "reason": "late"} for d in days]
    house = Warehouse(fleet.warehouse)
    house.commit(house.stage_rows(WAREHOUSE_STALE_DAY, WAREHOUSE_STALE_DAY.arrow(rows), "r"), "x")


def test_each_span_of_stale_days_is_one_run(fleet):
    sensor = recompute_stale_days(FIRST)
    with dg.build_sensor_context(resources={"fleet": fleet}) as context:
        assert [type(a) for a in sensor(context)] == [dg.SkipReason]

        today = datetime.now(UTC).date()
        mark(fleet, date(2025, 12, 31), date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 9), today)
        asked = list(sensor(context))
        again = list(sensor(context))
    assert [tuple(a.tags.values()) for a in asked] == [
        ("2026-01-01", "2026-01-02"),
        ("2026-01-09", "2026-01-09"),
    ]
    assert [a.run_key for a in again] == [a.run_key for a in asked]


def test_each_night_yesterday_is_asked_for():
    at = datetime(2026, 11, 5, 1, tzinfo=UTC)
    asked = nightly(dg.build_schedule_context(scheduled_execution_time=at))
    assert (asked.partition_key, asked.run_key) == ("2026-11-04", "2026-11-04")


def test_freshness_goes_by_days_not_by_runs(fleet):
    assert not freshness(fleet=fleet).passed
    house = Warehouse(fleet.warehouse)
    told = {c.name: 0 for c in WAREHOUSE_PUBLICATION.columns if c.type == "long"}
    now = datetime.now(UTC)
    told |= {
        "run_id": "r",
        "published_at": now,
        "as_of": now,
        "engine": "x",
        "is_provisional": False,
    }

    def publish(*days):
        rows = [{"ds": d, "ettledger_version": "1", **told} for d in days]
        staged = house.stage_rows(WAREHOUSE_PUBLICATION, WAREHOUSE_PUBLICATION.arrow(rows), "r")
        house.commit(staged, "x")

    publish(day_due() - timedelta(days=1))  # a backfill that ran just now
    late = freshness(fleet=fleet)
    assert (late.passed, late.severity) == (False, dg.AssetCheckSeverity.WARN)
    publish(day_due())
    assert freshness(fleet=fleet).passed
