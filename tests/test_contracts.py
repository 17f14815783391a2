"""Contracts and conservation: each law broken once, and the message names the worst offender."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from pipelines import contracts
from pipelines.datafiles import inspect
from pipelines.errors import ConservationError, ContractError
from pipelines.tables import (
    CHARGES_CAUSE,
    CHARGES_OWNER_COMPONENT,
    LEDGER_INTERVAL,
    SCORECARD_ATTEMPT,
    SCORECARD_FLEET,
    SCORECARD_JOB,
    TABLES,
    TIMELINE_ATTEMPT,
    Column,
    Table,
)
from pipelines.taxonomy import DEFAULT, Stage

DAY = date(2026, 11, 1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
WORDS = contracts.vocabulary(DEFAULT)


# --- rows and columns ---

THING = Table(
    "thing",
    "one row per thing",
    "observability",
    (
        Column("ds", "date", "UTC day.", is_nullable=False),
        Column("component", "string", "Component.", is_nullable=False),
        Column("wall_ms", "long", "Wall time."),
        Column("wait_ms", "long", "May be negative.", is_signed=True),
        Column("ett_ratio", "double", "Ratio."),
    ),
    ("ds", "component"),
)
FINE = {"ds": DAY, "component": "compile", "wall_ms": 5, "wait_ms": -5, "ett_ratio": 0.5}


def findings(tmp_path: Path, rows, *, table=THING, schema=None):
    path = tmp_path / "part.parquet"
    as_engines_write = [f.with_nullable(True) for f in schema or table.arrow_schema]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(as_engines_write)), path)
    file = inspect(LocalFileSystem(), str(tmp_path), "part.parquet", DAY)
    return contracts.check_files(table, [file], [DAY], WORDS)


def test_rows_that_fit_pass_every_rule(tmp_path):
    found = findings(tmp_path, [FINE, {**FINE, "component": "evaluation", "ett_ratio": None}])

    assert [f.rule for f in found] == ["schema", "day", "nulls", "range", "words", "key"]
    assert all(f.is_passed for f in found)
    contracts.stop_unless_passed(found)


@pytest.mark.parametrize(
    ("rule", "row", "said"),
    [
        ("nulls", {"component": None}, "1 rows have no 'component'"),
        ("range", {"ett_ratio": 1.5}, "'ett_ratio' runs from 0.5 to 1.5"),
        ("range", {"ett_ratio": float("nan")}, "'ett_ratio' is not a finite number"),
        ("range", {"wall_ms": -1}, "'wall_ms' runs from -1 to 5"),
        ("words", {"component": "compiel"}, "'component' is 'compiel'"),
        ("key", {"component": "compile"}, "1 keys occur more than once, 2 times"),
        ("day", {"ds": DAY + timedelta(days=1)}, "rows of 2026-11-01 to 2026-11-02 in the folder"),
    ],
)
def test_each_rule_names_what_breaks_it(tmp_path, rule, row, said):
    found = findings(tmp_path, [FINE, {**FINE, "component": "evaluation", **row}])

    failed = [f for f in found if not f.is_passed]
    assert [f.rule for f in failed] == [rule]
    assert failed[0].message.startswith("thing: ")
    assert said in failed[0].message
    with pytest.raises(ContractError):
        contracts.stop_unless_passed(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.append(pa.field("walls_ms", pa.int64())), "did you mean 'wall_ms'"),
        (lambda s: s.remove(2), "lacks the column 'wall_ms'"),
        (
            lambda s: s.set(2, pa.field("wall_ms", pa.int32())),
            "'wall_ms' as int32, the contract says",
        ),
    ],
    ids=["extra", "missing", "another type"],
)
def test_a_schema_that_is_not_exactly_the_contracts_fails_before_all_else(tmp_path, change, said):
    (only,) = findings(tmp_path, [FINE], schema=change(THING.arrow_schema))

    assert (only.rule, only.is_passed) == ("schema", False)
    assert said in only.message


def test_every_table_of_the_contract_can_be_checked_without_rows(tmp_path):
    for table in TABLES.values():
        assert all(f.is_passed for f in findings(tmp_path, [], table=table)), table.name


def test_bounds_of_times_are_never_rounded_inwards(tmp_path):
    table = pa.table({"at": pa.array([NOON.replace(microsecond=1_500)], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "t.parquet")

    told = inspect(LocalFileSystem(), str(tmp_path), "t.parquet", None).delta_statistics()
    assert '"minValues": {"at": "2026-11-01T12:00:00.001Z"}' in told
    assert '"maxValues": {"at": "2026-11-01T12:00:00.002Z"}' in told


# --- conservation ---


def rows_of(spark, table, rows):
    """A frame of the table; keys that are not given are null."""
    return spark.createDataFrame([tuple(r.get(n) for n in table.names) for r in rows], table.ddl)


def interval(start_s, end_s, *, job="a", stage="effective", component="effective_training", **more):
    begin, end = NOON + timedelta(seconds=start_s), NOON + timedelta(seconds=end_s)
    ms = (end_s - start_s) * 1000
    return {
        "ds": begin.date(), "cluster": "c", "job_id": job, "started_at": begin, "ended_at": end,
        "duration_ms": ms, "gpus": 8, "gpu_ms": ms * 8, "stage": stage, "component": component,
        "is_inferred": False, **more,
    }  # fmt: skip


def attempt(start_s, end_s, *, job="a"):
    at = {
        "started_at": NOON + timedelta(seconds=start_s),
        "ended_at": NOON + timedelta(seconds=end_s),
    }
    return {"ds": DAY, "cluster": "c", "job_id": job, "attempt": 0, **at}


def unbalanced(spark, intervals, attempts):
    frame = contracts.unbalanced_jobs(
        rows_of(spark, LEDGER_INTERVAL, intervals), rows_of(spark, TIMELINE_ATTEMPT, attempts)
    )
    return {r.job_id: r.asDict() for r in frame.collect()}


def test_jobs_that_tile_their_wall_time_balance(spark):
    over_midnight = [
        interval(0, 43_200, job="b"),
        interval(43_200, 50_000, job="b"),
    ]
    attempts = [attempt(0, 100), attempt(150, 300), attempt(0, 50_000, job="b")]
    attempts += [attempt(7, 7, job="of no length")]
    intervals = [interval(0, 100), interval(100, 150), interval(150, 300), *over_midnight]

    assert unbalanced(spark, intervals, attempts) == {}


BROKEN = {
    "gap": ([interval(0, 100), interval(110, 300)], {"gap_ms": 10_000, "ledger_ms": 290_000}),
    "overlap": (
        [interval(0, 120), interval(100, 300)],
        {"overlap_ms": 20_000, "ledger_ms": 320_000},
    ),
    "gap and overlap that cancel": (
        [interval(0, 110), interval(100, 200), interval(210, 300)],
        {"gap_ms": 10_000, "overlap_ms": 10_000, "ledger_ms": 300_000},
    ),
    "too short": ([interval(0, 290)], {"ledger_ms": 290_000, "off_ms": 20_000}),
    "moved": ([interval(-10, 290)], {"ledger_ms": 300_000, "off_ms": 20_000}),
    "nothing": ([], {"ledger_ms": 0, "off_ms": 300_000}),
    "wrong duration": ([interval(0, 300, duration_ms=299_999)], {"wrong_count": 1, "off_ms": 1}),
    "wrong GPU time": ([interval(0, 300, gpu_ms=1)], {"wrong_count": 1, "off_ms": 0}),
    "wrong day": ([interval(0, 300, ds=DAY - timedelta(days=1))], {"wrong_count": 1, "off_ms": 0}),
}


def test_jobs_that_do_not_tile_their_wall_time_are_found(spark):
    intervals = [{**row, "job_id": job} for job, (rows, _) in BROKEN.items() for row in rows]
    attempts = [attempt(0, 300, job=job) for job in BROKEN]
    found = unbalanced(
        spark, [*intervals, interval(0, 5, job="sound")], [*attempts, attempt(0, 5, job="sound")]
    )

    told = {job: {key: found[job][key] for key in told} for job, (_, told) in BROKEN.items()}
    assert told == {job: told for job, (_, told) in BROKEN.items()}
    assert found.keys() == BROKEN.keys()


def test_a_row_over_midnight_is_wrong(spark):
    found = unbalanced(spark, [interval(0, 50_000)], [attempt(0, 50_000)])
    assert found["a"]["wrong_count"] == 1


def job_sums(**sums):
    stages = {f"{s.value}_{unit}": 0 for s in Stage for unit in ("ms", "gpu_ms")}
    return {"ds": DAY, "cluster": "c", "job_id": "a", **stages, **sums}


RIGHT = {
    "wall_ms": 300_000, "held_gpu_ms": 2_400_000, "effective_ms": 200_000,
    "effective_gpu_ms": 1_600_000, "shutdown_ms": 100_000, "shutdown_gpu_ms": 800_000,
}  # fmt: skip
LEDGER = [interval(0, 200), interval(200, 300, stage="shutdown", component="teardown")]


WRONG = {
    "right": ({}, None),
    "wall": ({"wall_ms": 300_001}, 2),  # not the ledger's, and not the sum of its stages
    "stage": ({"shutdown_ms": 0, "wasted_training_ms": 100_000}, 200_000),
    "held": ({"held_gpu_ms": 0}, 2_400_000),
}


def test_scorecards_that_are_not_the_sums_of_their_ledger_are_found(spark):
    jobs = [{**job_sums(**RIGHT | wrong), "job_id": job} for job, (wrong, _) in WRONG.items()]
    ledger = [{**row, "job_id": job} for job in WRONG for row in LEDGER]
    found = contracts.misstated_jobs(
        rows_of(spark, SCORECARD_JOB, jobs), rows_of(spark, LEDGER_INTERVAL, ledger)
    )

    off = {r.job_id: r.off_ms for r in found.collect()}
    assert off == {job: ms for job, (_, ms) in WRONG.items() if ms is not None}


def told_of_day(spark, *, lost_ms=100_000, caused_ms=100_000, fleet_ms=300_000):
    fleet = {"ds": DAY, "wall_ms": fleet_ms, "held_gpu_ms": fleet_ms * 8}
    fleet |= {"effective_ms": 200_000, "effective_gpu_ms": 1_600_000}

    def loss(ms):
        return {"ds": DAY, "cluster": "c", "lost_ms": ms, "lost_gpu_ms": ms * 8}

    return {
        "ledger__interval": rows_of(spark, LEDGER_INTERVAL, LEDGER),
        "scorecard__job": rows_of(spark, SCORECARD_JOB, [job_sums(**RIGHT)]),
        "scorecard__fleet": rows_of(spark, SCORECARD_FLEET, [fleet]),
        "charges__owner_component": rows_of(
            spark, CHARGES_OWNER_COMPONENT, [loss(lost_ms)] if lost_ms else []
        ),
        "charges__cause": rows_of(spark, CHARGES_CAUSE, [loss(caused_ms - 1), loss(1)]),
    }


@pytest.mark.parametrize(
    ("wrong", "kinds"),
    [
        ({}, []),
        ({"lost_ms": 99_999}, ["lost"]),
        ({"lost_ms": 0}, ["lost"]),
        ({"caused_ms": 100_001}, ["lost"]),
        ({"fleet_ms": 1}, ["wall"]),
    ],
    ids=["right", "too little", "nothing", "too much", "fleet"],
)
def test_tables_that_disagree_about_a_day_are_found(spark, wrong, kinds):
    told = told_of_day(spark, **wrong)
    found = contracts.disagreeing_days(told["ledger__interval"], told).collect()

    assert [r.kind for r in found] == kinds


def test_the_worst_job_and_day_are_named(spark):
    told = told_of_day(spark, lost_ms=1)
    intervals = rows_of(spark, LEDGER_INTERVAL, [*LEDGER, interval(0, 5, job="b")])
    attempts = [attempt(0, 310), attempt(0, 6, job="b")]
    found = contracts.check_conservation(
        intervals, rows_of(spark, TIMELINE_ATTEMPT, attempts), told
    )

    balance, job_sums_, day_sums = found
    assert not balance.is_passed
    assert "job a in c does not balance: its wall time is 310,000 ms" in balance.message
    assert "its ledger sums to 300,000 ms" in balance.message
    assert "the worst of 2 jobs" in balance.message
    assert job_sums_.is_passed
    assert "on 2026-11-01 the tables do not agree about lost time" in day_sums.message
    assert "charges__owner_component 1 ms and 8 GPU-ms" in day_sums.message
    with pytest.raises(ConservationError, match=r"nothing was published.*\(1 more checks failed\)"):
        contracts.stop_unless_passed(found)


def test_words_are_looked_for_in_columns_of_their_name_only(tmp_path):
    row = dict.fromkeys((c.name for c in SCORECARD_ATTEMPT.columns if c.type == "long"), 0)
    row |= {"ds": DAY, "cluster": "compiel", "job_id": "netwrk", "outcome": "faild"}
    failed = [f for f in findings(tmp_path, [row], table=SCORECARD_ATTEMPT) if not f.is_passed]

    assert ["'outcome' is 'faild'" in f.message for f in failed] == [True]
