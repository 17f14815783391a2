"""What Dagster loads: the assets and checks, and the jobs, schedules and sensors over them."""

from __future__ import annotations

import os
from datetime import date

import dagster as dg

from pipelines import schedules, sensors
from pipelines.assets import build_assets, daily, preview_allowed, vacuum
from pipelines.checks import PUBLISHED, freshness
from pipelines.clock import day
from pipelines.resources import fleet_from

START_DATE = "2025-01-01"


def start_date() -> date:
    """The first day of every asset: ETT_START_DATE; UsageError where that is no day."""
    return day(os.environ.get("ETT_START_DATE") or START_DATE)


def build_definitions(first: date) -> dg.Definitions:
    """Everything, with assets whose days begin at `first`."""
    days = daily(first)
    with preview_allowed():
        assets = build_assets(days)
    return dg.Definitions(
        assets=[*assets, PUBLISHED, vacuum],
        asset_checks=[freshness],
        jobs=[schedules.WALK_JOB, schedules.FRESHNESS_JOB, schedules.UPKEEP_JOB, sensors.READ_JOB],
        schedules=schedules.SCHEDULES,
        sensors=[sensors.new_files, sensors.recompute_stale_days(first)],
        resources={"fleet": fleet_from()},
        executor=dg.in_process_executor,  # one engine session serves all steps of a run
    )


defs = build_definitions(start_date())
