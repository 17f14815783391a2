"""Flat tables of jobs (CSV, Parquet) and Philly's job log: one row is one job with its attempt."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipelines.ingest.identity import Key
from pipelines.ingest.instants import Instant, closing, instant, is_said
from pipelines.ingest.records import Event, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.slurm import ENDS, End, seconds_of
from pipelines.taxonomy import Cause, Outcome

SOURCE = "job_table"

Row = Mapping[str, str]
"""One row: the table's own names of columns to values."""

FIELDS = (
    "job_id", "submitted", "started", "ended", "state", "gpus", "duration_s", "user", "team",
    "model", "priority", "cluster", "attempt",
)  # fmt: skip
"""What a map can name a column for."""

_PASSED = End(Outcome.SUCCEEDED, is_final=True)
_FAILED = End(Outcome.FAILED, is_final=True)
_KILLED = End(Outcome.CANCELLED, Cause.CANCELLED, is_final=True)
STATES: dict[str, End | None] = {
    **{state.lower(): end for state, end in ENDS.items()},
    "pass": _PASSED, "passed": _PASSED, "success": _PASSED, "succeeded": _PASSED,
    "complete": _PASSED, "finished": _PASSED, "done": _PASSED, "terminated": _PASSED,
    "fail": _FAILED, "error": _FAILED,
    "killed": _KILLED, "canceled": _KILLED, "stopped": _KILLED,
    "timed_out": ENDS["TIMEOUT"], "oom": ENDS["OUT_OF_MEMORY"],
    "running": None, "waiting": None, "pending": None, "queued": None,
}  # fmt: skip
"""A table's word for a state, in lower case, to the end that it means; None: not ended.

`terminated` is PAI's word for success.
"""


@dataclass(frozen=True)
class Trace:
    """A public trace: how its header is known for certain, and what its columns mean."""

    name: str
    header: frozenset[str]
    mapping: Mapping[str, str]
    may_be_1970: bool = False
    note: str | None = None

    def knows(self, columns: frozenset[str]) -> bool:
        """Is it this trace's header? Columns besides may have been added."""
        return self.header <= columns


_USUAL = {"job_id": "job_id", "user": "user", "gpus": "gpu_num", "state": "state",
          "submitted": "submit_time", "started": "start_time", "ended": "end_time",
          "duration_s": "duration"}  # fmt: skip
_COMMON = frozenset({*_USUAL.values(), "cpu_num", "node_num", "queue"})
TRACES = (
    Trace("Acme", _COMMON | {"type", "gpu_time"}, _USUAL),
    Trace("Helios", _COMMON | {"vc"}, {**_USUAL, "team": "vc"}),
    Trace(
        "PAI",
        frozenset({"job_name", "inst_id", "user", "status", "start_time", "end_time"}),
        {"job_id": "job_name", "user": "user", "state": "status", "submitted": "start_time",
         "ended": "end_time"},
        may_be_1970=True,
        note=(
            "PAI's clock is shifted: its days are of 1970; start_time is a job's submission, "
            "so that no attempts are known"
        ),
    ),
)  # fmt: skip
"""Traces known by their header. Of PAI it is the table of jobs; Philly is JSON (`parse_philly`)."""

_MOST_LINES = 512
_MOST_CHARACTERS = 1 << 18
_TOLERANCE_S = 1
_HEAD_LINES = 20
_WORD = re.compile(r"[^\W\d]\w*")


