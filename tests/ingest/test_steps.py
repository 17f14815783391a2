import datetime as dt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.ingest.console_logs import clock, megatron, read, stage, told

INFERRED = {"attrs": {"inferred": "true"}}
WORLD = "using world size: 16, data-parallel-size: 1, tensor-model-parallel size: 4 "
INITIALISED = "after megatron is initialized"
NO_CHECKPOINT = "    will not load any checkpoints and will start from random"
BEFORE = "before the start of training step"


def marks(*lines, **how):
    """(second, kind, step) of train_begin and step lines."""
    return [(s, k, f["step"]) for s, k, f in told(*lines, **how) if k in ("train_begin", "step")]


def test_a_start_from_scratch():
    rows = told(
        WORLD,
        stage(INITIALISED, 10),
        NO_CHECKPOINT,
        stage("after model, optimizer, and learning rate scheduler are built", 30),
        stage("after dataloaders are built", 35),
        stage(BEFORE, 36),
        megatron(1, 9000, second=45),
        megatron(2, 5000, second=50),
    )
    assert rows == [
        (10, "attempt_started", {"gpus": 16}),
        (10, "phase_begin", {"phase": "trainer_init.train_module_creation"}),
        (30, "phase_end", {"phase": "trainer_init.train_module_creation"}),
        (30, "phase_begin", {"phase": "trainer_init.preproc_creation"}),
        (35, "phase_end", {"phase": "trainer_init.preproc_creation"}),
        (35, "phase_begin", {"phase": "trainer_init.pre_train"}),
        (36, "phase_end", {"phase": "trainer_init.pre_train"}),
        (36, "train_begin", {"step": 0, "samples": 0}),
        (45, "step", {"step": 1, "samples": 8}),
        (50, "step", {"step": 2, "samples": 16}),
    ]


@pytest.mark.parametrize(
    ("lines", "entry"),
    [
        pytest.param(
            ["  log_interval .................................... 10", megatron(50, 1000, second=60)],
            (50, {"step": 40, "samples": 320, **INFERRED}),
            id="the arguments tell the interval, the line its duration",
        ),
        pytest.param(
            [megatron(50, 1000, second=60), megatron(60, 1000, second=70)],
            (50, {"step": 40, "samples": 320, **INFERRED}),
            id="the second line tells the interval",
        ),
        pytest.param(
            ["  successfully loaded checkpoint from /c [ t 1/2, p 1/4 ] at iteration 48",
             "  log_interval .................................... 10", megatron(50, 1000, second=60)],
            (58, {"step": 48, "samples": 384, **INFERRED}),
            id="the checkpoint tells the position: the line stands for two steps only",
        ),
        pytest.param(
            ["  successfully loaded checkpoint from /c at iteration 48", stage(BEFORE, 41),
             megatron(50, 1000, second=60)],
            (41, {"step": 48, "samples": 384}),
            id="nothing is inferred where all is said",
        ),
        pytest.param(
            [stage(BEFORE, 41), "  log_interval .................................... 10",
             megatron(50, 1000, second=60)],
            (41, {"step": 40, "samples": 320, **INFERRED}),
            id="the time is said, the position is inferred",
        ),
    ],
)  # fmt: skip
def test_the_entry_into_the_loop(lines, entry):
    found = [(s, f) for s, k, f in told(*lines, attrs=True) if k == "train_begin"]
    assert found == [entry]


def test_a_single_step_tells_no_entry():
    assert marks(megatron(50, 1000, second=60)) == [(60, "step", 50)]


LOADED = "  successfully loaded checkpoint from /c [ t 1/2, p 1/4 ] at iteration {}"
SAVED = "  successfully saved checkpoint from iteration {:7d} to /c"


def test_an_entry_that_no_step_follows_is_told_where_its_samples_are_known():
    """One mark without samples, and the positions of the whole job would be its steps."""
    entry = [WORLD, stage(INITIALISED, 40), LOADED.format(2), stage(BEFORE, 41)]
    run = [megatron(n, 1000, second=n) for n in (1, 2)]
    assert marks(*entry) == []
    assert "alive" in {e["event"] for e in read("\n".join([*entry, ""]))[0] if e["line"] == 4}
    other_batch = [line.replace("size:     8", "size:    16") for line in run]
    assert marks(*other_batch, *entry)[-1] == (2, "step", 2)
    assert told(*run, *entry)[-1] == (41, "train_begin", {"step": 2, "samples": 16})
    found = told(*other_batch, SAVED.format(2), *entry)
    assert found[-1] == (41, "train_begin", {"step": 2, "samples": 16})
    again = [WORLD, stage(INITIALISED, 50), LOADED.format(2), stage(BEFORE, 51)]
    assert told(*other_batch, SAVED.format(2), *entry, *again)[-1] == (51, *found[-1][1:])
    scratch = [WORLD, stage(INITIALISED, 40), NO_CHECKPOINT, stage(BEFORE, 41)]
    assert told(*scratch)[-1] == (41, "train_begin", {"step": 0, "samples": 0})


