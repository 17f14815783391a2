"""The ledger by hand in pandas and numpy over the same files. Usage: ledger_pandas.py EVENTS SUMS.

The same rules as ledger.sql for the same synthetic fleet; docs/benchmarks.md: what is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from probe import Laps

NANO = 1_000_000_000
FEW = 3
FAILED = ("failed", "preempted", "timed_out")
ENDED = ("succeeded", "cancelled")
COLUMNS = [
    "job_id", "attempt", "event", "event_at", "step", "samples", "phase", "is_held", "outcome"
]  # fmt: skip


def main() -> None:
    events, sums_path = map(Path, sys.argv[1:])
    laps = Laps()
    for lap in ("first", "second"):
        with laps.lap(lap):
            sums = account(events)
        if lap == "first":
            found: dict[str, dict[str, int]] = {}
            for job_id, component, ms in sums.reset_index().itertuples(index=False, name=None):
                found.setdefault(job_id, {})[component] = int(ms)
            sums_path.write_text(json.dumps(found), encoding="utf-8")
    laps.report(f"pandas {pd.__version__}")


def account(folder: Path) -> pd.Series:
    """Milliseconds by job and component."""
    lines = pd.read_parquet(folder, columns=COLUMNS)
    lines["t"] = lines.pop("event_at").astype("int64") // 1_000
    is_mark = lines["event"].isin(["step", "train_begin"])
    other = lines[~is_mark]
    attempts = attempts_of(other)
    spans = spans_of(other, attempts)
    covers = covers_of(spans)
    marks = marks_of(lines[is_mark], attempts, covers)
    pairs = pairs_of(marks)
    priced = priced_of(pairs[pairs["is_progress"]], spans)
    return summed(attempts, covers, marks, pairs, priced)


def attempts_of(other: pd.DataFrame) -> pd.DataFrame:
    """One row per attempt in order; `att` orders attempts within jobs and jobs among themselves."""
    key = ["job_id", "attempt"]
    starts = other[other["event"] == "attempt_started"].set_index(key)
    ends = other[other["event"] == "attempt_ended"].set_index(key)
    attempts = pd.DataFrame(
        {
            "t_begin": starts.groupby(key)["t"].min(),
            "is_held": starts["is_held"].astype(bool).groupby(key).max(),
            "t_end": ends.groupby(key)["t"].max(),
            "outcome": ends.groupby(key)["outcome"].max(),
        }
    )
    attempts = attempts.reset_index().sort_values(["job_id", "t_begin"], ignore_index=True)
    attempts["att"] = np.arange(len(attempts))
    attempts["job"] = attempts["job_id"].factorize()[0]
    return attempts


def spans_of(other: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Phases: an end closes the begin before it."""
    edges = other[other["phase"].notna()].merge(
        attempts[["job_id", "attempt", "att"]], on=["job_id", "attempt"]
    )
    edges["is_begin"] = edges["event"] == "phase_begin"
    edges = edges.sort_values(["att", "phase", "t", "is_begin"], ignore_index=True)
    edges["t_end"] = edges.groupby(["att", "phase"])["t"].shift(-1)
    spans = edges[edges["is_begin"] & (edges["t"] < edges["t_end"])]
    spans = spans.rename(columns={"t": "t_begin"})[["att", "phase", "t_begin", "t_end"]]
    return spans.astype({"t_end": "int64"})


def covers_of(spans: pd.DataFrame) -> pd.DataFrame:
    """Who has an instant: the phase that began last, of equal begins the one that ends first."""
    spans = spans.sort_values(["att", "t_begin", "t_end"], ignore_index=True)
    reach = spans.groupby("att")["t_end"].cummax().groupby(spans["att"]).shift(fill_value=0)
    spans["island"] = (spans["t_begin"] >= reach).cumsum()
    size = spans.groupby("island")["phase"].transform("size")
    crowded = spans[size > 1]
    edge = pd.concat([crowded["t_begin"], crowded["t_end"]]).rename("t")
    points = pd.DataFrame({"island": pd.concat([crowded["island"]] * 2), "t": edge})
    points = points.drop_duplicates().sort_values(["island", "t"])
    points["until"] = points.groupby("island")["t"].shift(-1)
    pieces = points.dropna().merge(crowded, on="island")
    pieces = pieces[(pieces["t_begin"] <= pieces["t"]) & (pieces["t_end"] >= pieces["until"])]
    pieces = pieces.sort_values(
        ["island", "t", "t_begin", "t_end"], ascending=[True, True, False, True]
    )
    owned = pieces.drop_duplicates(["island", "t"])[["att", "phase", "t", "until"]]
    owned = owned.set_axis(["att", "phase", "t_begin", "t_end"], axis="columns")
    covers = pd.concat([spans[size == 1][owned.columns], owned.astype({"t_end": "int64"})])
    covers = covers.sort_values(["att", "t_begin"], ignore_index=True)
    covers["ms"] = covers["t_end"] - covers["t_begin"]
    covers["before"] = covers.groupby("att")["ms"].cumsum() - covers["ms"]
    return covers