def parse_csv(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Lines of a CSV table to events; its header is a row of it, or declared as `columns:`."""
    table = _Table(reading)
    if reading.settings.columns:
        table.know(reading.settings.columns)
    for rows, fields, reason in _csv_rows(lines, reading.settings.delimiter):
        yield from table.read(rows, fields, reason)
    table.end()


def parse_rows(units: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Rows as JSON objects (of a Parquet file) to events."""
    table = _Table(reading)
    for number, text in units:
        row = msgspec.json.decode(text)
        table.know(tuple(row))
        words = [_word(value) for value in row.values()]
        yield from table.read([(number, text)], words, None)
    table.end()


def is_table(begin: bytes) -> bool:
    """Does the text begin with the header of a public trace?"""
    lines = begin.split(b"\n")[:_HEAD_LINES]
    return any(b"_time" in line and _is_header(line) for line in lines)


def _is_header(line: bytes) -> bool:
    fields = frozenset(_fields(line.decode(errors="replace"), None))
    return any(trace.knows(fields) for trace in TRACES)


@dataclass
class _Table:
    """Reads the rows of one file; `know` names their columns, `end` notes what was odd."""

    reading: Reading
    columns: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    odd: Counter[str] = field(default_factory=Counter)
    has_header: bool = False

    def know(self, columns: tuple[str, ...]) -> bool:
        """Take these as the columns where a map fits them; true where one does."""
        if columns == self.columns:
            return bool(self.mapping)
        names = frozenset(columns)
        own = self.reading.settings.mapping
        trace = None if own else next((t for t in TRACES if t.knows(names)), None)
        mapping = own or (trace.mapping if trace else {})
        if mapping.get("job_id") not in names:
            self.columns = self.columns or columns
            return False
        self.columns, self.mapping, self.trace = columns, mapping, trace
        if trace and trace.note:
            self._note(trace.note)
        for name, column in mapping.items():
            if name not in FIELDS:
                self._note(f"mapping: '{name}' means nothing to a table: {', '.join(FIELDS)}")
            elif column not in names:
                self._note(f"mapping: there is no column '{column}' for {name}")
        return True

    def read(
        self, rows: list[tuple[int, bytes]], fields: list[str], reason: str | None
    ) -> Iterator[Event | Reject]:
        """One row, which may span lines."""
        tally = self.reading.tally
        if self._is_aside(fields):
            tally.ignored_count += len(rows)
            return
        try:
            events = self._events(rows[0][0], self._row(fields, reason))
        except RejectError as why:
            for number, text in rows:
                yield tally.reject(number, why, text)
            return
        tally.event_line_count += len(rows) if events else 0
        tally.ignored_count += 0 if events else len(rows)
        yield from events

    def end(self) -> None:
        """Note what was counted."""
        if not self.mapping and self.columns:
            known = ", ".join(self.columns[:20])
            self._note(f"no map fits these columns: {known}; {self._how}")
        for text, number in sorted(self.odd.items()):
            self._note(f"{number} rows {text}")

    @property
    def _how(self) -> str:
        """What the site has to say, so that the table is read."""
        own = self.reading.settings.mapping
        if not own:
            return _HOW
        column = own.get("job_id")
        named = f"no column is called '{column}'" if column else "`mapping:` names none for job_id"
        return f"{named}; its names are taken as they are written, and `delimiter:` may be missing"

    def _note(self, text: str) -> None:
        if text not in self.reading.tally.notes:
            self.reading.tally.notes.append(text)

    def _is_aside(self, fields: list[str]) -> bool:
        """A blank line, a comment, a header; rows of which no map says what they mean."""
        if not any(word.strip() for word in fields) or fields[0].lstrip().startswith("#"):
            return True
        names = tuple(word.strip() for word in fields)
        could_be = all(_WORD.match(name) or not name for name in names)
        if could_be and self.know(names):
            return True
        is_ours = self.reading.settings.source == SOURCE or bool(self.reading.settings.mapping)
        return not self.mapping and not is_ours

    def _row(self, fields: list[str], reason: str | None) -> Row:
        if reason is not None:
            raise RejectError(reason)
        if not self.mapping:
            raise RejectError(f"no map fits this table: {self._how}")
        if len(fields) != len(self.columns):
            raise RejectError(f"{len(fields)} fields, the table has {len(self.columns)} columns")
        return dict(zip(self.columns, fields, strict=True))

    def _events(self, line: int, row: Row) -> list[Event]:
        told = {name: row.get(column, "") for name, column in self.mapping.items()}
        said = {name: word.strip() for name, word in told.items() if is_said(word)}
        if "job_id" not in said:
            raise RejectError(f"no job id in the column '{self.mapping.get('job_id')}'")
        submitted, started, ended = (
            self._instant(said, name) for name in ("submitted", "started", "ended")
        )
        if submitted is None and started is None and ended is None:
            raise RejectError("no time of submission, start or end: the job has no place in time")
        ended = ended and closing(started, ended)
        if started and ended and ended.at < started.at:
            raise RejectError(f"ended {said['ended']} before started {said['started']}")
        key = self._key(said, row)
        events = _row_events(key, said, submitted, started, ended)
        self._check(said, started, ended, events)
        return [(line, at, event) for at, event in events]

    def _instant(self, said: dict[str, str], name: str) -> Instant | None:
        may_be_1970 = self.trace is not None and self.trace.may_be_1970
        zone = self.reading.settings.zone_info
        return instant(said.get(name, ""), zone, may_be_1970=may_be_1970)

    def _key(self, said: dict[str, str], row: Row) -> Key:
        known: dict[str, str | int] = {
            n: said[n] for n in ("attempt", "model", "team") if n in said
        }
        if "cluster" in said and self.reading.settings.identity.cluster is None:
            known["cluster"] = said["cluster"]
        fields = {name: word for name, word in row.items() if is_said(word)} | said
        return self.reading.key(said["job_id"], fields, **known)

    def _check(
        self,
        said: dict[str, str],
        started: Instant | None,
        ended: Instant | None,
        events: list[tuple[int, Said]],
    ) -> None:
        """Durations are computed; a stated one that says something else is kept and counted."""
        stated = seconds_of(said.get("duration_s", "").partition(".")[0])
        if stated is None or started is None or ended is None:
            return
        if abs((ended.at - started.at) // 1000 - stated) > _TOLERANCE_S:
            self.odd["state a duration that is not end less start: computed"] += 1
            for _, event in events:
                if event.event == "attempt_ended":
                    event.attrs = {**(event.attrs or {}), "stated_duration_s": str(stated)}


_HOW = (
    "declare `source: job_table` and `mapping:` (job_id, submitted, started, ended, state, gpus: "
    "the names of your columns) for this file in the site's `sources:`"
)


def _row_events(
    key: Key,
    said: dict[str, str],
    submitted: Instant | None,
    started: Instant | None,
    ended: Instant | None,
) -> list[tuple[int, Said]]:
    dimensions = {"model": key.model, "team": key.team, "priority": said.get("priority")}
    attrs = {"user": said["user"]} if "user" in said else {}
    told = []
    if submitted:
        told.append((submitted.at, _event(key, "job_submitted", submitted, attrs, **dimensions)))
    if started:
        gpus = _gpus(said)
        start = _event(key, "attempt_started", started, attrs, gpus=gpus, **dimensions)
        told.append((started.at, start))
    if ended is None:
        return told
    state = said.get("state", "")
    end = STATES.get(_state_word(state), End(Outcome.UNKNOWN) if state else None)
    outcome = {"outcome": end.outcome, "cause": end.cause} if end else {}
    kept = {"state": state} if state else {}
    if started and ended.at > started.at:
        told.append((ended.at, _event(key, "attempt_ended", ended, kept, **outcome)))
    if end and end.is_final:
        told.append((ended.at, _event(key, "job_finished", ended, kept, **outcome)))
    return told


def _event(key: Key, event: str, when: Instant, attrs: dict[str, str], **what: Any) -> Said:
    is_attempt = event.startswith("attempt")
    return Said(
        job_id=key.job_id, cluster=key.cluster, attempt=key.attempt if is_attempt else None,
        event=event, attrs=(dict(when.attrs) | attrs) or None, **what,
    )  # fmt: skip


def _state_word(state: str) -> str:
    """`CANCELLED by 1000`, `Timed Out` and `TIMED-OUT` in the spelling of STATES."""
    word = re.sub(r" by .*", "", state.strip().lower())
    return re.sub(r"[\s-]+", "_", word)


def _gpus(said: dict[str, str]) -> int | None:
    """Whole accelerators; a share of one is nothing that a count can say, so it is not said."""
    try:
        number = float(said["gpus"])
    except (KeyError, ValueError):
        return None
    return int(number) if number.is_integer() and 0 <= number <= _MOST_GPUS else None


_MOST_GPUS = 1_000_000


def _csv_rows(
    lines: Numbered, delimiter: str | None
) -> Iterator[tuple[list[tuple[int, bytes]], list[str], str | None]]:
    """Rows with their lines: a quoted field may hold line feeds. The third says what is wrong."""
    waiting = iter(lines)
    again: deque[tuple[int, bytes]] = deque()  # behind a quotation mark that nothing closed
    held: list[tuple[int, bytes]] = []
    size, is_open = 0, False
    while (line := again.popleft() if again else next(waiting, None)) or held:
        if line:
            held.append(line)
            size += len(line[1])
            is_open ^= line[1].count(b'"') % 2 == 1
        if is_open and line and len(held) <= _MOST_LINES and size <= _MOST_CHARACTERS:
            continue
        row = held[:1] if is_open else held
        again.extendleft(reversed(held[len(row) :]))
        text = b"\n".join(one for _, one in row).decode("utf-8", "replace")
        yield (row, [text], _UNCLOSED) if is_open else (row, _fields(text, delimiter), None)
        held, size, is_open = [], 0, False


_UNCLOSED = "a quotation mark is not closed: the row is torn"


def _fields(text: str, delimiter: str | None) -> list[str]:
    text = text.removesuffix("\r")
    if delimiter and len(delimiter) > 1:
        return text.split(delimiter)
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or ","), [""])
    except csv.Error:
        return text.split(delimiter or ",")


