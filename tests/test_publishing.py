"""Runs over a warehouse: what is read, which days are swapped, which become stale."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from pipelines import publishing, walk
from pipelines.errors import ConflictError, ConservationError
from pipelines.ingest.files import raw_files
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.publishing import Run
from pipelines.tables import (
    LEDGER_INTERVAL,
    LOGBOOK_EVENT,
    LOGBOOK_FILE,
    LOGBOOK_REJECT,
    SCORECARD_JOB,
    WAREHOUSE_PUBLICATION,
)
from pipelines.warehouse import Warehouse
from tests.logs import at, ended, started, steps, write

D1, D2, D3, D4 = (date(2026, 11, n) for n in (1, 2, 3, 4))
AFTERWARDS = "11-09 00:00"
LONG_JOB = [
    *started("11-01 22:00"),
    *steps(("11-01 23:00", 10), ("11-02 01:00", 30), ("11-03 01:00", 90)),
    *ended("11-03 02:00"),
]


class Fleet:
    """A folder of logs, a warehouse, and runs over them."""

    def __init__(self, root, engine):
        self.raw, self.house, self._engine = root / "raw", Warehouse(root / "house"), engine
        self._count = 0
        self.sources = Sources()

    def run(self, as_of=AFTERWARDS) -> Run:
        self._count += 1
        settings = walk.Settings(as_of_ms=at(as_of), sources=self.sources)
        return Run(f"run{self._count}", self._engine, self.house, settings)

    def read(self):
        run = self.run()
        logged = publishing.read_logs(run, raw_files([self.raw]))
        publishing.publish_logbook(run, logged)
        return logged

    def publish(self, *days, as_of=AFTERWARDS):
        run = self.run(as_of)
        accounted = publishing.account(run, days)
        publishing.publish(run, accounted)
        return accounted

    def stale(self):
        return {day: mark.reason for day, mark in publishing.stale_days(self.house).items()}

    def table(self, table, *columns, days=None):
        rows = self.house.read_arrow(table, columns, days).to_pylist()
        return sorted((tuple(r[c] for c in columns) for r in rows), key=str)

    def walls(self):
        """Wall seconds by job and day, as the ledger has them."""
        sums = {}
        for day, job, ms in self.table(LEDGER_INTERVAL, "ds", "job_id", "duration_ms"):
            sums[job, day] = sums.get((job, day), 0) + ms // 1000
        return sums


@pytest.fixture
def fleet_anywhere(tmp_path, engine):
    return Fleet(tmp_path, engine)


@pytest.fixture
def fleet(fleet_anywhere, engine):
    if engine.name != "sail":
        pytest.skip("runs call the same steps on every engine: the first stories run on each")
    return fleet_anywhere


# --- raw to logbook ---


def test_only_new_and_changed_files_are_read(fleet_anywhere):
    fleet = fleet_anywhere
    write(fleet.raw / "a.jsonl", LONG_JOB)
    write(fleet.raw / "b.jsonl", started("11-01 10:00", "b"))
    first = fleet.read()
    assert [f.name for f in first.manifest.fresh] == ["a.jsonl", "b.jsonl"]
    assert (first.total("line_count"), first.changed_days) == (9, [D1, D2, D3])

    write(
        fleet.raw / "b.jsonl", [*started("11-01 10:00", "b"), *steps(("11-02 10:00", 5), job="b")]
    )
    second = fleet.read()
    assert [f.name for f in second.manifest.fresh] == ["b.jsonl"]
    assert second.changed_days == [D2]  # the day of the line that is new, not of those around it
    assert fleet.table(LOGBOOK_FILE, "source_file", "line_count") == [
        ("a.jsonl", 7),
        ("b.jsonl", 3),
    ]
    assert len(fleet.table(LOGBOOK_EVENT, "job_id")) == 10

    third = fleet.read()
    assert (third.manifest.fresh, third.staged, third.changed_days) == ([], [], [])


def test_files_are_read_again_when_the_site_says_something_else_of_them(fleet):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    write(fleet.raw / "b.jsonl", started("11-01 10:00", "b"))
    fleet.read()
    later = FileSettings(clock_offset_ms=86_400_000)
    fleet.sources = Sources(rules=(SourceRule("^b", later),))
    again = fleet.read()
    assert [f.name for f in again.manifest.fresh] == ["b.jsonl"]
    assert again.changed_days == [D1, D2]


def test_a_changed_file_replaces_what_was_read_of_it(fleet):
    write(fleet.raw / "a.jsonl", [*LONG_JOB, {"ts": 5, "event": "step"}])
    fleet.read()
    assert len(fleet.table(LOGBOOK_REJECT, "reason")) == 1

    write(fleet.raw / "a.jsonl", LONG_JOB[:2])
    assert fleet.read().changed_days == [D1, D2, D3]
    assert len(fleet.table(LOGBOOK_EVENT, "job_id")) == 2
    assert fleet.table(LOGBOOK_REJECT, "reason") == []
    assert fleet.house.days(LOGBOOK_EVENT) == [D1]


def test_what_a_vanished_file_told_is_kept(fleet):
    path = write(fleet.raw / "a.jsonl", LONG_JOB)
    write(fleet.raw / "b.jsonl", started("11-01 10:00", "b"))
    fleet.read()
    path.unlink()

    assert fleet.read().manifest.vanished == ["a.jsonl"]
    assert len(fleet.table(LOGBOOK_EVENT, "job_id")) == 9


def test_files_without_a_single_event_are_told_of_and_publish_nothing(fleet):
    write(fleet.raw / "a.jsonl", [{"ts": 5, "event": "step", "job_id": "a", "step": 1}])
    logged = fleet.read()
    fleet.publish(D1)

    assert (logged.changed_days, logged.total("reject_count")) == ([], 1)
    assert fleet.walls() == {}
    assert fleet.table(WAREHOUSE_PUBLICATION, "ds", "wall_ms") == [(D1, 0)]


def test_a_job_of_more_than_ten_years_is_set_aside_until_its_lines_are_mended(fleet):
    """One line of 1970 spoils job a; job b is accounted all the same."""
    wrong = {"ts": 0.0, "event": "step", "job_id": "a", "step": 1}
    b = [*started("11-01 10:00", "b"), *steps(("11-01 11:00", 5), job="b")]
    write(fleet.raw / "b.jsonl", b)
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    fleet.publish(D1, D2, D3)
    assert {job for job, _ in fleet.walls()} == {"a", "b"}

    write(fleet.raw / "a.jsonl", [*LONG_JOB, wrong])
    logged = fleet.read()
    [why] = logged.set_aside
    assert why.startswith("job 'a' in default has lines from 1970-01-01 to 2026-11-03")
    assert why.endswith("first or last line is corrected or removed (a.jsonl:8, a.jsonl:6)")
    assert sorted(fleet.stale()) == [D1, D2, D3]
    fleet.publish(D1, D2, D3)
    assert {job for job, _ in fleet.walls()} == {"b"}

    write(fleet.raw / "a.jsonl", LONG_JOB)
    assert fleet.read().set_aside == []
    fleet.publish(*fleet.stale())
    assert {job for job, _ in fleet.walls()} == {"a", "b"}


def test_two_runs_that_read_at_the_same_time_lose_nothing(fleet):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    one = fleet.run()
    slow = publishing.read_logs(one, raw_files([fleet.raw]))
    write(fleet.raw / "b.jsonl", started("11-01 10:00", "b"))
    fleet.read()

    with pytest.raises(ConflictError, match="changed by another run"):
        publishing.publish_logbook(one, slow)
    assert len(fleet.table(LOGBOOK_EVENT, "job_id")) == 9


def test_a_run_that_stops_between_two_commits_is_made_good_by_the_next(fleet, monkeypatch):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    commit = Warehouse.commit

    def dies_at_the_files(self, staged, engine, *, base=None):
        if staged.table is LOGBOOK_FILE:
            raise KeyboardInterrupt
        return commit(self, staged, engine, base=base)

    monkeypatch.setattr(Warehouse, "commit", dies_at_the_files)
    with pytest.raises(KeyboardInterrupt):
        fleet.read()
    monkeypatch.undo()

    assert [f.name for f in fleet.read().manifest.fresh] == ["a.jsonl"]
    assert len(fleet.table(LOGBOOK_EVENT, "job_id")) == len(LONG_JOB)
    assert list(fleet.stale()) == [D1, D2, D3]


# --- days ---


def test_days_may_be_computed_in_any_order_or_again_or_all_at_once(fleet, tmp_path, engine):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    for day in (D2, D3, D1):
        fleet.publish(day)
    apart = fleet.table(LEDGER_INTERVAL, *LEDGER_INTERVAL.names)
    scored = fleet.table(SCORECARD_JOB, *SCORECARD_JOB.names)
    fleet.publish(D1, D2, D3)

    assert fleet.walls() == {("a", D1): 2 * 3600, ("a", D2): 24 * 3600, ("a", D3): 2 * 3600}
    assert fleet.table(LEDGER_INTERVAL, *LEDGER_INTERVAL.names) == apart
    assert fleet.table(SCORECARD_JOB, *SCORECARD_JOB.names) == scored
    assert fleet.house.restatements() == []
    assert len(fleet.table(WAREHOUSE_PUBLICATION, "ds")) == 6


def test_days_between_two_lines_are_published_and_days_without_a_job_as_nothing(fleet):
    lines = [*started("11-01 12:00"), *steps(("11-03 12:00", 1)), *ended("11-03 13:00")]
    write(fleet.raw / "a.jsonl", lines)
    fleet.read()
    fleet.publish(D2, D4)

    assert fleet.walls() == {("a", D2): 86_400}
    columns = ("ds", "job_count", "wall_ms", "is_provisional")
    assert fleet.table(WAREHOUSE_PUBLICATION, *columns) == [
        (D2, 1, 86_400_000, False),
        (D4, 0, 0, False),
    ]


# --- stale days ---


def test_a_late_line_makes_all_days_of_its_job_stale_and_is_listed_as_a_restatement(fleet):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    write(fleet.raw / "b.jsonl", [*started("11-04 01:00", "b"), *ended("11-04 02:00", "b")])
    fleet.read()
    assert fleet.stale() == dict.fromkeys((D1, D2, D3, D4), publishing.LATE)
    fleet.publish(D1, D2, D3, D4)
    assert fleet.stale() == {}

    write(fleet.raw / "late.jsonl", [*steps(("11-02 12:00", 30))])  # half a day gave nothing new
    fleet.read()
    assert fleet.stale() == {D1: publishing.SPOKE, D2: publishing.LATE, D3: publishing.SPOKE}

    fleet.publish(D1, D2, D3)
    assert fleet.stale() == {}
    restated = [(r.ds, r.was_provisional) for r in fleet.house.restatements()]
    assert restated == [(D2, False)]
    (found,) = fleet.house.restatements()
    assert found.before["effective_ms"] - found.after["effective_ms"] == 11 * 3_600_000


def test_a_job_presumed_dead_that_speaks_again_makes_the_silent_days_stale(fleet):
    path = fleet.raw / "a.jsonl"
    begun = [*started("11-01 10:00"), *steps(("11-01 11:00", 10))]
    write(path, begun)
    write(fleet.raw / "b.jsonl", [*started("11-02 01:00", "b"), *ended("11-02 02:00", "b")])
    fleet.read()
    fleet.publish(D1, D2)
    assert ("a", D2) not in fleet.walls()

    write(path, [*begun, *steps(("11-03 11:00", 20)), *ended("11-03 12:00")])
    fleet.read()
    assert fleet.stale() == {D1: publishing.SPOKE, D2: publishing.SPOKE, D3: publishing.LATE}
    fleet.publish(D1, D2, D3)
    assert fleet.walls()["a", D2] == 86_400


def test_days_of_a_running_job_wait_for_its_end(fleet):
    path = fleet.raw / "a.jsonl"
    begun = [*started("11-01 10:00"), *steps(("11-01 23:50", 10))]
    write(path, begun)
    fleet.read()
    fleet.publish(D1, as_of="11-02 00:05")
    columns = ("ds", "wall_ms", "is_provisional")
    assert fleet.table(WAREHOUSE_PUBLICATION, *columns) == [(D1, 14 * 3_600_000, True)]

    on_time = [*begun, *steps(("11-02 10:00", 20))]
    write(path, on_time)
    fleet.read()
    assert fleet.stale() == {D2: publishing.LATE}  # D1 is provisional, and will be visited again

    fleet.publish(D2, as_of="11-02 10:10")
    assert fleet.stale() == {}
    write(path, [*on_time, *ended("11-03 01:00")])
    fleet.read()
    fleet.publish(D3)
    assert fleet.stale() == {D1: publishing.ENDED, D2: publishing.ENDED}
    fleet.publish(D1, D2)
    assert fleet.stale() == {}
    assert publishing.provisional_days(fleet.house) == set()


# --- what stops a publication ---


def test_nothing_of_a_run_is_visible_where_a_law_is_broken(fleet, monkeypatch):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    fleet.publish(D1, D2, D3)
    before = {name: fleet.house.version(name) for name in fleet.house.tables()}
    right = walk.charges
    spoilt = "lost_ms + IF(component = 'teardown', 1, 0) AS lost_ms"

    def wrong(ledger, settings):
        frames = right(ledger, settings)
        table = "charges__owner_component"
        columns = [spoilt if c == "lost_ms" else c for c in frames[table].columns]
        return {**frames, table: frames[table].selectExpr(*columns)}

    monkeypatch.setattr(walk, "charges", wrong)
    with pytest.raises(
        ConservationError, match="on 2026-11-03 the tables do not agree about lost time"
    ):
        fleet.publish(D1, D2, D3)
    assert {name: fleet.house.version(name) for name in fleet.house.tables()} == before


def test_rows_that_are_lost_on_the_way_to_storage_are_missed(fleet, monkeypatch):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    stage = Warehouse.stage

    def loses_a_day(self, table, frame, days, run_id):
        staged = stage(self, table, frame, days, run_id)
        if table is LEDGER_INTERVAL:
            return replace(staged, files=[f for f in staged.files if f.day != D2])
        return staged

    monkeypatch.setattr(Warehouse, "stage", loses_a_day)
    with pytest.raises(ConservationError, match="job a in default does not balance"):
        fleet.publish(D1, D2, D3)
    assert not fleet.house.has(LEDGER_INTERVAL)


def test_one_room_can_be_published_alone(fleet):
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    run = fleet.run()
    accounted = publishing.account(run, [D1])
    publishing.publish(run, accounted, ["charges"])

    assert [t for t in fleet.house.tables() if not t.startswith(("logbook", "warehouse"))] == [
        "charges__owner_component",
        "charges__cause",
    ]
    assert D1 in fleet.stale()  # the ledger of the day is still to be published

    write(fleet.raw / "late.jsonl", steps(("11-01 22:30", 5)))
    fleet.read()
    publishing.publish(run, accounted)
    assert D1 in fleet.stale()  # marked again after the run had read the logbook


def test_the_publication_says_as_of_when_and_by_what(fleet_anywhere, engine):
    fleet = fleet_anywhere
    write(fleet.raw / "a.jsonl", LONG_JOB)
    fleet.read()
    fleet.publish(D1)

    columns = ("as_of", "engine", "run_id", "job_count", "held_gpu_ms")
    (told,) = fleet.table(WAREHOUSE_PUBLICATION, *columns)
    assert told == (datetime(2026, 11, 9, tzinfo=UTC), engine.version, "run2", 1, 8 * 2 * 3_600_000)
