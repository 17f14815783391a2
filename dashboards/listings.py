"""Every table on a page, declared once: its columns, what they are called, how they are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dashboards.columns import Columns, values
from pipelines.taxonomy import Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd


@dataclass(frozen=True, slots=True)
class Field:
    """One column. `name` is the column of the data and of the CSV; `kind` says how it is shown.

    Kinds: text, id, size, count, gpus, gpu_ms, ms, exact_ms, ratio, share, points, money, at,
    exact_at, day, component, owner, model, stage, word, words, said, job, stages, flags. `rank` 1
    is shown always, 2 to 5 on wider screens only (`assets/site.css` says from where on), 0 only in
    the CSV.
    `stages` and `flags` are drawn from other columns. Where no GPU was counted, `lost_ms` stands in
    for lost GPU-hours. `untold` names the column with the time of which no source tells whether it
    was training: where there is some, a ratio is shown as a lower bound, or as unknown.
    """

    name: str
    label: str
    kind: str = "text"
    hint: str = ""
    rank: int = 1
    untold: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One table: `empty` says why it may have no row, `page` how many rows are shown at first."""

    id: str
    label: str
    fields: tuple[Field, ...]
    empty: str
    page: int = 25
    is_searchable: bool = False

    def described(self) -> dict[str, Any]:
        """The declaration as plain data for the browser."""
        return asdict(self)

    @property
    def names(self) -> list[str]:
        """The columns that it needs; drawn fields have none of their own."""
        names = [f.name for f in self.fields if f.kind not in DRAWN]
        return list(dict.fromkeys([*names, *(f.untold for f in self.fields if f.untold)]))

    def columns(self, frame: pd.DataFrame) -> Columns:
        """What it needs of a frame."""
        return {name: values(frame[name]) for name in self.names}

    def pick(self, columns: Columns) -> Columns:
        """What it needs of plain columns."""
        return {name: columns[name] for name in self.names}


DRAWN = ("stages", "flags")

_LOST = Field("lost_gpu_ms", "Lost GPU-hours", "gpu_ms", "GPU time held that trained nothing new.")
_COST = Field(
    "lost_cost", "Cost", "money", "Price of the lost GPU time, where a price is known.", 2
)
_HELD = Field("held_gpu_ms", "Held GPU-hours", "gpu_ms", "GPU time that jobs held.", 2)
_GPU_ETT = Field(
    "gpu_ett_ratio",
    "ETT%",
    "ratio",
    "Share of the GPU time held that trained on new data.",
    untold="untold_gpu_ms",
)
_UNTOLD = "No source tells whether it was training."
_CAUSE = Field("cause", "Cause", "word")

_CHANGE = Field(
    "change_ratio",
    "Change",
    "points",
    "Of its share of the GPU time held, in points, against the days named above.",
)
_LARGEST = Field("shown_largest_loss", "Largest loss", "component", rank=2)
_STAGES = Field("shown_stages", "Time by stage", "stages", "Stages of the days shown, to scale.")
_SHOWN_ETT = Field(
    "shown_gpu_ett_ratio",
    "ETT%",
    "ratio",
    "Of the GPU time held in the days shown.",
    untold="shown_untold_gpu_ms",
)
_SHOWN_LOST = Field("shown_lost_gpu_ms", "Lost GPU-hours", "gpu_ms", "In the days shown.")
_SHOWN_LOST_MS = Field("shown_lost_ms", "Lost wall time", "ms", "In the days shown.", 0)
_SHOWN_COST = Field("shown_lost_cost", "Cost", "money", "Price of it, where a price is known.", 2)
_SHOWN_SUMS = (
    *(Field(f"shown_{s.value}_gpu_ms", s.label, "gpu_ms", rank=0) for s in Stage),
    *(Field(f"shown_{s.value}_ms", s.label, "ms", rank=0) for s in Stage),
    Field("shown_untold_gpu_ms", "Untold", "gpu_ms", _UNTOLD, 0),
    Field("shown_untold_ms", "Untold", "ms", _UNTOLD, 0),
)

