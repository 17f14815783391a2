"""Signs of a failure in the text of any log: which outcome and cause each tells, and what follows.

A failure on one rank brings down the others, and each says so in its own words. So signs are
gathered (docs/sources/console.md): the first is when the failure was detected, the first that is
a root, and no mere consequence, gives the cause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pipelines.ingest.listener import Context, Line, Told
from pipelines.ingest.words import Words
from pipelines.taxonomy import Cause, Outcome

CASCADE_MS = 3_600_000
"""Signs of one failure come within this time: a collective times out after up to half an hour."""
_STEPS_THAT_DISPROVE = 2
"""The last step under way may still be printed; a second one means that training went on."""
_LONGEST_SIGN = 200

TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Sign:
    """Words that tell of a failure, and what they mean. All of `words` are literals.

    `expression`, where given, must be found too. `is_root`: it is where the failure began, or what
    a rank does because another one failed?
    """

    words: tuple[str, ...]
    outcome: Outcome
    cause: Cause
    is_root: bool = True
    expression: str | None = None

    def found_in(self, text: str) -> str | None:
        """The words that are there."""
        for word in self.words:
            if word in text:
                return word if self.expression is None or re.search(self.expression, text) else None
        return None


_F = Outcome.FAILED
_JOB_END = r"CANCELLED AT \d{4}-\d\d-\d\dT"
# What slurmstepd says of an end is in slurm/src/slurmd/slurmstepd/req.c.
SIGNS: tuple[Sign, ...] = (
    Sign(("DUE TO TIME LIMIT",), Outcome.TIMED_OUT, Cause.TIMEOUT),
    Sign(("DUE TO PREEMPTION",), Outcome.PREEMPTED, Cause.PREEMPTION),
    Sign(("DUE TO NODE FAILURE", "srun: error: Node failure on"), _F, Cause.NODE_LOST),
    # By a user, an operator, the script itself or a lost node: the accounting knows, not this line.
    Sign(("DUE TO JOB REQUEUE",), Outcome.UNKNOWN, Cause.UNKNOWN, is_root=False),
    # Of the driver's errors 13, 31, 43 and 45 may be the program's own (NVIDIA, "Xid Errors").
    Sign(("NVRM: Xid",), _F, Cause.UNKNOWN, expression=r"Xid \([^)]*\): (?:13|31|43|45)\b"),
    Sign(
        ("uncorrectable ECC", "NVRM: Xid", "GPU has fallen off the bus",
         "UNCORRECTABLE MEMORY ERROR AT "),
        _F, Cause.HARDWARE,
    ),
    Sign(
        ("OutOfMemoryError", "out of memory", "Out of memory", "oom-kill", "out-of-memory handler",
         "can't allocate memory", "std::bad_alloc"),
        _F, Cause.OUT_OF_MEMORY,
    ),
    Sign(
        ("No space left on device", "Disk quota exceeded", "Stale file handle",
         "Stale NFS file handle", "Input/output error", "Remote I/O error",
         "Transport endpoint is not connected"),
        _F, Cause.STORAGE,
    ),
    Sign(("NET/IB : Got completion", "NET/IB: Got completion"), _F, Cause.NETWORK),
    Sign(
        ("ncclRemoteError", "Connection reset by peer",
         "Watchdog caught collective operation timeout", "ncclSystemError",
         "ncclInternalError", "NCCL communicator was aborted",
         "Connection closed by peer", "Connection closed by remote peer"),
        _F, Cause.NETWORK, is_root=False,
    ),
    Sign((TRACEBACK,), _F, Cause.USER_CODE),
    Sign(("Error executing job with overrides",), _F, Cause.USER_CODE),
    Sign(("Segmentation fault", "Fatal Python error", "(SIGSEGV)", "Bus error"), _F, Cause.UNKNOWN),
    Sign(
        (" CANCELLED AT ",), Outcome.CANCELLED, Cause.CANCELLED,
        expression=r"JOB \d+ (?:ON \S+ )?" + _JOB_END,
    ),
    Sign((" CANCELLED AT ",), _F, Cause.UNKNOWN, is_root=False, expression=_JOB_END),
    Sign(
        ("received SIGTERM", "Received SIGTERM", "[exiting program after receiving SIG",
         " FAILED (non-zero exit code or other failure mode)"),
        _F, Cause.UNKNOWN, is_root=False,
    ),
)  # fmt: skip
"""All signs, from the telling to the general; the one list of them."""

TELLING = next(n for n, sign in enumerate(SIGNS) if sign.cause == Cause.USER_CODE) + 2
"""How many of SIGNS, from the first, tell of the end of a run even where nothing else does."""

_WORDS = Words(word for sign in SIGNS for word in sign.words)
_OF_WORD = {w: tuple(n for n, s in enumerate(SIGNS) if w in s.words) for w in _WORDS.words}


def sign_in(text: str) -> tuple[int, str] | None:
    """The most telling sign in a text: which of SIGNS, and its words.

    >>> index, words = sign_in("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
    >>> str(SIGNS[index].cause), words
    ('out_of_memory', 'OutOfMemoryError')
    """
    return sign_of(_WORDS.found_in(text), text)


def sign_of(words: frozenset[str], text: str) -> tuple[int, str] | None:
    """The same, where it is known which words the text holds; others' words do no harm."""
    for number in sorted({n for word in words for n in _OF_WORD.get(word, ())}):
        if found := SIGNS[number].found_in(text):
            return number, found
    return None


# -- the exception that ends a traceback ---------------------------------------------------------

_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?::|$)")
_OF_NAME: Mapping[str, tuple[Cause, bool]] = {
    "MemoryError": (Cause.OUT_OF_MEMORY, True),
    "KeyboardInterrupt": (Cause.CANCELLED, True),
    # Of a rank that lost another.
    **dict.fromkeys(
        ("DistBackendError", "DistNetworkError", "DistStoreError", "ConnectionError",
         "TimeoutError", "ConnectionResetError", "ConnectionRefusedError",
         "ConnectionAbortedError", "BrokenPipeError"),
        (Cause.NETWORK, False),
    ),
    # Of a parent whose child failed, and of a process that was told to stop.
    **dict.fromkeys(
        ("ChildFailedError", "ProcessExitedException", "SignalException", "SystemExit",
         "CalledProcessError", "ProcessRaisedException"),
        (Cause.UNKNOWN, False),
    ),
}  # fmt: skip
"""What exceptions mean by their name: the cause, and whether it is a root. Others: user code."""
_OF_EITHER = ("CUDA error: an illegal memory access", "CUDA error: unspecified launch failure")
"""Errors that a program and a broken accelerator raise alike."""


