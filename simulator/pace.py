"""The speed of one attempt, and whether its log shows that speed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

_NANO = 10**9
_FEWEST = 3
"""The accounting takes no speed from fewer progress intervals."""
JITTER = 0.08
"""A jittery job's lines take up to this share longer or shorter."""


@dataclass(slots=True)
class Pace:
    """An attempt's `step_ms`, and how its progress intervals compare with it, the first left out.

    `batch`: positions per step (samples, or 1). `hides_overhead`: a slow first step or a hang lies
    in its steps without a line that says so.
    """

    step_ms: int
    batch: int
    is_jittery: bool
    has_progress: bool = False
    hides_overhead: bool = False
    steady: int = 0
    faster: int = 0
    slower: int = 0

    @property
    def rate(self) -> int:
        """Nanoseconds per position, as the accounting counts them."""
        return self.step_ms * _NANO // self.batch

    @property
    def count(self) -> int:
        """Progress intervals from which a reader takes the speed."""
        return self.steady + self.faster + self.slower

    def times(self, start: int, size: int, count: int, rng: Random) -> Sequence[int]:
        """When the next `count` lines of `size` steps are due, if nothing comes between."""
        length = size * self.step_ms
        if not self.is_jittery:
            return range(start + length, start + count * length + 1, length)
        low, high = round(length * (1 - JITTER)), round(length * (1 + JITTER))
        lengths = (rng.randint(low, high) for _ in range(count))
        return list(accumulate(lengths, initial=start))[1:]

    def saw(self, extra_ms: int, count: int = 1) -> None:
        """`count` progress intervals ended, each `extra_ms` longer than its steps."""
        if not self.has_progress:
            self.has_progress, count = True, count - 1
        if extra_ms > 0:
            self.slower += count
        elif extra_ms < 0:
            self.faster += count
        else:
            self.steady += count

    def saw_jitter(self, count: int) -> None:
        """`count` progress intervals ended, none of which shows the speed."""
        self.saw(1, count)


def is_told(pace: Pace, paces: Sequence[Pace]) -> bool:
    """Does the log show the speed of `pace`, one of its job's `paces`, well enough?

    Well enough means: the accounting infers exactly the overhead that the steps hide. Its measure
    is the lower median of the attempt's progress intervals, or of the job's where those are few.
    """
    if not pace.has_progress:
        return True
    if pace.count >= _FEWEST:
        return _median_is_steady([pace]) or not pace.hides_overhead
    if sum(p.count for p in paces) < _FEWEST:
        return not pace.hides_overhead
    if len({p.rate for p in paces if p.has_progress}) > 1:
        return False
    return _median_is_steady(paces) or not pace.hides_overhead


def _median_is_steady(paces: Iterable[Pace]) -> bool:
    all_paces = list(paces)
    faster = sum(p.faster for p in all_paces)
    steady = sum(p.steady for p in all_paces)
    middle = (sum(p.count for p in all_paces) - 1) // 2
    return faster <= middle < faster + steady
