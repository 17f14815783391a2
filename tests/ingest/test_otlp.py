"""OTLP documents in few words, and the events that their spans tell."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.files import raw_files
from pipelines.ingest.identity import Identity
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.recognise import OTLP, recognise
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT
from tests.ingest.helpers import SOME_FILE, parse

T = 1_764_576_000  # 2025-12-01T08:00:00Z, the zero of every time below


def nano(second):
    return str(T * 10**9 + round(second * 10**9))


def attributes(fields):
    """Attributes as OTLP's JSON types them: integers of 64 bits are strings."""
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    return [
        {"key": k, "value": {kinds[type(v)]: str(v) if type(v) is int else v}}
        for k, v in fields.items()
    ]


def span(name, begin, end=None, *, events=(), status=None, **fields):
    said = {key.replace("__", "."): value for key, value in fields.items()}
    return {
        "traceId": "5b8e", "spanId": "EEE19B7EC3C1B174", "name": name, "kind": 1,
        "startTimeUnixNano": nano(begin), "endTimeUnixNano": "0" if end is None else nano(end),
        "attributes": attributes(said), "events": list(events), "status": status or {},
    }  # fmt: skip


def event(name, second, **fields):
    return {"name": name, "timeUnixNano": nano(second), "attributes": attributes(fields)}


JOB = {"ettledger.job_id": "rec-42"}


def document(*spans, resource=JOB):
    scopes = [{"scope": {"name": "trainer"}, "spans": list(spans)}]
    return {"resource": {"attributes": attributes(resource)}, "scopeSpans": scopes}


def text(*documents):
    """A line as the collector's file exporter writes it."""
    return json.dumps({"resourceSpans": list(documents)}) + "\n"


def told(*documents):
    """(second, kind, *what else it says) of each event."""
    rows = []
    for one in parse(OTLP, text(*documents)).events:
        known = ("line", "at", "event")
        said = {k: v for k, v in one.items() if k not in known}
        assert said.pop("job_id") == "rec-42"
        rows.append(((one["at"] - T * 1000) / 1000, one["event"], said))
    return rows


ID = {"span_id": "eee19b7ec3c1b174"}
SAVE = {"phase": "checkpoint_save"} | ID


def test_a_run_that_traces_itself():
    spans = [
        span("attempt", 1, 90, ettledger__gpus=16, ettledger__model="m", status={"code": 1},
             events=[event("train_begin", 10, step=0), event("step", 40, step=10, samples=640)]),
        span("checkpoint_save", 41, 43.5, ettledger__blocking=False, path="/ckpt/10"),
        span("warm up", 2, 9, ettledger__phase="compile", ettledger__rank=3),
    ]  # fmt: skip
    assert told(document(*spans)) == [
        (1, "attempt_started", {"gpus": 16, "model": "m"}),
        (90, "attempt_ended", {"outcome": "succeeded", "attrs": {"status": "ok"}}),
        (10, "train_begin", {"step": 0}),
        (40, "step", {"step": 10, "samples": 640}),
        (41, "phase_begin", SAVE | {"blocking": False, "attrs": {"path": "/ckpt/10"}}),
        (43.5, "phase_end", SAVE | {"blocking": False}),
        (2, "phase_begin", {"phase": "compile", "rank": 3} | ID),
        (9, "phase_end", {"phase": "compile", "rank": 3} | ID),
    ]


@pytest.mark.parametrize(
    ("resource", "key"),
    [
        ({"service.name": "trainer"}, ("trainer", None, None, None, None)),
        (
            {"service.name": "t", "slurm.job_id": "812", "slurm.cluster.name": "eos",
             "process.rank": "7", "host.name": "n3", "ettledger.attempt": 2},
            ("812", "eos", 2, 7, "n3"),
        ),
        ({"k8s.job.name": "pretrain", "k8s.node.name": "n4"}, ("pretrain", None, None, None, "n4")),
    ],
)  # fmt: skip
def test_who_speaks_is_told_by_the_resource(resource, key):
    begin, _ = parse(OTLP, text(document(span("compile", 1, 2), resource=resource))).events
    assert tuple(begin.get(n) for n in ("job_id", "cluster", "attempt", "rank", "host")) == key