def marks_of(lines: pd.DataFrame, attempts: pd.DataFrame, covers: pd.DataFrame) -> pd.DataFrame:
    """Marks in course with position and free clock `f`, which stands still under phases."""
    marks = lines[["job_id", "attempt", "event", "t", "step", "samples"]].merge(
        attempts[["job_id", "attempt", "att", "job"]], on=["job_id", "attempt"]
    )
    by_samples = marks["samples"].notna().groupby(marks["job"]).transform("all")
    marks["position"] = marks["samples"].where(by_samples, marks["step"]).astype("int64")
    marks["is_begin"] = marks["event"] == "train_begin"
    marks = marks.sort_values(["att", "t", "is_begin"], ignore_index=True)
    marks["f"] = marks["t"] - covered_until(marks["att"], marks["t"], covers)
    return marks[["job", "att", "t", "f", "is_begin", "position"]]


def covered_until(att: pd.Series, t: pd.Series, covers: pd.DataFrame) -> np.ndarray:
    """Milliseconds under phases from each attempt's start to an instant."""
    far = 1 << 42  # beyond every instant in ms, so that one number orders attempt and instant
    keys = covers["att"].to_numpy() * far + covers["t_begin"].to_numpy()
    at = np.searchsorted(keys, att.to_numpy() * far + t.to_numpy(), side="right") - 1
    last = covers.iloc[np.maximum(at, 0)]
    is_same = (at >= 0) & (last["att"].to_numpy() == att.to_numpy())
    inside = np.minimum(t.to_numpy(), last["t_end"].to_numpy()) - last["t_begin"].to_numpy()
    return np.where(is_same, last["before"].to_numpy() + inside, 0)


def pairs_of(marks: pd.DataFrame) -> pd.DataFrame:
    """Pairs of marks: progress, a restart inside the attempt (is_gap), or neither."""
    att = marks["att"].to_numpy()
    is_pair = np.r_[False, att[1:] == att[:-1]]
    now, before = np.flatnonzero(is_pair), np.flatnonzero(is_pair) - 1
    high = marks.groupby("job")["position"].cummax().to_numpy()[before]
    columns = {c: marks[c].to_numpy() for c in ("job", "att", "t", "f", "position", "is_begin")}
    t, f, p = columns["t"], columns["f"], columns["position"]
    pairs = pd.DataFrame(
        {"job": columns["job"][now], "att": att[now], "t0": t[before], "t1": t[now]}
    )
    pairs["free"] = f[now] - f[before]
    pairs["p0"], pairs["n"], pairs["high"] = p[before], p[now] - p[before], high
    pairs["is_progress"] = pairs["n"] > 0
    pairs["is_gap"] = ~pairs["is_progress"] & (p[now] < high)
    follows = is_pair[before]
    fell = np.r_[True, ~pairs["is_progress"].to_numpy()[:-1]]
    pairs["is_resume"] = columns["is_begin"][before] | (follows & fell)
    return pairs


