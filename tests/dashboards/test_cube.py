"""What the browser sums is what was published: nothing is lost on the way, and owners are theirs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from dashboards.cube import (
    SIZES,
    dimensions,
    packed_jobs,
    packed_rows,
    read_cube,
    sizes,
    unpacked_rows,
)
from dashboards.packed import unpack
from dashboards.period import read_period
from pipelines import tables
from pipelines.taxonomy import EFFECTIVE


@pytest.fixture(scope="module")
def period(published):
    return read_period(published)


@pytest.fixture(scope="module")
def cube(published, period):
    return read_cube(published, period.dates, period.jobs)


def test_the_rows_sum_to_the_published_days(cube, period):
    held = cube.rows.groupby("day")["gpu_ms"].sum().tolist()
    assert held == period.days["held_gpu_ms"].tolist()
    assert cube.rows["duration_ms"].sum() == period.totals.wall_ms


def test_losses_by_owner_are_the_published_charges(cube, period):
    named = cube.rows.merge(cube.codes, left_on="code", right_index=True)
    lost = named[named["component"] != EFFECTIVE].groupby(["component", "owner"])["gpu_ms"].sum()
    published = period.ranking.set_index(["component", "owner"])["lost_gpu_ms"]
    assert lost.to_dict() == published.to_dict()
    assert named.loc[named["component"] == EFFECTIVE, "owner"].isna().all()


def test_prices_give_the_published_cost_back(cube, published, period):
    price = {(ds, cluster): value for ds, cluster, value in cube.prices.itertuples(index=False)}
    charges = published.read(tables.CHARGES_OWNER_COMPONENT, ["ds", "cluster", "lost_gpu_ms"])
    keys = zip(charges["ds"], charges["cluster"], charges["lost_gpu_ms"], strict=True)
    cost = sum(
        price[ds, cluster] * ms / 3_600_000 for ds, cluster, ms in keys if (ds, cluster) in price
    )
    assert cost == pytest.approx(period.totals.lost_cost)
    assert {cluster for _, cluster in price} == {"h100-east", "h100-west"}


def test_pieces_hold_every_row_once_and_whole_days_each(cube, monkeypatch):
    monkeypatch.setattr("dashboards.cube.MAX_ROWS", 100)
    pieces = [unpacked_rows(piece) for piece in packed_rows(cube)]
    assert len(pieces) > 2
    whole = pd.concat(pieces, ignore_index=True)
    pd.testing.assert_frame_equal(whole, cube.rows.astype("int64"), check_dtype=False)
    assert sum(p["day"].nunique() for p in pieces) == whole["day"].nunique()


def test_rows_of_mixed_gpus_and_partly_inferred_time_come_out_as_they_went_in(cube):
    rows = pd.DataFrame(
        [
            (0, 0, 0, 100, 800, 0),  # 8 GPUs all along
            (0, 0, 1, 100, 1_250, 100),  # 8 and then 17 GPUs; all of it inferred
            (0, 1, 0, 0, 0, 0),  # no time at all
            (1, 0, 2, 3, 24, 1),  # inferred in part
        ],
        columns=["day", "job", "code", "duration_ms", "gpu_ms", "inferred_ms"],
    )
    (piece,) = packed_rows(replace(cube, rows=rows))
    pd.testing.assert_frame_equal(unpacked_rows(piece), rows, check_dtype=False)


def test_an_attempt_of_many_days_is_one_row_of_its_first(cube, published):
    ledger = published.read(tables.LEDGER_INTERVAL, ["attempt", "component", "duration_ms"])
    told = cube.attempts
    assert told["duration_ms"].sum() == ledger["duration_ms"].sum()
    assert not told.duplicated(["job", "attempt", "component"]).any()
    gaps = told[told["component"] == "requeue_wait"]
    assert len(gaps) > 3
    assert gaps["attempt"].notna().all()


def test_jobs_are_packed_with_their_nulls(cube):
    packed = packed_jobs(cube, {n: (n // 3, n % 3) for n in range(len(cube.jobs))})
    columns, dims = unpack(packed["packed"]), dimensions(cube)
    row = packed["job_id"].index("no-gpus-said")
    assert dims["models"][columns["model"][row]] is None
    assert dims["sizes"][columns["size"][row]] == "not said"
    assert dims["teams"][-1] is None


@pytest.mark.parametrize(("gpus", "size"), [(0, 0), (1, 1), (8, 1), (9, 2), (512, 3), (513, 4), (4096, 4), (4097, 5)])  # fmt: skip
def test_sizes(gpus, size):
    assert sizes(pd.Series([gpus])).tolist() == [size]
    assert len(SIZES) == 5
