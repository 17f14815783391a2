"""The recorder: one method for each kind of event, for a trainer or a launcher to call."""

from __future__ import annotations

import atexit
import itertools
import os
import re
import signal
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ettledger.recorder import environment
from ettledger.recorder.lines import described, encoded
from ettledger.recorder.thinning import Thinning
from ettledger.recorder.writing import Writer, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import TypedDict

    from typing_extensions import Self, Unpack

    from ettledger.recorder.environment import Identity
    from ettledger.recorder.writing import Told

    class Known(TypedDict, total=False):
        """What a caller knows better than the environment: fields of Identity."""

        job_id: str | None
        cluster: str | None
        attempt: int | None
        rank: int | None
        host: str | None
        gpus: int | None
        held: bool | None
        leads: bool


_FLUSH_S = 0.5
_CAPACITY = 10_000
_PATIENCE_S = 2.0


def now_ms() -> int:
    """Epoch milliseconds of the system's clock."""
    return time.time_ns() // 1_000_000


def trainer(
    path: str | os.PathLike[str] | None = None,
    *,
    every: int | None = None,
    every_s: float | None = None,
    clock: Callable[[], int] = now_ms,
    **known: Unpack[Known],
) -> Recorder:
    """The recorder of one rank: who it is comes from `known`, else from the environment.

    `path` as in Recorder, else ETTLEDGER_PATH; without either nothing is recorded.
    """
    who = environment.of_trainer(os.environ)
    if "rank" in known:
        who = replace(who, leads=known["rank"] == 0)
    return Recorder(_path(path), replace(who, **known), every=every, every_s=every_s, clock=clock)


def launcher(
    path: str | os.PathLike[str] | None = None,
    *,
    clock: Callable[[], int] = now_ms,
    **known: Unpack[Known],
) -> Recorder:
    """The recorder of what starts the ranks: like `trainer`, without a rank."""
    who = environment.of_launcher(os.environ)
    return Recorder(_path(path), replace(who, **known), clock=clock)


def _path(path: str | os.PathLike[str] | None) -> str:
    return os.fspath(path) if path else environment.path_in(os.environ) or ""


