"""Which run of a reused id, and which attempt, a line belongs to."""

from __future__ import annotations

from datetime import UTC, datetime

from pipelines.metrics import placing
from pipelines.tables import LOGBOOK_EVENT
from tests.frames import frame, tuples
from tests.metrics.lines import MARK, OF_ONE_JOB, read_lines

SLOTS = "cluster string, job_id string, run long, at long, order int, number long"
RUNS = "cluster string, job_id string, at long, run long"


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def test_marks_and_other_lines_until_the_moment(spark):
    """Equal lines are one, but for marks: `rest` tells which of those are copies."""
    columns = LOGBOOK_EVENT.ddl.replace("`", "")
    told = OF_ONE_JOB | {"source": "lifecycle", "source_file": "f"}
    events = frame(
        spark,
        columns,
        [
            told | {"event_at": moment(1), "event": "step", "step": 1, "source_line": 1},
            told | {"event_at": moment(1), "event": "step", "step": 1, "source_line": 2},
            told | {"event_at": moment(1), "event": "step", "step": 1, "team": "t"},
            told | {"event_at": moment(2), "event": "interruption", "source_line": 3},
            told | {"event_at": moment(2), "event": "interruption", "source_line": 4},
            told | {"event_at": moment(2), "event": "interruption", "cause": "network"},
            told | {"event_at": moment(2.001), "event": "train_begin", "step": 1},
            told | {"event_at": moment(2.001), "event": "interruption"},
        ],
    )
    marks, others = placing.lines_until(events, as_of=2000)
    assert tuples(marks, "at", "event", "step") == [(1000, "step", 1)] * 3
    assert marks.select("rest").distinct().count() == 2
    assert tuples(others, "at", "event", "cause") == [
        (2000, "interruption", None),
        (2000, "interruption", "network"),
    ]


def test_a_start_after_a_finish_opens_a_new_run(spark):
    """S submitted, A started, F finished: one letter a millisecond, or several in brackets."""
    written = {
        "once": ["S", "A", "F"],
        "again": ["A", "F", "A", "F", "S", "A"],
        "at one moment": ["A", "FA"],  # the finish is of the run before, the start is not later
        "and later": ["A", "F", "FA", "A"],  # the finish at a start ends the run before it
        "never finished": ["A", "A"],
    }
    kinds = {"S": "job_submitted", "A": "attempt_started", "F": "job_finished"}
    lines = read_lines(
        spark,
        *(
            {"job_id": job, "at": at, "event": kinds[letter]}
            for job, letters in written.items()
            for at, together in enumerate(letters)
            for letter in together
        ),
    )
    assert tuples(placing.run_starts(lines), "job_id", "at", "run") == [
        ("again", 2, 2),
        ("again", 4, 3),
        ("and later", 2, 2),
    ]


def test_a_line_belongs_to_the_run_begun_by_then(spark):
    lines = read_lines(
        spark,
        {"at": 4, "event": "job_submitted"},
        {"at": 5, "event": "job_finished"},  # at the very millisecond: of the run before
        {"at": 5, "event": "attempt_started"},
        {"at": 6, "event": "job_finished"},
        {"at": 9, "event": "attempt_started", "job_id": "other"},
    )
    runs = frame(spark, RUNS, [OF_ONE_JOB | {"at": 5, "run": 2}])
    assert tuples(placing.with_run(lines, runs), "job_id", "at", "event", "run") == [
        ("j", 4, "job_submitted", 1),
        ("j", 5, "attempt_started", 2),
        ("j", 5, "job_finished", 1),
        ("j", 6, "job_finished", 2),
        ("other", 9, "attempt_started", 1),
    ]


