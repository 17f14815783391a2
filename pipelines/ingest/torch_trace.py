"""PyTorch's structured traces (TORCH_TRACE, what tlparse reads): the compilations of each rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipelines.ingest.lifecycle import as_text
from pipelines.ingest.lines import LONGEST_BYTES
from pipelines.ingest.localtime import placed, with_year
from pipelines.ingest.mllog import job_id
from pipelines.ingest.records import Event, Numbered, Reading, Reject, RejectError, Said
from pipelines.ingest.times import seconds_ms

SOURCE = "torch_trace"
PHASE = "compile"
RECORD = re.compile(
    rb"(?:\[rank(?P<rank>\d+)\]:)?[VIWEC](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) \d+ [^\]]*\] "
    rb"(?P<json>\{.*)",
    re.DOTALL,
)
"""A record as torch._logging formats it, in glog's style: month and day, no year, no zone."""

_DEDICATED = re.compile(r"dedicated_log_torch_trace_")
_FILE_RANK = re.compile(r"(?:^|_)rank_?(\d+)(?=[_.]|$)")
# The duration of a compile, from the fields of torch/_dynamo/utils.py and what turns them into
# seconds: the first that a version knows.
_DURATIONS = (
    ("duration_us", b"e-6"),
    ("entire_frame_compile_time_s", b""),
    ("dynamo_cumulative_compile_time_us", b"e-6"),
    ("backward_cumulative_compile_time_us", b"e-6"),
    ("elapsed_time", b""),
    ("inductor_compile_time_s", b""),
)
_SPANS = {"entire_frame_compile": False, "entire_backward_compile": True}  # is it the backward's?
_CACHE = re.compile(r"(?:aot)?(autograd|fx_graph)_cache_(hit|miss|bypass|disabled)")
_CACHES = {"fx_graph": "fx_graph_cache", "autograd": "aotautograd_cache"}
_COUNTED_CACHES = {
    "inductor_fx_local_cache": "fx_graph_local_cache",
    "inductor_fx_remote_cache": "fx_graph_remote_cache",
    "aotautograd_local_cache": "aotautograd_local_cache",
    "aotautograd_remote_cache": "aotautograd_remote_cache",
}
# Which caches decide `cache_hit`: the outcome of a look-up before its parts, and the cache of
# generated code, which costs most, before that of graphs.
_DECIDING = (*_CACHES.values(), *_COUNTED_CACHES.values())
_KEPT = ("co_name", "fail_type", "fail_reason", "restart_reasons")
_BY_STAMP = {"clock": "stamp"}

_ABSENT = Raw(b"")
_Metrics = dict[str, Raw]
_Stamp = tuple[int, int, int, int, int, int]
"""Month, day, hour, minute, second, microsecond."""


class _Head(msgspec.Struct):
    """The JSON of a record's first line, as far as it is read."""

    rank: int | None = None
    compiled_autograd_id: int | None = None
    frame_id: int | None = None
    frame_compile_id: int | None = None
    attempt: int | None = None
    chromium_event: Raw = _ABSENT
    artifact: dict[str, Any] | None = None
    dynamo_start: Raw = _ABSENT
    compilation_metrics: _Metrics | None = None
    bwd_compilation_metrics: _Metrics | None = None
    aot_autograd_backward_compilation_metrics: _Metrics | None = None
    compilation_metrics_runtime: _Metrics | None = None
    bwd_compilation_metrics_runtime: _Metrics | None = None


class _ChromiumEvent(msgspec.Struct):
    name: str = ""
    ph: str = ""
    ts: Raw = _ABSENT


_BACKWARD = {"bwd_compilation_metrics", "aot_autograd_backward_compilation_metrics",
             "bwd_compilation_metrics_runtime"}  # fmt: skip
_RUNTIME = {"compilation_metrics_runtime", "bwd_compilation_metrics_runtime"}
_METRICS = ("compilation_metrics", "compilation_metrics_runtime", *sorted(_BACKWARD))
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_event = msgspec.json.Decoder(_ChromiumEvent).decode
_decode_strings = msgspec.json.Decoder(list[str]).decode


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """The records of a trace to phases `compile`, one for each compile of a frame.

    A record is a line and the payload that follows it, indented by a tab. Of a record that cannot
    be read every line is a reject; records that tell nothing of a compile's time, reason or cache
    are ignored.
    """
    tally, trace = reading.tally, _Trace(reading)
    for record in _records(lines):
        try:
            events = trace.tell(record)
        except RejectError as reason:
            for number, text in record.lines:
                yield tally.reject(number, reason, text)
            continue
        if events is None:
            tally.ignored_count += len(record.lines)
        else:
            tally.event_line_count += len(record.lines)
            yield from events
    yield from trace.unfinished()


