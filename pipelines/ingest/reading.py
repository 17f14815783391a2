"""Reading on the engine: a frame of files to a frame of records, one pass, streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.ingest.files import RawFile
from pipelines.ingest.pack import DDL, Pack
from pipelines.ingest.recognise import HEAD_BYTES, LOOKED_FOR, recognise
from pipelines.ingest.records import Event, Format, Reading, Reject
from pipelines.ingest.settings import Sources
from pipelines.ingest.unpack import DamageError, chunks
from pipelines.tables import LOGBOOK_EVENT, LOGBOOK_FILE, LOGBOOK_JOIN, LOGBOOK_REJECT
from pipelines.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES_DDL = "path string, name string, size_bytes bigint, modified_at timestamp"
UNKNOWN_SOURCE = "unknown"
_NO_SOURCES = Sources()
# A task costs Spark some 50 ms, a small file less than one: small files share tasks.
LEAST_TASKS = 8
TASK_BYTES = 16 * 1024 * 1024

FILES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "name": pa.string(),
        "size_bytes": pa.int64(),
        "modified_at": pa.timestamp("us", tz="UTC"),
    }
)


def files_frame(session: SparkSession, raw_files: Iterable[RawFile]) -> DataFrame:
    """The files as a frame of FILES_DDL, one row each."""
    table = pa.Table.from_batches([files_batch(raw_files)])
    return session.createDataFrame(table, FILES_DDL)


def files_batch(raw_files: Iterable[RawFile]) -> pa.RecordBatch:
    """The files as one Arrow batch of FILES_SCHEMA."""
    rows = [file._asdict() for file in raw_files]
    return pa.RecordBatch.from_pylist(rows, schema=FILES_SCHEMA)


def read(files: DataFrame, taxonomy: Taxonomy, sources: Sources = _NO_SOURCES) -> DataFrame:
    """Read every file of `files` (FILES_DDL) to records: events, rejects and the files' accounts.

    Grain: one row per event, reject, file and declared join; column `record` says which. One file
    is read by one task, in batches, whatever its size. Write the result once and take `events`,
    `rejects`, `files` and `joins` of it: each action on it reads the files again.
    """
    tasks = files.repartition(_task_count(files))
    return tasks.mapInArrow(partial(read_files, taxonomy=taxonomy, sources=sources), DDL)


def _task_count(files: DataFrame) -> int:
    """One task for each file, or fewer where the files are small."""
    sizes = files.selectExpr("count(*) AS files", "coalesce(sum(size_bytes), 0) AS bytes")
    row = sizes.collect()[0]
    count, total = int(row["files"]), int(row["bytes"])
    return max(1, min(count, max(LEAST_TASKS, total // TASK_BYTES)))


def events(records: DataFrame) -> DataFrame:
    """The events among the records: rows of logbook__event, duplicates included."""
    chosen = records.where("record = 'event'").selectExpr("*", "to_date(event_at) AS ds")
    return LOGBOOK_EVENT.select_from(chosen)


def rejects(records: DataFrame) -> DataFrame:
    """The rejects among the records: rows of logbook__reject."""
    return LOGBOOK_REJECT.select_from(records.where("record = 'reject'"))


def files(records: DataFrame) -> DataFrame:
    """The files' accounts among the records: rows of logbook__file."""
    return LOGBOOK_FILE.select_from(records.where("record = 'file'"))


def joins(records: DataFrame) -> DataFrame:
    """How own names became jobs, where the site says how: rows of logbook__join."""
    return LOGBOOK_JOIN.select_from(records.where("record = 'join'"))


def read_files(
    batches: Iterable[pa.RecordBatch], taxonomy: Taxonomy, sources: Sources = _NO_SOURCES
) -> Iterator[pa.RecordBatch]:
    """One task: batches of files (FILES_DDL) to batches of records (pack.SCHEMA)."""
    pack = Pack()
    for row in (row for batch in batches for row in batch.to_pylist()):
        reading = Reading(RawFile(**row), taxonomy, sources=sources)
        source, records = _open(reading)
        while not pack.take(records, source, reading):
            yield from pack.batches()
            pack = Pack()
        pack.close(source, reading)
    yield from pack.batches()


def _open(reading: Reading) -> tuple[str, Iterator[Event | Reject]]:
    """The format of a file and its records.

    Whatever the content, no error leaves: what cannot be read is rejected line by line.
    """
    raw = chunks(reading.file.path)
    found, stream = recognise(raw, reading.sources, reading.settings.source)
    if found is None:
        return UNKNOWN_SOURCE, _ignored(stream, reading)
    return found.source, _parsed(found, stream, reading)


def _parsed(found: Format, stream: Iterator[bytes], reading: Reading) -> Iterator[Event | Reject]:
    tally = reading.tally
    units = found.units(stream, tally.refuse)
    numbered = iter(units)
    try:
        yield from found.parse(numbered, reading)
    except Exception as error:  # noqa: BLE001 - one file must not lose the others
        reason = f"the {found.source} reader failed at line {units.count}: {error!r}"
        tally.notes.append(reason)
        if tally.accounted < units.count:
            yield tally.reject(units.count, reason, b"")
        for number, text in numbered:
            yield tally.reject(number, reason, text)
    tally.line_count = units.count


def _ignored(stream: Iterator[bytes], reading: Reading) -> Iterator[Event | Reject]:
    """Count the lines of a file that no reader knows."""
    tally = reading.tally
    last = b"\n"
    try:
        for chunk in stream:
            tally.ignored_count += chunk.count(b"\n")
            last = chunk[-1:] or last
    except DamageError as damage:
        number = tally.ignored_count + (last != b"\n") + 1
        yield tally.reject(number, f"the rest of the file is lost: {damage}", b"")
    tally.ignored_count += last != b"\n"
    tally.line_count = tally.accounted
    looked = f"the first {HEAD_BYTES // 1024 // 1024} MiB hold none of {LOOKED_FOR}"
    tally.notes.append(f"not recognised: {looked}" if tally.line_count else "empty")
