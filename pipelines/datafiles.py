"""One Parquet file of a table as written by an engine: its footer, its columns, its statistics."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, FileType

from pipelines.errors import WarehouseError

LONGEST_BOUND = 64  # characters of a string worth keeping as a bound for data skipping
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class DataFile:
    """A file of a table: `path` relative to the table's folder, `day` of its folder (or None).

    What the footer tells costs no read of the rows; `read` reads columns.
    """

    path: str
    day: date | None
    size_bytes: int
    modified_ms: int
    footer: pq.FileMetaData
    filesystem: FileSystem
    location: str

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return int(self.footer.num_rows)

    @property
    def schema(self) -> list[tuple[str, pa.DataType]]:
        """Names and types, the spellings of one type made the same."""
        return [(f.name, _plain(f.type)) for f in self.footer.schema.to_arrow_schema()]

    def null_count(self, column: str) -> int:
        """Nulls of a column: from the footer, or by reading where the writer kept no count."""
        counts = [s.null_count if s else None for s in self._statistics(column)]
        if any(c is None for c in counts):
            return int(self.read([column])[column].null_count)
        return sum(int(c) for c in counts if c is not None)

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """Lowest and highest value of a column, or None where it has only nulls."""
        parts = [s for s in self._statistics(column) if s is None or s.num_values > 0]
        if any(s is None or not s.has_min_max for s in parts):
            return _read_bounds(self.read([column])[column])
        if not parts:
            return None
        return min(s.min for s in parts if s), max(s.max for s in parts if s)

    def read(self, columns: list[str]) -> pa.Table:
        """These columns of every row; words come as dictionaries, which is small and quick."""
        words = [n for n, t in self.schema if n in columns and pa.types.is_string(t)]
        with self.filesystem.open_input_file(self.location) as handle:
            return pq.ParquetFile(handle, read_dictionary=words).read(columns=columns)

    def delta_statistics(self) -> str:
        """The statistics of a Delta add action, so that readers can skip this file."""
        lowest: dict[str, Any] = {}
        highest: dict[str, Any] = {}
        for name, type_ in self.schema:
            found = None if pa.types.is_boolean(type_) else self.bounds(name)
            if found is not None and _is_worth_keeping(found):
                lowest[name], highest[name] = _as_json(found[0], 0), _as_json(found[1], 1)
        nulls = {name: self.null_count(name) for name, _ in self.schema}
        return json.dumps(
            {
                "numRecords": self.row_count,
                "minValues": lowest,
                "maxValues": highest,
                "nullCount": nulls,
            }
        )

    def _statistics(self, column: str) -> list[pq.Statistics | None]:
        index = self.footer.schema.names.index(column)
        groups = range(self.footer.num_row_groups)
        return [self.footer.row_group(g).column(index).statistics for g in groups]


def inspect(filesystem: FileSystem, folder: str, path: str, day: date | None) -> DataFile:
    """Open the file at `folder`/`path` and read its footer; WarehouseError where it is missing."""
    location = f"{folder}/{path}"
    info = filesystem.get_file_info(location)
    if info.type != FileType.File:
        raise WarehouseError(
            f"{location} is missing: it was to be committed and nobody but this run writes there; "
            "was the warehouse cleaned by hand? Run again"
        )
    try:
        with filesystem.open_input_file(location) as handle:
            footer = pq.ParquetFile(handle).metadata
    except pa.ArrowException as error:
        raise WarehouseError(f"{location} is no Parquet file: {error}. Run again") from error
    return DataFile(
        path=path,
        day=day,
        size_bytes=int(info.size),
        modified_ms=int(info.mtime_ns // 1_000_000),
        footer=footer,
        filesystem=filesystem,
        location=location,
    )


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    return type_


def _read_bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    if column.null_count == len(column):
        return None
    plain = column.cast(_plain(column.type))
    found = pc.min_max(plain).as_py()
    return found["min"], found["max"]


def _is_worth_keeping(bounds: tuple[Any, Any]) -> bool:
    """Long words and what JSON cannot say (not a number, infinity) are left out."""
    if isinstance(bounds[0], str):
        return all(len(b) <= LONGEST_BOUND for b in bounds)
    return not isinstance(bounds[0], float) or all(math.isfinite(b) for b in bounds)


def _as_json(value: Any, round_up: int) -> Any:
    """A bound as Delta writes it: times to the millisecond, the highest never rounded down."""
    if isinstance(value, datetime):
        utc = value.astimezone(UTC)
        whole = utc.replace(microsecond=utc.microsecond // 1000 * 1000)
        kept = whole + _MILLISECOND * round_up if whole < utc else whole
        return kept.strftime("%Y-%m-%dT%H:%M:%S.") + f"{kept.microsecond // 1000:03d}Z"
    return value.isoformat() if isinstance(value, date) else value
