"""The only door to storage: Delta tables, swapped day by day in one atomic step."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from pyspark.sql import functions as F

from pipelines.contracts import Finding, check_files, stop_unless_passed, vocabulary
from pipelines.datafiles import DataFile, inspect
from pipelines.errors import ConflictError, ContractError, WarehouseError, nearest
from pipelines.scratch import Scratch
from pipelines.tables import TABLES, WAREHOUSE_PUBLICATION, Table
from pipelines.taxonomy import DEFAULT, Taxonomy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COMMIT_ATTEMPTS = 20
RETENTION = timedelta(days=7)
SHORTEST_RETENTION = timedelta(days=1)  # no run takes longer from its first file to its commit
SCRATCH = "scratch"
NEVER = -1  # the version of a table that nobody has published
_FOLDER = "day"  # partitioning on a copy keeps `ds` a column of the files
_RUN_ID = re.compile(r"[A-Za-z0-9._-]+")
_FIGURES = ("job_count", "effective_gpu_ms", "held_gpu_ms", "effective_ms", "wall_ms")


@dataclass(frozen=True)
class Staged:
    """Files written for `days` of a table (none: the whole table), checked, not yet visible."""

    table: Table
    days: tuple[date, ...]
    files: tuple[DataFile, ...]
    findings: tuple[Finding, ...]
    run_id: str

    def row_counts(self) -> dict[date | None, int]:
        """Rows by day, 0 for a day without any; key None for a table that is not daily."""
        counts: dict[date | None, int] = dict.fromkeys(self.days or (None,), 0)
        for file in self.files:
            counts[file.day] = counts.get(file.day, 0) + file.row_count
        return counts

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows, in memory."""
        schema = pa.schema([self.table.arrow_schema.field(c) for c in columns])
        parts = [f.read(list(columns)).select(list(columns)).cast(schema) for f in self.files]
        return pa.concat_tables([schema.empty_table(), *parts])


@dataclass(frozen=True)
class Restatement:
    """A day that was published again with other figures (job_count and sums in ms)."""

    ds: date
    run_id: str
    published_at: datetime
    was_provisional: bool
    before: Mapping[str, int]
    after: Mapping[str, int]


def _check_folder(root: str) -> None:
    """Refuse a local root that no engine can write to, before any work is done."""
    if pattern := set("*?[]{}") & set(root):
        raise WarehouseError(
            f"the warehouse {root} has {' '.join(sorted(pattern))} in its path, which engines read"
            " as a pattern: give another folder"
        )
    if Path(root).exists() and not Path(root).is_dir():
        raise WarehouseError(f"the warehouse {root} is a file: give a folder")


