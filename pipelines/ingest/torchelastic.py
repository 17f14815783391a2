"""TorchElastic agents in a console log: rendezvous, workers' starts, failures, restarts, ends.

Heard are the sentences of torchelastic 0.2, torchrun 1.9 to 2.x, and of launchers made from them.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from pipelines.ingest import torchelastic_events
from pipelines.ingest.listener import Context, Line, Told
from pipelines.ingest.localtime import placed
from pipelines.ingest.records import RejectError
from pipelines.taxonomy import FAILURE_DETECTION, RESTART_GAP, Cause, Outcome

SOURCE = torchelastic_events.SOURCE
LAUNCHER_INIT = "launcher_init"

# What is left of PyTorch's own logging once its clock is taken off: process and place.
_PLACE = re.compile(r"^\s*(?:(\d+) )?[\w./-]+\.py:\d+\] ?")
_RUN_ID = re.compile(r"(?:--rdzv[_-]id[=', ]+|\brun_id\s+: )([^\s',\]]+)")
_RESULT = re.compile(r"^\s*(?:assigned )?(\w+|rank stride)=(.*?)\s*$")
_CAUSE = re.compile(r"^\s*(time|host|rank|exitcode|error_file|traceback|msg)\s*: (.*?)\s*$")
_EXIT = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d+)")
_LEFT = re.compile(r"(\d+)/\d+ (?:restart )?attempts left")
_FINAL = re.compile(r"'status': 'final'.*?'participants': \[([\d, ]*)\]")
_JOINING = re.compile(r"Detected (\d+) new nodes")
_SIGNAL = re.compile(r"\b(SIG[A-Z]+)\b|(?:\bsignal: |Received )(\d{1,3})\b")
_RULE = re.compile(r"[=*-]{20}")
_NUMBERS = re.compile(r"(?<!\d)\d{1,6}(?!\d)")
_CODE = re.compile(r"^-?\d{1,6}\b")
_BLOCK_TIME = "%Y-%m-%d_%H:%M:%S"


# Each sentence holds one of these; few other lines do.
_HINTS = ("orker", "elastic", " signal", "exitcode", "endezvous", "Done waiting", "Root Cause")

_LAUNCHES = (
    "starting workers for ", "Running torchelastic.distributed.launch",
    "Starting elastic_operator with launch configs",
)  # fmt: skip


class _Moment(NamedTuple):
    """A line, when it was said (None: no time was known yet), and how that is known."""

    line: Line
    at: int | None
    attrs: dict[str, str]


@dataclass(slots=True)
class _Agent:
    """One agent: the phase it is in, and what waits for the next rendezvous to say more.

    `world` is the number of workers since the last rendezvous, `before` that of the one before;
    `agents` the number of agents of a rendezvous that the file does not hold, but tells of.
    """

    span_id: str | None
    phase: str | None = None
    launched: _Moment | None = None
    launch_words: frozenset[str] = frozenset()
    heard: _Moment | None = None
    joining: _Moment | None = None
    result: dict[str, str] | None = None
    world: str | None = None
    before: str | None = None
    agents: int | None = None
    root: dict[str, str] | None = None
    is_running: bool = False
    has_failed: bool = False
    is_leaving: bool = False
    outcome: Outcome | None = None


_Key = tuple[str | None, int | None, str | None]
_Tell = Callable[[Any, _Agent, Line], list[Told]]


class TorchElastic:
    """Listens to the agents of one file; those that a host, rank or process tells apart.

    Instants are those of the lines. A phase ends where the next one begins: `failure_detection`
    from the first sign of a failed worker to the word that the group restarts, `restart_gap` from
    there to the rendezvous, `launcher_init` from the rendezvous to the workers' start.
    """

    source = SOURCE
    words = frozenset(_HINTS)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._agents: dict[_Key, _Agent] = {}
        self._last: dict[tuple[str | None, int | None], _Agent] = {}
        self.is_amid = False  # a sentence of several lines

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What the line tells, perhaps nothing; None: no agent wrote it."""
        for words, tell in self._sentences:
            if words in line.text:
                agent = self._agent(line)
                told = tell(self, agent, line)
                agent.heard = self._moment(line)
                return told
        return self._continued(line) if self.is_amid else None

    def end(self) -> Sequence[Told]:
        """Launches and joins that no rendezvous completed."""
        return [told for agent in self._agents.values() for told in _release(agent)]

    def _agent(self, line: Line) -> _Agent:
        """Who wrote the line; lines that name no process are the last one's of their rank."""
        place = line.host, line.rank
        found = _PLACE.match(line.text)
        pid = found[1] if found else None
        known = self._last.get(place)
        if pid is None and known is not None:
            return known
        agent = self._agents.get((*place, pid))
        if agent is None:
            span_id = f"agent {pid}" if pid else None
            agent = self._agents[(*place, pid)] = _Agent(span_id)
        self._last[place] = agent
        return agent

    def _moment(self, line: Line) -> _Moment:
        if line.at is not None:
            return _Moment(line, line.at, {})
        return _Moment(line, self._context.last_at, {"clock": "line before"})

    def _told(self, line: Line, event: str, attrs: dict[str, str], **fields: object) -> Told:
        """An event at the line's time; where it names none, the console reader finds one."""
        return Told(event, line.at, fields, attrs)

    def _move(
        self, agent: _Agent, line: Line, phase: str | None, attrs: dict[str, str] | None = None
    ) -> list[Told]:
        """End the phase at hand and begin the next; an agent that is in it already stays."""
        if phase == agent.phase:
            return []
        told = []
        if agent.phase is not None:
            told.append(self._edge(agent, line, "phase_end", agent.phase, attrs))
        if phase is not None:
            told.append(self._edge(agent, line, "phase_begin", phase, None))
        agent.phase = phase
        return told

    def _edge(
        self, agent: _Agent, line: Line, event: str, phase: str, attrs: dict[str, str] | None
    ) -> Told:
        span = {"span_id": agent.span_id} if agent.span_id else {}
        return self._told(line, event, dict(attrs or {}), phase=phase, **span)

    # What the sentences tell.

    def _launching(self, agent: _Agent, line: Line) -> list[Told]:
        """The agent was started; several sentences of one start are one launch.

        The same sentence again is another launch. The one before ended unheard in its rendezvous,
        nobody knows when: it was there when it was last heard.
        """
        self.is_amid = True
        self._name_run(line.text)
        words = next(words for words in _LAUNCHES if words in line.text)
        if agent.launched is not None and words not in agent.launch_words:
            agent.launch_words |= {words}
            return []
        told = []
        if agent.launched is not None:
            attrs = {"launch": "started again before its rendezvous was complete"}
            told = self._unheard(agent, attrs)
            told.append(self._told(line, "interruption", attrs, cause=Cause.UNKNOWN))
        agent.launched, agent.joining, agent.phase = self._moment(line), None, None
        agent.launch_words = frozenset({words})
        agent.world = agent.before = agent.agents = agent.root = agent.outcome = None
        agent.is_running = agent.has_failed = agent.is_leaving = False
        return told + self._move(agent, line, LAUNCHER_INIT)

    def _unheard(self, agent: _Agent, attrs: dict[str, str]) -> list[Told]:
        """The launch at hand, as far as it was heard."""
        told = _release(agent)
        if agent.phase is not None and agent.heard is not None:
            line, at, _ = agent.heard
            end = self._edge(agent, line, "phase_end", agent.phase, attrs)
            end.at, end.said_by = at, line
            told.append(end)
        return told

    def _name_run(self, text: str) -> None:
        if (found := _RUN_ID.search(text)) and found[1] not in torchelastic_events.NO_RUN_ID:
            self._context.fields.setdefault("torchelastic_run_id", found[1])

    def _meeting(self, agent: _Agent, line: Line) -> list[Told]:
        """The rendezvous begins."""
        agent.is_running = False
        return self._move(agent, line, LAUNCHER_INIT)

    def _observed(self, agent: _Agent, line: Line) -> list[Told]:
        """The rendezvous before this one, where etcd keeps it: how many agents it had."""
        if found := _FINAL.search(line.text):
            agent.agents = len(_NUMBERS.findall(found[1]))
        return []

    def _met(self, agent: _Agent, _: Line) -> list[Told]:
        """The rendezvous is complete; its result follows, one value on each line."""
        self.is_amid, agent.result = True, {}
        return []

    def _starting(self, agent: _Agent, line: Line) -> list[Told]:
        """The workers are started: the rendezvous' result says how many there are."""
        result = agent.result or {}
        self.is_amid, agent.result = False, None
        agent.before = agent.world or _before(result, agent.agents)
        agent.world = _world(result) or agent.world
        agent.is_running, agent.has_failed = True, False
        attrs = _world_attrs(agent)
        if count := result.get("restart_count"):
            attrs["restart_count"] = count
        return [*_release(agent, result), *self._move(agent, line, None, attrs)]

    def _closing(self, agent: _Agent, line: Line) -> list[Told]:
        """The agent ends its workers: because of a signal to itself, or because one failed."""
        if agent.is_leaving:
            return [self._end(line, Outcome.UNKNOWN, _signal(line.text))]
        if agent.is_running and agent.phase is None:
            return self._move(agent, line, FAILURE_DETECTION)
        return []

    def _failed(self, agent: _Agent, line: Line) -> list[Told]:
        """A worker has failed. What its exit says of the cause is nothing sure: unknown."""
        attrs: dict[str, str] = {}
        if found := _EXIT.search(line.text):
            attrs = {**_exit(int(found[1])), "local_rank": found[2]}
        told = self._interrupted(agent, line, attrs)
        return told if agent.is_leaving else [*told, *self._move(agent, line, FAILURE_DETECTION)]

    def _interrupted(self, agent: _Agent, line: Line, attrs: dict[str, str]) -> list[Told]:
        """One interruption for all that is said of one failure."""
        if agent.has_failed or agent.is_leaving:
            return []
        agent.has_failed = True
        attrs = {**_world_attrs(agent), **attrs}
        return [self._told(line, "interruption", attrs, cause=Cause.UNKNOWN)]

    def _restarting(self, agent: _Agent, line: Line) -> list[Told]:
        """The agent says that it restarts its workers, after a failure or for nodes that wait."""
        told = []
        if _JOINING.search(line.text):
            agent.joining = self._moment(line)
        else:
            left = _LEFT.search(line.text)
            told = self._interrupted(agent, line, {"restarts_left": left[1]} if left else {})
        return [*told, *self._move(agent, line, RESTART_GAP)]

    def _stopping(self, agent: _Agent, line: Line) -> list[Told]:
        return self._move(agent, line, RESTART_GAP)

    def _signalled(self, agent: _Agent, line: Line) -> list[Told]:
        """The agent itself was told to end; by whom and why, it does not know."""
        agent.is_leaving, agent.outcome = True, Outcome.UNKNOWN
        told = self._move(agent, line, None)
        return [*told, self._end(line, Outcome.UNKNOWN, _signal(line.text))]

    def _succeeded(self, agent: _Agent, line: Line) -> list[Told]:
        agent.outcome, agent.is_running = Outcome.SUCCEEDED, False
        return [*self._move(agent, line, None), self._end(line, Outcome.SUCCEEDED, {})]

    def _waited(self, agent: _Agent, line: Line) -> list[Told]:
        """The agent waited for the others: it ends now, as it said before."""
        return [self._end(line, agent.outcome, {})] if agent.outcome else []

    def _end(self, line: Line, outcome: Outcome, attrs: dict[str, str]) -> Told:
        return self._told(line, "attempt_ended", attrs, outcome=outcome)

    def _event(self, _: _Agent, line: Line) -> list[Told]:
        """An event of TorchElastic's own, written as JSON to the console."""
        try:
            event = torchelastic_events.decode(line.text[line.text.find("{") :])
        except RejectError as reason:
            self._context.note(str(reason))
            return []
        if run_id := event.run_id:
            self._context.fields.setdefault("torchelastic_run_id", run_id)
        return torchelastic_events.told_of(event, event.at if event.at is not None else line.at)

    def _root(self, agent: _Agent, _: Line) -> list[Told]:
        self.is_amid, agent.root = True, {}
        return []

    # Sentences of several lines.

    def _continued(self, line: Line) -> list[Told] | None:
        """A line that may belong to the sentence before: a launch, a result, a root cause."""
        agent = self._last.get((line.host, line.rank))
        if agent is None:
            return None
        text = _PLACE.sub("", line.text)
        if agent.result is not None and (found := _RESULT.match(text)):
            agent.result[found[1]] = found[2]
            return []
        if agent.root is not None:
            return self._root_line(agent, line, text)
        if agent.launched is not None and _RUN_ID.search(text):
            self._name_run(text)
            return []
        return None

    def _root_line(self, agent: _Agent, line: Line, text: str) -> list[Told] | None:
        """A line of the last failure's account; the last of them ends the attempt."""
        root = agent.root or {}
        found = _CAUSE.match(text)
        if found is not None:
            root[found[1]] = found[2]
            agent.root = root
        is_last = found[1] in ("traceback", "msg") if found else bool(root) and _RULE.match(text)
        if is_last:
            agent.root, self.is_amid = None, False
            return self._given_up(agent, line, root)
        return [] if found else None

    def _given_up(self, agent: _Agent, line: Line, root: dict[str, str]) -> list[Told]:
        """The agent restarts no more: the failure of the worker that failed first, and the end."""
        code = _CODE.match(root.get("exitcode", ""))
        attrs = _exit(int(code[0])) if code else {}
        attrs |= _signal(root.get("traceback", ""))
        if (file := root.get("error_file", "<N/A>")) != "<N/A>":
            attrs["error_file"] = file
        rank = _NUMBERS.search(root.get("rank", ""))
        who: dict[str, object] = {"rank": int(rank[0])} if rank else {}
        if host := root.get("host"):
            who["host"] = host
        agent.outcome, agent.is_running, agent.has_failed = Outcome.FAILED, False, True
        failed = Told("interruption", self._root_at(root), {"cause": Cause.UNKNOWN, **who}, attrs)
        told = self._move(agent, line, None)
        return [failed, *told, self._end(line, Outcome.FAILED, dict(attrs))]

    def _root_at(self, root: dict[str, str]) -> int | None:
        """When the worker failed, by its own clock; it knows whole seconds."""
        try:
            local = datetime.strptime(root.get("time", ""), _BLOCK_TIME)  # noqa: DTZ007
            return placed(local, self._context.reading.settings.zone_info).at
        except (ValueError, RejectError):
            return None

    # Of the words that stand in a line the first decide. All are TorchElastic's own.
    _sentences: ClassVar[tuple[tuple[str, _Tell], ...]] = (
        (torchelastic_events.MARK, _event),
        ("will restart worker group", _restarting),
        ("attempts left; restarting worker group", _restarting),
        ("Stopping worker group", _stopping),
        ("Rendezvous'ing worker group", _meeting),
        ("Rendezvous complete for workers", _met),
        ("Observed existing rendezvous state", _observed),
        ("Starting worker group", _starting),
        ("orker group successfully finished", _succeeded),
        ("All workers successfully finished", _succeeded),
        ("Done waiting for other agents", _waited),
        ("] Worker group failed", _failed),
        ("failed (exitcode: ", _failed),
        (" closing signal SIG", _closing),
        ("death signal, shutting down workers", _signalled),
        ("Got termination signal: ", _signalled),
        *zip(_LAUNCHES, [_launching] * len(_LAUNCHES), strict=True),
        ("Root Cause", _root),
    )


