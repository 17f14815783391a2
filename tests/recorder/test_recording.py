"""What each call writes, which calls write nothing, and that the real reader takes it all."""

import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ettledger import recorder
from ettledger.recorder import Identity, Recorder
from pipelines.taxonomy import DEFAULT
from tests.ingest.helpers import read
from tests.recorder.helpers import T0, Clock, lines, opened, short, steps


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_every_kind(path):
    with opened(path) as log:
        log.job_submitted(model="ranker", team="ads", priority="high")
        log.attempt_started(gpus=16, held=True)
        log.train_begin(0, samples=0)
        log.step(1, samples=512, loss=0.25)
        log.checkpoint_durable(1)
        log.interruption("network", rank=7, host="gpu-0113", message="link down")
        log.attempt_ended("failed", cause="network", exit_code=1)
        log.job_finished("failed")
    told = lines(path)
    assert [short(line) for line in told] == [
        {"event": "job_submitted", "model": "ranker", "team": "ads", "priority": "high"},
        {"event": "attempt_started", "gpus": 16, "held": True},
        {"event": "train_begin", "step": 0, "samples": 0},
        {"event": "step", "step": 1, "samples": 512, "attrs": {"loss": "0.25"}},
        {"event": "checkpoint_durable", "step": 1},
        {"event": "interruption", "cause": "network", "attrs": {"message": "link down"}},
        {
            "event": "attempt_ended",
            "outcome": "failed",
            "cause": "network",
            "attrs": {"exit_code": "1"},
        },
        {"event": "job_finished", "outcome": "failed"},
    ]
    assert {(line["job_id"], line["ts"]) for line in told} == {("j", T0)}
    # Of what is said of the whole job one emitter is believed: rank 0, on whatever host.
    emitters = [(line["rank"], line.get("host")) for line in told]
    assert emitters == [(0, None)] * 5 + [(7, "gpu-0113")] + [(0, None)] * 2


def test_nested_phases(path):
    clock = Clock()
    with opened(path, clock=clock) as log, log.phase("trainer_init"):
        clock.sleep(1)
        with log.phase("compile", cache_hit=False):
            clock.sleep(2)
        upload = log.phase("checkpoint_save", blocking=False, span_id="u1").begin()
        clock.sleep(3)
        upload.end(bytes=7)
        upload.end()  # no second end
    told = lines(path)
    assert [((line["ts"] - T0) // 1000, short(line)) for line in told] == [
        (0, {"event": "phase_begin", "phase": "trainer_init"}),
        (1, {"event": "phase_begin", "phase": "compile", "attrs": {"cache_hit": "false"}}),
        (3, {"event": "phase_end", "phase": "compile"}),
        (3, {"event": "phase_begin", "phase": "checkpoint_save", "blocking": False}),
        (6, {"event": "phase_end", "phase": "checkpoint_save", "attrs": {"bytes": "7"}}),
        (6, {"event": "phase_end", "phase": "trainer_init"}),
    ]
    spans = [line["span_id"] for line in told]
    assert (spans[0], spans[1], spans[3]) == (spans[5], spans[2], "u1")
    assert len(set(spans)) == 3
    assert {line["host"] for line in told} == {"n1"}


@pytest.mark.parametrize(
    ("thinned", "told", "written"),
    [
        ({}, [1, 2, 3], [1, 2, 3]),
        ({"every": 10}, range(1, 26), [1, 10, 20, 25]),
        ({"every": 10}, [7, 14, 21, 22, 29], [7, 14, 21, 29]),  # positions may jump
        ({"every": 10}, [1, 2, 3, 2, 3, 4], [1, 3, 2, 4]),  # both sides of a rollback
        ({"every_s": 60}, range(1, 26), [1, 7, 13, 19, 25]),
        ({"every_s": 60, "every": 5}, range(1, 13), [1, 5, 10, 12]),
    ],
)
def test_thinned_steps(path, thinned, told, written):
    """A step every 10 s: the first and the last are always there."""
    clock = Clock()
    with opened(path, clock=clock, **thinned) as log:
        for step in told:
            log.step(step)
            clock.sleep(10)
    found = lines(path)
    assert steps(found) == written
    assert found[0]["ts"] == T0


def test_a_step_held_back_goes_before_other_lines_and_out_of_a_hang(path):
    log = opened(path, every=100, flush_s=0.02)
    for step in (1, 2, 3):
        log.step(step)
    log.checkpoint_durable(3)
    log.step(4)
    log.train_begin(3)
    log.step(4)  # the first after train_begin is due
    log.step(5)
    while not path.exists() or steps(lines(path)) != [1, 3, 4, 4, 5]:  # the last, in a hang too
        time.sleep(0.005)
    events = [line["event"] for line in lines(path)]
    assert events == ["step", "step", "checkpoint_durable", "step", "train_begin", "step", "step"]
    log.close()


def test_other_ranks_write_their_phases_and_interruptions(path):
    with opened(path, rank=3, leads=False) as log, log.attempt(gpus=8):
        log.train_begin(0)
        log.step(1)
        log.checkpoint_durable(1)
        with log.phase("data_stall"):
            log.interruption("storage")
    assert [line["event"] for line in lines(path)] == ["phase_begin", "interruption", "phase_end"]


def fail(error):
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "elastic", "ends"),
    [
        (None, False, [("attempt_ended", "succeeded")]),
        (SystemExit(0), False, [("attempt_ended", "succeeded")]),
        (KeyboardInterrupt(), False, [("attempt_ended", "cancelled")]),
        (ValueError("nan"), False, [("interruption", None), ("attempt_ended", "failed")]),
        (SystemExit(3), False, [("interruption", None), ("attempt_ended", "failed")]),
        (ValueError("nan"), True, [("interruption", None)]),  # torchrun may start it again
    ],
)
def test_how_an_attempt_ends(path, error, elastic, ends):
    who = Identity(job_id="j", rank=0, gpus=4, is_elastic=elastic)
    with Recorder(str(path), who) as log:
        raises = pytest.raises(type(error)) if error else nullcontext()
        with raises, log.attempt():
            fail(error)
    first, *others = lines(path)
    assert (first["event"], first["gpus"]) == ("attempt_started", 4)
    assert [(line["event"], line.get("outcome")) for line in others] == ends