def test_an_entry_that_is_told_late_opens_no_attempt():
    """That no step follows is known at the file's end, behind the end of the attempt."""
    lines = [WORLD, stage(INITIALISED, 40), NO_CHECKPOINT, stage(BEFORE, 41), f"[{clock(60)}] exiting",
             f"[exiting program at iteration 1] datetime: {clock(60)} "]  # fmt: skip
    kinds = [(s, k) for s, k, _ in told(*lines) if k in ("attempt_started", "train_begin")]
    assert kinds == [(40, "attempt_started"), (41, "train_begin")]


def test_samples_before_the_first_step_of_lines_that_say_no_batch():
    """The second line shows how many a step has; the checkpoint's position is known."""
    lines = [megatron(n, 1000, second=100 + n).replace(" global batch size:     8 |", "") for n in (50, 60)]  # fmt: skip
    (entry,) = [f for _, k, f in told(LOADED.format(45), *lines) if k == "train_begin"]
    assert entry == {"step": 45, "samples": 360}
    assert marks(LOADED.format(45), lines[0]) == [(150, "step", 50)]


def test_entries_and_steps_are_one_emitter_s():
    """The first rank says that the loop is entered, the last one prints the steps.

    After a start with fewer workers the last one is another.
    """

    def launch(second, last):
        begin = [WORLD, NO_CHECKPOINT, stage(BEFORE, second)]
        steps = [megatron(n, 1000, second=second + n) for n in (1, 2)]
        return [*(f"0: {line}" for line in begin), *(f"{last}: {line}" for line in steps)]

    rows = told(*launch(10, 7)[:3], *launch(20, 7), *launch(30, 3), attrs=True)
    found = [(s, k, f["step"], f["rank"]) for s, k, f in rows if k in ("train_begin", "step")]
    assert found == [
        (10, "train_begin", 0, 7),
        (20, "train_begin", 0, 7), (21, "step", 1, 7), (22, "step", 2, 7),
        (30, "train_begin", 0, 7), (31, "step", 1, 7), (32, "step", 2, 7),
    ]  # fmt: skip
    assert [f["attrs"] for s, k, f in rows if k == "step" and s > 30] == [{"printed_by_rank": "3"}] * 2  # fmt: skip


def test_lines_without_a_clock_are_placed_by_their_durations():
    lines = [
        stage(INITIALISED, 1),
        NO_CHECKPOINT,
        stage(BEFORE, 20),
        megatron(10, 2152.2),
        megatron(20, 1354.9),
        f"[{clock(100)}] anything",
        megatron(30, 1000),
    ]
    assert marks(*lines) == [
        (20, "train_begin", 0),
        (41.522, "step", 10),
        (55.071, "step", 20),
        (100, "step", 30),  # not before the time that the line before it names
    ]
    assert [f["attrs"] for _, k, f in told(*lines, attrs=True) if k == "step"] == [
        {"clock": "durations"}
    ] * 3


def test_a_lower_step_is_a_way_back_and_the_same_step_is_printed_twice():
    lines = [megatron(n, 1000, second=100 + n) for n in (1, 2, 3, 3)]
    again = [megatron(n, 1000, second=200 + n) for n in (2, 3, 4)]
    assert marks(*lines, *again) == [
        (100, "train_begin", 0),
        (101, "step", 1), (102, "step", 2), (103, "step", 3),
        (201, "train_begin", 1),
        (202, "step", 2), (203, "step", 3), (204, "step", 4),
    ]  # fmt: skip


def test_each_rank_has_its_own_steps():
    lines = [f"{rank}: {megatron(n, 1000, second=100 + n)}" for n in (1, 2) for rank in (0, 1)]
    found = [(k, f["rank"], f["step"]) for _, k, f in told(*lines) if k == "step"]
    assert found == [("step", 0, 1), ("step", 1, 1), ("step", 0, 2), ("step", 1, 2)]


