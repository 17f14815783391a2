"""The moment of a computation, as users write it: epoch milliseconds or RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from pipelines.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = 10**11
_BEGIN_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
_END_MS = 253_402_300_800_000  # the year 10000
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def now_ms() -> int:
    """The present moment in epoch milliseconds."""
    return (datetime.now(UTC) - EPOCH) // timedelta(milliseconds=1)


def moment_ms(text: str) -> int:
    """Epoch milliseconds of `text`: whole milliseconds, or RFC 3339 with a zone.

    >>> moment_ms("1764576000000"), moment_ms("2025-12-01T09:00:00+01:00")
    (1764576000000, 1764576000000)
    """
    if _WHOLE.fullmatch(text):
        return _from_number(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"'{text}' is no moment: give epoch milliseconds (1764576000000) or RFC 3339 with a"
            " zone (2025-12-01T08:00:00Z)"
        ) from None
    if moment.tzinfo is None:
        whole = text if ":" in text else f"{text}T00:00:00"
        raise UsageError(f"'{text}' has no zone: write {whole}Z for UTC")
    return _in_range(text, (moment - EPOCH) // timedelta(milliseconds=1))


def _from_number(text: str) -> int:
    if int(text) < _FIRST_MS:
        raise UsageError(f"'{text}' would be seconds: give milliseconds ({text}000)")
    return _in_range(text, int(text))


def _in_range(text: str, moment: int) -> int:
    if not _BEGIN_MS <= moment < _END_MS:
        raise UsageError(f"'{text}' lies outside the years 1 to 9999")
    return moment


def rfc3339(moment: int) -> str:
    """Epoch milliseconds as RFC 3339, which `moment_ms` reads whatever the year.

    >>> rfc3339(0), moment_ms(rfc3339(0))
    ('1970-01-01T00:00:00.000+00:00', 0)
    """
    return (EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")


def day(text: str) -> date:
    """A UTC day written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is no day: write YYYY-MM-DD") from None
