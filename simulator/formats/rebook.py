"""The same course booked by allocations: a restart on hardware kept lies inside its allocation."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.book import Book, EndOfTimeError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Run:
    """An attempt as booked; `is_held`: on hardware kept since the one before."""

    number: int
    start: int
    end: int
    gpus: int
    outcome: Outcome
    is_held: bool


@dataclass(slots=True)
class RecordedBook(Book):
    """A book that remembers its attempts, and books them a second time by allocation.

    A scheduler knows allocations only. `by_allocation` is what would have been booked had every
    launch on hardware kept been a restart inside the attempt before, all accelerators held.
    `keeps_lost`: does the scheduler hold on to the hardware of a job that died unnoticed?
    """

    keeps_lost: bool = False
    runs: list[Run] = field(default_factory=list)
    is_censored: bool = False
    waits_held: bool = False
    by_allocation: Book = field(default_factory=lambda: Book(0))
    _is_kept: bool = False
    _closing: Outcome | None = None

    def __post_init__(self) -> None:
        """The second book ends with the first."""
        self.by_allocation = Book(self.as_of)

    def open_attempt(self, number: int, gpus: int) -> None:
        """An attempt starts now."""
        other = self._other()
        self.runs.append(Run(number, self.now, self.now, gpus, Outcome.UNKNOWN, self._is_kept))
        if self._is_kept:
            self._closing = None
        else:
            self._settle()
            count = sum(not run.is_held for run in self.runs)
            other.open_attempt(count - 1, gpus)
        self._is_kept = self.waits_held = False
        Book.open_attempt(self, number, gpus)

    def close_attempt(self, outcome: Outcome) -> None:
        """The attempt ends now; whether its allocation does shows later."""
        self._other()
        self.runs[-1].end, self.runs[-1].outcome = self.now, outcome
        self._closing = outcome
        Book.close_attempt(self, outcome)

    def wait(self, until: int, *, gpus: int | None) -> None:
        """Between attempts; hardware kept is time inside the allocation."""
        other = self._other()
        if gpus is None:
            self._settle()
            with suppress(EndOfTimeError):
                other.wait(until, gpus=None)
        else:
            self._is_kept = self.waits_held = True
            with suppress(EndOfTimeError):
                other.claim(None, until)
        Book.wait(self, until, gpus=gpus)

    def claim(self, component: str | None, until: int) -> None:
        """`component` has the time until `until`."""
        with suppress(EndOfTimeError):
            self._other().claim(component, until)
        Book.claim(self, component, until)

    def mark_entry(self) -> None:
        """The training loop is entered now."""
        self._other().mark_entry()
        Book.mark_entry(self)

    def progress(self, pieces: Iterable[tuple[str, int]], mark: int) -> None:
        """Marks rose from the last one to `mark`."""
        own = list(pieces)
        self._other().progress(own, mark)
        Book.progress(self, own, mark)

    def finish(self, outcome: Outcome, *, is_censored: bool) -> None:
        """No more will be known."""
        self.is_censored = is_censored
        if self._is_kept_though_lost:
            self.by_allocation.claim(None, self.as_of)
            self._closing = Outcome.UNKNOWN
        known = self._closing or outcome
        self._settle()
        self.by_allocation.finish(known, is_censored=is_censored or self.is_still_held)
        Book.finish(self, outcome, is_censored=is_censored)

    def booked_by_allocation(self) -> Book:
        """The second book, once the job is over: hardware kept to the end of time still is held.

        What nobody noticed is no interruption.
        """
        other = self.by_allocation
        other.flags = set(self.flags)
        other.interruptions = Counter(self.interruptions)
        if self.is_still_held:
            other.flags = {"censored"}
        if self._is_kept_though_lost:
            other.interruptions -= Counter({Cause.UNKNOWN: 1})
        return other

    @property
    def is_still_held(self) -> bool:
        """Does the scheduler hold on to the hardware of a job of which no launch runs?"""
        return self.waits_held or self._is_kept_though_lost

    @property
    def _is_kept_though_lost(self) -> bool:
        return self.keeps_lost and "presumed_dead" in self.flags

    def _other(self) -> Book:
        """The second book at the same time as this one."""
        self.by_allocation.now = max(self.by_allocation.now, self.now)
        return self.by_allocation

    def _settle(self) -> None:
        """The attempt that was closed last took its allocation with it."""
        if self._closing is not None:
            self.by_allocation.close_attempt(self._closing)
            self._closing = None
