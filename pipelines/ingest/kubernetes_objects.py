"""A Kubernetes object taken apart: its names, owner, conditions, containers and accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from pipelines.ingest.records import RejectError
from pipelines.ingest.times import shown, timestamp_ms

Part = Mapping[str, Any]

JOBS = frozenset(
    {"Job", "JobSet", "TrainJob"}
    | {"PyTorchJob", "TFJob", "MPIJob", "JAXJob", "PaddleJob", "XGBoostJob"}
)
"""Kinds that are a job of their own."""
WORKLOAD, POD, EVENT = "Workload", "Pod", "Event"

GPU_RESOURCES = frozenset(
    {
        "nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi", "gpu.intel.com/i915",
        "gpu.intel.com/xe", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice",
        "huawei.com/Ascend910",
    }
)  # fmt: skip
"""Resources that count whole accelerators."""

# Owners of pods that serve, and do not train.
_SERVICES = frozenset({"ReplicaSet", "DaemonSet", "StatefulSet", "Node"})

# Labels that name the job of a pod, the outermost first, and those that number it.
_JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "kueue.x-k8s.io/pod-group-name",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_INDEX_LABELS = (
    "jobset.sigs.k8s.io/job-global-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
)
# `kubectl get --raw` gives lists whose items do not name their kind: the member tells.
_KIND_BY_MEMBER = (
    ("containers", POD),
    ("pytorchReplicaSpecs", "PyTorchJob"),
    ("replicatedJobs", "JobSet"),
    ("podSets", WORKLOAD),
)
_LONGEST_FIELD = 256
MOST_GPUS = 1_000_000


class Condition(NamedTuple):
    """One of `.status.conditions`: is it so, and since when (epoch ms; None: it does not say)."""

    is_true: bool
    at: int | None
    reason: str
    message: str

    @property
    def attrs(self) -> dict[str, str]:
        """Reason and message, where there are any."""
        told = {"reason": self.reason, "message": self.message[:_LONGEST_FIELD]}
        return {name: text for name, text in told.items() if text}


def part(thing: Any, *path: str) -> Part:
    """The object at a path; empty where there is none."""
    for name in path:
        thing = thing.get(name) if isinstance(thing, dict) else None
    return thing if isinstance(thing, dict) else {}


def text(thing: Part, name: str) -> str:
    """A member that is a string; else the empty string."""
    value = thing.get(name)
    return value if isinstance(value, str) else ""


def entries(thing: Part, name: str) -> Iterator[Part]:
    """The objects in a member that is an array."""
    values = thing.get(name)
    yield from (v for v in values if isinstance(v, dict)) if isinstance(values, list) else ()


def time(thing: Part, name: str) -> int | None:
    """A member that is a time, in epoch ms; None where it is absent. Raises RejectError."""
    if not (word := text(thing, name)):
        return None
    raw = msgspec.json.encode(word)
    try:
        return timestamp_ms(raw)
    except RejectError:
        raise RejectError(f"{name} is {shown(raw)}: expected RFC 3339 with a zone") from None


def count(value: Any) -> int | None:
    """A whole number, also where written as a string; else None."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST_GPUS else None


