"""The moment of a computation, as users write it: epoch milliseconds or RFC 3339."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pipelines.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = 10**11


def now_ms() -> int:
    """The present moment in epoch milliseconds."""
    return (datetime.now(UTC) - EPOCH) // timedelta(milliseconds=1)


def moment_ms(text: str) -> int:
    """Epoch milliseconds of `text`: whole milliseconds, or RFC 3339 with a zone.

    >>> moment_ms("1764576000000"), moment_ms("2025-12-01T09:00:00+01:00")
    (1764576000000, 1764576000000)
    """
    if text.lstrip("-").isdigit():
        return _from_number(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"'{text}' is no moment: give epoch milliseconds (1764576000000) or RFC 3339 with a"
            " zone (2025-12-01T08:00:00Z)"
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"'{text}' has no zone: write {text}Z for UTC")
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _from_number(text: str) -> int:
    if int(text) < _FIRST_MS:
        raise UsageError(f"'{text}' would be seconds: give milliseconds ({text}000)")
    return int(text)


def day(text: str) -> date:
    """A UTC day written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is no day: write YYYY-MM-DD") from None
