"""One run: raw files into the logbook, and days of the logbook into published tables.

The same steps whoever asks for them: the Dagster assets and the command call these functions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines import days as calendar
from pipelines import walk
from pipelines.contracts import Finding, check_conservation, stop_unless_passed
from pipelines.engine import Engine
from pipelines.ingest.files import RawFile
from pipelines.ingest.reading import files_frame
from pipelines.intervals import DAY_MS, union
from pipelines.tables import (
    LEDGER_INTERVAL,
    LOGBOOK_EVENT,
    LOGBOOK_FILE,
    LOGBOOK_JOB,
    LOGBOOK_JOIN,
    LOGBOOK_REJECT,
    SCORECARD_FLEET,
    SCORECARD_JOB,
    TABLES,
    TIMELINE_ATTEMPT,
    WAREHOUSE_PUBLICATION,
    WAREHOUSE_STALE_DAY,
    Table,
)
from pipelines.warehouse import NEVER, Staged, Warehouse

log = logging.getLogger(__name__)

ROOMS: dict[str, tuple[str, ...]] = {
    "ledger": ("timeline", "ledger"),
    "scorecard": ("scorecard",),
    "charges": ("charges",),
}
LATE = "lines came in"
SPOKE = "a job that it belongs to got lines on other days"
ENDED = "a job that was open has ended"


@dataclass(frozen=True)
class Run:
    """What a run works with: its id, the engine, the warehouse, and the settings of the walk."""

    run_id: str
    engine: Engine
    warehouse: Warehouse
    settings: walk.Settings


@dataclass(frozen=True)
class Manifest:
    """The files found, set beside those read before."""

    found: Sequence[RawFile]
    fresh: Sequence[RawFile]
    vanished: Sequence[str]

    @property
    def unchanged_count(self) -> int:
        """Files that need no reading."""
        return len(self.found) - len(self.fresh)


@dataclass(frozen=True)
class Logged:
    """Files read to the logbook's tables: written and looked through, not yet visible.

    `base` holds the version of each table that the rows were made from, `files` the rows of
    logbook__file of the files just read, `concerned_days` the days whose figures they may change,
    `set_aside` why jobs among them are in no figure.
    """

    manifest: Manifest
    changed_days: Sequence[date]
    concerned_days: Mapping[date, str]
    staged: Sequence[Staged]
    base: Mapping[str, int]
    files: pa.Table
    set_aside: Sequence[str] = ()

    @property
    def findings(self) -> list[Finding]:
        """What the contracts say of the tables."""
        return [f for s in self.staged for f in s.findings]

    def total(self, column: str) -> int:
        """A count of logbook__file (line_count, reject_count, …) over the files just read."""
        return int(pc.sum(self.files[column], min_count=0).as_py())


@dataclass(frozen=True)
class Accounted:
    """Days of the walk, written and looked through but not yet visible."""

    began_at: datetime
    days: Sequence[date]
    staged: dict[str, Staged]
    findings: Sequence[Finding]
    ended_days: Sequence[date]
    publication: pa.Table

    def of_room(self, room: str) -> list[Staged]:
        """The staged tables of one asset, in the order of their declaration."""
        return [self.staged[t.name] for t in tables_of(room)]


def tables_of(room: str) -> list[Table]:
    """The tables that an asset publishes.

    >>> [t.name for t in tables_of("ledger")]
    ['timeline__attempt', 'timeline__phase', 'ledger__interval']
    """
    prefixes = ROOMS.get(room, (room,))
    return [t for name, t in TABLES.items() if name.split("__")[0] in prefixes]


def program_version() -> str:
    """The version of ettledger that is installed, or `source` where it runs uninstalled."""
    try:
        return version("ettledger")
    except PackageNotFoundError:
        return "source"


# --- raw -> logbook -------------------------------------------------------------------------


def manifest(warehouse: Warehouse, found: Sequence[RawFile], settings: walk.Settings) -> Manifest:
    """Compare the files found with those read before: name, size, time of change, site's settings.

    What a vanished file told stays in the logbook: logs are rotated away, history is not.
    """
    sources, phases = settings.sources, settings.taxonomy.phases
    known: dict[str, tuple[Any, ...]] = {}
    if warehouse.has(LOGBOOK_FILE):
        columns = ["source_file", "size_bytes", "modified_at", "settings_print"]
        rows = warehouse.read_arrow(LOGBOOK_FILE, columns).to_pylist()
        known = {r["source_file"]: tuple(r[c] for c in columns[1:]) for r in rows}
    fresh = [
        f
        for f in found
        if known.get(f.name) != (f.size_bytes, f.modified_at, sources.print_of(f.name, phases))
    ]
    return Manifest(found, fresh, sorted(known.keys() - {f.name for f in found}))


def read_logs(run: Run, found: Sequence[RawFile]) -> Logged:
    """Read the files that are new or have changed into the logbook's days; nothing is visible yet.

    A changed file replaces what was read of it before; days on which that changes nothing stay as
    they are. Without fresh files there is nothing staged.
    """
    listed = manifest(run.warehouse, found, run.settings)
    if not listed.fresh:
        return Logged(listed, [], {}, [], {}, LOGBOOK_FILE.arrow([]))
    log.info("reading %d of %d files", len(listed.fresh), len(found))
    reading = _Reading(run, listed)
    with run.warehouse.scratch(run.run_id) as scratch:
        frames = walk.logbook(reading.files, run.settings, scratch.keep)
        events = frames[LOGBOOK_EVENT.name]
        changes = scratch.keep("changed", reading.changes(events))
        days = _days_in(changes)
        told = reading.stage(LOGBOOK_EVENT, reading.events_merged(events, days), days)
        visible = run.warehouse.read_staged(run.engine.session, told)
        jobs = reading.stage(LOGBOOK_JOB, calendar.job_days(visible), days)
        rejects = reading.rejects_merged(frames[LOGBOOK_REJECT.name])
        rejected = reading.stage(LOGBOOK_REJECT, rejects, ())
        joins = reading.joins_merged(frames[LOGBOOK_JOIN.name])
        joined = reading.stage(LOGBOOK_JOIN, joins, ())
        files = frames[LOGBOOK_FILE.name].toArrow()
        lives = scratch.keep("lives", _lives(run, jobs, changes))
        aside = _set_aside(lives, events)
        for why in aside:
            log.warning(why)
        concerned = _concerned(run, lives, changes)
    filed = run.warehouse.stage_rows(LOGBOOK_FILE, reading.files_merged(files), run.run_id)
    staged = [jobs, told, rejected, joined, filed]
    return Logged(listed, days, concerned, staged, reading.base, files, aside)


def publish_logbook(run: Run, logged: Logged) -> None:
    """Make the logbook visible, and mark the days that it concerns as stale.

    The marks come first and the files last: a run that stops midway leaves its files to be read
    again. Raises ConflictError where another run changed the logbook since this one read it.
    """
    stop_unless_passed(logged.findings)
    mark_stale(run, logged.concerned_days)
    for staged in logged.staged:
        run.warehouse.commit(staged, run.engine.version, base=logged.base[staged.table.name])


class _Reading:
    """The logbook as it was when a run began to read, and the fresh files' place in it."""

    def __init__(self, run: Run, listed: Manifest) -> None:
        self._house = run.warehouse
        self._session = run.engine.session
        self._run_id = run.run_id
        self._names = [f.name for f in listed.fresh]
        self.base = {
            t.name: self._house.version(t)
            for t in (LOGBOOK_JOB, LOGBOOK_EVENT, LOGBOOK_REJECT, LOGBOOK_JOIN, LOGBOOK_FILE)
        }
        self.files = files_frame(self._session, listed.fresh)

    def changes(self, events: DataFrame) -> DataFrame:
        """The jobs and days (ds, cluster, job_id) that the fresh files tell differently now."""
        if not self._is_reread:
            return events.select("ds", *calendar.JOB).distinct()
        before = self._before(LOGBOOK_EVENT, None)
        known = before.join(self._fresh, on="source_file", how="left_semi")
        return calendar.changed(events, known)

    def events_merged(self, events: DataFrame, days: Sequence[date]) -> DataFrame:
        """The events of `days`: those of the fresh files as read now, those of others as before."""
        return self._of_others(LOGBOOK_EVENT, days).unionByName(_of_days(events, days))

    def rejects_merged(self, rejects: DataFrame) -> DataFrame:
        """All rejects, likewise."""
        return self._of_others(LOGBOOK_REJECT, None).unionByName(rejects)

    def joins_merged(self, joins: DataFrame) -> DataFrame:
        """All joins, likewise."""
        return self._of_others(LOGBOOK_JOIN, None).unionByName(joins)

    def files_merged(self, files: pa.Table) -> pa.Table:
        """All of logbook__file, likewise."""
        if self.base[LOGBOOK_FILE.name] == NEVER:
            return files
        old = self._house.read_arrow(LOGBOOK_FILE)
        others = old.filter(~pc.field("source_file").isin(self._names))
        return pa.concat_tables([others, files], promote_options="permissive")

    def stage(self, table: Table, frame: DataFrame, days: Sequence[date]) -> Staged:
        """Write rows of a table for this run."""
        return self._house.stage(table, frame, days, self._run_id)

    @cached_property
    def _is_reread(self) -> bool:
        """May the logbook have rows of the fresh files?

        It may where one of them was read before, and where a run stopped after its events and
        before its files: then other runs committed the two tables last.
        """
        if self.base[LOGBOOK_EVENT.name] == NEVER:
            return False
        if self._house.last_run(LOGBOOK_EVENT) != self._house.last_run(LOGBOOK_FILE):
            return True
        known = self._house.read_arrow(LOGBOOK_FILE, ["source_file"])["source_file"].to_pylist()
        return not set(known).isdisjoint(self._names)

    @cached_property
    def _fresh(self) -> DataFrame:
        rows = [(name,) for name in self._names]
        return self._session.createDataFrame(rows, "source_file string")

    def _of_others(self, table: Table, days: Sequence[date] | None) -> DataFrame:
        if self.base[table.name] == NEVER:
            return self._empty(table)
        rows = self._before(table, days)
        return (
            rows.join(self._fresh, on="source_file", how="left_anti") if self._is_reread else rows
        )

    def _before(self, table: Table, days: Sequence[date] | None) -> DataFrame:
        version = self.base[table.name]
        return self._house.read(self._session, table, days, version=version)

    def _empty(self, table: Table) -> DataFrame:
        return self._session.createDataFrame([], table.ddl)


