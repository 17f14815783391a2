"""NVIDIA Resiliency Extension: cycle lines of ft_launcher in a console log, and its cycle files.

A cycle is what follows a rendezvous: the workers start, run, and end. A restart in place begins the
next one, in the same allocation. What its agents say otherwise are TorchElastic's sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pipelines.ingest.documents import Documents
from pipelines.ingest.listener import Context, Line, Told
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.times import shown, timestamp_ms
from pipelines.taxonomy import RESTART_GAP, Cause

SOURCE = "nvrx"

_LAUNCHER_INIT, _HARDWARE_SETUP = "launcher_init", "hardware_setup"
_MARK = "Cycle: "
_CYCLE = re.compile(
    r"- Cycle: (\d+) Event: (\w+) Node: (\S+) Rank: (\S+) "
    r"Time: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC"
)
_NODE_PROCESS = re.compile(r"_\d+_\d+$")  # some nodes are named host_<pid>_<local rank>
_NOBODY = "None"
_MEETING, _CHECKED, _FAILURE = "rendezvous_started", "health_check_completed", "failure_detected"
# The launcher's word -> kind of event, phase, span: spans of one node are pairs.
_EDGES: dict[str, tuple[str, str, str]] = {
    _MEETING: ("phase_begin", _LAUNCHER_INIT, "rendezvous"),
    "rendezvous_completed": ("phase_end", _LAUNCHER_INIT, "rendezvous"),
    "node_excluded": ("phase_end", _LAUNCHER_INIT, "rendezvous"),
    "worker_start_started": ("phase_begin", _LAUNCHER_INIT, "worker start"),
    "worker_start_completed": ("phase_end", _LAUNCHER_INIT, "worker start"),
    _FAILURE: ("phase_begin", RESTART_GAP, "termination"),
    "worker_terminated": ("phase_end", RESTART_GAP, "termination"),
}


class Nvrx:
    """Listens to the cycle lines, which carry their own clock, in UTC."""

    source = SOURCE
    words = frozenset({_MARK})
    is_amid = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._met_at: dict[str, int] = {}  # when the last rendezvous of a node began

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What a cycle line tells; None for every other line."""
        if _MARK not in line.text or (found := _CYCLE.search(line.text)) is None:
            return None
        cycle, word, node, group_rank, time = found.groups()
        try:
            at = timestamp_ms(f'"{time}Z"'.encode())
        except RejectError:
            return None
        host = _NODE_PROCESS.sub("", node)
        who = {} if host == _NOBODY else {"host": host}
        attrs = {"cycle": cycle, "word": word}
        if group_rank.isdecimal():
            attrs["group_rank"] = group_rank
        return [
            Told(event, when, {**who, **fields}, dict(attrs))
            for event, when, fields in self._events(word, node, at)
        ]

    def _events(self, word: str, node: str, at: int) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Kind, instant and fields of what one word tells.

        The check of a node's health begins with its rendezvous, and is named when it is done.
        """
        if word == _MEETING:
            self._met_at[node] = at
        elif word == _FAILURE:
            yield "interruption", at, {"cause": Cause.UNKNOWN}
        elif word == _CHECKED and (begin := self._met_at.pop(node, None)) is not None:
            check = {"phase": _HARDWARE_SETUP, "span_id": "health check"}
            yield "phase_begin", begin, check
            yield "phase_end", at, check
        if word in _EDGES:
            event, phase, span = _EDGES[word]
            yield event, at, {"phase": phase, "span_id": span}
        else:
            yield "alive", at, {}

    def end(self) -> Sequence[Told]:
        """Nothing waits."""
        return []


class _Cycle(msgspec.Struct):
    """A cycle file (NVRxCycleInfo): protobuf's JSON, where a number may be a string."""

    cycle_number: int
    job_id: str = ""
    attempt_index: int = 0
    cycle_start_time: str = ""
    cycle_end_time: str = ""
    active_nodes: str = ""
    active_ranks: str = ""


_decode = msgspec.json.Decoder(_Cycle, strict=False).decode


def parse(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Cycle files to events: a cycle after the first began with a restart in place."""
    tally = reading.tally
    for number, text in documents:
        try:
            told = _told(_decode(text), reading)
        except (msgspec.MsgspecError, UnicodeDecodeError, RejectError, RecursionError) as error:
            reason = error if isinstance(error, RejectError) else f"no cycle file: {error}"
            yield tally.reject(number, reason, text)
            continue
        tally.event_line_count += 1
        yield from ((number, at, said) for at, said in told)


def _told(cycle: _Cycle, reading: Reading) -> list[tuple[int, Said]]:
    fields = {"cycle": str(cycle.cycle_number)}
    if cycle.job_id:
        fields |= {"slurm_job_id": cycle.job_id, "slurm_restart_count": str(cycle.attempt_index)}
    key = reading.key(cycle.job_id or reading.file.name, fields)
    attrs = {"cycle": str(cycle.cycle_number)}
    attrs |= {"nodes": cycle.active_nodes} if cycle.active_nodes else {}
    attrs |= {"ranks": cycle.active_ranks} if cycle.active_ranks else {}

    def said(event: str, cause: Cause | None = None) -> Said:
        return Said(
            job_id=key.job_id, cluster=key.cluster, attempt=key.attempt, event=event, cause=cause,
            model=key.model, team=key.team, attrs=attrs,
        )  # fmt: skip

    begin = _at("cycle_start_time", cycle.cycle_start_time)
    is_restart = cycle.cycle_number > 0
    told = [(begin, said("interruption", Cause.UNKNOWN) if is_restart else said("alive"))]
    if cycle.cycle_end_time:
        told.append((_at("cycle_end_time", cycle.cycle_end_time), said("alive")))
    return told


def _at(name: str, text: str) -> int:
    raw = msgspec.json.encode(text)
    try:
        return timestamp_ms(raw)
    except RejectError:
        raise RejectError(f"{name} is {shown(raw)}: expected RFC 3339 with a zone") from None


def _is_cycle_file(begin: bytes) -> bool:
    is_object = begin.lstrip().startswith(b"{")
    return is_object and b'"cycle_number"' in begin and b'"cycle_start_time"' in begin


FORMAT = Format(SOURCE, Documents, parse, knows_begin=_is_cycle_file)