class Warehouse:
    """The tables under one root: a local folder, or the URL of an object store.

    An engine only ever writes Parquet files into a fresh folder; a commit then makes them visible,
    all days of a table at once. Whatever stops before the commit leaves nothing to be seen.
    `taxonomy` says which words may be published; `storage_options` go to delta-rs.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        taxonomy: Taxonomy = DEFAULT,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        text = str(root)
        self.root = text.rstrip("/") if "://" in text else str(Path(text).absolute())
        self._options = dict(storage_options or {})
        self._words = vocabulary(taxonomy)
        if "://" in self.root:
            self._filesystem, self._path = FileSystem.from_uri(self.root)
        else:
            _check_folder(self.root)
            self._filesystem, self._path = LocalFileSystem(), self.root

    # --- writing ---

    def stage(
        self, table: Table | str, frame: DataFrame, days: Sequence[date], run_id: str
    ) -> Staged:
        """Have the engine write the rows of `days` into a fresh folder, and check the files.

        Rows of other days are left out; for a table that is not daily all rows are written and
        `days` is empty. Raises ContractError where the frame lacks a declared column.
        """
        contract = _contract(table)
        folder = _fresh_folder(run_id)
        wanted = contract.select_from(frame)
        if contract.is_daily:
            wanted = wanted.where(_is_among(days)).withColumn(_FOLDER, F.col("ds"))
            # Spark: about one file a day, a large day still in several. Sail does so unasked.
            writer = wanted.hint("rebalance", _FOLDER).write.partitionBy(_FOLDER)
        else:
            writer = wanted.write
        writer.mode("error").parquet(f"{self.root}/{contract.name}/{folder}")
        return self.staged(contract, folder, days, run_id)

    def stage_rows(self, table: Table | str, rows: pa.Table, run_id: str) -> Staged:
        """Write a few rows of a table that is not daily, without an engine, and check them."""
        contract = _contract(table)
        folder = _fresh_folder(run_id)
        if rows.num_rows:
            location = f"{self._path}/{contract.name}/{folder}"
            self._filesystem.create_dir(location, recursive=True)
            loose = [field.with_nullable(True) for field in contract.arrow_schema]
            plain = rows.select(contract.names).cast(pa.schema(loose))
            pq.write_table(plain, f"{location}/rows.parquet", filesystem=self._filesystem)
        return self.staged(contract, folder, (), run_id)

    def staged(self, table: Table | str, folder: str, days: Sequence[date], run_id: str) -> Staged:
        """What lies in a folder of a table, looked through by the rules of the contract."""
        contract = _contract(table)
        base = f"{self._path}/{contract.name}"
        files = [
            inspect(self._filesystem, base, path, _day_of(path) if contract.is_daily else None)
            for path in self._parquet_in(base, folder)
        ]
        filled = tuple(f for f in files if f.row_count)
        findings = check_files(contract, filled, days, self._words)
        return Staged(contract, tuple(days), filled, tuple(findings), run_id)

    def commit(self, staged: Staged, engine: str, *, base: int | None = None) -> int:
        """Swap the staged days (or the whole table) in one atomic step; the new version.

        A day without rows becomes empty. With `base`, the version that the rows were made from,
        it raises ConflictError where the table has moved on; without, the last writer of a day
        counts. Two writers never both add to one day: a commit goes exactly on top of the version
        that was read, and is made again from the newer one where that fails.

        Raises ContractError where the files do not fit the contract, WarehouseError where one is
        gone.
        """
        stop_unless_passed(staged.findings)
        if staged.table.is_daily and not staged.days:
            return int(self._open_or_create(staged.table, None).version())
        for attempt in range(COMMIT_ATTEMPTS):
            delta = self._open_or_create(staged.table, base)
            if base is not None and delta.version() != max(base, 0):
                raise _conflict(staged)
            try:
                self._swap(delta, staged, engine)
            except CommitFailedError as error:
                if base is not None:
                    raise _conflict(staged) from error
                time.sleep(0.02 * (attempt + 1))
                continue
            return int(delta.version()) + 1
        raise WarehouseError(
            f"{staged.table.name} in {self.root} was changed by other runs each of the "
            f"{COMMIT_ATTEMPTS} times that run {staged.run_id} tried to commit: "
            "let the other runs end, then run again"
        )

    def publish(
        self,
        table: Table | str,
        frame: DataFrame,
        days: Sequence[date],
        run_id: str,
        engine_version: str,
    ) -> Staged:
        """Stage and commit; ContractError, and nothing visible, where the rows do not fit."""
        staged = self.stage(table, frame, days, run_id)
        self.commit(staged, engine_version)
        return staged

    def update(
        self, table: Table | str, change: Callable[[pa.Table], pa.Table], run_id: str, engine: str
    ) -> None:
        """Replace the rows of a small table by `change` of them, also when others do so too."""
        contract = _contract(table)
        for _ in range(COMMIT_ATTEMPTS):
            version = self.version(contract)
            rows = contract.arrow([]) if version == NEVER else self.read_arrow(contract)
            staged = self.stage_rows(contract, change(rows), run_id)
            try:
                self.commit(staged, engine, base=version)
            except ConflictError:
                continue
            return
        raise WarehouseError(
            f"{contract.name} in {self.root} is being changed by other runs all the time: "
            "let them end, then run again"
        )

    def scratch(self, run_id: str) -> Scratch:
        """A place for intermediates that every worker of the engine reaches; use it in `with`."""
        name = f"{SCRATCH}/{_fresh_folder(run_id)}"
        return Scratch(self._filesystem, f"{self._path}/{name}", f"{self.root}/{name}")

    # --- reading ---

    def read(
        self,
        session: SparkSession,
        table: Table | str,
        days: Sequence[date] | None = None,
        *,
        version: int | None = None,
    ) -> DataFrame:
        """A published table, only the files of `days` where they are given, as a frame.

        The list of files comes from the Delta log. Raises WarehouseError where nobody published it.
        """
        contract = _contract(table)
        base = f"{self.root}/{contract.name}"
        paths = [f"{base}/{path}" for path, _ in self._active(contract, days, version)]
        return _frame(session, contract.ddl, paths)

    def read_staged(self, session: SparkSession, staged: Staged) -> DataFrame:
        """What a commit would make visible, as a frame."""
        base = f"{self.root}/{staged.table.name}"
        return _frame(session, staged.table.ddl, [f"{base}/{f.path}" for f in staged.files])

    def read_arrow(
        self,
        table: Table | str,
        columns: Sequence[str] | None = None,
        days: Sequence[date] | None = None,
        *,
        version: int | None = None,
    ) -> pa.Table:
        """A published table (or `columns` of it) in memory, without an engine."""
        contract = _contract(table)
        names = [contract[c].name for c in columns or contract.names]
        wanted = None if days is None else [("ds", "in", [str(d) for d in days])]
        schema = pa.schema([contract.arrow_schema.field(n) for n in names])
        if days is not None and not days:
            return schema.empty_table()
        delta = self._open(contract, version)
        return delta.to_pyarrow_table(partitions=wanted, columns=names).cast(schema)

    def days(self, table: Table | str) -> list[date]:
        """The days that have rows, in order; none for a table that nobody published."""
        contract = _contract(table)
        if not self.has(contract):
            return []
        found = {day for _, day in self._active(contract, None, None)}
        return sorted(day for day in found if day is not None)

    def has(self, table: Table | str) -> bool:
        """Was the table ever published here?"""
        return self.version(table) != NEVER

    def version(self, table: Table | str) -> int:
        """The version of the table, or NEVER."""
        try:
            return int(self._open(_contract(table), None).version())
        except WarehouseError:
            return NEVER

    def last_run(self, table: Table | str) -> str | None:
        """The run that committed the table last, or None where none did."""
        if not self.has(table):
            return None
        history = self._open(_contract(table), None).history()
        return next((str(told["run_id"]) for told in history if "run_id" in told), None)

    def tables(self) -> list[str]:
        """The tables that were published here."""
        return [name for name in TABLES if self.has(name)]

    def restatements(self) -> list[Restatement]:
        """Days published again with other figures, in order of day and time."""
        if not self.has(WAREHOUSE_PUBLICATION):
            return []
        rows = self.read_arrow(WAREHOUSE_PUBLICATION).to_pylist()
        rows.sort(key=lambda r: (r["ds"], r["published_at"]))
        return list(_restated(rows))

    # --- keeping house ---

    def vacuum(self, retention: timedelta = RETENTION) -> dict[str, int]:
        """Delete files that no version younger than `retention` shows; how many, by table.

        Goes by age, so files of a run that has not committed yet stay: a retention shorter than a
        day is refused. A run that takes longer than the retention finds its files gone when it
        commits, and fails with nothing published.
        """
        if retention < SHORTEST_RETENTION:
            raise WarehouseError(
                f"a retention of {retention} would take the files of runs that are still writing: "
                f"give at least {SHORTEST_RETENTION}"
            )
        hours = int(retention.total_seconds() // 3600)
        deleted = {
            name: len(
                self._open(TABLES[name], None).vacuum(
                    hours, dry_run=False, enforce_retention_duration=False, full=True
                )
            )
            for name in self.tables()
        }
        return {**deleted, SCRATCH: self._remove_scratch(datetime.now(UTC) - retention)}

    def _remove_scratch(self, before: datetime) -> int:
        """Folders that a killed run left behind, each judged by its youngest file."""
        base = f"{self._path}/{SCRATCH}"
        left = self._filesystem.get_file_info(FileSelector(base, allow_not_found=True))
        count = 0
        for folder in left:
            inside = self._filesystem.get_file_info(FileSelector(folder.path, recursive=True))
            if all(f.mtime < before for f in [folder, *inside] if f.mtime is not None):
                self._filesystem.delete_dir(folder.path)
                count += 1
        return count

    # --- Delta ---

    def _uri(self, table: Table) -> str:
        return f"{self.root}/{table.name}"

    def _open(self, table: Table, version: int | None) -> DeltaTable:
        try:
            return DeltaTable(self._uri(table), version, storage_options=self._options)
        except TableNotFoundError:
            published = ", ".join(n for n in TABLES if n != table.name and self._exists(n))
            raise WarehouseError(
                f"{table.name} was never published in {self.root}; it has "
                f"{published or 'no table at all'}. Run `ett run RAW --warehouse {self.root}`"
            ) from None
        except DeltaError as error:
            raise WarehouseError(f"{self._uri(table)} cannot be opened: {error}") from error

    def _exists(self, name: str) -> bool:
        return bool(DeltaTable.is_deltatable(self._uri(TABLES[name]), self._options))

    def _open_or_create(self, table: Table, base: int | None) -> DeltaTable:
        if not self._exists(table.name):
            if base is not None and base != NEVER:
                raise WarehouseError(f"{self._uri(table)} was removed while a run was at work")
            self._filesystem.create_dir(f"{self._path}/{table.name}", recursive=True)
            with suppress(CommitFailedError):  # another run created it at this very moment
                DeltaTable.create(
                    self._uri(table),
                    _delta_schema(table),
                    mode="ignore",
                    partition_by=["ds"] if table.is_daily else None,
                    name=table.name,
                    description=table.grain,
                    storage_options=self._options,
                )
        delta = self._open(table, None)
        _refuse_other_schema(self._uri(table), table, delta)
        return delta

    def _swap(self, delta: DeltaTable, staged: Staged, engine: str) -> None:
        table = staged.table
        base = f"{self._path}/{table.name}"
        adds: list[AddAction | RemoveAction] = [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values={"ds": str(file.day)} if table.is_daily else {},
                modification_time=file.modified_ms,
                data_change=True,
                stats=file.delta_statistics(),
            )
            for file in (inspect(self._filesystem, base, f.path, f.day) for f in staged.files)
        ]
        delta.create_write_transaction(
            adds,
            mode="overwrite",
            schema=_delta_schema(table),
            partition_by=["ds"] if table.is_daily else [],
            partition_filters=(
                [("ds", "in", [str(d) for d in staged.days])] if table.is_daily else None
            ),
            commit_properties=CommitProperties(
                max_commit_retries=0, custom_metadata={"run_id": staged.run_id, "engine": engine}
            ),
        )

    def _active(
        self, table: Table, days: Sequence[date] | None, version: int | None
    ) -> list[tuple[str, date | None]]:
        """Paths of the files of a version, each with its day."""
        actions = pa.table(self._open(table, version).get_add_actions(flatten=True))
        paths = actions["path"].to_pylist()
        if not table.is_daily:
            return [(path, None) for path in paths]
        of_day = zip(paths, actions["partition.ds"].to_pylist() if paths else [], strict=True)
        wanted = None if days is None else set(days)
        return [(path, day) for path, day in of_day if wanted is None or day in wanted]

    def _parquet_in(self, base: str, folder: str) -> list[str]:
        selector = FileSelector(f"{base}/{folder}", recursive=True, allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        prefix = len(base) + 1
        return sorted(
            info.path[prefix:]
            for info in found
            if info.type == FileType.File and info.path.endswith(".parquet")
        )


def _contract(table: Table | str) -> Table:
    if isinstance(table, Table):
        return table
    if table not in TABLES:
        raise ContractError(f"there is no table '{table}': {nearest(table, TABLES)}")
    return TABLES[table]


def _frame(session: SparkSession, ddl: str, paths: Sequence[str]) -> DataFrame:
    return session.read.schema(ddl).parquet(*paths) if paths else session.createDataFrame([], ddl)


def _fresh_folder(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise WarehouseError(f"'{run_id}' cannot name a run: use letters, digits, '.', '_' and '-'")
    return f"run={run_id}.{uuid4().hex[:8]}"


def _is_among(days: Sequence[date]) -> Column:
    """Is a row of one of the days? A span of days is two comparisons, however long it is."""
    ordered = sorted(set(days))
    if not ordered:
        return F.lit(False)
    if (ordered[-1] - ordered[0]).days + 1 == len(ordered):
        return F.col("ds").between(F.lit(ordered[0]), F.lit(ordered[-1]))
    return F.col("ds").isin(ordered)


def _day_of(path: str) -> date:
    """The day that a file's folder is named after."""
    named = re.search(rf"/{_FOLDER}=([^/]+)/", path)
    try:
        return date.fromisoformat(named.group(1) if named else "")
    except ValueError:
        raise ContractError(
            f"{path} does not lie in the folder of a day: its rows have no `ds`"
        ) from None


