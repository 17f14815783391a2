"""What a page knows of one job: its figure and its tables, cut from the published frames."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from dashboards import format as words
from dashboards import listings
from dashboards.columns import Columns, Rows, plain
from dashboards.figures import attempts_spec
from dashboards.period import JOB, ratio
from dashboards.published import Published, latest
from pipelines import tables
from pipelines.taxonomy import DEFAULT, EFFECTIVE, Stage, Taxonomy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from pipelines.tables import Table

MOST_INTERVALS = 2_000

_FLAGS = {
    "is_censored": "Still running when this was computed: its figures will change.",
    "is_presumed_dead": "Presumed dead: it fell silent, and its last event was taken as its end.",
    "is_clock_conflict": "Clock conflict: an attempt started before the one before it ended, "
    "which was cut.",
    "is_position_uncertain": "Its world size changed and only steps are counted: what was trained "
    "again is an estimate.",
}
_CHARGED = ["component", "cluster", "model", "team"]
_ATTEMPT = [*JOB, "attempt"]
_INTERVAL = [
    *JOB, "attempt", "started_at", "duration_ms", "component", "stage", "gpus", "gpu_ms",
    "is_inferred", "cause", "gating_rank", "model", "team",
]  # fmt: skip


@dataclass(frozen=True)
class JobBook:
    """Every job's rows in the days shown."""

    intervals: Rows
    attempts: Rows
    recoveries: Rows
    interruptions: Rows
    hidden: Rows
    sources: Rows
    disagreements: Rows
    owners: dict[tuple[Any, ...], str]
    first_day: date


def read_jobs(published: Published, days: Sequence[date]) -> JobBook:
    """Read what `details` needs, of `days` only."""

    def rows(table: Table, columns: Sequence[str], order: str) -> Rows:
        return Rows(published.read(table, columns, days), JOB, order)

    phases = published.read(
        tables.TIMELINE_PHASE,
        [*_ATTEMPT, "component", "started_at", "duration_ms", "is_blocking"],
        days,
    )
    recoveries = [*JOB, *listings.JOB_RECOVERIES.names]
    struck = [*JOB, *listings.JOB_INTERRUPTIONS.names]
    return JobBook(
        intervals=rows(tables.LEDGER_INTERVAL, _INTERVAL, "started_at"),
        attempts=Rows(_attempts(published, days), JOB, "attempt"),
        recoveries=rows(tables.SCORECARD_RECOVERY, recoveries, "started_at"),
        interruptions=rows(tables.SCORECARD_INTERRUPTION, struck, "began_at"),
        hidden=Rows(phases[~phases["is_blocking"].astype(bool)], JOB, "component", "started_at"),
        sources=Rows(_sources(published, days), JOB, "source"),
        disagreements=Rows(_disagreements(published, days), JOB, "field", "source"),
        owners=_owners(published, days),
        first_day=min(days),
    )


def _attempts(published: Published, days: Sequence[date]) -> pd.DataFrame:
    """A row per attempt: what the timeline says of it, and its scorecard."""
    told = published.read(
        tables.TIMELINE_ATTEMPT,
        ["ds", *_ATTEMPT, "started_at", "gpus", "is_held", "outcome", "end_kind",
         "is_censored", "outside_line_count"],
        days,
    )  # fmt: skip
    scored = published.read(
        tables.SCORECARD_ATTEMPT, ["ds", *_ATTEMPT, "wall_ms", "ett_ratio", "repeated_ms"], days
    )
    return latest(told, _ATTEMPT).merge(
        latest(scored, _ATTEMPT).drop(columns="ds"), on=_ATTEMPT, how="left", validate="one_to_one"
    )


