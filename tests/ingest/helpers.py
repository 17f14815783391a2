"""What the tests of the readers share: text in, events and rejects out, without an engine."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipelines.ingest.files import RawFile, raw_files
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.records import Reading, Reject, Tally
from pipelines.taxonomy import DEFAULT

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.ingest.recognise import Format

SOME_FILE = RawFile("/logs/job.jsonl", "job.jsonl", 1, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


class Result(NamedTuple):
    events: list[dict]
    rejects: list[Reject]
    tally: Tally


def parse(format_: Format, text: bytes | str, *, file=SOME_FILE, taxonomy=DEFAULT) -> Result:
    """Run one format's parser over `text`; events are dicts of what is not None."""
    data = text if isinstance(text, bytes) else text.encode()
    reading = Reading(file, taxonomy)
    units = format_.units([data], reading.tally.refuse)
    events, rejects = [], []
    for record in format_.parse(iter(units), reading):
        if isinstance(record, Reject):
            rejects.append(record)
        else:
            line, at, said = record
            events.append({"line": line, "at": at, **_said(said)})
    reading.tally.line_count = units.count
    assert reading.tally.accounted == units.count
    return Result(events, [*rejects, *reading.tally.refused], reading.tally)


def _said(said) -> dict:
    kept = {name: getattr(said, name) for name in type(said).__struct_fields__ if name != "ts"}
    return {name: value for name, value in kept.items() if value is not None}


def read(*roots: Path, taxonomy=DEFAULT) -> dict[str, list[dict]]:
    """Files or folders through the whole reader, without an engine: rows by kind of record."""
    found: dict[str, list[dict]] = {"event": [], "reject": [], "file": []}
    for records in read_files([files_batch(raw_files(roots))], taxonomy):
        for row in records.to_pylist():
            found[row["record"]].append(row)
    return found


def as_lines(events: list[dict]) -> list[dict]:
    """Parsed events as objects of the lifecycle format."""
    plain = [{k: str(v) if k == "outcome" else v for k, v in e.items()} for e in events]
    return [
        {k: v for k, v in e.items() if k not in ("line", "at")} | {"ts": e["at"]} for e in plain
    ]


def jsonl(*objects: dict) -> bytes:
    return b"".join(msgspec.json.encode(o) + b"\n" for o in objects)
