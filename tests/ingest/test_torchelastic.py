"""Agents' words of every generation, and the real elastic run of 4, 2 and 3 workers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest import torchelastic
from pipelines.ingest.listener import Context, Line
from pipelines.ingest.recognise import TORCHELASTIC_EVENTS, format_of_line
from pipelines.ingest.records import Reading
from pipelines.ingest.torchelastic import TorchElastic
from pipelines.taxonomy import DEFAULT
from tests.ingest.console_logs import at, read, told
from tests.ingest.helpers import SOME_FILE, jsonl, parse

DATA = Path(__file__).parents[2].parent / "shared/data"
RUN, QUOTES = DATA / "torchelastic-k8s", DATA / "log-quotes"
needs_data = pytest.mark.skipif(not RUN.is_dir(), reason=f"no real logs at {DATA}")
SERVER = "torch/distributed/elastic/agent/server/api.py"
PROCESSES = "torch/distributed/elastic/multiprocessing/api.py"


def glog(second, text, *, level="I", pid=4242, where=SERVER):
    """A line of PyTorch's own logging: no year, no zone."""
    minute, rest = divmod(second, 60)
    return f"{level}0301 00:{int(minute):02}:{rest:09.6f} {pid} {where}:525] {text}"


def met(second, world, *, restarts=0, first=0, **how):
    """A rendezvous of agents with eight workers each, and their start."""
    ranks = list(range(first, first + 8))
    lines = [
        "[default] Rendezvous complete for workers. Result:",
        f"  restart_count={restarts}", "  master_addr=gpu-1", "  group_rank=0",
        f"  group_world_size={world // 8}", f"  global_ranks={ranks}",
        f"  global_world_sizes={[world] * 8}", "", "[default] Starting worker group",
    ]  # fmt: skip
    return [glog(second, line, **how) for line in lines]


def launched(second, **how):
    return [
        glog(second, "[default] starting workers for entrypoint: python3", **how),
        glog(second, "[default] Rendezvous'ing worker group", **how),
    ]


def restarted(second, why):
    return [
        glog(second, f"[default] {why}; will restart worker group"),
        glog(second, "[default] Stopping worker group"),
        glog(second + 5, "[default] Rendezvous'ing worker group"),
    ]


FAILED = "Worker group FAILED. 3/3 attempts left"
EXITED = "failed (exitcode: -9) local_rank: 3 (pid: 77) of binary: python3"
SPAN = {"span_id": "agent 4242"}


def phase(name):
    return {"phase": name, **SPAN}