def _sources(published: Published, days: Sequence[date]) -> pd.DataFrame:
    """A row per job and source of it: the days' events, and all the kinds that it told of."""
    names = [*JOB, *listings.JOB_SOURCES.names]
    rows = published.read_if_there(tables.SCORECARD_JOB_SOURCE, names, days)
    key, words = [*JOB, "source"], defaultdict[tuple[str, ...], set[str]](set)
    for cluster, job_id, source, told in rows[[*key, "told"]].itertuples(index=False):
        words[cluster, job_id, source].update(told.split(", "))
    sums = rows.groupby(key, as_index=False).agg(
        event_count=("event_count", "sum"),
        first_event_at=("first_event_at", "min"),
        last_event_at=("last_event_at", "max"),
    )
    owners = sums[key].itertuples(index=False, name=None)
    return sums.assign(told=[", ".join(sorted(words[owner])) for owner in owners])


def _disagreements(published: Published, days: Sequence[date]) -> pd.DataFrame:
    """A row per job and what two sources said differently: how often, and one of the cases."""
    names = [*JOB, *listings.JOB_DISAGREEMENTS.names]
    rows = published.read_if_there(tables.SCORECARD_DISAGREEMENT, names, days)
    return rows.groupby([*JOB, "field", "source", "other_source"], as_index=False).agg(
        believed=("believed", "first"),
        other=("other", "first"),
        difference_count=("difference_count", "sum"),
        largest_difference_ms=("largest_difference_ms", "max"),
    )


def _owners(published: Published, days: Sequence[date]) -> dict[tuple[Any, ...], str]:
    """Who was charged for a component of a job of this cluster, model and team."""
    table = tables.CHARGES_OWNER_COMPONENT
    charges = plain(published.read(table, [*_CHARGED, "owner"], days).drop_duplicates())
    keys = zip(*(charges[name] for name in _CHARGED), strict=True)
    return dict(zip(keys, charges["owner"], strict=True))


