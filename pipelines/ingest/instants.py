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
_MS = timedelta(milliseconds=1)
_1971_MS = 31_536_000_000
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


@lru_cache(maxsize=65_536)
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
    if not is_said(text):
        return None
    text = text.strip()
    number = _NUMBER.fullmatch(text)
    found = _epoch(*number.groups()) if number else _iso(text, zone)
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


def _iso(text: str, zone: ZoneInfo | None) -> Instant | None:
    match = _ISO.fullmatch(text)
    if match is None:
        raise RejectError(
            f"'{text[:_SHOWN]}' is no time: expected 2025-03-08T18:11:02, with or without an "
            "offset, or epoch seconds (for sacct: unset SLURM_TIME_FORMAT)"
        )
    day, clock, fraction, offset = match.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:
        raise RejectError(f"'{text[:_SHOWN]}' is no time: there is no such day or hour") from None
    part = _thousandths(fraction)
    if offset:
        since = local.replace(tzinfo=UTC) - _EPOCH
        return Instant(since // _MS - _offset_ms(offset) + part)
    if local.year <= _EPOCH.year:
        return None
    here = placed(local, zone)
    if not here.is_ambiguous:
        return Instant(here.at + part)
    again = (local.replace(tzinfo=zone, fold=1) - _EPOCH) // _MS
    return Instant(here.at + part, again + part, tuple(here.attrs.items()))


def _thousandths(fraction: str | None) -> int:
    return int((fraction or "")[:3].ljust(3, "0"))


def _offset_ms(offset: str) -> int:
    if offset in ("Z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    size = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000
    return -size if offset.startswith("-") else size