def test_a_failure_and_a_restart_in_place_have_their_true_ends():
    lines = [
        *launched(0), *met(20, 16),
        glog(100, "Sending process 78 closing signal SIGTERM", level="W", where=PROCESSES),
        glog(103, EXITED, level="E", where=PROCESSES),
        *restarted(104, FAILED), *met(130, 16, restarts=1),
        glog(500, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish."),
        glog(502, "Done waiting for other agents. Elapsed: 2.1 seconds"),
    ]  # fmt: skip
    assert told(*lines, zone="UTC") == [
        (0, "phase_begin", phase("launcher_init")),
        (0, "attempt_started", {"gpus": 16}),
        (20, "phase_end", phase("launcher_init")),
        (100, "phase_begin", phase("failure_detection")),
        (103, "interruption", {"cause": "unknown"}),
        (104, "phase_end", phase("failure_detection")),
        (104, "phase_begin", phase("restart_gap")),
        (109, "phase_end", phase("restart_gap")),
        (109, "phase_begin", phase("launcher_init")),
        (130, "phase_end", phase("launcher_init")),
        (500, "attempt_ended", {"outcome": "succeeded"}),
        (502, "attempt_ended", {"outcome": "succeeded"}),
    ]


def test_a_launch_that_ended_unheard_in_its_rendezvous_is_no_part_of_the_next():
    """The same process id, as of a script in a container that starts torchrun again."""
    rows = told(*launched(0), *launched(300), *met(320, 16), zone="UTC")
    assert rows == [
        (0, "phase_begin", phase("launcher_init")),
        (0, "attempt_started", {}),
        (0, "phase_end", phase("launcher_init")),
        (300, "interruption", {"cause": "unknown"}),
        (300, "phase_begin", phase("launcher_init")),
        (300, "attempt_started", {"gpus": 16}),
        (320, "phase_end", phase("launcher_init")),
    ]


@pytest.mark.parametrize(
    ("after", "cause", "attrs"),
    [
        (24, "planned", {"world_size": "24", "world_size_before": "16"}),
        (16, "unknown", {"world_size": "16"}),
        (8, "unknown", {"world_size": "8", "world_size_before": "16"}),
    ],
)
def test_nodes_that_waited_are_planned_where_the_world_grew(after, cause, attrs):
    join = restarted(100, "Detected 1 new nodes from group_rank=0")
    events, _, _ = read("\n".join([*launched(0), *met(20, 16), *join, *met(130, after), ""]))
    (joined,) = [e for e in events if e["event"] == "interruption"]
    assert (joined["at"], joined["cause"]) == (at(100), cause)
    assert joined["attrs"] == {"membership": "nodes waited to join", **attrs}
    ends = [e["attrs"] for e in events if e["event"] == "phase_end" and e["at"] == at(130)]
    assert ends == [{**attrs, "restart_count": "0"}]


def test_a_signal_says_neither_who_nor_why():
    lines = [
        *launched(0), *met(20, 8),
        glog(100, "Received Signals.SIGTERM death signal, shutting down workers", level="W"),
        glog(103, "Sending process 78 closing signal SIGTERM", level="W", where=PROCESSES),
    ]  # fmt: skip
    rows = told(*lines, attrs=True)
    assert rows[-2:] == [
        (when, "attempt_ended", {"outcome": "unknown", "attrs": {"signal": "SIGTERM"}})
        for when in (100, 103)
    ]
    assert not [row for row in rows if row[1] == "interruption"]


ROOT = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_00:01:39
  host      : gpu-17
  rank      : 11 (local_rank: 3)
  exitcode  : -9 (pid: 77)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 77
============================================================"""


def test_the_last_failure_names_rank_host_and_signal_and_ends_the_attempt():
    lines = [*launched(0), *met(20, 16), glog(103, EXITED, level="E", where=PROCESSES), ROOT]
    events, _, _ = read("\n".join([*lines, ""]), zone="UTC")
    told_of_end = [e for e in events if e["source"] == "torchelastic"][-3:]
    attrs = {"exit_code": "-9", "signal": "SIGKILL"}
    failed, detected, ended = told_of_end
    assert {k: failed[k] for k in ("at", "rank", "host", "cause", "attrs")} == {
        "at": at(99), "rank": 11, "host": "gpu-17", "cause": "unknown", "attrs": attrs,
    }  # fmt: skip
    assert (detected["event"], detected["phase"]) == ("phase_end", "failure_detection")
    assert (ended["at"], ended["outcome"]) == (at(103), "failed")
    assert ended["attrs"] == {**attrs, "clock": "line before"}


def test_agents_of_one_file_are_told_apart_by_their_process():
    lines = [
        *launched(0), *launched(2, pid=99), *met(20, 16), *met(21, 16, first=8, pid=99),
        glog(90, "[default] Worker group FAILED. 1/3 attempts left; will restart worker group", pid=99),
    ]  # fmt: skip
    starts = [row for row in told(*lines) if row[1] == "attempt_started"]
    assert starts == [
        (0, "attempt_started", {"gpus": 16}),
        (2, "attempt_started", {"gpus": 16, "rank": 8}),
    ]


def test_a_second_launch_in_a_file_is_another_attempt():
    lines = [*launched(0), *met(20, 8), *launched(300, pid=9), *met(310, 8, pid=9)]
    assert [r[0] for r in told(*lines) if r[1] == "attempt_started"] == [0, 300]


def test_every_sentence_holds_a_hint():
    strange = [
        w for w, _ in TorchElastic._sentences if not any(h in w for h in torchelastic._HINTS)
    ]
    assert strange == []


def test_the_name_of_the_rendezvous_joins():
    context = Context(Reading(SOME_FILE, DEFAULT))
    listener = TorchElastic(context)
    for text in ("Starting elastic_operator with launch configs:", "  run_id           : rec-42"):
        listener.hear(Line(1, text, text, at=at(0)))
    assert context.fields == {"torchelastic_run_id": "rec-42"}


_WORDS = st.sampled_from(
    [*launched(0), *met(20, 16), *restarted(100, FAILED), *ROOT.split("\n"), EXITED, "step 3",
     *restarted(200, "Detected 2 new nodes from group_rank=0"), "  rank : x", "global_ranks=[]",
     glog(300, "Received 15 death signal, shutting down workers"), "exitcode  : what", "=" * 40]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=40))
def test_whatever_the_order_of_the_words_an_agent_is_in_one_phase(lines):
    events, _, _ = read("\n".join([*lines, ""]), zone="UTC")
    for agent in ("agent 4242", None):
        edges = [e for e in events if "phase" in e and e.get("span_id") == agent]
        for edge, before in zip(edges, [None, *edges], strict=False):
            is_open = before is not None and before["event"] == "phase_begin"
            if edge["event"] == "phase_end":
                assert is_open
                assert before["phase"] == edge["phase"]


# -- the real run --------------------------------------------------------------------------------


def block(*numbers):
    text = "".join((RUN / f"log_block_{n}.log").read_text() for n in numbers)
    events, rejects, _ = read(text, zone="UTC")
    assert rejects == []
    return [e for e in events if e["source"] == "torchelastic"]


@needs_data
def test_the_elastic_run_went_from_four_workers_to_two_to_three():
    events = [*block(1), *block(2, 3, 4)]
    ends = [e for e in events if e["event"] == "phase_end" and e["phase"] == "launcher_init"]
    assert [e["attrs"]["world_size"] for e in ends] == ["4", "2", "3"]
    begins = [e for e in events if e["event"] == "phase_begin" and e["phase"] == "launcher_init"]
    lengths = [end["at"] - begin["at"] for begin, end in zip(begins, ends, strict=True)]
    assert lengths == [2_103, 30_130, 40_613]
    stops = [
        (e["cause"], e["attrs"]["world_size"]) for e in events if "membership" in e.get("attrs", {})
    ]
    assert stops == [("planned", "3")]
    failures = [
        e for e in events if e["event"] == "interruption" and "membership" not in e.get("attrs", {})
    ]
    assert [e["cause"] for e in failures] == ["unknown"]
    (start,) = [e for e in events if e["event"] == "attempt_started"]
    (end,) = [e for e in events if e["event"] == "attempt_ended"]
    assert (start["gpus"], end["outcome"]) == (4, "succeeded")
    assert end["at"] - start["at"] == 3_751_445


@needs_data
@pytest.mark.parametrize(
    "name", ["torchrun_2.4_sigterm_pytorch-114097.log", "torchrun_2.5_restart_pytorch-147064.log"]
)
def test_quoted_lines_are_read(name):
    events, rejects, tally = read((QUOTES / name).read_bytes(), zone="UTC")
    assert rejects == []
    assert tally.event_line_count == tally.line_count or tally.ignored_count == 0
    assert {e["source"] for e in events} >= {"torchelastic"}


# -- events as JSON ------------------------------------------------------------------------------


def elastic(state, source="AGENT", timestamp=0, **meta):
    told_of = {"run_id": "rec-42", "hostname": "gpu-1", "state": state, "agent_restarts": 1, **meta}
    return {"name": f"torchelastic.worker.status.{state}", "source": source,
            "timestamp": timestamp, "metadata": told_of}  # fmt: skip


def test_events_with_a_time_tell_ends_failures_and_rendezvous():
    error = json.dumps({"message": {"message": "boom", "extraInfo": {"timestamp": "1764576100"}}})
    text = jsonl(
        elastic("RENDEZVOUS", timestamp=1764576010000, duration_ms=4000.0),
        elastic("FAILED", "WORKER", global_rank=3, raw_error=error),
        elastic("FAILED", timestamp=1764576200000, total_run_time=200),
    )
    found = parse(TORCHELASTIC_EVENTS, text)
    rows = [
        (e["at"] - 1764576000000, e["event"], e.get("rank"), e.get("outcome")) for e in found.events
    ]
    assert rows == [
        (6000, "phase_begin", None, None),
        (10000, "phase_end", None, None),
        (100_000, "interruption", 3, None),
        (0, "attempt_started", None, None),
        (200_000, "attempt_ended", None, "failed"),
    ]
    assert {e["job_id"] for e in found.events} == {"rec-42"}


def test_a_timestamp_of_zero_is_no_time_and_no_1970():
    (reject,) = parse(TORCHELASTIC_EVENTS, jsonl(elastic("SUCCEEDED"))).rejects
    assert reject.reason.startswith("timestamp is 0, which is no time")


def test_an_event_on_the_console_has_the_time_of_its_line():
    line = glog(100, json.dumps(elastic("SUCCEEDED")))
    assert told(*launched(0), line)[-1] == (
        100,
        "attempt_ended",
        {"outcome": "succeeded", "host": "gpu-1"},
    )


@needs_data
def test_the_real_events_are_rejects_with_the_reason():
    data = (QUOTES / "torchelastic_events_timestamp0.jsonl").read_bytes()
    assert format_of_line(data.split(b"\n")[0]) is TORCHELASTIC_EVENTS
    found = parse(TORCHELASTIC_EVENTS, data)
    assert (len(found.rejects), found.events) == (2, [])
