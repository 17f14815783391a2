"""Objects as the API gives them: what each tells, however often and in what wrapping it comes."""

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.files import RawFile
from pipelines.ingest.identity import Identity
from pipelines.ingest.recognise import KUBERNETES, recognise
from pipelines.ingest.records import Reading, Reject
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT
from tests.ingest.console_logs import DAY, at
from tests.ingest.helpers import read as read_path

FILE = RawFile("objects.json", "objects.json", 1, dt.datetime(2026, 4, 1, tzinfo=dt.UTC))
GPU = {"containers": [{"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}


def z(second):
    return f"{DAY + dt.timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}"


def meta(name, second=0, *, owner=None, **more):
    found = {"name": name, "namespace": "ads", "uid": f"uid-{name}", "creationTimestamp": z(second)}
    if owner:
        found["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return found | more


def condition(kind, second, status="True", reason="", message=""):
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": z(second),
        "reason": reason,
        "message": message,
    }


def thing(kind, metadata, spec=None, conditions=(), **status):
    return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "spec": spec or {},
            "status": {"conditions": list(conditions), **status}}  # fmt: skip


def read(*things, settings=None):
    """Events, rejects and the tally of documents that follow one another."""
    text = "\n".join(t if isinstance(t, str) else json.dumps(t, indent=1) for t in things).encode()
    reading = Reading(FILE, DEFAULT, sources=Sources((SourceRule("", settings or FileSettings()),)))
    units = KUBERNETES.units([text], reading.tally.refuse)
    found = list(KUBERNETES.parse(iter(units), reading))
    assert reading.tally.accounted == units.count
    return (
        [r for r in found if not isinstance(r, Reject)],
        [r for r in found if isinstance(r, Reject)],
        reading.tally,
    )


NAMES = ("gpus", "phase", "outcome", "cause", "host", "rank", "priority", "model")


def told(*things, **how):
    """(second, kind, what else it says), in order of time."""
    events, rejects, _ = read(*things, **how)
    assert rejects == []
    rows = [
        (
            (when - at(0)) / 1000,
            said.event,
            {n: v for n in NAMES if (v := getattr(said, n)) is not None},
        )
        for _, when, said in events
    ]
    return sorted(rows, key=lambda row: row[0])


def jobs(*things, **how):
    return {said.job_id for _, _, said in read(*things, **how)[0]}


WORKLOAD_SPEC = {
    "priorityClassName": "high",
    "queueName": "q",
    "podSets": [{"count": 4, "template": {"spec": GPU}}],
}


def workload(*conditions, **status):
    return thing(
        "Workload",
        meta("pytorchjob-llm-1a2b", owner=("PyTorchJob", "llm")),
        WORKLOAD_SPEC,
        conditions,
        **status,
    )


def test_a_workload_is_queued_admitted_preempted_and_admitted_again():
    scrapes = [
        workload(),
        workload(condition("QuotaReserved", 60), condition("Admitted", 65)),
        workload(
            condition("Admitted", 500, "False"),
            condition("Evicted", 500, reason="Preempted", message="to accommodate a workload"),
        ),
        workload(
            condition("Admitted", 900), condition("Evicted", 900, "False", reason="QuotaReserved")
        ),
        workload(condition("Admitted", 900), condition("Finished", 990, reason="Succeeded")),
    ]
    assert jobs(*scrapes) == {"ads/llm"}
    rows = [row for row in told(*scrapes) if row[1] != "job_submitted"]
    start = {"gpus": 32, "priority": "high"}
    assert rows == [
        (65, "attempt_started", start),
        (500, "attempt_ended", {"outcome": "preempted", "cause": "preemption"}),
        (900, "attempt_started", start),
        (900, "attempt_started", start),  # the same fact of two scrapes: equal lines count once
        (990, "attempt_ended", {"outcome": "succeeded"}),
        (990, "job_finished", {"outcome": "succeeded"}),
    ]


def test_the_quota_that_was_granted_counts_before_what_was_asked_for():
    admission = {"podSetAssignments": [{"resourceUsage": {"nvidia.com/gpu": "24", "cpu": "8"}}]}
    (row,) = [
        r
        for r in told(workload(condition("Admitted", 65), admission=admission))
        if r[1] == "attempt_started"
    ]
    assert row[2]["gpus"] == 24


def replicas(count, spec=GPU):
    return {"replicas": count, "template": {"spec": spec}}


@pytest.mark.parametrize(
    ("kind", "spec", "gpus"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(3)}}, 32),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": replicas(1, {"containers": [{}]}), "Worker": replicas(2)}}, 16),
        ("Job", {"parallelism": 5, "template": {"spec": GPU}}, 40),
        ("JobSet", {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3, "template": {"spec": GPU}}}}]}, 48),
        ("Job", {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "4"}}}]}}}, None),
    ],
)  # fmt: skip
def test_accelerators_of_a_job_are_those_of_all_its_pods(kind, spec, gpus):
    rows = told(thing(kind, meta("llm"), spec, startTime=z(5)))
    assert [row[2].get("gpus") for row in rows if row[1] == "attempt_started"] == [gpus]