def of_exception(text: str) -> Sign:
    """What the last line of a traceback tells.

    >>> str(of_exception("RuntimeError: CUDA error: device-side assert triggered").cause)
    'user_code'
    >>> of_exception("torch.distributed.DistBackendError: NCCL error in: x.cpp:1").is_root
    False
    """
    found = _EXCEPTION.match(text)
    name = found[1].rpartition(".")[2] if found else ""
    if (sign := sign_in(text)) and SIGNS[sign[0]].cause != Cause.USER_CODE:
        return SIGNS[sign[0]]
    cause, is_root = _OF_NAME.get(name, (Cause.USER_CODE, True))
    if "NCCL error" in text:
        cause, is_root = Cause.NETWORK, False
    elif any(words in text for words in _OF_EITHER):
        cause = Cause.UNKNOWN
    outcome = Outcome.CANCELLED if cause == Cause.CANCELLED else _F
    return Sign((name,), outcome, cause, is_root)


# -- the listener --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Failure:
    """The signs of one failure so far."""

    line: Line
    at: int | None
    progress: int
    entries: int
    words: str
    root: Sign | None = None
    consequence: Sign | None = None
    sign_count: int = 0

    def add(self, sign: Sign, words: str, line: Line) -> None:
        self.sign_count += 1
        if sign.is_root and self.root is None:
            self.root, self.words, self.line = sign, words, line
        elif not sign.is_root and (
            self.consequence is None or self.consequence.cause == Cause.UNKNOWN
        ):
            self.consequence = sign

    @property
    def cause(self) -> Cause:
        """That of the first root; without one, that of the first consequence that tells."""
        sign = self.root or self.consequence
        return sign.cause if sign else Cause.UNKNOWN


@dataclass(slots=True)
class _End:
    """The end of the job as the scheduler told it, and how far the trainer had come by then."""

    at: int
    entries: int
    progress: int
    told: Told


