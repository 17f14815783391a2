import json

import pytest

from pipelines.ingest.mllog import job_id
from pipelines.ingest.recognise import MLLOG
from tests import oracle
from tests.ingest.helpers import SOME_FILE, as_lines, parse, read

T = 1745058000000  # the zero of every log below, in ms


def log(*lines):
    """An MLPerf log of (second, key, metadata, value) and of other text."""
    return "".join(line if isinstance(line, str) else mllog(*line) for line in lines)


def mllog(second, key, metadata=None, value=None):
    entry = {"namespace": "", "time_ms": T + round(second * 1000), "event_type": "POINT_IN_TIME",
             "key": key, "value": value, "metadata": {"file": "t.py", "lineno": 1} | (metadata or {})}  # fmt: skip
    return f":::MLLOG {json.dumps(entry)}\n"


def told(text, file=SOME_FILE):
    """The events as (second, kind, *what else it says), without job, attempt and line."""
    rows = []
    for event in parse(MLLOG, text, file=file).events:
        said = {
            k: v for k, v in event.items() if k not in ("line", "at", "event", "job_id", "attempt")
        }
        rows.append(((event["at"] - T) / 1000, event["event"], said))
    return sorted(rows[1:], key=lambda row: row[0])  # without attempt_started


def test_a_run_without_sample_counts_is_one_progress_interval():
    text = log(
        (0, "cache_clear"), (2, "init_start"), (3, "submission_benchmark", {}, "bert"),
        (3, "submission_org", {}, "ACME"), (20, "init_stop"), (21, "run_start"),
        (30, "eval_start", {"epoch_num": 1}), (33, "eval_stop", {"epoch_num": 1}),
        (60, "run_stop", {"status": "success"}), (61, "tracked_stats"),
    )  # fmt: skip
    assert told(text) == [
        (2, "phase_begin", {"phase": "trainer_init"}),
        (20, "phase_end", {"phase": "trainer_init"}),
        (21, "train_begin", {"step": 0}),
        (30, "phase_begin", {"phase": "evaluation"}),
        (33, "phase_end", {"phase": "evaluation"}),
        (60, "step", {"step": 1}),
        (61, "attempt_ended", {"outcome": "succeeded", "attrs": {"status": "success"}}),
    ]
    start = parse(MLLOG, text).events[0]
    assert (start["event"], start["at"], start["line"]) == ("attempt_started", T, 1)
    assert (start["job_id"], start["attempt"]) == ("job", 0)
    assert (start["model"], start["team"]) == ("bert", "ACME")


def steps(*lines):
    """(second, samples, step) of the marks of a run that starts at 10 s."""
    rows = told(log((0, "init_start"), (9, "init_stop"), (10, "run_start"), *lines))
    return [
        (at, said.get("samples"), said["step"])
        for at, kind, said in rows
        if kind in ("train_begin", "step")
    ]


@pytest.mark.parametrize(
    ("lines", "marks"),
    [
        pytest.param(
            [(10, "global_batch_size", {}, 8), (10, "block_start", {"samples_count": 0}),
             (30, "block_stop", {"samples_count": 160}), (30, "eval_start", {"samples_count": 160}),
             (35, "eval_stop", {"samples_count": 160}), (35, "block_start", {"samples_count": 160}),
             (60, "run_stop", {"samples_count": 320, "status": "success"})],
            [(10, 0, 0), (30, 160, 20), (60, 320, 40)],
            id="a block's stop says its end",
        ),
        pytest.param(
            [(10, "block_start", {"samples_count": 0}), (30, "block_stop", {"samples_count": 0}),
             (30, "eval_start", {"samples_count": 160}), (35, "block_start", {"samples_count": 160}),
             (60, "run_stop", {"samples_count": 320.0, "status": "success"})],
            [(10, 0, 0), (30, 160, 1), (60, 320, 2)],
            id="a block's stop says its begin; without a batch size a step is a mark",
        ),
        pytest.param(
            [(10, "block_start", {"samples_count": 50}), (20, "block_stop", {"samples_count": 90})],
            [(10, 50, 0), (20, 90, 1)],
            id="a run that goes on from a checkpoint",
        ),
        pytest.param(
            [(20, "block_stop", {"samples_count": 90}), (40, "block_stop", {"samples_count": 180}),
             (90, "eval_start", {"samples_count": 90}), (95, "eval_stop", {"samples_count": 10240}),
             (30, "run_stop", {"status": "success"})],
            [(10, 0, 0), (20, 90, 1), (40, 180, 2)],
            id="a checkpoint evaluated after the run, and a run_stop dated back",
        ),
        pytest.param(
            [(40, "block_stop", {"samples_count": 180}), (20, "block_stop", {"samples_count": 90}),
             (20, "block_stop", {"samples_count": 90}), (5, "block_stop", {"samples_count": 900})],
            [(10, 0, 0), (20, 90, 1), (40, 180, 2)],
            id="a clock that goes back, ranks that repeat, a mark before the run",
        ),
        pytest.param(
            [(10, "block_start", {"samples_count": 0}), (40, "run_stop", {"status": "success"})],
            [(10, None, 0), (40, None, 1)],
            id="samples that never rise are no position",
        ),
        pytest.param([(20, "block_stop", {"samples_count": "many"})], [(10, None, 0)], id="no number"),
        pytest.param([(5, "run_stop", {"status": "success"})], [(10, None, 0)], id="stops before it starts"),
    ],
)  # fmt: skip
def test_progress_is_where_the_samples_rise(lines, marks):
    assert steps(*lines) == marks