@pytest.mark.parametrize(
    ("status", "fields", "kinds"),
    [
        ({"code": "STATUS_CODE_ERROR", "message": "NCCL"}, {"ettledger__cause": "network"},
         [("interruption", None, "network"), ("attempt_ended", "failed", "network")]),
        ({"code": 2}, {"ettledger__outcome": "preempted"},
         [("interruption", None, None), ("attempt_ended", "preempted", None)]),
        ({}, {}, [("attempt_ended", None, None)]),
    ],
)  # fmt: skip
def test_how_an_attempt_ended_is_its_status_unless_it_says_more(status, fields, kinds):
    found = told(document(span("attempt", 0, 5, status=status, **fields)))[1:]
    assert [(kind, said.get("outcome"), said.get("cause")) for _, kind, said in found] == kinds


def test_an_error_of_a_phase_is_no_interruption_and_what_runs_on_has_no_end():
    failed = span("compile", 1, 2, status={"code": 2, "message": "boom"})
    rows = told(document(failed, span("evaluation", 3), span("job", 0, ettledger__team="a")))
    assert [(at, kind) for at, kind, _ in rows] == [
        (1, "phase_begin"), (2, "phase_end"), (3, "phase_begin"), (0, "job_submitted"),
    ]  # fmt: skip
    assert rows[0][2]["attrs"] == {"status": "error", "status_message": "boom"}
    assert rows[3][2]["team"] == "a"


@pytest.mark.parametrize(
    ("nanoseconds", "ms"),
    [
        ('"1764576000000500000"', 1764576000000),  # half to even
        ('"1764576000001500000"', 1764576000002),
        ("1764576000001500001", 1764576000002),
    ],
)
def test_nanoseconds_are_rounded_half_to_even(nanoseconds, ms):
    line = text(document(span("compile", 0))).replace(f'"{nano(0)}"', nanoseconds)
    (begin,) = parse(OTLP, line).events
    assert begin["at"] == ms


def read(path, line, settings):
    path.write_text(line)
    batches = read_files(
        [files_batch(raw_files([path]))], DEFAULT, Sources((SourceRule("otlp", settings),))
    )
    return [row for batch in batches for row in batch.to_pylist()]


def test_the_site_says_what_its_spans_are_and_learns_what_it_could_map(tmp_path):
    spans = [span("ckpt.write", 1, 3), span("train_step", 3, 4, step=7), span("forward", 3, 4)]
    mapping = {"ckpt.write": "checkpoint_save", "train_step": "step"}
    rows = read(
        tmp_path / "otlp.jsonl",
        text(document(*spans, span("forward", 5, 6))),
        FileSettings(mapping=mapping),
    )
    said = [(r["event"], r["phase"], r["step"]) for r in rows if r["record"] == "event"]
    assert said == [
        ("phase_begin", "checkpoint_save", None), ("phase_end", "checkpoint_save", None),
        ("step", None, 7),
    ]  # fmt: skip
    (file,) = [r for r in rows if r["record"] == "file"]
    assert (file["source"], file["event_line_count"], file["reject_count"]) == ("otlp", 1, 0)
    assert file["note"] == "spans ignored, `mapping:` can say what they are: forward (2)"


def test_a_field_of_the_resource_joins_it_to_a_job(tmp_path):
    pods = [document(span("compile", n, n + 1), resource={"service.name": "trainer", "k8s.pod.name": f"p{n}"}) for n in (1, 2)]  # fmt: skip
    joined = {"p1": {"job_id": "a", "attempt": "4"}, "p2": {"job_id": "b"}}
    identity = Identity(field="pod", join=joined, join_file="pods.csv")
    rows = read(tmp_path / "otlp.jsonl", text(*pods), FileSettings(identity=identity))
    jobs = [(r["job_id"], r["attempt"]) for r in rows if r["event"] == "phase_begin"]
    assert jobs == [("a", 4), ("b", None)]


