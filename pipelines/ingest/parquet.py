"""A Parquet file cut out of a stream: its rows, numbered from 1, as JSON objects."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import parquet

from pipelines.ingest.lines import Refuse
from pipelines.ingest.unpack import DamageError

MAGIC = b"PAR1"
_BATCH_ROWS = 4096
_SPOOL_BYTES = 16 * 1024 * 1024


class Rows:
    """The rows of a Parquet file with their numbers from 1, as JSON objects of plain values.

    The format is read from its end, so the stream is first spooled: in memory up to 16 MiB, else
    in a temporary file. What cannot be read is refused as one more row. `count` is the number of
    rows seen so far.
    """

    def __init__(self, chunks: Iterable[bytes], refuse: Refuse) -> None:
        self.count = 0
        self._chunks = chunks
        self._refuse = refuse

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
                for chunk in self._chunks:
                    spool.write(chunk)
                spool.seek(0)
                yield from self._rows(spool)
        except (DamageError, pa.ArrowException, OSError, ValueError) as damage:
            self.count += 1
            self._refuse(self.count, f"the rest of the file is lost: {damage}", b"")

    def _rows(self, spool: Any) -> Iterator[tuple[int, bytes]]:
        for batch in parquet.ParquetFile(spool).iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                self.count += 1
                yield self.count, _encode({name: _plain(value) for name, value in row.items()})


_encode = msgspec.json.Encoder(enc_hook=str).encode


def _plain(value: Any) -> Any:
    """Values as a CSV would show them: times as ISO, with the offset that they have."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Decimal):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def is_parquet(begin: bytes) -> bool:
    """Does the file begin as Parquet does?"""
    return begin.startswith(MAGIC)