def test_saves_that_hold_the_loop_and_one_in_the_background():
    rows = told(
        *[megatron(n, 1000, second=n) for n in (1, 2)],
        f"[{clock(3)}.250000] saving checkpoint at iteration       2 to /c in torch_dist format",
        f"  [{clock(5)}.500000] scheduled an async checkpoint save at iteration       2 to /c",
        megatron(3, 1000, second=7),
        f"  [{clock(9)}] successfully saved checkpoint from iteration       2 to /c [ t 1/1, p 1/1 ]",
    )
    assert [row for row in rows if row[1] not in ("step", "train_begin", "attempt_started")] == [
        (3.25, "phase_begin", {"phase": "checkpoint_save", "span_id": "2"}),
        (5.5, "phase_end", {"phase": "checkpoint_save", "span_id": "2"}),
        (5.5, "phase_begin", {"phase": "checkpoint_save", "span_id": "2", "blocking": False}),
        (9, "phase_end", {"phase": "checkpoint_save", "span_id": "2"}),
        (9, "checkpoint_durable", {"step": 2}),
    ]


def test_a_save_that_was_cut_off_is_not_closed_by_the_next_launch_s_of_the_same_step():
    saving = f"[{clock(3)}] saving checkpoint at iteration       2 to /c in torch format"
    saved = f"[{clock(40)}]   successfully saved checkpoint from iteration       2 to /c"
    run = [megatron(n, 1000, second=n) for n in (1, 2)]
    again = [WORLD, NO_CHECKPOINT, stage(BEFORE, 10), *(megatron(n, 1000, second=10 + n) for n in (1, 2))]  # fmt: skip
    rows = told(*run, saving, *again, saving.replace(clock(3), clock(33)), saved)
    assert [(s, k, f["span_id"]) for s, k, f in rows if f.get("phase") == "checkpoint_save"] == [
        (3, "phase_begin", "2"),
        (33, "phase_begin", "2, start 2"),
        (40, "phase_end", "2, start 2"),
    ]


def test_a_save_without_a_clock_is_told_where_its_duration_is_or_where_it_never_ends():
    step = megatron(2, 1000, second=2)
    saving = "saving checkpoint at iteration       2 to /c in torch format"
    saved = "  successfully saved checkpoint from iteration       2 to /c"

    def saves(*lines):
        rows = told(megatron(1, 1000, second=1), step, *lines)
        return [(s, k) for s, k, f in rows if f.get("phase") == "checkpoint_save"]

    assert saves(saving, saved) == []
    assert saves(saving, saved, "time (ms) | save-checkpoint: 4500.00") == [
        (2, "phase_begin"), (6.5, "phase_end"),
    ]  # fmt: skip
    assert saves(saving) == [(2, "phase_begin")]


def test_a_stated_duration_ends_at_the_line_s_clock_or_follows_the_last_one():
    dated = f"[{clock(60)}] time (ms) | save-checkpoint: 4500.00"
    undated = "    evaluate .......................................: (1785.77, 2000.00)"
    rows = told(megatron(1, 1000, second=50), dated, undated)
    inferred = told(megatron(1, 1000, second=50), dated, undated, attrs=True)
    assert [f["attrs"].get("inferred") for _, _, f in inferred if "phase" in f] == [
        None, None, "true", "true",
    ]  # fmt: skip
    assert [(s, k, f["phase"]) for s, k, f in rows if "phase" in f] == [
        (55.5, "phase_begin", "checkpoint_save"),
        (60, "phase_end", "checkpoint_save"),
        (60, "phase_begin", "evaluation"),
        (62, "phase_end", "evaluation"),
    ]


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("[after training is done] datetime: {} ", [("attempt_ended", {"outcome": "succeeded"})]),
        ("[exiting program after 690.015 minutes] datetime: {} ", [("attempt_ended", {"outcome": "succeeded"})]),
        ("[exiting program after receiving SIGTERM.] datetime: {} ", [("attempt_ended", {}), ("interruption", {"cause": "unknown"})]),
    ],
)  # fmt: skip
def test_exits(line, rows):
    lines = [megatron(1, 1000, second=50), line.format(clock(60))]
    assert [(k, f) for s, k, f in told(*lines) if s == 60] == rows


def test_recent_versions_print_microseconds():
    lines = [WORLD, NO_CHECKPOINT, f"[{BEFORE}] datetime: {clock(50)}.689000 ",
             megatron(1, 1000, second=55), f"[after training is done] datetime: {clock(60)}.250000 "]  # fmt: skip
    times = {k: s for s, k, _ in told(*lines)}
    assert (times["train_begin"], times["attempt_ended"]) == (50.689, 60.25)


