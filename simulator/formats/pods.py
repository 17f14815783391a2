"""The pods of a launch: bound to nodes, their hosts set up, their containers run and ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.formats.objects import (
    Change,
    Object,
    Owner,
    condition,
    instant,
    pod_spec,
    pods_of,
    uid,
)
from simulator.scenario import phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.story import Launch

_SCHEDULING, _SETUP = phase("scheduling"), phase("hardware_setup")
_SYNC_EACH_MS = 6 * 3_600_000
_NODES = 500
_KILLED, _ERROR = 143, 1
_EVICTIONS = {
    Cause.NODE_LOST: "DeletionByTaintManager",
    Cause.PREEMPTION: "PreemptionByScheduler",
}


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one launch; `ended` None: as far as anybody knows they run on."""

    owner: Owner
    launch: Launch
    ended: int | None

    def changes(self, as_of: int) -> Iterator[Change]:
        """Each pod when it ended, or as it stood at two moments; and Events about them."""
        syncs = [*range(self.launch.start + _SYNC_EACH_MS, as_of, _SYNC_EACH_MS)[:1], as_of]
        for index in range(pods_of(self.launch.gpus)):
            pod = self._pod(index)
            for at in syncs if self.ended is None else (self.ended,):
                yield at, "pods", pod
        yield from self._events()

    def _pod(self, index: int) -> Object:
        labels = {"batch.kubernetes.io/job-completion-index": str(index)}
        if self.owner.kind == "JobSet":
            labels["jobset.sigs.k8s.io/jobset-name"] = self.owner.name
            labels["jobset.sigs.k8s.io/restart-attempt"] = str(self.launch.number)
        node = (self.owner.one.index * 7 + index) % _NODES
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self.owner.owned(self._name(index), self.launch.start, **labels),
            "spec": {"nodeName": f"gpu-{node:03d}", **pod_spec()},
            "status": self._status(),
        }

    def _name(self, index: int) -> str:
        suffix = uid(f"{self.owner.name}{self.launch.number}")[:5]
        return f"{self.owner.name}-worker-{index}-{suffix}"

    def _events(self) -> Iterator[Change]:
        """Of many pods at one moment one Event, with their count."""
        about = "Pod", self._name(0)
        count = pods_of(self.launch.gpus)
        for reason, at, text in (
            ("Scheduled", self._bound, "Successfully assigned to a node"),
            ("Pulling", self._begun, 'Pulling image "registry.local/megatron:25.09"'),
            ("Started", self._running, "Started container trainer"),
        ):
            if at is not None:
                yield self.owner.event(at, about, reason, text, count)

    @property
    def _bound(self) -> int | None:
        """When they were bound to nodes; on hardware kept at once."""
        ends = {s.phase: s.end for s in self.launch.spans}
        return ends.get(_SCHEDULING, self.launch.start)

    @property
    def _begun(self) -> int | None:
        """When the hosts began to set up."""
        return next((s.begin for s in self.launch.spans if s.phase == _SETUP), None)

    @property
    def _running(self) -> int | None:
        """When the containers ran."""
        return next((s.end for s in self.launch.spans if s.phase == _SETUP), None)

    def _status(self) -> Object:
        running = self._running
        told: Object = {"phase": self._phase(), "conditions": list(self._conditions())}
        if self._begun is not None:
            told["startTime"] = instant(self._begun)
        if running is not None:
            told["containerStatuses"] = [self._container(running)]
        return told

    def _conditions(self) -> Iterator[Object]:
        bound, running, ended = self._bound, self._running, self.ended
        if bound is not None:
            yield condition("PodScheduled", "True", bound)
        if running is not None:
            yield condition("Initialized", "True", running)
            since = running if ended is None else ended
            yield condition("Ready", "True" if ended is None else "False", since)
        if ended is not None and (reason := self._eviction()):
            yield condition("DisruptionTarget", "True", ended, reason, f"Eviction: {reason}")

    def _eviction(self) -> str | None:
        """Why somebody else ended them, if somebody did."""
        cause = Cause(self.launch.cause) if self.launch.cause else Cause.UNKNOWN
        if self.launch.outcome is Outcome.PREEMPTED or cause is Cause.NODE_LOST:
            return _EVICTIONS.get(cause, "EvictionByEvictionAPI")
        return None

    def _phase(self) -> str:
        if self.ended is None:
            return "Pending" if self._running is None else "Running"
        return "Succeeded" if self.launch.outcome is Outcome.SUCCEEDED else "Failed"

    def _container(self, running: int) -> Object:
        state: Object = {"running": {"startedAt": instant(running)}}
        if self.ended is not None:
            is_good = self.launch.outcome is Outcome.SUCCEEDED
            is_own = self.launch.outcome is Outcome.FAILED
            ended: Object = {"exitCode": 0 if is_good else _ERROR if is_own else _KILLED}
            ended["reason"] = "Completed" if is_good else "Error"
            ended |= {"startedAt": instant(running), "finishedAt": instant(self.ended)}
            state = {"terminated": ended}
        return {"name": "trainer", "restartCount": 0, "ready": self.ended is None, "state": state}
