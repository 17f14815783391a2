"""A course booked by attempts and, beside it, by allocations: small stories in seconds."""

import pytest

from pipelines.taxonomy import Cause, Outcome
from simulator.book import EndOfTimeError
from simulator.formats.rebook import RecordedBook


def booked(book):
    return [(r.start, r.end, r.component, str(r.stage), r.gpus, r.attempt) for r in book.rows]


def failed_once(as_of=1000):
    """In the loop at 10, trained to 30, failed; found at 40."""
    book = RecordedBook(as_of)
    book.open_attempt(0, 8)
    book.claim("launcher_init", 8)
    book.claim(None, 10)
    book.mark_entry()
    book.progress([("effective_training", 30)], 30)
    book.claim(None, 40)
    book.close_attempt(Outcome.FAILED)
    return book


def start_again(book):
    book.claim("launcher_init", 65)
    book.mark_entry()
    book.progress([("effective_training", 80)], 80)
    book.close_attempt(Outcome.SUCCEEDED)
    book.finish(Outcome.SUCCEEDED, is_censored=False)


BEGIN = [
    (0, 8, "launcher_init", "time_to_start", 8, 0),
    (8, 10, "unattributed", "time_to_start", 8, 0),
    (10, 30, "effective_training", "effective", 8, 0),
]


def test_a_restart_on_hardware_kept_lies_inside_the_allocation():
    book = failed_once()
    book.wait(60, gpus=8)
    book.open_attempt(1, 8)
    start_again(book)
    assert booked(book)[3:] == [
        (30, 40, "failure_detection", "time_to_recover", 8, 0),
        (40, 60, "restart_gap", "time_to_recover", 8, None),
        (60, 65, "launcher_init", "time_to_recover", 8, 1),
        (65, 80, "effective_training", "effective", 8, 1),
    ]
    assert booked(book.booked_by_allocation()) == [
        *BEGIN,
        (30, 60, "restart_gap", "time_to_recover", 8, 0),
        (60, 65, "launcher_init", "time_to_recover", 8, 0),
        (65, 80, "effective_training", "effective", 8, 0),
    ]


def test_a_requeue_is_booked_alike():
    book = failed_once()
    book.wait(60, gpus=None)
    book.open_attempt(1, 8)
    start_again(book)
    assert booked(book.booked_by_allocation()) == booked(book)
    assert [(r.number, r.start, r.end, r.is_held) for r in book.runs] == [
        (0, 0, 40, False),
        (1, 60, 80, False),
    ]


def test_a_scheduler_that_does_not_notice_holds_on_to_the_hardware():
    book = RecordedBook(100, keeps_lost=True)
    book.open_attempt(0, 8)
    book.mark_entry()
    book.progress([("effective_training", 30)], 30)
    book.close_attempt(Outcome.FAILED)
    book.flags.add("presumed_dead")
    book.interruptions[Cause.UNKNOWN] += 1
    book.finish(Outcome.FAILED, is_censored=False)
    other = book.booked_by_allocation()
    assert booked(other)[-1] == (30, 100, "unattributed", "wasted_training", 8, 0)
    assert (other.flags, +other.interruptions) == ({"censored"}, {})


def test_hardware_kept_to_the_end_of_time_is_still_held():
    book = failed_once(as_of=50)
    with pytest.raises(EndOfTimeError):
        book.wait(60, gpus=8)
    book.finish(Outcome.FAILED, is_censored=False)
    other = book.booked_by_allocation()
    assert booked(book)[-1][1] == 40
    assert booked(other)[-1] == (30, 50, "failure_detection", "time_to_recover", 8, 0)
    assert other.flags == {"censored"}
