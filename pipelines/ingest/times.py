"""Times as logs write them, to whole epoch milliseconds: rounded in decimal, half to even."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache

from pipelines.ingest.records import RejectError

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
END_MS = 253_402_300_800_000  # 10000-01-01T00:00:00Z
LEAST_INTEGER_MS = 100_000_000_000  # below, an integer would be seconds (lifecycle-events.md)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USUAL_DIGITS = 13  # epoch milliseconds from 2001 to 2286
_LONGEST_INTEGER = 20
_LARGEST_EXPONENT = 12
_EXACT = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MILLISECOND = Decimal("0.001")
_RFC3339 = re.compile(
    rb'"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)"', re.ASCII
)
_LAST_SECOND = 59
_LAST_HOUR = 23
_LAST_MINUTE = 59


def timestamp_ms(raw: bytes) -> int:
    """A lifecycle `ts`, given as JSON text, in epoch milliseconds.

    An RFC 3339 string with a zone; an integer of epoch milliseconds, from 10^11 on; or a number
    written with a point or an exponent, which is epoch seconds. Raises RejectError.

    >>> timestamp_ms(b"1764576045000"), timestamp_ms(b"1764576045.0015")
    (1764576045000, 1764576045002)
    >>> timestamp_ms(b'"2025-12-01T09:00:45+01:00"')
    1764576045000
    """
    if len(raw) == _USUAL_DIGITS and raw.isdigit():
        return int(raw)
    if raw.startswith(b'"'):
        return _checked(_text_ms(raw), raw)
    if _is_number(raw):
        return _checked(_number_ms(raw), raw)
    raise RejectError(
        f"ts is {shown(raw)}: expected an RFC 3339 string with a zone, "
        "integer epoch milliseconds or float epoch seconds"
    )


def seconds_ms(raw: bytes, plus: bytes = b"0") -> int:
    """A number of epoch seconds (plus a duration in seconds), given as JSON text, in ms.

    Raises RejectError.

    >>> seconds_ms(b"1764000195"), seconds_ms(b"1764000195.0", plus=b"1.5")
    (1764000195000, 1764000196500)
    """
    for text in (raw, plus):
        if not _is_number(text):
            raise RejectError(f"a time is {shown(text)}: expected epoch seconds as a number")
    total = _EXACT.add(_decimal(raw), _decimal(plus))
    return _checked(_milliseconds(total), raw)


def shown(raw: bytes, characters: int = 40) -> str:
    """JSON text as a message quotes it: the head of it."""
    text = raw.decode(errors="replace")
    return text if len(text) <= characters else f"{text[:characters]}…"


def _is_number(raw: bytes) -> bool:
    return raw[:1].isdigit() or raw[:1] == b"-"


def _checked(milliseconds: int, raw: bytes) -> int:
    if FIRST_MS <= milliseconds < END_MS:
        return milliseconds
    raise RejectError(f"the time {shown(raw)} lies outside the years 1 to 9999")


def _number_ms(raw: bytes) -> int:
    whole, point, fraction = raw.partition(b".")
    is_plain = point and whole.isdigit() and fraction.isdigit()
    if is_plain and len(whole) <= _LARGEST_EXPONENT:
        return int(whole) * 1000 + _fraction_ms(fraction)
    if point or b"e" in raw or b"E" in raw:
        return _milliseconds(_decimal(raw))
    milliseconds = int(raw) if len(raw) <= _LONGEST_INTEGER else END_MS
    if milliseconds < LEAST_INTEGER_MS:
        raise RejectError(
            f"ts is the integer {shown(raw)}, below 10^11: integers are epoch milliseconds; "
            "write seconds with a point, as 1764576045.0"
        )
    return milliseconds


def _decimal(raw: bytes) -> Decimal:
    try:
        number = Decimal(raw.decode())
    except InvalidOperation:
        raise RejectError(
            f"the number {shown(raw)} is no time: its exponent is out of range"
        ) from None
    if number and number.adjusted() > _LARGEST_EXPONENT:
        raise RejectError(f"the time {shown(raw)} lies outside the years 1 to 9999")
    return number


def _milliseconds(seconds: Decimal) -> int:
    if not seconds:
        return 0
    rounded = seconds.quantize(_MILLISECOND, ROUND_HALF_EVEN, _EXACT)
    return int(rounded.scaleb(3, _EXACT))


def _text_ms(raw: bytes) -> int:
    match = _RFC3339.fullmatch(raw)
    if match is None:
        raise RejectError(
            f"ts is {shown(raw)}: expected RFC 3339 with a zone, as 2025-12-01T08:00:00.123Z"
        )
    minute, second, fraction, zone = match.groups()
    if int(second) > _LAST_SECOND:
        raise RejectError(f"ts is {shown(raw)}: second {second.decode()} does not exist in UTC ms")
    return _minute_ms(minute, zone) + int(second) * 1000 + _fraction_ms(fraction or b"")


@lru_cache(maxsize=4096)
def _minute_ms(minute: bytes, zone: bytes) -> int:
    text = minute.decode()
    try:
        local = datetime.strptime(f"{text[:10]} {text[11:]}", "%Y-%m-%d %H:%M")  # noqa: DTZ007
    except ValueError:
        raise RejectError(f"ts has no such day or hour: {text} (years 1 to 9999)") from None
    since = local.replace(tzinfo=UTC) - _EPOCH
    return since // timedelta(milliseconds=1) - _offset_ms(zone)


def _offset_ms(zone: bytes) -> int:
    if zone in b"Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > _LAST_HOUR or minutes > _LAST_MINUTE:
        raise RejectError(f"ts has no such zone: {zone.decode()}")
    offset = (hours * 60 + minutes) * 60_000
    return -offset if zone.startswith(b"-") else offset


def _fraction_ms(digits: bytes) -> int:
    kept = int(digits[:3].ljust(3, b"0"))
    rest = digits[3:]
    if not rest:
        return kept
    half = b"5".ljust(len(rest), b"0")
    is_up = rest > half or (rest == half and kept % 2 == 1)
    return kept + is_up
