"""TorchElastic's own events (`torch.distributed.elastic.events`): a JSON object for each.

TorchElastic itself never fills in their `timestamp`: it is 0 unless a site's handler sets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from pipelines.ingest.lines import Lines
from pipelines.ingest.listener import Told
from pipelines.ingest.mllog import job_id
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.settings import Sources
from pipelines.ingest.times import END_MS, LEAST_INTEGER_MS
from pipelines.taxonomy import Cause, Outcome

SOURCE = "torchelastic"
MARK = '"torchelastic.worker.status.'

_ENDS = {"SUCCEEDED": Outcome.SUCCEEDED, "FAILED": Outcome.FAILED}
_AGENT, _WORKER = "AGENT", "WORKER"
NO_RUN_ID = ("none", "None", "")
"""What a rendezvous is called that nobody named."""
_LONGEST_MESSAGE = 200
_SECOND_DIGITS = 11
_LONGEST_SECONDS = 1e9


_Seconds = Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_SECONDS)]
_Rank = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Meta(msgspec.Struct):
    run_id: str | None = None
    global_rank: _Rank | None = None
    hostname: str | None = None
    state: str | None = None
    total_run_time: _Seconds | None = None
    raw_error: str | None = None
    agent_restarts: int | None = None
    duration_ms: _Seconds | None = None


class ElasticEvent(msgspec.Struct):
    """One event; times in epoch milliseconds, `total_run_time` in seconds."""

    name: str
    source: str = ""
    timestamp: float = 0
    metadata: _Meta = msgspec.field(default_factory=_Meta)

    @property
    def at(self) -> int | None:
        """Its time, or that of the failure that it quotes; None where neither is said."""
        if LEAST_INTEGER_MS <= self.timestamp < END_MS:
            return round(self.timestamp)
        return _failed_at(self.metadata.raw_error)

    @property
    def run_id(self) -> str | None:
        """The rendezvous' name, where somebody gave it one."""
        run_id = self.metadata.run_id
        return None if run_id in NO_RUN_ID else run_id


_decode = msgspec.json.Decoder(ElasticEvent).decode


def decode(text: str | bytes) -> ElasticEvent:
    """One event of JSON text. Raises RejectError."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectError(f"no TorchElastic event: {error}") from None


def told_of(event: ElasticEvent, at: int | None) -> list[Told]:
    """What an event tells: the end of an agent, a failed worker, a rendezvous; else life.

    `at` None is the time of the line that holds it.
    """
    meta = event.metadata
    state = meta.state or event.name.rpartition(".")[2]
    attrs = {"state": state}
    if meta.agent_restarts is not None:
        attrs["restart_count"] = str(meta.agent_restarts)
    who: dict[str, Any] = {"rank": meta.global_rank} if meta.global_rank is not None else {}
    who |= {"host": meta.hostname} if meta.hostname else {}
    if event.source == _AGENT and state in _ENDS:
        return [Told("attempt_ended", at, {**who, "outcome": _ENDS[state]}, attrs)]
    if event.source == _WORKER and state == "FAILED":
        attrs |= _message(meta.raw_error)
        return [Told("interruption", at, {**who, "cause": Cause.UNKNOWN}, attrs)]
    if state == "RENDEZVOUS" and meta.duration_ms is not None and at is not None:
        phase = {**who, "phase": "launcher_init", "span_id": "rendezvous"}
        begin = at - round(meta.duration_ms)
        return [Told("phase_begin", begin, phase, attrs), Told("phase_end", at, phase, attrs)]
    return [Told("alive", at, who, attrs)]


def _start(event: ElasticEvent, at: int) -> list[Told]:
    """An agent that ends says for how many whole seconds it ran."""
    meta = event.metadata
    ends = event.source == _AGENT and (meta.state or "") in _ENDS
    if not ends or meta.total_run_time is None:
        return []
    who = {"host": meta.hostname} if meta.hostname else {}
    attrs = {"started": "end less total_run_time"}
    return [Told("attempt_started", at - round(meta.total_run_time * 1000), who, attrs)]


def _error(raw_error: str | None) -> dict[str, Any]:
    """The `message` of a worker's error file."""
    try:
        found = msgspec.json.decode(raw_error or "null")
    except (msgspec.MsgspecError, RecursionError):
        return {}
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, dict) else {}


def _failed_at(raw_error: str | None) -> int | None:
    extra = _error(raw_error).get("extraInfo")
    seconds = str(extra.get("timestamp", "")) if isinstance(extra, dict) else ""
    is_time = seconds.isascii() and seconds.isdecimal() and len(seconds) <= _SECOND_DIGITS
    return int(seconds) * 1000 if is_time else None


def _message(raw_error: str | None) -> dict[str, str]:
    message = _error(raw_error).get("message")
    return {"message": message[:_LONGEST_MESSAGE]} if isinstance(message, str) else {}


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Event lines to events. An event without a time is a reject; blank lines are ignored."""
    tally = reading.tally
    for number, line in lines:
        if not line.strip():
            tally.ignored_count += 1
            continue
        try:
            event = decode(line)
            at = _time(event)
        except RejectError as reason:
            yield tally.reject(number, reason, line)
            continue
        own_id = event.run_id or job_id(reading.file.name)
        fields = {"torchelastic_run_id": event.run_id} if event.run_id else {}
        key = reading.key(own_id, fields)
        tally.event_line_count += 1
        for told in [*_start(event, at), *told_of(event, at)]:
            said = {"rank": key.rank, "attempt": key.attempt, "cluster": key.cluster} | told.fields
            when = at if told.at is None else told.at
            yield number, when, Said(job_id=key.job_id, event=told.event, attrs=told.attrs, **said)


def _time(event: ElasticEvent) -> int:
    if (at := event.at) is not None:
        return at
    raise RejectError(
        f"timestamp is {event.timestamp:g}, which is no time: TorchElastic sets none; let the "
        "handler of its events set it (epoch ms), or log them to a console with a clock"
    )


def _is_event(line: bytes, _: Sources) -> bool:
    return line.lstrip().startswith(b"{") and MARK.encode() in line


FORMAT = Format(SOURCE, Lines, parse, knows_line=_is_event)