@pytest.mark.parametrize(
    ("conditions", "status", "ends"),
    [
        ([condition("Succeeded", 90)], {"completionTime": z(88)}, (88, {"outcome": "succeeded"})),
        ([condition("Complete", 90)], {}, (90, {"outcome": "succeeded"})),
        ([condition("Failed", 90, reason="BackoffLimitExceeded")], {}, (90, {"outcome": "failed", "cause": "unknown"})),
        ([condition("Failed", 90, reason="DeadlineExceeded")], {}, (90, {"outcome": "timed_out", "cause": "timeout"})),
    ],
)  # fmt: skip
def test_how_a_job_ends(conditions, status, ends):
    rows = told(thing("PyTorchJob", meta("llm"), {}, conditions, startTime=z(5), **status))
    when, said = ends
    assert rows[-2:] == [(when, "attempt_ended", said), (when, "job_finished", said)]


def test_a_job_deleted_before_its_end_was_cancelled():
    rows = told(thing("JobSet", meta("llm", deletionTimestamp=z(70)), {}))
    assert rows[-1] == (70, "job_finished", {"outcome": "cancelled", "cause": "cancelled"})


def test_a_restart_of_the_operator_is_an_interruption():
    restarting = condition("Restarting", 70, reason="PyTorchJobRestarting")
    rows = told(thing("PyTorchJob", meta("llm"), {}, [restarting], startTime=z(5)))
    assert rows[-1] == (70, "interruption", {"cause": "unknown"})


def test_a_job_that_waits_for_kueue_has_not_started():
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    things = [
        thing("JobSet", meta("a", **queued), {}),
        thing("JobSet", meta("b"), {"suspend": True}),
        thing("JobSet", meta("c", **queued), {}, [condition("Suspended", 3)]),
        thing("PyTorchJob", meta("d", **queued), {}, [condition("Suspended", 3)]),
    ]
    assert {row[1] for row in told(*things)} == {"job_submitted"}
    resumed = thing("JobSet", meta("a", **queued), {}, [condition("Suspended", 40, "False")])
    assert told(resumed)[-1][:2] == (40, "attempt_started")


def pod(
    name="llm-worker-0",
    *,
    state=None,
    conditions=None,
    owner=("PyTorchJob", "llm"),
    restarts=0,
    last=None,
    **status,
):
    containers = [
        {"name": "trainer", "restartCount": restarts, "state": state or {}, "lastState": last or {}}
    ]
    bound = [condition("PodScheduled", 20)] if conditions is None else conditions
    return thing("Pod", meta(name, 5, owner=owner), {"nodeName": "gpu-17", **GPU}, bound,
                 startTime=z(21), containerStatuses=containers, **status)  # fmt: skip


def ended(code, second, reason="Error", begun=80):
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": z(begun),
            "finishedAt": z(second),
        }
    }


SET_UP = [
    (5, "phase_begin", {"phase": "scheduling"}),
    (20, "phase_end", {"phase": "scheduling"}),
    (21, "phase_begin", {"phase": "hardware_setup"}),
    (80, "phase_end", {"phase": "hardware_setup"}),
]


