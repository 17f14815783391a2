"""The reader: only what is asked for is read, and what is missing is said."""

from __future__ import annotations

import shutil
from datetime import date

import pandas as pd
import pytest

from dashboards.published import Published, latest
from pipelines import tables
from pipelines.errors import ContractError, WarehouseError
from tests.dashboards.fleet import days, write_table


def test_a_missing_warehouse_says_how_to_publish_one(tmp_path):
    with pytest.raises(WarehouseError, match=r"no warehouse at .*nowhere.*ett run"):
        Published(tmp_path / "nowhere")


def test_a_missing_table_says_which_ones_are_there(published):
    with pytest.raises(WarehouseError, match=r"no table logbook__event; it has .*ledger__interval"):
        published.read(tables.LOGBOOK_EVENT, ["ds"])


def test_an_undeclared_column_names_the_nearest(published):
    with pytest.raises(ContractError, match="did you mean 'duration_ms'"):
        published.read(tables.LEDGER_INTERVAL, ["duration"])


def test_only_the_days_and_columns_asked_for(published):
    one = days()[1]
    frame = published.read(tables.LEDGER_INTERVAL, ["ds", "duration_ms"], [one])
    assert list(frame.columns) == ["ds", "duration_ms"]
    assert set(frame["ds"]) == {one}


def test_files_of_other_days_stay_shut(warehouse, tmp_path):
    copy = tmp_path / "warehouse"
    shutil.copytree(warehouse, copy)
    shutil.rmtree(copy / "ledger__interval" / f"ds={days()[0]}")
    published = Published(copy)
    assert len(published.read(tables.LEDGER_INTERVAL, ["ds"], days()[1:]))
    with pytest.raises(WarehouseError, match="ledger__interval cannot be read"):
        published.read(tables.LEDGER_INTERVAL, ["ds"])


def test_no_day_asked_for_gives_no_row_but_every_column(published):
    frame = published.read(tables.SCORECARD_FLEET, ["ds", "wall_ms"], [])
    assert frame.empty
    assert list(frame.columns) == ["ds", "wall_ms"]


def test_whole_numbers_keep_their_nulls(published):
    attempts = published.read(tables.LEDGER_INTERVAL, ["attempt"])["attempt"]
    assert attempts.dtype == pd.Int64Dtype()
    assert attempts.isna().any()


def test_the_last_publication_of_a_day_counts(published):
    told = published.publications()
    assert list(told["ds"]) == days()
    assert list(told["is_provisional"]) == [False] * 5 + [True]


def test_stale_days_are_none_where_nobody_ever_marked_one(published, tmp_path):
    assert published.stale_days() == [days()[1]]
    write_table(tmp_path, tables.LOGBOOK_REJECT, pd.DataFrame(columns=tables.LOGBOOK_REJECT.names))
    assert Published(tmp_path).stale_days() == []


def test_of_a_whole_job_the_row_of_the_latest_day_counts():
    frame = pd.DataFrame(
        {
            "ds": [date(2026, 11, 2), date(2026, 11, 1), date(2026, 11, 1)],
            "job_id": ["a", "a", "b"],
            "wall_ms": [20, 10, 5],
        }
    )
    assert latest(frame, ["job_id"])[["job_id", "wall_ms"]].to_dict("list") == {
        "job_id": ["b", "a"],
        "wall_ms": [5, 20],
    }


def test_a_day_is_restated_when_its_final_figures_changed(tmp_path):
    moment = pd.Timestamp("2026-11-03T00:00Z")
    rows = [
        (1, 0, False, 10), (1, 1, False, 12),  # final, then another figure: restated
        (2, 0, True, 10), (2, 1, False, 12),  # provisional before: expected to change
        (3, 0, False, 10), (3, 1, False, 10),  # computed again to the same
    ]  # fmt: skip
    frame = pd.DataFrame(
        [
            {"ds": date(2026, 11, day), "run_id": f"run-{n}", "published_at": moment + pd.Timedelta(n, "h"), "as_of": moment,
             "engine": "sail", "ettledger_version": "0.1.0", "is_provisional": is_provisional, "job_count": 1,
             "effective_gpu_ms": effective, "held_gpu_ms": 20, "effective_ms": 1, "wall_ms": 2}
            for day, n, is_provisional, effective in rows
        ]
    )  # fmt: skip
    write_table(tmp_path, tables.WAREHOUSE_PUBLICATION, frame)
    assert Published(tmp_path).restated_days() == [date(2026, 11, 1)]
