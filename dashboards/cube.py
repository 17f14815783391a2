"""What the browser sums for a filter: published rows by day, job and component, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dashboards.packed import pack, unpack
from dashboards.period import JOB
from pipelines import tables
from pipelines.taxonomy import EFFECTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from dashboards.published import Published
    from pipelines.tables import Table

# Most GPUs held by an attempt: the upper end of each size but the last.
SIZES = (
    ("not said", 0),
    ("1 to 8", 8),
    ("9 to 64", 64),
    ("65 to 512", 512),
    ("513 to 4,096", 4096),
)
LARGEST = "over 4,096"
MAX_ROWS = 250_000  # of one piece: about 2 MB compressed, a tenth of a second to load

_CHARGED = ["ds", "component", "cluster", "model", "team"]
_CODE = ["component", "stage", "owner"]
FLAGS = ("is_censored", "is_presumed_dead", "is_clock_conflict", "is_position_uncertain")


@dataclass(frozen=True)
class Cube:
    """Rows by position instead of by name. `jobs` is `Period.jobs`; its order numbers the jobs.

    `rows` has `day`, `job`, `code` (a row of `codes`: component, stage, owner), `duration_ms`,
    `gpu_ms`, `inferred_ms`, in order of day and job. `prices` is the price of a GPU-hour by day
    and cluster (null without one), read back from the published costs.
    """

    dates: list[date]
    jobs: pd.DataFrame
    names: Mapping[str, list[Any]]
    codes: pd.DataFrame
    rows: pd.DataFrame
    prices: pd.DataFrame
    interruptions: pd.DataFrame
    recoveries: pd.DataFrame
    cause_losses: pd.DataFrame
    attempts: pd.DataFrame
    disagreements: pd.DataFrame


def read_cube(published: Published, dates: Sequence[date], jobs: pd.DataFrame) -> Cube:
    """Read and number what the browser needs of `dates`; `jobs` is a `Period.jobs`."""
    charges = published.read(
        tables.CHARGES_OWNER_COMPONENT, [*_CHARGED, "owner", "lost_gpu_ms", "lost_cost"], dates
    )
    spent = _spent(published, dates, charges)
    codes = spent[_CODE].drop_duplicates().sort_values(_CODE, ignore_index=True)
    rows = spent.merge(codes.assign(code=range(len(codes))), on=_CODE, how="left")
    ordered = _numbered(rows, dates, jobs).sort_values(["day", "job", "code"], ignore_index=True)
    events = _events(published, dates, jobs)
    return Cube(
        dates=list(dates),
        jobs=jobs,
        names={name: _names(jobs[name]) for name in ("cluster", "model", "team", "outcome")},
        codes=codes,
        rows=ordered[["day", "job", "code", "duration_ms", "gpu_ms", "inferred_ms"]],
        prices=_prices(charges),
        **events,
    )


def _spent(published: Published, dates: Sequence[date], charges: pd.DataFrame) -> pd.DataFrame:
    """The jobs' time with the owner that was charged for it; null for effective time."""
    table = tables.SCORECARD_JOB_COMPONENT
    columns = ["ds", *JOB, "model", "team", "component", "stage", "duration_ms", "gpu_ms"]
    spent = published.read(table, [*columns, "inferred_ms"], dates)
    owners = charges[[*_CHARGED, "owner"]].drop_duplicates()
    return spent.merge(owners, on=_CHARGED, how="left", validate="many_to_one")


def _names(column: pd.Series) -> list[Any]:
    """The distinct values in order; null, where there is one, comes last."""
    known = sorted(column.dropna().unique().tolist())
    return [*known, None] if column.isna().any() else known


def _numbered(frame: pd.DataFrame, dates: Sequence[date], jobs: pd.DataFrame) -> pd.DataFrame:
    """`frame` with the numbers `day` and `job` of its `ds`, `cluster` and `job_id`."""
    key = jobs[JOB].assign(job=range(len(jobs)))
    days = {day: number for number, day in enumerate(dates)}
    found = frame.merge(key, on=JOB, how="inner", validate="many_to_one")
    return found.assign(day=found["ds"].map(days).astype("int64")).drop(columns=["ds", *JOB])


def _prices(charges: pd.DataFrame) -> pd.DataFrame:
    """The price of a GPU-hour by day and cluster: published cost over the hours that it is of."""
    priced = charges[charges["lost_cost"].notna() & (charges["lost_gpu_ms"] > 0)]
    sums = priced.groupby(["ds", "cluster"], as_index=False)[["lost_cost", "lost_gpu_ms"]].sum()
    hours = sums["lost_gpu_ms"].astype("float64") / 3_600_000
    return sums.assign(price=sums["lost_cost"] / hours)[["ds", "cluster", "price"]]


