"""Local times that name no zone, placed in the declared one; and dates that name no year."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pipelines.ingest.records import RejectError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_SLACK = timedelta(days=1)  # zones differ by less, and a file is closed after its last line
_LAST_YEAR = 9999


class Placed(NamedTuple):
    """An instant in epoch milliseconds. `is_ambiguous`: the clock showed that time twice."""

    at: int
    is_ambiguous: bool = False

    @property
    def attrs(self) -> dict[str, str]:
        """What an event says of its time: that the first of two was taken."""
        return {"local_time": "ambiguous, the first"} if self.is_ambiguous else {}


def placed(local: datetime, zone: ZoneInfo | None) -> Placed:
    """A time on the wall of `zone`; of a time shown twice (end of daylight saving) the first.

    Fractions of a millisecond are cut off. Raises RejectError where no zone is declared, and for
    a time that the clock skipped.

    >>> placed(datetime(2025, 10, 26, 2, 30), ZoneInfo("Europe/Oslo"))
    Placed(at=1761438600000, is_ambiguous=True)
    """
    if zone is None:
        raise RejectError(
            f"the time {local:%Y-%m-%d %H:%M:%S} names no zone: declare `zone:` for this file "
            "under `sources:`"
        )
    first, second = (local.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    try:
        instant = first.astimezone(UTC)
    except OverflowError:
        raise RejectError(f"the time {local} lies outside the years 1 to 9999") from None
    if instant.astimezone(zone).replace(tzinfo=None) != local:
        raise RejectError(f"the time {local:%Y-%m-%d %H:%M:%S} does not exist in {zone.key}")
    return Placed((instant - _EPOCH) // _MS, first.utcoffset() != second.utcoffset())


def with_year(month: int, day: int, *, near: datetime | None, by: datetime) -> datetime | None:
    """Midnight of a date without a year; None where nothing tells the year.

    The year nearest to `near`, a time that the file names elsewhere; without one, the latest in
    which the date is not later than `by`, the file's last change. Both may have a zone.

    >>> with_year(12, 30, near=None, by=datetime(2026, 1, 2, tzinfo=UTC))
    datetime.datetime(2025, 12, 30, 0, 0)
    """
    about = (near or by).replace(tzinfo=None)
    if about.year >= _LAST_YEAR:
        return None
    dates = []
    for year in range(about.year + 1, max(about.year - 9, 1), -1):
        with suppress(ValueError):  # 29 February
            dates.append(datetime(year, month, day))  # noqa: DTZ001 - on a clock without a zone
    if near is not None:
        return min(dates, key=lambda date: abs(date - about), default=None)
    return next((date for date in dates if date <= about + _SLACK), None)
