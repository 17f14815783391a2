"""Traces small enough to read, and the facts that the real ones show to the eye."""

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.files import RawFile
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.recognise import TORCH_TRACE
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT
from tests.ingest.helpers import parse, read

DATA = Path(__file__).parents[2].parent / "shared/data/torch-trace-tlparse"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real traces at {DATA}")
T = 1748626360000000  # 2025-05-30T17:32:40Z in us: the instant of every stamp 17:32:40 below
FILE = RawFile(
    "/logs/run7/dedicated_log_torch_trace_rank_3_x1.log",
    "run7/dedicated_log_torch_trace_rank_3_x1.log",
    1,
    dt.datetime(2025, 6, 1, tzinfo=dt.UTC),
)


def record(second, head, payload=None, *, compile_id=(0, 0, 0), rank=None):
    """A record as torch._logging writes it; its stamp is 17:32:40 and `second`."""
    frame, compile_, attempt = compile_id
    ids = {"frame_id": frame, "frame_compile_id": compile_, "attempt": attempt}
    head = head | ({"rank": rank} if rank is not None else {}) | ids
    stamp = f"V0530 17:32:{40 + second:09.6f} 1234 torch/_dynamo/utils.py:1] "
    lines = [] if payload is None else json.dumps(payload, indent=0).split("\n")
    return stamp + json.dumps(head) + "\n" + "".join(f"\t{line}\n" for line in lines)


def timer(second, name, ph, **ids):
    event = {"name": name, "ph": ph, "ts": T + second * 1e6, "args": {}, "pid": 0}
    return record(second, {"chromium_event": {}}, event, **ids)


def artifact(second, name, payload, **ids):
    return record(second, {"artifact": {"name": name, "encoding": "json"}}, payload, **ids)


def metrics(second, kind="compilation_metrics", ids=None, **fields):
    return record(second, {kind: fields}, **(ids or {}))


def phases(text, file=FILE):
    """(begin, end, span, attrs) of every compile: seconds after 17:32:40, None: no end."""
    begins, ends = {}, {}
    for event in parse(TORCH_TRACE, text, file=file).events:
        assert (event["job_id"], event["phase"]) == ("run7", "compile")
        at = (event["at"] - T // 1000) / 1000
        if event["event"] == "phase_begin":
            begins[event["span_id"], event["line"]] = at, event.get("attrs", {})
        else:
            ends[event["span_id"], event["line"]] = at
    return [(at, ends.get(k), k[0], attrs) for k, (at, attrs) in sorted(begins.items())]


FORWARD = {"pass": "forward"}


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        pytest.param(
            {"start_time": T / 1e6 + 1.5, "entire_frame_compile_time_s": 2.25},
            (1.5, 3.75),
            id="2.3",
        ),
        pytest.param(
            {"start_time_us": T + 1_500_500, "end_time_us": T + 3_751_500, "duration_us": 9},
            (1.5, 3.752),  # half to even
            id="2.6",
        ),
        pytest.param(
            {"start_time_us": T + 1_000_000, "duration_us": 500_000}, (1, 1.5), id="start"
        ),
    ],
)
def test_versions_say_begin_and_end_in_different_fields(fields, window):
    assert phases(metrics(5, **fields)) == [(*window, "0/0/0", FORWARD)]


def test_without_times_in_the_metrics_the_timer_tells_them():
    text = (
        timer(1, "dynamo", "B") + timer(2, "entire_frame_compile", "B")
        + timer(2.5, "backend_compile", "B") + timer(8, "backend_compile", "E")
        + artifact(8, "fx_graph_cache_miss", {"key": "f"}) + timer(9, "entire_frame_compile", "E")
        + metrics(9.5, dynamo_cumulative_compile_time_us=7_000_000, co_name="fn", fail_type=None)
    )  # fmt: skip
    attrs = {"co_name": "fn", "fx_graph_cache": "miss", "cache_hit": "false"} | FORWARD
    assert phases(text) == [(2, 9, "0/0/0", attrs)]
    # Of eight lines is a timer's record, of four the cache's; three of the timers tell nothing.
    tally = parse(TORCH_TRACE, text, file=FILE).tally
    assert (tally.event_line_count, tally.ignored_count) == (8 + 8 + 4 + 1, 24)