def _release(agent: _Agent, result: dict[str, str] | None = None) -> list[Told]:
    """The launch and the nodes that joined, once the rendezvous has said how many there are.

    Nodes that waited made the world larger: that was planned. Otherwise a node only came back, or
    others left at the same time, and the agent does not know why.
    """
    told = []
    if agent.launched is not None:
        line, at, attrs = agent.launched
        fields = _first_rank(result or {})
        if agent.world is not None:
            fields["gpus"] = int(agent.world)
            attrs = {**attrs, "gpus_from": "world size: one accelerator for each worker"}
        told.append(Told("attempt_started", at, fields, attrs, line))
    if agent.joining is not None:
        line, at, attrs = agent.joining
        has_grown = bool(agent.before and agent.world and int(agent.world) > int(agent.before))
        cause = Cause.PLANNED if has_grown else Cause.UNKNOWN
        attrs = {**attrs, "membership": "nodes waited to join", **_world_attrs(agent)}
        told.append(Told("interruption", at, {"cause": cause}, attrs, line))
    agent.launched = agent.joining = None
    return told


def _world(result: dict[str, str]) -> str | None:
    """The number of workers: said as such, or the agents' times the workers of each."""
    if sizes := _NUMBERS.search(result.get("global_world_sizes", "")):
        return sizes[0]
    agents = _NUMBERS.search(result.get("group_world_size", ""))
    workers = _NUMBERS.findall(result.get("global_ranks", ""))
    return str(int(agents[0]) * len(workers)) if agents and workers else None


