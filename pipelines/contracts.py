"""What must hold of rows that are to be published: their contract, and the law of conservation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.datafiles import DataFile
from pipelines.errors import ConservationError, ContractError, nearest
from pipelines.intervals import day_number, instant, union
from pipelines.tables import Table
from pipelines.taxonomy import Cause, Outcome, Stage, Taxonomy

KEY_LIMIT = 500_000  # rows up to which a key is looked through here, in memory
_AMOUNTS = ("_ms", "_count", "_bytes")
_JOB = ["cluster", "job_id"]

Words = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Finding:
    """What one rule found about one table; `message` names the worst offender and the fix."""

    table: str
    rule: str
    is_passed: bool
    message: str

    @property
    def error(self) -> ContractError | ConservationError:
        """The error that stops the publication."""
        kind = ConservationError if self.rule in CONSERVATION else ContractError
        return kind(self.message)


CONSERVATION: dict[str, str] = {
    "balance": "A job's intervals are disjoint, without a gap, and sum to its wall time.",
    "job_sums": "The sums of scorecard__job, stage by stage, are those of the job's ledger.",
    "day_sums": "Every table tells the same wall, effective and lost time of a day as the ledger.",
}


def stop_unless_passed(findings: Iterable[Finding]) -> None:
    """Raise the first failure; the message says how many more rules failed."""
    failed = [f for f in findings if not f.is_passed]
    if not failed:
        return
    more = f" ({len(failed) - 1} more checks failed)" if len(failed) > 1 else ""
    raise type(failed[0].error)(f"{failed[0].message}{more}")


# --- rows and columns, generated from the contract ------------------------------------------


def vocabulary(taxonomy: Taxonomy) -> Words:
    """The words that a column of this name may hold, in any table."""
    owners = {c.owner for c in taxonomy if c.owner} | set(taxonomy.model_owners.values())
    return {
        "component": frozenset(taxonomy.components),
        "phase": taxonomy.phases,
        "owner": frozenset(owners),
        "stage": frozenset(Stage),
        "outcome": frozenset(Outcome),
        "cause": frozenset(Cause),
    }


def check_files(
    table: Table, files: Sequence[DataFile], days: Sequence[date], words: Words
) -> list[Finding]:
    """Every rule of the contract against files that are about to be committed.

    The rules: schema (exact), day (`ds` is the day of the file's folder, and one of `days`), nulls
    (none where the contract allows none), range (ratios within 0 and 1, amounts not negative,
    numbers finite), words (only those of the taxonomy), key (unique). Most need only the footers.
    """
    schema = _finding(table, "schema", _schema_faults(table, files))
    if not schema.is_passed:
        return [schema]
    return [
        schema,
        _finding(table, "day", _day_faults(table, files, days)),
        _finding(table, "nulls", _null_faults(table, files)),
        _finding(table, "range", _range_faults(table, files)),
        _finding(table, "words", _word_faults(table, files, words)),
        _finding(table, "key", _key_faults(table, files)),
    ]


def _finding(table: Table, rule: str, faults: Iterator[str]) -> Finding:
    worst = next(faults, None)
    message = f"{table.name}: {worst or 'holds'}"
    return Finding(table.name, rule, worst is None, message)


def _schema_faults(table: Table, files: Sequence[DataFile]) -> Iterator[str]:
    declared = {f.name: f.type for f in table.arrow_schema}
    for file in files:
        found = dict(file.schema)
        for name in found.keys() - declared.keys():
            yield (
                f"{file.path} has a column '{name}' that the contract does not declare "
                f"({nearest(name, declared)}); end the transform with Table.select_from"
            )
        for name, type_ in declared.items():
            if name not in found:
                yield f"{file.path} lacks the column '{name}'; it has {sorted(found)}"
            elif found[name] != type_:
                yield f"{file.path} has '{name}' as {found[name]}, the contract says {type_}"


def _day_faults(table: Table, files: Sequence[DataFile], days: Sequence[date]) -> Iterator[str]:
    if not table.is_daily:
        return
    asked = set(days)
    for file in files:
        if file.day not in asked:
            yield f"{file.path} is of {file.day}, which is not among the days to be swapped"
        bounds = file.bounds("ds")
        if bounds is not None and bounds != (file.day, file.day):
            yield f"{file.path} has rows of {bounds[0]} to {bounds[1]} in the folder of {file.day}"


def _null_faults(table: Table, files: Sequence[DataFile]) -> Iterator[str]:
    for column in table.columns:
        if column.is_nullable:
            continue
        count = sum(f.null_count(column.name) for f in files)
        if count:
            yield (
                f"{count:,} rows have no '{column.name}' ({column.meaning.rstrip('.')}), "
                "which the contract does not allow to be null"
            )


def _range_faults(table: Table, files: Sequence[DataFile]) -> Iterator[str]:
    for column in table.columns:
        for file in files:
            if column.type == "double" and not _is_finite(file, column.name):
                yield f"'{column.name}' is not a finite number somewhere in {file.path}"
            limits = _limits(column.name, is_signed=column.is_signed)
            bounds = file.bounds(column.name) if limits else None
            if limits is None or bounds is None:
                continue
            if bounds[0] < limits[0] or bounds[1] > limits[1]:
                yield (
                    f"'{column.name}' runs from {bounds[0]} to {bounds[1]} in {file.path}, "
                    f"outside {limits[0]} to {limits[1]}"
                )


def _limits(name: str, *, is_signed: bool) -> tuple[float, float] | None:
    if name.endswith("_ratio"):
        return (0.0, 1.0)
    return (0, float("inf")) if name.endswith(_AMOUNTS) and not is_signed else None


def _is_finite(file: DataFile, column: str) -> bool:
    values = file.read([column])[column]
    return bool(pc.all(pc.is_finite(values), min_count=0).as_py())


def _word_faults(table: Table, files: Sequence[DataFile], words: Words) -> Iterator[str]:
    named = [c.name for c in table.columns if c.name in words]
    for file in files if named else ():
        found = file.read(named)
        for name in named:
            strange = set(pc.unique(found[name]).to_pylist()) - words[name] - {None}
            for word in sorted(strange):
                yield f"'{name}' is '{word}' in {file.path}: {nearest(word, words[name])}"


def _key_faults(table: Table, files: Sequence[DataFile]) -> Iterator[str]:
    """Each day by itself; days too large to hold here are left to the ledger's balance."""
    for day in sorted({f.day for f in files}, key=str):
        of_day = [f for f in files if f.day == day]
        if sum(f.row_count for f in of_day) > KEY_LIMIT:
            continue
        rows = pa.concat_tables([_undictionaried(f.read(list(table.key))) for f in of_day])
        counted = rows.group_by(list(table.key)).aggregate([([], "count_all")])
        twice = counted.filter(pc.field("count_all") > 1)
        if twice.num_rows:
            worst = twice.sort_by([("count_all", "descending")]).slice(0, 1).to_pylist()[0]
            times = worst.pop("count_all")
            yield f"{twice.num_rows:,} keys occur more than once, {times} times {worst}"


def _undictionaried(rows: pa.Table) -> pa.Table:
    plain = [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in rows.schema
    ]
    return rows.cast(pa.schema(plain))


# --- conservation ---------------------------------------------------------------------------


def unbalanced_jobs(intervals: DataFrame, attempts: DataFrame) -> DataFrame:
    """Jobs whose ledger does not tile their wall time, with by how much: no rows where all do.

    `intervals` are whole jobs of ledger__interval, `attempts` of timeline__attempt: the wall runs
    from the first attempt's start to the last one's end. Columns: cluster, job_id, wall_ms,
    ledger_ms, gap_ms, overlap_ms, wrong_count (rows whose own columns contradict), off_ms.
    """
    wall = attempts.groupBy(*_JOB).agg(
        F.min(instant("started_at")).alias("wall_begin"),
        F.max(instant("ended_at")).alias("wall_end"),
    )
    booked = _tiling(intervals)
    joined = wall.join(booked, on=_JOB, how="full").select(
        *_JOB,
        _zero(F.col("wall_end") - F.col("wall_begin")).alias("wall_ms"),
        *(_zero(F.col(c)).alias(c) for c in ("ledger_ms", "gap_ms", "overlap_ms", "wrong_count")),
        _zero(
            F.abs(F.col("first_begin") - F.col("wall_begin"))
            + F.abs(F.col("last_end") - F.col("wall_end"))
        ).alias("edge_ms"),
    )
    off = (
        F.abs(F.col("wall_ms") - F.col("ledger_ms"))
        + F.col("gap_ms")
        + F.col("overlap_ms")
        + F.col("edge_ms")
    )
    return joined.withColumn("off_ms", off).where("off_ms > 0 OR wrong_count > 0")


def _tiling(intervals: DataFrame) -> DataFrame:
    """Per job: sum, gaps, overlaps, edges, and rows that contradict themselves."""
    course = Window.partitionBy(*_JOB).orderBy("begin", "end")
    begin, end, before = F.col("begin"), F.col("end"), F.col("before")
    is_wrong = (
        (begin >= end)
        | (F.col("duration_ms") != end - begin)
        | (F.col("gpu_ms") != F.col("duration_ms") * F.col("gpus"))
        | (F.unix_date(F.col("ds")) != day_number(begin))
        | (F.unix_date(F.col("ds")) != day_number(end - 1))
    )
    return (
        intervals.select(
            *_JOB,
            "ds",
            instant("started_at").alias("begin"),
            instant("ended_at").alias("end"),
            "duration_ms",
            "gpus",
            "gpu_ms",
        )
        .withColumn("before", F.lag("end").over(course))
        .groupBy(*_JOB)
        .agg(
            F.min("begin").alias("first_begin"),
            F.max("end").alias("last_end"),
            F.sum("duration_ms").alias("ledger_ms"),
            F.sum(F.greatest(begin - before, F.lit(0))).alias("gap_ms"),
            F.sum(F.greatest(before - begin, F.lit(0))).alias("overlap_ms"),
            F.sum(F.when(is_wrong, 1).otherwise(0)).alias("wrong_count"),
        )
    )


def misstated_jobs(jobs: DataFrame, intervals: DataFrame) -> DataFrame:
    """Rows of scorecard__job whose sums are not those of the job's ledger, or not of its stages.

    `intervals` are the whole jobs. Columns: cluster, job_id, wall_ms, ledger_ms, off_ms.
    """
    sums = _stage_sums()
    told = jobs.select(*_JOB, *sums).distinct()
    booked = intervals.groupBy(*_JOB).agg(*(c.alias(f"ledger_{n}") for n, c in sums.items()))
    parts = [f"{stage.value}_ms" for stage in Stage]
    of_stages = sum((F.col(p) for p in parts[1:]), F.col(parts[0]))
    off = F.abs(F.col("wall_ms") - of_stages)
    for name in sums:
        off = off + F.abs(F.col(name) - _zero(F.col(f"ledger_{name}")))
    return (
        told.join(booked, on=_JOB, how="left")
        .withColumn("off_ms", off)
        .where("off_ms > 0")
        .select(*_JOB, "wall_ms", F.col("ledger_wall_ms").alias("ledger_ms"), "off_ms")
    )


def _stage_sums() -> dict[str, Column]:
    sums = {"wall_ms": F.sum("duration_ms"), "held_gpu_ms": F.sum("gpu_ms")}
    for stage in Stage:
        is_of_it = F.col("stage") == stage.value
        for suffix, amount in (("ms", "duration_ms"), ("gpu_ms", "gpu_ms")):
            part = F.when(is_of_it, F.col(amount)).otherwise(F.lit(0))
            sums[f"{stage.value}_{suffix}"] = F.sum(part)
    return sums


_TOTALS = {
    "wall": {
        "scorecard__fleet": ("wall_ms", "held_gpu_ms"),
        "scorecard__day": ("wall_ms", "held_gpu_ms"),
        "scorecard__model": ("wall_ms", "held_gpu_ms"),
        "scorecard__team": ("wall_ms", "held_gpu_ms"),
        "scorecard__component": ("duration_ms", "gpu_ms"),
        "scorecard__job_component": ("duration_ms", "gpu_ms"),
    },
    "effective": {
        "scorecard__fleet": ("effective_ms", "effective_gpu_ms"),
        "scorecard__day": ("effective_ms", "effective_gpu_ms"),
    },
    "lost": {
        "charges__owner_component": ("lost_ms", "lost_gpu_ms"),
        "charges__cause": ("lost_ms", "lost_gpu_ms"),
    },
}


def disagreeing_days(intervals: DataFrame, others: Mapping[str, DataFrame]) -> DataFrame:
    """Days on which tables do not tell the ledger's wall, effective or lost time.

    `others` are the other tables by name; those without such sums are left out. Columns: ds,
    kind (wall, effective or lost), off_ms, told (a list of table, ms and gpu_ms).
    """
    is_effective = F.col("stage") == Stage.EFFECTIVE.value
    of_ledger = {"wall": F.lit(True), "effective": is_effective, "lost": ~is_effective}
    parts = []
    for kind, sums in _TOTALS.items():
        ledger = intervals.where(of_ledger[kind])
        told = {"ledger__interval": (ledger, "duration_ms", "gpu_ms")}
        told |= {name: (others[name], *sums[name]) for name in sums if name in others}
        parts += [
            rows.groupBy("ds")
            .agg(F.sum(ms).alias("ms"), F.sum(gpu_ms).alias("gpu_ms"))
            .select("ds", F.lit(kind).alias("kind"), F.lit(name).alias("table"),
                    F.lit(len(told)).alias("table_count"), "ms", "gpu_ms")
            for name, (rows, ms, gpu_ms) in told.items()
        ]  # fmt: skip
    return _disagreements(union(parts))


def _disagreements(told: DataFrame) -> DataFrame:
    """A table that says nothing of a day says 0."""
    is_silent = F.count("*") < F.max("table_count")

    def spread(column: str) -> Column:
        silent = F.when(is_silent, F.lit(0))
        return F.greatest(F.max(column), silent) - F.least(F.min(column), silent)

    return (
        told.groupBy("ds", "kind")
        .agg(
            (spread("ms") + spread("gpu_ms")).alias("off_ms"),
            F.collect_list(F.struct("table", "ms", "gpu_ms")).alias("told"),
        )
        .where("off_ms > 0")
    )


def _zero(amount: Column) -> Column:
    """A side of the comparison that does not exist counts for nothing, and so shows as off."""
    return F.coalesce(amount, F.lit(0))


def worst(offenders: DataFrame) -> dict[str, Any] | None:
    """The row that is furthest off with `offender_count`, or None where there is none."""
    found = offenders.orderBy(F.desc("off_ms")).limit(1).toArrow().to_pylist()
    return {**found[0], "offender_count": offenders.count()} if found else None


def check_conservation(
    intervals: DataFrame, attempts: DataFrame, published: Mapping[str, DataFrame]
) -> list[Finding]:
    """The three laws, each by one query of the engine.

    `intervals` and `attempts` are whole jobs (rows to be published, and those of their other
    days); `published` holds only rows to be published, by table.
    """
    unbalanced = worst(unbalanced_jobs(intervals, attempts))
    misstated = worst(misstated_jobs(published["scorecard__job"], intervals))
    disagreeing = worst(disagreeing_days(published["ledger__interval"], published))
    return [
        _law("ledger__interval", "balance", unbalanced, _unbalanced_message),
        _law("scorecard__job", "job_sums", misstated, _misstated_message),
        _law("charges__owner_component", "day_sums", disagreeing, _disagreeing_message),
    ]


def _law(
    table: str, rule: str, row: dict[str, Any] | None, message: Callable[[dict[str, Any]], str]
) -> Finding:
    if row is None:
        return Finding(table, rule, is_passed=True, message=f"{table}: {CONSERVATION[rule]}")
    text = f"{message(row)}; nothing was published. Please report this log: it is a defect"
    return Finding(table, rule, is_passed=False, message=text)


def _unbalanced_message(row: dict[str, Any]) -> str:
    return (
        f"job {row['job_id']} in {row['cluster']} does not balance: its wall time is "
        f"{row['wall_ms']:,} ms, its ledger sums to {row['ledger_ms']:,} ms with "
        f"{row['gap_ms']:,} ms of gaps, {row['overlap_ms']:,} ms of overlaps and "
        f"{row['wrong_count']} rows that contradict themselves "
        f"(the worst of {row['offender_count']} jobs)"
    )


def _misstated_message(row: dict[str, Any]) -> str:
    return (
        f"job {row['job_id']} in {row['cluster']}: scorecard__job says {row['wall_ms']:,} ms of "
        f"wall time, its ledger {row['ledger_ms'] or 0:,} ms; sums and stages are off by "
        f"{row['off_ms']:,} ms (the worst of {row['offender_count']} rows)"
    )


def _disagreeing_message(row: dict[str, Any]) -> str:
    told = ", ".join(
        f"{t['table']} {t['ms']:,} ms and {t['gpu_ms']:,} GPU-ms"
        for t in sorted(row["told"], key=lambda t: t["table"])
    )
    return (
        f"on {row['ds']} the tables do not agree about {row['kind']} time: {told} "
        f"(the worst of {row['offender_count']} days)"
    )
