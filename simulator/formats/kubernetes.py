"""Kubernetes with Kueue: what a watch of the API kept of jobs, workloads and pods, by UTC day."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.formats.objects import Change, Object, Owner, condition, instant, pod_spec, pods_of
from simulator.formats.pods import Pods
from simulator.formats.site import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.story import Allocation, Story
    from simulator.intents import Intent

_HEAD = '{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":['
_EVICTIONS = {
    Outcome.PREEMPTED: ("Preempted", "Preempted to accommodate a workload"),
    Outcome.TIMED_OUT: ("MaximumExecutionTimeExceeded", "exceeding the maximum execution time"),
}
_FAILED = ("PodsReadyTimeout", "At least one pod has failed after start")
_DONE = {
    "JobSet": ("Completed", "AllJobsCompleted"),
    "PyTorchJob": ("Succeeded", "PyTorchJobSucceeded"),
    "Job": ("Complete", "CompletionsReached"),
}
_GAVE_UP = ("Failed", "BackoffLimitExceeded")


@dataclass(slots=True)
class KubernetesLog:
    """Everything that the watch saw, kept until the end of time and then written day by day."""

    as_of: int
    changes: dict[str, list[Change]] = field(default_factory=lambda: defaultdict(list))

    def add(self, one: Intent, told: Story) -> None:
        """Take the objects of one job."""
        if told.submitted is None:
            return
        owner = Owner(one, told)
        own = self.changes[place_of(one).name]
        own += _workload(owner)
        own += _job(owner)
        for allocation in told.allocations:
            for launch in allocation.launches:
                ended = None if _is_lost(owner, allocation) else launch.end
                own += Pods(owner, launch, ended).changes(self.as_of)

    def close(self) -> Iterator[tuple[str, str]]:
        """(file name, text) of each kind of object and UTC day: a list, as kubectl prints it."""
        for cluster, changes in sorted(self.changes.items()):
            files: dict[str, list[Object]] = defaultdict(list)
            for at, kind, thing in sorted(changes, key=lambda change: change[0]):
                if at <= self.as_of:
                    day = datetime.fromtimestamp(at // 1000, UTC)
                    files[f"{cluster}/k8s/{day:%Y-%m-%d}/{kind}.json"].append(thing)
            for name, things in files.items():
                items = ",\n".join(json.dumps(t, separators=(",", ":")) for t in things)
                yield name, f"{_HEAD}\n{items}\n]}}\n"


def _is_lost(owner: Owner, allocation: Allocation) -> bool:
    """Did it die without anybody noticing?"""
    return owner.told.is_lost and allocation is owner.told.allocations[-1]


def _is_final(owner: Owner, allocation: Allocation) -> bool:
    """Does no other allocation follow, nor is one asked for?"""
    is_last = allocation is owner.told.allocations[-1]
    last = allocation.last
    return is_last and bool(last.of("job_finished") or not last.outcome.is_failure)


def _workload(owner: Owner) -> Iterator[Change]:
    """Kueue's object: quota reserved and admitted, evicted and queued again, finished."""
    name = f"{owner.kind.lower()}-{owner.name}"
    conditions: dict[str, Object] = {}

    def changed(at: int, gpus: int | None) -> Change:
        return at, "workloads", _workload_object(owner, name, list(conditions.values()), gpus)

    yield changed(owner.created, None)
    for allocation in owner.told.allocations:
        conditions |= _admitted(conditions, allocation.start)
        yield changed(allocation.start, allocation.gpus)
        about = "Workload", name
        yield owner.event(
            allocation.start, about, "Admitted", "Admitted by ClusterQueue training", 1
        )
        if allocation.end is not None and not _is_lost(owner, allocation):
            conditions |= _ended(owner, allocation, allocation.end)
            is_kept = "Finished" in conditions
            yield changed(allocation.end, allocation.gpus if is_kept else None)