def _delta_schema(table: Table) -> DeltaSchema:
    """The contract as Delta knows it, each column with its meaning as the comment."""
    fields = [
        field.with_metadata({"comment": table[field.name].meaning}) for field in table.arrow_schema
    ]
    return DeltaSchema.from_arrow(pa.schema(fields))


def _refuse_other_schema(uri: str, table: Table, delta: DeltaTable) -> None:
    """A column may be new if it can be null in the days of before; none may change its type."""
    there = {f.name: f.type for f in delta.schema().fields}
    for field in _delta_schema(table).fields:
        if field.name not in there and field.nullable:
            continue
        if field.name not in there or there[field.name] != field.type:
            found = there.get(field.name, "no such column")
            raise WarehouseError(
                f"{uri} was published by another version of ettledger: '{field.name}' is {found} "
                f"there and {field.type} here. Publish into a new warehouse, or remove this table "
                "and compute all its days again"
            )


def _conflict(staged: Staged) -> ConflictError:
    return ConflictError(
        f"{staged.table.name} was changed by another run while run {staged.run_id} was at work; "
        "nothing of it was committed there. Run again"
    )


def _restated(rows: Sequence[Mapping[str, Any]]) -> Iterator[Restatement]:
    for before, after in pairwise(rows):
        is_same_day = before["ds"] == after["ds"]
        if is_same_day and any(before[f] != after[f] for f in _FIGURES):
            yield Restatement(
                ds=after["ds"],
                run_id=after["run_id"],
                published_at=after["published_at"],
                was_provisional=before["is_provisional"],
                before={f: before[f] for f in _FIGURES},
                after={f: after[f] for f in _FIGURES},
            )
