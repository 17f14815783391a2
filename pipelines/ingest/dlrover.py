"""DLRover's training events: BEGIN, END and INSTANT lines of trainer, agent and master.

`[time] [pid] [event id] [target] [name] [type] {content}`, or one JSON object a line with the same
fields; in files of their own, or in a console log. Times name no zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import msgspec

from pipelines.ingest.lines import Lines
from pipelines.ingest.listener import Context, Line, Told
from pipelines.ingest.localtime import placed
from pipelines.ingest.mllog import job_id
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.settings import Sources
from pipelines.taxonomy import FAILURE_DETECTION, RESTART_GAP, Cause, Outcome

SOURCE = "dlrover"

_TEXT = re.compile(
    r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d:\d\d|Z)?)\] (?:\[(\d+)\] )?"
    r"\[(\w+)\] \[([^\]]*)\] \[([^\]]*)\] \[(BEGIN|END|INSTANT)\] (\{.*)",
    re.DOTALL,
)
_BEGIN, _END, _INSTANT = "BEGIN", "END", "INSTANT"
_MASTER = "dlrover-master"
_RANK = re.compile(r"^events_(\d{1,9})(?:_\d+)?\.")
_MOST = 2**63

# Spans by name -> phase; whether it holds up the loop is the default's: yes.
_SPANS = {
    "#init": "trainer_init",
    "#init#load_ckpt": "checkpoint_restore",
    "load_ckpt": "checkpoint_restore",
    "#save": "checkpoint_save",
    "#persist_ckpt": "checkpoint_save",
    "#evaluate": "evaluation",
    "#predict": "evaluation",
    "#rendezvous": "launcher_init",
    "#network_check": "hardware_setup",
    "#fault_detect": FAILURE_DETECTION,
    "#repair": RESTART_GAP,
}
_BESIDE = frozenset({"#persist_ckpt"})
"""Spans of a thread of their own."""
_NETWORK_CHECK = "network-check"

# The master's reason for its exit (JobExitReason) -> outcome and cause; others are unknown.
_EXITS: dict[str, tuple[Outcome, Cause | None]] = {
    "Completed": (Outcome.SUCCEEDED, None),
    "Succeeded": (Outcome.SUCCEEDED, None),
    "CodeError": (Outcome.FAILED, Cause.USER_CODE),
    "WorkerOOM": (Outcome.FAILED, Cause.OUT_OF_MEMORY),
    "PSOOM": (Outcome.FAILED, Cause.OUT_OF_MEMORY),
    "EvaluatorOOM": (Outcome.FAILED, Cause.OUT_OF_MEMORY),
    "NodeCheckFailed": (Outcome.FAILED, Cause.HARDWARE),
    "PendingTimeout": (Outcome.FAILED, Cause.SCHEDULER),
    "RdzvTimeout": (Outcome.FAILED, Cause.UNKNOWN),
    "HangError": (Outcome.FAILED, Cause.UNKNOWN),
    "UncompletedTimeout": (Outcome.FAILED, Cause.TIMEOUT),
    "WorkerError": (Outcome.FAILED, Cause.UNKNOWN),
    "PSError": (Outcome.FAILED, Cause.UNKNOWN),
    "EvaluatorError": (Outcome.FAILED, Cause.UNKNOWN),
    "UnknownError": (Outcome.FAILED, Cause.UNKNOWN),
}
_LOST_STATES = ("Failed", "Deleted", "Breakdown")


@dataclass(slots=True)
class _Entry:
    """One event as its writer says it."""

    time: str
    pid: str | None
    span_id: str
    target: str
    name: str
    kind: str
    content: dict[str, Any]


class _Json(msgspec.Struct):
    event_id: str
    event_time: str
    name: str
    event_type: str
    target: str = ""
    pid: int | str | None = None
    content: dict[str, Any] = {}


_content = msgspec.json.Decoder(dict[str, Any]).decode
_entry = msgspec.json.Decoder(_Json).decode


class Training:
    """What the entries of one file come to, told one by one.

    The loop is entered with the first step that begins in a process, or one that begins below a
    step done. `done` is by process: the highest step that was told of it.
    """

    def __init__(self) -> None:
        self._done: dict[str | None, int] = {}

    def tell(self, entry: _Entry) -> list[Told]:
        """The events of one entry, without their time."""
        told = self._steps(entry)
        if entry.name in _SPANS and entry.kind != _INSTANT:
            told += _span(entry)
        if tell := _OTHERS.get(entry.name):
            told += tell(entry)
        return told or [Told("alive")]

    def _steps(self, entry: _Entry) -> list[Told]:
        """`global_step` counts the steps that are done, in whatever entry it stands."""
        step = _step(entry)
        if step is None or entry.name in _BESIDE:
            return []
        done = self._done.get(entry.pid)
        is_entry = entry.name == "#step" and entry.kind == _BEGIN
        if is_entry and (done is None or step < done):
            self._done[entry.pid] = step
            return [Told("train_begin", None, {"step": step})]
        if done is None or step <= done:
            return []
        self._done[entry.pid] = step
        return [Told("step", None, {"step": step})]


def _step(entry: _Entry) -> int | None:
    step = entry.content.get("global_step")
    is_count = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < _MOST
    return step if is_count else None


def _span(entry: _Entry) -> list[Told]:
    """A begin or an end; what a thread persisted can be restored from when it is done."""
    phase = _SPANS[entry.name]
    if entry.content.get("rendezvous_type") == _NETWORK_CHECK:
        phase = "hardware_setup"
    fields: dict[str, Any] = {"phase": phase, "span_id": entry.span_id}
    attrs = _kept(entry, "round_num", "rendezvous_type", "reason", "success")
    if entry.name in _BESIDE:
        fields["blocking"] = False
    told = [Told("phase_begin" if entry.kind == _BEGIN else "phase_end", None, fields, attrs)]
    step = _step(entry)
    is_persisted = entry.name in _BESIDE and entry.kind == _END
    if is_persisted and step is not None and entry.content.get("success") is not False:
        told.append(Told("checkpoint_durable", None, {"step": step}))
    return told


def _fault(entry: _Entry) -> list[Told]:
    """A fault that the master looks at, or a process that is started again after one."""
    if entry.kind == _END:
        return []
    attrs = _kept(entry, "reason", "errmsg", "restart_round", "pod_name")
    return [Told("interruption", None, {"cause": Cause.UNKNOWN, **_node(entry)}, attrs)]


def _pod(entry: _Entry) -> list[Told]:
    """A pod changed its state: lost, or else a sign of life."""
    if entry.content.get("to_state") not in _LOST_STATES:
        return []
    attrs = _kept(entry, "from_state", "to_state", "pod_name")
    return [Told("interruption", None, {"cause": Cause.UNKNOWN, **_node(entry)}, attrs)]


def _exception(entry: _Entry) -> list[Told]:
    """An exception that nobody caught: the user's code ended, by whatever raised it."""
    stack = entry.content.get("stack")
    last = str(stack[-1]).strip() if isinstance(stack, list) and stack else ""
    attrs = {"exception": last} if last else {}
    return [Told("interruption", None, {"cause": Cause.UNKNOWN}, attrs)]