def _events(
    published: Published, dates: Sequence[date], jobs: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    def read(table: Table, columns: Sequence[str]) -> pd.DataFrame:
        return _numbered(published.read(table, ["ds", *JOB, *columns], dates), dates, jobs)

    ledger = read(
        tables.LEDGER_INTERVAL,
        ["attempt", "started_at", "component", "duration_ms", "gpu_ms", "cause"],
    )
    lost = ledger[ledger["cause"].notna() & (ledger["component"] != EFFECTIVE)]
    by_cause = lost.groupby(["day", "job", "cause"], as_index=False)
    disagreement, counted = tables.SCORECARD_DISAGREEMENT, ["ds", *JOB, "difference_count"]
    disputed = _numbered(published.read_if_there(disagreement, counted, dates), dates, jobs)
    return {
        "interruptions": read(tables.SCORECARD_INTERRUPTION, ["cause", "is_infrastructure"]),
        "recoveries": read(tables.SCORECARD_RECOVERY, ["cause", "ttr_ms"]),
        "cause_losses": by_cause[["duration_ms", "gpu_ms"]].sum(),
        "disagreements": disputed.groupby(["day", "job"], as_index=False).sum(),
        "attempts": _by_attempt(read(tables.TIMELINE_ATTEMPT, ["attempt", "started_at"]), ledger),
    }


def _by_attempt(told: pd.DataFrame, ledger: pd.DataFrame) -> pd.DataFrame:
    """Each attempt's time by component, on its first day; a gap counts with the one before it.

    Both frames are `_numbered`: pandas finds the least of dates in Python, group by group, and of
    whole numbers at once.
    """
    starts = told.drop_duplicates(["job", "attempt"]).drop(columns="day").sort_values("started_at")
    gaps = ledger[ledger["attempt"].isna()].drop(columns="attempt").sort_values("started_at")
    placed = pd.merge_asof(gaps, starts, on="started_at", by="job")
    inside = ledger[ledger["attempt"].notna()]
    both = pd.concat([inside, placed[placed["attempt"].notna()]], ignore_index=True)
    key = ["job", "attempt", "component"]
    sums = {"day": ("day", "min"), "duration_ms": ("duration_ms", "sum")}
    return both.groupby(key, as_index=False).agg(**sums)


def dimensions(cube: Cube) -> dict[str, Any]:
    """What the numbers mean: the lists that they count in, as plain data."""
    causes = _causes(cube)
    return {
        "days": [day.isoformat() for day in cube.dates],
        "clusters": cube.names["cluster"],
        "models": cube.names["model"],
        "teams": cube.names["team"],
        "outcomes": cube.names["outcome"],
        "owners": _names(cube.codes["owner"].dropna()),
        "sizes": [*(name for name, _ in SIZES), LARGEST],
        "causes": causes,
        "codes": [
            [component, stage, None if pd.isna(owner) else owner]
            for component, stage, owner in cube.codes.itertuples(index=False)
        ],
        "prices": _price_table(cube),
        "attempt_components": sorted(cube.attempts["component"].unique().tolist()),
    }


def _causes(cube: Cube) -> list[Any]:
    frames = (cube.interruptions, cube.recoveries, cube.cause_losses)
    return _names(pd.concat([frame["cause"] for frame in frames], ignore_index=True))


def _price_table(cube: Cube) -> list[list[float | None]]:
    """A row per day, a price per cluster."""
    told = {(ds, cluster): price for ds, cluster, price in cube.prices.itertuples(index=False)}
    return [[told.get((day, name)) for name in cube.names["cluster"]] for day in cube.dates]


def _positions(column: pd.Series, names: list[Any]) -> list[int]:
    where = {name: number for number, name in enumerate(names)}
    return [where[None if pd.isna(value) else value] for value in column]


def sizes(max_gpus: pd.Series) -> np.ndarray[Any, Any]:
    """The size of each job: the place of its GPUs among `SIZES`."""
    ends = [end for _, end in SIZES]
    return np.searchsorted(ends, max_gpus.to_numpy("int64"), side="left")


def packed_jobs(cube: Cube, places: Mapping[int, tuple[int, int]]) -> dict[str, Any]:
    """The jobs by number: their ids, what filters ask of them, and where their detail lies."""
    jobs = cube.jobs
    started = jobs["started_at"].astype("datetime64[ms, UTC]").astype("int64")
    flags = sum(jobs[name].astype(bool).astype(int) * 2**bit for bit, name in enumerate(FLAGS))
    numbers = {
        "cluster": ("u2", _positions(jobs["cluster"], cube.names["cluster"])),
        "model": ("u2", _positions(jobs["model"], cube.names["model"])),
        "team": ("u2", _positions(jobs["team"], cube.names["team"])),
        "outcome": ("u1", _positions(jobs["outcome"], cube.names["outcome"])),
        "size": ("u1", sizes(jobs["max_gpus"])),
        "max_gpus": ("u4", jobs["max_gpus"]),
        "attempt_count": ("u4", jobs["attempt_count"]),
        "failure_count": ("u4", jobs["failure_count"]),
        "started_at": ("f8", started.where(jobs["started_at"].notna())),
        "wall_ms": ("f8", jobs["wall_ms"]),
        "flags": ("u1", flags if len(jobs) else []),
        "is_training_told": ("u1", jobs["is_training_told"].astype(bool)),
        "piece": ("u4", [places[i][0] for i in range(len(jobs))]),
        "place": ("u4", [places[i][1] for i in range(len(jobs))]),
    }
    return {"job_id": jobs["job_id"].tolist(), "packed": pack(numbers)}


def packed_rows(cube: Cube) -> Iterator[dict[str, Any]]:
    """The cube in pieces of whole days: a group per day and job, then the rows of each group."""
    day = cube.rows["day"].to_numpy("int64")
    begin = 0
    while begin < len(day):
        last = day[min(begin + MAX_ROWS, len(day)) - 1]
        end = int(np.searchsorted(day, last, side="right"))
        yield _packed_piece(cube.rows.iloc[begin:end])
        begin = end


def _packed_piece(rows: pd.DataFrame) -> dict[str, Any]:
    """GPU time as GPUs held, and inferred time as yes or no; rows where that is not all follow.

    Both repeat from row to row, so that they compress to a third of the times themselves.
    """
    groups = rows.groupby(["day", "job"], sort=False).size()
    ms, gpu_ms, inferred_ms = (
        rows[name].to_numpy("int64") for name in ("duration_ms", "gpu_ms", "inferred_ms")
    )
    gpus = np.divide(gpu_ms, ms, out=np.zeros(len(rows)), where=ms > 0).astype("int64")
    is_mixed, is_part = gpus * ms != gpu_ms, (inferred_ms > 0) & (inferred_ms < ms)
    return pack(
        {
            "day": ("u2", groups.index.get_level_values("day")),
            "job": ("u4", groups.index.get_level_values("job")),
            "count": ("u2", groups),
            "code": ("u2", rows["code"]),
            "ms": ("u4", ms),
            "gpus": ("u4", np.where(is_mixed, 0, gpus)),
            "is_inferred": ("u1", (inferred_ms > 0) & ~is_part),
            "mixed_row": ("u4", np.flatnonzero(is_mixed)),
            "mixed_gpu_ms": ("f8", gpu_ms[is_mixed]),
            "part_row": ("u4", np.flatnonzero(is_part)),
            "part_inferred_ms": ("u4", inferred_ms[is_part]),
        }
    )


def unpacked_rows(piece: dict[str, Any]) -> pd.DataFrame:
    """A piece's rows again, as the browser has them: day, job, code and the three times."""
    p = unpack(piece)
    frame = pd.DataFrame(
        {
            "day": np.repeat(p["day"], p["count"]).astype("int64"),
            "job": np.repeat(p["job"], p["count"]).astype("int64"),
            "code": p["code"].astype("int64"),
            "duration_ms": p["ms"].astype("int64"),
        }
    )
    frame["gpu_ms"] = frame["duration_ms"] * p["gpus"].astype("int64")
    frame["inferred_ms"] = frame["duration_ms"] * p["is_inferred"]
    frame.loc[p["mixed_row"], "gpu_ms"] = p["mixed_gpu_ms"].astype("int64")
    frame.loc[p["part_row"], "inferred_ms"] = p["part_inferred_ms"].astype("int64")
    return frame


def packed_events(cube: Cube) -> dict[str, Any]:
    """Interruptions, recoveries, losses by cause and disagreements, each with its day and job."""
    causes = _causes(cube)

    def placed(frame: pd.DataFrame, **more: tuple[str, Any]) -> dict[str, Any]:
        return pack({"day": ("u2", frame["day"]), "job": ("u4", frame["job"])} | more)

    def packed(frame: pd.DataFrame, **more: tuple[str, Any]) -> dict[str, Any]:
        return placed(frame, cause=("u1", _positions(frame["cause"], causes)), **more)

    lost, disputed = cube.cause_losses, cube.disagreements
    infrastructure = cube.interruptions["is_infrastructure"].astype(bool)
    return {
        "interruptions": packed(cube.interruptions, is_infrastructure=("u1", infrastructure)),
        "recoveries": packed(cube.recoveries, ttr_ms=("f8", cube.recoveries["ttr_ms"])),
        "losses": packed(lost, ms=("f8", lost["duration_ms"]), gpu_ms=("f8", lost["gpu_ms"])),
        "disagreements": placed(disputed, count=("u4", disputed["difference_count"])),
    }


def packed_attempts(cube: Cube) -> Iterator[dict[str, Any]]:
    """Each component's time in each attempt that spent some, in order of the components."""
    for _, frame in cube.attempts.sort_values(["component", "job"]).groupby("component"):
        numbers = {"day": ("u2", frame["day"]), "job": ("u4", frame["job"])}
        yield pack(numbers | {"ms": ("f8", frame["duration_ms"])})