class Recorder:
    """Writes lifecycle events as lines of JSON, from a thread of its own.

    `path` is a folder, in which each process has a file of its own; or a file, where it ends in
    `.jsonl` or is there and no folder. Empty, without a job id, or with ETTLEDGER_OFF=1: every
    method does nothing. `every` and `every_s` thin the steps (see `step`). Up to `flush_s` seconds
    of steps are lost to a kill -9; up to `capacity` lines wait. `clock` gives epoch milliseconds.

    No method raises or waits, but for `flush` and `close`. Whatever else is given by keyword goes
    to the line's `attrs`. A phase, cause or outcome is written as told: which there are is the
    ledger's to know, and `ett check` tells the phases it rejects.
    """

    def __init__(
        self,
        path: str,
        who: Identity,
        *,
        every: int | None = None,
        every_s: float | None = None,
        flush_s: float = _FLUSH_S,
        capacity: int = _CAPACITY,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._who, self._base, self._clock = who, path, clock
        self._thinning = None if every is None and every_s is None else Thinning(every, every_s)
        self._held: deque[Told] = deque(maxlen=1)
        self._seen: Told | None = None
        self._overflow: Told | None = None
        self._spans = itertools.count(1)
        self._first_pid = os.getpid()
        self._has_ended = False
        self._counts = (0, 0)
        self._writer: Writer | None = None
        if not path or environment.is_off(os.environ):
            return
        if not who.job_id:
            say("no job id: give job_id= or set ETTLEDGER_JOB_ID; nothing is recorded")
            return
        self._writer = Writer(
            self._file, self._encoded, self._left, flush_s=flush_s, capacity=capacity
        )
        _LIVE.add(self)
        register_after_fork(self, _close_at_exit)

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self._writer is not None

    @property
    def counts(self) -> tuple[int, int]:
        """Lines dropped for lack of room, and lines refused because no line can say them."""
        return self._counts if self._writer is None else self._writer.counts

    # --- of the job -------------------------------------------------------------------------------

    def job_submitted(
        self,
        *,
        model: str | None = None,
        team: str | None = None,
        priority: str | None = None,
        **attrs: Any,
    ) -> None:
        """The job entered the queue."""
        dimensions = {"model": model, "team": team, "priority": priority}
        self._of_job("job_submitted", dimensions, attrs)

    def job_finished(self, outcome: str | None = None, **attrs: Any) -> None:
        """No further attempt will come."""
        self._of_job("job_finished", {"outcome": outcome}, attrs)

    @contextmanager
    def attempt(self, *, gpus: int | None = None, **attrs: Any) -> Iterator[Self]:
        """`attempt_started`, and `attempt_ended` by how the block was left, unless told inside.

        An exception is an `interruption` by this rank, and the end of the attempt, save under
        torchrun: its agent may start the ranks again.
        """
        self.attempt_started(gpus=gpus, **attrs)
        try:
            yield self
        except BaseException as error:
            self.attempt_left_by(error)
            raise
        if not self._has_ended:
            self.attempt_ended("succeeded")

    def attempt_started(
        self,
        *,
        gpus: int | None = None,
        held: bool | None = None,
        model: str | None = None,
        team: str | None = None,
        priority: str | None = None,
        **attrs: Any,
    ) -> None:
        """Hardware was granted: the wall clock of the attempt starts.

        `gpus`: accelerators of the whole attempt, by default ETTLEDGER_GPUS, else WORLD_SIZE (one
        rank for each). `held`: they were kept since the previous attempt.
        """
        self._has_ended = False
        fields = {
            "gpus": self._who.gpus if gpus is None else gpus,
            "held": self._who.held if held is None else held,
            "model": model,
            "team": team,
            "priority": priority,
        }
        self._of_job("attempt_started", fields, attrs)

    def attempt_ended(
        self, outcome: str | None = None, *, cause: str | None = None, **attrs: Any
    ) -> None:
        """Hardware was released, or the launcher gave up."""
        self._has_ended = True
        self._of_job("attempt_ended", {"outcome": outcome, "cause": cause}, attrs)

    def attempt_left_by(self, error: BaseException) -> None:
        """What `attempt` writes of an exception, for a framework's hook that is handed one."""
        if isinstance(error, SystemExit) and error.code in (None, 0):
            outcome = "succeeded"
        elif isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            outcome = "cancelled"
        else:
            outcome = "failed"
            self.interruption(error=described(error))
        if not self._has_ended and (outcome != "failed" or not self._who.is_elastic):
            self.attempt_ended(outcome)

    def train_begin(self, step: int, *, samples: int | None = None, **attrs: Any) -> None:
        """The loop was entered; `step` is the last one restored, 0 on a fresh start."""
        if self._thinning is not None:
            self._thinning.restart()
        self._of_job("train_begin", {"step": step, "samples": samples}, attrs)

    def step(self, step: int, *, samples: int | None = None, **attrs: Any) -> None:
        """Global step `step` has just completed; `samples` were consumed since the job began.

        Thinned, a step that is not due waits: it is written if it stays the last one, or before
        the next line of another kind. A Python integer is wanted: a tensor would wait for its
        device.
        """
        writer = self._writer
        if writer is None or not self._who.leads:
            return
        try:
            at = self._clock()
            told = {"ts": at, "event": "step", "step": step, "samples": samples}, attrs
            is_due = self._is_due(step, at)
            if is_due and writer.put(told, is_step=True):
                self._held.clear()
                return
            if is_due:
                self._overflow = told  # counted, unless it stays the last one
                writer.drop()
            self._held.append(told)
        except Exception as error:  # noqa: BLE001  a step may be anything: the loop goes on
            writer.refuse(error)

    def _is_due(self, step: int, at_ms: int) -> bool:
        if self._thinning is None:
            return True
        if self._thinning.is_back(step):
            self._put_held()
        return self._thinning.is_due(step, at_ms)

    def checkpoint_durable(self, step: int, **attrs: Any) -> None:
        """The whole checkpoint of `step` can now be restored from."""
        self._of_job("checkpoint_durable", {"step": step}, attrs)

    def _of_job(self, event: str, fields: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        if self._who.leads:
            self._tell(event, fields, attrs)
            self._hurry()

    def _hurry(self) -> None:
        """What is rare may be the last that this process tells: it does not wait."""
        writer = self._writer
        if writer is not None:
            writer.hurry()

    # --- of this rank -----------------------------------------------------------------------------

    def phase(
        self, phase: str, *, blocking: bool = True, span_id: str | None = None, **attrs: Any
    ) -> Phase:
        """An interval of work: a context manager, or `begin()` and `end()`.

        Phases nest, of equal name too, and may overlap between threads: each has its own span.
        `blocking=False`: it runs beside the training and holds nothing up.
        """
        fields = {"phase": phase, "span_id": span_id, "host": self._who.host}
        return Phase(self._tell, self._new_span_id, fields, attrs, blocking=blocking)

    def _new_span_id(self) -> str:
        return f"{os.getpid()}.{next(self._spans)}"

    def interruption(
        self,
        cause: str | None = None,
        *,
        rank: int | None = None,
        host: str | None = None,
        **attrs: Any,
    ) -> None:
        """A failure or preemption was detected; `rank` and `host` by default are this process's."""
        where = {
            "rank": self._who.rank if rank is None else rank,
            "host": self._who.host if host is None else host,
        }
        self._tell("interruption", {**where, "cause": cause}, attrs)
        self._hurry()

    # --- stopping ---------------------------------------------------------------------------------

    def flush(self, timeout_s: float = _PATIENCE_S) -> bool:
        """Wait until everything told is in the file; False where that took longer."""
        self._put_held()
        return self._writer is None or self._writer.flush(timeout_s)

    def close(self, timeout_s: float = _PATIENCE_S) -> None:
        """Write what waits and stop; later calls do nothing. Also done at the process's exit."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close(timeout_s, self._take_held(writer))
            self._counts = writer.counts
            _LIVE.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def at_sigterm(self, cause: str | None = None) -> bool:
        """On SIGTERM write an `interruption`, where a cause is given, and what waits; die of it.

        Only in the main thread, and where SIGTERM has no other handler; returns whether it is so.
        Python runs handlers between bytecodes: a process stuck in native code, such as a hung
        collective, then no longer dies of SIGTERM, but of the SIGKILL that follows.
        """
        in_main = threading.current_thread() is threading.main_thread()
        if not (self.is_on and in_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL):
            return False
        owner = os.getpid()

        def die(number: int, _: object) -> None:
            if cause is not None and os.getpid() == owner:  # not in a forked data loader
                self.interruption(cause)
            self.close()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, die)
        return True

    # --- the way to the writer --------------------------------------------------------------------

    def _tell(self, event: str, fields: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            told = {"ts": self._clock(), "event": event, **fields}, attrs
            self._put_held()
            if not writer.put(told, is_step=False):
                writer.drop()
        except Exception as error:  # noqa: BLE001  the caller's clock may raise: the loop goes on
            writer.refuse(error)

    def _put_held(self) -> None:
        writer = self._writer
        if writer is None or not self._held:
            return
        last = self._take_held(writer)
        if last is not None and not writer.put(last, is_step=False):
            self._overflow = last
            writer.drop()
            self._held.append(last)

    def _take_held(self, writer: Writer) -> Told | None:
        """The step that was held back, to be written."""
        try:
            last = self._held.pop()
        except IndexError:
            return None
        if last is self._overflow:
            writer.drop(-1)
        return last

    def _left(self) -> Told | None:
        """The step that was held back, once nothing has followed it for a whole flush interval."""
        held = next(iter(self._held.copy()), None)
        is_last = held is not None and held is self._seen
        self._seen = held
        writer = self._writer
        return self._take_held(writer) if is_last and writer is not None else None

    def _encoded(self, told: Told) -> bytes:
        """A line with who wrote it.

        The host stands on phases and interruptions only: of what is said of the whole job the
        ledger believes one emitter, and rank 0 may be on another host after a restart.
        """
        fields, attrs = told
        who = self._who
        names = {"job_id": who.job_id, "cluster": who.cluster, "attempt": who.attempt}
        return encoded({**names, "rank": who.rank, **fields}, attrs)

    def _file(self) -> str:
        """The file of this process; a child of a fork has one of its own."""
        base, pid = self._base, os.getpid()
        is_file = base.endswith(".jsonl") or (os.path.exists(base) and not Path(base).is_dir())
        if is_file:
            return base if pid == self._first_pid else f"{base.removesuffix('.jsonl')}.{pid}.jsonl"
        who = self._who
        speaker = "launcher" if who.rank is None else f"rank{who.rank}"
        parts = [str(who.job_id)[:80], speaker, who.host or "host", f"{pid}.jsonl"]
        return os.path.join(base, re.sub(r"^\.|[^\w.-]", "_", ".".join(parts), flags=re.ASCII))

    def forked(self) -> None:
        """In a forked child: what was told before is the parent's."""
        self._held = deque(maxlen=1)
        self._spans = itertools.count(1)
        if self._writer is not None:
            self._writer.forked()


class Phase:
    """One span of work of a recorder, open between `begin` and `end`."""

    __slots__ = ("_attrs", "_blocking", "_fields", "_new_span_id", "_open", "_pid", "_tell")

    def __init__(
        self,
        tell: Callable[[str, Mapping[str, Any], Mapping[str, Any]], None],
        new_span_id: Callable[[], str],
        fields: Mapping[str, Any],
        attrs: Mapping[str, Any],
        *,
        blocking: bool,
    ) -> None:
        self._tell, self._new_span_id = tell, new_span_id
        self._fields, self._attrs = fields, attrs
        self._blocking = None if blocking else False  # true is what an absent field means
        self._open: dict[str, Any] | None = None
        self._pid = 0

    def begin(self) -> Self:
        """The work begins; a span that is open stays as it is."""
        if self._open is None:
            span_id = self._fields["span_id"] or self._new_span_id()
            self._open, self._pid = {**self._fields, "span_id": span_id}, os.getpid()
            self._tell("phase_begin", {**self._open, "blocking": self._blocking}, self._attrs)
        return self

    def end(self, **attrs: Any) -> None:
        """The work is done. Where no span is open, or the parent of a fork opened it: nothing."""
        span, self._open = self._open, None
        if span is not None and self._pid == os.getpid():
            self._tell("phase_end", span, attrs)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


_LIVE: set[Recorder] = set()


@atexit.register
def _close_all() -> None:
    for log in list(_LIVE):
        log.close()


def _after_fork() -> None:
    for log in list(_LIVE):
        log.forked()


def _close_at_exit(log: Recorder) -> None:
    """A child of multiprocessing leaves by os._exit, which runs its finalizers only."""
    Finalize(log, log.close, exitpriority=0)


os.register_at_fork(after_in_child=_after_fork)
