"""The way of lines to their file: a bounded queue, and the thread that empties it."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable

from ettledger.recorder.lines import described

if TYPE_CHECKING:
    from collections.abc import Mapping

    Told = tuple[dict[str, Any], Mapping[str, Any]]
    """The fields and the attrs of a line."""

_BATCH = 64  # lines for one os.write: few, since encoding holds the interpreter lock
_RETRY_S = 1.0
_SPARE = 4  # one part in four of the queue is kept for lines that are no steps


class Writer:
    """Takes lines from any thread without waiting, and appends them to a file from its own.

    `path` names the file when it is opened; `encode` makes a line, or raises ValueError; `last` is
    asked once per `flush_s` for a line that was held back. Nothing here raises, and nothing but
    `flush` and `close` waits: what the loop touches is a deque, whose ends are atomic. A signal
    handler may call all of it: the one lock, for starting and counting, is reentrant.
    """

    def __init__(
        self,
        path: Callable[[], str],
        encode: Callable[[Told], bytes],
        last: Callable[[], Told | None],
        *,
        flush_s: float,
        capacity: int,
    ) -> None:
        self._path, self._encode, self._last = path, encode, last
        if flush_s <= 0 or capacity < _SPARE:
            found = f"flush_s is {flush_s}, capacity {capacity}"
            raise ValueError(f"{found}: give seconds above 0 and at least {_SPARE} lines")
        self._flush_s, self._capacity = flush_s, capacity
        self._for_steps = capacity - capacity // _SPARE
        self._is_closing = False
        self._fd: int | None = None
        self._begin()
        self._start()

    def _begin(self) -> None:
        """As in a process that has written nothing yet."""
        self._queue: deque[Told | threading.Event] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._unwritten: list[bytes] = []
        self._asked: list[threading.Event] = []
        self._retry_at = 0.0
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()
        self._lock = threading.RLock()
        self._dropped = self._refused = 0
        self._reported = (0, 0)

    # --- from the loop ----------------------------------------------------------------------------

    def put(self, told: Told, *, is_step: bool) -> bool:
        """Take a line where there is room, and whether there was."""
        waiting = len(self._queue)
        if waiting >= (self._for_steps if is_step else self._capacity):
            return False
        self._queue.append(told)
        if waiting == self._for_steps // 2:
            self.hurry()
        if self._thread is None:
            self._start()
        return True

    def hurry(self) -> None:
        """Write what waits now, not at the end of the interval."""
        self._wake.put(None)

    def refuse(self, error: Exception) -> None:
        """Count a line that cannot be written, and say why, once."""
        with self._lock:
            self._refused += 1
        self.say("refused", f"a line was not written: {described(error)}")

    def drop(self, count: int = 1) -> None:
        """Count a line for which there was no room; with -1, one that was written after all."""
        with self._lock:
            self._dropped += count
        self.say("dropped", f"{self._capacity} lines are waiting: more are dropped, and counted")

    def say(self, subject: str, message: str) -> None:
        """One line on standard error for each subject, past its Python object and its lock."""
        if subject not in self._said:
            self._said.add(subject)
            say(message)

    @property
    def counts(self) -> tuple[int, int]:
        """Lines dropped and lines refused so far."""
        return self._dropped, self._refused

    # --- waiting ----------------------------------------------------------------------------------

    def flush(self, timeout_s: float) -> bool:
        """Wait until what was told before is written, at most `timeout_s`; whether it is."""
        done = threading.Event()
        self._queue.append(done)
        self.hurry()
        if self._is_running():
            return done.wait(timeout_s)
        self._drain()
        return done.is_set()

    def close(self, timeout_s: float, last: Told | None) -> None:
        """Write what is left and `last`, with a last try where writing had failed, and stop."""
        if last is not None:
            self._queue.append(last)
        self._is_closing = True
        self.hurry()
        if self._is_running() and self._thread is not None:
            self._thread.join(timeout_s)
        else:
            self._end()

    def _is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive() and thread is not threading.current_thread()

    def forked(self) -> None:
        """In a forked child: what waits is the parent's to write, and so is its file."""
        if self._fd is not None:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = None
        self._begin()

    # --- the thread -------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="ettledger", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # none to be had: close() writes what there was room for
                self.say("thread", f"lines are written at the end only: {error}")

    def _run(self) -> None:
        while not self._is_closing:
            with suppress(Empty):
                self._wake.get(timeout=self._flush_s)
                while True:
                    self._wake.get_nowait()
            last = None if self._unwritten else self._last()  # a stuck queue gets no longer
            if last is not None:
                self._queue.append(last)
            self._drain()
        self._end()

    def _end(self) -> None:
        self._retry_at = 0.0
        self._drain()
        self._close_file()
        lost = len(self._unwritten) + sum(isinstance(x, tuple) for x in self._queue)
        told = (self._dropped + lost, self._refused)
        if told != self._reported:
            say("{} lines were dropped and {} refused".format(*told))

    def _drain(self) -> None:
        """Write all that waits, or as much as can be written."""
        while self._unwritten or self._queue:
            if not self._unwritten:
                self._unwritten = self._taken()
            if not self._wrote():
                return
            for asked in self._asked:
                asked.set()
            self._asked.clear()

    def _taken(self) -> list[bytes]:
        """The next lines of the queue, encoded, up to one that somebody waits for."""
        lines: list[bytes] = []
        while len(lines) < _BATCH and self._queue:
            told = self._queue.popleft()
            if isinstance(told, threading.Event):
                self._asked.append(told)
                break
            try:
                lines.append(self._encode(self._with_counts(told)))
            except Exception as error:  # noqa: BLE001  what was told may raise whatever it likes
                self.refuse(error)
        return lines

    def _with_counts(self, told: Told) -> Told:
        """The line, with what was lost before it where the file does not say so yet."""
        if self.counts == self._reported:
            return told
        self._reported = dropped, refused = self.counts
        lost = {"recorder_dropped": dropped or None, "recorder_refused": refused or None}
        return told[0], {**told[1], **lost}

    # --- the file ---------------------------------------------------------------------------------

    def _wrote(self) -> bool:
        """Whether all that was taken is in the file; else it is tried again later."""
        if not self._unwritten:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._append(b"".join(self._unwritten))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            self._retry_at = time.monotonic() + _RETRY_S
            self._close_file()
            self.say("file", f"cannot write to {self._path()!r}, trying again: {error}")
        return not self._unwritten

    def _append(self, lines: bytes) -> None:
        if self._fd is None:
            self._fd = opened(self._path())
        written = os.write(self._fd, lines)
        while self._unwritten and written >= len(self._unwritten[0]):
            written -= len(self._unwritten.pop(0))
        if self._unwritten:
            raise OSError("a line was cut short: it is written again, whole")

    def _close_file(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = None


def opened(path: str) -> int:
    """A descriptor to append to a file, behind whole lines: one that was cut short is ended."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            os.write(fd, b"\n")
    except OSError:
        os.close(fd)
        raise
    return fd


def say(message: str) -> None:
    """One line on standard error; the Python object's lock could be one that a fork left taken."""
    with suppress(OSError):
        os.write(2, f"ettledger recorder: {message}\n".encode("utf-8", "replace"))
