"""What reaches the file when processes fork or die, disks are full, and queues run over."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from tests.ingest.helpers import read
from tests.recorder.helpers import lines, opened, run, steps

PROLOGUE = """
import multiprocessing, os, resource, signal, subprocess, time
from ettledger.recorder import Identity, Recorder
path = sys.argv[1]
who = Identity(job_id="j", rank=0, host="n1")
log = Recorder(path, who, flush_s=0.05)
"""


def scenario(script, path, **options):
    """What a process that records, and then does this, has left in `path`."""
    return run(PROLOGUE + script, path, **options)


# --- the ends of a process ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("log.close(); log.step(5)", 0),
        ("log.flush(); os._exit(4)", 4),
        ("log.at_sigterm(); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("time.sleep(0.5); os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_what_was_told_is_there_at_the_end(tmp_path, ending, code):
    ended = scenario(f"for step in range(1, 301): log.step(step)\n{ending}", tmp_path)
    assert ended.returncode == code, ended.stderr
    assert steps(lines(tmp_path)) == list(range(1, 301))


def test_a_kill_loses_the_last_moment_only(tmp_path):
    """Steps told one flush interval ago are there, in whole lines."""
    script = """
step = 0
begun = time.monotonic()
while time.monotonic() < begun + 0.5:
    step += 1
    log.step(step)
    time.sleep(0.0005)
    if time.monotonic() < begun + 0.25:
        before = step
os.write(1, str(before).encode())
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = scenario(script, tmp_path)
    [file] = tmp_path.iterdir()
    written = steps(lines(file))
    assert ended.returncode == -signal.SIGKILL
    assert written == list(range(1, len(written) + 1))
    assert len(written) >= int(ended.stdout) > 0
    assert file.read_bytes().endswith(b"\n")


def test_other_lines_than_steps_do_not_wait_for_the_interval(tmp_path):
    log = opened(tmp_path, flush_s=600)
    log.checkpoint_durable(5)
    for _ in range(2000):
        if any(f.stat().st_size for f in tmp_path.iterdir()):
            break
        threading.Event().wait(0.005)
    assert [line["step"] for line in lines(tmp_path)] == [5]
    log.close()


def test_sigterm_with_a_cause_is_an_interruption(tmp_path):
    ended = scenario(
        "log.at_sigterm('preemption'); log.step(1); os.kill(os.getpid(), signal.SIGTERM)", tmp_path
    )
    assert ended.returncode == -signal.SIGTERM
    assert [(x["event"], x.get("cause")) for x in lines(tmp_path)] == [
        ("step", None),
        ("interruption", "preemption"),
    ]


def test_a_handler_of_sigterm_that_is_there_stays(tmp_path):
    script = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print(log.at_sigterm("preemption"))
log.step(1)
os.kill(os.getpid(), signal.SIGTERM)
"""
    ended = scenario(script, tmp_path)
    assert (ended.stdout, ended.returncode, steps(lines(tmp_path))) == ("False\n", 9, [1])


# --- forks and threads ----------------------------------------------------------------------------


def by_process(folder):
    """The steps of each file, the parent's first."""
    return sorted(steps(lines(file)) for file in folder.iterdir())


@pytest.mark.parametrize("leaving", ["log.close(); os._exit(0)", "sys.exit()"])
def test_a_forked_child_has_a_file_of_its_own(tmp_path, leaving):
    """Neither what waits at the fork nor a span that is open then is told twice."""
    script = f"""
phase = log.phase("compile").begin()
for step in range(1, 101): log.step(step)
child = os.fork()
if child == 0:
    phase.end()
    for step in range(201, 301): log.step(step)
    {leaving}
phase.end()
for step in range(101, 201): log.step(step)
os.waitpid(child, 0)
"""
    for target in ("folder", "one.jsonl"):
        (tmp_path / target).mkdir() if target == "folder" else None
        ended = scenario(script, tmp_path / target)
        assert ended.returncode == 0, ended.stderr
    [*alone] = [f for f in tmp_path.iterdir() if f.is_file()]
    assert by_process(tmp_path / "folder") == [list(range(1, 201)), list(range(201, 301))]
    assert sorted(steps(lines(f)) for f in alone) == by_process(tmp_path / "folder")
    assert sum(x["event"] == "phase_end" for x in lines(tmp_path / "folder")) == 1