DAYS = Listing(
    "days",
    "ETT% over time",
    (
        Field("ds", "From (UTC)", "day", "Shows these days alone."),
        _GPU_ETT,
        Field(
            "ett_ratio",
            "ETT% by wall time",
            "ratio",
            "Each job counts by its hours.",
            2,
            "untold_ms",
        ),
        _HELD,
        _LOST,
        _COST,
        *(
            Field(f"{s.value}_gpu_ms", f"{s.label}, GPU-hours", "gpu_ms", rank=2)
            for s in Stage
            if s is not Stage.EFFECTIVE
        ),
        Field("effective_gpu_ms", "Effective, GPU-hours", "gpu_ms", rank=0),
        Field("wall_ms", "Wall time", "ms", rank=0),
        Field("effective_ms", "Effective wall time", "ms", rank=0),
        Field("untold_gpu_ms", "Untold, GPU-hours", "gpu_ms", _UNTOLD, 0),
        Field("untold_ms", "Untold wall time", "ms", _UNTOLD, 0),
        Field("note", "Note", "flags"),
        Field("last_ds", "To", rank=0),
        Field("is_provisional", "Provisional", "text", rank=0),
    ),
    "No day of this choice has any time of a job: widen the filters above.",
    31,
)
LOSS_DAYS = Listing(
    "loss_days",
    "Loss over time",
    (
        Field("ds", "From (UTC)", "day", "Shows these days alone."),
        Field("lost_share_ratio", "Share of GPU time held", "ratio"),
        _LOST,
        _COST,
        _HELD,
        Field("note", "Note", "flags"),
        Field("last_ds", "To", rank=0),
    ),
    "No day of this choice has any time of a job: widen the filters above.",
    31,
)
RANKING = Listing(
    "ranking",
    "Overhead sources",
    (
        Field("component", "Source", "component", "Opens the page of this source."),
        Field("owner", "Owner", "owner", "Opens the page of this owner."),
        _LOST,
        Field("share_ratio", "Share of loss", "share", rank=2),
        replace(_CHANGE, rank=2),
        _COST,
        Field("lost_ms", "Lost wall time", "ms", "Also time without GPUs, such as a queue.", 4),
        Field("priced_gpu_ms", "Priced GPU time", "gpu_ms", rank=0),
    ),
    "Nothing was lost in this choice of days and jobs.",
    40,
)
OWNERS = Listing(
    "owners",
    "Owners",
    (
        Field("owner", "Owner", "owner", "Opens the page of this owner."),
        _LOST,
        Field("share_ratio", "Share of loss", "share"),
        _CHANGE,
        _COST,
        Field("component", "Largest source", "component", rank=2),
        Field("lost_ms", "Lost wall time", "ms", rank=0),
        Field("priced_gpu_ms", "Priced GPU time", "gpu_ms", rank=0),
    ),
    "Nothing was lost in this choice of days and jobs, so nobody owns a loss.",
    40,
)
MODELS = Listing(
    "models",
    "Models",
    (
        Field("model", "Model", "model", "Opens the page of this model."),
        Field("job_count", "Jobs", "count", rank=2),
        _STAGES,
        _SHOWN_ETT,
        _SHOWN_LOST,
        _SHOWN_LOST_MS,
        _SHOWN_COST,
        _LARGEST,
        *_SHOWN_SUMS,
    ),
    "No job of this choice has any time in these days: widen the filters above.",
    15,
    is_searchable=True,
)
JOBS = Listing(
    "jobs",
    "Jobs",
    (
        Field("job_id", "Job", "job", "Opens the job."),
        Field("cluster", "Cluster", rank=4),
        Field("model", "Model", "model", rank=2),
        Field("team", "Team", rank=4),
        Field("max_gpus", "GPUs", "gpus", "Most GPUs held by an attempt.", 2),
        _STAGES,
        _SHOWN_ETT,
        _SHOWN_LOST,
        _SHOWN_LOST_MS,
        _SHOWN_COST,
        _LARGEST,
        Field("attempt_count", "Attempts", "count", rank=5),
        Field(
            "failure_count",
            "Failures (NoF)",
            "count",
            "Interruptions that the infrastructure caused, not the job or its people.",
            3,
        ),
        Field("outcome", "Outcome", "word", rank=3),
        Field("started_at", "Started (UTC)", "at", rank=5),
        Field("wall_ms", "Wall time", "ms", "Of the whole job, as known now.", 5),
        Field("flags", "Notes", "flags", rank=3),
        *_SHOWN_SUMS,
        Field("is_censored", "Still running", rank=0),
        Field("is_presumed_dead", "Presumed dead", rank=0),
        Field("is_clock_conflict", "Clock conflict", rank=0),
        Field("is_position_uncertain", "Position uncertain", rank=0),
        Field("is_training_told", "Training told", rank=0),
    ),
    "No job of this choice lost any time in these days: widen the filters above.",
    25,
    is_searchable=True,
)
TTR = Listing(
    "ttr",
    "Recoveries by length",
    (
        Field("length", "Took"),
        Field("recovery_count", "Recoveries", "count"),
        Field("share_ratio", "Share", "share"),
    ),
    "No recovery was completed in this choice of days and jobs.",
    20,
)
TTR_CAUSES = Listing(
    "ttr_causes",
    "Time to recover by cause",
    (
        Field("cause", "Cause", "word"),
        Field("recovery_count", "Recoveries", "count"),
        Field("p50_ms", "TTR p50", "ms", "Half took longer."),
        Field("p95_ms", "TTR p95", "ms", "One in twenty took longer."),
        Field("ttr_ms", "In all", "ms", rank=2),
    ),
    "No recovery was completed in this choice of days and jobs.",
    20,
)
CAUSES = Listing(
    "causes",
    "Interruptions by cause",
    (
        Field("cause", "Cause", "word"),
        Field("interruption_count", "Interruptions", "count"),
        Field(
            "failure_count",
            "Failures (NoF)",
            "count",
            "Those that the infrastructure caused.",
        ),
        Field("job_count", "Jobs struck", "count", rank=2),
        Field("lost_gpu_ms", "Lost GPU-hours", "gpu_ms", "Loss charged to this cause."),
        Field("lost_ms", "Lost wall time", "ms", rank=2),
    ),
    "No job was interrupted in this choice of days and jobs.",
    20,
)
SPREAD = Listing(
    "spread",
    "Time per attempt by model and size",
    (
        Field("model", "Model", "model"),
        Field("size", "GPUs", "size", "Most GPUs held by an attempt of the job."),
        Field("attempt_count", "Attempts", "count", rank=2),
        Field("p50_ms", "p50", "ms", "Half the attempts took longer."),
        Field("p95_ms", "p95", "ms", "One attempt in twenty took longer."),
        Field("max_ms", "Longest", "ms", rank=2),
        Field("duration_ms", "In all", "ms", rank=2),
    ),
    "No attempt of this choice spent any time on it.",
    20,
    is_searchable=True,
)
FILES = Listing(
    "files",
    "Files that need a look",
    (
        Field("source_file", "File"),
        Field("source", "Read as"),
        Field("reject_count", "Rejected lines", "count"),
        Field("line_count", "Lines", "count", rank=2),
        Field("note", "What is odd about it"),
        Field("event_line_count", "Lines that told something", "count", rank=0),
        Field("ignored_count", "Ignored lines", "count", rank=0),
        Field("event_count", "Events", "count", rank=0),
    ),
    "Every file was read without a reject and without anything odd.",
    10,
)
REJECTS = Listing(
    "rejects",
    "Rejected lines",
    (
        Field("source_file", "File"),
        Field("source_line", "Line", "count"),
        Field("reason", "Reason and fix"),
        Field("excerpt", "Line as found", rank=2),
    ),
    "No line was rejected.",
    10,
)
JOINS = Listing(
    "joins",
    "Names that did not join",
    (
        Field("source_file", "File"),
        Field("source", "Read as", rank=2),
        Field("own_id", "Its own name for the job"),
        Field("reason", "Reason and fix"),
        Field("cluster", "Cluster", rank=0),
        Field("job_id", "Job that it became", rank=0),
    ),
    "Every name joined, or the site declares no rule for joins.",
    10,
)
JOB_FACTS = Listing(
    "facts",
    "The whole job",
    (
        Field("gpu_ett_ratio", "ETT% by GPU time", "ratio", untold="untold_gpu_ms"),
        Field("ett_ratio", "ETT% by wall time", "ratio", untold="untold_ms"),
        Field("wall_ms", "Wall time", "ms"),
        Field("tts_ms", "Time to start (TTS)", "ms"),
        Field("attempt_count", "Attempts", "count"),
        Field("failure_count", "Failures of infrastructure (NoF)", "count"),
        Field("outcome", "Outcome", "word"),
        Field("max_gpus", "GPUs, at most", "gpus"),
        Field("model", "Model", "model"),
        Field("team", "Team"),
        Field("cluster", "Cluster"),
        Field("priority", "Priority"),
        Field("started_at", "Started (UTC)", "at"),
        Field("ended_at", "Ended (UTC)", "at"),
        Field("queue_wait_ms", "Waited in the queue before", "ms"),
        Field("hidden_ms", "Hidden beside training", "ms"),
        Field("lost_tail_ms", "Lost after the last checkpoint", "ms"),
        Field("sources", "Told by"),
    ),
    "",
)
JOB_COMPONENTS = Listing(
    "components",
    "Where its time went",
    (
        Field("component", "Component", "component"),
        Field("owner", "Owner", "owner"),
        Field("duration_ms", "Wall time", "ms"),
        Field("share_ratio", "Share", "share", rank=2),
        Field("gpu_ms", "GPU-hours", "gpu_ms", rank=2),
    ),
    "It never started: no time has been accounted for in the days shown.",
    40,
)
JOB_ATTEMPTS = Listing(
    "attempts",
    "Attempts",
    (
        Field("attempt", "Attempt", "id"),
        Field("outcome", "Outcome", "word"),
        Field("started_at", "Started (UTC)", "exact_at", rank=2),
        Field("wall_ms", "Wall time", "ms"),
        Field("gpus", "GPUs", "count", rank=2),
        Field("ett_ratio", "ETT%", "ratio", untold="untold_ms"),
        Field("repeated_ms", "Repeated", "ms", "Training on data of an attempt before it.", 2),
        Field("end_kind", "End told by", "word", "The line that told its end.", 2),
        Field("is_held", "Kept its GPUs", "text", rank=0),
        Field(
            "outside_line_count",
            "Lines outside",
            "count",
            "Lines with this attempt's number, from before its start or after its end.",
            2,
        ),
    ),
    "It has no attempt in the days shown.",
)
JOB_RECOVERIES = Listing(
    "recoveries",
    "Recoveries",
    (
        Field("from_attempt", "From attempt", "id", rank=4),
        Field("to_attempt", "To attempt", "id"),
        Field("started_at", "Progress stopped (UTC)", "exact_at"),
        Field("ttr_ms", "Time to recover (TTR)", "ms"),
        Field("time_to_new_data_ms", "Until new data", "ms", "With the work done again.", 2),
        _CAUSE,
        Field("resumed_at", "Progress resumed", "exact_at", rank=0),
        Field("new_data_at", "New data", "exact_at", rank=0),
    ),
    "It made no recovery in the days shown: it was not interrupted, or has not trained since.",
)
JOB_INTERRUPTIONS = Listing(
    "interruptions",
    "Interruptions",
    (
        Field("began_at", "Began (UTC)", "exact_at"),
        Field("attempt", "Attempt", "id"),
        Field(
            "kind", "Kind", "word", "Ended the attempt, or made it restart inside the attempt.", 2
        ),
        _CAUSE,
        Field("is_infrastructure", "Failure (NoF)", "text", "Did the infrastructure cause it?"),
    ),
    "It was not interrupted in the days shown.",
)
JOB_SOURCES = Listing(
    "sources",
    "Who told what",
    (
        Field("source", "Source"),
        Field("told", "What it told", "words"),
        Field("event_count", "Events", "count", "Duplicates included."),
        Field("first_event_at", "First (UTC)", "exact_at", rank=2),
        Field("last_event_at", "Last (UTC)", "exact_at", rank=2),
    ),
    "No source told of it in the days shown, or the warehouse is of a version that did not ask.",
)
JOB_DISAGREEMENTS = Listing(
    "disagreements",
    "Said otherwise",
    (
        Field("field", "On", "word"),
        Field("believed", "Believed", "said", "In one of the cases."),
        Field("other", "Not believed", "said", "In the same case."),
        Field("source", "Source believed", rank=0),
        Field("other_source", "Source not believed", rank=0),
        Field("difference_count", "Times", "count"),
        Field("largest_difference_ms", "Largest difference", "exact_ms", "Of instants.", 2),
    ),
    "No source said otherwise in the days shown.",
)
JOB_INTERVALS = Listing(
    "intervals",
    "Every interval",
    (
        Field("started_at", "Begin (UTC)", "exact_at"),
        Field("duration_ms", "Duration", "exact_ms"),
        Field("component", "Component", "component"),
        Field("stage", "Stage", "stage", rank=2),
        Field("attempt", "Attempt", "id", rank=2),
        Field("gpus", "GPUs", "count", rank=2),
        Field("cause", "Cause", "word", rank=2),
        Field("is_inferred", "Inferred", "text", rank=2),
        Field("gating_rank", "Gating rank", "count", "Rank that ended a phase last.", 2),
    ),
    "No time has been accounted for in the days shown.",
    20,
)
LISTINGS: Mapping[str, Listing] = {
    listing.id: listing
    for listing in (
        DAYS,
        LOSS_DAYS,
        RANKING,
        OWNERS,
        MODELS,
        JOBS,
        TTR,
        TTR_CAUSES,
        CAUSES,
        SPREAD,
        FILES,
        REJECTS,
        JOINS,
        JOB_FACTS,
        JOB_COMPONENTS,
        JOB_ATTEMPTS,
        JOB_RECOVERIES,
        JOB_INTERRUPTIONS,
        JOB_SOURCES,
        JOB_DISAGREEMENTS,
        JOB_INTERVALS,
    )
}


def described(listings: Sequence[Listing] = tuple(LISTINGS.values())) -> dict[str, Any]:
    """The declarations for the browser, by id."""
    return {listing.id: listing.described() for listing in listings}
