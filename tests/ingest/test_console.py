import gzip
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import spot
from pipelines.ingest.console import is_console, job_id
from pipelines.ingest.files import raw_files
from pipelines.ingest.identity import Identity
from pipelines.ingest.profile import built_in
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.recognise import recognise
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.ingest.signs import TRACEBACK
from pipelines.taxonomy import DEFAULT
from tests import oracle
from tests.ingest.console_logs import at, clock, megatron, read, told
from tests.ingest.helpers import as_lines

UTC_TAKEN = (
    "no zone declared, so its times are taken as UTC: declare `zone:` for it under `sources:`"
)


def first_step(*lines, **how):
    """Of the first step: (second, step, rank, host)."""
    events, _, _ = read("".join(f"{line}\n" for line in lines), **how)
    step = next(e for e in events if e["event"] == "step")
    return (step["at"] - at(0)) / 1000, step["step"], step.get("rank"), step.get("host")


STEP = megatron(42, 1000)
DOCKER = json.dumps(
    {"log": f"\x1b[31m{STEP}\n", "stream": "stdout", "time": "2026-03-01T00:00:09.5Z"}
)
FLUENT = json.dumps({"log": f"[rank3]: {STEP}", "@timestamp": "2026-03-01T01:00:09+01:00",
                     "kubernetes": {"pod_name": "w-0", "labels": {"app": "tr"}}})  # fmt: skip


@pytest.mark.parametrize(
    ("line", "second", "rank", "host"),
    [
        pytest.param(f"[{clock(9)}] {STEP}", 9, None, None, id="Megatron"),
        pytest.param(f"[default7]: [{clock(9)}.250000] {STEP}", 9.25, 7, None, id="torchrun --tee"),
        pytest.param(f" 12: [{clock(9)}] {STEP}", 9, 12, None, id="srun -l"),
        pytest.param(f"[lrdn3321:3]: [{clock(9)}] {STEP}", 9, 3, "lrdn3321", id="host and rank"),
        pytest.param(f"[1,5]<stdout>:[{clock(9)}] {STEP}", 9, 5, None, id="mpirun"),
        pytest.param(f"w/0 [default1]:[{clock(9)}] {STEP}", 9, 1, None, id="torchx"),
        pytest.param(f"{clock(9)},750 [rank3]: {STEP}", 9.75, 3, None, id="the clock before the rank"),
        pytest.param(f"2026-03-01T00:00:09.123456789Z stdout F {STEP}", 9.123, None, None, id="CRI"),
        pytest.param(f"2026-03-01T01:00:09.5+01:00 {STEP}", 9.5, None, None, id="kubectl logs --timestamps"),
        pytest.param(f"[pod/w-0/trainer] 2026-03-01T00:00:09Z {STEP}", 9, None, None, id="kubectl logs --prefix"),
        pytest.param(f"2026-03-01T00:00:09+0000 n1 train[77]: {STEP}", 9, None, "n1", id="journald, ISO"),
        pytest.param(f"Mar  1 00:00:09 n1 train[77]: {STEP}", 9, None, "n1", id="journald, no year"),
        pytest.param(DOCKER, 9.5, None, None, id="Docker"),
        pytest.param(FLUENT, 9, 3, None, id="fluentd"),
        pytest.param(f"I0301 00:00:09.250000 123 x.py:1] {STEP}", 9.25, None, None, id="glog"),
        pytest.param(f"03/01/2026 00:00:09 - INFO - x - {STEP}", 9, None, None, id="Hugging Face"),
        pytest.param(f"[NeMo I 2026-03-01 00:00:09 x:1] {STEP}", 9, None, None, id="NeMo"),
        pytest.param(f"\x1b[32m[{clock(9)}]\x1b[0m {STEP}\r", 9, None, None, id="colours, CR LF"),
        pytest.param(f"downloading 10%\r[{clock(9)}] {STEP}", 9, None, None, id="a line written over"),
    ],
)  # fmt: skip
def test_prefixes_and_clocks(line, second, rank, host):
    assert first_step(line, megatron(43, 1000)) == (second, 42, rank, host)