def _signal(entry: _Entry) -> list[Told]:
    """A signal that ends the process. That of a child that ended is none."""
    name = entry.content.get("sig_name")
    if name == "SIGCHLD":
        return []
    attrs = {"signal": str(name)} if name else {}
    return [Told("interruption", None, {"cause": Cause.UNKNOWN}, attrs)]


def _start(entry: _Entry) -> list[Told]:
    """The master starts a job's attempt; agents and trainers come and go within it."""
    return [Told("attempt_started")] if entry.target == _MASTER else []


def _exit(entry: _Entry) -> list[Told]:
    if entry.target != _MASTER:
        return []
    reason = str(entry.content.get("reason", ""))
    outcome, cause = _EXITS.get(reason, (Outcome.UNKNOWN, None))
    return [Told("attempt_ended", None, {"outcome": outcome, "cause": cause}, {"reason": reason})]


_OTHERS: dict[str, Callable[[_Entry], list[Told]]] = {
    "#start": _start,
    "#exit": _exit,
    "#fault_detect": _fault,
    "#process_restart": _fault,
    "#pod_change": _pod,
    "exception": _exception,
    "exit_sig": _signal,
}


def _kept(entry: _Entry, *names: str) -> dict[str, str]:
    """Members of the content as attrs."""
    found = {name: entry.content.get(name) for name in names}
    return {k: v if isinstance(v, str) else _text(v) for k, v in found.items() if v is not None}


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _node(entry: _Entry) -> dict[str, str]:
    node = entry.content.get("node_name")
    return {"host": node} if isinstance(node, str) and node else {}


