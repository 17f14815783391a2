"""Slurm's job records, from whatever text they came, to events: one record is one attempt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from pipelines.ingest.identity import Key
from pipelines.ingest.instants import Instant, closing, instant, is_said
from pipelines.ingest.records import Event, Reading, RejectError, Said
from pipelines.taxonomy import Cause, Outcome

SOURCE = "slurm"

Record = Mapping[str, str]
"""One row of sacct: its own names of columns to values. An absent column was not printed."""


class End(NamedTuple):
    """What a state says of an end; `is_final`: no further attempt will come of itself."""

    outcome: Outcome
    cause: Cause | None = None
    is_final: bool = False


ENDS = {
    "COMPLETED": End(Outcome.SUCCEEDED, is_final=True),
    "FAILED": End(Outcome.FAILED, is_final=True),
    "CANCELLED": End(Outcome.CANCELLED, Cause.CANCELLED, is_final=True),
    "DEADLINE": End(Outcome.TIMED_OUT, Cause.TIMEOUT, is_final=True),
    "TIMEOUT": End(Outcome.TIMED_OUT, Cause.TIMEOUT),
    "OUT_OF_MEMORY": End(Outcome.FAILED, Cause.OUT_OF_MEMORY),
    "NODE_FAIL": End(Outcome.FAILED, Cause.NODE_LOST),
    "BOOT_FAIL": End(Outcome.FAILED, Cause.HARDWARE),
    "LAUNCH_FAILED": End(Outcome.FAILED, Cause.SCHEDULER),
    "RECONFIG_FAIL": End(Outcome.FAILED, Cause.HARDWARE),
    "PREEMPTED": End(Outcome.PREEMPTED, Cause.PREEMPTION),
    "REQUEUED": End(Outcome.UNKNOWN),
    "RESIZING": End(Outcome.UNKNOWN, Cause.PLANNED),
}
"""States that end a record. Whoever reads a table of jobs takes them from here."""
WAITING = frozenset(
    {"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING"}
)
HOLDING = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
     "POWER_UP_NODE"}
)  # fmt: skip
ELSEWHERE = "REVOKED"
"""The record of a federation's cluster on which the job did not run."""
STATES = frozenset({*ENDS, *WAITING, *HOLDING, ELSEWHERE})

_REASONS = {
    "NodeDown": Cause.NODE_LOST,
    "NodeFail": Cause.NODE_LOST,
    "TimeLimit": Cause.TIMEOUT,
    "OutOfMemory": Cause.OUT_OF_MEMORY,
    "Preempted": Cause.PREEMPTION,
    "Preemption": Cause.PREEMPTION,
}
_STEP_CAUSES = {"OUT_OF_MEMORY": Cause.OUT_OF_MEMORY, "NODE_FAIL": Cause.NODE_LOST}
_REQUEUE_WORDS = frozenset({"REQUEUED", *WAITING})
ID = re.compile(
    r"(?P<job>\d+(?:_(?:\d+|(?P<waiting>\[[^\]]*\]?)))?(?:\+\d+)?)(?:\.(?P<step>[\w+-]+))?",
    re.ASCII,
)
"""JobID: `123`, array task `123_4`, tasks that wait `123_[5-9%2]`, component `123+1`, step `.0`."""
_STATE = re.compile(r"[A-Z][A-Z_]+", re.ASCII)
_BY = re.compile(r"\bby (\S+)")
_ELAPSED = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)(?=,|$)", re.ASCII)
_OTHERS = re.compile(r"(?:^|,)gres/(?:gpu[:=]|shard|mps|[a-z]?pu[:=]|gaudi|dcu|mlu)")
"""Shares of a GPU, other accelerators, a count with a suffix: how many are held is not said."""
_FIELDS = (
    "JobID", "JobIDRaw", "JobName", "Account", "User", "Partition", "QOS", "WCKey", "Comment",
    "AdminComment", "SystemComment", "Cluster", "WorkDir", "Reservation", "SubmitLine", "Extra",
    "SLUID",
)  # fmt: skip
_DIMENSIONS = {"team": "Account", "priority": "QOS"}
_MAPPED = ("model", "team", "priority", "cluster", "gpus_per_node")
_SECOND_MS = 1000