def _word(value: Any) -> str:
    """A value of Parquet as CSV would have it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():  # a whole number in a column with gaps
        value = int(value)
    return str(value)


# --- Philly ---------------------------------------------------------------------------------------


def is_philly(begin: bytes) -> bool:
    """Does the text begin with jobs of Philly's job log?"""
    head = begin.lstrip(b"\xef\xbb\xbf \t\r\n")
    words = (b'"jobid"', b'"attempts"', b'"submitted_time"')
    return head[:1] in (b"[", b"{") and all(word in begin for word in words)


def parse_philly(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Jobs of Philly's `cluster_job_log` to events: their attempts are numbered by their order."""
    tally = reading.tally
    for number, text in documents:
        try:
            told = _philly_job(text, reading)
        except RejectError as reason:
            yield tally.reject(number, reason, text)
            continue
        tally.event_line_count += 1
        yield from ((number, at, said) for at, said in told)


class _Detail(msgspec.Struct):
    gpus: list[str] | None = None
    ip: str | None = None


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] | None = None


class _Job(msgspec.Struct):
    jobid: str
    attempts: list[_Attempt]
    submitted_time: str | None = None
    status: str | None = None
    vc: str | None = None
    user: str | None = None


_philly = msgspec.json.Decoder(_Job).decode


