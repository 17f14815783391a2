"""The true ledger as Parquet: one row per true interval, and one per job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.taxonomy import Stage

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from simulator.book import Book

_BATCH = 65_536

INTERVALS = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("attempt", pa.int64()),
        pa.field("started_at_ms", pa.int64(), nullable=False),
        pa.field("ended_at_ms", pa.int64(), nullable=False),
        pa.field("component", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("gpus", pa.int64(), nullable=False),
    ]
)
"""`intervals.parquet`: `[started_at_ms, ended_at_ms)`; attempt null between attempts."""

JOBS = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("team", pa.string(), nullable=False),
        pa.field("gpus", pa.int64(), nullable=False),
        pa.field("wall_ms", pa.int64(), nullable=False),
        pa.field("effective_ms", pa.int64(), nullable=False),
        pa.field("held_gpu_ms", pa.int64(), nullable=False),
        pa.field("effective_gpu_ms", pa.int64(), nullable=False),
        pa.field("queue_wait_ms", pa.int64(), nullable=False),
        pa.field("tts_ms", pa.int64()),
        pa.field("ttr_ms", pa.list_(pa.int64()), nullable=False),
        pa.field("time_to_new_data_ms", pa.list_(pa.int64()), nullable=False),
        pa.field("interruptions", pa.map_(pa.string(), pa.int64()), nullable=False),
        pa.field("flags", pa.list_(pa.string()), nullable=False),
        pa.field("hidden_ms", pa.int64()),
        pa.field("is_exact", pa.bool_(), nullable=False),
        pa.field("doubts", pa.list_(pa.string()), nullable=False),
    ]
)
"""`jobs.parquet`. `gpus`: as asked for. `hidden_ms`: uploads beside training, null where the log
does not say when the last one ended. `doubts`: why the log cannot say enough (none: `is_exact`)."""


@dataclass(frozen=True, slots=True)
class JobTruth:
    """What truly happened to one job."""

    cluster: str
    job_id: str
    model: str
    team: str
    gpus: int
    queue_wait_ms: int
    hidden_ms: int | None
    doubts: frozenset[str]
    book: Book

    def record(self) -> dict[str, Any]:
        """The row of `jobs.parquet`."""
        book = self.book
        effective = [r for r in book.rows if r.stage is Stage.EFFECTIVE]
        first, start = book.first_progress, book.first_start
        return {
            "cluster": self.cluster,
            "job_id": self.job_id,
            "model": self.model,
            "team": self.team,
            "gpus": self.gpus,
            "wall_ms": book.wall_ms,
            "effective_ms": sum(r.end - r.start for r in effective),
            "held_gpu_ms": sum((r.end - r.start) * r.gpus for r in book.rows),
            "effective_gpu_ms": sum((r.end - r.start) * r.gpus for r in effective),
            "queue_wait_ms": self.queue_wait_ms,
            "tts_ms": None if first is None or start is None else first - start,
            "ttr_ms": [r.ttr_ms for r in book.recoveries],
            "time_to_new_data_ms": [r.time_to_new_data_ms for r in book.recoveries],
            "interruptions": sorted((str(c), n) for c, n in book.interruptions.items()),
            "flags": sorted(book.flags),
            "hidden_ms": self.hidden_ms,
            "is_exact": not self.doubts,
            "doubts": sorted(self.doubts),
        }


@dataclass(slots=True)
class TruthWriter:
    """Streams job after job into `folder`; memory holds one batch of rows."""

    folder: Path
    _intervals: Any = None
    _jobs: Any = None
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _records: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._intervals = pq.ParquetWriter(self.folder / "intervals.parquet", INTERVALS)
        self._jobs = pq.ParquetWriter(self.folder / "jobs.parquet", JOBS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._flush()
        self._intervals.close()
        self._jobs.close()

    def add(self, truth: JobTruth) -> None:
        """Append one job."""
        key = (truth.cluster, truth.job_id)
        self._rows += [(*key, *row) for row in truth.book.rows]
        self._records.append(truth.record())
        if len(self._rows) + len(self._records) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(INTERVALS)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, INTERVALS, strict=True)]
        self._intervals.write_batch(pa.record_batch(arrays, schema=INTERVALS))
        self._jobs.write_table(pa.Table.from_pylist(self._records, schema=JOBS))
        self._rows, self._records = [], []