def test_an_end_told_inside_an_attempt_is_the_end(path):
    with opened(path) as log, log.attempt():
        log.attempt_ended("preempted", cause="preemption")
    assert [line.get("outcome") for line in lines(path)] == [None, "preempted"]


def use(log):
    with log.attempt(), log.phase("compile"):
        log.train_begin(0)
        log.step(1)
    assert log.flush()
    log.close()
    log.step(2)
    log.close()


@pytest.mark.parametrize(
    ("path", "known", "environment"),
    [
        ("", {"job_id": "j"}, {}),
        ("logs", {"job_id": "j"}, {"ETTLEDGER_OFF": "1"}),
        ("logs", {}, {}),
    ],
)
def test_off(tmp_path, monkeypatch, capfd, path, known, environment):
    for name in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "ETTLEDGER_JOB_ID", "ETTLEDGER_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    log = recorder.trainer(path, **known)
    use(log)
    assert (log.is_on, list(tmp_path.iterdir())) == (False, [])
    assert capfd.readouterr().err == (
        ""
        if known
        else "ettledger recorder: no job id: give job_id= or set ETTLEDGER_JOB_ID; nothing is recorded\n"
    )


def test_nothing_is_written_once_closed(path):
    log = opened(path)
    use(log)
    log.interruption("network")
    log.phase("compile").begin().end()
    assert [line["event"] for line in lines(path)] == [
        "attempt_started", "phase_begin", "train_begin", "step", "phase_end", "attempt_ended",
    ]  # fmt: skip


def test_a_folder_has_a_file_for_each_process(tmp_path):
    names = {"job_id": ".a/b c", "host": "n1"}
    for log in (recorder.trainer(tmp_path, rank=3, **names), recorder.launcher(tmp_path, **names)):
        log.interruption()
        log.close()
    found = sorted(f.name.split(".n1.")[0] for f in tmp_path.iterdir())
    assert found == ["_a_b_c.launcher", "_a_b_c.rank3"]
    assert {line["job_id"] for line in lines(tmp_path)} == {".a/b c"}


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"flush_s": 0}, {"capacity": 3}], ids=lambda o: next(iter(o))
)
def test_options_out_of_range(path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        opened(path, **options)


# --- the law --------------------------------------------------------------------------------------

TEXT = st.text(max_size=8) | st.sampled_from(
    ["\x00", "\ud800", "\u2028", "\n", "network", "failed"]
)
COUNT = st.integers(-(2**64), 2**64) | st.integers(0, 5) | st.booleans()
JUNK = st.none() | st.floats() | TEXT | COUNT | st.binary(max_size=3) | st.lists(COUNT, max_size=2)
ATTRS = st.dictionaries(st.from_regex(r"[a-z]\w{0,4}", fullmatch=True), JUNK, max_size=2)
PHASE = st.sampled_from(sorted(DEFAULT.phases))
ANY = JUNK | COUNT | TEXT
NUMBER = st.none() | st.integers(0, 9) | ANY
CALLS = st.one_of(
    st.tuples(
        st.just("job_submitted"),
        st.just(()),
        st.fixed_dictionaries({}, optional={"model": ANY, "team": ANY}),
    ),
    st.tuples(
        st.just("attempt_started"),
        st.just(()),
        st.fixed_dictionaries({}, optional={"gpus": ANY, "held": ANY}),
    ),
    st.tuples(
        st.sampled_from(["train_begin", "step"]),
        st.tuples(ANY),
        st.fixed_dictionaries({}, optional={"samples": ANY}),
    ),
    st.tuples(st.just("checkpoint_durable"), st.tuples(ANY), st.just({})),
    st.tuples(
        st.sampled_from(["interruption", "attempt_ended", "job_finished"]),
        st.tuples(ANY),
        st.just({}),
    ),
    st.tuples(
        st.just("phase"),
        st.tuples(PHASE),
        st.fixed_dictionaries({}, optional={"blocking": ANY, "span_id": ANY}),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CALLS, ATTRS), max_size=12), TEXT, NUMBER, NUMBER)
def test_whatever_is_told_the_reader_takes_every_line(told, job_id, attempt, rank):
    """Each thing told is a line that the real reader accepts, or was refused and counted."""
    with tempfile.TemporaryDirectory() as folder:
        who = Identity(job_id=job_id or "j", attempt=attempt, rank=rank, host="\ud801")
        log = Recorder(folder, who)
        for (method, positional, named), attrs in told:
            result = getattr(log, method)(*positional, **(attrs | named))
            if method == "phase":
                with result:
                    pass
        log.close()
        found = read(Path(folder)) if told else {"event": [], "reject": []}
        expected = sum(2 if method == "phase" else 1 for (method, *_), _ in told)
        assert found["reject"] == []
        assert len(found["event"]) + sum(log.counts) == expected


def test_a_wrong_phase_is_written_as_told_and_rejected_by_the_reader(path):
    with opened(path) as log, log.phase("chekpoint_save"):
        log.step(1)
    found = read(path)
    assert [row["event"] for row in found["event"]] == ["step"]
    assert {row["reason"] for row in found["reject"]} == {
        "unknown phase 'chekpoint_save': did you mean 'checkpoint_save'?"
    }
