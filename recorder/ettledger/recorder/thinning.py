"""Which steps get a line of their own, where not every one needs it."""

from __future__ import annotations


class Thinning:
    """A step is due after `every` steps or `every_s` seconds, whichever is first.

    Also due are the first step after `restart`, and one that is not above the last: a rollback.
    """

    def __init__(self, every: int | None, every_s: float | None) -> None:
        if every is not None and every < 1:
            raise ValueError(f"every is {every}: give a number of steps from 1")
        self._every = every
        self._every_ms = None if every_s is None else every_s * 1000
        self._last = -1
        self.restart()

    def restart(self) -> None:
        """The loop is entered: its first step is due."""
        self._next_step: float = 0
        self._next_ms: float = 0

    def is_back(self, step: int) -> bool:
        """Whether the step is no progress over the last one told."""
        return step <= self._last

    def is_due(self, step: int, at_ms: int) -> bool:
        """Whether this step, which is told at `at_ms`, gets a line."""
        due = step >= self._next_step or at_ms >= self._next_ms or step <= self._last
        self._last = step
        if due:  # multiples of `every`, so that attempts write the same steps
            self._next_step = (
                float("inf") if self._every is None else (step // self._every + 1) * self._every
            )
            self._next_ms = float("inf") if self._every_ms is None else at_ms + self._every_ms
        return due