def _before(result: dict[str, str], agents: int | None) -> str | None:
    """The number of workers that so many agents had, with as many workers each as now."""
    workers = _NUMBERS.findall(result.get("global_ranks", ""))
    return str(agents * len(workers)) if agents and workers else None


def _first_rank(result: dict[str, str]) -> dict[str, object]:
    """The agent's first worker: of several agents the accounting reads the lowest one's start.

    The agent of rank 0 speaks for the job as a whole.
    """
    ranks = _NUMBERS.search(result.get("global_ranks", ""))
    return {"rank": int(ranks[0])} if ranks and ranks[0] != "0" else {}


def _world_attrs(agent: _Agent) -> dict[str, str]:
    attrs = {"world_size": agent.world} if agent.world else {}
    if agent.before and agent.before != agent.world:
        attrs["world_size_before"] = agent.before
    return attrs


def _exit(code: int) -> dict[str, str]:
    """An exit code, and the signal that a negative one stands for."""
    attrs = {"exit_code": str(code)}
    return attrs | _named(-code) if code < 0 else attrs


def _signal(text: str) -> dict[str, str]:
    found = _SIGNAL.search(text)
    if found is None:
        return {}
    return {"signal": found[1]} if found[1] else _named(int(found[2]))


def _named(number: int) -> dict[str, str]:
    try:
        return {"signal": signal.Signals(number).name}
    except ValueError:
        return {"signal": str(number)}
