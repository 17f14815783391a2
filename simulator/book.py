"""The true ledger of one job while it is lived: every millisecond is booked once, in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pipelines.taxonomy import (
    EFFECTIVE,
    FAILURE_DETECTION,
    REQUEUE_WAIT,
    RESTART_GAP,
    TEARDOWN,
    UNATTRIBUTED,
    Cause,
    Outcome,
    Stage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class EndOfTimeError(Exception):
    """The simulated time is over in the middle of something."""


class Row(NamedTuple):
    """A true interval `[start, end)` in epoch ms; `attempt` is None between attempts."""

    attempt: int | None
    start: int
    end: int
    component: str
    stage: Stage
    gpus: int


@dataclass(frozen=True, slots=True)
class Claim:
    """An interval whose stage only the future tells; `component` None: nobody claims it yet."""

    attempt: int | None
    start: int
    end: int
    component: str | None
    gpus: int


@dataclass(slots=True)
class Recovery:
    """The way from one progress to the next: where it began, its length, and to new data."""

    start: int
    ttr_ms: int
    time_to_new_data_ms: int | None = None


@dataclass(slots=True)
class Book:
    """What happens to one job. `now` is its clock; nothing is booked beyond `as_of`.

    Time in a progress interval is booked by `progress` when its closing mark is logged. All
    other time is claimed, and gets its stage when the job trains again or is over: `before` holds
    the claims up to the last mark, `since` those after it.
    """

    as_of: int
    now: int = 0
    rows: list[Row] = field(default_factory=list)
    before: list[Claim] = field(default_factory=list)
    since: list[Claim] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    interruptions: Counter[Cause] = field(default_factory=Counter)
    flags: set[str] = field(default_factory=set)
    attempt: int | None = None
    last_attempt: int | None = None
    gpus: int = 0
    first_start: int | None = None
    last_mark: int | None = None
    first_progress: int | None = None
    last_progress: int | None = None
    trained_in: int | None = None
    has_restarted: bool = False

    def open_attempt(self, number: int, gpus: int) -> None:
        """An attempt starts now on `gpus`."""
        self.before += self.since
        self.since = []
        self.attempt = self.last_attempt = number
        self.gpus, self.last_mark = gpus, None
        if self.first_start is None:
            self.first_start = self.now

    def close_attempt(self, outcome: Outcome) -> None:
        """The attempt ends now; what nobody claimed since its last mark follows from `outcome`."""
        component = UNATTRIBUTED
        if self.last_mark is not None and outcome.is_failure:
            component = FAILURE_DETECTION
        elif self.last_mark is not None and outcome in (Outcome.SUCCEEDED, Outcome.CANCELLED):
            component = TEARDOWN
        self._settle_unclaimed(component)
        self.attempt = None

    def wait(self, until: int, *, gpus: int | None) -> None:
        """Between attempts until `until`, holding `gpus`, or None where they were given back.

        Raises EndOfTimeError where no next attempt comes before the end of time: then the wait
        is no part of the job yet.
        """
        if until > self.as_of:
            raise EndOfTimeError
        self.gpus = gpus or 0
        self._claim(RESTART_GAP if gpus is not None else REQUEUE_WAIT, until)

    def claim(self, component: str | None, until: int) -> None:
        """`component` has the time until `until`; raises EndOfTimeError at the end of time."""
        self._claim(component, min(until, self.as_of))
        if until > self.as_of:
            raise EndOfTimeError

    def mark_entry(self) -> None:
        """The training loop is entered now: at first, or again inside the attempt."""
        is_again = self.last_mark is not None
        self._settle_unclaimed(RESTART_GAP if is_again else UNATTRIBUTED)
        self.has_restarted = self.has_restarted or is_again
        self.before += self.since
        self.since = []
        self.last_mark = self.now

    def progress(self, pieces: Iterable[tuple[str, int]], mark: int) -> None:
        """Marks rose from the last one to `mark`: `pieces` (component, end) run from now to it.

        What was claimed since the last mark lies inside the first of these progress intervals.
        """
        self._resume()
        for claim in self.since:
            self._book(claim, Stage.WASTED_TRAINING)
        self.since = []
        for component, end in pieces:
            is_effective = component == EFFECTIVE
            if is_effective and end > self.now:
                self._new_data()
            stage = Stage.EFFECTIVE if is_effective else Stage.WASTED_TRAINING
            self._book(Claim(self.attempt, self.now, end, component, self.gpus), stage)
            self.now = max(self.now, end)
        self.last_mark = self.last_progress = self.now = mark

    def finish(self, outcome: Outcome, *, is_censored: bool) -> None:
        """No more will be known; `outcome` is the last attempt's."""
        before, since = self._last_stages(outcome, is_censored=is_censored)
        for claim in self.before:
            self._book(claim, before)
        for claim in self.since:
            self._book(claim, since)
        self.before, self.since = [], []

    @property
    def wall_ms(self) -> int:
        """From the start of the first attempt to the end of the last row."""
        return self.rows[-1].end - self.rows[0].start if self.rows else 0

    def _claim(self, component: str | None, until: int) -> None:
        if until > self.now:
            self.since.append(Claim(self.attempt, self.now, until, component, self.gpus))
            self.now = until

    def _settle_unclaimed(self, component: str) -> None:
        self.since = [
            replace(c, component=component) if c.component is None else c for c in self.since
        ]

    def _resume(self) -> None:
        """Progress begins at the last mark: what was claimed before it led there."""
        if self.last_mark is None:
            raise ValueError("progress before the training loop was entered")
        stage = Stage.TIME_TO_RECOVER
        if self.last_progress is None:
            self.first_progress, stage = self.last_mark, Stage.TIME_TO_START
        elif self.trained_in != self.attempt or self.has_restarted:
            self.recoveries.append(
                Recovery(self.last_progress, self.last_mark - self.last_progress)
            )
        self.trained_in, self.has_restarted = self.attempt, False
        for claim in self.before:
            self._book(claim, stage)
        self.before = []

    def _new_data(self) -> None:
        for recovery in reversed(self.recoveries):
            if recovery.time_to_new_data_ms is not None:
                return
            recovery.time_to_new_data_ms = self.now - recovery.start

    def _book(self, claim: Claim, stage: Stage) -> None:
        if claim.end <= claim.start:
            return
        if claim.component is None:
            raise ValueError(f"booked before anything claimed it: {claim}")
        row = Row(claim.attempt, claim.start, claim.end, claim.component, stage, claim.gpus)
        last = self.rows[-1] if self.rows else row
        if last is not row and last[3:] == row[3:] and last.attempt == row.attempt:
            self.rows[-1] = last._replace(end=row.end)
        else:
            self.rows.append(row)

    def _last_stages(self, outcome: Outcome, *, is_censored: bool) -> tuple[Stage, Stage]:
        """Stages of what was claimed up to the job's last mark, and after it."""
        if self.last_progress is None:
            return Stage.TIME_TO_START, Stage.TIME_TO_START
        if self.trained_in != self.last_attempt:
            return Stage.TIME_TO_RECOVER, Stage.TIME_TO_RECOVER
        before = Stage.TIME_TO_RECOVER if self.has_restarted else Stage.WASTED_TRAINING
        if outcome.is_failure:
            return before, Stage.TIME_TO_RECOVER
        return before, before if is_censored else Stage.SHUTDOWN
