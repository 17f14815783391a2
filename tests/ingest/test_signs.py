import pytest

from pipelines.ingest.signs import SIGNS, of_exception, sign_in
from tests.ingest.console_logs import clock, megatron, read, told

TRACEBACK = "Traceback (most recent call last):"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
WATCHDOG = (
    "[rank{}]:[E301 00:{}:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000)"
)


def traceback(last, rank=""):
    return [f"{rank}{TRACEBACK}", f'{rank}  File "train.py", line 1, in <module>', f"{rank}{last}"]


def ends(*lines):
    """What is told of failures and ends after two steps at 1 and 2 s: (second, kind, …)."""
    steps = [megatron(n, 1000, second=n) for n in (1, 2)]
    rows = told(*steps, *lines)
    return [(s, k, *(f.get(n) for n in ("outcome", "cause"))) for s, k, f in rows if k in ("interruption", "attempt_ended")]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "outcome", "cause"),
    [
        (" DUE TO TIME LIMIT", "timed_out", "timeout"),
        (" DUE TO PREEMPTION", "preempted", "preemption"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "failed", "node_lost"),
        (" DUE TO JOB REQUEUE", "unknown", "unknown"),
    ],
)
def test_what_slurm_says_of_the_job_s_end(why, outcome, cause):
    line = f"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T00:00:50{why} ***"
    assert ends(line) == [(50, "interruption", None, cause), (50, "attempt_ended", outcome, cause)]


JOB_CANCELLED = "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T00:00:50{} ***"


def test_a_job_that_somebody_cancels_has_an_end_and_no_failure():
    step = "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T00:00:50 ***"
    exit_ = f"[exiting program after receiving SIGTERM.] datetime: {clock(52)} "
    job = JOB_CANCELLED.format("")
    cancelled = (50, "attempt_ended", "cancelled", "cancelled")
    assert ends(job) == ends(step, job) == ends(job, step) == [cancelled]
    assert ends(job, exit_) == [cancelled, (52, "attempt_ended", None, None)]
    assert ends(f"[{clock(9)}] {OOM}", job) == [
        (9, "interruption", None, "out_of_memory"),
        (50, "attempt_ended", "cancelled", "out_of_memory"),
    ]


def test_a_time_of_grace_is_one_interruption():
    """Told to stop, the trainer goes on for a while, and then says so or does not."""
    notice = JOB_CANCELLED.format(" DUE TO PREEMPTION")
    grace = [megatron(n, 1000, second=n + 48) for n in (3, 4, 5)]
    exit_ = f"[exiting program after receiving SIGTERM.] datetime: {clock(60)} "
    told_of = [
        (50, "interruption", None, "preemption"),
        (50, "attempt_ended", "preempted", "preemption"),
    ]
    last = ("preempted", "preemption")
    assert ends(notice, *grace, exit_) == [
        *told_of, (60, "attempt_ended", None, None), (60, "attempt_ended", *last),
    ]  # fmt: skip
    assert ends(notice, *grace) == [*told_of, (53, "attempt_ended", *last)]


def test_a_cancelled_step_is_an_interruption_but_no_end():
    line = "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T00:00:50 ***"
    assert ends(line) == [(50, "interruption", None, "unknown")]


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        ("ValueError: bad", "user_code"),
        (OOM, "out_of_memory"),
        ("RuntimeError: CUDA error: device-side assert triggered", "user_code"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "hardware"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "unknown"),
        ("OSError: [Errno 28] No space left on device", "storage"),
        ("OSError: [Errno 5] Input/output error: '/lustre/data/corpus.bin'", "storage"),
        ("OSError: [Errno 116] Stale file handle", "storage"),
        ("OSError: [Errno 121] Remote I/O error", "storage"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", "user_code"),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited", "network"),
        ("KeyboardInterrupt", "cancelled"),
        ("MemoryError", "out_of_memory"),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "unknown"),
    ],
)  # fmt: skip
def test_the_last_line_of_a_traceback_tells_the_cause(last, cause):
    assert ends(f"[{clock(9)}] x", *traceback(last)) == [(9, "interruption", None, cause)]
    assert of_exception(last).cause == cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("node1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "hardware"),
        ("node1 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=1, Ch 00000008, MMU Fault", "unknown"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.0.", "out_of_memory"),
        ("Out of memory: Killed process 123 (python) total-vm:1kB", "out_of_memory"),
        ("srun: error: Node failure on r10i1n2", "node_lost"),
        ("x.cu:12 NCCL WARN Call to ibv failed: ncclRemoteError", "network"),
        ("Main process received SIGTERM, exiting", "unknown"),
        ("slurmstepd: error: *** STEP 77.0 ON n1 UNCORRECTABLE MEMORY ERROR AT 2026-03-01T00:00:50 ***", "hardware"),
        ("everything is fine", None),
        ("2.0 out of 3 memory banks", None),
    ],
)  # fmt: skip
def test_signs(line, cause):
    found = sign_in(line)
    assert (SIGNS[found[0]].cause if found else None) == cause