def test_the_trainer_s_own_clock_holds_where_its_zone_is_known():
    """A collector stamps what it reads, which may be long after it was printed."""
    line = f"2026-03-01T00:05:00Z [{clock(3600)}] {STEP}"
    assert first_step(line, zone=None)[0] == 300
    assert first_step(line, zone="Europe/Oslo")[0] == 0
    assert first_step(line, zone="UTC")[0] == 3600


def test_local_times():
    """The clock showed 02:30 twice in the night of 25 October 2026, and never on 29 March."""
    twice, never = "[2026-10-25 02:30:00]", "[2026-03-29 02:30:00]"
    events, rejects, tally = read(
        f"{twice} {megatron(1, 1)}\n{never} {megatron(2, 1)}\n{twice} {megatron(3, 1)}\n",
        zone="Europe/Oslo",
    )
    (reject,) = rejects
    assert (reject.line, reject.reason) == (2, "the time 2026-03-29 02:30:00 does not exist in Europe/Oslo")  # fmt: skip
    steps = [e for e in events if e["event"] == "step"]
    assert [(e["step"], e["attrs"]["local_time"]) for e in steps] == [
        (1, "ambiguous, the first"), (3, "ambiguous, the first"),
    ]  # fmt: skip
    assert tally.notes.count(UTC_TAKEN) == 0


def test_a_year_that_a_clock_does_not_name_is_that_of_the_file_s_others():
    """The file was last changed in 2026; a copy of an old log does not make it young."""
    agent = "I0105 07:00:00.250000 123 api.py:1] starting"
    lines = [agent, "[after megatron is initialized] datetime: 2021-01-05 07:01:00 ", STEP]
    events, _, tally = read("\n".join(lines), zone="UTC")
    assert (events[0]["event"], events[0]["at"]) == ("attempt_started", 1_609_830_000_250)
    assert tally.notes == []
    _, _, tally = read(f"{agent}\n{STEP}\n", zone="UTC")
    assert "its times name no year: it is that of the file's last change" in tally.notes


def test_no_note_holds_what_separates_notes():
    _, _, tally = read(f"I0105 07:00:00.250000 123 x.py:1] x\n[{clock(1)}] {STEP}\n{TRACEBACK}\n")
    assert tally.notes
    assert not any("; " in note for note in tally.notes)


def test_a_long_line_that_the_collector_cut_is_joined():
    parts = ["x" * 16_384, " and the rest", f"[{clock(9)}] {STEP}"]
    lines = [f"2026-03-01T00:00:0{n}Z stdout {kind} {part}" for n, (kind, part) in enumerate(zip("PFF", parts, strict=True))]  # fmt: skip
    _, _, tally = read("".join(f"{line}\n" for line in lines))
    assert (tally.event_line_count, tally.ignored_count) == (1, 2)


# -- time and life -------------------------------------------------------------------------------


def test_a_file_without_a_time_tells_nothing():
    events, _, tally = read(f"{megatron(1, 1000)}\n{megatron(2, 1000)}\n")
    assert (events, tally.event_line_count, tally.ignored_count) == ([], 0, 2)
    assert tally.notes == ["no line of it names a time: nothing can be told of it"]


def test_what_names_no_time_takes_the_one_before_it_and_never_one_behind_it():
    rows = told(
        "Traceback (most recent call last):", "ValueError: before any time",
        f"[{clock(5)}] x", "  successfully saved checkpoint from iteration       2 to /c",
        f"[{clock(9)}] y", attrs=True,
    )  # fmt: skip
    assert [row for row in rows if row[1] == "checkpoint_durable"] == [
        (5, "checkpoint_durable", {"step": 2, "attrs": {"clock": "line before"}})
    ]
    assert [row for row in rows if row[1] == "interruption"] == []


def test_the_attempt_starts_with_the_first_time_of_a_file_in_which_a_trainer_starts():
    lines = [
        f"[{clock(1)}] pip install",
        f"[{clock(9)}] using world size: 16, data-parallel-size: 1",
        STEP,
    ]
    events, _, tally = read("\n".join(lines))
    start = events[0]
    assert (start["event"], start["at"], start["line"], start["gpus"]) == ("attempt_started", at(1), 1, 16)  # fmt: skip
    assert tally.notes == [UTC_TAKEN]


