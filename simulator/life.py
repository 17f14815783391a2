"""What every simulated job does: lives through phases, is struck, and runs out of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.book import Book, EndOfTimeError
from simulator.startup import Span, holders

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from simulator.logs import Pen

DEAD_AFTER_MS = 1_800_000
"""Silence after which the accounting presumes a job dead (its default)."""
NEVER = 2**62
_FURTHEST_LAG_RATIO = 0.05


class StruckError(Exception):
    """An incident stops the attempt at its time."""


class Life:
    """One job between its submission and the end of time.

    `struck_at`: when the next incident stops it. `doubts`: why its log cannot say enough for the
    truth to be recovered from it.
    """

    def __init__(self, pen: Pen, *, as_of: int, rng: Random) -> None:
        self.pen = pen
        self.rng = rng
        self.as_of = as_of
        self.book = Book(as_of)
        self.struck_at = NEVER
        self.doubts: set[str] = set()
        self.queue_wait_ms = 0
        self._open_phase: str | None = None
        self._is_alarmed = False

    def _submit(self, at: int, queue_ms: int, dimensions: dict[str, str]) -> None:
        """Wait in the queue; raises EndOfTimeError where it is longer than the time there is."""
        if at > self.as_of:
            raise EndOfTimeError
        self.pen.say_scheduler(at, "job_submitted", **dimensions)
        self.queue_wait_ms = min(queue_ms, self.as_of - at)
        if at + queue_ms > self.as_of:
            raise EndOfTimeError
        self.book.now = at + queue_ms

    def _play(self, spans: Sequence[Span], until: int) -> None:
        """Live through `spans` until `until`; an incident or the end of time cuts them short.

        A phase that is cut stays open: nobody in the job knows before the failure is detected.
        """
        stop = min(until, self.struck_at, self.as_of)
        for span in spans:
            self._say_span(span, stop)
        for phase, edge in holders(spans, self.book.now, stop):
            self.book.claim(phase, edge)
        if stop == until:
            return
        if stop == self.as_of:
            raise EndOfTimeError
        still_open = [s.phase for s in spans if s.begin <= stop < s.end]
        self._open_phase = still_open[-1] if still_open else None
        raise StruckError

    def _run(self, phase: str, length: int, **attrs: str) -> None:
        """Live through one phase from now on."""
        now = self.book.now
        self._play([Span(phase, now, now + length, attrs)], now + length)

    def _say_span(self, span: Span, stop: int, *, is_blocking: bool = True) -> None:
        """Write its lines up to `stop`, each rank at its own time: the last to end ends it."""
        more = {} if is_blocking else {"blocking": False}
        attrs = {"attrs": dict(span.attrs)} if span.attrs else {}
        for rank, begin, end in self._shares(span):
            own = {} if rank is None else {"rank": rank}
            if begin <= stop:
                self.pen.say(begin, "phase_begin", phase=span.phase, **own, **more, **attrs)
            if end <= stop:
                self.pen.say(end, "phase_end", phase=span.phase, **own, **more)

    def _shares(self, span: Span) -> list[tuple[int | None, int, int]]:
        """(rank, begin, end): one rank begins first, another ends last, the others in between."""
        ranks = self.pen.ranks
        if not ranks:
            return [(None, span.begin, span.end)]
        lag = round((span.end - span.begin) * _FURTHEST_LAG_RATIO)
        lags = [(self.rng.randint(0, lag), self.rng.randint(0, lag)) for _ in ranks]
        lags[0] = (0, lags[0][1])
        lags[-1] = (lags[-1][0], 0)
        return [
            (rank, span.begin + late, span.end - early)
            for rank, (late, early) in zip(ranks, lags, strict=True)
        ]

    def _cut_off(self, *, ended: Outcome | None) -> None:
        """The end of time: in an attempt, or after one that `ended`, or before any."""
        book = self.book
        if book.attempt is not None:
            outcome = Outcome.FAILED if self._is_alarmed else Outcome.UNKNOWN
            self._doubt_silence()
            book.close_attempt(outcome)
            book.finish(outcome, is_censored=True)
        elif ended is not None:
            book.finish(ended, is_censored=False)
            return
        book.flags.add("censored")

    def _doubt_silence(self) -> None:
        if self.as_of - self.pen.last_ms >= DEAD_AFTER_MS:
            self.doubts.add("alive at the end, but silent for so long that it seems dead")

    def _count(self, cause: Cause) -> None:
        self.book.interruptions[cause] += 1
