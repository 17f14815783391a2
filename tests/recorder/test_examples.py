"""The examples of docs/recorder.md run, and their accounts are the milliseconds one can add up."""

import importlib.util
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ettledger import recorder
from pipelines.spot import account_paths
from tests.recorder.helpers import ROOT, T0, Clock, lines, opened, steps

EXAMPLES = ROOT / "docs" / "examples"
PAGE = ROOT / "docs" / "recorder.md"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Model:
    """Takes its time on a test's clock; an upload ends in the middle of the step after it."""

    def __init__(self, clock, *, restored=0, fails_at=None):
        self.clock, self.restored, self.fails_at = clock, restored, fails_at
        self.pending = []

    def build(self):
        self.clock.sleep(50)

    def restore(self):
        self.clock.sleep(7 if self.restored else 1)
        return self.restored

    def train(self, step):
        if step == self.fails_at:
            self.clock.sleep(4)
            raise RuntimeError("NCCL error")
        self.clock.sleep(5)
        while self.pending:
            self.pending.pop()()
        self.clock.sleep(5)

    def copy_to_host(self):
        self.clock.sleep(2)

    def upload(self, then):
        self.pending.append(then)

    def publish(self):
        while self.pending:
            self.pending.pop()()
        self.clock.sleep(3)


def job(folder, clock, job_id):
    return {"path": folder, "job_id": job_id, "clock": clock}


def recorded_loop(folder):
    clock = Clock()
    with recorder.trainer(**job(folder, clock, "loop"), rank=0) as log, log.attempt(gpus=8):
        example("loop").train(log, Model(clock), last_step=12, save_every=5)


def recorded_launcher(folder):
    """The first start of the ranks fails in step 9 with the checkpoint of step 5 durable."""
    clock = Clock()
    models = [Model(clock, fails_at=9), Model(clock, restored=5)]

    def start():
        clock.sleep(10)  # rendezvous
        with recorder.trainer(**job(folder, clock, "launched"), rank=0) as log:
            try:
                example("loop").train(log, models.pop(0), last_step=12, save_every=5)
            except RuntimeError:
                clock.sleep(6)  # until the launcher knows
                return 1
        return 0

    with recorder.launcher(**job(folder, clock, "launched")) as log:
        log.job_submitted(model="ranker", team="ads")
        clock.sleep(30)  # in the queue
        example("launcher").launch(log, start, gpus=16, restarts=3)
        log.job_finished("succeeded")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patched:
        for name in os.environ:
            if name.startswith(("SLURM_", "TORCHELASTIC_", "ETTLEDGER_")):
                patched.delenv(name)
        recorded_loop(folder)
        recorded_launcher(folder)
    return account_paths([str(folder)], as_of_ms=T0 + 86_400_000)


def test_every_line_told_something(told):
    assert (told.reject_count, {row["source"] for row in told.files}) == (0, {"lifecycle"})
    assert all(row["line_count"] == row["event_line_count"] for row in told.files)


def account(told, job_id):
    [found] = [one for one in told.jobs if one["job_id"] == job_id]
    return found


def test_loop(told):
    found = account(told, "loop")
    assert found["components"] == {
        "trainer_init": 50_000,
        "checkpoint_restore": 1_000,
        "effective_training": 120_000,  # 12 steps of 10 s
        "checkpoint_save": 4_000,  # after steps 5 and 10
        "model_publish": 3_000,
    }
    assert found["hidden_ms"] == {"checkpoint_save": 10_000}  # two uploads beside a step
    assert (found["wall_ms"], found["held_gpu_ms"]) == (178_000, 8 * 178_000)
    assert (found["tts_ms"], found["flags"]) == (51_000, [])


def test_launcher(told):
    """Steps 6 to 8 are lost and trained again: 30 s; the second start has no queue."""
    found = account(told, "launched")
    assert found["components"] == {
        "trainer_init": 100_000,
        "checkpoint_restore": 1_000 + 7_000,
        "effective_training": 120_000,
        "repeated_training": 30_000,
        "checkpoint_save": 4_000,
        "restart_gap": 4_000 + 6_000 + 10_000,  # the broken step, its end noticed, rendezvous
        "unattributed": 10_000,  # the first rendezvous: nobody claimed it
        "model_publish": 3_000,
    }
    assert (found["queue_wait_ms"], found["wall_ms"]) == (30_000, 295_000)
    assert found["interruptions"] == {"unknown": 1}
    assert found["ttr_ms"] == [4_000 + 6_000 + 10_000 + 50_000 + 7_000]
    assert found["held_gpu_ms"] == 16 * 295_000


def test_scripts_run(tmp_path):
    """The launcher starts the loop, as one would in a shell."""
    command = [
        sys.executable,
        str(EXAMPLES / "launcher.py"),
        sys.executable,
        str(EXAMPLES / "loop.py"),
    ]
    environment = os.environ | {"ETTLEDGER_PATH": str(tmp_path), "ETTLEDGER_JOB_ID": "shell"}
    subprocess.run(command, env=environment, check=True, timeout=60)
    found = lines(tmp_path)
    assert {line["job_id"] for line in found} == {"shell"}
    assert steps(found)[-1] == 100
    assert len(steps(found)) < 20  # every_s=0.5
    [launcher] = [line for line in found if line["event"] == "job_finished"]
    assert "rank" not in launcher


def test_the_page_shows_the_examples():
    """A block behind a link to a file is of that file."""
    block = re.compile(
        r"\]\(examples/(\w+\.py)\)[^`]*?\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
    )
    shown = block.findall(PAGE.read_text())
    assert [name for name, _ in shown] == ["loop.py", "launcher.py"]
    for name, text in shown:
        assert text == cut((EXAMPLES / name).read_text())


def cut(text):
    """An example from its first import of the recorder on, without what stands in for a model."""
    body = text[text.index("from ettledger") :]
    return re.sub(r"class Sleeper:.*?(?=^if __name__)", "", body, flags=re.DOTALL | re.MULTILINE)


# --- frameworks, where they are -------------------------------------------------------------------


def test_transformers_callback(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback

    log = opened(tmp_path / "log.jsonl")
    recording = example("transformers_callback").Recording(log)
    args = SimpleNamespace(
        logging_first_step=False, logging_strategy="no", eval_strategy="steps", eval_delay=0,
        save_strategy="steps",
    )  # fmt: skip
    state, control = transformers.TrainerState(max_steps=4), transformers.TrainerControl()
    state.eval_steps = state.save_steps = 2
    handler = CallbackHandler([DefaultFlowCallback(), recording], *[None] * 4)
    handler.on_train_begin(args, state, control)
    for state.global_step in range(1, 5):
        handler.on_step_begin(args, state, control)
        handler.on_step_end(args, state, control)
        if control.should_evaluate:
            handler.on_evaluate(args, state, control, {})
        if control.should_save:
            handler.on_save(args, state, control)
    log.close()
    told = [(x["event"], x.get("phase") or x.get("step")) for x in lines(tmp_path)]
    two = [
        ("phase_begin", "evaluation"), ("phase_end", "evaluation"),
        ("phase_begin", "checkpoint_save"), ("phase_end", "checkpoint_save"),
    ]  # fmt: skip
    assert told == [
        ("train_begin", 0), ("step", 1), ("step", 2), *two, ("checkpoint_durable", 2),
        ("step", 3), ("step", 4), *two, ("checkpoint_durable", 4),
    ]  # fmt: skip
