"""The lifecycle format (lifecycle-events.md): one JSON object per line, one event per object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Raw

from pipelines.errors import nearest
from pipelines.ingest.records import (
    Event,
    Numbered,
    Reading,
    Reject,
    RejectError,
    Said,
)
from pipelines.ingest.times import shown, timestamp_ms
from pipelines.taxonomy import Cause, Outcome, Taxonomy

SOURCE = "lifecycle"

KINDS: dict[str, str | None] = {
    "job_submitted": None,
    "attempt_started": None,
    "phase_begin": "phase",
    "phase_end": "phase",
    "train_begin": "step",
    "step": "step",
    "checkpoint_durable": "step",
    "interruption": None,
    "attempt_ended": None,
    "job_finished": None,
}
"""Every kind of event, with the field it needs besides ts, job_id and event."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_MOST_GPUS = 1_000_000  # with more, GPU time over years would not fit in 64 bits
_Gpus = Annotated[int, msgspec.Meta(ge=0, le=_MOST_GPUS)]
_TIME = (Raw, "a time")
_STRING = (str, "a string")
_COUNT = (_Count, "an integer from 0 to 2^63 - 1")
_FLAG = (bool, "true or false")
_FIELDS: dict[str, tuple[Any, str]] = {
    "ts": _TIME,
    "job_id": _STRING,
    "event": _STRING,
    "cluster": _STRING,
    "attempt": _COUNT,
    "rank": _COUNT,
    "host": _STRING,
    "step": _COUNT,
    "samples": _COUNT,
    "phase": _STRING,
    "span_id": _STRING,
    "blocking": _FLAG,
    "gpus": (_Gpus, "an integer from 0 to 1 000 000"),
    "held": _FLAG,
    "outcome": _STRING,
    "cause": _STRING,
    "model": _STRING,
    "team": _STRING,
    "priority": _STRING,
    "attrs": (dict[str, str], "an object"),
}
_NEEDED = ("ts", "job_id", "event")
_LISTED = {"outcome": frozenset(map(str, Outcome)), "cause": frozenset(map(str, Cause))}


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Lifecycle lines to events; blank lines are ignored."""
    tally, taxonomy = reading.tally, reading.taxonomy
    decode = _usual_decoder(taxonomy.phases)
    for number, text in lines:
        try:
            line = decode(text)
            event = number, timestamp_ms(bytes(line.ts)), line
            is_usual = _is_usual(line)
        except (msgspec.MsgspecError, RejectError, RecursionError):
            is_usual = False
        if not is_usual:
            if not text.strip():
                tally.ignored_count += 1
                continue
            try:
                event = number, *read_line(text, taxonomy)
            except RejectError as reason:
                yield tally.reject(number, reason, text)
                continue
        tally.event_line_count += 1
        yield event


@lru_cache(maxsize=8)
def _usual_decoder(phases: frozenset[str]) -> Callable[[bytes], Any]:
    """Decode and check in one pass a line that breaks no rule and has no unknown field or word.

    Whatever else a line may be, `read_line` decides: it is slower and knows all rules.
    """
    types = {name: type_ for name, (type_, _) in _FIELDS.items()}
    types["event"] = Literal[tuple(KINDS)]
    types["phase"] = Literal[tuple(sorted(phases))]
    types |= {name: Literal[tuple(sorted(words))] for name, words in _LISTED.items()}
    needed = [(name, types[name]) for name in _NEEDED]
    others = [(name, types[name] | None, None) for name in types if name not in _NEEDED]
    usual = msgspec.defstruct(
        "UsualLine", [*needed, *others], bases=(Said,), kw_only=True, gc=False,
        forbid_unknown_fields=True,
    )  # fmt: skip
    return msgspec.json.Decoder(usual).decode


def _is_usual(line: Any) -> bool:
    needed = KINDS[line.event]
    has_needed = needed is None or getattr(line, needed) is not None
    return has_needed and (line.phase is None or needed == "phase")


def read_line(text: bytes, taxonomy: Taxonomy) -> tuple[int, Said]:
    """One lifecycle line, by every rule: its time in epoch milliseconds and what it says.

    Raises RejectError with the reason.
    """
    fields = {name: raw for name, raw in _object(text).items() if raw != b"null"}
    values = {n: _value(n, raw) for n, raw in fields.items() if n in _FIELDS and n not in _APART}
    kind = _kind(fields, values)
    attrs = _attrs(fields, values)
    if KINDS[kind] == "phase":
        _check_phase(values["phase"], taxonomy)
    elif "phase" in values:
        _keep(attrs, "phase", values.pop("phase"))
    return timestamp_ms(fields["ts"]), Said(**values, attrs=attrs or None)


_APART = ("ts", "attrs")
_LONGEST_WORD = 80


def _object(text: bytes) -> dict[str, bytes]:
    try:
        members = _members(text)
    except msgspec.ValidationError as error:
        raise RejectError(f"one JSON object per line is expected: {error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RejectError(f"not JSON: {error}") from error
    except RecursionError:
        raise RejectError("not JSON: nested too deeply") from None
    return {name: bytes(raw) for name, raw in members.items()}


_members = msgspec.json.Decoder(dict[str, Raw]).decode


def _value(name: str, raw: bytes) -> Any:
    try:
        return _DECODE[name](raw)
    except (msgspec.MsgspecError, RecursionError):
        raise RejectError(f"{name} is {shown(raw)}: expected {_FIELDS[name][1]}") from None


_DECODE = {name: msgspec.json.Decoder(type_).decode for name, (type_, _) in _FIELDS.items()}
_DECODE["attrs"] = msgspec.json.Decoder(dict[str, Raw]).decode


def _kind(fields: dict[str, bytes], values: dict[str, Any]) -> str:
    """The kind of event, once all that it needs is there."""
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise RejectError(f"{' and '.join(missing)} missing: every event needs {_EVERY}")
    kind: str = values["event"]
    if kind not in KINDS:
        raise RejectError(f"unknown event {_unknown(kind, KINDS)}")
    needed = KINDS[kind]
    if needed and needed not in values:
        raise RejectError(f"{needed} missing: a {kind} event needs it")
    return kind


_EVERY = ", ".join(_NEEDED)


def _check_phase(phase: str, taxonomy: Taxonomy) -> None:
    if phase in taxonomy.phases:
        return
    if phase in taxonomy.components:
        raise RejectError(f"phase '{phase}' is given by the accounting only: a log cannot claim it")
    raise RejectError(f"unknown phase {_unknown(phase, taxonomy.phases)}")


def _unknown(word: str, known: Iterable[str]) -> str:
    """The word, no more of it than a message needs, and the known one nearest to it."""
    short = word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
    return f"'{short}': {nearest(short, known)}"


def _attrs(fields: dict[str, bytes], values: dict[str, Any]) -> dict[str, str]:
    """The line's attrs, its unknown fields, and the words that mean `unknown`, as strings."""
    given = _value("attrs", fields["attrs"]) if "attrs" in fields else {}
    texts = {name: bytes(raw) for name, raw in given.items()}
    attrs = {name: as_text(raw) for name, raw in texts.items() if raw != b"null"}
    for name, raw in fields.items():
        if name not in _FIELDS:
            _keep(attrs, name, as_text(raw))
    for name, words in _LISTED.items():
        if name in values and values[name] not in words:
            _keep(attrs, name, values[name])
            values[name] = "unknown"
    return attrs