def test_a_recompilation_says_why_and_its_backward_is_told_apart():
    again, start = {"compile_id": (4, 2, 1)}, {"start_time_us": T, "end_time_us": T + 1_000_000}
    text = (
        artifact(0, "recompile_reasons", ["4/1: size 3, not 2", "4/0: size 3, not 1"], **again)
        + metrics(1, ids=again, inductor_fx_remote_cache_hit_count=1, **start)
        + metrics(1, "bwd_compilation_metrics", again, is_forward=False, **start)
        + metrics(1, ids=again, recompile_reason="4/1: rank", restart_reasons=["a", "b"], **start)
    )
    first, backward, second = phases(text)
    assert first[2:] == ("4/2/1", {
        "reason": "4/1: size 3, not 2; 4/0: size 3, not 1", "recompilation": "true",
        "fx_graph_remote_cache": "hit", "cache_hit": "true", "pass": "forward",
    })  # fmt: skip
    assert backward[3] == {"recompilation": "true", "pass": "backward"}
    assert second[3]["reason"] == "4/1: rank"
    assert second[3]["restart_reasons"] == '["a","b"]'


def test_a_failure_is_said_of_the_phase_and_is_no_interruption():
    text = metrics(3, start_time_us=T, duration_us=9000, fail_type="Unsupported", fail_reason="no")
    assert phases(text) == [
        (0, 0.009, "0/0/0", {"fail_type": "Unsupported", "fail_reason": "no"} | FORWARD)
    ]


def test_a_compile_that_the_process_did_not_survive_has_no_end():
    text = timer(2, "entire_frame_compile", "B", compile_id=(7, 0, 0))
    assert phases(text) == [(2, None, "7/0/0", {})]
    (note,) = parse(TORCH_TRACE, text, file=FILE).tally.notes
    assert "compiles without metrics" in note


def test_the_rank_is_the_records_then_the_files():
    text = metrics(1, start_time_us=T, duration_us=1)
    said = parse(TORCH_TRACE, text + metrics(1, ids={"rank": 0}, start_time_us=T, duration_us=1), file=FILE)  # fmt: skip
    assert [event["rank"] for event in said.events] == [3, 3, 0, 0]
    assert said.tally.notes == [
        "the file is named for rank 3, its records say rank 0: the records are believed"
    ]


@pytest.mark.parametrize(
    ("modified", "zone", "begin"),
    [
        pytest.param("2025-06-01", "UTC", "2025-05-30T17:32:40", id="the year of the file"),
        pytest.param("2026-01-02", "UTC", "2025-05-30T17:32:40", id="the year before"),
        pytest.param("2025-06-01", "America/Los_Angeles", "2025-05-31T00:32:40", id="summer time"),
        pytest.param("2025-06-01", None, None, id="no zone"),
    ],
)
def test_where_only_the_stamp_tells_the_time_the_zone_must_be_declared(
    tmp_path, modified, zone, begin
):
    path = tmp_path / "trace.log"
    path.write_text(metrics(3, entire_frame_compile_time_s=3.0))
    file = RawFile(str(path), "trace.log", 1, dt.datetime.fromisoformat(modified + "T00:00+00:00"))
    sources = Sources((SourceRule("trace", FileSettings(zone=zone)),))
    rows = [
        row
        for batch in read_files([files_batch([file])], DEFAULT, sources)
        for row in batch.to_pylist()
    ]
    events = [row for row in rows if row["record"] == "event"]
    if begin is None:
        (reject,) = [row for row in rows if row["record"] == "reject"]
        assert "declare `zone:`" in reject["reason"]
        assert not events
    else:
        assert next(e["event_at"].isoformat()[:19] for e in events) == begin
        assert json.loads(events[0]["attrs"])["clock"] == "stamp"


def test_a_stamp_is_placed_by_the_last_absolute_time_before_it():
    east = timer(0, "x", "B").replace("V0530 17", "V0531 01")  # the process runs in UTC+8
    text = east + metrics(10, backward_cumulative_compile_time_us=4_000_000).replace(
        "V0530 17", "V0531 01"
    )
    assert phases(text) == [(6, 10, "0/0/0", {"clock": "stamp"} | FORWARD)]