def test_a_rotated_part_opens_no_attempt():
    lines = [megatron(n, 1000, second=n) for n in (100, 101)]
    events, _, tally = read("\n".join(lines), name="run/x.log.1")
    assert [e["event"] for e in events if e["line"] == 1] == ["alive", "train_begin", "step"]
    assert {e["job_id"] for e in events} == {"run/x"}
    assert tally.notes[-1] == "no start of a trainer in it: it goes on an attempt, or its part"


def test_the_parts_of_a_rotated_log_are_one_attempt():
    """As one file or as two: the same account."""
    start = ["using world size: 16, data-parallel-size: 1", "    will not load any checkpoints and will start from random"]  # fmt: skip
    lines = [f"[{clock(1)}] x", *start, *[megatron(n, 1000, second=10 + n) for n in range(1, 41)]]

    def account(**parts):
        events = [event for name, part in parts.items() for event in read("\n".join(part), name=name.replace("_", "."))[0]]  # fmt: skip
        (job,) = oracle.account(as_lines(events), as_of=at(10_000))["jobs"]
        return job["job_id"], job["wall_ms"], job["components"], len(job["attempts"])

    whole = account(x_log=lines)
    assert whole == ("x", 49_000, {"effective_training": 40_000, "unattributed": 9_000}, 1)
    assert account(x_log_1=lines[:20], x_log=lines[20:]) == whole


@pytest.mark.parametrize(
    ("name", "job"),
    [("a/tr11.out.2.gz", "a/tr11"), ("slurm-123.out", "slurm-123"), ("x.log.zst", "x"), ("x.1809579", "x.1809579")],
)  # fmt: skip
def test_the_job_is_the_file_s_name(name, job):
    assert job_id(name) == job


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("SLURM_JOB_ID=77", "77"),
        ("+ srun --jobid 77 bash", "77"),
        ("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T00:00:50 ***", "77"),
        ("srun: error: n1: task 3: StepId=77.0", "77"),
        ("SLURM_JOB_ID=77\nSLURM_JOB_ID=78", "job"),
        ("export SLURM_JOB_ID=$SLURM_JOB_ID", "job"),
    ],
)
def test_the_job_is_the_slurm_job_that_the_log_names(line, job):
    """Wherever in the log it stands: the events wait for it."""
    events, _, _ = read(f"[{clock(1)}] {STEP}\n{line}\n")
    assert {e["job_id"] for e in events} == {job}


def rows_of(folder, rule):
    sources = Sources((rule,))
    batches = read_files(
        [files_batch(raw_files([folder]))], DEFAULT, pickle.loads(pickle.dumps(sources))
    )
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_declared_field_joins_the_file_and_what_does_not_join_is_listed(tmp_path):
    (tmp_path / "a.log").write_text(f"TORCHELASTIC_RUN_ID=tr11\n[{clock(1)}] {STEP}\n")
    (tmp_path / "b.log").write_text(f"[{clock(1)}] {STEP}\n")
    rule = SourceRule("log$", FileSettings(identity=Identity(field="torchelastic_run_id")))
    rows = rows_of(tmp_path, rule)
    joins = {(r["own_id"], r["job_id"], r["reason"]) for r in rows if r["record"] == "join"}
    assert joins == {
        ("a", "tr11", None),
        ("b", "b", "no field 'torchelastic_run_id' here; fields found: none"),
    }


# -- recognition, and the account of lines -------------------------------------------------------


def test_what_is_a_console_log_and_what_is_another_format_first(tmp_path):
    step = f"{STEP}\n".encode()
    assert recognise([b"hello\n", step])[0].source == "console"
    quoted = b'{"ts": "2026-03-01T00:00:00Z", "job_id": "a", "event": "step", "step": 1}\n'
    assert recognise([step, quoted])[0].source == "lifecycle"
    assert recognise([b"hello\nworld\n"])[0] is None
    assert not is_console(b"The quick brown fox", Sources())


def test_any_bytes_are_accounted_for():
    junk = b'\xff\xfe\x00 iteration\r\r\n{"log": 3}\n{"log": "\\ud800"}\n\n[[[[[\n' + STEP.encode()
    _, rejects, tally = read(junk)
    assert (rejects, tally.ignored_count) == ([], 6)