def test_a_trainer_that_ends_ends_with_its_last_line():
    ends = [
        s
        for s, k, _ in told(
            f"[{clock(60)}] - root - INFO - step:  1  loss:  1.0  tps: 5,868  mfu: 1.00%",
            f"[titan] {clock(61)},000 - root - INFO - Training completed",
            f"[titan] {clock(62)},500 - root - INFO - Process group destroyed",
        )
        if k == "attempt_ended"
    ]
    assert ends == [61, 62.5]


def test_a_second_start_is_one_attempt_until_the_first_has_ended():
    run = [
        WORLD,
        stage(INITIALISED, 1),
        NO_CHECKPOINT,
        stage(BEFORE, 2),
        megatron(1, 1000, second=3),
    ]
    again = [WORLD, stage(INITIALISED, 11), NO_CHECKPOINT, stage(BEFORE, 12), megatron(1, 1000, second=13)]  # fmt: skip
    starts = [s for s, k, _ in told(*run, *again) if k == "attempt_started"]
    assert starts == [1]
    end = f"[exiting program at iteration 1] datetime: {clock(4)}"
    starts = [s for s, k, _ in told(*run, end, *again) if k == "attempt_started"]
    assert starts == [1, 4]


# -- other trainers: lines made from their format strings ----------------------------------------


def titan(second, text):
    return f"[rank0]:[titan] {clock(second)},000 - root - INFO - {text}"


def titan_step(step, tps=5868):
    color = {"red": "\x1b[31m", "green": "\x1b[32m", "end": "\x1b[39m"}
    return (
        f"{color['red']}step: {step:2}  {color['green']}loss: {5.25:7.4f}  "
        f"memory: {49.66:5.2f}GiB({52.28:.2f}%)  tps: {tps:,}  tflops: {339.85:,.2f}  "
        f"mfu: {34.36:.2f}%{color['end']}"
    )


def test_torchtitan():
    rows = told(
        titan(1, "Starting job: Llama 3 8B training"),
        titan(12, "Loading the checkpoint at step 400."),
        titan(30, "Finished loading the checkpoint in 18.00 seconds."),
        titan(33, "Training starts at step 401."),
        titan(43, titan_step(410)),
        titan(44, "validate step: 410  loss:  5.1  memory: 49.66GiB(52.28%)  tps: 5,868"),
        titan(53, titan_step(420)),
    )
    assert [(s, k, f.get("step")) for s, k, f in rows if "phase" not in f] == [
        (1, "attempt_started", None),
        (33, "train_begin", 400),
        (43, "step", 410),
        (53, "step", 420),
    ]
    restore = [s for s, k, f in rows if f.get("phase") == "checkpoint_restore"]
    assert restore == [12, 12, 30, 30]  # said by the lines, and again by the duration


def test_nemo_counts_from_zero():
    line = (
        "[{}] retraining/0 [default0]:Training epoch 0, iteration {}/99 | lr: 9.8e-08 | "
        "global_batch_size: 4 | global_step: {} | reduced_train_loss: 14.66 | "
        "train_step_timing in s: {:.4}"
    )
    first = line.format(clock(10), 0, 0, 5.276)
    second = line.format(clock(13), 1, 1, 2.008) + " | consumed_samples: 8"
    assert marks(first, second) == [(4.724, "train_begin", 0), (10, "step", 1), (13, "step", 2)]


def test_nanogpt_logs_every_tenth_iteration():
    lines = [
        f"2026-03-01T00:00:{n:02}Z iter {n}: loss {3.1:.4f}, time {1000:.2f}ms, mfu {31.4:.2f}%"
        for n in (10, 20, 30)
    ]
    assert marks(*lines) == [
        (0, "train_begin", 1), (10, "step", 11), (20, "step", 21), (30, "step", 31),
    ]  # fmt: skip


def test_the_hugging_face_trainer_s_bar_tells_the_steps_and_how_long_it_is_there():
    bar = ["  0%|          | 0/100 [00:00<?, ?it/s]", "  1%|          | 1/100 [00:10<16:30, 10.00s/it]",
           " 50%|█████     | 1/2 [00:01<00:01,  1.00it/s]", "  2%|▏         | 2/100 [00:20<16:20, 10.00s/it]"]  # fmt: skip
    rows = told(
        f"[INFO|trainer.py:1805] {clock(10)},000 >> ***** Running training *****",
        f"[INFO|trainer.py:1814] {clock(10)},000 >>   Total optimization steps = 100",
        "\r".join(bar) + "\r{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.01}",
        "{'eval_loss': 1.8, 'eval_runtime': 12.5, 'epoch': 1.0}",
    )
    assert [(s, k) for s, k, _ in rows] == [
        (10, "attempt_started"), (10, "train_begin"), (20, "step"), (30, "step"),
        (30, "phase_begin"), (42.5, "phase_end"),
    ]  # fmt: skip