def test_a_pod_is_bound_and_set_up():
    assert told(pod(state={"running": {"startedAt": z(80)}})) == SET_UP
    assert (
        told(pod(conditions=[condition("PodScheduled", 9, "False")])) == []
    )  # it waits: not told yet
    assert told(pod(state={"waiting": {"reason": "ContainerCreating"}})) == SET_UP[:2]


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        ({"state": ended(137, 300, "OOMKilled")}, "out_of_memory"),
        ({"state": ended(137, 300)}, "unknown"),  # SIGKILL: by whom is not said
        ({"state": ended(143, 300), "reason": "NodeLost"}, "node_lost"),
        ({"state": ended(143, 300), "reason": "Evicted", "message": "The node was low on resource: memory."}, "out_of_memory"),
        ({"state": ended(143, 300), "reason": "DeadlineExceeded"}, "timeout"),
        ({"conditions": [condition("DisruptionTarget", 300, reason="PreemptionByScheduler")]}, "preemption"),
        ({"conditions": [condition("DisruptionTarget", 300, reason="DeletionByTaintManager")]}, "node_lost"),
        ({"conditions": [condition("DisruptionTarget", 300, reason="EvictionByEvictionAPI")]}, "unknown"),
    ],
)  # fmt: skip
def test_why_a_pod_failed(made, cause):
    assert told(pod(**made))[-1] == (300, "interruption", {"cause": cause, "host": "gpu-17"})


def test_a_container_that_was_started_again_keeps_its_first_start():
    again = {"running": {"startedAt": z(310)}}
    rows = told(pod(state=again, last=ended(1, 300), restarts=1))
    assert rows == [*SET_UP, (300, "interruption", {"cause": "unknown", "host": "gpu-17"})]
    hidden = told(pod(state=again, last=ended(1, 300, begun=200), restarts=2))
    assert [row for row in hidden if row[2].get("phase") == "hardware_setup"] == []


def test_a_pod_of_its_own_is_a_job_and_a_pod_that_serves_is_none():
    rows = told(pod("lone", owner=None, state=ended(0, 300, "Completed"), phase="Succeeded"))
    assert (20, "attempt_started", {"gpus": 8}) in rows
    assert rows[-1] == (300, "job_finished", {"outcome": "succeeded"})
    assert told(pod("web-1", owner=("ReplicaSet", "web"))) == []


def test_a_job_of_a_job_set_speaks_of_its_part_only():
    part = thing(
        "Job",
        meta("llm-w-0", owner=("JobSet", "llm")),
        {"parallelism": 1},
        [condition("Failed", 70, reason="PodFailurePolicy")],
    )
    assert told(part) == [(70, "interruption", {"cause": "unknown"})]
    assert jobs(part) == {"ads/llm"}


@pytest.mark.parametrize(
    "labels",
    [
        {"jobset.sigs.k8s.io/jobset-name": "llm", "job-name": "llm-w-0"},
        {"training.kubeflow.org/job-name": "llm"},
        {"batch.kubernetes.io/job-name": "llm"},
    ],
)
def test_a_pod_belongs_to_the_outermost_job_that_its_labels_name(labels):
    one = pod(owner=("Job", "llm-w-0"))
    one["metadata"]["labels"] = labels
    assert jobs(one) == {"ads/llm"}


def about(kind, name, reason, *, first=300, last=None, **more):
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta("e"), "reason": reason, "message": "m",
            "involvedObject": {"kind": kind, "namespace": "ads", "name": name},
            "firstTimestamp": z(first), "lastTimestamp": z(last or first), "count": 3} | more  # fmt: skip


def test_events_tell_of_interruptions_at_their_first_and_last_time():
    rows = told(about("PyTorchJob", "llm", "PyTorchJobRestarting", first=300, last=500))
    assert rows == [
        (300, "interruption", {"cause": "unknown"}),
        (500, "interruption", {"cause": "unknown"}),
    ]
    newer = about("PyTorchJob", "llm", "Preempted") | {
        "eventTime": z(310),
        "firstTimestamp": None,
        "lastTimestamp": None,
    }
    newer["regarding"] = newer.pop("involvedObject")
    assert told(newer) == [(310, "interruption", {"cause": "preemption"})]