def _lives(run: Run, staged: Staged, changes: DataFrame) -> DataFrame:
    """The lifetimes of the jobs concerned, over all days of the logbook."""
    session, house = run.engine.session, run.warehouse
    fresh = house.read_staged(session, staged)
    others = sorted(set(house.days(LOGBOOK_JOB)) - set(staged.days))
    jobs = union([fresh, house.read(session, LOGBOOK_JOB, others)]) if others else fresh
    concerned = changes.select(*calendar.JOB).distinct()
    return calendar.lifetimes(jobs).join(concerned, on=calendar.JOB, how="left_semi")


def _set_aside(lives: DataFrame, events: DataFrame) -> list[str]:
    """What to say of jobs that cannot be accounted: their lines span more than ten years."""
    length = F.datediff("last_day", "first_day")
    worst = lives.where(~calendar.is_credible()).orderBy(length.desc(), *calendar.JOB)
    return [_why_aside(life.asDict(), events) for life in worst.limit(_MOST_TOLD).collect()]


_MOST_TOLD = 20


def _why_aside(life: Mapping[str, Any], events: DataFrame) -> str:
    """The job, its first and last line, and the fix."""
    is_its = F.col("cluster").eqNullSafe(life["cluster"]) & F.col("job_id").eqNullSafe(
        life["job_id"]
    )
    told = events.where(is_its).select("event_at", "source_file", "source_line")
    lines = [
        f"{row['source_file']}:{row['source_line']}"
        for at in (F.asc("event_at"), F.desc("event_at"))
        for row in told.orderBy(at, "source_file", "source_line").limit(1).collect()
    ]
    return (
        f"job '{life['job_id']}' in {life['cluster']} has lines from {life['first_day']} to"
        f" {life['last_day']}, more than {calendar.LONGEST_DAYS:,} days: a clock was wrong. It is"
        " in no figure until its first or last line is corrected or removed"
        f" ({', '.join(dict.fromkeys(lines))})"
    )