def _workload_object(owner: Owner, name: str, conditions: list[Object], gpus: int | None) -> Object:
    """The workload, with the quota of `gpus` where some was granted."""
    status: Object = {"conditions": conditions}
    if gpus is not None:
        usage = {"nvidia.com/gpu": str(gpus)}
        granted = {"name": "worker", "count": pods_of(gpus), "resourceUsage": usage}
        status["admission"] = {"clusterQueue": "training", "podSetAssignments": [granted]}
    pods = {"name": "worker", "count": owner.pods, "template": {"spec": pod_spec()}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": owner.owned(name, owner.created),
        "spec": {
            "queueName": owner.one.team,
            "priorityClassName": owner.one.priority,
            "active": True,
            "podSets": [pods],
        },
        "status": status,
    }


def _admitted(before: dict[str, Object], at: int) -> dict[str, Object]:
    told = {
        key: condition(key, "True", at, key, f"{key} in ClusterQueue training")
        for key in ("QuotaReserved", "Admitted")
    }
    again = [key for key in ("Evicted", "Requeued") if key in before]
    return told | {key: condition(key, "False", at, "QuotaReserved") for key in again}


def _ended(owner: Owner, allocation: Allocation, end: int) -> dict[str, Object]:
    """Conditions that the end of an allocation changes."""
    last = allocation.last
    if _is_final(owner, allocation):
        reason = "Succeeded" if last.outcome is Outcome.SUCCEEDED else "Failed"
        return {"Finished": condition("Finished", "True", end, reason, "Job finished")}
    is_drained = last.cause == Cause.PLANNED
    reason, message = _FAILED if is_drained else _EVICTIONS.get(last.outcome, _FAILED)
    nothing = "The workload has no reservation"
    return {
        "Evicted": condition("Evicted", "True", end, reason, message),
        "QuotaReserved": condition("QuotaReserved", "False", end, "Pending", message),
        "Admitted": condition("Admitted", "False", end, "NoReservation", nothing),
        "Requeued": condition("Requeued", "True", end, reason, message),
    }


def _job(owner: Owner) -> Iterator[Change]:
    """The job itself when it was created, and when it ended."""
    file = f"{owner.kind.lower()}s"
    labels = {"kueue.x-k8s.io/queue-name": owner.one.team, "ettledger/model": owner.one.model}
    meta = owner.meta(owner.name, owner.created, **labels)
    base = {"apiVersion": owner.version, "kind": owner.kind, "spec": _job_spec(owner)}
    yield owner.created, file, {**base, "metadata": meta, "status": {}}
    last = owner.told.allocations[-1] if owner.told.allocations else None
    if last is None or last.end is None or not _is_final(owner, last):
        return
    status: Object = {}
    if last.last.outcome is Outcome.CANCELLED:
        meta = {**meta, "deletionTimestamp": instant(last.end)}
    else:
        status = _job_status(owner, last, last.end)
    yield last.end, file, {**base, "metadata": meta, "status": status}


def _job_status(owner: Owner, last: Allocation, end: int) -> Object:
    is_good = last.last.outcome is Outcome.SUCCEEDED
    done, reason = _DONE[owner.kind] if is_good else _GAVE_UP
    told: Object = {"conditions": [condition(done, "True", end, reason)]}
    if owner.kind != "JobSet":
        start = instant(owner.told.allocations[0].start)
        told |= {"startTime": start, "completionTime": instant(end)}
    return told


def _job_spec(owner: Owner) -> Object:
    template = {"spec": pod_spec()}
    if owner.kind == "PyTorchJob":
        worker = {"replicas": owner.pods, "restartPolicy": "ExitCode", "template": template}
        return {"pytorchReplicaSpecs": {"Worker": worker}}
    batch = {"parallelism": owner.pods, "completions": owner.pods, "template": template}
    if owner.kind == "Job":
        return batch
    workers = {"name": "workers", "replicas": 1, "template": {"spec": batch}}
    return {"failurePolicy": {"maxRestarts": 100}, "replicatedJobs": [workers]}
