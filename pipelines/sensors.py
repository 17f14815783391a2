"""When runs start by what happened: new log files, and days whose figures no longer fit them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from hashlib import sha256

import dagster as dg

from pipelines.assets import range_tags
from pipelines.days import spans
from pipelines.ingest.files import RawFile
from pipelines.publishing import stale_days
from pipelines.resources import Fleet
from pipelines.schedules import WALK_JOB

READ_JOB = dg.define_asset_job(
    "read", selection=dg.AssetSelection.assets("raw", "logbook"), description="Read new log files."
)


@dg.sensor(
    job=READ_JOB,
    minimum_interval_seconds=60,
    description="Reads log files that are new or have changed; the days they concern become stale.",
)
def new_files(context: dg.SensorEvaluationContext, fleet: Fleet) -> dg.RunRequest | dg.SkipReason:
    """Compare all names, sizes and times of change with those of the last tick.

    The cursor is their digest, so a file that lands with an old time is seen as well, and the run
    key is the same digest: the same files never start two runs.
    """
    found = fleet.raw_files()
    content = digest(found)
    if not found:
        return dg.SkipReason(f"no log file in {', '.join(fleet.raw)}")
    if content == context.cursor:
        return dg.SkipReason(f"none of the {len(found)} log files has changed")
    context.update_cursor(content)
    today = datetime.now(UTC).date().isoformat()
    return dg.RunRequest(run_key=content, partition_key=today)


def digest(files: Iterable[RawFile]) -> str:
    """One word for the names, sizes and times of change of some files, in any order."""
    lines = sorted(f"{f.name}\t{f.size_bytes}\t{f.modified_at.isoformat()}" for f in files)
    return sha256("\n".join(lines).encode()).hexdigest()


def recompute_stale_days(first: date) -> dg.SensorDefinition:
    """A sensor that computes stale days again, from `first` on: each unbroken span is one run."""

    @dg.sensor(
        name="stale_days",
        job=WALK_JOB,
        minimum_interval_seconds=60,
        description="Computes days again that got lines late.",
    )
    def stale(
        context: dg.SensorEvaluationContext, fleet: Fleet
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        del context
        marked = marks(fleet, first)
        if not marked:
            yield dg.SkipReason("no day is stale")
        for begin, end in spans(list(marked)):
            latest = max(at for day, at in marked.items() if begin <= day <= end)
            yield dg.RunRequest(
                run_key=f"{begin}..{end} {latest.isoformat()}",
                tags=range_tags(begin, end),
            )

    return stale


def marks(fleet: Fleet, first: date) -> dict[date, datetime]:
    """The stale days that are over, each with the time at which it was marked.

    Today is accounted when it has ended, or by hand: it would be stale again with each line.
    """
    today = datetime.now(UTC).date()
    stale = stale_days(fleet.open_warehouse())
    return {day: mark.marked_at for day, mark in stale.items() if first <= day < today}