def test_an_event_about_a_pod_is_its_jobs_once_the_pod_was_seen():
    event = about("Pod", "llm-worker-0", "OOMKilling")
    assert jobs(pod(), event) == {"ads/llm"}
    _, _, tally = read(event)
    assert tally.ignored_count == 1
    assert tally.notes == [
        "Events about objects whose job this file does not tell are ignored: list the objects too"
    ]


def test_events_that_repeat_what_objects_say_are_ignored():
    _, _, tally = read(
        about("Pod", "llm-worker-0", "Scheduled"), about("Workload", "w", "Admitted")
    )
    assert (tally.event_line_count, tally.ignored_count) == (0, 2)


THINGS = [workload(condition("Admitted", 65)), pod(state={"running": {"startedAt": z(80)}})]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"apiVersion": "v1", "items": THINGS, "kind": "List", "metadata": {}}, indent=4),
        json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{k: v for k, v in t.items() if k not in ("kind", "apiVersion")} for t in THINGS]}),
        json.dumps(THINGS),
        "\n".join(json.dumps({"type": "MODIFIED", "object": t}) for t in THINGS),
        "\n".join(json.dumps(t) for t in THINGS),
    ],
    ids=["kubectl", "raw list", "array", "watch", "lines"],
)  # fmt: skip
def test_the_wrapping_does_not_matter(tmp_path, text):
    (tmp_path / "objects.json").write_text(text)
    rows = read_path(tmp_path)
    (file,) = rows["file"]
    assert (file["source"], file["event_line_count"], file["reject_count"]) == ("kubernetes", 2, 0)
    assert len(rows["event"]) == len(told(*THINGS)) == 6


def test_labels_join_and_name_the_dimensions():
    labelled = pod()
    labelled["metadata"]["labels"] = {"run": "rec-42"}
    job = thing(
        "PyTorchJob", meta("llm", labels={"run": "rec-42", "model": "ranker"}), {}, startTime=z(5)
    )
    settings = FileSettings(
        identity=Identity(field="label:run", cluster="heron"), mapping={"model": "label:model"}
    )
    events, _, _ = read(labelled, job, workload(), settings=settings)  # the workload's owner has it
    assert {(said.job_id, said.cluster) for _, _, said in events} == {("rec-42", "heron")}
    assert {said.model for _, _, said in events if said.event == "attempt_started"} == {"ranker"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kind": "Job", "metadata": {"name": "a", "creationTimestamp": "soon"}}', 'creationTimestamp is "soon": expected RFC 3339 with a zone'),
        ('{"kind": "Pod", "metadata": NaN}', "no object: JSON is malformed: invalid character (byte 28)"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(text, reason):
    _, (reject,), _ = read(text)
    assert reject.reason == reason


def test_messages_of_kubectl_before_the_objects_are_rejects():
    text = "Warning: v1 ComponentStatus is deprecated\n" + json.dumps(thing("Job", meta("a")))
    assert recognise([text.encode()])[0] == KUBERNETES
    events, _, tally = read(text)
    assert [said.event for _, _, said in events] == ["job_submitted"]
    assert [reject.reason for reject in tally.refused] == ["text between JSON documents"]


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from([z(5), "True"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["kind", "metadata", "status", "conditions", "type", "name", "spec", "state", "terminated",
                         "containerStatuses", "containers", "resources", "limits", "items", "ownerReferences", "labels"]),
        inner, max_size=4,
    ),
    max_leaves=15,
)  # fmt: skip


@given(
    st.sampled_from(["Pod", "Job", "PyTorchJob", "JobSet", "Workload", "Event"]), _ODD, _ODD, _ODD
)
def test_odd_objects_are_events_rejects_or_ignored(kind, metadata, spec, status):
    read(
        {"kind": kind, "metadata": metadata, "spec": spec, "status": status, "involvedObject": spec}
    )
