"""Runs of the assets: two days, a range as one run, a check that blocks."""

from datetime import date, timedelta

import dagster as dg
import pytest

from pipelines import walk
from pipelines.assets import build_assets, daily, preview_allowed
from pipelines.errors import ConservationError, InputError, UsageError
from pipelines.materialise import QUIET, materialise
from pipelines.resources import Fleet, use_engine
from pipelines.tables import LEDGER_INTERVAL, WAREHOUSE_PUBLICATION
from pipelines.warehouse import Warehouse
from tests.logs import ended, started, steps, write

D1, D2, D3 = date(2026, 11, 1), date(2026, 11, 2), date(2026, 11, 3)
LOG = [
    *started("11-01 21:30", training="11-01 22:00"),
    *steps(("11-01 23:00", 10), ("11-02 01:00", 30), ("11-03 01:00", 90)),
    *ended("11-03 02:00"),
]


def a_fleet(root, engine):
    """One job of three days, in logs of its own."""
    if engine.name != "sail":
        pytest.skip("Dagster calls the same steps on every engine")
    use_engine(engine)
    write(root / "raw" / "a.jsonl", LOG)
    places = {"warehouse": str(root / "house"), "site": str(root / "site")}
    return Fleet(raw=[str(root / "raw")], as_of="2026-11-09T00:00:00Z", **places)


@pytest.fixture
def fleet(tmp_path, engine):
    return a_fleet(tmp_path, engine)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory, engine):
    """A fleet whose first two days were materialised, in a Dagster instance that lasts."""
    root = tmp_path_factory.mktemp("fleet")
    fleet = a_fleet(root, engine)
    home = root / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        yield fleet, materialise(fleet, first=D1, last=D2, tick=ticks.append), ticks


def test_a_range_is_one_run_and_every_day_is_told_by_itself(lasting):
    _, report, ticks = lasting

    assert (report.days, report.stale_days) == ([D1, D2], [D3])
    assert (report.file_count, report.line_count, report.reject_count) == (1, len(LOG), 0)
    assert report.rows["scorecard__fleet"] == 2
    assert report.index.is_file()
    assert ticks[:3] == [1, 2, 3]
    with dg.DagsterInstance.get() as instance:
        (run,) = [r for r in instance.get_runs() if r.run_id == report.run_id]
        assert run.tags["dagster/asset_partition_range_end"] == "2026-11-02"
        both = {"2026-11-01", "2026-11-02"}
        for asset in ("raw", "ledger", "site"):
            assert instance.get_materialized_partitions(dg.AssetKey(asset)) >= both
        ledger = told_of(instance, "ledger", "2026-11-01")
        assert (
            ledger["dagster/partition_row_count"] == ledger["rows_of_day"]["ledger__interval"] > 0
        )
        assert (
            "| Unattributed | observability |"
            in told_of(instance, "charges", "2026-11-01")["ranking"]
        )
        assert check_states(instance, "ledger", "balance") == dict.fromkeys(both, True)


def test_a_check_that_fails_blocks_and_the_old_version_stays(lasting, monkeypatch):
    fleet, _, _ = lasting
    house = Warehouse(fleet.warehouse)
    before = {name: house.version(name) for name in house.tables()}
    right = walk.charges

    def wrong(ledger, settings):
        frames = right(ledger, settings)
        doubled = frames["charges__cause"].selectExpr(
            *(f"{c} * 2 AS {c}" if c == "lost_ms" else c for c in frames["charges__cause"].columns)
        )
        return {**frames, "charges__cause": doubled}

    monkeypatch.setattr(walk, "charges", wrong)
    with pytest.raises(ConservationError, match="the tables do not agree about lost time"):
        materialise(fleet, first=D1, last=D2)

    assert {name: house.version(name) for name in house.tables()} == before
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs(limit=1)[0].status == dg.DagsterRunStatus.FAILURE
        assert set(check_states(instance, "charges", "day_sums").values()) == {False}
        assert set(check_states(instance, "ledger", "balance").values()) == {True}


def test_without_bounds_the_days_that_need_it_are_computed(lasting):
    fleet, _, _ = lasting
    rest = materialise(fleet)
    assert (rest.days, rest.stale_days, rest.fresh_file_count) == ([D3], [], 0)
    house = Warehouse(fleet.warehouse)
    assert [str(d) for d in house.days(LEDGER_INTERVAL)] == [
        "2026-11-01",
        "2026-11-02",
        "2026-11-03",
    ]
    nothing = materialise(fleet)
    assert (nothing.days, nothing.rows, nothing.index) == ([], {}, None)


def told_of(instance, asset, day):
    """The metadata of the latest materialisation of a day."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[day]), limit=1
    ).records
    return {k: v.value for k, v in records[0].asset_materialization.metadata.items()}


def check_states(instance, asset, name):
    """By day, whether the check passed when it was last evaluated."""
    records = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey(asset), name), limit=20
    )
    return {r.partition: r.status.value == "SUCCEEDED" for r in reversed(records) if r.partition}


def test_one_asset_can_be_materialised_alone_for_one_day(fleet):
    with preview_allowed():
        assets = build_assets(daily(D1, D3))
    with dg.DagsterInstance.ephemeral() as instance:
        how = {"resources": {"fleet": fleet}, "instance": instance, "run_config": QUIET}
        for chosen in ("logbook", "charges"):
            done = dg.materialize(assets, selection=[chosen], partition_key="2026-11-02", **how)
            assert done.success

    house = Warehouse(fleet.warehouse)
    assert [
        t for t in house.tables() if t.split("__")[0] in ("ledger", "scorecard", "charges")
    ] == [
        "charges__owner_component",
        "charges__cause",
    ]
    assert not house.has(WAREHOUSE_PUBLICATION)
    evaluated = {e.check_name: e.partition for e in done.get_asset_check_evaluations()}
    assert evaluated == dict.fromkeys(
        ("charges__owner_component", "charges__cause", "day_sums"), "2026-11-02"
    )


def test_what_cannot_be_run_is_said_as_it_is(fleet, tmp_path):
    with pytest.raises(UsageError, match="the first day, 2026-11-02, is later than the last"):
        materialise(fleet, first=D2, last=D1)
    gone = Fleet(raw=[str(tmp_path / "nowhere")], warehouse=fleet.warehouse, site=fleet.site)
    with pytest.raises(InputError, match="no file or folder at"):
        materialise(gone, first=D1, last=D1 + timedelta(days=1))


def test_an_interrupted_run_is_a_ctrl_c_and_nothing_else(fleet, monkeypatch):
    def interrupted(*_, **__):
        raise dg.DagsterExecutionInterruptedError

    monkeypatch.setattr(dg, "materialize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        materialise(fleet, first=D1, last=D1)
