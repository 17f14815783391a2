"""Sums of a period: they add up to the published ones, and ratios are ratios of sums."""

from __future__ import annotations

from datetime import date

import pandas as pd
import pytest

from dashboards.headline import coverage, headline, quality
from dashboards.period import ranking, read_period
from pipelines import tables
from pipelines.errors import WarehouseError
from pipelines.taxonomy import DEFAULT, Stage
from tests.dashboards.fleet import days


@pytest.fixture(scope="module")
def period(published):
    return read_period(published)


def test_the_loss_is_the_same_by_day_by_source_by_job_and_in_all(period):
    lost = period.totals.lost_gpu_ms
    assert lost > 0
    assert period.days["lost_gpu_ms"].sum() == lost
    assert period.ranking["lost_gpu_ms"].sum() == lost
    assert period.jobs["shown_lost_gpu_ms"].sum() == lost
    assert period.ranking["lost_ms"].sum() == period.totals.lost_ms


def test_stages_and_shares_make_a_whole(period):
    assert sum(period.totals.stage_gpu_ms.values()) == period.totals.held_gpu_ms
    assert sum(period.totals.stage_ms.values()) == period.totals.wall_ms
    assert period.ranking["share_ratio"].sum() == pytest.approx(1)


def test_the_ratio_of_a_period_is_of_sums_and_no_mean_of_days(period):
    days_, totals = period.days, period.totals
    assert totals.gpu_ett_ratio == days_["effective_gpu_ms"].sum() / days_["held_gpu_ms"].sum()
    assert totals.gpu_ett_ratio != pytest.approx(days_["gpu_ett_ratio"].mean())


def test_one_day_of_many_has_only_its_own_sums(published, period):
    one = read_period(published, [days()[2]])
    row = period.days.iloc[2]
    assert one.dates == [days()[2]]
    assert one.totals.held_gpu_ms == row["held_gpu_ms"]
    assert one.jobs["shown_lost_gpu_ms"].sum() == row["lost_gpu_ms"]


def test_a_job_over_many_days_is_one_row_with_its_whole_figures(published, period):
    row = period.jobs.set_index("job_id").loc["llm-405b-pretrain"]
    days_of_it = published.read(tables.SCORECARD_JOB, ["job_id", "wall_ms"])
    assert (days_of_it["job_id"] == "llm-405b-pretrain").sum() == 6
    assert row["wall_ms"] == row["shown_effective_ms"] + row["shown_lost_ms"]


def test_costs_are_of_the_priced_part_and_null_without_a_price():
    charges = pd.DataFrame(
        [
            {"component": "compile", "owner": "compiler", "lost_gpu_ms": 30, "lost_ms": 3, "lost_cost": 6.0, "priced_gpu_ms": 30},
            {"component": "compile", "owner": "compiler", "lost_gpu_ms": 10, "lost_ms": 1, "lost_cost": None, "priced_gpu_ms": 0},
            {"component": "stalled", "owner": "reliability", "lost_gpu_ms": 60, "lost_ms": 9, "lost_cost": None, "priced_gpu_ms": 0},
        ]
    )  # fmt: skip
    ranked = ranking(charges)
    assert list(ranked["component"]) == ["stalled", "compile"]
    assert list(ranked["lost_gpu_ms"]) == [60, 40]
    assert list(ranked["share_ratio"]) == [0.6, 0.4]
    assert list(ranked["priced_gpu_ms"]) == [0, 30]
    assert [None if pd.isna(c) else c for c in ranked["lost_cost"]] == [None, 6.0]


def test_days_that_nobody_published_name_those_that_are(published):
    with pytest.raises(WarehouseError, match="2026-11-01 to 2026-11-06"):
        read_period(published, [date(2031, 1, 1)])


def test_the_headline_names_the_largest_loss_and_its_owner(period):
    head = headline(period, DEFAULT)
    first = period.ranking.iloc[0]
    assert head["largest"].label == DEFAULT[first["component"]].label
    assert head["largest"].owner == first["owner"]
    assert [s["label"] for s in head["stages"]] == [s.label for s in Stage]
    assert head["cost"]["note"].endswith("of the loss that has a price")


def test_coverage_names_provisional_and_stale_days(period):
    told = coverage(period)
    assert (told["first"], told["last"], told["days"]) == ("2026-11-01", "2026-11-06", "6 days")
    assert told["provisional"] == ["2026-11-06"]
    assert told["stale"] == ["2026-11-02"]
    assert told["engines"] == ["sail 0.7.2"]


def test_quality_counts_every_line(period):
    told = {q["name"]: q for q in quality(period)}
    assert told["rejected lines"]["value"] == "4"
    assert "4,000 lines in 40 files" in told["rejected lines"]["meaning"]
    assert told["jobs still running"]["value"] == str(int(period.jobs["is_censored"].sum()))