PIECES = [STEP, f"[{clock(5)}] {STEP}", TRACEBACK, "ValueError: x", " DUE TO TIME LIMIT", "[default7]: ", "\r", "\x1b[31m",
          '{"log": "x"}', "2026-03-01T00:00:09Z stdout P ", "x" * 99, "JOB 7 ON n CANCELLED AT 2026-03-01T00:00:50", "99: ",
          "[9999-99-99 99:99:99]", "I0230 25:61:61.9 ", "saving checkpoint at iteration 7 to x", "0/2 [00:00<?, ?it/s]", "\udcff"]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES) | st.text(max_size=9), max_size=4), max_size=9))
def test_whatever_is_written_every_line_is_accounted_for(lines):
    """`read` fails where one is lost; and no event has a time that the file does not name."""
    text = "\n".join("".join(line) for line in lines)
    events, _, tally = read(text.encode(errors="surrogateescape"), zone="Europe/Oslo")
    assert not any("failed at line" in note for note in tally.notes)
    assert all(event["job_id"] for event in events)


def test_every_real_console_log_is_read_whole(real_logs):
    paths = [*real_logs.glob("megatron-bigscience/*"), *real_logs.glob("log-quotes/*.log"),
             *real_logs.glob("torchelastic-k8s/*.log")]  # fmt: skip
    assert paths
    for path in paths:
        data = path.read_bytes()
        events, _, tally = read(data, name=path.name)  # raises where lines are lost
        steps = [e for e in events if e["event"] == "step"]
        assert len(steps) <= data.count(b"iteration") + data.count(b"step:") + data.count(b"Epoch")
        assert tally.reject_count == 0


# -- to the ledger -------------------------------------------------------------------------------


def bloom():
    """The crash of BigScience's chronicles: 248 of 250 iterations lost, at 105.2 s each.

    The checkpoint of iteration 42500 was the last one. Lines as BLOOM's Megatron-DeepSpeed wrote
    them; launcher and clocks made up.
    """
    each, second, lines = 105.2, 600.0, ["using world size: 384, data-parallel-size: 8"]

    def run(first, last):
        nonlocal second
        for step in range(first, last + 1):
            second += each
            lines.append(
                f"[default7]: [{clock(second)}.{round(second % 1 * 1000):03}000] iteration {step:8d}/  115311 | "
                f"consumed samples: {step * 2048:12d} | consumed tokens: {step * 2048 * 2048:12d} | "
                f"elapsed time per iteration (s): {each:.2f} | learning rate: 4.475E-05 | "
                f"global batch size:  2048 | lm loss: 2.117073E+00 | grad norm: 0.150 | num zeros: 0.0 | "
                f"number of skipped iterations:   0 | number of nan iterations:   0 | "
                f"samples per second: 19.474 | TFLOPs: 149.10 |"
            )  # fmt: skip

    run(42_491, 42_500)
    lines.append("[default0]:  successfully saved checkpoint from iteration   42500 to /c")
    run(42_501, 42_748)
    lines += ["[default3]:Traceback (most recent call last):", '[default3]:  File "x.py", line 1',
              "[default3]:RuntimeError: CUDA error: uncorrectable ECC error encountered"]  # fmt: skip
    second += 900
    lines.append(f"[default0]:[{clock(second)}] using world size: 384, data-parallel-size: 8")
    lines.append("[default0]:  successfully loaded checkpoint from /c at iteration 42500")
    run(42_501, 42_760)
    return "".join(f"{line}\n" for line in lines), at(second)


def test_the_repeated_work_of_bloom(tmp_path):
    text, end = bloom()
    (tmp_path / "tr11.log.gz").write_bytes(gzip.compress(text.encode()))
    rule = SourceRule("log", FileSettings(zone="UTC"))
    (job,) = spot.account_paths(
        [str(tmp_path)], as_of_ms=end + 1000, site=spot.Site(sources=Sources((rule,)))
    ).jobs
    assert job["job_id"] == "tr11"
    assert job["components"]["repeated_training"] == 248 * 105_200
    assert round(job["components"]["repeated_training"] / 3_600_000, 2) == 7.25
    assert job["components"]["effective_training"] == (10 + 248 + 12) * 105_200
    assert job["interruptions"] == {"hardware": 1}
    assert sum(job["components"].values()) == job["wall_ms"]


def test_profiles_go_to_the_workers():
    assert pickle.loads(pickle.dumps(built_in())) == built_in()