@dataclass(frozen=True)
class Thing:
    """One object of the API."""

    body: Part

    @cached_property
    def kind(self) -> str:
        """Its kind, by its name or by what only that kind has."""
        if kind := text(self.body, "kind"):
            return kind
        spec = self.spec
        if "involvedObject" in self.body or "regarding" in self.body:
            return EVENT
        if "template" in spec and ("parallelism" in spec or "backoffLimit" in spec):
            return "Job"
        return next((kind for member, kind in _KIND_BY_MEMBER if member in spec), "")

    @property
    def meta(self) -> Part:
        """Its metadata."""
        return part(self.body, "metadata")

    @property
    def spec(self) -> Part:
        """What was asked for."""
        return part(self.body, "spec")

    @property
    def status(self) -> Part:
        """What has become of it."""
        return part(self.body, "status")

    @property
    def name(self) -> str:
        """Its own name."""
        return text(self.meta, "name")

    @property
    def namespace(self) -> str:
        """Its namespace; `default` where it names none."""
        return text(self.meta, "namespace") or "default"

    @property
    def labels(self) -> Part:
        """Its labels."""
        return part(self.meta, "labels")

    @property
    def created(self) -> int | None:
        """When it was created."""
        return time(self.meta, "creationTimestamp")

    @cached_property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the object that controls it."""
        references = list(entries(self.meta, "ownerReferences"))
        for reference in sorted(references, key=lambda r: r.get("controller") is not True):
            return text(reference, "kind"), text(reference, "name")
        return None

    @cached_property
    def is_top(self) -> bool:
        """Is it a job that no other job controls?"""
        return self.kind in JOBS and (self.owner is None or self.owner[0] not in JOBS)

    @cached_property
    def job_name(self) -> str:
        """The name of the job that it belongs to."""
        if self.kind in JOBS and self.is_top:
            return self.name
        labelled = next((text(self.labels, n) for n in _JOB_LABELS if n in self.labels), "")
        return labelled or (self.owner[1] if self.owner else self.name)

    @cached_property
    def is_alone(self) -> bool:
        """Does it belong to no job but itself?"""
        return self.owner is None and self.job_name == self.name

    @property
    def is_of_known_job(self) -> bool:
        """Does it belong to a job whose own object tells of its course?"""
        is_owned = self.owner is not None and self.owner[0] in JOBS
        return is_owned or any(name in self.labels for name in _JOB_LABELS)

    @property
    def is_service(self) -> bool:
        """Is it a pod of no job: one that serves, or a lone one without accelerators?"""
        if self.is_alone:
            return pod_gpus(self.spec) is None
        is_served = self.owner is not None and self.owner[0] in _SERVICES
        return is_served and not self.is_of_known_job

    @cached_property
    def index(self) -> int | None:
        """Which of its job's pods it is."""
        annotations = part(self.meta, "annotations")
        found = (self.labels.get(name, annotations.get(name)) for name in _INDEX_LABELS)
        return next((n for value in found if (n := count(value)) is not None), None)

    @cached_property
    def conditions(self) -> dict[str, Condition]:
        """Its conditions by type. Raises RejectError for a time that cannot be read."""
        return {
            text(c, "type"): Condition(
                text(c, "status") == "True",
                time(c, "lastTransitionTime"),
                text(c, "reason"),
                text(c, "message"),
            )
            for c in entries(self.status, "conditions")
        }

    def since(self, kind: str) -> int | None:
        """Since when a condition holds; None where it does not."""
        found = self.conditions.get(kind)
        return found.at if found and found.is_true else None

    def fields(self) -> dict[str, str]:
        """What joins it to a job: see docs/sources/kubernetes.md."""
        found = {"namespace": self.namespace, "name": self.job_name}
        if self.kind == POD:
            found["pod"] = self.name
        for what, of in (("label", self.labels), ("annotation", part(self.meta, "annotations"))):
            found |= {
                f"{what}:{key}": value
                for key, value in of.items()
                if isinstance(value, str) and len(value) <= _LONGEST_FIELD
            }
        return found


def pod_gpus(spec: Part) -> int | None:
    """The accelerators of one pod of this spec; None where it asks for none."""
    found = []
    for container in entries(spec, "containers"):
        resources = part(container, "resources")
        asked = {**part(resources, "requests"), **part(resources, "limits")}
        found += [n for name in asked if name in GPU_RESOURCES and (n := count(asked[name]))]
    return sum(found) if 0 < sum(found) <= MOST_GPUS else None


def template_gpus(template: Part, pods: int | None) -> int | None:
    """The accelerators of so many pods of a template."""
    each = pod_gpus(part(template, "spec"))
    return None if each is None or pods is None else each * pods
