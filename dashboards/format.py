"""Numbers as words for people: GPU-hours, shares, durations, money, instants.

`assets/format.js` says the same for what the browser writes; one test holds both to one list.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

UNKNOWN = "—"
_HOUR_MS = 3_600_000


def gpu_hours(gpu_ms: float | None) -> str:
    """GPU milliseconds as GPU-hours, without the unit.

    >>> gpu_hours(44_446_080_000), gpu_hours(36_000_000), gpu_hours(900_000), gpu_hours(1)
    ('12,346', '10.0', '0.25', '<0.01')
    """
    if gpu_ms is None:
        return UNKNOWN
    hours = gpu_ms / _HOUR_MS
    if hours == 0:
        return "0"
    if abs(hours) < 0.005:  # noqa: PLR2004 - half of the last digit shown
        return "<0.01"
    return f"{hours:,.{_digits(hours)}f}"


def shared(parts: Sequence[float], whole: int) -> list[int]:
    """Each part in whole units, so that together they are `whole` of them (largest remainders).

    >>> shared([1.4, 1.4, 0.2], 3)
    [2, 1, 0]
    """
    units = [floor(part) for part in parts]
    by_rest = sorted(range(len(parts)), key=lambda i: (units[i] - parts[i], i))
    for i in by_rest[: whole - sum(units)]:
        units[i] += 1
    return units


@dataclass(frozen=True, slots=True)
class Balance:
    """Hours, without the unit, that add up as they are shown."""

    held: str
    effective: str
    lost: str
    losses: list[str]


def balance(effective_ms: int, losses_ms: Sequence[int]) -> Balance:
    """Hours that are read together: effective and lost are what was held, the losses what was lost.

    What was held and what was lost are rounded as ever; the other figures give way to them.

    >>> balance(4_500_000_000, [1_100_000_000, 1_100_000_000])
    Balance(held='1,861', effective='1,250', lost='611', losses=['306', '305'])
    """
    lost = sum(losses_ms)
    held = effective_ms + lost
    digits = _digits(held / _HOUR_MS)
    unit = _HOUR_MS / 10**digits

    def say(units: int, ms: int) -> str:
        return f"{'' if units else '<'}{(units or 1) / 10**digits:,.{digits}f}" if ms else "0"

    held_units, lost_units = _half_up(held / unit), _half_up(lost / unit)
    parts = shared([ms / unit for ms in losses_ms], lost_units)
    return Balance(
        held=say(held_units, held),
        effective=say(held_units - lost_units, effective_ms),
        lost=say(lost_units, lost),
        losses=[say(units, ms) for units, ms in zip(parts, losses_ms, strict=True)],
    )


def loss_shares(effective: int, losses: Sequence[int]) -> list[str]:
    """The same of shares: losses are what the effective one, as `percent` has it, leaves of 100 %.

    >>> loss_shares(660, [170, 170])
    ['17.0%', '17.0%']
    """
    held = effective + sum(losses)
    if not held:
        return [UNKNOWN for _ in losses]
    left = 1000 - _half_up(1000 * effective / held)
    parts = shared([1000 * loss / held for loss in losses], left)
    return [
        "0%" if not loss else percent(units / 1000) if units else "<0.1%"
        for units, loss in zip(parts, losses, strict=True)
    ]


def _digits(value: float) -> int:
    """Decimals that keep about three significant digits."""
    for digits, least in ((0, 99.95), (1, 0.995)):
        if abs(value) >= least:
            return digits
    return 2


def percent(ratio: float | None) -> str:
    """A ratio as a share. All and nothing are written only where they are meant.

    >>> percent(0.8132), percent(0.9999), percent(0.0001), percent(1), percent(None)
    ('81.3%', '>99.9%', '<0.1%', '100%', '—')
    """
    if ratio is None:
        return UNKNOWN
    if ratio in (0, 1):
        return f"{ratio:.0%}"
    if 0 < ratio < 0.0005:  # noqa: PLR2004 - half of the last digit shown
        return "<0.1%"
    if 0.9995 <= ratio < 1:  # noqa: PLR2004
        return ">99.9%"
    return f"{ratio:.1%}"


def bounded(ratio: float | None, untold: float, sign: str = "≥ ") -> str:
    """A share that is a lower bound where some of the whole is `untold`, and says so.

    >>> bounded(0.382, 0), bounded(0.382, 5), bounded(0.0001, 5, "at least "), bounded(None, 5)
    ('38.2%', '≥ 38.2%', 'at least 0%', '—')
    """
    if ratio is None or not untold:
        return percent(ratio)
    return sign + percent(ratio).replace("<0.1", "0").removeprefix(">")


def duration(ms: float | None) -> str:
    """Milliseconds in the two largest units that matter.

    >>> duration(850), duration(12_340), duration(245_000), duration(11_520_000), duration(None)
    ('850 ms', '12.3 s', '4 m 05 s', '3 h 12 m', '—')
    """
    if ms is None:
        return UNKNOWN
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1000:  # noqa: PLR2004
        return f"{ms:.0f} ms"
    if ms < 59_950:  # noqa: PLR2004 - what rounds to 60.0 s is a minute
        return f"{ms / 1000:.1f} s"
    for unit, small, size, limit in (("m", "s", 1000, 60), ("h", "m", 60_000, 24)):
        whole, rest = divmod(_half_up(ms / size), 60)
        if whole < limit:
            return f"{whole} {unit} {rest:02d} {small}"
    whole, rest = divmod(_half_up(ms / _HOUR_MS), 24)
    return f"{whole:,} d {rest:02d} h"


def _half_up(value: float) -> int:
    return int(value + 0.5)


def amount(value: float | None) -> str:
    """An amount of money without its currency.

    >>> amount(12_345.6), amount(9.5), amount(None)
    ('12,346', '9.50', '—')
    """
    if value is None:
        return UNKNOWN
    digits = 0 if abs(value) >= 99.995 else 2  # noqa: PLR2004 - three significant digits or more
    return f"{value:,.{digits}f}"


def money(value: float, currency: str) -> str:
    """An amount with its currency.

    >>> money(12_345.6, "USD")
    'USD 12,346'
    """
    return f"{currency} {amount(value)}"


def count(number: float | None) -> str:
    """A whole number.

    >>> count(12345)
    '12,345'
    """
    return UNKNOWN if number is None else f"{number:,.0f}"


def instant(moment: datetime | None) -> str:
    """A UTC time to the minute.

    >>> from datetime import UTC, datetime
    >>> instant(datetime(2026, 11, 5, 7, 3, tzinfo=UTC))
    '2026-11-05 07:03 UTC'
    """
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def plural(number: int, word: str) -> str:
    """A count with its noun.

    >>> plural(1, "job"), plural(2_000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
