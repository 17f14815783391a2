"""The warehouse: days are swapped whole or not at all, whoever else writes or dies meanwhile."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pipelines.errors import ConflictError, ContractError, WarehouseError
from pipelines.tables import CHARGES_CAUSE, WAREHOUSE_PUBLICATION, WAREHOUSE_STALE_DAY, Column
from pipelines.warehouse import NEVER, Warehouse

D1, D2, D3 = date(2026, 11, 1), date(2026, 11, 2), date(2026, 11, 3)
TABLE = CHARGES_CAUSE
ENGINE = "test 1.0"


@pytest.fixture
def house(tmp_path):
    return Warehouse(tmp_path / "house")


def losses(spark, *rows):
    """A frame of charges__cause: (day, cause, lost_ms)."""
    full = [(d, cause, "c", None, None, ms, ms * 8, None) for d, cause, ms in rows]
    return spark.createDataFrame(full, TABLE.ddl)


def stored(house, **how):
    found = house.read_arrow(TABLE, ["ds", "cause", "lost_ms"], **how).to_pylist()
    return sorted((r["ds"], r["cause"], r["lost_ms"]) for r in found)


def stale_marks(*days):
    now = datetime(2026, 11, 1, tzinfo=UTC)
    return WAREHOUSE_STALE_DAY.arrow(
        [{"ds": d, "marked_at": now, "run_id": "r", "reason": "late"} for d in days]
    )


# --- swapping days ---


def test_published_days_read_back_with_the_engine_and_without(spark, house):
    house.publish(
        TABLE, losses(spark, (D1, "network", 5), (D2, "storage", 7)), [D1, D2], "a", ENGINE
    )

    assert stored(house) == [(D1, "network", 5), (D2, "storage", 7)]
    frame = house.read(spark, TABLE, [D2])
    assert frame.columns == TABLE.names
    assert [(r.ds, r.cause, r.lost_gpu_ms) for r in frame.collect()] == [(D2, "storage", 56)]
    assert house.days(TABLE) == [D1, D2]


def test_ds_is_a_column_of_the_files_and_their_day_is_in_the_log(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)

    (path,) = DeltaTable(f"{house.root}/{TABLE.name}").file_uris()
    assert pq.ParquetFile(path).schema_arrow.names == TABLE.names


def test_a_day_is_replaced_and_the_others_stay(spark, house):
    house.publish(
        TABLE, losses(spark, (D1, "network", 5), (D2, "storage", 7)), [D1, D2], "a", ENGINE
    )
    house.publish(TABLE, losses(spark, (D1, "service", 1), (D2, "service", 2)), [D1], "b", ENGINE)

    assert stored(house) == [(D1, "service", 1), (D2, "storage", 7)]


def test_an_empty_day_takes_the_old_rows_away(spark, house):
    house.publish(
        TABLE, losses(spark, (D1, "network", 5), (D2, "storage", 7)), [D1, D2], "a", ENGINE
    )
    house.publish(TABLE, losses(spark), [D2], "b", ENGINE)

    assert stored(house) == [(D1, "network", 5)]
    assert house.days(TABLE) == [D1]
    assert house.read(spark, TABLE, [D2]).count() == 0


def test_earlier_versions_can_be_read(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)
    before = house.version(TABLE)
    house.publish(TABLE, losses(spark, (D1, "network", 6)), [D1], "b", ENGINE)

    assert stored(house, version=before) == [(D1, "network", 5)]
    assert house.read(spark, TABLE, version=before).first().lost_ms == 5
    assert stored(house) == [(D1, "network", 6)]


def test_days_apart_are_swapped_without_those_between(spark, house):
    rows = [(D1, "network", 1), (D2, "network", 2), (D3, "network", 3)]
    house.publish(TABLE, losses(spark, *rows), [D1, D2, D3], "a", ENGINE)
    again = losses(spark, *[(d, c, ms * 10) for d, c, ms in rows])
    house.publish(TABLE, again, [D1, D3], "b", ENGINE)

    assert [ms for _, _, ms in stored(house)] == [10, 2, 30]


def test_a_table_that_is_not_daily_is_swapped_whole(house):
    for days in ([D1, D2], [D3], []):
        house.commit(house.stage_rows(WAREHOUSE_STALE_DAY, stale_marks(*days), "a"), ENGINE)
        assert house.read_arrow(WAREHOUSE_STALE_DAY, ["ds"])["ds"].to_pylist() == days


def test_the_log_names_run_engine_and_bounds(spark, house):
    house.publish(
        TABLE, losses(spark, (D1, "network", 5), (D1, "storage", 9)), [D1], "run-7", ENGINE
    )

    delta = DeltaTable(f"{house.root}/{TABLE.name}")
    told = delta.history(1)[0]
    assert (told["run_id"], told["engine"]) == ("run-7", ENGINE)
    files = pa.table(delta.get_add_actions(flatten=True)).to_pylist()  # an engine may write several
    assert sum(f["num_records"] for f in files) == 2
    assert (min(f["min.lost_ms"] for f in files), max(f["max.lost_ms"] for f in files)) == (5, 9)
    assert min(f["min.cause"] for f in files) == "network"
    assert sum(f["null_count.model"] for f in files) == 2


# --- others who write at the same time, and runs that die ---


def test_what_is_staged_is_not_visible(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)
    house.stage(TABLE, losses(spark, (D1, "network", 6), (D2, "network", 6)), [D1, D2], "b")

    assert stored(house) == [(D1, "network", 5)]


def test_a_run_killed_before_its_commit_leaves_the_old_version(house):
    house.commit(house.stage_rows(WAREHOUSE_STALE_DAY, stale_marks(D1), "a"), ENGINE)
    dying = f"""