def read_entry(text: str) -> _Entry:
    """One line of either kind. Raises RejectError."""
    try:
        if (found := _TEXT.search(text)) is not None:
            time, pid, span_id, target, name, kind, content = found.groups()
            return _Entry(time, pid, span_id, target, name, kind, _content(content))
        told = _entry(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RejectError(f"no DLRover event: {error}") from None
    if told.event_type not in (_BEGIN, _END, _INSTANT):
        raise RejectError(f"event_type is '{told.event_type}': expected BEGIN, END or INSTANT")
    pid = None if told.pid is None else str(told.pid)
    return _Entry(
        told.event_time, pid, told.event_id, told.target, told.name, told.event_type, told.content
    )


def _at(entry: _Entry, reading: Reading) -> tuple[int, dict[str, str]]:
    """The time of an entry; one without a zone lies in the declared one."""
    try:
        moment = datetime.fromisoformat(entry.time)
    except ValueError:
        raise RejectError(f"'{entry.time}' is no time") from None
    if moment.tzinfo is not None:
        return round(moment.timestamp() * 1000), {}
    found = placed(moment, reading.settings.zone_info)
    return found.at, found.attrs


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Event lines to events, one line after another.

    Blank lines and those of others, which begin otherwise, are ignored.
    """
    tally, training = reading.tally, Training()
    found = _RANK.match(PurePosixPath(reading.file.name).name)
    rank = int(found[1]) if found else None
    for number, line in lines:
        if not line.lstrip().startswith((b"[", b"{")):
            tally.ignored_count += 1
            continue
        try:
            entry = read_entry(line.decode())
            at, told_of_time = _at(entry, reading)
        except (RejectError, UnicodeDecodeError) as reason:
            yield tally.reject(number, reason, line)
            continue
        key = reading.key(job_id(reading.file.name))
        tally.event_line_count += 1
        for told in training.tell(entry):
            attrs = {**told.attrs, **told_of_time}
            who: dict[str, Any] = {
                "job_id": key.job_id, "cluster": key.cluster, "attempt": key.attempt,
                "rank": rank if key.rank is None else key.rank,
            }  # fmt: skip
            yield number, at, Said(event=told.event, attrs=attrs or None, **{**who, **told.fields})


_KINDS = tuple(f"[{kind}] {{" for kind in (_BEGIN, _END, _INSTANT))


class DLRover:
    """Listens to event lines that were written to the console."""

    source = SOURCE
    words = frozenset(_KINDS)
    is_amid = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._training = Training()

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What an event line tells; None for every other line."""
        if not _is_event(line.raw):
            return None
        try:
            entry = read_entry(line.raw)
            at, attrs = _at(entry, self._context.reading)
        except RejectError as reason:
            self._context.note(str(reason))
            return None
        told = self._training.tell(entry)
        for event in told:
            event.at = at
            event.attrs.update(attrs)
        return told

    def end(self) -> Sequence[Told]:
        """Nothing waits."""
        return []


def _is_event(text: str) -> bool:
    if "] {" not in text or not any(kind in text for kind in _KINDS):
        return False
    return _TEXT.search(text) is not None


def _is_line(line: bytes, _: Sources) -> bool:
    if line.lstrip().startswith(b"{"):
        return b'"event_type"' in line and b'"event_time"' in line and b'"event_id"' in line
    return line.startswith(b"[") and _is_event(line.decode(errors="replace"))


FORMAT = Format(SOURCE, Lines, parse, knows_line=_is_line, is_weak=True)
