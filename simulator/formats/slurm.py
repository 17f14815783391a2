"""Slurm accounting: a file per cluster and local day, as `sacct -P -D` prints it at midnight."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipelines.taxonomy import Cause, Outcome
from simulator.formats.site import Place, place_of, slurm_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.story import Allocation, Story
    from simulator.intents import Intent

COLUMNS = (
    "JobID", "JobIDRaw", "JobName", "User", "Account", "Partition", "Cluster", "State", "ExitCode",
    "Submit", "Eligible", "Start", "End", "Elapsed", "Timelimit", "NNodes", "AllocTRES", "NodeList",
    "Restarts",
)  # fmt: skip
"""As printed, the last only where the cluster's version of Slurm has it."""
GPUS_PER_NODE = 8
_CPUS_PER_NODE = 96
_MEMORY_PER_NODE_GB = 1024
_UNKNOWN, _NO_NODES = "Unknown", "None assigned"
_ELIGIBLE_AFTER_MS = 120_000
_USERS = ("agnes", "bjorn", "chidi", "dolores", "emre")
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_STEP_LAG_MS = 1000
_STATES = {
    Outcome.SUCCEEDED: "COMPLETED",
    Outcome.TIMED_OUT: "TIMEOUT",
    Outcome.PREEMPTED: "PREEMPTED",
    Outcome.FAILED: "FAILED",
}
_OWN_STATES = {
    Cause.NODE_LOST: "NODE_FAIL",
    Cause.OUT_OF_MEMORY: "OUT_OF_MEMORY",
    Cause.PLANNED: "REQUEUED",
}
_EXITS = {"COMPLETED": "0:0", "TIMEOUT": "0:15", "PREEMPTED": "0:15", "OUT_OF_MEMORY": "0:125",
          "NODE_FAIL": "1:0", "CANCELLED": "0:15"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """One stay of a job in the queue and on its nodes; `start` None: not yet, `end` None: on it."""

    one: Intent
    job_id: str
    restarts: int
    submit: int
    start: int | None
    end: int | None
    gpus: int
    state: str
    steps: int


@dataclass(slots=True)
class SlurmLog:
    """The accounting of all clusters, kept until the end of time and then printed day by day."""

    as_of: int
    records: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))

    def add(self, one: Intent, told: Story) -> None:
        """Take the records of one job."""
        place = place_of(one)
        self.records[place.name] += _records(one, told, self.as_of)

    def close(self) -> Iterator[tuple[str, str]]:
        """(file name, text) of each cluster and day."""
        for name, own in sorted(self.records.items()):
            place = place_of(own[0].one)
            own.sort(key=lambda r: (r.submit, r.job_id, r.restarts))
            for day, begin, scraped in _days(place, min(r.submit for r in own), self.as_of):
                yield f"{name}/slurm/sacct_{day}.txt", _page(place, own, begin, scraped)


def _records(one: Intent, told: Story, as_of: int) -> Iterator[Record]:
    """Its records in order; one that waits, where the next stay has not begun."""
    if told.submitted is None:
        return
    submit, restarts = told.submitted, 0
    for allocation in told.allocations:
        is_last = allocation is told.allocations[-1]
        end = None if is_last and told.is_lost else allocation.end
        state = _state(allocation, is_followed=not is_last or _is_requeued(allocation, told))
        yield Record(
            one, told.job_id, restarts, submit, allocation.start, end, allocation.gpus, state,
            len(allocation.launches),
        )  # fmt: skip
        submit, restarts = max(allocation.end or 0, submit + 1000), restarts + 1
    last = told.allocations[-1] if told.allocations else None
    if last is None or (_is_requeued(last, told) and submit <= as_of):
        yield Record(one, told.job_id, restarts, submit, None, None, one.gpus, "PENDING", 0)


def _is_requeued(allocation: Allocation, told: Story) -> bool:
    """Does the job want another allocation after its last one?"""
    if allocation.end is None or told.is_lost or not allocation.last.outcome.is_failure:
        return False
    return not allocation.last.of("job_finished")


def _state(allocation: Allocation, *, is_followed: bool) -> str:
    """What sacct calls its end."""
    outcome, cause = allocation.last.outcome, allocation.last.cause
    if outcome is Outcome.CANCELLED:
        return f"CANCELLED by {_uid(allocation.start)}"
    if own := _OWN_STATES.get(Cause(cause)) if cause else None:
        return own
    if outcome is Outcome.FAILED and is_followed:
        return "REQUEUED"
    return _STATES.get(outcome, "FAILED")


def _uid(seed: int) -> int:
    return 1000 + seed % 9000


def _days(place: Place, first_ms: int, as_of: int) -> Iterator[tuple[str, int, int]]:
    """(name, begin, scrape) of each local day up to `as_of`, in epoch ms."""
    zone = ZoneInfo(place.zone)
    day = place.local(first_ms).date()
    begin = _midnight(day, zone)
    while begin < as_of:
        following = day + timedelta(days=1)
        end = _midnight(following, zone)
        yield f"{day:%Y-%m-%d}", begin, min(end, as_of)
        day, begin = following, end


def _midnight(day: object, zone: ZoneInfo) -> int:
    return round(datetime.combine(day, time(), zone).timestamp() * 1000)  # type: ignore[arg-type]