def evaluations(*lines):
    rows = told(log((0, "run_start"), *lines))
    return [(at, kind[6:]) for at, kind, said in rows if said.get("phase") == "evaluation"]


@pytest.mark.parametrize(
    ("lines", "spans"),
    [
        pytest.param(
            [(10, "eval_start", {"epoch_num": 1}), (11, "eval_start", {"epoch_num": 1}),
             (14, "eval_stop", {"epoch_num": 1}), (15, "eval_stop", {"epoch_num": 1})],
            [(10, "begin"), (15, "end")],
            id="ranks fold to the first start and the last stop",
        ),
        pytest.param(
            [(10, "eval_start", {"epoch_num": 1}), (30, "eval_start", {"epoch_num": 2}), (35, "eval_stop")],
            [(10, "begin"), (30, "begin"), (35, "end")],
            id="one that was never closed stays open",
        ),
        pytest.param(
            [(10, "eval_start"), (12, "eval_stop"), (20, "eval_start"), (22, "eval_stop"), (30, "eval_start")],
            [(10, "begin"), (12, "end"), (20, "begin"), (22, "end"), (30, "begin")],
            id="several, the last cut off",
        ),
        pytest.param([(9, "eval_stop")], [(9, "end")], id="a stop alone"),
    ],
)  # fmt: skip
def test_evaluations(lines, spans):
    assert evaluations(*lines) == spans


@pytest.mark.parametrize(
    ("last", "ended"),
    [
        ((50, "run_stop", {"status": "success"}), {"outcome": "succeeded", "attrs": {"status": "success"}}),
        ((50, "run_stop", {"status": "aborted"}), {"outcome": "cancelled", "attrs": {"status": "aborted"}}),
        ((50, "run_stop", {"status": "odd"}), {"outcome": "unknown", "attrs": {"status": "odd"}}),
        ((50, "run_stop"), {}),
        ("Traceback (most recent call last):\n", {"outcome": "failed", "cause": "user_code", "attrs": {"sign": "Traceback (most recent call last)"}}),
        ("Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory\n", {"outcome": "failed", "cause": "out_of_memory", "attrs": {"sign": "OutOfMemoryError"}}),
        ("slurmstepd: *** STEP 1.0 CANCELLED DUE TO TIME LIMIT ***\n", {"outcome": "timed_out", "cause": "timeout", "attrs": {"sign": "DUE TO TIME LIMIT"}}),
        ("all is well\n", None),
    ],
)  # fmt: skip
def test_how_a_run_ended(last, ended):
    rows = told(log((0, "init_start"), (40, "run_start"), last))
    ends = [said for _, kind, said in rows if kind == "attempt_ended"]
    assert ends == ([] if ended is None else [ended])


def test_a_traceback_of_a_run_that_stopped_is_no_failure():
    text = log(
        (0, "run_start"),
        "Traceback (most recent call last):\n",
        (9, "run_stop", {"status": "success"}),
    )
    assert told(text)[-1][2]["outcome"] == "succeeded"