def test_the_earliest_root_and_not_the_cascade_that_follows_it():
    """A watchdog is heard first; rank 3 ran out of memory; the others lost it; Slurm ends the step."""
    lines = [
        WATCHDOG.format(5, "01", 5),
        *traceback(OOM, "[rank3]: "),
        *traceback("torch.distributed.DistBackendError: NCCL error", "[rank5]: "),
        *traceback("ValueError: not the first root", "[rank6]: "),
        WATCHDOG.format(6, "31", 6),
        "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T00:32:00 ***",
    ]
    assert ends(*lines) == [(60, "interruption", None, "out_of_memory")]


def test_tracebacks_of_interleaved_ranks():
    three, five = traceback(OOM, "[rank3]: "), traceback("ConnectionResetError: x", "[rank5]: ")
    woven = [line for pair in zip(five, three, strict=True) for line in pair]
    assert ends(f"[{clock(9)}] x", *woven) == [(9, "interruption", None, "out_of_memory")]


def test_signs_far_apart_are_two_failures():
    lines = [f"[{clock(9)}] {OOM}", f"[{clock(9 + 3601)}] {OOM}"]
    assert [s for s, *_ in ends(*lines)] == [9, 3610]


def test_what_a_job_says_while_it_is_killed_is_no_other_failure():
    end = (
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-01T00:00:50 DUE TO PREEMPTION ***"
    )
    lines = [end, "Main process received SIGTERM, exiting", *traceback("KeyboardInterrupt")]
    assert [k for _, k, *_ in ends(*lines)] == ["interruption", "attempt_ended"]


def test_no_failure_where_training_goes_on():
    """One step may still be printed by another rank; two mean that nobody was interrupted."""
    caught = [f"[{clock(3)}] x", *traceback("ValueError: caught")]
    after = [megatron(n, 1000, second=n + 1) for n in (3, 4)]
    assert ends(*caught, after[0]) == [(3, "interruption", None, "user_code")]
    assert ends(*caught, *after) == []


def test_a_restart_settles_the_failure_before_it():
    again = ["[titan] Starting", megatron(1, 1000, second=60), megatron(2, 1000, second=61), megatron(3, 1000, second=62)]  # fmt: skip
    assert ends(f"[{clock(9)}] {OOM}", *again) == [(9, "interruption", None, "out_of_memory")]


def test_a_start_that_failed_before_the_loop_is_settled_by_the_next():
    """What ends the second launch is no consequence of the first one's failure."""
    start = ["using world size: 16, data-parallel-size: 1", "[after megatron is initialized] datetime: {} "]  # fmt: skip
    lines = [*start, *traceback("OSError: [Errno 5] Input/output error"), *start]
    lines = [line.format(clock(10 + n)) for n, line in enumerate(lines)]
    assert ends(*lines, JOB_CANCELLED.format(" DUE TO PREEMPTION")) == [
        (11, "interruption", None, "storage"),
        (50, "interruption", None, "preemption"),
        (50, "attempt_ended", "preempted", "preemption"),
    ]


def test_a_torn_message_of_slurm(real_logs):
    path = real_logs / "log-quotes" / "slurm_interleaved_preemption_line.log"
    if not path.is_file():
        pytest.skip(f"no {path}")
    events, _, _ = read(path.read_bytes())
    found = {
        (e["event"], e.get("outcome"), e.get("cause")) for e in events if e["event"] != "alive"
    }
    assert found == {
        ("interruption", None, "preemption"), ("attempt_ended", "preempted", "preemption"),
    }  # fmt: skip
    assert {e["job_id"] for e in events} == {"11509447"}


def test_the_end_lines_of_real_jobs(real_logs):
    path = real_logs / "log-quotes" / "slurm_megatron_exit_lines_2026.log"
    if not path.is_file():
        pytest.skip(f"no {path}")
    found = {}
    for line in path.read_text().splitlines():
        events, _, _ = read(f"{line}\n")
        found[line[:52]] = [(e["event"], e.get("outcome"), e.get("cause")) for e in events if e["event"] != "alive"]  # fmt: skip
    assert list(found.values()) == [
        [("interruption", None, "unknown")],
        [],
        [("attempt_ended", "cancelled", "cancelled")],
        [("interruption", None, "unknown")],
        [("interruption", None, "timeout"), ("attempt_ended", "timed_out", "timeout")],
        [("interruption", None, "preemption"), ("attempt_ended", "preempted", "preemption")],
        [("attempt_ended", None, None), ("interruption", None, "unknown")],
        [("attempt_ended", "succeeded", None)],
        [("attempt_ended", "succeeded", None)],
        [("attempt_ended", "succeeded", None)],
    ]