def test_starts_without_a_number_count_on(spark):
    """Only the lowest emitter's unnumbered starts are read; several at one moment are one."""
    started = {"event": "attempt_started"}
    lines = read_lines(
        spark,
        started | {"at": 1, "rank": 0},
        started | {"at": 1, "rank": 0, "gpus": 8},
        started | {"at": 2, "rank": 1},  # not the lowest emitter
        started | {"at": 3, "rank": 0},
        started | {"at": 4, "rank": 7, "attempt": 5},
        started | {"at": 5, "rank": 0},
        started | {"at": 5, "rank": 0, "attempt": 9},  # numbered ones first
    )
    starts = placing.believed_starts(placing.with_run(lines, frame(spark, RUNS, [])))
    assert tuples(starts, "at", "attempt", "gpus") == [
        (1, 0, None),
        (1, 0, 8),
        (3, 1, None),
        (4, 5, None),
        (5, 9, None),
        (5, 10, None),
    ]


def test_slots_are_starts_and_where_runs_open(spark):
    starts = frame(
        spark,
        "cluster string, job_id string, run long, at long, attempt long",
        [
            OF_ONE_JOB | {"run": 1, "at": 1, "attempt": 4},
            OF_ONE_JOB | {"run": 1, "at": 1, "attempt": 4},
            OF_ONE_JOB | {"run": 2, "at": 9, "attempt": 7},
        ],
    )
    runs = frame(spark, RUNS, [OF_ONE_JOB | {"at": 8, "run": 2}, OF_ONE_JOB | {"at": 20, "run": 3}])
    assert tuples(placing.attempt_slots(starts, runs), "run", "at", "order", "number") == [
        (1, 1, 1, 4),
        (2, 8, 0, 7),  # submitted before it started: its first attempt
        (2, 9, 1, 7),
        (3, 20, 0, 0),  # submitted, and not started
    ]


def slots(spark, *rows):
    return frame(spark, SLOTS, [OF_ONE_JOB | {"run": 1, "order": 1} | row for row in rows])


def test_simple_jobs_need_no_search(spark):
    known = slots(
        spark,
        {"job_id": "one", "at": 1, "number": 3},
        {"job_id": "two", "at": 1, "number": 0},
        {"job_id": "two", "at": 5, "number": 1},
        {"job_id": "again", "at": 1, "number": 0},
        {"job_id": "again", "at": 5, "number": 0, "run": 2},
    )
    assert tuples(placing.simple_jobs(known), "job_id", "is_one_run", "only", "has_slot") == [
        ("again", False, 0, True),
        ("one", True, 3, True),
        ("two", True, None, True),
    ]


def test_a_line_without_a_number_belongs_to_the_last_start(spark):
    known = slots(
        spark,
        {"job_id": "two", "at": 10, "number": 3},
        {"job_id": "two", "at": 20, "number": 4},
        {"job_id": "one", "at": 10, "number": 7},
        {"job_id": "again", "at": 10, "number": 0},
        {"job_id": "again", "at": 20, "number": 0, "run": 2},
    )
    usual = OF_ONE_JOB | {"event": "train_begin"}
    lines = frame(
        spark,
        MARK.removesuffix(", run long"),
        [
            usual | {"job_id": "two", "at": 9},  # before the first start: of the first
            usual | {"job_id": "two", "at": 10},
            usual | {"job_id": "two", "at": 20},
            usual | {"job_id": "two", "at": 20, "event": "step"},  # ends what was before
            usual | {"job_id": "two", "at": 21, "attempt": 3},  # it says so
            usual | {"job_id": "one", "at": 5},
            usual | {"job_id": "again", "at": 20, "event": "step"},
            usual | {"job_id": "again", "at": 20},
            usual | {"job_id": "no start", "at": 1},
        ],
    )
    placed = placing.place(lines, known, placing.simple_jobs(known))
    assert tuples(placed, "job_id", "at", "event", "run", "attempt") == [
        ("again", 20, "step", 1, 0),
        ("again", 20, "train_begin", 2, 0),
        ("no start", 1, "train_begin", 1, 0),
        ("one", 5, "train_begin", 1, 7),
        ("two", 9, "train_begin", 1, 3),
        ("two", 10, "train_begin", 1, 3),
        ("two", 20, "step", 1, 3),
        ("two", 20, "train_begin", 1, 4),
        ("two", 21, "train_begin", 1, 3),
    ]