def test_without_run_start_the_entry_is_inferred_from_the_end_of_init():
    rows = told(log((0, "init_start"), (9, "init_stop"), (30, "block_stop", {"samples_count": 90})))
    assert rows[2] == (9, "train_begin", {"step": 0, "samples": 0, "attrs": {"inferred": "true"}})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (':::MLLOG {"time_ms": 0, "key": "cache_clear"}', "time_ms is 0: expected epoch milliseconds"),
        (':::MLLOG {"time_ms": 1745058000, "key": "run_start"}', "time_ms is 1745058000"),
        (':::MLLOG {"time_ms": 1e300, "key": "run_start"}', "time_ms is 1e+300"),
        (':::MLLOG {"time_ms": true, "key": "run_start"}', "time_ms is True"),
        (':::MLLOG {"key": "run_start"}', "time_ms is None"),
        (':::MLLOG {"time_ms": 1745058000000}', "key is None: expected a string"),
        (' 0: :::MLLOG {"time_ms": 1745058000000, "key": "init_sLambda', "a torn :::MLLOG line"),
        (":::MLLOG", "a torn :::MLLOG line"),
        (":::MLLOG [1]", ":::MLLOG is followed by no JSON object"),
        (r':::MLLOG {"time_ms": 1745058000000, "key": "run_start", "value": "\ud800"}', "a torn :::MLLOG line"),
        (':::MLLOG {"time_ms": NaN, "key": "run_start"}', "time_ms is nan"),
        (':::MLLOG {"time_ms": 1, "key": "a"}:::MLLOG {"time_ms": 2, "key": "b"}', "a torn :::MLLOG line"),
    ],
)  # fmt: skip
def test_marked_lines_that_cannot_be_read_are_rejects(line, reason):
    result = parse(MLLOG, line)
    assert result.events == []
    assert result.rejects[0].reason.startswith(reason)


def test_the_logger_s_nan_is_read_and_times_may_be_whole_floats():
    line = ':::MLLOG {"time_ms": 1745058000000.0, "key": "run_stop", "value": NaN, "metadata": {"status": "aborted"}}'
    assert [event["event"] for event in parse(MLLOG, line).events] == [
        "attempt_started",
        "attempt_ended",
    ]


def test_prefixes_and_other_lines_are_ignored_and_counted():
    text = "hello\n  0: " + mllog(0, "run_start") + "[3] " + mllog(5, "seed", {}, 7) + "\nbye"
    tally = parse(MLLOG, text).tally
    assert (tally.event_line_count, tally.reject_count, tally.ignored_count) == (1, 0, 4)


def test_a_power_meter_s_file_has_no_job():
    result = parse(MLLOG, log((0, "power_measurement_start"), (1, "power_reading", {}, 2090)))
    assert (result.events, result.tally.ignored_count) == ([], 2)
    assert result.tally.notes == ["no line of it tells of a run: no job"]


def test_what_is_odd_is_noted():
    text = log((0, "submission_org", {}, "SUBMISSION_ORG_PLACEHOLDER"), (1, "init_stop"))
    result = parse(MLLOG, text)
    assert "team" not in result.events[0]
    assert result.tally.notes == [
        "accelerators unknown: neither '' nor the path nor the ranks tell how many",
        "no init_start: the time before the run is unattributed",
        "no run_start: the entry into the loop is inferred",
        "no run_stop and no sign of a failure: the end is unknown",
        "submission_org is the placeholder SUBMISSION_ORG_PLACEHOLDER",
    ]


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("ACME/results/n8/bert/result_0.txt", "ACME/results/n8/bert/result_0"),
        ("result_0.txt.gz", "result_0"),
        ("result_0.log.zst", "result_0"),
        ("result_0", "result_0"),
    ],
)
def test_the_job_is_the_path_without_the_suffix(name, job):
    assert job_id(name) == job


# -- the real logs -------------------------------------------------------------------------------


def seconds(events, *phases, kinds=("phase_begin", "phase_end")):
    total, begin = 0.0, None
    for event in sorted(events, key=lambda e: (e["event_at"], e["event"] == kinds[0])):
        if event["phase"] in phases and event["event"] == kinds[0]:
            begin = event["event_at"]
        elif event["phase"] in phases and begin:
            total, begin = total + (event["event_at"] - begin).total_seconds(), None
    return total