@dataclass
class Teller:
    """Tells the events of one file's records, one at a time; `end` notes what was odd in all."""

    reading: Reading
    timeless: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    revoked: int = 0
    jobs: int = 0
    steps: int = 0
    last: tuple[str, Key] | None = None

    def __post_init__(self) -> None:
        """Take the site's mapping, and note what in it means nothing here."""
        mapping = self.reading.settings.mapping
        self._mapping = {k: v for k, v in mapping.items() if k in _MAPPED}
        for name in mapping.keys() - self._mapping.keys():
            known = ", ".join(_MAPPED)
            self.reading.tally.notes.append(f"mapping: '{name}' means nothing to Slurm: {known}")
        columns = _DIMENSIONS | self._mapping
        self._columns = [(n, columns[n]) for n in ("model", "team", "priority") if n in columns]
        self._cluster = self._mapping.get("cluster", "Cluster")
        nodes = self._mapping.get("gpus_per_node", "")
        self._gpus_per_node = int(nodes) if nodes.isdecimal() else None
        if nodes and self._gpus_per_node is None:
            self.reading.tally.notes.append(f"mapping: gpus_per_node '{nodes}' is no whole number")

    def tell(self, line: int, record: Record) -> list[Event]:
        """The events of one record, at most four; none where it tells nothing. Raises RejectError.

        Steps tell nothing but an out-of-memory kill or a lost node.
        """
        own_id, step, is_waiting = _own_id(record)
        state = _state(record.get("State", ""))
        if is_waiting or (state == ELSEWHERE and not step):
            self.waiting += is_waiting
            self.revoked += not is_waiting
            return []
        self.steps += step is not None
        self.jobs += step is None
        told = self._step(own_id, step, record) if step else self._job(own_id, record)
        return [(line, at, said) for at, said in told]

    def end(self) -> None:
        """Note what was left out, and why."""
        notes = self.reading.tally.notes
        if self.timeless:
            states = ", ".join(f"{n} {state}" for state, n in sorted(self.timeless.items()))
            notes.append(f"job records without any instant: {states}; print Submit, Start and End")
        if self.steps and not self.jobs:
            notes.append(
                f"all {self.steps} records are steps of jobs (123.0), which tell nothing alone: "
                "print the jobs too"
            )
        if self.waiting:
            notes.append(f"{self.waiting} records of array tasks that still wait: ignored")
        if self.revoked:
            notes.append(f"{self.revoked} records of jobs that ran on another cluster: ignored")

    def _job(self, own_id: str, record: Record) -> list[tuple[int, Said]]:
        state = _state(record.get("State", ""))
        zone = self.reading.settings.zone_info
        submit = instant(record.get("Submit", ""), zone)
        start = instant(record.get("Start", ""), zone)
        end = instant(record.get("End", ""), zone)
        if submit is None and start is None and end is None:
            self.timeless[state or "without a state"] += 1
            raise RejectError(
                "no Submit, Start or End: a job without any instant has no place in time; "
                "print these columns"
            )
        if end and end.again:
            end = closing(start, end, _elapsed_ms(record))
        ends = _end(record) if end else None
        key = self._key(own_id, record)
        self.last = own_id, key
        dimensions = self._dimensions(key, record)
        told = []
        if submit:
            told.append((submit.at, _said(key, "job_submitted", submit, {}, **dimensions)))
        if start and _was_granted(record, state, start, end):
            gpus = _gpus(record, self._gpus_per_node)
            attrs = _start_attrs(key, record)
            said = _said(key, "attempt_started", start, attrs, gpus=gpus, **dimensions)
            told += [(start.at, said), *_until(key, record, start, end, ends)]
        if end and ends and ends.is_final and key.job_id == own_id:
            said = _said(key, "job_finished", end, _end_attrs(record))
            said.outcome, said.cause = ends.outcome, ends.cause
            told.append((end.at, said))
        return told

    def _step(self, own_id: str, step: str, record: Record) -> list[tuple[int, Said]]:
        """A step whose state names a cause that its job's may not name."""
        state = _state(record.get("State", ""))
        cause = _STEP_CAUSES.get(state)
        end = instant(record.get("End", ""), self.reading.settings.zone_info) if cause else None
        if end is None:
            return []
        key = self._job_of_step(own_id, record)
        if key is None:
            return []
        attrs = {"step": step, "state": state}
        return [(end.at, _said(key, "interruption", end, attrs, cause=cause))]

    def _key(self, own_id: str, record: Record) -> Key:
        """The job of a record. The site's own word for the cluster goes before the column's."""
        identity = self.reading.settings.identity
        fields = _fields(own_id, record) if identity.field else None
        if identity.cluster is None and is_said(cluster := record.get(self._cluster)):
            return self.reading.key(own_id, fields, cluster=str(cluster))
        return self.reading.key(own_id, fields)

    def _job_of_step(self, own_id: str, record: Record) -> Key | None:
        """The job of a step: that of the record before it, whose columns a step has not got."""
        if self.last is not None and self.last[0] == own_id:
            return self.last[1]
        return self._key(own_id, record) if self.reading.settings.identity.field is None else None

    def _dimensions(self, key: Key, record: Record) -> dict[str, str | None]:
        """Model, team and priority: of the join, else of the mapped column."""
        found = {"model": key.model, "team": key.team, "priority": None}
        for name, column in self._columns:
            if found[name] is None and is_said(word := record.get(column)):
                found[name] = word
        return found


