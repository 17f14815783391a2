"""The assets materialised in this process, over days as one run: what `ett run` does."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines import clock, publishing
from pipelines.assets import WALK, build_assets, daily, preview_allowed, range_tags
from pipelines.days import LONGEST_DAYS, between, day_of_ms
from pipelines.errors import UsageError
from pipelines.resources import Fleet
from pipelines.warehouse import Restatement

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    `rows` counts the published rows by table; `files`, `lines` and `rejects` tell of the files
    that were read now. `stale_days` are left to be computed, `restatements` are this run's.
    """

    run_id: str
    days: Sequence[date]
    rows: Mapping[str, int] = field(default_factory=dict)
    file_count: int = 0
    fresh_file_count: int = 0
    vanished_file_count: int = 0
    line_count: int = 0
    reject_count: int = 0
    set_aside: Sequence[str] = ()
    stale_days: Sequence[date] = ()
    restatements: Sequence[Restatement] = ()
    index: Path | None = None


def materialise(
    fleet: Fleet,
    *,
    first: date | None = None,
    last: date | None = None,
    tick: Callable[[int], None] | None = None,
) -> RunReport:
    """Bring the days from `first` to `last` up to date, in one run of the assets.

    With both given, all days between them are computed. Otherwise those that need it: the days
    that are stale or provisional once the logs are read, within the bound that is given. `tick` is
    told how many intermediates the run has written so far.

    The run is kept in the Dagster instance of DAGSTER_HOME where that is set, else nowhere.
    Raises ConservationError or ContractError where a check fails, with the published days as they
    were; InputError, WarehouseError, EngineError as the parts do.
    """
    if first and last and first > last:
        raise UsageError(f"the first day, {first}, is later than the last, {last}")
    with _quiet(), _ticking(tick), _instance() as instance:
        if first and last:
            _check_count((last - first).days + 1)
            days, read = between(first, last), None
        else:
            today = datetime.now(UTC).date()
            read = _materialised(fleet, [today], ("raw", "logbook"), instance)
            days = _days_needed(fleet, first, last)
        result = _materialised(fleet, days, WALK, instance) if days else read
        return _report(fleet, days, [r for r in (read, result) if r])


def _check_count(days: int) -> None:
    if days > LONGEST_DAYS:
        raise UsageError(
            f"{days:,} days are more than a run computes ({LONGEST_DAYS:,}): give a"
            " shorter range with --from and --to"
        )


def _days_needed(fleet: Fleet, first: date | None, last: date | None) -> list[date]:
    """Stale and provisional days, none after `as_of`, within the bounds."""
    warehouse = fleet.open_warehouse()
    needed = publishing.stale_days(warehouse).keys() | publishing.provisional_days(warehouse)
    as_of = clock.moment_ms(fleet.as_of) if fleet.as_of else clock.now_ms()
    latest = min(last or date.max, day_of_ms(as_of))
    return [day for day in sorted(needed) if (first or date.min) <= day <= latest]


def _materialised(
    fleet: Fleet, days: Sequence[date], chosen: Sequence[str], instance: dg.DagsterInstance
) -> dg.ExecuteInProcessResult:
    """One run of the chosen assets over exactly these days."""
    skipped = sorted(set(between(days[0], days[-1])) - set(days))
    with preview_allowed():
        assets = build_assets(daily(days[0], days[-1], but=skipped))
    selection: dg.AssetSelection = dg.AssetSelection.assets(*chosen)
    if instance.is_ephemeral:  # checks hold all the same; only nobody could look up the events
        selection = selection.without_checks()
    try:
        return dg.materialize(
            assets,
            selection=selection,
            resources={"fleet": fleet},
            instance=instance,
            tags=range_tags(days[0], days[-1]),
            run_config=QUIET,
        )
    except dg.DagsterExecutionInterruptedError:  # Dagster's word for Ctrl-C
        raise KeyboardInterrupt from None


def _report(
    fleet: Fleet, days: Sequence[date], results: Sequence[dg.ExecuteInProcessResult]
) -> RunReport:
    told: dict[str, dict[str, Any]] = {}
    for result in results:
        for event in result.get_asset_materialization_events():
            metadata = event.materialization.metadata
            values = {key: value.value for key, value in metadata.items()}
            asset = event.materialization.asset_key.to_user_string()
            told.setdefault(asset, values)  # the first to read the files tells of them
    warehouse = fleet.open_warehouse()
    run_id = results[-1].run_id
    logbook, site = told["logbook"], told.get("site", {})
    return RunReport(
        run_id=run_id,
        days=list(days),
        rows={
            name: count for room in told.values() for name, count in room.get("rows", {}).items()
        },
        file_count=logbook["files"],
        fresh_file_count=logbook["fresh_files"],
        vanished_file_count=logbook["vanished_files"],
        line_count=logbook["line_count"],
        reject_count=logbook["reject_count"],
        set_aside=logbook["set_aside"],
        stale_days=list(publishing.stale_days(warehouse)),
        restatements=[r for r in warehouse.restatements() if r.run_id == run_id],
        index=Path(site["index"]) if "index" in site else None,
    )


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


@contextmanager
def _quiet() -> Iterator[None]:
    """Dagster's own log lines stay in its event log."""
    logger = logging.getLogger("dagster")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Counter(logging.Handler):
    """Counts the intermediates that are kept."""

    def __init__(self, tick: Callable[[int], None]) -> None:
        super().__init__(logging.DEBUG)
        self._tick = tick
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        del record
        self._count += 1
        self._tick(self._count)


@contextmanager
def _ticking(tick: Callable[[int], None] | None) -> Iterator[None]:
    if tick is None:
        yield
        return
    logger, counter = logging.getLogger("pipelines.scratch"), _Counter(tick)
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(counter)
    try:
        yield
    finally:
        logger.removeHandler(counter)
        logger.level, logger.propagate = before