def _philly_job(text: bytes, reading: Reading) -> list[tuple[int, Said]]:
    try:
        job = _philly(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectError(f"no job of Philly: {error}") from error
    zone = reading.settings.zone_info
    key = reading.key(job.jobid, {"jobid": job.jobid} | _texts(vc=job.vc, user=job.user),
                      **_texts(team=job.vc))  # fmt: skip
    status, team = _texts(state=job.status), {"team": key.team}
    user = _texts(user=job.user)
    told = []
    if submitted := instant(job.submitted_time or "", zone):
        attrs = user if job.attempts else user | status
        told.append((submitted.at, _event(key, "job_submitted", submitted, attrs, **team)))
    ended = None
    for number, attempt in enumerate(job.attempts):
        one = key._replace(attempt=number)
        started, ended = (instant(t or "", zone) for t in (attempt.start_time, attempt.end_time))
        ended = ended and closing(started, ended)
        if started and ended and ended.at < started.at:
            raise RejectError(f"attempt {number} ended before it started")
        if started:
            gpus = _philly_gpus(attempt.detail)
            start = _event(one, "attempt_started", started, user, gpus=gpus, **team)
            told.append((started.at, start))
        if ended:
            told.append((ended.at, _event(one, "attempt_ended", ended, {})))
    end = STATES.get(_state_word(job.status or ""))
    if ended and end:
        finish = {"outcome": end.outcome, "cause": end.cause}
        told.append((ended.at, _event(key, "job_finished", ended, status, **finish)))
    if not told:
        raise RejectError("no time of submission, start or end: the job has no place in time")
    return told


def _texts(**words: str | None) -> dict[str, str]:
    return {name: word for name, word in words.items() if word is not None and is_said(word)}


def _philly_gpus(detail: list[_Detail] | None) -> int | None:
    if detail is None or any(one.gpus is None for one in detail):
        return None
    return sum(len(one.gpus or ()) for one in detail)