def test_a_span_that_cannot_be_read_costs_itself_and_its_document_says_so():
    bad = [
        span("x", 1, 2, ettledger__phase="chekpoint_save"),
        span("step", 1, 2),
        span("compile", 5, 4),
    ]
    line = text(document(*bad, span("compile", 1, 2)), document(span("other", 1)))
    result = parse(
        OTLP, line + text(document(span("compile", 1), resource={})) + '{"resourceSpans"'
    )
    assert [e["event"] for e in result.events] == ["phase_begin", "phase_end"]
    first, second, torn = result.rejects
    assert first.reason == (
        "span 'x': unknown phase 'chekpoint_save': did you mean 'checkpoint_save'?; "
        "span 'step': step missing: a step event needs it; "
        "span 'compile': it ends 1000 ms before it begins (the rest of it told 2 events)"
    )
    assert second.reason.startswith("span 'compile': no attribute names the job")
    assert torn.reason.startswith("the rest of the file is lost")
    assert result.tally.ignored_count == 1


@pytest.mark.parametrize(
    "begin",
    [b'{"resourceSpans":[', b'\xef\xbb\xbf{\n  "resourceSpans" : [', b'[{"resourceSpans":[', b'{"resourceMetrics":[]}\n'],
)  # fmt: skip
def test_otlp_is_known_by_its_begin(begin):
    known, _ = recognise(iter([begin]))
    assert known is OTLP


VALUES = st.sampled_from([
    {"stringValue": "compile"}, {"intValue": "12"}, {"intValue": "x"}, {"intValue": "9" * 30},
    {"boolValue": True}, {"doubleValue": "NaN"}, {"doubleValue": 1.5}, {"arrayValue": {"values": []}}, {},
    {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": 1}}]}}, {"intValue": []}, None,
])  # fmt: skip
KEYS = st.sampled_from(
    [f"ettledger.{n}" for n in ("phase", "rank", "step", "blocking", "gpus", "outcome", "job_id")]
)
SPANS = st.fixed_dictionaries(
    {"name": st.sampled_from(["attempt", "job", "step", "compile", "other"])},
    optional={
        "startTimeUnixNano": st.sampled_from([nano(1), 0, -1, "x", None, "9" * 40, 1.5e18]),
        "endTimeUnixNano": st.sampled_from([nano(2), "0", "", None]),
        "status": st.sampled_from([{"code": 2}, {"code": "?"}, [], {}]),
        "attributes": st.lists(st.fixed_dictionaries({"key": KEYS, "value": VALUES}), max_size=3),
        "events": st.just([{"name": "step", "timeUnixNano": nano(1)}]),
    },
)


@given(st.lists(st.lists(SPANS, max_size=3), max_size=3))
def test_every_document_is_accounted_for(documents):
    line = text(*(document(*spans) for spans in documents))
    result = parse(OTLP, line, file=SOME_FILE)  # asserts that the tally adds up
    assert result.tally.line_count == len(documents)


def test_spans_and_a_compile_trace_are_accounted_as_one_job(tmp_path):
    """The attempt of 100 s by its spans; of the first step, 20 s are the compile of rank 1."""
    from pipelines import spot
    from tests.ingest import test_torch_trace as trace

    second = trace.T // 10**6 - T
    run = [
        span("attempt", second - 10, second + 90, ettledger__gpus=8, status={"code": 1}),
        span("compile", second - 10, second, ettledger__blocking=False),
        span("loop", second, events=[
            event("train_begin", second, step=0), event("step", second + 30, step=1),
            event("step", second + 40, step=2), event("step", second + 50, step=3),
            event("step", second + 60, step=4),
        ]),
    ]  # fmt: skip
    (tmp_path / "spans.jsonl").write_text(text(document(*run, resource={"service.name": "run7"})))
    folder = tmp_path / "run7"
    folder.mkdir()
    compiled = trace.metrics(
        25, start_time_us=trace.T + 5_000_000, end_time_us=trace.T + 25_000_000, ids={"rank": 1}
    )
    (folder / "dedicated_log_torch_trace_rank_1_ab.log").write_text(compiled)
    (job,) = spot.account_paths([str(tmp_path)], as_of_ms=(T + second + 10**6) * 1000).jobs
    assert (job["job_id"], job["wall_ms"], job["hidden_ms"]) == (
        "run7",
        100_000,
        {"compile": 10_000},
    )
    assert job["components"] == {
        "compile": 20_000, "effective_training": 40_000, "teardown": 30_000, "unattributed": 10_000,
    }  # fmt: skip
