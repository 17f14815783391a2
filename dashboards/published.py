"""Reader of a warehouse's published Delta tables: the only door of the pages to storage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from pipelines import tables
from pipelines.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pipelines.tables import Table

_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


class Published:
    """The published tables of one warehouse as pandas frames.

    Whole numbers and booleans keep their nulls (`Int64`, `boolean`); times are UTC.
    Raises WarehouseError where the folder or a table is missing.
    """

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = Path(warehouse)
        if not self.warehouse.is_dir():
            raise WarehouseError(
                f"there is no warehouse at {self.warehouse}: "
                f"publish one with `ett run RAW --warehouse {self.warehouse}`"
            )

    def read(
        self, table: Table, columns: Sequence[str], days: Sequence[date] | None = None
    ) -> pd.DataFrame:
        """`columns` of `table`, of `days` only where they are given (files of others stay shut).

        Raises ContractError for a column that the table does not declare, WarehouseError where
        the table is missing, lacks a declared column or cannot be read.
        """
        for name in columns:
            table[name]
        only = [("ds", "in", list(days))] if days is not None else None
        if only is not None and not days:
            return self._empty(table, columns)
        delta = self._open(table)
        self._refuse_older(table, delta, columns)
        try:
            arrow = delta.to_pyarrow_table(columns=list(columns), filters=only)
        except (DeltaError, pa.ArrowException, OSError) as error:
            raise WarehouseError(
                f"{self.warehouse / table.name} cannot be read: {error}"
            ) from error
        return _frame(arrow)

    def read_if_there(
        self, table: Table, columns: Sequence[str], days: Sequence[date] | None = None
    ) -> pd.DataFrame:
        """The same, without any row where an older version never published the table."""
        return self.read(table, columns, days) if self.has(table) else self._empty(table, columns)

    def has(self, table: Table) -> bool:
        """Was the table ever published here?"""
        return bool(DeltaTable.is_deltatable(str(self.warehouse / table.name)))

    def stale_days(self) -> list[date]:
        """Days whose published figures no longer fit the logbook, in order."""
        return sorted(self.read_if_there(tables.WAREHOUSE_STALE_DAY, ["ds"])["ds"])

    def publications(self) -> pd.DataFrame:
        """The publication that counts of each day: its latest. One row per `ds`, in order."""
        table = tables.WAREHOUSE_PUBLICATION
        columns = ["ds", "published_at", "as_of", "engine", "ettledger_version", "is_provisional"]
        told = self.read(table, columns).sort_values(["ds", "published_at"])
        return told.drop_duplicates("ds", keep="last").reset_index(drop=True)

    def restated_days(self) -> list[date]:
        """Days whose figures were published as final and differ now, in order."""
        sums = ["effective_gpu_ms", "held_gpu_ms", "effective_ms", "wall_ms"]
        columns = ["ds", "published_at", "is_provisional", *sums]
        told = self.read(tables.WAREHOUSE_PUBLICATION, columns).sort_values(["ds", "published_at"])
        now = told.drop_duplicates("ds", keep="last")
        final = told[~told["is_provisional"].astype(bool)]
        both = final.merge(now, on="ds", suffixes=("_then", "_now"))
        differs = [both[f"{name}_then"] != both[f"{name}_now"] for name in sums]
        return sorted(set(both.loc[pd.concat(differs, axis=1).any(axis=1), "ds"]))

    def _open(self, table: Table) -> DeltaTable:
        folder = self.warehouse / table.name
        if not self.has(table):
            there = sorted(p.name for p in self.warehouse.iterdir() if (p / "_delta_log").is_dir())
            raise WarehouseError(
                f"the warehouse {self.warehouse} has no table {table.name}; it has "
                f"{', '.join(there) or 'none at all'}. Publish it with `ett run`"
            )
        return DeltaTable(str(folder))

    def _refuse_older(self, table: Table, delta: DeltaTable, columns: Sequence[str]) -> None:
        """A column that the table declares and the folder lacks came with a later version."""
        there = {field.name for field in delta.schema().fields}
        missing = [name for name in columns if name not in there]
        if missing:
            raise WarehouseError(
                f"{self.warehouse / table.name} has no column {', '.join(missing)}: an older "
                "version of ettledger published it. Account the logs again into a fresh folder "
                "with `ett run RAW --warehouse FOLDER`"
            )

    @staticmethod
    def _empty(table: Table, columns: Sequence[str]) -> pd.DataFrame:
        return _frame(table.arrow_schema.empty_table().select(list(columns)))


def _frame(arrow: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = arrow.to_pandas(types_mapper=_NULLABLE.get)
    return frame


def latest(frame: pd.DataFrame, key: Sequence[str]) -> pd.DataFrame:
    """One row per `key`, of its latest `ds`: a whole job's figures stand on each of its days."""
    ordered = frame.sort_values("ds", kind="stable")
    return ordered.drop_duplicates(list(key), keep="last").reset_index(drop=True)