def _said(key: Key, event: str, when: Instant, attrs: dict[str, str], **what: Any) -> Said:
    is_of_job = event in ("job_submitted", "job_finished")
    if when.attrs:
        attrs = dict(when.attrs) | attrs
    return Said(
        job_id=key.job_id, cluster=key.cluster, attempt=None if is_of_job else key.attempt,
        event=event, attrs=attrs or None, **what,
    )  # fmt: skip


def _until(
    key: Key, record: Record, start: Instant, end: Instant | None, ends: End | None
) -> Iterator[tuple[int, Said]]:
    """The end of an allocation, or its last sign of life."""
    if end is None or _state(record.get("State", "")) in HOLDING:
        if (lived := _elapsed_ms(record)) is not None:
            yield start.at + lived, _said(key, "alive", start, {})
        return
    if end.at < start.at:
        said = f"End {record.get('End')} lies before Start {record.get('Start')}"
        raise RejectError(f"{said}: one of them is wrong")
    if end.at == start.at:  # at the very instant of a start an end is the previous attempt's
        return
    outcome = {"outcome": ends.outcome, "cause": ends.cause} if ends else {}
    attrs = _end_attrs(record) | _disagreement(start, end, record)
    yield end.at, _said(key, "attempt_ended", end, attrs, **outcome)


def _fields(own_id: str, record: Record) -> dict[str, str]:
    """What a record can be joined by (docs/sources/slurm.md)."""
    fields = {name: record[name] for name in _FIELDS if is_said(record.get(name))}
    if "JobIDRaw" in fields or own_id.isdecimal():
        fields["slurm_job_id"] = fields.get("JobIDRaw", own_id).partition(".")[0]
    if "_" in own_id:
        fields["slurm_array_id"] = own_id
    if is_said(record.get("Restarts")):
        fields["slurm_restart_count"] = record["Restarts"]
    return fields


def _own_id(record: Record) -> tuple[str, str | None, bool]:
    """The job's own id, the step where it is one, and whether it stands for tasks that wait."""
    text = record.get("JobID") or record.get("JobIDRaw") or ""
    match = ID.fullmatch(text.strip())
    if match is None:
        raise RejectError(f"'{text[:40]}' is no Slurm job id: expected 123, 123_4, 123+1 or 123.0")
    return match["job"], match["step"], match["waiting"] is not None


@lru_cache
def _state(text: str) -> str:
    """The state's first word: `CANCELLED by 1000`, `NODE_FAIL,REQUEUED`."""
    match = _STATE.match(text.strip())
    return match[0] if match else ""


def _end(record: Record) -> End | None:
    """What the record says of its end; None where no state says that it ended."""
    is_node_failed = is_said(record.get("FailedNode"))
    return _end_by(record.get("State", ""), record.get("Reason", ""), is_node_failed)


@lru_cache
def _end_by(words: str, reason: str, is_node_failed: bool) -> End | None:  # noqa: FBT001 - cached
    """A cause that the state leaves open is taken from the failed node or the reason, if known."""
    state = _state(words)
    known = ENDS.get(state)
    if known is None:
        return End(Outcome.UNKNOWN) if state and state not in STATES else None
    also = _STATE.findall(words)[1:]
    is_final = known.is_final and not _REQUEUE_WORDS.intersection(also)
    cause = known.cause
    if cause is None and known.outcome is not Outcome.SUCCEEDED:
        cause = Cause.NODE_LOST if is_node_failed else _REASONS.get(reason)
    outcome = known.outcome
    if outcome is Outcome.UNKNOWN and cause in (Cause.NODE_LOST, Cause.OUT_OF_MEMORY):
        outcome = Outcome.FAILED
    elif outcome is Outcome.UNKNOWN and cause is Cause.PREEMPTION:
        outcome = Outcome.PREEMPTED
    elif outcome is Outcome.UNKNOWN and cause is Cause.TIMEOUT:
        outcome = Outcome.TIMED_OUT
    return End(outcome, cause, is_final)


