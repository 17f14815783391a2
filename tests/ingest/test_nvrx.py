"""Cycle lines of ft_launcher as its profiler writes them, and the cycle files beside them."""

import json

from pipelines.ingest.recognise import NVRX
from tests.ingest.console_logs import at, clock, read, told
from tests.ingest.helpers import parse
from tests.ingest.helpers import read as read_path

NODE = "gpu-1.cluster"


def cycle(second, number, word, node=f"{NODE}_812_0", rank=0):
    """shared_utils/profiling.py, with the prefix of shared_utils/log_manager.py."""
    head = f"{clock(second)},000 [INFO] [{NODE}] [workload:0(0) infra:0(0)] profiling.py:171 "
    time = f"{clock(second)}.250"
    return f"{head}  - Cycle: {number} Event: {word} Node: {node} Rank: {rank} Time: {time} UTC"


def test_a_cycle_of_start_failure_and_restart():
    lines = [
        cycle(0, 0, "rendezvous_started"), cycle(4, 0, "health_check_completed"),
        cycle(9, 0, "rendezvous_completed"), cycle(9, 0, "worker_start_started"),
        cycle(11, 0, "worker_start_completed"), cycle(90, 1, "failure_detected"),
        cycle(95, 1, "worker_terminated"), cycle(96, 1, "rendezvous_started"),
    ]  # fmt: skip
    met, start, gone = (
        {"phase": phase, "span_id": span, "host": NODE}
        for phase, span in (
            ("launcher_init", "rendezvous"), ("launcher_init", "worker start"),
            ("restart_gap", "termination"),
        )
    )  # fmt: skip
    check = {"phase": "hardware_setup", "span_id": "health check", "host": NODE}
    assert told(*lines, zone="Asia/Tokyo") == [  # the lines' own clock is UTC, whatever the zone
        (0.25, "phase_begin", met),
        (0.25, "phase_begin", check),
        (4.25, "phase_end", check),
        (9.25, "phase_end", met),
        (9.25, "phase_begin", start),
        (11.25, "phase_end", start),
        (90.25, "interruption", {"cause": "unknown", "host": NODE}),
        (90.25, "phase_begin", gone),
        (95.25, "phase_end", gone),
        (96.25, "phase_begin", met),
    ]


def test_a_summary_repeats_the_same_events():
    line = cycle(90, 1, "failure_detected")
    events, _, _ = read(f"{line}\n=== Restart Cycle 1 Profiling Summary ===\n{line}\n")
    failures = [
        {k: v for k, v in e.items() if k != "line"} for e in events if e["event"] == "interruption"
    ]
    assert failures[0] == failures[1]
    assert failures[0]["attrs"] == {"cycle": "1", "word": "failure_detected", "group_rank": "0"}


def info(number, begin, end="", **more):
    """fault_tolerance/cycle_info_writer.py: protobuf's JSON, indented."""
    told_of = {"job_id": "4711", "attempt_index": 1, "cycle_number": number, "generation": 1,
               "cycle_start_time": begin, "cycle_end_time": end, "active_nodes": "gpu-[1-2]"}  # fmt: skip
    return json.dumps(told_of | more, indent=2)


def test_a_cycle_file_after_the_first_tells_of_a_restart(tmp_path):
    (tmp_path / "cycle_info.4711.1.0").write_text(
        info(0, "2026-03-01T00:00:10Z", "2026-03-01T00:01:30Z")
    )
    (tmp_path / "cycle_info.4711.1.1").write_text(info(1, "2026-03-01T00:02:00.5Z"))
    rows = read_path(tmp_path)
    assert [(f["source"], f["event_line_count"]) for f in rows["file"]] == [("nvrx", 1)] * 2
    told_of = [
        (e["job_id"], e["event"], e["cause"], int(e["event_at"].timestamp() * 1000))
        for e in rows["event"]
    ]
    assert told_of == [
        ("4711", "alive", None, at(10)),
        ("4711", "alive", None, at(90)),
        ("4711", "interruption", "unknown", at(120.5)),
    ]


def test_a_cycle_file_without_a_time_is_a_reject():
    (reject,) = parse(NVRX, info(1, "")).rejects
    assert reject.reason == 'cycle_start_time is "": expected RFC 3339 with a zone'