def _concerned(run: Run, lives: DataFrame, changes: DataFrame) -> dict[date, str]:
    """The days whose figures may change: those with new lines, and others of the same jobs.

    Of those others, days that are open anyway until the jobs end are left out. A job set aside
    concerns only days that are published: it may be in their figures.
    """
    provisional = provisional_days(run.warehouse)
    lived = _days_in(calendar.days_lived(lives, changes))
    credible = lives.where(calendar.is_credible())
    late = _days_in(changes.join(credible, on=calendar.JOB, how="left_semi"))
    odd = lives.where(~calendar.is_credible())
    [span] = odd.agg(F.min("first_day").alias("a"), F.max("last_day").alias("z")).collect()
    published = run.warehouse.days(LEDGER_INTERVAL) if span["a"] else []
    known = [day for day in published if span["a"] <= day <= span["z"]]
    others = {day: SPOKE for day in lived if day not in provisional}
    return {**others, **dict.fromkeys(sorted({*late, *known}), LATE)}


def _days_in(frame: DataFrame) -> list[date]:
    return sorted(frame.select("ds").distinct().toArrow()["ds"].to_pylist())


def _of_days(frame: DataFrame, days: Sequence[date]) -> DataFrame:
    return frame.where(F.col("ds").isin(list(days))) if days else frame.where(F.lit(False))


