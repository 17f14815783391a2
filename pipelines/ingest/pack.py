"""Records of many files gathered into Arrow batches of one schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from pipelines.ingest.records import Event, Reading, Reject, Said
from pipelines.tables import LOGBOOK_EVENT, LOGBOOK_FILE, LOGBOOK_JOIN, LOGBOOK_REJECT

BATCH_ROWS = 65_536
DEFAULT_CLUSTER = "default"


def _columns() -> dict[str, pa.Field]:
    tables = (LOGBOOK_EVENT, LOGBOOK_REJECT, LOGBOOK_FILE, LOGBOOK_JOIN)
    declared = {f.name: f.with_nullable(True) for t in tables for f in t.arrow_schema}
    del declared["ds"]  # follows from event_at
    return declared


SCHEMA = pa.schema([pa.field("record", pa.string()), *_columns().values()])
"""One schema for the four kinds of record, so that one pass over the files gives them all."""

_DDL = {pa.string(): "string", pa.int64(): "bigint", pa.bool_(): "boolean"}
DDL = ", ".join(f"`{f.name}` {_DDL.get(f.type, 'timestamp')}" for f in SCHEMA)

_RENAMED = {"is_blocking": "blocking", "is_held": "held"}
_MADE = {"cluster", "attrs", "source"}
_SAID = {
    name: attrgetter(_RENAMED.get(name, name))
    for name in LOGBOOK_EVENT.names
    if _RENAMED.get(name, name) in Said.__struct_fields__ and name not in _MADE
}
_attrs = msgspec.json.Encoder(order="sorted")


class Pack:
    """Records that wait for their batch. A batch holds many small files, or a part of a large one.

    Kept as columns side by side: a tuple for each event would cost more than its decoding.
    """

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._times: list[int] = []
        self._said: list[Said] = []
        self._origins: list[tuple[str, str, int]] = []  # source, file, number of events
        self._rejects: list[tuple[str, str, int, str, str]] = []
        self._files: list[dict[str, Any]] = []
        self._joins: list[dict[str, Any]] = []

    @property
    def room(self) -> int:
        """How many records it can still take."""
        taken = len(self._lines) + len(self._rejects) + len(self._files) + len(self._joins)
        return max(BATCH_ROWS - taken, 0)

    def take(self, records: Iterator[Event | Reject], source: str, reading: Reading) -> bool:
        """Take records of one file until full; False where there may be more."""
        name, room, begin = reading.file.name, self.room, len(self._lines)
        offset = reading.settings.clock_offset_ms
        add_line, add_time, add_said = self._lines.append, self._times.append, self._said.append
        for record in islice(records, room):
            if isinstance(record, Reject):
                self._rejects.append((source, name, *record))
            else:
                line, at, said = record
                add_line(line)
                add_time(at + offset)
                add_said(said)
        times = self._times[begin:]
        if times:
            self._origins.append((source, name, len(times)))
            reading.tally.saw(times)
        return self.room > 0

    def close(self, source: str, reading: Reading) -> None:
        """Take the account of a file that was read to its end."""
        file, tally = reading.file, reading.tally
        self._rejects += [(source, file.name, *refused) for refused in tally.refused]
        account = {
            "source": source,
            "source_file": file.name,
            "size_bytes": file.size_bytes,
            "modified_at": file.modified_at,
            "line_count": tally.line_count,
            "event_line_count": tally.event_line_count,
            "reject_count": tally.reject_count,
            "ignored_count": tally.ignored_count,
            "event_count": tally.event_count,
            "first_event_at": tally.first_ms,
            "last_event_at": tally.last_ms,
            "note": "; ".join(tally.notes) or None,
            "settings_print": reading.sources.print_of(file.name, reading.taxonomy.phases),
        }
        self._files.append(account)
        self._joins += [
            {"source": source, "source_file": file.name, "own_id": joined.own_id}
            | {"rule": joined.rule, "reason": joined.reason, "attempt": joined.key.attempt}
            | {"cluster": joined.key.cluster or DEFAULT_CLUSTER, "job_id": joined.key.job_id}
            for joined in dict.fromkeys(reading.identities.found.values())
            if joined.rule or joined.reason
        ]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What was taken, as batches of SCHEMA: one for each kind of record that there is."""
        if self._lines:
            yield self._events()
        if self._rejects:
            names = ("source", "source_file", "source_line", "reason", "excerpt")
            yield _batch("reject", dict(zip(names, zip(*self._rejects, strict=True), strict=True)))
        if self._files:
            columns: dict[str, Any] = {n: [row[n] for row in self._files] for n in self._files[0]}
            for name in ("first_event_at", "last_event_at"):
                columns[name] = _timestamps(columns[name])
            yield _batch("file", columns)
        if self._joins:
            yield _batch("join", {n: [row[n] for row in self._joins] for n in self._joins[0]})

    def _events(self) -> pa.RecordBatch:
        said = self._said
        columns: dict[str, Any] = {column: list(map(get, said)) for column, get in _SAID.items()}
        columns["cluster"] = [s.cluster or DEFAULT_CLUSTER for s in said]
        columns["attrs"] = [_attrs.encode(s.attrs).decode() if s.attrs else None for s in said]
        columns["event_at"] = _timestamps(self._times)
        files = (source for source, _, n in self._origins for _ in range(n))
        columns["source"] = [s.source or source for s, source in zip(said, files, strict=True)]
        columns["source_file"] = [name for _, name, n in self._origins for _ in range(n)]
        columns["source_line"] = self._lines
        return _batch("event", columns)


def _timestamps(times: Iterable[int | None]) -> pa.Array:
    # Through milliseconds as integers: exact, and ten times faster than datetime objects.
    milliseconds = pa.array(times, pa.timestamp("ms", tz="UTC"))
    return milliseconds.cast(pa.timestamp("us", tz="UTC"))


def _batch(record: str, columns: dict[str, Any]) -> pa.RecordBatch:
    rows = len(columns["source"])
    arrays = []
    for column in SCHEMA:
        if column.name == "record":
            arrays.append(pa.repeat(record, rows))
        elif column.name in columns:
            arrays.append(_array(columns[column.name], column.type))
        else:
            arrays.append(pa.nulls(rows, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(values: Any, type_: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, type_)