def real(folder, part):
    (path,) = folder.glob(f"mlperf-training-logs/*{part}*.txt")
    found = read(path)
    return found["event"], found["file"][0]


@pytest.mark.parametrize(
    ("part", "gpus", "init", "run", "evaluation"),
    [
        ("ngpu2496", 2496, 499.098, 1615.551, 91.687),
        ("ngpu64_ngc25.03_hugectr__dlrm_dcnv2__result_0", 64, 21.417, 49.937, 5.366),
        ("eos-dfw_n64", 512, 588.845, 13837.001, 594.927),
        ("Lambda", 32, 0, 513.729, 67.543),
        ("64xBM.GPU.H200.8", 512, 43.916, 116.043, 17.275),
        ("v3.1__NVIDIA__eos_n96", 768, 131.348, 17.641, 0.314),
        ("MI325X_EPYC_9575F_pytorch__llama2_70b_lora__result_0", None, 67.961, 1279.131, 140.936),
    ],
)
def test_real_runs(real_logs, part, gpus, init, run, evaluation):
    events, _ = real(real_logs, part)
    by_kind = {event["event"]: event for event in events}
    assert by_kind["attempt_started"]["gpus"] == gpus
    assert seconds(events, "trainer_init") == pytest.approx(init, abs=1e-6)
    assert seconds(events, "evaluation") == pytest.approx(evaluation, abs=1e-6)
    length = by_kind["attempt_ended"]["event_at"] - by_kind["train_begin"]["event_at"]
    assert length.total_seconds() == pytest.approx(run, abs=0.003)


@pytest.mark.parametrize(
    ("part", "outcome", "cause", "last_step", "note"),
    [
        ("Dell__16xXE9712x4GB200", "failed", "user_code", 2_560_000, "a sign of a failure"),
        ("HPE-Cray", "failed", "user_code", 3_072_000, "a sign of a failure"),
        ("v3.1__NVIDIA__eos_n8", "cancelled", None, None, None),
        ("h200_n8_nemo__stable_diffusion__result_0", "succeeded", None, 1_792_000, "PLACEHOLDER"),
        ("Intel", "succeeded", None, None, "processors, no accelerators"),
    ],
)
def test_real_endings(real_logs, part, outcome, cause, last_step, note):
    events, file = real(real_logs, part)
    (end,) = [event for event in events if event["event"] == "attempt_ended"]
    assert (end["outcome"], end["cause"]) == (outcome, cause)
    assert max(e["samples"] or 0 for e in events if e["event"] == "step") == (last_step or 0)
    assert note is None or note in file["note"]


def test_every_line_of_the_real_logs_is_accounted_for(real_logs):
    found = read(real_logs / "mlperf-training-logs")
    rejects = [(r["source_file"][:9], r["source_line"], r["reason"][:12]) for r in found["reject"]]
    assert rejects == [("v3.1__Int", 1, "time_ms is 0"), ("v4.1__Lam", 779, "a torn :::ML")]
    for file in found["file"]:
        accounted = file["event_line_count"] + file["reject_count"] + file["ignored_count"]
        assert file["line_count"] == accounted, file
    runs = [file for file in found["file"] if file["source"] == "mllog"]
    assert len(runs) == 33
    assert [file["source_file"] for file in runs if not file["event_count"]] == [
        file["source_file"] for file in runs if "power" in file["source_file"]
    ]
    assert min(event["event_at"] for event in found["event"]).year == 2023


def test_every_real_run_accounts_to_its_wall_time(real_logs):
    """No component is negative, none is left out, and none comes from another place or year."""
    for path in sorted(real_logs.glob("mlperf-training-logs/*.txt")):
        events = parse(MLLOG, path.read_bytes()).events
        for job in oracle.account(as_lines(events), as_of=1_800_000_000_000)["jobs"]:
            assert sum(job["components"].values()) == job["wall_ms"]
            assert min(job["components"].values()) > 0
            assert 0 < job["wall_ms"] < 5 * 3_600_000
            assert job["flags"] == []
            assert job["interruptions"] in ({}, {"user_code": 1})
            assert 0.1 < job["ett_ratio"] < 1
