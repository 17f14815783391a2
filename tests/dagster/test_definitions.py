"""What Dagster loads: the graph, its days, its checks, and the instance file."""

from datetime import date
from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines.assets import WALK, daily
from pipelines.contracts import CONSERVATION
from pipelines.definitions import build_definitions, start_date
from pipelines.errors import UsageError
from pipelines.resources import fleet_from
from pipelines.tables import LEDGER_INTERVAL, TABLES

ROOT = Path(__file__).parents[2]
FIRST = date(2026, 11, 1)


@pytest.fixture(scope="module")
def graph():
    return build_definitions(FIRST).resolve_asset_graph()


def node(graph, name):
    return graph.get(dg.AssetKey(name))


def test_the_assets_are_the_walk_in_its_order(graph):
    parents = {name: [k.to_user_string() for k in node(graph, name).parent_keys] for name in WALK}

    assert parents == {
        "raw": [], "logbook": ["raw"], "ledger": ["logbook"], "scorecard": ["ledger"],
        "charges": ["scorecard"], "site": ["charges"],
    }  # fmt: skip


def test_every_asset_has_the_same_days_and_backfills_in_one_run(graph):
    for name in WALK:
        assert node(graph, name).partitions_def == daily(FIRST)
        assert node(graph, name).backfill_policy == dg.BackfillPolicy.single_run()
    keys = daily(FIRST).get_partition_keys()
    assert keys[0] == "2026-11-01"


def test_every_published_table_and_law_has_a_blocking_check_by_day(graph):
    checks = [graph.get(key) for key in graph.asset_check_keys if key.name != "freshness"]

    of_tables = {t for t in TABLES if not t.startswith("warehouse")}
    assert {c.key.name for c in checks} == of_tables | set(CONSERVATION)
    assert all(c.blocking for c in checks)
    assert all(c.partitions_def == daily(FIRST) for c in checks)


def test_assets_tell_owner_kind_and_columns(graph):
    ledger = node(graph, "ledger")

    assert ledger.owners == ["team:observability"]
    assert ledger.kinds == {"deltalake"}
    columns = ledger.metadata["dagster/column_schema"].columns
    assert [c.name for c in columns] == LEDGER_INTERVAL.names
    assert columns[1].description == LEDGER_INTERVAL["cluster"].meaning
    lineage = ledger.metadata["dagster/column_lineage"].deps_by_column
    assert lineage["job_id"][0].asset_key == dg.AssetKey("logbook")


def test_jobs_schedules_and_sensors_are_there():
    defs = build_definitions(FIRST)
    dg.Definitions.validate_loadable(defs)

    assert {j.name for j in defs.jobs} == {"walk", "read", "freshness", "upkeep"}
    assert {s.name for s in defs.schedules} == {"nightly", "hourly_freshness", "weekly_upkeep"}
    assert {s.name for s in defs.sensors} == {"new_files", "stale_days"}
    assert defs.executor is dg.in_process_executor


def test_days_can_be_left_out_and_lie_ahead():
    days = daily(date(2026, 11, 1), date(2026, 11, 4), but=[date(2026, 11, 2), date(2026, 11, 3)])
    assert days.get_partition_keys() == ["2026-11-01", "2026-11-04"]
    assert daily(date(2126, 1, 1), date(2126, 1, 2)).get_last_partition_key() == "2126-01-02"


def test_the_start_date_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("ETT_START_DATE", "2026-02-03")
    assert start_date() == date(2026, 2, 3)
    monkeypatch.setenv("ETT_START_DATE", "yesterday")
    with pytest.raises(UsageError, match="'yesterday' is no day"):
        start_date()


def test_the_fleet_comes_from_the_environment():
    fleet = fleet_from({"ETT_RAW": "logs:more", "ETT_ENGINE": "local[2]", "ETT_DEAD_AFTER_MS": "5"})

    assert (fleet.raw, fleet.warehouse, fleet.engine) == (["logs", "more"], "warehouse", "local[2]")
    assert (fleet.dead_after_ms, fleet.as_of) == (5, None)


def test_the_instance_keeps_everything_in_one_ignored_folder():
    told = yaml.safe_load((ROOT / "dagster.yaml").read_text(encoding="utf-8"))

    folders = [
        told["storage"]["sqlite"]["base_dir"],
        told["local_artifact_storage"]["config"]["base_dir"],
        told["compute_logs"]["config"]["base_dir"],
    ]
    assert all(Path(folder).parts[0] == ".dagster" for folder in folders)
    assert ".dagster/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert told["telemetry"] == {"enabled": False}
