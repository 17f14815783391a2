"""One event as one line of JSON: what was told is made to fit the format, or refused."""

from __future__ import annotations

import json
from operator import index
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_MS, _END_MS = 10**11, 253_402_300_800_000  # integers below are seconds; then the year 10000
_MOST = 2**63 - 1
_MOST_GPUS = 1_000_000
_NEEDED = ("step", "phase")
_LONGEST_ATTR = 4_000
_LONGEST_LINE = 1 << 20


class RefusedError(ValueError):
    """What was told cannot be a line of the format; the message says why."""


def encoded(fields: Mapping[str, Any], attrs: Mapping[str, Any]) -> bytes:
    """The line with its newline, at most 1 MiB; what is None is left out, but for a needed field.

    Raises RefusedError.
    """
    told = {name: v for name, v in fields.items() if v is not None or name in _NEEDED}
    line = {name: _FITTED[name](name, v) for name, v in told.items()}
    kept = {name: _attr(v) for name, v in attrs.items() if v is not None}
    if kept:
        line["attrs"] = kept
    # Lone surrogates are in no UTF-8: each becomes a question mark.
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if len(text) >= _LONGEST_LINE:
        raise RefusedError(f"the line has {len(text)} bytes: at most {_LONGEST_LINE} are written")
    return text + b"\n"


def described(error: BaseException) -> str:
    """An error in words; one whose text raises still has a name."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  it may raise whatever it likes
        text = ""
    return text if isinstance(error, RefusedError) else f"{type(error).__name__}: {text}"


def _text(_: str, value: object) -> str:
    return str(value)


def _flag(_: str, value: object) -> bool:
    return bool(value)


def _between(low: int, high: int) -> Callable[[str, Any], int]:
    def fitted(name: str, value: Any) -> int:
        try:
            count = int(index(value))  # index: numpy's integers too, no fraction is cut off
        except TypeError:
            raise RefusedError(f"{name} is {value!r:.80}: give an integer") from None
        if not low <= count <= high:
            raise RefusedError(f"{name} is out of range: {low} to {high} is written")
        return count

    return fitted


_FITTED: dict[str, Callable[[str, Any], Any]] = {
    "ts": _between(_FIRST_MS, _END_MS - 1),
    "job_id": _text,
    "event": _text,
    "cluster": _text,
    "attempt": _between(0, _MOST),
    "rank": _between(0, _MOST),
    "host": _text,
    "step": _between(0, _MOST),
    "samples": _between(0, _MOST),
    "phase": _text,
    "span_id": _text,
    "blocking": _flag,
    "gpus": _between(0, _MOST_GPUS),
    "held": _flag,
    "outcome": _text,
    "cause": _text,
    "model": _text,
    "team": _text,
    "priority": _text,
}


def _attr(value: Any) -> str:
    """A value as `attrs` keeps it, a string: numbers and flags as JSON writes them."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (bool, int, float)):
        text = json.dumps(value)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_ATTR else f"{text[:_LONGEST_ATTR]}…"