def _page(place: Place, records: list[Record], begin: int, scraped: int) -> str:
    """What sacct printed at `scraped` of the time since `begin`."""
    columns = COLUMNS if place.has_restarts else COLUMNS[:-1]
    lines = ["|".join(columns)]
    for record in records:
        if record.submit <= scraped and (record.end is None or record.end >= begin):
            rows = _rows(place, record, scraped)
            lines += ["|".join(row[c] for c in columns) for row in rows]
    return "\n".join(lines) + "\n"


def _rows(place: Place, record: Record, scraped: int) -> Iterator[dict[str, str]]:
    """The record as it stood at `scraped`, and its steps."""
    one, number = record.one, slurm_id(record.one, record.job_id)
    start = record.start if record.start is not None and record.start <= scraped else None
    end = record.end if start is not None and record.end is not None else None
    end = end if end is not None and end <= scraped else None
    state = "PENDING" if start is None else "RUNNING" if end is None else record.state
    nodes = -(-record.gpus // GPUS_PER_NODE)
    row = {
        "JobID": str(number),
        "JobIDRaw": str(number),
        "JobName": record.job_id,
        "User": _USERS[one.index % len(_USERS)],
        "Account": one.team,
        "Partition": "preempt" if one.priority == "low" else "train",
        "Cluster": place.name,
        "State": state,
        "ExitCode": "0:0" if end is None else _EXITS.get(state.split()[0], "1:0"),
        "Submit": place.seconds(record.submit),
        "Eligible": place.seconds(record.submit + _ELIGIBLE_AFTER_MS * (record.restarts > 0)),
        "Start": _UNKNOWN if start is None else place.seconds(start),
        "End": _UNKNOWN if end is None else place.seconds(end),
        "Elapsed": "00:00:00"
        if start is None
        else _elapsed(start, scraped if end is None else end),
        "Timelimit": "7-00:00:00",
        "NNodes": str(nodes),
        "AllocTRES": "" if start is None else _tres(nodes, record.gpus, with_billing=True),
        "NodeList": _NO_NODES if start is None else node_list(number, nodes),
        "Restarts": str(record.restarts),
    }
    yield row
    if start is not None:
        yield from _steps(row, record, place, end)


def _steps(
    row: dict[str, str], record: Record, place: Place, end: int | None
) -> Iterator[dict[str, str]]:
    """The batch step, the extern step, and one for each launch, which repeat the resources."""
    nodes = int(row["NNodes"])
    bare = {
        "User": "",
        "Partition": "",
        "Timelimit": "",
        "Submit": row["Start"],
        "Eligible": row["Start"],
    }
    for name, more in (("batch", 0), ("extern", _STEP_LAG_MS)):
        own = {**row, **bare, "JobName": name, "State": _step_state(row["State"], name)}
        own["JobID"] = own["JobIDRaw"] = f"{row['JobID']}.{name}"
        own["AllocTRES"] = _tres(nodes, record.gpus, with_billing=name == "extern")
        if end is not None and own["State"] == "CANCELLED":
            own["End"] = place.seconds(end + more)
            own["Elapsed"] = _elapsed(record.start or 0, end + more)
        yield own
    if record.steps:
        own = {**row, **bare, "JobName": "torchrun", "State": _step_state(row["State"], "0")}
        own["JobID"] = own["JobIDRaw"] = f"{row['JobID']}.{record.steps - 1}"
        own["AllocTRES"] = _tres(nodes, record.gpus, with_billing=False)
        yield own


def _step_state(state: str, name: str) -> str:
    """A step ends as its work did, whatever is then done with the job."""
    if state in {"RUNNING", "COMPLETED", "OUT_OF_MEMORY", "FAILED"}:
        return "COMPLETED" if name == "extern" and state != "RUNNING" else state
    if state == "REQUEUED":
        return "COMPLETED" if name == "extern" else "FAILED"
    return "COMPLETED" if name == "extern" else "CANCELLED"


def _tres(nodes: int, gpus: int, *, with_billing: bool) -> str:
    cpus, memory = nodes * _CPUS_PER_NODE, nodes * _MEMORY_PER_NODE_GB
    billing = f"billing={gpus}," if with_billing else ""
    return f"{billing}cpu={cpus},gres/gpu:h100={gpus},gres/gpu={gpus},mem={memory}G,node={nodes}"


def node_list(number: int, nodes: int) -> str:
    """Names of `nodes` nodes, as Slurm folds them."""
    first = number % 800 + 1
    return f"node{first:04d}" if nodes == 1 else f"node[{first:04d}-{first + nodes - 1:04d}]"


def first_node(number: int) -> str:
    """The node that runs the batch script."""
    return f"node{number % 800 + 1:04d}"


def _elapsed(start: int, end: int) -> str:
    """`[D-]HH:MM:SS` between two instants, each in whole seconds as Slurm keeps them."""
    days, rest = divmod(end // 1000 - start // 1000, _DAY_S)
    hours, rest = divmod(rest, _HOUR_S)
    minutes, seconds = divmod(rest, _MINUTE_S)
    return (f"{days}-" if days else "") + f"{hours:02d}:{minutes:02d}:{seconds:02d}"
