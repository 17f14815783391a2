"""The parts that Kubernetes objects share: metadata, conditions, containers, instants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.formats.story import Story
    from simulator.intents import Intent

Object = dict[str, Any]
Change = tuple[int, str, Object]
"""When (epoch ms), the kind of file that keeps it, and the object as it was from then on."""

GPUS_PER_POD = 8
LABEL = "ettledger/job"
_IMAGE = "registry.local/megatron:25.09"
_VERSIONS = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
}


@dataclass(frozen=True, slots=True)
class Owner:
    """The job that all objects belong to; each of the usual kinds occurs."""

    one: Intent
    told: Story

    @property
    def name(self) -> str:
        """Its name, which is that of the job."""
        return self.told.job_id

    @property
    def created(self) -> int:
        """When it was submitted."""
        return self.told.submitted or 0

    @property
    def is_publishing(self) -> bool:
        """Is it the job that only publishes a model?"""
        return self.told.job_id != self.one.job_id

    @property
    def kind(self) -> str:
        """Its kind."""
        if self.is_publishing:
            return "Job"
        return "PyTorchJob" if self.one.index % 3 == 0 else "JobSet"

    @property
    def version(self) -> str:
        """The version of the API that has this kind."""
        return _VERSIONS[self.kind]

    @property
    def pods(self) -> int:
        """Pods as asked for."""
        return 1 if self.is_publishing else pods_of(self.one.gpus)

    def meta(self, name: str, created: int, **labels: str) -> Object:
        """The metadata of one of its objects."""
        return {
            "name": name,
            "namespace": self.one.team,
            "uid": uid(f"{name}/{created}"),
            "creationTimestamp": instant(created),
            "labels": {LABEL: self.told.job_id, **labels},
        }

    def owned(self, name: str, created: int, **labels: str) -> Object:
        """The metadata of an object that refers to the job."""
        reference: Object = {"apiVersion": self.version, "kind": self.kind, "name": self.name}
        reference |= {"uid": uid(f"{self.name}/{self.created}"), "controller": True}
        return {**self.meta(name, created, **labels), "ownerReferences": [reference]}

    def event(
        self, at: int, about: tuple[str, str], reason: str, message: str, count: int
    ) -> Change:
        """An Event about (kind, name), `count` times at one moment."""
        kind, name = about
        meta = self.meta(f"{name}.{uid(f'{name}{reason}{at}')[:18]}", at)
        thing = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": meta,
            "involvedObject": {"kind": kind, "namespace": self.one.team, "name": name},
            "reason": reason,
            "message": message,
            "type": "Normal",
            "firstTimestamp": instant(at),
            "lastTimestamp": instant(at),
            "count": count,
        }
        return at, "events", thing


def pods_of(gpus: int) -> int:
    """Pods for so many accelerators."""
    return -(-gpus // GPUS_PER_POD)


def condition(kind: str, status: str, at: int, reason: str = "", message: str = "") -> Object:
    """One of `.status.conditions`."""
    own: Object = {"type": kind, "status": status, "lastTransitionTime": instant(at)}
    return own | ({"reason": reason, "message": message} if reason else {})


def pod_spec() -> Object:
    """What a pod runs, and on how many accelerators."""
    gpus = {"nvidia.com/gpu": str(GPUS_PER_POD)}
    resources = {"limits": gpus, "requests": gpus}
    container = {"name": "trainer", "image": _IMAGE, "resources": resources}
    return {"containers": [container], "restartPolicy": "Never"}


def uid(seed: str) -> str:
    """A name that only `seed` has."""
    digest = sha256(seed.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def instant(at_ms: int) -> str:
    """An instant as Kubernetes writes it: whole seconds, UTC."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
