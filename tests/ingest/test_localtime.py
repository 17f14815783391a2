"""Local times in their zone, over a summer and its ends; dates without a year."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.instants import instant
from pipelines.ingest.localtime import placed, with_year
from pipelines.ingest.records import RejectError

OSLO = ZoneInfo("Europe/Oslo")
local = dt.datetime.fromisoformat
JANUARY = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


ZONES = ["Europe/Oslo", "America/Santiago", "Asia/Beirut", "Australia/Lord_Howe", "Pacific/Apia"]


@given(st.datetimes(dt.datetime(2010, 1, 1), dt.datetime(2030, 1, 1)), st.sampled_from(ZONES))  # noqa: DTZ001
def test_an_instant_of_text_is_where_the_zone_places_it(time, zone):
    """Days in which the clock stands still are summed up without asking the zone each time."""
    time = time.replace(microsecond=0)
    try:
        expected = placed(time, ZoneInfo(zone)).at
    except RejectError:
        with pytest.raises(RejectError, match="does not exist"):
            instant(time.isoformat(), ZoneInfo(zone))
        return
    found = instant(time.isoformat(), ZoneInfo(zone))
    assert found is not None
    assert found.at == expected


@given(st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2035, 1, 1)))  # noqa: DTZ001
def test_a_time_is_shown_by_the_clock_at_its_instant_or_does_not_exist(time):
    try:
        at, is_ambiguous = placed(time, OSLO)
    except RejectError:
        assert time.month == 3  # the hour that summer time skips
        return
    shown = dt.datetime.fromtimestamp(at / 1000, OSLO).replace(tzinfo=None)
    assert abs(shown - time) < dt.timedelta(milliseconds=1)
    later = dt.datetime.fromtimestamp(at / 1000 + 3600, OSLO).replace(tzinfo=None)
    assert is_ambiguous == (abs(later - time) < dt.timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("time", "zone", "reason"),
    [
        ("2026-03-29T02:30:00", OSLO, "the time 2026-03-29 02:30:00 does not exist in Europe/Oslo"),
        ("2026-03-01T08:00:00", None, "the time 2026-03-01 08:00:00 names no zone: declare `zone:` for this file under `sources:`"),
        ("0001-01-01T00:00:00", ZoneInfo("Asia/Tokyo"), "the time 0001-01-01 00:00:00 lies outside the years 1 to 9999"),
    ],
)  # fmt: skip
def test_what_is_no_instant_says_why(time, zone, reason):
    with pytest.raises(RejectError) as error:
        placed(local(time), zone)
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("month", "day", "near", "year"),
    [
        (12, 30, None, 2025),  # before the file's last change in January
        (1, 3, None, 2026),  # a zone may be a day ahead
        (2, 29, None, 2024),
        (12, 31, "2024-01-01", 2023),
        (1, 1, "2024-12-31", 2025),
    ],
)
def test_a_date_without_a_year_is_near_what_else_is_known(month, day, near, year):
    found = with_year(month, day, near=local(near) if near else None, by=JANUARY)
    assert found == dt.datetime(year, month, day)  # noqa: DTZ001


def test_no_year_follows_from_a_file_without_a_time():
    assert with_year(2, 13, near=None, by=dt.datetime.max.replace(tzinfo=dt.UTC)) is None
