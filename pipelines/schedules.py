"""When runs start by the clock: yesterday each night, freshness each hour, upkeep each week."""

from datetime import timedelta

import dagster as dg

from pipelines.assets import WALK
from pipelines.checks import freshness

WALK_JOB = dg.define_asset_job(
    "walk", selection=dg.AssetSelection.assets(*WALK), description="Raw files to pages, by day."
)
FRESHNESS_JOB = dg.define_asset_job(
    "freshness",
    selection=dg.AssetSelection.checks(freshness),
    description="Is the day that is due published?",
)
UPKEEP_JOB = dg.define_asset_job(
    "upkeep", selection=dg.AssetSelection.assets("vacuum"), description="Delete old files."
)


@dg.schedule(
    job=WALK_JOB,
    cron_schedule="0 1 * * *",  # an hour on, no job of the day can fall silent in it unnoticed
    execution_timezone="UTC",
    description="Account the UTC day that has ended.",
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """One run for yesterday."""
    day = (context.scheduled_execution_time - timedelta(days=1)).date().isoformat()
    return dg.RunRequest(run_key=day, partition_key=day)


HOURLY_FRESHNESS = dg.ScheduleDefinition(
    name="hourly_freshness", job=FRESHNESS_JOB, cron_schedule="15 * * * *", execution_timezone="UTC"
)
WEEKLY_UPKEEP = dg.ScheduleDefinition(
    name="weekly_upkeep", job=UPKEEP_JOB, cron_schedule="30 4 * * 0", execution_timezone="UTC"
)
SCHEDULES = [nightly, HOURLY_FRESHNESS, WEEKLY_UPKEEP]