def _keep(attrs: dict[str, str], name: str, text: str) -> None:
    while name in attrs:  # attrs has one of that name already: nothing is overwritten
        name = f"line.{name}"
    attrs[name] = text


def as_text(raw: bytes) -> str:
    """A JSON value as `attrs` keeps it: a string as it is, everything else as compact JSON.

    Keys of nested objects are sorted and numbers lose their trailing zeros, so that equal values
    are equal strings. Raises RejectError.

    >>> as_text(b'"warm"'), as_text(b"1.50"), as_text(b'{"b": 1, "a": [true]}')
    ('warm', '1.5', '{"a":[true],"b":1}')
    """
    try:
        if raw.startswith(b'"'):
            return _string(raw)
        if raw.startswith((b"{", b"[")):
            return _sorted.encode(msgspec.json.decode(raw)).decode()
        return _plain_number(raw.decode())
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RejectError(f"the value {shown(raw)} cannot be kept: {error}") from error


def _plain_number(text: str) -> str:
    """The shortest way to write a number, where no digit is lost; other text as it is."""
    if text.isalpha() or not {".", "e", "E"} & set(text):
        return text
    short = repr(float(text))
    with suppress(InvalidOperation):  # an exponent beyond all bounds stays as written
        if Decimal(short) == Decimal(text):
            return short
    return text


_string = msgspec.json.Decoder(str).decode
_sorted = msgspec.json.Encoder(order="sorted")