def details(
    book: JobBook, jobs: pd.DataFrame, *, taxonomy: Taxonomy = DEFAULT
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row of `jobs` (a `Period.jobs`) by its position, with its detail as plain data.

    They come in the order of their keys, so that the rows of all jobs need not be in memory.
    """
    facts = {**plain(jobs[[*JOB, *_FLAGS, "is_training_told"]]), **listings.JOB_FACTS.columns(jobs)}
    for position in jobs.reset_index(drop=True).sort_values(JOB).index.tolist():
        job = {name: column[position : position + 1] for name, column in facts.items()}
        yield position, detail(book, job, taxonomy=taxonomy)


def detail(book: JobBook, facts: Columns, *, taxonomy: Taxonomy = DEFAULT) -> dict[str, Any]:
    """One job: `figure` (or None where it never started), `tables` by listing, `notes`, `left_out`.

    `stages` has the wall time and the GPU time of each, in ms, of the days shown; where training is
    not told (`is_told` False), what of it was effective is unknown. `facts` has the job's one row
    of `scorecard__job`.
    """
    key = (facts["cluster"][0], facts["job_id"][0])
    intervals, is_told = book.intervals[key], facts["is_training_told"][0]
    told = {
        "attempts": _if_told(book.attempts[key], is_told=is_told),
        "recoveries": book.recoveries[key],
        "interruptions": book.interruptions[key],
    }
    figure = None
    if intervals["started_at"]:
        figure = attempts_spec(intervals, **told, hidden=book.hidden[key], taxonomy=taxonomy)
    listed, left_out = longest(intervals)
    return {
        "figure": figure,
        "notes": _notes(facts, book.first_day, intervals),
        "left_out": left_out,
        "stages": _stages(intervals),
        "is_told": is_told,
        "tables": {
            "facts": listings.JOB_FACTS.pick(facts),
            "components": listings.JOB_COMPONENTS.pick(_components(intervals, book.owners)),
            "attempts": listings.JOB_ATTEMPTS.pick(told["attempts"]),
            "recoveries": listings.JOB_RECOVERIES.pick(told["recoveries"]),
            "interruptions": listings.JOB_INTERRUPTIONS.pick(told["interruptions"]),
            "sources": listings.JOB_SOURCES.pick(book.sources[key]),
            "disagreements": listings.JOB_DISAGREEMENTS.pick(book.disagreements[key]),
            "intervals": listings.JOB_INTERVALS.pick(listed),
        },
    }


def _if_told(attempts: Columns, *, is_told: bool) -> Columns:
    """The attempts; where no source tells of their training, ETT and repeated work are unknown."""
    count = len(attempts["attempt"])
    if is_told:
        return attempts | {"untold_ms": [0] * count}
    unknown = [None] * count
    return attempts | {
        "ett_ratio": unknown,
        "repeated_ms": unknown,
        "untold_ms": attempts["wall_ms"],
    }


def longest(intervals: Columns) -> tuple[Columns, list[str]]:
    """The `MOST_INTERVALS` longest rows in time order, and what was left out, in words."""
    lasted = intervals["duration_ms"]
    if len(lasted) <= MOST_INTERVALS:
        return intervals, []
    by_length = sorted(range(len(lasted)), key=lambda row: -lasted[row])
    kept = sorted(by_length[:MOST_INTERVALS])
    rest_ms = sum(lasted) - sum(lasted[row] for row in kept)
    return {name: [column[row] for row in kept] for name, column in intervals.items()}, [
        (
            f"These are the {MOST_INTERVALS:,} longest of {len(lasted):,} rows; the "
            f"others, {words.duration(rest_ms)} together, are in the table ledger__interval."
        )
    ]


def _stages(intervals: Columns) -> dict[str, list[int]]:
    """The wall and the GPU time of each stage."""
    sums = {stage.value: [0, 0] for stage in Stage}
    spent = zip(intervals["stage"], intervals["duration_ms"], intervals["gpu_ms"], strict=True)
    for stage, ms, gpu_ms in spent:
        sums[stage][0] += ms
        sums[stage][1] += gpu_ms
    return sums


def _components(intervals: Columns, owners: dict[tuple[Any, ...], str]) -> Columns:
    """Sum the job's rows by component, the longest first, with the owner charged for it."""
    sums: dict[tuple[Any, ...], tuple[int, int]] = {}
    names = zip(*(intervals[name] for name in _CHARGED), strict=True)
    for name, ms, gpu_ms in zip(names, intervals["duration_ms"], intervals["gpu_ms"], strict=True):
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + ms, before[1] + gpu_ms)
    ranked = sorted(sums, key=lambda name: (-sums[name][0], name[0]))
    whole = sum(intervals["duration_ms"])
    return {
        "component": [name[0] for name in ranked],
        "owner": [owners.get(name) for name in ranked],
        "duration_ms": [sums[name][0] for name in ranked],
        "share_ratio": [ratio(sums[name][0], whole) for name in ranked],
        "gpu_ms": [sums[name][1] for name in ranked],
    }


def _notes(facts: Columns, first_day: date, intervals: Columns) -> list[str]:
    """What a reader must know before reading the job's bars."""
    notes = []
    began = facts["started_at"][0]
    first_ms = int(datetime.combine(first_day, time(), UTC).timestamp() * 1000)
    if began is not None and began < first_ms:
        notes.append(
            f"It started before the first day shown ({first_day}): all of this page begins there, "
            "save the facts below this line, which are of the whole job."
        )
    notes += [words for name, words in _FLAGS.items() if facts[name][0]]
    if facts["max_gpus"][0] == 0:
        notes.append(
            "No line said how many GPUs it held: it has wall time, and no GPU time. "
            "Log gpus with attempt_started."
        )
    if not intervals["component"]:
        return notes
    if not facts["is_training_told"][0]:
        notes.append(_untold(facts["sources"][0]))
    elif EFFECTIVE not in intervals["component"]:
        notes.append("It trained on no new data in the days shown.")
    return notes


def _untold(sources: str | None) -> str:
    """Why ETT is unknown, and what to do about it."""
    names = (sources or "").split(", ")
    if not sources:
        return "ETT is unknown: no source tells of its training; add the trainer's log."
    listed = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    verb = "speaks" if len(names) == 1 else "speak"
    return f"ETT is unknown: only {listed} {verb} of it; add the trainer's log."