def _was_granted(record: Record, state: str, start: Instant, end: Instant | None) -> bool:
    """Did the job get hardware? One cancelled in the queue has Start = End, and nothing else."""
    if state in WAITING or record.get("NodeList", "").strip().lower() == "none assigned":
        return False
    if state not in ("CANCELLED", "DEADLINE") or end is None or end.at != start.at:
        return True
    return is_said(record.get("AllocTRES")) or is_said(record.get("NodeList"))


@lru_cache
def _granted(tres: str) -> int | None:
    """The total of `cpu=8,gres/gpu:a100=4,gres/gpu=4`, else the sum of its types; None: neither."""
    found = _GPUS.findall(tres)
    totals = [int(count) for kind, count in found if not kind]
    if not found:
        return None
    return totals[0] if totals else sum(int(count) for _, count in found)


def _gpus(record: Record, per_node: int | None) -> int | None:
    """Accelerators held: the total of AllocTRES, else the sum of its types; null: not said.

    A known AllocTRES without any is a job without accelerators, unless another column names
    some, or the site says how many a node has.
    """
    tres = record.get("AllocTRES", "").strip()
    if (granted := _granted(tres)) is not None:
        return granted
    if per_node is not None:
        nodes = record.get("AllocNodes") or record.get("NNodes") or ""
        return int(nodes) * per_node if nodes.isdecimal() else None
    is_named = _OTHERS.search(tres) or any(
        "gpu" in record.get(name, "") for name in ("AllocGRES", "ReqGRES")
    )
    return 0 if is_said(tres) and not is_named else None


def seconds_of(text: str) -> int | None:
    """Seconds of `[D-]HH:MM:SS`, `MM:SS` or a plain number; None where it is none of them.

    >>> seconds_of("1-00:15:56"), seconds_of("00:12.500"), seconds_of("35317"), seconds_of("")
    (87356, 12, 35317, None)
    """
    return int(text) if text.isdecimal() else _clock_seconds(text)


@lru_cache(maxsize=4096)
def _clock_seconds(text: str) -> int | None:
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _duration_s(record: Record, *names: str) -> int | None:
    for name in names:
        if (seconds := seconds_of(record.get(name, "").strip())) is not None:
            return seconds
    return None


def _elapsed_ms(record: Record) -> int | None:
    """How long the job has held its allocation, suspensions included."""
    elapsed = _duration_s(record, "ElapsedRaw", "Elapsed")
    if elapsed is None:
        return None
    return (elapsed + (_duration_s(record, "Suspended") or 0)) * _SECOND_MS


_START_ATTRS = (
    ("job_name", "JobName"), ("partition", "Partition"), ("user", "User"), ("nodes", "NodeList"),
    ("slurm_job_id", "JobIDRaw"), ("restarts", "Restarts"),
)  # fmt: skip
_END_ATTRS = (("exit_code", "ExitCode"), ("reason", "Reason"), ("failed_node", "FailedNode"))


def _start_attrs(key: Key, record: Record) -> dict[str, str]:
    """What is known at the start and stays as it is: it must not differ between two scrapes."""
    attrs = _named(_START_ATTRS, record)
    if attrs.get("slurm_job_id") == key.job_id:
        del attrs["slurm_job_id"]
    return attrs


def _named(names: tuple[tuple[str, str], ...], record: Record) -> dict[str, str]:
    """The columns that say something, by their names here."""
    return {name: w for name, column in names if is_said(w := record.get(column, ""))}


def _end_attrs(record: Record) -> dict[str, str]:
    """The scheduler's own words about the end."""
    attrs = _named(_END_ATTRS, record)
    words = record.get("State", "").strip()
    if " by " in words and (by := _BY.search(words)):
        attrs["cancelled_by"], words = by[1], words[: by.start()].strip()
    if words:
        attrs["state"] = words
    return attrs


def _disagreement(start: Instant, end: Instant, record: Record) -> dict[str, str]:
    """What Elapsed and Suspended say, where the record's own ends say something else."""
    attrs = {}
    suspended = _duration_s(record, "Suspended")
    if suspended:
        attrs["suspended_s"] = str(suspended)
    elapsed = _duration_s(record, "ElapsedRaw", "Elapsed")
    apart = elapsed is not None and (end.at - start.at) - elapsed * _SECOND_MS
    if apart and abs(apart) > _SECOND_MS:
        attrs["elapsed_s"] = str(elapsed)
    return attrs