@dataclass(slots=True)
class Signs:
    """Hears the scheduler's and the runtime's last words; one interruption for each failure."""

    context: Context
    source: ClassVar[str] = "console"
    words: ClassVar[frozenset[str]] = frozenset(_WORDS.words)
    _failure: _Failure | None = None
    _ended: _End | None = None
    _open: dict[tuple[int | None, str | None], Line] = field(default_factory=dict)

    @property
    def is_amid(self) -> bool:
        """A traceback goes on, or it is not settled whether the signs were those of a failure."""
        return self._failure is not None or bool(self._open)

    def hear(self, line: Line) -> Sequence[Told] | None:
        """Gather signs; tell of a failure once the trainer starts again, or the job ends."""
        told = self._settled()
        heard = self._traceback(line)
        if not heard and (found := sign_of(line.words, line.text)):
            heard = True
            told += self._sign(line, SIGNS[found[0]])
        return told if heard or told else None

    def end(self) -> Sequence[Told]:
        """Tracebacks that the file cuts off, the last failure, an end after which training went on.

        A job that may go on for a while after it is told to stop ends with its last line.
        """
        for line in self._open.values():
            self._add(line, Sign((TRACEBACK,), _F, Cause.UNKNOWN), TRACEBACK)
        self._open.clear()
        told, ended, last = [*self._settled(), *self._told()], self._ended, self.context.last_at
        if ended is None or last is None or last <= ended.at:
            return told
        if self.context.entries != ended.entries or self.context.progress <= ended.progress:
            return told
        attrs = {**ended.told.attrs, "clock": "last line"}
        return [*told, Told("attempt_ended", last, ended.told.fields, attrs)]

    def _traceback(self, line: Line) -> bool:
        """Does this line belong to a traceback? Its last one says what happened."""
        of = (line.rank, line.host)
        if TRACEBACK in line.words:
            self._open[of] = line
            return True
        begin = self._open.get(of)
        if begin is None:
            return False
        if not line.text.strip() or line.text[0] in " \t|+^~":
            return True
        del self._open[of]
        if not _EXCEPTION.match(line.text):
            return False
        self._add(begin, of_exception(line.text), line.text)
        return True

    def _sign(self, line: Line, sign: Sign) -> list[Told]:
        """A sign by itself; what the scheduler says of the job's end ends the attempt."""
        at = _cancelled_at(line.text, self.context)
        if at is None or not ("JOB " in line.text or "DUE TO" in line.text):
            return self._add(line, sign, line.text, at)
        if self._is_over(at):
            return []
        if sign.outcome is Outcome.CANCELLED:
            self._forget_the_unexplained()
            told = []
        else:
            told = self._add(line, sign, line.text, at)
        cause = self._failure.root.cause if self._failure and self._failure.root else sign.cause
        told += self._told()
        attrs = {"sign": line.text.strip()[:_LONGEST_SIGN]}
        end = Told("attempt_ended", at, {"outcome": sign.outcome, "cause": cause}, attrs, line)
        self._ended = _End(at, self.context.entries, self.context.progress, end)
        return [*told, end]

    def _forget_the_unexplained(self) -> None:
        """Somebody cancelled the job: its signals and cancelled steps were no failure."""
        if self._failure and self._failure.cause in (Cause.UNKNOWN, Cause.CANCELLED):
            self._failure = None

    def _is_over(self, when: int | None) -> bool:
        """Was the job's end told already? What it says while it is being killed is no failure."""
        ended = self._ended
        is_same = ended is not None and ended.entries == self.context.entries
        return is_same and ended is not None and _is_near(when, ended.at)

    def _add(self, line: Line, sign: Sign, words: str, at: int | None = None) -> list[Told]:
        when = at if at is not None else line.at if line.at is not None else self.context.last_at
        told: list[Told] = []
        failure = self._failure
        if self._is_over(when):
            return []
        if failure and not _is_near(when, failure.at):
            told, failure = self._told(), None
        if failure is None:
            context = self.context
            failure = _Failure(line, when, context.progress, context.entries, words)
            self._failure = failure
        failure.add(sign, words, line)
        return told

    def _settled(self) -> list[Told]:
        """Tell of the failure where the trainer has started again; forget it where it went on."""
        failure = self._failure
        if failure is None:
            return []
        if self.context.entries > failure.entries:
            return self._told()
        if self.context.progress >= failure.progress + _STEPS_THAT_DISPROVE:
            self._failure = None
            self.context.note("signs of a failure after which training went on: not counted")
        return []

    def _told(self) -> list[Told]:
        failure, self._failure = self._failure, None
        if failure is None:
            return []
        if failure.at is None:
            self.context.note("signs of a failure before the first time are lost")
            return []
        attrs = {
            "sign": failure.words.strip()[:_LONGEST_SIGN],
            "sign_count": str(failure.sign_count),
        }
        return [Told("interruption", failure.at, {"cause": failure.cause}, attrs, failure.line)]


def _is_near(one: int | None, other: int | None) -> bool:
    """May these be times of one failure?"""
    return one is None or other is None or abs(one - other) <= CASCADE_MS


_CANCELLED_AT = re.compile(r"\bAT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def _cancelled_at(text: str, context: Context) -> int | None:
    """The time that slurmstepd names: that of the node, in the file's zone."""
    found = _CANCELLED_AT.search(text) if "AT " in text else None
    return context.instant(found[1]) if found else None