def test_lightning_counts_steps_over_the_epochs():
    bar = "Epoch {}: {:3}%|██        | {}/2 [00:{:02}<00:05,  5.00s/it, v_num=0]"
    states = [(0, 0, 0, 0), (0, 50, 1, 5), (0, 100, 2, 10), (1, 0, 0, 0), (1, 50, 1, 5)]
    lines = [f"[{clock(5)}] GPU available: True (cuda), used: True"]
    lines.append("\r".join(bar.format(*state) for state in states))
    assert marks(*lines) == [
        (5, "train_begin", 0), (10, "step", 1), (15, "step", 2), (20, "step", 3),
    ]  # fmt: skip


# -- laws ----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 10**6)), min_size=1, max_size=6),
    st.integers(0, 400),
)
def test_a_cut_log_gives_no_step_that_the_whole_one_does_not_give(steps, lost):
    """Wherever the file ends, no number becomes another one."""
    lines = [megatron(step, ms / 10, second=n) for n, (step, ms) in enumerate(steps)]
    text = "".join(f"{line}\n" for line in lines)
    whole = {(e["step"], e.get("samples")) for e in read(text)[0] if e["event"] == "step"}
    cut = text[: max(len(text) - lost, 0)]
    found = {(e["step"], e.get("samples")) for e in read(cut)[0] if e["event"] == "step"}
    assert found <= whole


@given(st.integers(20, 200), st.booleans())
def test_a_wrapped_line_is_the_line(width, drops):
    """A terminal that wraps at spaces, and keeps or drops the space at which it does."""
    words, parts = megatron(42, 1234.5, second=7).split(" "), [""]
    for word in words:
        if len(parts[-1]) + len(word) > width:
            parts.append("" if drops else " ")
        parts[-1] += word + " "
    assume(len(parts) <= 4)
    lines = [part.rstrip() if drops else part.removesuffix(" ") for part in parts]
    assert marks("before", *lines, "after") == [(7, "step", 42)]


# -- the real logs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "job", "gpus", "first", "last", "total"),
    [
        ("meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out", "1809579", 16, "08:41:26.522", "08:45:50.369", 20),
        ("meg_ds_3d_gpt2_perf_n16-ds-on.out", "meg_ds_3d_gpt2_perf_n16-ds-on", 64, "20:50:33.779", "22:39:44.394", 49),
    ],
)  # fmt: skip
def test_real_runs_of_2021(real_logs, name, job, gpus, first, last, total):
    """Lines without a clock: the datetime lines and the durations place them."""
    path = real_logs / "megatron-bigscience" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    data = path.read_bytes()
    events, rejects, _ = read(data, name=name, zone="Europe/Paris")
    steps = [e for e in events if e["event"] == "step"]
    assert rejects == []
    assert len(steps) == total == data.count(b" elapsed time per iteration (")
    (start,) = [e for e in events if e["event"] == "attempt_started"]
    assert (start["job_id"], start["gpus"]) == (job, gpus)
    (entry,) = [e for e in events if e["event"] == "train_begin"]
    assert (entry["step"], entry["samples"], entry.get("attrs")) == (0, 0, None)
    paris = dt.timezone(dt.timedelta(hours=2))
    times = [dt.datetime.fromtimestamp(e["at"] / 1000, paris) for e in (steps[0], steps[-1])]
    assert [f"{t:%H:%M:%S.%f}"[:-3] for t in times] == [first, last]


def test_every_variant_of_the_step_line(real_logs):
    path = real_logs / "log-quotes" / "megatron_prefix_variants.log"
    if not path.is_file():
        pytest.skip(f"no {path}")
    lines = path.read_text().splitlines(keepends=True)
    variants = [*lines[:2], "".join(lines[2:5]), *lines[5:]]
    found = []
    for text in variants:
        events, _, _ = read(f"[{clock(0)}] anything\n{text}")
        found += [(e["step"], e["samples"], e.get("rank"), e.get("host")) for e in events if e["event"] == "step"]  # fmt: skip
    assert found == [
        (29050, 10728784, None, None),
        (31214, 47768496, 7, None),
        (42780, 71455664, 7, None),
        (1, 768, None, None),
        (50, 50400, 3, "lrdn3321"),
        (25, 50, 1, None),
    ]  # the last one is cut off in its quote