def test_what_is_broken_costs_its_record_and_says_why():
    good = metrics(1, start_time_us=T, duration_us=1_000_000)
    broken = timer(2, "entire_frame_compile", "B").replace('\t"ph": "B",\n', '\t"ph": \n')
    torn = metrics(3, start_time_us=T)[:-20] + "\n"
    text = "\torphan\n" + good + broken + torn + "\n" + metrics(4, co_name="fn") + "V0530 17:3"
    result = parse(TORCH_TRACE, text, file=FILE)
    reasons = {reject.line: reject.reason for reject in result.rejects}
    assert len(result.events) == 2
    assert reasons[1].startswith("a payload without its record")
    assert {reasons[n].partition(":")[0] for n in range(3, 11)} == {
        "the payload of a chromium_event is not JSON"
    }
    assert reasons[11].startswith("a record is not JSON")
    assert reasons[13].startswith("the time 2025-05-30")  # no duration either
    assert reasons[14].startswith("no record of a trace")
    assert result.tally.ignored_count == 1  # the blank line


@given(st.lists(st.sampled_from([
    metrics(1, start_time_us=T, duration_us=5), timer(1, "entire_frame_compile", "B"),
    timer(2, "entire_frame_compile", "E"), metrics(3), "\t}\n", "\n", "V0530 25:61:00.000000 1 a] {}\n",
    artifact(1, "recompile_reasons", {"no": "list"}), 'V0530 17:32:40.000000 1 a] {"rank": "x"}\n',
    metrics(1, start_time_us="x", duration_us=[]), metrics(1, start_time_us=T + 9, end_time_us=T),
    timer(1, "fx_graph_cache_hit", "i"), record(1, {"dynamo_start": {"stack": []}}),
])))  # fmt: skip
def test_every_line_is_accounted_for(records):
    parse(TORCH_TRACE, "".join(records), file=FILE)  # asserts that the tally adds up


@needs_data
def test_the_real_traces():
    found = read(DATA)
    files = {f["source_file"]: f for f in found["file"] if f["source_file"].endswith(".log")}
    assert {f["source"] for f in files.values()} == {"torch_trace"}
    for f in files.values():
        assert f["line_count"] == f["event_line_count"] + f["reject_count"] + f["ignored_count"]
    # Only one trace was corrupted: the record of lines 13 to 23.
    assert [(r["source_file"], r["source_line"]) for r in found["reject"]] == [
        ("simple_corrupted_json.log", n) for n in range(13, 24)
    ]
    assert sum(f["event_count"] for f in files.values()) == 2 * 26  # `grep -c`: 26 metrics


@needs_data
@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        # entire_frame_compile, by the timer: 1733527101913985.8 - 1733527100254653.2 us
        ("simple.log", [1.659]),
        # start_time + entire_frame_compile_time_s: 0.0124, 0.0072, 0.0034 s
        ("comp_metrics.log", [0.013, 0.007, 0.003]),
        # start_time_us to end_time_us: ..648146320 to ..656751330, ..656754745 to ..657185016
        ("dedicated_log_torch_trace_rank_0_6u3fubwl.log", [8.605, 0.43]),
        # the first of seven compiles took 10.28 s, six recompilations 32 to 46 ms
        ("dedicated_log_torch_trace_rank_3.log", [10.283, 0.043, 0.046, 0.04, 0.032, 0.038, 0.037]),
    ],
)
def test_the_seconds_that_real_traces_show(name, seconds):
    events = read(DATA / name)["event"]
    begins = [e["event_at"] for e in events if e["event"] == "phase_begin"]
    ends = [e["event_at"] for e in events if e["event"] == "phase_end"]
    lengths = [(end - begin).total_seconds() for begin, end in zip(begins, ends, strict=True)]
    assert lengths == pytest.approx(seconds, abs=0.0015)


@needs_data
def test_reasons_and_caches_of_real_traces():
    def attrs(name):
        events = read(DATA / name)["event"]
        return [json.loads(e["attrs"]) for e in events if e["event"] == "phase_begin"]

    caches = [a.get("cache_hit") for a in attrs("cache_hit_miss.log")]
    assert caches == [None, "false", None, "true", None, "false"]
    first, *others = attrs("dedicated_log_torch_trace_rank_3.log")
    assert "reason" not in first
    assert [a["reason"].split(". ")[1] for a in others] == [
        f"expected {n}, actual {n + 1}" for n in range(2, 8)
    ]
    (failed,) = attrs("comp_failure.log")
    assert failed["fail_type"] == "BackendCompilerFailed"
