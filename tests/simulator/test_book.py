"""The true ledger while it is lived, by small stories in seconds."""

import pytest

from pipelines.taxonomy import Outcome
from simulator.book import Book, EndOfTimeError


def booked(book):
    return [(r.start, r.end, r.component, str(r.stage), r.gpus, r.attempt) for r in book.rows]


def trained(as_of=1000):
    """Started at 0, in the loop at 10, trained 10..50 with a save inside it."""
    book = Book(as_of)
    book.open_attempt(0, 8)
    book.claim("trainer_init", 8)
    book.claim(None, 10)
    book.mark_entry()
    book.progress([("effective_training", 30)], 30)
    book.claim("checkpoint_save", 35)
    book.progress([("effective_training", 50)], 50)
    return book


TRAINED = [
    (0, 8, "trainer_init", "time_to_start", 8, 0),
    (8, 10, "unattributed", "time_to_start", 8, 0),
    (10, 30, "effective_training", "effective", 8, 0),
    (30, 35, "checkpoint_save", "wasted_training", 8, 0),
    (35, 50, "effective_training", "effective", 8, 0),
]


@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        (Outcome.SUCCEEDED, ("teardown", "shutdown")),
        (Outcome.CANCELLED, ("teardown", "shutdown")),
        (Outcome.FAILED, ("failure_detection", "time_to_recover")),
        (Outcome.TIMED_OUT, ("failure_detection", "time_to_recover")),
    ],
)
def test_what_follows_the_last_mark_depends_on_the_outcome(outcome, after):
    book = trained()
    book.claim(None, 60)
    book.close_attempt(outcome)
    book.finish(outcome, is_censored=False)
    assert booked(book) == [*TRAINED, (50, 60, *after, 8, 0)]
    assert book.wall_ms == 60


def test_a_job_still_running_at_the_end_of_time():
    book = trained(as_of=55)
    with pytest.raises(EndOfTimeError):
        book.claim(None, 60)
    book.close_attempt(Outcome.UNKNOWN)
    book.finish(Outcome.UNKNOWN, is_censored=True)
    assert booked(book) == [*TRAINED, (50, 55, "unattributed", "wasted_training", 8, 0)]


def test_a_recovery_runs_from_progress_to_progress():
    """Fails at 50, found at 60, back on fewer GPUs at 70; repeats 80..90, new data from 90."""
    book = trained()
    book.claim(None, 60)
    book.close_attempt(Outcome.FAILED)
    book.wait(70, gpus=4)
    book.open_attempt(1, 4)
    book.claim("checkpoint_restore", 80)
    book.mark_entry()
    book.progress([("repeated_training", 90), ("effective_training", 95)], 95)
    assert booked(book)[len(TRAINED) :] == [
        (50, 60, "failure_detection", "time_to_recover", 8, 0),
        (60, 70, "restart_gap", "time_to_recover", 4, None),
        (70, 80, "checkpoint_restore", "time_to_recover", 4, 1),
        (80, 90, "repeated_training", "wasted_training", 4, 1),
        (90, 95, "effective_training", "effective", 4, 1),
    ]
    [recovery] = book.recoveries
    assert (recovery.start, recovery.ttr_ms, recovery.time_to_new_data_ms) == (50, 30, 40)


def test_a_restart_inside_the_attempt():
    book = trained()
    book.claim(None, 60)
    book.claim("checkpoint_restore", 65)
    book.mark_entry()
    book.progress([("effective_training", 70)], 70)
    assert booked(book)[len(TRAINED) :] == [
        (50, 60, "restart_gap", "time_to_recover", 8, 0),
        (60, 65, "checkpoint_restore", "time_to_recover", 8, 0),
        (65, 70, "effective_training", "effective", 8, 0),
    ]
    assert [r.ttr_ms for r in book.recoveries] == [15]


def test_a_wait_that_does_not_end_in_time_is_no_part_of_the_job():
    book = trained(as_of=100)
    book.close_attempt(Outcome.PREEMPTED)
    with pytest.raises(EndOfTimeError):
        book.wait(101, gpus=None)
    book.finish(Outcome.PREEMPTED, is_censored=False)
    assert booked(book) == TRAINED


def test_a_job_that_never_trains_only_starts():
    book = Book(100)
    book.open_attempt(0, 8)
    book.claim("scheduling", 5)
    book.claim(None, 9)
    book.close_attempt(Outcome.FAILED)
    book.finish(Outcome.FAILED, is_censored=False)
    assert booked(book) == [
        (0, 5, "scheduling", "time_to_start", 8, 0),
        (5, 9, "unattributed", "time_to_start", 8, 0),
    ]