import os, signal
from tests.test_warehouse import D2, WAREHOUSE_STALE_DAY, Warehouse, stale_marks
house = Warehouse({house.root!r})
staged = house.stage_rows(WAREHOUSE_STALE_DAY, stale_marks(D2), "b")
house._swap = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
house.commit(staged, "x")
"""
    died = subprocess.run(
        [sys.executable, "-c", dying], cwd=Path(__file__).parent.parent, check=False
    )

    assert died.returncode == -9
    assert house.read_arrow(WAREHOUSE_STALE_DAY, ["ds"])["ds"].to_pylist() == [D1]
    house.commit(house.stage_rows(WAREHOUSE_STALE_DAY, stale_marks(D3), "c"), ENGINE)
    assert house.read_arrow(WAREHOUSE_STALE_DAY, ["ds"])["ds"].to_pylist() == [D3]


def test_two_stale_writers_of_an_empty_day_never_both_add_to_it(spark, house, monkeypatch):
    house.publish(TABLE, losses(spark, (D2, "network", 1)), [D2], "a", ENGINE)
    staged = [house.stage(TABLE, losses(spark, (D1, "network", n)), [D1], f"w{n}") for n in (1, 2)]
    both_have_read = threading.Barrier(2)
    swaps = []
    swap = Warehouse._swap

    def late(self, delta, what, engine):
        swaps.append(what.run_id)
        if len(swaps) <= 2:
            both_have_read.wait(timeout=30)
        swap(self, delta, what, engine)

    monkeypatch.setattr(Warehouse, "_swap", late)
    writers = [threading.Thread(target=house.commit, args=(s, ENGINE)) for s in staged]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert len(swaps) == 3  # one of them had to do it again, on top of the other
    assert stored(house) in ([(D1, "network", n), (D2, "network", 1)] for n in (1, 2))


def test_rows_made_from_a_version_that_is_gone_are_refused(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 1)), [D1], "a", ENGINE)
    read = house.version(TABLE)
    staged = house.stage(TABLE, losses(spark, (D1, "network", 3)), [D1], "c")
    house.publish(TABLE, losses(spark, (D1, "network", 2)), [D1], "b", ENGINE)

    with pytest.raises(ConflictError, match="charges__cause was changed by another run"):
        house.commit(staged, ENGINE, base=read)
    assert stored(house) == [(D1, "network", 2)]


def test_updates_at_the_same_time_are_all_kept(house):
    days = [D1 + timedelta(days=n) for n in range(6)]

    def add(day):
        house.update(
            WAREHOUSE_STALE_DAY,
            lambda rows: pa.concat_tables([rows, stale_marks(day)]),
            "a",
            ENGINE,
        )

    writers = [threading.Thread(target=add, args=(day,)) for day in days]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(house.read_arrow(WAREHOUSE_STALE_DAY, ["ds"])["ds"].to_pylist()) == days


# --- what is refused ---


def test_rows_that_break_the_contract_are_refused_and_the_old_version_stays(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)

    with pytest.raises(ContractError, match=r"'cause' is 'netwrk'.*did you mean 'network'"):
        house.publish(TABLE, losses(spark, (D1, "netwrk", 6)), [D1], "b", ENGINE)
    assert stored(house) == [(D1, "network", 5)]


def written_by_hand(house, folder, rows, **columns):
    """A file put into a folder of a day as an engine would, but with what columns say."""
    table = TABLE.arrow(rows)
    for name, values in columns.items():
        table = table.append_column(name, values)
    where = Path(house.root, TABLE.name, "run=x", folder)
    where.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, where / "part.parquet")
    return where / "part.parquet"


ROW = {"ds": D1, "cause": "network", "cluster": "c", "lost_ms": 1, "lost_gpu_ms": 8}


@pytest.mark.parametrize(
    ("folder", "days", "columns", "said"),
    [
        (
            "day=2026-11-02",
            [D2],
            {},
            "rows of 2026-11-01 to 2026-11-01 in the folder of 2026-11-02",
        ),
        ("day=2026-11-01", [D2], {}, "is of 2026-11-01, which is not among the days"),
        ("day=2026-11-01", [D1], {"extra": pa.array([1])}, "has a column 'extra'.*not declare"),
    ],
    ids=["another day inside", "another day than asked", "an extra column"],
)
def test_files_that_do_not_fit_are_refused(house, folder, days, columns, said):
    written_by_hand(house, folder, [ROW], **columns)

    with pytest.raises(ContractError, match=said):
        house.commit(house.staged(TABLE, "run=x", days, "x"), ENGINE)
    assert not house.has(TABLE)


def test_rows_without_a_day_are_refused(house):
    written_by_hand(house, "day=__HIVE_DEFAULT_PARTITION__", [ROW])

    with pytest.raises(ContractError, match="have no `ds`"):
        house.staged(TABLE, "run=x", [D1], "x")


def test_a_file_that_has_gone_is_not_committed(house):
    path = written_by_hand(house, "day=2026-11-01", [ROW])
    staged = house.staged(TABLE, "run=x", [D1], "x")
    path.unlink()

    with pytest.raises(WarehouseError, match=r"part\.parquet is missing"):
        house.commit(staged, ENGINE)
    assert house.days(TABLE) == []


def test_a_table_never_published_says_what_there_is(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)

    with pytest.raises(
        WarehouseError, match=r"ledger__interval was never published.*has charges__cause"
    ):
        house.read(spark, "ledger__interval")
    with pytest.raises(
        ContractError, match="no table 'charge__cause': did you mean 'charges__cause'"
    ):
        house.read_arrow("charge__cause")
    assert house.version("ledger__interval") == NEVER


def test_a_root_that_no_engine_can_write_to_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("x")
    for root, said in (
        ("file", "is a file: give a folder"),
        ("a[1]*", r"has \* \[ \] in its path"),
    ):
        with pytest.raises(WarehouseError, match=said):
            Warehouse(tmp_path / root)


def test_a_run_id_that_is_no_name_of_a_folder_is_refused(spark, house):
    with pytest.raises(WarehouseError, match=r"'\.\./x' cannot name a run"):
        house.stage(TABLE, losses(spark), [D1], "../x")


# --- a contract that changes ---


def test_a_new_column_that_may_be_null_is_added(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)
    wider = replace(TABLE, columns=(*TABLE.columns, Column("note", "string", "A note.")))
    noted = losses(spark, (D2, "network", 6)).selectExpr("*", "'seen' AS note")
    house.publish(wider, noted, [D2], "b", ENGINE)

    read = house.read(spark, wider).orderBy("ds").collect()
    assert [(r.ds, r.note) for r in read] == [(D1, None), (D2, "seen")]
    assert house.read_arrow(wider, ["ds", "note"]).sort_by("ds")["note"].to_pylist() == [
        None,
        "seen",
    ]


@pytest.mark.parametrize(
    "column",
    [Column("note", "string", "A note.", is_nullable=False), Column("lost_ms", "double", "Lost.")],
    ids=["new and never null", "of another type"],
)
def test_a_column_that_old_days_cannot_have_is_refused(spark, house, column):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)
    columns = {c.name: c for c in TABLE.columns} | {column.name: column}
    other = replace(TABLE, columns=tuple(columns.values()))

    with pytest.raises(WarehouseError, match=f"another version of ettledger: '{column.name}'"):
        house.publish(other, losses(spark).selectExpr("*", "'x' AS note"), [D2], "b", ENGINE)


# --- keeping house ---


def test_vacuum_takes_old_orphans_and_nothing_that_is_read_or_being_written(spark, house):
    house.publish(TABLE, losses(spark, (D1, "network", 5)), [D1], "a", ENGINE)
    first = house.version(TABLE)
    house.publish(TABLE, losses(spark, (D1, "network", 6)), [D1], "b", ENGINE)
    orphan = house.stage(TABLE, losses(spark, (D2, "network", 7)), [D2], "dead")
    running = house.stage(TABLE, losses(spark, (D3, "network", 8)), [D3], "alive")
    long_ago = time.time() - 30 * 86_400
    for path in Path(house.root, TABLE.name).rglob("*.parquet"):
        if "run=alive" not in str(path):
            os.utime(path, (long_ago, long_ago))

    assert house.vacuum()[TABLE.name] == 1

    with pytest.raises(WarehouseError, match="is missing"):
        house.commit(orphan, ENGINE)
    house.commit(running, ENGINE)
    assert stored(house) == [(D1, "network", 6), (D3, "network", 8)]
    assert stored(house, version=first) == [(D1, "network", 5)]


def test_a_retention_that_would_take_a_running_writers_files_is_refused(house):
    with pytest.raises(WarehouseError, match="at least 1 day"):
        house.vacuum(timedelta(hours=2))


def test_vacuum_takes_the_scratch_of_runs_that_were_killed_long_ago(spark, house):
    dead, alive = house.scratch("dead"), house.scratch("alive")
    for scratch in (dead, alive):
        scratch.keep("numbers", spark.range(3))
    long_ago = time.time() - 30 * 86_400
    for path in Path(dead._path, "..").resolve().rglob("*"):
        if "run=dead" in str(path):
            os.utime(path, (long_ago, long_ago))

    assert house.vacuum()["scratch"] == 1
    assert not Path(dead._path).exists()
    assert alive.keep("numbers", spark.range(3)).count() == 3
    alive.remove()


# --- intermediates ---


def test_scratch_keeps_each_name_once_and_is_gone_at_the_end(spark, house):
    with house.scratch("a") as scratch:
        kept = scratch.keep("numbers", spark.range(3))
        assert scratch.keep("numbers", spark.range(99)).count() == 3
        assert sorted(r.id for r in kept.collect()) == [0, 1, 2]
        folder = Path(scratch._path)
        assert folder.is_dir()
    assert not folder.exists()


def test_scratch_keeps_the_columns_of_a_frame_without_rows(spark, house):
    with house.scratch("a") as scratch:
        kept = scratch.keep(
            "none", spark.range(3).selectExpr("id", "date'2026-11-01' ds").where("id < 0")
        )
        assert kept.schema.simpleString() == "struct<id:bigint,ds:date>"
        assert kept.count() == 0


# --- restatements ---


def test_a_day_published_again_with_other_figures_is_a_restatement(house):
    def publication(run_id, hour, *, effective_ms, is_provisional):
        told = dict.fromkeys(("job_count", "effective_gpu_ms", "held_gpu_ms", "wall_ms"), 1)
        return {
            "ds": D1, "run_id": run_id, "engine": ENGINE, "ettledger_version": "1", **told,
            "published_at": datetime(2026, 11, 2, hour, tzinfo=UTC), "effective_ms": effective_ms,
            "as_of": datetime(2026, 11, 2, tzinfo=UTC), "is_provisional": is_provisional,
        }  # fmt: skip

    rows = [
        publication("late", 9, effective_ms=7, is_provisional=False),
        publication("first", 1, effective_ms=5, is_provisional=True),
        publication("same", 2, effective_ms=5, is_provisional=False),
    ]
    assert house.restatements() == []
    staged = house.stage_rows(WAREHOUSE_PUBLICATION, WAREHOUSE_PUBLICATION.arrow(rows), "a")
    house.commit(staged, ENGINE)

    (found,) = house.restatements()
    assert (found.ds, found.run_id, found.was_provisional) == (D1, "late", False)
    assert (found.before["effective_ms"], found.after["effective_ms"]) == (5, 7)