# --- logbook -> ledger, scorecard, charges --------------------------------------------------


def account(run: Run, days: Sequence[date]) -> Accounted:
    """Compute the days from the whole history of their jobs, write all tables, check all laws.

    Nothing becomes visible; what fails is among the findings. Raises WarehouseError without a
    logbook, ConservationError where the walk itself finds that progress does not add up.
    """
    log.info("accounting %d days, %s to %s", len(days), min(days), max(days))
    began_at = datetime.now(UTC)
    with run.warehouse.scratch(run.run_id) as scratch:
        ledger = walk.ledger(history(run, days), run.settings, scratch.keep)
        frames = {**ledger, **walk.scorecard(ledger, run.settings)}
        frames |= walk.charges(ledger, run.settings)
        wanted = [t for room in ROOMS for t in tables_of(room)]
        staged = {t.name: run.warehouse.stage(t, frames[t.name], days, run.run_id) for t in wanted}
        log.info("checking %d tables", len(staged))
        findings = [f for s in staged.values() for f in s.findings]
        if all(f.is_passed for f in findings):
            findings += _conservation(run, frames, staged, days)
        ended = _ended_days(run, frames[SCORECARD_JOB.name], days)
    publication = _publication(run, days, staged)
    return Accounted(began_at, days, staged, findings, ended, publication)


def history(run: Run, days: Sequence[date]) -> DataFrame:
    """Every event, from the first to `as_of`, of each job that may touch the days."""
    session, house = run.engine.session, run.warehouse
    jobs = house.read(session, LOGBOOK_JOB)
    touching = calendar.jobs_touching(
        jobs,
        min(days),
        max(days),
        as_of_ms=run.settings.as_of_ms,
        dead_after_ms=run.settings.dead_after_ms,
    )
    last = calendar.day_of_ms(run.settings.as_of_ms)
    theirs = jobs.where(F.col("ds") <= F.lit(last)).join(touching, on=calendar.JOB, how="left_semi")
    events = house.read(session, LOGBOOK_EVENT, _days_in(theirs))
    return events.join(touching, on=calendar.JOB, how="left_semi").select(*LOGBOOK_EVENT.names)


def publish(run: Run, accounted: Accounted, rooms: Iterable[str] = tuple(ROOMS)) -> None:
    """Make the rooms visible, the ledger first; nothing of them where any check failed."""
    stop_unless_passed(accounted.findings)
    chosen = [room for room in ROOMS if room in set(rooms)]
    for room in chosen:
        for staged in accounted.of_room(room):
            run.warehouse.commit(staged, run.engine.version)
    if chosen != list(ROOMS):
        return
    _append_publication(run, accounted.publication)
    unmark_stale(run, accounted.days, accounted.began_at)
    mark_stale(run, dict.fromkeys(accounted.ended_days, ENDED))


def _conservation(
    run: Run, frames: dict[str, DataFrame], staged: dict[str, Staged], days: Sequence[date]
) -> list[Finding]:
    """The laws over what would be visible: the files as written, and the jobs' other days."""
    session = run.engine.session
    published = {n: run.warehouse.read_staged(session, s) for n, s in staged.items()}
    other_days = frames[LEDGER_INTERVAL.name].where(~F.col("ds").isin(list(days)))
    whole = published[LEDGER_INTERVAL.name].unionByName(LEDGER_INTERVAL.select_from(other_days))
    return check_conservation(whole, frames[TIMELINE_ATTEMPT.name], published)


def _ended_days(run: Run, jobs: DataFrame, days: Sequence[date]) -> list[date]:
    """Days not computed now that are published as provisional, and a job of which has ended."""
    others = provisional_days(run.warehouse) - set(days)
    if not others:
        return []
    return _days_in(jobs.where(F.col("ds").isin(sorted(others)) & ~F.col("is_censored")))


