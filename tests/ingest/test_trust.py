"""Several accounts of one allocation: whom to believe, what is filled in, what is said otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipelines import walk
from pipelines.tables import LOGBOOK_EVENT
from tests.frames import frame, tuples

EVENT = ", ".join(f"{c.name} {c.type}" for c in LOGBOOK_EVENT.columns)
ZERO = datetime(2026, 11, 1, tzinfo=UTC)


def line(source, second, event, job="j", **said):
    at = ZERO + timedelta(seconds=second)
    own = {"cluster": "c", "job_id": job, "source_file": source, "source_line": 1}
    return own | {"source": source, "event": event, "event_at": at, "ds": at.date()} | said


SCENARIOS = {}


def of(*lines):
    """The lines of a test's scenario: `told` hands it what became of them."""

    def registered(test):
        SCENARIOS[test.__name__] = lines
        return test

    return registered


@pytest.fixture(scope="module")
def whole(spark, module_keep):
    """All scenarios reconciled at once, each a job of its own name: engines need long for each."""
    lines = [said | {"job_id": name} for name, told in SCENARIOS.items() for said in told]
    return walk._reconciled(frame(spark, EVENT, lines), module_keep)


@pytest.fixture
def told(whole, request):
    """What is left of the lines of the test's scenario, and what was said otherwise."""
    return of_job(whole, request.node.name)


def of_job(whole, name):
    return tuple(frame_.where(f"job_id = '{name}'") for frame_ in whole)


def seconds(found, *columns):
    """Rows as (second, event, source, …)."""
    told = found.selectExpr(
        f"(unix_millis(event_at) - {int(ZERO.timestamp() * 1000)}) / 1000 AS second",
        "event", "source", *columns,
    )  # fmt: skip
    return tuples(told)


SLURM = [
    line("slurm", 0, "job_submitted", team="ranking"),
    line("slurm", 100, "attempt_started", gpus=8),
    line("slurm", 900, "attempt_ended", outcome="failed"),
    line("slurm", 1000, "attempt_started", gpus=8),
]


@of(
    *SLURM,
    line("steps", 130, "attempt_started", attempt=7, rank=0, gpus=6, model="m"),
    line("steps", 200, "step", attempt=7, step=1),
    line("steps", 870, "attempt_ended", attempt=7, outcome="failed", cause="out_of_memory"),
    line("steps", 1030, "attempt_started", attempt=8, rank=0),
)
def test_the_scheduler_is_believed_and_the_trainer_fills_in_what_it_leaves_unsaid(told):
    """The trainer starts at 130 on 6 GPUs and ends at 870, out of memory; then again at 1030."""
    found, disagreed = told
    assert seconds(found, "attempt", "rank", "gpus", "model", "outcome", "cause") == [
        (0, "job_submitted", "slurm", None, None, None, None, None, None),
        (100, "attempt_started", "slurm", None, None, 8, None, None, None),
        (100, "attempt_started", "steps", None, None, None, "m", None, None),
        (200, "step", "steps", None, None, None, None, None, None),
        (900, "attempt_ended", "slurm", None, None, None, None, "failed", None),
        (900, "attempt_ended", "steps", None, None, None, None, None, "out_of_memory"),
        (1000, "attempt_started", "slurm", None, None, 8, None, None, None),
        (1000, "attempt_started", "steps", None, None, None, None, None, None),
    ]
    assert tuples(disagreed, "field", "source", "believed", "other_source", "other") == [
        ("attempt", "slurm", "0", "steps", "7"),
        ("attempt", "slurm", "1", "steps", "8"),
        ("gpus", "slurm", "8", "steps", "6"),
    ]


@of(
    *SLURM[:3],
    line("steps", 1000, "attempt_started", gpus=8, attempt=1),
)
def test_an_attempt_that_the_scheduler_has_not_told_yet_stays(told):
    """The last scrape was at 950: what the trainer says from 1000 on has no window to fit into."""
    found, _ = told
    assert seconds(found, "attempt")[-1] == (1000, "attempt_started", "steps", None)


@of(
    line("lifecycle", 0, "attempt_started", attempt=4, gpus=8),
    line("steps", 5, "attempt_started"),
    line("steps", 9, "step", attempt=4, step=1),
)
def test_numbers_stay_where_the_strongest_numbers_its_attempts(told):
    found, _ = told
    assert seconds(found, "attempt") == [
        (0, "attempt_started", "lifecycle", 4),
        (0, "attempt_started", "steps", 4),
        (9, "step", "steps", 4),
    ]


@of(
    *SLURM[1:3],
    line("slurm", 900, "job_finished"),
    line("steps", 900.4, "step", step=9),
    line("steps", 901, "step", step=10),
)
def test_ends_in_whole_seconds_reach_to_the_last_line_of_that_second(told):
    found, _ = told
    assert seconds(found) == [
        (100, "attempt_started", "slurm"),
        (900.4, "attempt_ended", "slurm"),
        (900.4, "job_finished", "slurm"),
        (900.4, "step", "steps"),
        (901, "step", "steps"),
    ]


