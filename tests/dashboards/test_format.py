"""Numbers as words. The browser says the same words: test_browser.py runs this list there too."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dashboards import format as words

HOUR = 3_600_000

# (effective, losses) in ms of hours that are read together
BALANCES = [
    (0, [0, 0]),
    (10 * HOUR, []),
    (1_250 * HOUR, [int(305.5 * HOUR), int(305.5 * HOUR)]),
    (529_664 * HOUR + 40_000, [int(n * HOUR) for n in (16_385.4, 25_360.4, 106_755.4, 16_668.4)]),
    (2 * HOUR, [1, 0, HOUR]),
    (0, [HOUR // 3] * 3),
    (999_999_999, [7, 7, 7]),
]

CASES = [
    # (function, its name in the browser, value, words)
    ("gpu_hours", "gpuHours", None, "—"),
    ("gpu_hours", "gpuHours", 0, "0"),
    ("gpu_hours", "gpuHours", 1, "<0.01"),
    ("gpu_hours", "gpuHours", 0.25 * HOUR, "0.25"),
    ("gpu_hours", "gpuHours", 0.994 * HOUR, "0.99"),
    ("gpu_hours", "gpuHours", 0.996 * HOUR, "1.0"),
    ("gpu_hours", "gpuHours", 12.34 * HOUR, "12.3"),
    ("gpu_hours", "gpuHours", 99.96 * HOUR, "100"),
    ("gpu_hours", "gpuHours", 12_345.6 * HOUR, "12,346"),
    ("percent", "percent", None, "—"),
    ("percent", "percent", 0, "0%"),
    ("percent", "percent", 1, "100%"),
    ("percent", "percent", 0.0004, "<0.1%"),
    ("percent", "percent", 0.8132, "81.3%"),
    ("percent", "percent", 0.99949, "99.9%"),
    ("percent", "percent", 0.9996, ">99.9%"),
    ("duration", "duration", None, "—"),
    ("duration", "duration", 0, "0 ms"),
    ("duration", "duration", 850, "850 ms"),
    ("duration", "duration", 12_340, "12.3 s"),
    ("duration", "duration", 59_949, "59.9 s"),
    ("duration", "duration", 59_960, "1 m 00 s"),
    ("duration", "duration", 245_000, "4 m 05 s"),
    ("duration", "duration", HOUR - 400, "1 h 00 m"),
    ("duration", "duration", 3.2 * HOUR, "3 h 12 m"),
    ("duration", "duration", 24 * HOUR - 1, "1 d 00 h"),
    ("duration", "duration", 53 * HOUR, "2 d 05 h"),
    ("duration", "duration", -5_000, "-5.0 s"),
    ("amount", "amount", None, "—"),
    ("amount", "amount", 9.5, "9.50"),
    ("amount", "amount", 12_345.6, "12,346"),
    ("count", "count", None, "—"),
    ("count", "count", 12_345, "12,345"),
]


@pytest.mark.parametrize(("function", "_", "value", "expected"), CASES)
def test_words(function, _, value, expected):
    assert getattr(words, function)(value) == expected


def test_money_and_plural_and_instant():
    assert words.money(12_345.6, "EUR") == "EUR 12,346"
    assert [words.plural(n, "job") for n in (0, 1, 2_000)] == ["0 jobs", "1 job", "2,000 jobs"]
    assert words.instant(datetime(2026, 11, 5, 7, 3, tzinfo=UTC)) == "2026-11-05 07:03 UTC"
    assert words.instant(None) == "—"


@pytest.mark.parametrize(("effective", "losses"), BALANCES)
def test_parts_add_up_as_they_are_shown(effective, losses):
    def number(text):
        return 0 if text.startswith("<") else round(100 * float(text.replace(",", "").rstrip("%")))

    told = words.balance(effective, losses)
    assert number(told.held) == number(told.effective) + number(told.lost)
    assert number(told.lost) == sum(map(number, told.losses))
    if effective + sum(losses):
        shares = [words.percent(effective / (effective + sum(losses)))]
        shares += words.loss_shares(effective, losses)
        assert shares[0] == ">99.9%" or sum(map(number, shares)) == 100_00
