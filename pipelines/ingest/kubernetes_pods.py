"""What pods tell: bound to a node, their containers started, failed, and why."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.ingest.kubernetes_objects import Part, Thing, entries, part, pod_gpus, text, time
from pipelines.ingest.listener import Told
from pipelines.taxonomy import Cause, Outcome

_SCHEDULING, _HARDWARE_SETUP = "scheduling", "hardware_setup"

# Reasons of the condition DisruptionTarget, of a pod's status, of a container's end.
CAUSES: dict[str, Cause] = {
    "PreemptionByScheduler": Cause.PREEMPTION,
    "PreemptionByKubeScheduler": Cause.PREEMPTION,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
    "Preempting": Cause.PREEMPTION,
    "Preempted": Cause.PREEMPTION,
    "NodeLost": Cause.NODE_LOST,
    "NodeShutdown": Cause.NODE_LOST,
    "Shutdown": Cause.NODE_LOST,
    "Terminated": Cause.NODE_LOST,
    "DeadlineExceeded": Cause.TIMEOUT,
    "OOMKilled": Cause.OUT_OF_MEMORY,
}
# A kubelet evicts pods of a node that runs low on something, and says on what.
_EVICTED = "Evicted"
_LOW = (("resource: memory", Cause.OUT_OF_MEMORY), ("ephemeral-storage", Cause.STORAGE))


def pod_facts(pod: Thing) -> Iterator[Told]:
    """What a pod tells. Facts that a later scrape would tell otherwise are not told yet.

    The start of an attempt is told by the job's own object, which knows how many pods there are;
    a pod tells it where it is alone, or belongs to something of which nothing is known.
    """
    if pod.is_service:
        return
    yield from _set_up(pod)
    yield from _failures(pod)
    if pod.is_alone:
        yield from _alone(pod)


def _set_up(pod: Thing) -> Iterator[Told]:
    """Created, bound to a node, taken by its kubelet, started."""
    bound, created = pod.since("PodScheduled"), pod.created
    if bound is None:
        return
    if pod.is_alone:
        yield Told("attempt_started", bound, {"gpus": pod_gpus(pod.spec)}, {"pod": pod.name})
    elif not pod.is_of_known_job and pod.index in (0, None):
        # How many pods such a job has, no pod says.
        emitter = {"rank": pod.index, "host": f"pod/{pod.name}"}
        yield Told("attempt_started", bound, emitter, {"pod": pod.name})
    if created is not None:
        yield from _phase(pod, _SCHEDULING, created, bound)
    taken = time(pod.status, "startTime")
    if (started := _first_start(pod)) is not None:
        yield from _phase(pod, _HARDWARE_SETUP, bound if taken is None else taken, started)


def _phase(pod: Thing, phase: str, begin: int, end: int) -> Iterator[Told]:
    span = {"phase": phase, "span_id": text(pod.meta, "uid") or pod.name}
    yield Told("phase_begin", begin, dict(span), {"pod": pod.name})
    yield Told("phase_end", end, dict(span), {"pod": pod.name})


def _first_start(pod: Thing) -> int | None:
    """When the last of its containers was first started; None where a restart has hidden it."""
    starts = []
    for container in entries(pod.status, "containerStatuses"):
        restarts = container.get("restartCount", 0)
        state = part(container, "state" if restarts == 0 else "lastState")
        is_first = restarts in (0, 1)
        told = {**part(state, "running"), **part(state, "terminated")}
        starts.append(time(told, "startedAt") if is_first else None)
    known = [at for at in starts if at is not None]
    return max(known) if known and len(known) == len(starts) else None


def _failures(pod: Thing) -> Iterator[Told]:
    """Its disruption, its containers that failed, each at its own time."""
    disrupted = pod.conditions.get("DisruptionTarget")
    if disrupted and disrupted.is_true and disrupted.at is not None:
        cause = CAUSES.get(disrupted.reason, Cause.UNKNOWN)
        yield _interruption(pod, disrupted.at, cause, disrupted.attrs)
    for container in entries(pod.status, "containerStatuses"):
        for state in ("lastState", "state"):
            ended = part(container, state, "terminated")
            at = time(ended, "finishedAt")
            if at is not None and ended.get("exitCode") != 0:
                yield _interruption(pod, at, *_why(pod, ended))


def _why(pod: Thing, ended: Part) -> tuple[Cause, dict[str, str]]:
    """The cause of a container's end: its own reason, or else the pod's."""
    attrs = {"exit_code": str(ended.get("exitCode"))}
    for reason in (text(ended, "reason"), text(pod.status, "reason")):
        if reason:
            attrs["reason"] = reason
        cause = _evicted(pod) if reason == _EVICTED else CAUSES.get(reason)
        if cause is not None:
            return cause, attrs
    return Cause.UNKNOWN, attrs


def _evicted(pod: Thing) -> Cause:
    message = text(pod.status, "message")
    return next((cause for words, cause in _LOW if words in message), Cause.UNKNOWN)


def _interruption(pod: Thing, at: int, cause: Cause, attrs: dict[str, str]) -> Told:
    node = text(pod.spec, "nodeName") or None
    return Told("interruption", at, {"cause": cause, "host": node}, {**attrs, "pod": pod.name})


def _alone(pod: Thing) -> Iterator[Told]:
    """A pod that nobody owns is a job of its own."""
    if (at := pod.created) is not None:
        yield Told("job_submitted", at, {}, {"kind": pod.kind})
    phase = text(pod.status, "phase")
    if phase not in ("Succeeded", "Failed"):
        return
    ends = [
        (at, part(container, "state", "terminated"))
        for container in entries(pod.status, "containerStatuses")
        if (at := time(part(container, "state", "terminated"), "finishedAt")) is not None
    ]
    if not ends:
        return
    at, ended = max(ends, key=lambda end: end[0])
    outcome, cause = Outcome.SUCCEEDED, None
    if phase == "Failed":
        cause, _ = _why(pod, ended)
        outcome = Outcome.TIMED_OUT if cause is Cause.TIMEOUT else Outcome.FAILED
    for event in ("attempt_ended", "job_finished"):
        yield Told(event, at, {"outcome": outcome, "cause": cause}, {"phase": phase})