@dataclass(slots=True)
class _Record:
    """A line and its payload, with their numbers."""

    lines: list[tuple[int, bytes]]

    @property
    def payload(self) -> bytes:
        return b"\n".join(text[1:] for _, text in self.lines[1:])


def _records(lines: Numbered) -> Iterator[_Record]:
    """Lines gathered into records; what is indented behind 16 MiB of payload is one of its own."""
    record: _Record | None = None
    size = 0
    for number, text in lines:
        if record is not None and text.startswith(b"\t") and size < LONGEST_BYTES:
            record.lines.append((number, text))
            size += len(text)
            continue
        if record is not None:
            yield record
        record, size = _Record([(number, text)]), len(text)
    if record is not None:
        yield record


class _Which(NamedTuple):
    """One compile: compiled autograd's id, frame, compile of the frame, and of which pass."""

    autograd: int | None
    frame: int | None
    compile: int | None
    is_backward: bool


@dataclass(slots=True)
class _Compile:
    """What the records before its metrics told of a compile; `started` is by the line's stamp."""

    head: _Head
    line: int
    begin: int | None = None
    end: int | None = None
    started: int | None = None
    caches: dict[str, set[str]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class _Trace:
    """One file: whose it is, what its clock is, and which compiles are under way."""

    def __init__(self, reading: Reading) -> None:
        self._tally = reading.tally
        self._clock = _Clock(reading)
        self._open: dict[_Which, _Compile] = {}
        own_id, folder = _own_name(reading)
        self._key = reading.key(own_id, {"folder": folder})
        named = _FILE_RANK.search(PurePosixPath(reading.file.name).name)
        self._file_rank = int(named[1]) if named else None

    def tell(self, record: _Record) -> list[Event] | None:
        """The events that a record tells, perhaps none yet; None: it tells nothing that is read."""
        number, text = record.lines[0]
        if not text.strip():
            return None
        head, stamp = _head(text)
        if bytes(head.chromium_event):
            return self._chromium(number, head, stamp, record.payload)
        if head.artifact is not None:
            return self._artifact(number, head, record.payload)
        if bytes(head.dynamo_start):
            self._started(number, head, stamp)
            return []
        for name in _METRICS:
            if (metrics := getattr(head, name)) is not None:
                return self._metrics(number, name, head, stamp, metrics)
        return None

    def _chromium(
        self, number: int, head: _Head, stamp: _Stamp, payload: bytes
    ) -> list[Event] | None:
        """A begin, end or instant of PyTorch's own timer; its times are epoch microseconds."""
        event = _decoded(_decode_event, payload, "the payload of a chromium_event")
        if not bytes(event.ts):
            raise RejectError("a chromium_event without ts")
        if event.ph == "i":
            return self._cache(head, event.name)
        at = seconds_ms(bytes(event.ts) + b"e-6")
        self._clock.learn(stamp, at)
        if event.name not in _SPANS:
            return None
        compile_ = self._opened(number, head, is_backward=_SPANS[event.name])
        if event.ph == "B":
            compile_.begin, compile_.end = at, None
        else:
            compile_.end = at
        return []

    def _artifact(self, number: int, head: _Head, payload: bytes) -> list[Event] | None:
        name = str((head.artifact or {}).get("name"))
        if name != "recompile_reasons":
            return self._cache(head, name)
        reasons = _decoded(_decode_strings, payload, "the payload of recompile_reasons")
        self._opened(number, head, is_backward=False).reasons = reasons
        return []

    def _cache(self, head: _Head, name: str) -> list[Event] | None:
        """What a cache answered, where a compile under way has asked it."""
        found = _CACHE.fullmatch(name)
        compile_ = self._open.get(_which(head, True)) or self._open.get(_which(head, False))
        if found is None or compile_ is None:
            return None
        compile_.caches.setdefault(_CACHES[found[1]], set()).add(found[2])
        return []

    def _started(self, number: int, head: _Head, stamp: _Stamp) -> None:
        compile_ = self._opened(number, head, is_backward=False)
        try:
            compile_.started, _ = self._clock.instant(stamp)
        except RejectError:
            compile_.started = None  # its metrics may know better

    def _opened(self, number: int, head: _Head, *, is_backward: bool) -> _Compile:
        return self._open.setdefault(_which(head, is_backward), _Compile(head, number))

    def _metrics(
        self, number: int, name: str, head: _Head, stamp: _Stamp, metrics: _Metrics
    ) -> list[Event]:
        """The whole of a compile, which PyTorch reports once it is over."""
        said = {key: bytes(raw) for key, raw in metrics.items() if bytes(raw) != b"null"}
        is_backward = name in _BACKWARD or said.get("is_forward") == b"false"
        compile_ = _Compile(head, number)
        if name not in _RUNTIME:
            compile_ = self._open.pop(_which(head, is_backward), compile_)
        begin, end, clock = self._window(said, compile_, stamp)
        if end < begin:
            raise RejectError(f"a compile that ends {begin - end} ms before it begins")
        attrs = _attrs(said, head, compile_) | clock
        attrs["pass"] = "backward" if is_backward else "forward"
        if name in _RUNTIME:
            attrs["runtime"] = "true"
        return [
            (number, begin, self._said("phase_begin", head, attrs)),
            (number, end, self._said("phase_end", head, None)),
        ]

    def _window(
        self, said: dict[str, bytes], compile_: _Compile, stamp: _Stamp
    ) -> tuple[int, int, dict[str, str]]:
        """Begin and end in epoch ms: as the metrics say, else the timer, else the line's stamp."""
        start = said["start_time_us"] + b"e-6" if "start_time_us" in said else None
        start = start or said.get("start_time")
        duration = next((said[n] + unit for n, unit in _DURATIONS if n in said), None)
        begin, end = compile_.begin, compile_.end
        clock: dict[str, str] = {}
        if start is not None:
            begin = seconds_ms(start)
            end = seconds_ms(start, plus=duration) if duration else end
        if "end_time_us" in said:
            end = seconds_ms(said["end_time_us"] + b"e-6")
        if end is None:
            end, clock = self._clock.instant(stamp)
        if begin is None and duration is not None:
            begin = end - seconds_ms(duration)
        if begin is None:
            raise RejectError(
                "a compile that says neither when it began nor how long it took: expected "
                f"start_time_us, start_time or one of {', '.join(n for n, _ in _DURATIONS)}"
            )
        return begin, end, clock

    def unfinished(self) -> Iterator[Event]:
        """Compiles of which the file has no metrics: their begin, and their end if it was timed."""
        count = 0
        for compile_ in self._open.values():
            begin = compile_.started if compile_.begin is None else compile_.begin
            if begin is None:
                continue
            count += 1
            attrs = _attrs({}, compile_.head, compile_)
            yield compile_.line, begin, self._said("phase_begin", compile_.head, attrs or None)
            if compile_.end is not None:
                yield compile_.line, compile_.end, self._said("phase_end", compile_.head, None)
        if count:
            self._note(f"compiles without metrics, for the process or the file ended: {count}")

    def _said(self, event: str, head: _Head, attrs: dict[str, str] | None) -> Said:
        key = self._key
        return Said(
            job_id=key.job_id,
            cluster=key.cluster,
            attempt=key.attempt,
            event=event,
            rank=self._rank(head),
            phase=PHASE,
            span_id=_span_id(head),
            attrs=attrs,
        )

    def _rank(self, head: _Head) -> int | None:
        """As the record says; else as the site's rule says; else as the file is named."""
        if head.rank is None:
            return self._file_rank if self._key.rank is None else self._key.rank
        if self._file_rank not in (None, head.rank):
            self._note(
                f"the file is named for rank {self._file_rank}, its records say rank "
                f"{head.rank}: the records are believed"
            )
        return head.rank

    def _note(self, text: str) -> None:
        if text not in self._tally.notes:
            self._tally.notes.append(text)


def _own_name(reading: Reading) -> tuple[str, str]:
    """What the file calls its job, and its folder.

    PyTorch writes a file for each process into one folder, which is the job; a file of another
    name is a job of its own.
    """
    path = PurePosixPath(reading.file.name)
    is_in_folder = len(path.parts) > 1
    folder = str(path.parent) if is_in_folder else Path(reading.file.path).parent.name
    is_dedicated = _DEDICATED.match(path.name) is not None
    return (folder if is_dedicated and folder else job_id(reading.file.name)), folder


def _head(text: bytes) -> tuple[_Head, _Stamp]:
    found = RECORD.fullmatch(text)
    if found is None:
        if text.startswith(b"\t"):
            raise RejectError("a payload without its record, or behind 16 MiB of payload")
        raise RejectError(
            "no record of a trace: expected V0530 17:32:40.123000 <process> <file>:<line>] {json}"
        )
    head = _decoded(_decode_head, found["json"], "a record")
    if head.rank is None and found["rank"]:
        head.rank = int(found["rank"])
    month, day, hour, minute, second, micro = (int(found[n]) for n in range(2, 8))
    return head, (month, day, hour, minute, second, micro)


def _decoded(decode: Any, text: bytes, what: str) -> Any:
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise RejectError(f"{what} is not as expected: {error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectError(f"{what} is not JSON: {error}") from None


def _which(head: _Head, is_backward: bool) -> _Which:  # noqa: FBT001 - the one thing it adds
    return _Which(head.compiled_autograd_id, head.frame_id, head.frame_compile_id, is_backward)


def _span_id(head: _Head) -> str | None:
    """Frame, compile of the frame and attempt, as `0/1/0`; `!3/0/1/0` under compiled autograd."""
    if head.frame_id is None and head.compiled_autograd_id is None:
        return None
    ids = (head.frame_id, head.frame_compile_id, head.attempt)
    prefix = "" if head.compiled_autograd_id is None else f"!{head.compiled_autograd_id}/"
    return prefix + "/".join("-" if n is None else str(n) for n in ids)


def _attrs(said: dict[str, bytes], head: _Head, compile_: _Compile) -> dict[str, str]:
    """What else is known of a compile: names of docs/sources/torch-trace.md."""
    attrs = {name: as_text(said[name]) for name in _KEPT if said.get(name, b"[]") != b"[]"}
    reason = said.get("recompile_reason")
    if reason is not None:
        attrs["reason"] = as_text(reason)
    elif compile_.reasons:
        attrs["reason"] = "; ".join(compile_.reasons)
    if head.frame_compile_id:
        attrs["recompilation"] = "true"
    caches = {name: set(states) for name, states in compile_.caches.items()}
    for counted, name in _COUNTED_CACHES.items():
        states = {s for s in ("hit", "miss") if said.get(f"{counted}_{s}_count", b"0") != b"0"}
        if states:
            caches[name] = states
    attrs |= {name: ", ".join(sorted(states)) for name, states in caches.items()}
    deciding = next((caches[name] for name in _DECIDING if name in caches), set())
    if "miss" in deciding or deciding == {"hit"}:
        attrs["cache_hit"] = "false" if "miss" in deciding else "true"
    return attrs


class _Clock:
    """Instants of stamps, which name neither year nor zone.

    PyTorch's timer names absolute times just as they are logged: a stamp is as far from the last
    of them as the two stamps are apart. Before the first, the site's zone holds, and the year that
    the file's last change allows.
    """

    def __init__(self, reading: Reading) -> None:
        self._zone = reading.settings.zone_info
        self._modified = reading.file.modified_at
        self._known: tuple[_Stamp, int] | None = None

    def learn(self, stamp: _Stamp, at: int) -> None:
        """The line of this stamp says that it is this instant (epoch ms)."""
        self._known = stamp, at

    def instant(self, stamp: _Stamp) -> tuple[int, dict[str, str]]:
        """Epoch ms of a stamp, and the attrs that say how it was told. Raises RejectError."""
        if self._known is None:
            place = placed(self._wall(stamp, None), self._zone)
            return place.at, _BY_STAMP | place.attrs
        known, at = self._known
        near = datetime.fromtimestamp(at / 1000, UTC)
        since = self._wall(stamp, near) - self._wall(known, near)
        return at + since // timedelta(milliseconds=1), _BY_STAMP

    def _wall(self, stamp: _Stamp, near: datetime | None) -> datetime:
        month, day, hour, minute, second, micro = stamp
        try:
            date = with_year(month, day, near=near, by=self._modified)
            if date is not None:
                return datetime.combine(date, time(hour, minute, second, micro))
        except ValueError:  # an hour that no day has
            pass
        shown = f"{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        raise RejectError(f"no year by the file's last change has the stamp {shown}")
