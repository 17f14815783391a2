from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.records import RejectError
from pipelines.ingest.times import END_MS, FIRST_MS, seconds_ms, timestamp_ms

NOON = 1764590400000  # 2025-12-01T12:00:00Z


@pytest.mark.parametrize(
    ("raw", "ms"),
    [
        ("1764590400000", NOON),
        ("100000000000", 100000000000),
        ("253402300799999", END_MS - 1),
        ("1764590400.0", NOON),
        ("1764590400.0005", NOON),  # a tie goes to the even millisecond
        ("1764590400.0015", NOON + 2),
        ("1764590400.00050000000000000000001", NOON + 1),  # no tie, as written in decimal
        ("1764590400.9995", NOON + 1000),
        ("1.7645904e9", NOON),
        ("1764590400E0", NOON),
        ("17645904000005e-4", NOON),
        ("1e9", 1_000_000_000_000),
        ("5.0", 5000),
        ("-0.0005", 0),
        ("-62135596800.0", FIRST_MS),
        ("0e999999", 0),
        ("1e-999", 0),
        ('"2025-12-01T12:00:00Z"', NOON),
        ('"2025-12-01t12:00:00.5z"', NOON + 500),
        ('"2025-12-01 13:00:00.0015+01:00"', NOON + 2),
        ('"2025-12-01T06:30:00.0025-05:30"', NOON + 2),
        ('"2025-12-01T12:00:00.123456789Z"', NOON + 123),
        ('"2025-12-01T12:00:59.9996Z"', NOON + 60_000),
        ('"0001-01-01T00:00:00Z"', FIRST_MS),
        ('"1969-12-31T23:59:59.9985Z"', -2),
    ],
)
def test_a_time_is_rounded_as_written(raw, ms):
    assert timestamp_ms(raw.encode()) == ms


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("1764590400", "below 10\\^11: integers are epoch milliseconds"),
        ("0", "below 10\\^11"),
        ("-1764590400000", "below 10\\^11"),
        ("253402300800000", "outside the years 1 to 9999"),
        ("9" * 5000, "outside the years 1 to 9999"),
        ("253402300799.9995", "outside the years 1 to 9999"),
        ("-62135596800.001", "outside the years 1 to 9999"),
        ("1e400", "outside the years 1 to 9999"),
        ("1e99999999999999999999", "exponent is out of range"),
        ("true", "expected an RFC 3339 string with a zone"),
        ("[1]", "expected an RFC 3339 string with a zone"),
        ('"2025-12-01T12:00:00"', "expected RFC 3339 with a zone"),
        ('"2025-12-01T12:00Z"', "expected RFC 3339 with a zone"),
        ('"2025-12-01T12:00:00,5Z"', "expected RFC 3339 with a zone"),
        ('"2025-12-01T12:00:00.Z"', "expected RFC 3339 with a zone"),
        ('"2025-12-01T12:00:00+0100"', "expected RFC 3339 with a zone"),
        ('"1764590400000"', "expected RFC 3339 with a zone"),
        ('"2025-12-01T12:00:60Z"', "second 60 does not exist"),
        ('"2025-12-01T24:00:00Z"', "no such day or hour"),
        ('"2025-02-29T12:00:00Z"', "no such day or hour"),
        ('"0000-01-01T00:00:00Z"', "no such day or hour"),
        ('"2025-12-01T12:00:00+24:00"', "no such zone"),
        ('"0001-01-01T00:00:00+00:01"', "outside the years 1 to 9999"),
        ('"9999-12-31T23:59:59.9995Z"', "outside the years 1 to 9999"),
    ],
)
def test_what_is_no_time_is_rejected_with_the_reason(raw, reason):
    with pytest.raises(RejectError, match=reason):
        timestamp_ms(raw.encode())


@given(st.integers(-62135596799, 253402300798), st.text("0123456789", min_size=1, max_size=15))
def test_float_seconds_round_like_decimal(seconds, fraction):
    raw = f"{seconds}.{fraction}"
    expected = (Decimal(raw) * 1000).to_integral_value(ROUND_HALF_EVEN)
    assert timestamp_ms(raw.encode()) == expected


@pytest.mark.parametrize(
    ("raw", "plus", "ms"),
    [
        ("1764000195", "0", 1764000195000),
        ("1764000195.2", "1.3", 1764000196500),
        ("1764000195.0004", "0.0004", 1764000195001),  # the sum is rounded, not its parts
        ("0", "0", 0),
    ],
)
def test_numbers_of_goodput_entries_are_seconds(raw, plus, ms):
    assert seconds_ms(raw.encode(), plus=plus.encode()) == ms


@pytest.mark.parametrize("raw", ['"1764000195"', "true", "null", "1e400", "1764000195000"])
def test_other_times_of_goodput_entries_are_rejected(raw):
    with pytest.raises(RejectError):
        seconds_ms(raw.encode())