def test_a_child_of_multiprocessing_is_flushed(tmp_path):
    """Such a child leaves by os._exit: no atexit function runs."""
    script = """
log.step(1)
child = multiprocessing.get_context("fork").Process(target=lambda: log.step(2))
child.start()
child.join()
"""
    ended = scenario(script, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert by_process(tmp_path) == [[1], [2]]


def test_a_subprocess_does_not_inherit_the_file(tmp_path):
    script = """
log.step(1); log.flush()
print(subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True).stdout)
"""
    ended = scenario(script, tmp_path, environment={"PATH": os.environ["PATH"]})
    assert "/proc" in ended.stdout
    assert str(tmp_path) not in ended.stdout


def test_threads_lose_and_double_nothing(tmp_path):
    log = opened(tmp_path)

    def tell(thread):
        for number in range(500):
            with log.phase("data_stall", number=number):
                log.step(thread * 1000 + number)

    threads = [threading.Thread(target=tell, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    found = lines(tmp_path)
    assert sorted(steps(found)) == sorted(t * 1000 + n for t in range(4) for n in range(500))
    begun, ended = (
        [x["span_id"] for x in found if x["event"] == f"phase_{edge}"] for edge in ("begin", "end")
    )
    assert sorted(begun) == sorted(ended)
    assert len(set(begun)) == 2000


# --- disks and queues -----------------------------------------------------------------------------


def test_a_full_disk_is_said_once_and_never_raised(capfd):
    log = opened("/dev/full", capacity=100)
    for step in range(1, 1001):
        log.step(step)
        log.interruption("storage")
    assert not log.flush(0.05)
    log.close()
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("ettledger recorder: ")
    assert sum("No space left" in line for line in said) == 1
    assert said[-1] == "ettledger recorder: 2000 lines were dropped and 0 refused"
    assert len(said) == 3


def test_a_disk_with_room_again_goes_on_with_whole_lines(tmp_path):
    """The line that was cut short is one reject, and is there whole after it."""
    script = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for step in range(1, 41): log.step(step)
log.flush(0.2)
assert os.path.getsize(path) == 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.step(41)
"""
    path = tmp_path / "log.jsonl"
    ended = scenario(script, path)
    assert (ended.returncode, ended.stderr.count("\n")) == (0, 1), ended.stderr
    found = read(path)
    assert [row["step"] for row in found["event"]] == list(range(1, 42))
    assert len(found["reject"]) == 1


def test_a_line_that_a_crash_cut_short_is_ended_first(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"ts":1764576000000,"jo')
    with opened(path) as log:
        log.step(1)
    torn, whole = path.read_bytes().splitlines()
    assert (torn, json.loads(whole)["step"]) == (b'{"ts":1764576000000,"jo', 1)


def test_a_full_queue_drops_steps_first_and_counts(tmp_path, capfd):
    """Nothing can be written yet: a file stands where the folder should be."""
    folder = tmp_path / "folder"
    folder.touch()
    log = opened(folder / "log.jsonl", capacity=44)
    for step in range(1, 201):
        log.step(step)
    for number in range(10):
        log.checkpoint_durable(number)
    folder.unlink()
    log.close()
    found = lines(folder / "log.jsonl")
    written, (dropped, refused) = steps(found), log.counts
    assert [x["step"] for x in found if x["event"] == "checkpoint_durable"] == list(range(10))
    assert (written[0], written[-1], written) == (1, 200, sorted(written))  # the last one is there
    assert (dropped, refused) == (200 - len(written), 0)
    said = [x["attrs"]["recorder_dropped"] for x in found if "attrs" in x]
    assert said[-1] == str(dropped)
    assert "44 lines are waiting: more are dropped, and counted" in capfd.readouterr().err


def test_what_cannot_be_a_line_is_counted_and_said_once(tmp_path, capfd):
    with opened(tmp_path) as log:
        log.step(-1)
        log.step(1.5)
        log.step(2**63)
        log.step(None)
        log.attempt_started(gpus="8", note="x" * 2_000_000)
        log.interruption(error=Unspeakable())
        log.phase(Unspeakable()).begin()
        log.flush()
        log.step(2, note="x" * 9_000)
    [told] = lines(tmp_path)
    assert (told["step"], len(told["attrs"]["note"])) == (2, 4_001)
    assert told["attrs"]["recorder_refused"] == "7"
    assert capfd.readouterr().err == (
        "ettledger recorder: a line was not written: step is out of range: 0 to 9223372036854775807 is written\n"
    )


def test_a_step_that_raises_is_no_matter_to_the_loop(tmp_path):
    with opened(tmp_path, every=2) as log:
        log.step(Unspeakable())
        log.step(1)
    assert (steps(lines(tmp_path)), log.counts) == ([1], (0, 1))


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


class Unspeakable:
    """Whatever is asked of it raises an error whose text raises."""

    def __str__(self):
        raise UnspeakableError

    __repr__ = __le__ = __ge__ = __str__


# --- by itself ------------------------------------------------------------------------------------

PYTHONS = ["3.9", "3.10", "3.12", "3.13"]


def interpreter(version):
    """A Python of this version, on the path or of pyenv."""
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    found = of_pyenv or [shutil.which(f"python{version}")]
    return found[0]


@pytest.mark.parametrize("version", PYTHONS)
def test_other_pythons_without_any_package(tmp_path, version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    ended = scenario("with log.attempt(gpus=1): log.step(1)", tmp_path, python=python)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line["event"] for line in lines(tmp_path)] == [
        "attempt_started", "step", "attempt_ended",
    ]  # fmt: skip
