"""What job objects and Kueue's workloads tell: submission, admission, eviction, the end."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.ingest.kubernetes_objects import (
    GPU_RESOURCES,
    MOST_GPUS,
    Condition,
    Part,
    Thing,
    count,
    entries,
    part,
    template_gpus,
    text,
    time,
)
from pipelines.ingest.listener import Told
from pipelines.taxonomy import Cause, Outcome

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

# Types of conditions by which the kinds say that a job is over.
_SUCCEEDED = ("Succeeded", "Complete", "Completed")
_FAILED = ("Failed", "FailureTarget")
_FAILURES: dict[str, tuple[Outcome, Cause]] = {
    "DeadlineExceeded": (Outcome.TIMED_OUT, Cause.TIMEOUT),
}
# Why Kueue takes a workload's quota away -> how the attempt ended, and why.
_EVICTIONS: dict[str, tuple[Outcome, Cause]] = {
    "Preempted": (Outcome.PREEMPTED, Cause.PREEMPTION),
    "NodeFailures": (Outcome.FAILED, Cause.NODE_LOST),
    "MaximumExecutionTimeExceeded": (Outcome.TIMED_OUT, Cause.TIMEOUT),
    "DeactivatedDueToMaximumExecutionTimeExceeded": (Outcome.TIMED_OUT, Cause.TIMEOUT),
    "PodsReadyTimeout": (Outcome.FAILED, Cause.UNKNOWN),
    "ClusterQueueStopped": (Outcome.PREEMPTED, Cause.SCHEDULER),
    "LocalQueueStopped": (Outcome.PREEMPTED, Cause.SCHEDULER),
    "AdmissionCheck": (Outcome.PREEMPTED, Cause.SCHEDULER),
    "Deactivated": (Outcome.CANCELLED, Cause.CANCELLED),
    "InactiveWorkload": (Outcome.CANCELLED, Cause.CANCELLED),
}
_FINISHES = {"Succeeded": Outcome.SUCCEEDED, "Failed": Outcome.FAILED}
_SUCCESS_WORDS = ("finished successfully", "completed successfully")


def job_facts(job: Thing) -> Iterator[Told]:
    """What a Job, JobSet, TrainJob or Kubeflow job tells.

    One that another job controls tells of its failure only: what it says of its own pods is not
    said of the whole.
    """
    if not job.is_top:
        yield from _part_failed(job)
        return
    if (at := job.created) is not None:
        yield Told("job_submitted", at, {}, {"kind": job.kind})
    if (at := _started(job)) is not None:
        # The object's name as emitter puts a workload's admission before it.
        fields = {"gpus": _job_gpus(job), "host": f"{job.kind.lower()}/{job.name}"}
        yield Told("attempt_started", at, fields, {"kind": job.kind})
    restarting = job.conditions.get("Restarting")
    if restarting and restarting.is_true and restarting.at is not None:
        yield Told("interruption", restarting.at, {"cause": Cause.UNKNOWN}, restarting.attrs)
    yield from _suspended(job)
    yield from _over(job)


def _part_failed(job: Thing) -> Iterator[Told]:
    failed = _first(job, _FAILED)
    if failed and failed.at is not None:
        _, cause = _FAILURES.get(failed.reason, (Outcome.FAILED, Cause.UNKNOWN))
        yield Told("interruption", failed.at, {"cause": cause}, {**failed.attrs, "job": job.name})


def _started(job: Thing) -> int | None:
    """When its controller began, or began anew after a suspension: what no later scrape changes."""
    if (at := time(job.status, "startTime")) is not None:
        return at
    suspended = job.conditions.get("Suspended")
    if suspended is not None:
        return None if suspended.is_true else suspended.at
    has_controller_time = job.kind in ("JobSet", "TrainJob")
    if has_controller_time and QUEUE_LABEL not in job.labels and not job.spec.get("suspend"):
        return job.created  # nothing holds back what it creates
    return None


def _suspended(job: Thing) -> Iterator[Told]:
    """A job that had run and is suspended gave its hardware back; why, its workload may know."""
    suspended = job.conditions.get("Suspended")
    has_run = "Running" in job.conditions
    if suspended and suspended.is_true and suspended.at is not None and has_run:
        yield Told("attempt_ended", suspended.at, {"outcome": Outcome.UNKNOWN}, suspended.attrs)


def _first(job: Thing, kinds: tuple[str, ...]) -> Condition | None:
    found = (job.conditions.get(kind) for kind in kinds)
    return next((c for c in found if c and c.is_true), None)


def _over(job: Thing) -> Iterator[Told]:
    """How it ended: by a condition, or deleted before any said so."""
    succeeded, failed = _first(job, _SUCCEEDED), _first(job, _FAILED)
    if succeeded:
        at = time(job.status, "completionTime") or succeeded.at
        yield from _finished(at, Outcome.SUCCEEDED, None, succeeded.attrs)
    elif failed:
        outcome, cause = _FAILURES.get(failed.reason, (Outcome.FAILED, Cause.UNKNOWN))
        yield from _finished(failed.at, outcome, cause, failed.attrs)
    else:
        at, why = time(job.meta, "deletionTimestamp"), {"reason": "deleted"}
        yield from _finished(at, Outcome.CANCELLED, Cause.CANCELLED, why)


def _finished(
    at: int | None, outcome: Outcome, cause: Cause | None, attrs: dict[str, str]
) -> Iterator[Told]:
    if at is None:
        return
    for event in ("attempt_ended", "job_finished"):
        yield Told(event, at, {"outcome": outcome, "cause": cause}, dict(attrs))


def _job_gpus(job: Thing) -> int | None:
    """Accelerators of all its pods; None where some ask for none that is known."""
    spec = job.spec
    if job.kind == "Job":
        pods = count(spec.get("parallelism", 1))
        return _sum(iter([template_gpus(part(spec, "template"), pods)]))
    if job.kind == "JobSet":
        return _sum(_replicated(replicas) for replicas in entries(spec, "replicatedJobs"))
    if job.kind == "TrainJob":
        return None
    groups = (v for k, v in spec.items() if k.endswith("ReplicaSpecs") and isinstance(v, dict))
    return _sum(
        template_gpus(part(group, name, "template"), count(part(group, name).get("replicas", 1)))
        for group in groups
        for name in group
    )


def _replicated(replicas: Part) -> int | None:
    spec = part(replicas, "template", "spec")
    pods, times = count(spec.get("parallelism", 1)), count(replicas.get("replicas", 1))
    each = template_gpus(part(spec, "template"), pods)
    return None if each is None or times is None else each * times


def _sum(numbers: Iterator[int | None]) -> int | None:
    """The sum of those that are known: pods without accelerators stand beside those with.

    None where it is no number that a cluster can have.
    """
    total = sum(n for n in numbers if n is not None)
    return total if 0 < total <= MOST_GPUS else None


def workload_facts(workload: Thing) -> Iterator[Told]:
    """What Kueue tells: the job entered the queue, was admitted, was evicted, is finished."""
    priority = text(workload.spec, "priorityClassName") or None
    queue = text(workload.spec, "queueName")
    attrs = {"queue": queue} if queue else {}
    if (at := workload.created) is not None:
        yield Told("job_submitted", at, {"priority": priority}, dict(attrs))
    if (at := workload.since("Admitted")) is not None:
        fields = {"gpus": _workload_gpus(workload), "priority": priority}
        yield Told("attempt_started", at, fields, dict(attrs))
    evicted = workload.conditions.get("Evicted")
    if evicted and evicted.is_true and evicted.at is not None:
        outcome, cause = _EVICTIONS.get(evicted.reason, (Outcome.UNKNOWN, Cause.UNKNOWN))
        ended = {"outcome": outcome, "cause": cause}
        yield Told("attempt_ended", evicted.at, ended, evicted.attrs)
    finished = workload.conditions.get("Finished")
    if finished and finished.is_true:
        yield from _finished(finished.at, _finish(finished), None, finished.attrs)


def _finish(finished: Condition) -> Outcome:
    """Newer versions say it in the reason, older ones in the message only."""
    if outcome := _FINISHES.get(finished.reason):
        return outcome
    is_success = any(words in finished.message.lower() for words in _SUCCESS_WORDS)
    return Outcome.SUCCEEDED if is_success else Outcome.UNKNOWN


def _workload_gpus(workload: Thing) -> int | None:
    """The quota that was granted; else what its pods ask for."""
    assigned = list(entries(part(workload.status, "admission"), "podSetAssignments"))
    usage = [part(a, "resourceUsage") for a in assigned]
    granted = _sum(count(u[name]) for u in usage for name in u if name in GPU_RESOURCES)
    asked = (
        template_gpus(part(pods, "template"), count(pods.get("count", 1)))
        for pods in entries(workload.spec, "podSets")
    )
    return granted or _sum(asked)