def _publication(run: Run, days: Sequence[date], staged: dict[str, Staged]) -> pa.Table:
    """warehouse__publication rows: the sums of each day as they stand in scorecard__fleet.

    A day is provisional while a job of it is censored, and until `dead_after` past its end: before
    that a job that has fallen silent in it may yet speak.
    """
    settings = run.settings
    figures = ["job_count", "effective_gpu_ms", "held_gpu_ms", "effective_ms", "wall_ms"]
    fleet = staged[SCORECARD_FLEET.name].rows(["ds", *figures]).to_pylist()
    told = {row.pop("ds"): row for row in fleet}
    jobs = staged[SCORECARD_JOB.name].rows(["ds", "is_censored"])
    is_open = set(jobs.filter(pc.field("is_censored"))["ds"].to_pylist())
    settled_ms = settings.as_of_ms - settings.dead_after_ms
    common = {
        "run_id": run.run_id,
        "published_at": datetime.now(UTC),
        "as_of": datetime.fromtimestamp(settings.as_of_ms // 1000, UTC).replace(
            microsecond=settings.as_of_ms % 1000 * 1000
        ),
        "engine": run.engine.version,
        "ettledger_version": program_version(),
    }
    return WAREHOUSE_PUBLICATION.arrow(
        [
            {
                "ds": day,
                **common,
                "is_provisional": day in is_open or calendar.start_ms(day) + DAY_MS > settled_ms,
                **told.get(day, dict.fromkeys(figures, 0)),  # a day without any job: truly nothing
            }
            for day in sorted(days)
        ]
    )


def _append_publication(run: Run, rows: pa.Table) -> None:
    def change(before: pa.Table) -> pa.Table:
        is_ours = (pc.field("run_id") == run.run_id) & pc.field("ds").isin(rows["ds"].to_pylist())
        return pa.concat_tables([before.filter(~is_ours), rows])  # a step that is tried again

    run.warehouse.update(WAREHOUSE_PUBLICATION, change, run.run_id, run.engine.version)


# --- which days are open or stale -----------------------------------------------------------


def provisional_days(warehouse: Warehouse) -> set[date]:
    """The days whose latest publication is provisional."""
    if not warehouse.has(WAREHOUSE_PUBLICATION):
        return set()
    rows = warehouse.read_arrow(WAREHOUSE_PUBLICATION, ["ds", "published_at", "is_provisional"])
    latest = {r["ds"]: r["is_provisional"] for r in rows.sort_by("published_at").to_pylist()}
    return {day for day, is_provisional in latest.items() if is_provisional}


@dataclass(frozen=True)
class StaleDay:
    """Why and since when a day is to be computed again, or for the first time."""

    marked_at: datetime
    reason: str


def stale_days(warehouse: Warehouse) -> dict[date, StaleDay]:
    """The days to be computed again, or for the first time, in order."""
    if not warehouse.has(WAREHOUSE_STALE_DAY):
        return {}
    rows = warehouse.read_arrow(WAREHOUSE_STALE_DAY, ["ds", "marked_at", "reason"])
    return {
        row["ds"]: StaleDay(row["marked_at"], row["reason"])
        for row in rows.sort_by("ds").to_pylist()
    }


def mark_stale(run: Run, reasons: Mapping[date, str]) -> None:
    """Add days to those that are stale."""
    if not reasons:
        return
    now = datetime.now(UTC)
    rows = WAREHOUSE_STALE_DAY.arrow(
        [
            {"ds": day, "marked_at": now, "run_id": run.run_id, "reason": reason}
            for day, reason in sorted(reasons.items())
        ]
    )

    def change(before: pa.Table) -> pa.Table:
        return pa.concat_tables([before.filter(~pc.field("ds").isin(list(reasons))), rows])

    run.warehouse.update(WAREHOUSE_STALE_DAY, change, run.run_id, run.engine.version)


def unmark_stale(run: Run, days: Sequence[date], until: datetime) -> None:
    """Take away the marks of `days` made before `until`, when the run read the logbook."""
    if not set(days) & stale_days(run.warehouse).keys():
        return

    def change(before: pa.Table) -> pa.Table:
        is_done = pc.field("ds").isin(list(days)) & (pc.field("marked_at") < until)
        return before.filter(~is_done)

    run.warehouse.update(WAREHOUSE_STALE_DAY, change, run.run_id, run.engine.version)
