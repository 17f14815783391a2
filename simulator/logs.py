"""The log as its emitters write it: rendered lines, and the files they end up in."""

from __future__ import annotations

import gzip
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from simulator.intents import DAY_MS, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_BUFFERED = 4_000_000
_RESENT_EACH = 7
_RANK_LAG_MS = 3


@dataclass(slots=True)
class LogFiles:
    """Appends to files under `root`; `is_compressed`: gzip members, one per append."""

    root: Path
    is_compressed: bool = False
    file_count: int = 0
    byte_count: int = 0
    _pending: dict[str, list[bytes]] = field(default_factory=dict)
    _pending_bytes: int = 0

    def append(self, name: str, text: bytes) -> None:
        """Add whole lines to the file `name` (without suffix)."""
        self._pending.setdefault(name, []).append(text)
        self._pending_bytes += len(text)
        if self._pending_bytes > _BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        suffix = ".jsonl.gz" if self.is_compressed else ".jsonl"
        for name, parts in self._pending.items():
            self._write(self.root / f"{name}{suffix}", b"".join(parts))
        self._pending, self._pending_bytes = {}, 0

    def _write(self, path: Path, data: bytes) -> None:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file_count += 1
        if self.is_compressed:
            data = gzip.compress(data, compresslevel=1, mtime=0)
        with path.open("ab") as file:
            file.write(data)
        self.byte_count += len(data)


@dataclass(slots=True)
class Pen:
    """Writes the lines of one job.

    `ranks`: those that report phases, entries and steps, () for the job as a whole. `lines` were
    written, of which `step_lines` of steps; `last_ms` is the latest time on one.
    """

    files: LogFiles
    cluster: str
    job_id: str
    layout: Layout
    ranks: tuple[int, ...] = ()
    is_numbered: bool = True
    resends: bool = False
    attempt: int | None = None
    lines: int = 0
    step_lines: int = 0
    last_ms: int = 0
    _blocks: int = 0

    def say(self, at_ms: int, event: str, **fields: object) -> None:
        """One line of the job itself."""
        self._append(at_ms, at_ms, self._line(at_ms, event, fields), 1)

    def say_scheduler(self, at_ms: int, event: str, **fields: object) -> None:
        """One line of the scheduler, which may keep a log of its own."""
        if self.layout is not Layout.BY_DAY:
            self.say(at_ms, event, **fields)
            return
        name = f"{self.cluster}/scheduler/{_day(at_ms)}"
        self.files.append(name, self._line(_rfc_3339(at_ms), event, fields))
        self.lines += 1
        self.last_ms = max(self.last_ms, at_ms)

    def say_steps(
        self, times: Sequence[int], steps: range, samples: range | None, *, until: int
    ) -> None:
        """A `step` line at each of `times`; other ranks follow a little later, up to `until`."""
        for rank in self.ranks or (None,):
            lag = (rank or 0) * _RANK_LAG_MS
            stop = bisect_left(times, until - lag + 1) if lag else len(times)
            self._say_steps(times[:stop], steps[:stop], samples, rank, lag)

    def _say_steps(
        self,
        times: Sequence[int],
        steps: range,
        samples: range | None,
        rank: int | None,
        lag: int,
    ) -> None:
        head = self._line(0, "step", {} if rank is None else {"rank": rank})[:-2].decode()
        head = head.replace('"ts":0,', "", 1) + ',"ts":'
        start = 0
        while start < len(times):
            first = times[start] + lag
            stop = len(times)
            if self.layout is Layout.BY_DAY:
                midnight = (first // DAY_MS + 1) * DAY_MS
                stop = bisect_left(times, midnight - lag, start)
            part = slice(start, stop)
            own = samples[part] if samples is not None else None
            text = _render(head, times[part], lag, steps[part], own)
            self._append(first, times[stop - 1] + lag, text, stop - start)
            self.step_lines += stop - start
            start = stop

    def _line(self, ts: int | str, event: str, fields: dict[str, object]) -> bytes:
        line: dict[str, object] = {"ts": ts, "cluster": self.cluster, "job_id": self.job_id}
        if self.is_numbered and self.attempt is not None:
            line["attempt"] = self.attempt
        return msgspec.json.encode({**line, "event": event, **fields}) + b"\n"

    def _append(self, first_ms: int, last_ms: int, text: bytes, lines: int) -> None:
        """Lines of one day; some shippers send a block again when it was not confirmed."""
        self._blocks += 1
        if self.resends and self._blocks % _RESENT_EACH == 0:
            text, lines = text * 2, lines * 2
        self.files.append(self._file(first_ms), text)
        self.lines += lines
        self.last_ms = max(self.last_ms, last_ms)

    def _file(self, at_ms: int) -> str:
        if self.layout is Layout.BY_DAY:
            return f"{self.cluster}/{_day(at_ms)}/{self.job_id}"
        if self.layout is Layout.BY_JOB or self.attempt is None:
            return f"{self.cluster}/{self.job_id}"
        return f"{self.cluster}/{self.job_id}/attempt-{self.attempt}"


def _render(
    head: str, times: Sequence[int], lag: int, steps: range, samples: range | None
) -> bytes:
    """Step lines; the one hot loop of the simulator."""
    if samples is None:
        pairs = zip(times, steps, strict=True)
        text = [f'{head}{t + lag},"step":{s}}}\n' for t, s in pairs]
    else:
        triples = zip(times, steps, samples, strict=True)
        text = [f'{head}{t + lag},"step":{s},"samples":{n}}}\n' for t, s, n in triples]
    return "".join(text).encode()


def _day(at_ms: int) -> str:
    return _name_of_day(at_ms // DAY_MS)


@lru_cache(maxsize=1024)
def _name_of_day(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY_MS // 1000, UTC):%Y-%m-%d}"


def _rfc_3339(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