WEAK = [
    (line("steps", 0, "job_submitted"), []),  # the scheduler tells one
    (line("steps", 870, "job_finished"), []),  # a later start belies it
    (line("steps", 1500, "job_finished"), [(1500, "job_finished")]),  # nothing says otherwise
    (line("steps", 1500, "attempt_ended"), [(1500, "attempt_ended")]),  # its window is open
    (line("steps", 960, "attempt_started"), [(1000, "attempt_started")]),  # within a minute
    (line("steps", 840, "attempt_ended"), [(900, "attempt_ended")]),
]
SCENARIOS |= {f"weak_{number}": [*SLURM, weak] for number, (weak, _) in enumerate(WEAK)}


@pytest.mark.parametrize("number", range(len(WEAK)))
def test_what_becomes_of_a_weaker_line(whole, number):
    found, _ = of_job(whole, f"weak_{number}")
    kept = [row[:2] for row in seconds(found.where("source = 'steps'"))]
    assert kept == WEAK[number][1]


@of(
    *SLURM,
    line("torchelastic", 1010, "attempt_started"),
    line("torchelastic", 1200, "attempt_ended", outcome="failed"),
    line("torchelastic", 1210, "attempt_started"),
    line("torchelastic", 1900, "attempt_ended", outcome="failed"),
)
def test_in_an_open_window_an_end_that_another_start_follows_is_a_restart(told):
    """The launcher gave up at 1200 and was started again at 1210; at 1900 it gave up for good."""
    found, _ = told
    ends = found.where("source = 'torchelastic' AND event = 'attempt_ended'")
    assert seconds(ends) == [(1900, "attempt_ended", "torchelastic")]


@of(
    line("kubernetes", 100, "attempt_started", gpus=8),
    line("kubernetes", 130, "attempt_started", host="pytorchjob/j"),
    line("steps", 160, "attempt_started"),
)
def test_of_unnumbered_starts_only_the_lowest_emitters_open_a_window(told):
    """The Workload is admitted at 100; the job that it stands for starts at 130."""
    found, _ = told
    assert seconds(found.where("source = 'steps'")) == [(100, "attempt_started", "steps")]


@of(
    *SLURM[:3],
    line("steps", 70, "attempt_started"),
    line("steps", 905, "attempt_ended", outcome="succeeded"),
)
def test_instants_that_contradict_are_counted(told):
    """A trainer that starts before it was granted its hardware, and ends after that was taken."""
    _, disagreed = told
    assert tuples(disagreed, "field", "difference_ms", "other") == [
        ("ended_at", 5000, "2026-11-01 00:15:05"),
        ("outcome", None, "succeeded"),
        ("started_at", 30_000, "2026-11-01 00:01:10"),
    ]


@of(
    *SLURM,
    line("steps", -3500, "attempt_started"),
    line("steps", 1500, "step", step=1),
)
def test_a_start_outside_every_allocation_is_told_where_the_scheduler_knows_a_later_one(told):
    """A clock an hour off: the trainer's start lies before the first allocation."""
    found, disagreed = told
    assert seconds(found)[0] == (-3500, "attempt_started", "steps")
    assert tuples(disagreed, "field", "source", "difference_ms") == [
        ("allocation", "slurm", 3_600_000)
    ]


@of(
    *SLURM[:3],
    line("slurm", 901, "job_submitted"),
    line("slurm", 1100, "attempt_started", gpus=8),
    line("steps", 10, "attempt_started"),
    line("steps", 1010, "attempt_started"),
)
def test_nothing_starts_before_its_hardware_was_granted(told):
    """A clock 90 s slow: the trainer's start lies between the submission and the allocation."""
    found, disagreed = told
    starts = seconds(found.where("source = 'steps'"))
    assert [row[0] for row in starts] == [100, 1100]
    assert tuples(disagreed, "field", "difference_ms") == [
        ("started_at", 90_000),
        ("started_at", 90_000),
    ]


@of(
    line("slurm", 0, "job_submitted"),
    line("slurm", 1000, "attempt_started", gpus=8),
    line("steps", 30, "attempt_started"),
    line("steps", 1020, "attempt_started"),
)
def test_a_start_before_one_that_fits_is_an_attempt_of_its_own(told):
    """The scheduler's record of the first attempt is gone: only the last submission is known."""
    found, disagreed = told
    starts = seconds(found.where("source = 'steps'"))
    assert [row[0] for row in starts] == [30, 1000]
    assert tuples(disagreed, "field", "difference_ms") == [("allocation", 970_000)]


@of(
    SLURM[1],
    line("slurm", 900, "attempt_ended", outcome="failed", cause="node_lost"),
    line("console", 300, "interruption", cause="network"),  # a restart in place
    line("console", 890, "interruption", cause="hardware"),
)
def test_causes_that_differ_are_counted_the_interruptions_is_believed(told):
    _, disagreed = told
    assert tuples(disagreed, "field", "source", "believed", "other_source", "other") == [
        ("cause", "console", "hardware", "slurm", "node_lost")
    ]


@of(*SLURM)
def test_jobs_of_one_role_are_left_as_they_are(told):
    found, disagreed = told
    assert len(seconds(found)) == len(SLURM)
    assert tuples(disagreed) == []


def test_events_of_one_role_are_not_looked_at(spark):
    events = frame(spark, EVENT, SLURM)
    found, disagreed = walk._reconciled(events, lambda *_: pytest.fail("nothing is kept"))
    assert found is events
    assert tuples(disagreed) == []
