"""DLRover's events in both formats, and the facts that the real ones show to the eye."""

import datetime as dt
import json
from pathlib import Path

import pytest

from pipelines.ingest.files import RawFile, raw_files
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.recognise import DLROVER
from pipelines.ingest.records import Reading, Reject
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT
from tests.ingest.console_logs import at, told
from tests.ingest.helpers import parse

EVENTS = Path(__file__).parents[2].parent / "shared/data/dlrover-events/events_0.log"
needs_data = pytest.mark.skipif(not EVENTS.is_file(), reason=f"no real events at {EVENTS}")
EIGHT = dt.datetime.fromisoformat("2026-03-01T08:00:00")  # midnight UTC, in Shanghai
SHANGHAI = Sources((SourceRule("", FileSettings(zone="Asia/Shanghai")),))


def event(
    second, name, kind="INSTANT", content=None, *, target="AtorchTrainer", span="ab12", pid=7
):
    time = (EIGHT + dt.timedelta(seconds=second)).isoformat()
    return f"[{time}] [{pid}] [{span}] [{target}] [{name}] [{kind}] {json.dumps(content or {})}"


def rows(*lines, sources=SHANGHAI, name="job/events_3_7.log"):
    """(second, kind, what else it says) of the lines of a file."""
    reading = Reading(
        RawFile(name, name, 1, dt.datetime(2026, 4, 1, tzinfo=dt.UTC)), DEFAULT, sources=sources
    )
    found = []
    for record in DLROVER.parse(iter(enumerate((line.encode() for line in lines), 1)), reading):
        assert not isinstance(record, Reject), record
        _, when, said = record
        assert (said.job_id, said.rank) == ("job/events_3_7", 3)
        names = ("phase", "span_id", "step", "blocking", "outcome", "cause", "host")
        fields = {n: v for n in names if (v := getattr(said, n)) is not None}
        if said.event != "alive":
            found.append(((when - at(0)) / 1000, said.event, fields))
    assert reading.tally.accounted == len(lines)
    return found


def test_steps_saves_and_the_entry_into_the_loop():
    lines = [
        event(0, "#step", "BEGIN", {"global_step": 40}), event(12, "#step", "END", {"global_step": 41}),
        event(13, "#step", "BEGIN", {"global_step": 41}), event(15, "#step", "END", {"global_step": 42}),
        event(100, "#save", "BEGIN", {"global_step": 50}), event(130, "#save", "END", {"global_step": 50}),
        event(131, "#persist_ckpt", "BEGIN", {"global_step": 50}, span="p"),
        event(190, "#persist_ckpt", "END", {"global_step": 50, "success": True}, span="p"),
        event(300, "#step", "BEGIN", {"global_step": 50}, pid=8),
    ]  # fmt: skip
    save = {"phase": "checkpoint_save", "span_id": "ab12"}
    beside = {"phase": "checkpoint_save", "span_id": "p", "blocking": False}
    assert rows(*lines) == [
        (0, "train_begin", {"step": 40}),
        (12, "step", {"step": 41}),
        (15, "step", {"step": 42}),
        (100, "step", {"step": 50}),
        (100, "phase_begin", save),
        (130, "phase_end", save),
        (131, "phase_begin", beside),
        (190, "phase_end", beside),
        (190, "checkpoint_durable", {"step": 50}),
        (300, "train_begin", {"step": 50}),
    ]


def test_agents_and_masters():
    master = "dlrover-master"
    lines = [
        event(0, "#start", target=master),
        event(1, "#rendezvous", "BEGIN", {"rendezvous_type": "network-check", "round_num": 0}, target=master, span="n"),
        event(9, "#rendezvous", "END", {"rendezvous_type": "network-check", "round_num": 0}, target=master, span="n"),
        event(9, "#rendezvous", "BEGIN", {"rendezvous_type": "elastic-training"}, target=master, span="e"),
        event(19, "#rendezvous", "END", {"rendezvous_type": "elastic-training"}, target=master, span="e"),
        event(50, "#process_restart", content={"errmsg": {}, "node_name": "gpu-3", "restart_round": 1}),
        event(60, "#pod_change", content={"to_state": "Running"}, target=master),
        event(70, "#exit", content={"reason": "WorkerOOM"}, target=master),
    ]  # fmt: skip
    assert rows(*lines) == [
        (0, "attempt_started", {}),
        (1, "phase_begin", {"phase": "hardware_setup", "span_id": "n"}),
        (9, "phase_end", {"phase": "hardware_setup", "span_id": "n"}),
        (9, "phase_begin", {"phase": "launcher_init", "span_id": "e"}),
        (19, "phase_end", {"phase": "launcher_init", "span_id": "e"}),
        (50, "interruption", {"cause": "unknown", "host": "gpu-3"}),
        (70, "attempt_ended", {"outcome": "failed", "cause": "out_of_memory"}),
    ]


def test_the_json_format_says_the_same():
    said = {"event_id": "ab12", "event_time": "2026-03-01T08:00:12", "target": "T", "name": "#step",
            "event_type": "BEGIN", "content": {"global_step": 4}}  # fmt: skip
    assert rows(json.dumps(said)) == rows(event(12, "#step", "BEGIN", {"global_step": 4}))


def test_on_a_console_among_other_lines():
    line = event(12, "#step", "BEGIN", {"global_step": 4})
    lines = [f"{EIGHT} Starting worker group torchelastic", line]
    assert (12, "train_begin", {"step": 4}) in told(*lines, zone="Asia/Shanghai")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (event(0, "#step"), "the time 2026-03-01 08:00:00 names no zone: declare `zone:` for this file under `sources:`"),
        (event(0, "#step")[:-1], "no DLRover event: Input data was truncated"),
        ('{"event_id": "a", "event_time": "x", "name": "n", "event_type": "MIDDLE"}', "event_type is 'MIDDLE': expected BEGIN, END or INSTANT"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(line, reason):
    (reject,) = parse(DLROVER, line).rejects
    assert reject.reason == reason


@needs_data
def test_the_real_events_show_a_slow_first_step_and_two_saves():
    sources = Sources((SourceRule("", FileSettings(zone="UTC")),))
    found = [
        r
        for b in read_files([files_batch(raw_files([EVENTS]))], DEFAULT, sources)
        for r in b.to_pylist()
    ]
    (file,) = [r for r in found if r["record"] == "file"]
    assert (file["source"], file["event_line_count"], file["reject_count"]) == ("dlrover", 11, 0)
    marks = [
        (r["event"], r["step"], r["event_at"])
        for r in found
        if r["event"] in ("train_begin", "step")
    ]
    assert [(kind, step) for kind, step, _ in marks] == [
        ("train_begin", 177018), ("step", 177019), ("step", 177020), ("step", 177021),
        ("step", 177215), ("step", 177413),
    ]  # fmt: skip
    assert int((marks[1][2] - marks[0][2]).total_seconds()) == 1346  # 23:31:09 to 23:53:35
    edges = [r["event_at"] for r in found if r["phase"] == "checkpoint_save"]
    assert [
        round((e - b).total_seconds(), 1) for b, e in zip(edges[::2], edges[1::2], strict=True)
    ] == [91.6, 91.0]
