"""Instants as schedulers and tables write them: epoch numbers, ISO times, words for unknown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pipelines.ingest.localtime import placed
from pipelines.ingest.records import RejectError
from pipelines.ingest.times import END_MS, FIRST_MS, LEAST_INTEGER_MS

UNSAID = frozenset(
    {"", "unknown", "none", "none assigned", "n/a", "na", "nan", "nat", "null", "(null)", "invalid"}
)
"""Words, in lower case, by which schedulers and tables say that they do not know."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_MS = timedelta(milliseconds=1)
_1971_MS = 31_536_000_000
_LEAST_DAY = "1971"
_DAY_MS = 86_400_000
_LAST_HOUR, _LAST_MINUTE = 23, 59
_NUMBER = re.compile(r"(-?\d{1,15})(?:\.(\d+))?", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?\s?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_SHOWN = 40


class Instant(NamedTuple):
    """Epoch milliseconds; `attrs` say what is odd about them.

    `again` is the second reading of a local time that its clock showed twice.
    """

    at: int
    again: int | None = None
    attrs: tuple[tuple[str, str], ...] = ()


def is_said(word: str | None) -> bool:
    """Does the word say anything?

    >>> is_said("Unknown"), is_said("None assigned"), is_said("gpu-1")
    (False, False, True)
    """
    return word is not None and word.strip().lower() not in UNSAID


@lru_cache(maxsize=2048)
def instant(text: str, zone: ZoneInfo | None, *, may_be_1970: bool = False) -> Instant | None:
    """The instant that `text` names; None where it says that none is known.

    Epoch seconds, or milliseconds from 10^11 on; or `2025-03-08 18:11:02` with `T` or a blank,
    a fraction, and an offset. Without an offset it is a local time of `zone`. A time before 1971
    says unknown too, unless it `may_be_1970`. Raises RejectError: no time, no zone, or a local
    time that daylight saving left out.

    >>> instant("2025-03-08T18:11:02+01:00", None).at, instant("1741453862", None).at
    (1741453862000, 1741453862000)
    >>> instant("Unknown", None), instant("1970-01-01T00:00:00", None)
    (None, None)
    """
    text = text.strip()
    if clock := _ISO.fullmatch(text):
        found = _iso(clock, zone)
    elif number := _NUMBER.fullmatch(text):
        found = _epoch(*number.groups())
    elif is_said(text):
        raise RejectError(
            f"'{text[:_SHOWN]}' is no time: expected 2025-03-08T18:11:02, with or without an "
            "offset, or epoch seconds (for sacct: unset SLURM_TIME_FORMAT)"
        )
    else:
        return None
    if found is None or not (may_be_1970 or found.at >= _1971_MS):
        return None
    if not FIRST_MS <= found.at < END_MS:
        raise RejectError(f"the time '{text[:_SHOWN]}' lies outside the years 1 to 9999")
    return found


def closing(start: Instant | None, end: Instant, lasted_ms: int | None = None) -> Instant:
    """The end of what began at `start`: of a time that its clock showed twice the one that fits.

    The second is taken where only it gives the stated length, or where the first lies before the
    start.
    """
    if end.again is None or start is None:
        return end
    first, again = end.at - start.at, end.again - start.at
    if first != lasted_ms and (again == lasted_ms or first < 0):
        return Instant(end.again, None, (("local_time", "ambiguous, the second"),))
    return end


def _epoch(whole: str, fraction: str | None) -> Instant:
    if abs(int(whole)) >= LEAST_INTEGER_MS:
        return Instant(int(whole))
    part = _thousandths(fraction)
    return Instant(int(whole) * 1000 + (-part if whole.startswith("-") else part))


def _iso(match: re.Match[str], zone: ZoneInfo | None) -> Instant | None:
    day, clock, fraction, offset = match.groups()
    since = _clock_ms(clock) + _thousandths(fraction)
    if offset:
        return Instant(_midnight(day) + since - _offset_ms(offset))
    if day < _LEAST_DAY:
        return None
    if zone and (begin := _even_midnight(day, zone)) is not None:
        return Instant(begin + since)
    local = _NAIVE_EPOCH + timedelta(milliseconds=_midnight(day) + since)
    here = placed(local, zone)
    if not here.is_ambiguous:
        return Instant(here.at)
    again = (local.replace(tzinfo=zone, fold=1) - _EPOCH) // _MS
    return Instant(here.at, again, tuple(here.attrs.items()))


@lru_cache(maxsize=4096)
def _midnight(day: str) -> int:
    """The begin of a day of UTC, in epoch ms. Raises RejectError."""
    try:
        return (datetime.fromisoformat(day).replace(tzinfo=UTC) - _EPOCH) // _MS
    except ValueError:
        raise RejectError(f"'{day}' is no day of the calendar") from None


@lru_cache(maxsize=4096)
def _even_midnight(day: str, zone: ZoneInfo) -> int | None:
    """The same of a zone's day; None where the clock is moved in it, or at its begin or end."""
    begin = _NAIVE_EPOCH + timedelta(milliseconds=_midnight(day))
    try:
        ends = [placed(at, zone) for at in (begin, begin + timedelta(days=1))]
    except (RejectError, OverflowError):  # a midnight that the clock skipped; the last day of all
        return None
    is_even = ends[1].at - ends[0].at == _DAY_MS
    return ends[0].at if is_even and not any(end.is_ambiguous for end in ends) else None


@lru_cache(maxsize=_DAY_MS // 1000)
def _clock_ms(clock: str) -> int:
    """Milliseconds since midnight of `HH:MM` or `HH:MM:SS`. Raises RejectError."""
    hour, minute, second = int(clock[:2]), int(clock[3:5]), int(clock[6:] or 0)
    if hour > _LAST_HOUR or max(minute, second) > _LAST_MINUTE:
        raise RejectError(f"'{clock}' is no time of a day")
    return ((hour * 60 + minute) * 60 + second) * 1000


def _thousandths(fraction: str | None) -> int:
    return int((fraction or "")[:3].ljust(3, "0"))


def _offset_ms(offset: str) -> int:
    if offset in ("Z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    size = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000
    return -size if offset.startswith("-") else size