def usual_rates(progress: pd.DataFrame) -> pd.Series:
    """Per row of `progress` its attempt's usual rate in ns a position, a lower median; -1: none."""
    rated = progress[~progress["is_first"] & (progress["free"] > 0)]
    rates = pd.DataFrame(
        {"job": rated["job"], "att": rated["att"], "rate": rated["free"] * NANO // rated["n"]}
    )
    of_attempt = lower_median(rates, "att").reindex(progress["att"]).to_numpy()
    of_job = lower_median(rates, "job").reindex(progress["job"]).to_numpy()
    return pd.Series(of_attempt, progress.index).fillna(pd.Series(of_job, progress.index))


def lower_median(rates: pd.DataFrame, key: str) -> pd.Series:
    """Element (k - 1) div 2 of the k sorted rates of each key that has three or more."""
    ordered = rates.sort_values([key, "rate"], ignore_index=True)
    sizes = ordered.groupby(key).size()
    first = sizes.cumsum() - sizes
    middle = first + (sizes - 1) // 2
    values = pd.Series(ordered["rate"].to_numpy()[middle], sizes.index, dtype="Int64")
    return values[sizes >= FEW]


def priced_of(progress: pd.DataFrame, spans: pd.DataFrame) -> pd.DataFrame:
    """What of each progress interval is warm-up, stall, repeated and new."""
    progress = progress.assign(is_first=~progress.duplicated("att"))
    is_warm = progress["is_first"] | progress["is_resume"]
    m = usual_rates(progress)
    expected = m * progress["n"] // NANO
    excess = progress["free"] - expected
    tenth, half = expected // 10, expected // 2
    is_warmup = is_warm & ~is_compiled(progress[is_warm], spans).reindex(
        progress.index, fill_value=False
    )
    is_warmup &= (excess > m // (2 * NANO)) & (excess > tenth)
    is_stall = ~is_warm & (excess > 4 * m // NANO) & (excess > half) & (excess > 60_000)
    charged = excess.where(is_warmup.fillna(value=False) | is_stall.fillna(value=False), 0)
    charged = charged.astype("int64")
    rest = progress["free"] - charged
    again = np.maximum(np.minimum(progress["high"] - progress["p0"], progress["n"]), 0)
    repeated = again * rest // progress["n"]
    return pd.DataFrame(
        {
            "att": progress["att"],
            "first_step_warmup": charged.where(is_warm, 0),
            "stalled": charged.where(~is_warm, 0),
            "repeated_training": repeated,
            "effective_training": rest - repeated,
        }
    )


def is_compiled(warm: pd.DataFrame, spans: pd.DataFrame) -> pd.Series:
    """Does a compile phase overlap the interval?"""
    compiles = spans.loc[spans["phase"] == "compile", ["att", "t_begin", "t_end"]]
    both = warm[["att", "t0", "t1"]].reset_index().merge(compiles, on="att")
    hit = both.loc[(both["t_begin"] < both["t1"]) & (both["t_end"] > both["t0"]), "index"]
    return pd.Series(warm.index.isin(hit), warm.index)


def summed(
    attempts: pd.DataFrame,
    covers: pd.DataFrame,
    marks: pd.DataFrame,
    pairs: pd.DataFrame,
    priced: pd.DataFrame,
) -> pd.Series:
    """Milliseconds by job and component: phases, progress, restarts, edges, gaps."""
    idle = pairs[~pairs["is_progress"]]
    progress = (
        priced.groupby("att").sum().melt(var_name="component", value_name="ms", ignore_index=False)
    )
    parts = [
        covers[["att", "ms"]].assign(component=covers["phase"]),
        progress.reset_index(),
        pd.DataFrame(
            {
                "att": idle["att"],
                "ms": idle["free"],
                "component": np.where(idle["is_gap"], "restart_gap", "unattributed"),
            }
        ),
        *edges_of(attempts, covers, marks),
        gaps_of(attempts),
    ]
    every = pd.concat(parts, ignore_index=True)
    every = every[every["ms"] > 0].merge(attempts[["att", "job_id"]], on="att")
    return every.groupby(["job_id", "component"])["ms"].sum()


def edges_of(
    attempts: pd.DataFrame, covers: pd.DataFrame, marks: pd.DataFrame
) -> list[pd.DataFrame]:
    """Free time before an attempt's first mark, and after its last."""
    known = attempts.set_index("att")
    f_end = known["t_end"] - covers.groupby("att")["ms"].sum().reindex(known.index, fill_value=0)
    ends = marks.groupby("att")["f"].agg(["first", "last"]).reindex(known.index)
    before = ends["first"].fillna(f_end) - known["t_begin"]
    after = (f_end - ends["last"]).dropna()
    outcome = known["outcome"].reindex(after.index)
    names = np.select(
        [outcome.isin(FAILED), outcome.isin(ENDED)],
        ["failure_detection", "teardown"],
        "unattributed",
    )
    return [
        pd.DataFrame(
            {"att": before.index, "ms": before.astype("int64"), "component": "unattributed"}
        ),
        pd.DataFrame({"att": after.index, "ms": after.astype("int64"), "component": names}),
    ]


def gaps_of(attempts: pd.DataFrame) -> pd.DataFrame:
    """Between attempts: with the accelerators kept, or waiting for others."""
    later = attempts.groupby("job")[["t_begin", "is_held"]].shift(-1)
    has_next = later["t_begin"].notna()
    gaps = attempts[has_next]
    return pd.DataFrame(
        {
            "att": gaps["att"],
            "ms": (later["t_begin"][has_next] - gaps["t_end"]).astype("int64"),
            "component": np.where(
                later["is_held"][has_next].astype(bool), "restart_gap", "requeue_wait"
            ),
        }
    )


if __name__ == "__main__":
    main()
