"""Every table's contract: columns, types, units, meaning, key and owner, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.errors import ContractError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` is string, long, double, boolean, date or timestamp (UTC).

    Null means unknown (or "does not apply", as `meaning` says); `is_nullable=False` is checked
    before a commit, and so is that no duration or count is negative, save where `is_signed`.
    """

    name: str
    type: str
    meaning: str
    is_nullable: bool = True
    is_signed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table: `{room}__{grain}`. With `is_daily` it is swapped day by day on column `ds`."""

    name: str
    grain: str
    owner: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_daily: bool = True

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [c.name for c in self.columns]

    def __getitem__(self, name: str) -> Column:
        """The column, or a ContractError that names the nearest one."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ContractError(f"{self.name} has no column '{name}': {nearest(name, self.names)}")

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema that files of this table have."""
        return pa.schema([pa.field(c.name, _ARROW[c.type], c.is_nullable) for c in self.columns])

    @property
    def ddl(self) -> str:
        """The schema for an engine's explicit read."""
        return ", ".join(f"`{c.name}` {_DDL.get(c.type, c.type)}" for c in self.columns)

    def select_from(self, frame: DataFrame) -> DataFrame:
        """The declared columns of `frame`, in order and cast to their types.

        Raises ContractError naming what is missing and what the frame has.
        """
        missing = [c for c in self.names if c not in frame.columns]
        if missing:
            raise ContractError(
                f"{self.name} needs {missing} and the frame has only {sorted(frame.columns)}"
            )
        return frame.selectExpr(
            *(f"CAST(`{c.name}` AS {_DDL.get(c.type, c.type)}) AS `{c.name}`" for c in self.columns)
        )

    def arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows as an Arrow table of this schema; absent keys are null."""
        return pa.Table.from_pylist(rows, schema=self.arrow_schema)


_DDL = {"long": "bigint"}


def _key(name: str, type_: str, meaning: str) -> Column:
    return Column(name, type_, meaning, is_nullable=False)


_DS = _key("ds", "date", "UTC day that the row belongs to.")
_CLUSTER = _key("cluster", "string", "Cluster of the job; `default` where none was said.")
_JOB = _key("job_id", "string", "Job; a reused id's later runs are named `<job_id>#2`, `#3`, ….")
_MODEL = Column("model", "string", "Model, from the job's first line that names one.")
_TEAM = Column("team", "string", "Team, from the job's first line that names one.")
_COMPONENT = _key("component", "string", "Component key of the taxonomy.")
_STAGE = _key("stage", "string", "Stage (L1).")
_SOURCE = _key("source", "string", "Kind of source that said it.")
_FILE = _key("source_file", "string", "Path of the file, relative to the folder given.")

_WALL = _key("wall_ms", "long", "Wall time, from the first attempt's start to the last's end.")
_HELD = _key("held_gpu_ms", "long", "GPU time held: duration x accelerators held.")
_EFF = _key("effective_ms", "long", "Time spent training on new data.")
_EFF_GPU = _key("effective_gpu_ms", "long", "GPU time spent training on new data.")
_GPU_ETT = Column("gpu_ett_ratio", "double", "effective_gpu_ms / held_gpu_ms; null where 0 held.")
_ETT = Column("ett_ratio", "double", "effective_ms / wall_ms; null without wall time.")
_STAGE_SUMS = (
    _key("time_to_start_ms", "long", "Wall time before the first progress."),
    _key("time_to_recover_ms", "long", "Wall time in recoveries."),
    _key("wasted_training_ms", "long", "Wall time in the loop that trained nothing new."),
    _key("shutdown_ms", "long", "Wall time after the last progress."),
)
_STAGE_GPU_SUMS = (
    _key("time_to_start_gpu_ms", "long", "GPU time before the first progress."),
    _key("time_to_recover_gpu_ms", "long", "GPU time in recoveries."),
    _key("wasted_training_gpu_ms", "long", "GPU time in the loop that trained nothing new."),
    _key("shutdown_gpu_ms", "long", "GPU time after the last progress."),
)
_QUALITY = (
    _key("unattributed_ms", "long", "Wall time that nobody claimed."),
    _key("inferred_ms", "long", "Wall time of rows that are inferred."),
    _key("repeated_ms", "long", "Wall time of training done again."),
)
_SUMS = (_WALL, _HELD, _EFF, _EFF_GPU, *_STAGE_SUMS, *_STAGE_GPU_SUMS, *_QUALITY)
ADDITIVE = _SUMS
_UNTOLD = (
    _key("untold_ms", "long", "Wall time of jobs of whose training no source tells."),
    _key("untold_gpu_ms", "long", "GPU time of jobs of whose training no source tells."),
)
UNTOLD = _UNTOLD
_COUNTS = (
    *_UNTOLD,
    _key("job_count", "long", "Jobs with wall time in it."),
    _key("censored_count", "long", "Jobs still running at `as_of`."),
)

LOGBOOK_EVENT = Table(
    "logbook__event",
    "one row per event read, duplicates included",
    "observability",
    (
        _DS,
        _CLUSTER,
        _key("job_id", "string", "Job id as the log says it."),
        _key("event_at", "timestamp", "When it happened, by the emitter's clock."),
        _key("event", "string", "Kind: job_submitted … job_finished; `alive`: seen running."),
        Column("attempt", "long", "Attempt number as the log says it."),
        Column("rank", "long", "Rank that emitted it; null: the job as a whole."),
        Column("host", "string", "Host that emitted it."),
        Column("step", "long", "Global optimiser step."),
        Column("samples", "long", "Cumulative training samples."),
        Column("phase", "string", "Component key claimed by a phase line."),
        Column("span_id", "string", "Pairs a begin with its end."),
        Column("is_blocking", "boolean", "Did the phase hold something up? Null: not said."),
        Column("gpus", "long", "Accelerators held, on attempt_started."),
        Column("is_held", "boolean", "Was the allocation kept? Null: not said."),
        Column("outcome", "string", "Outcome; words outside the list are `unknown`."),
        Column("cause", "string", "Cause; words outside the list are `unknown`."),
        _MODEL,
        _TEAM,
        Column("priority", "string", "Priority of the job."),
        Column("attrs", "string", "Everything else, as a JSON object of strings, keys sorted."),
        _SOURCE,
        _FILE,
        _key("source_line", "long", "Line of the file, from 1."),
    ),
    (
        "source_file",
        "source_line",
        "source",
        "event",
        "event_at",
        "cluster",
        "job_id",
        "attempt",
        "rank",
        "host",
        "step",
        "phase",
        "span_id",
        "outcome",
        "cause",
        "attrs",
    ),
)
LOGBOOK_JOB = Table(
    "logbook__job",
    "job id, on each day with a line of it: says which days a job's history lies on",
    "observability",
    (
        _DS,
        _CLUSTER,
        _key("job_id", "string", "Job id as the log says it."),
        _key("first_event_at", "timestamp", "Its first event of the day."),
        _key("last_event_at", "timestamp", "Its last event of the day."),
        _key("event_count", "long", "Its events of the day, duplicates included."),
    ),
    ("ds", "cluster", "job_id"),
)
LOGBOOK_REJECT = Table(
    "logbook__reject",
    "one row per line that could not be read",
    "observability",
    (
        _SOURCE,
        _FILE,
        _key("source_line", "long", "Line of the file, from 1."),
        _key("reason", "string", "What was found, what was expected, what to do."),
        _key("excerpt", "string", "The first 200 characters of the line."),
    ),
    ("source_file", "source_line"),
    is_daily=False,
)
LOGBOOK_FILE = Table(
    "logbook__file",
    "one row per file read",
    "observability",
    (
        _SOURCE,
        _FILE,
        _key("size_bytes", "long", "Size of the file as stored."),
        _key("modified_at", "timestamp", "Last change of the file."),
        _key("line_count", "long", "Lines read = event + reject + ignored lines."),
        _key("event_line_count", "long", "Lines that told something."),
        _key("reject_count", "long", "Lines that could not be read."),
        _key("ignored_count", "long", "Lines of no interest (blank, other loggers, settings)."),
        _key("event_count", "long", "Events made of them; one line can tell several, or a part."),
        Column("first_event_at", "timestamp", "Earliest event; null without one."),
        Column("last_event_at", "timestamp", "Latest event; null without one."),
        Column("note", "string", "What is odd about the file, in words."),
        _key("settings_print", "string", "Fingerprint of what the site said when it was read."),
    ),
    ("source_file",),
    is_daily=False,
)
LOGBOOK_JOIN = Table(
    "logbook__join",
    "one row per file, own name of a job in it, and what became of it; where the site says how",
    "observability",
    (
        _SOURCE,
        _FILE,
        _key("own_id", "string", "What the file itself calls the job."),
        _CLUSTER,
        _key("job_id", "string", "The job that its lines were taken to."),
        Column("attempt", "long", "The attempt, where a rule says it."),
        Column("rule", "string", "Which rule joined it; null: none did."),
        Column("reason", "string", "Why a declared rule did not; null: it did."),
    ),
    ("source_file", "own_id", "cluster", "job_id", "attempt"),
    is_daily=False,
)
TIMELINE_ATTEMPT = Table(
    "timeline__attempt",
    "one row per attempt, on each day it touches",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("attempt", "long", "Attempt number."),
        _key("attempt_index", "long", "Order of the attempt in its job, from 0."),
        _key("started_at", "timestamp", "Start of the attempt's wall clock."),
        _key("ended_at", "timestamp", "End of it."),
        _key("gpus", "long", "Accelerators held; 0 where never said."),
        _key("is_held", "boolean", "Was the allocation kept since the attempt before?"),
        _key("outcome", "string", "Outcome of the attempt."),
        _key("end_kind", "string", "attempt_ended, job_finished, presumed, or as_of."),
        _key("is_cut", "boolean", "Cut where its successor starts: the clocks disagree."),
        _key("is_presumed_dead", "boolean", "Last attempt, and silent for `dead_after`."),
        _key("is_censored", "boolean", "Still running at `as_of`."),
        _key(
            "outside_line_count",
            "long",
            "Lines stamped before its start or after its end; a mark line sent twice is two.",
        ),
        Column("first_mark_at", "timestamp", "First train_begin or step line."),
        Column("last_mark_at", "timestamp", "Last train_begin or step line."),
    ),
    ("ds", "cluster", "job_id", "attempt"),
)
TIMELINE_PHASE = Table(
    "timeline__phase",
    "one row per joined span of a phase inside an attempt, on each day it touches",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("attempt", "long", "Attempt number."),
        _COMPONENT,
        _key("started_at", "timestamp", "First begin, not before the attempt's start."),
        _key("ended_at", "timestamp", "Last end, not after the attempt's end."),
        _key("duration_ms", "long", "Length on this day; hidden spans take no wall time."),
        _key("is_blocking", "boolean", "False: it ran beside training (hidden)."),
        _key("is_inferred", "boolean", "Its end was never stated."),
        Column("gating_rank", "long", "Rank that ended last."),
    ),
    ("ds", "cluster", "job_id", "attempt", "component", "is_blocking", "started_at"),
)
LEDGER_INTERVAL = Table(
    "ledger__interval",
    "job x interval, cut at midnight UTC; disjoint and without a gap",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        Column("attempt", "long", "Attempt number; null between attempts."),
        _key("started_at", "timestamp", "Begin, inclusive."),
        _key("ended_at", "timestamp", "End, exclusive."),
        _key("duration_ms", "long", "ended_at - started_at."),
        _COMPONENT,
        _STAGE,
        _key("gpus", "long", "Accelerators held in it."),
        _key("gpu_ms", "long", "duration_ms x gpus."),
        _key("is_inferred", "boolean", "Concluded by a rule, not stated by a line."),
        Column("cause", "string", "Cause of the interruption that it is charged to."),
        Column("gating_rank", "long", "Rank that ended a phase last."),
        _MODEL,
        _TEAM,
    ),
    ("cluster", "job_id", "started_at"),
)
SCORECARD_JOB = Table(
    "scorecard__job",
    "job, on each day it touches; figures of the whole job as known at `as_of`",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _MODEL,
        _TEAM,
        Column("priority", "string", "Priority of the job."),
        Column("started_at", "timestamp", "Start of the first attempt; null without one."),
        Column("ended_at", "timestamp", "End of the last attempt."),
        _key("attempt_count", "long", "Attempts."),
        _key("max_gpus", "long", "Most accelerators held by an attempt."),
        Column("outcome", "string", "Outcome of the last attempt."),
        *_SUMS,
        _ETT,
        _GPU_ETT,
        Column(
            "queue_wait_ms",
            "long",
            "First start - earliest submission; may be negative.",
            is_signed=True,
        ),
        Column("tts_ms", "long", "First progress - first start; null without progress."),
        _key("interruption_count", "long", "Interruptions of every cause."),
        _key("failure_count", "long", "NoF: interruptions by the infrastructure."),
        _key("recovery_count", "long", "Completed recoveries."),
        Column("lost_tail_ms", "long", "Effective time beyond the last durable checkpoint."),
        _key("hidden_ms", "long", "Work beside training that took no wall time."),
        _key("is_censored", "boolean", "Still running at `as_of`."),
        _key("is_presumed_dead", "boolean", "Silent for `dead_after`; ended at its last event."),
        _key("is_clock_conflict", "boolean", "An attempt started before the last one ended."),
        _key(
            "is_position_uncertain",
            "boolean",
            "Its world size changed and only steps are counted: repeated work is inferred.",
        ),
        Column("sources", "string", "The kinds of source that speak of it."),
        _key("is_training_told", "boolean", "Can one of them tell of steps? If not, ETT is null."),
    ),
    ("ds", "cluster", "job_id"),
)
SCORECARD_JOB_SOURCE = Table(
    "scorecard__job_source",
    "day x job x source that speaks of it",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _SOURCE,
        _key("event_count", "long", "Its events of the day, duplicates included."),
        _key("first_event_at", "timestamp", "Its first event of the day."),
        _key("last_event_at", "timestamp", "Its last event of the day."),
        _key("told", "string", "What it told of: kinds of event, and phases by their name."),
    ),
    ("ds", "cluster", "job_id", "source"),
)
SCORECARD_DISAGREEMENT = Table(
    "scorecard__disagreement",
    "job x field x pair of sources that say it differently, on the day of the attempt",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("field", "string", "What they disagree on."),
        _SOURCE,
        _key("other_source", "string", "Kind of source that was not believed."),
        _key("difference_count", "long", "How often."),
        Column("largest_difference_ms", "long", "Of instants: the largest difference."),
        _key("believed", "string", "What the first source said, in one of the cases."),
        _key("other", "string", "What the other said, in that case."),
    ),
    ("ds", "cluster", "job_id", "field", "source", "other_source"),
)
SCORECARD_JOB_COMPONENT = Table(
    "scorecard__job_component",
    "day x job x component x stage; additive",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _MODEL,
        _TEAM,
        _COMPONENT,
        _STAGE,
        _key("duration_ms", "long", "Wall time."),
        _key("gpu_ms", "long", "GPU time."),
        _key("inferred_ms", "long", "Wall time of rows that are inferred."),
    ),
    ("ds", "cluster", "job_id", "component", "stage"),
)
SCORECARD_ATTEMPT = Table(
    "scorecard__attempt",
    "attempt, on each day it touches; figures of the whole attempt, gaps not included",
    "observability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("attempt", "long", "Attempt number."),
        _key("outcome", "string", "Outcome of the attempt."),
        *_SUMS,
        _ETT,
        _GPU_ETT,
    ),
    ("ds", "cluster", "job_id", "attempt"),
)
SCORECARD_RECOVERY = Table(
    "scorecard__recovery",
    "completed recovery, on the day it began",
    "reliability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("from_attempt", "long", "Attempt that made progress last."),
        _key("to_attempt", "long", "Attempt that made progress again."),
        _key("started_at", "timestamp", "End of the last progress before it."),
        _key("resumed_at", "timestamp", "Start of the first progress after it."),
        _key("ttr_ms", "long", "Length of the window."),
        Column("new_data_at", "timestamp", "First new data after it; null: none yet."),
        Column("time_to_new_data_ms", "long", "From its start to that; null: none yet."),
        Column("cause", "string", "Cause of the interruption that it follows."),
        _MODEL,
        _TEAM,
    ),
    ("cluster", "job_id", "started_at", "resumed_at", "from_attempt", "to_attempt"),
)
SCORECARD_INTERRUPTION = Table(
    "scorecard__interruption",
    "interruption, on the day it began",
    "reliability",
    (
        _DS,
        _CLUSTER,
        _JOB,
        _key("attempt", "long", "Attempt that it struck."),
        _key("interruption_index", "long", "Order of it in the course of its attempt, from 0."),
        _key("began_at", "timestamp", "Last mark before it, or the attempt's end without marks."),
        _key("kind", "string", "restart (inside the attempt), end, or notice (led to neither)."),
        _key("cause", "string", "Cause."),
        _key("is_infrastructure", "boolean", "Counted in NoF."),
        _MODEL,
        _TEAM,
    ),
    ("cluster", "job_id", "attempt", "interruption_index"),
)


def _rollup(name: str, grain: str, *key: Column) -> Table:
    columns = (_DS, *key, *_COUNTS, *_SUMS, _ETT, _GPU_ETT)
    return Table(name, grain, "observability", columns, ("ds", *(c.name for c in key)))


SCORECARD_MODEL = _rollup("scorecard__model", "day x cluster x model", _CLUSTER, _MODEL)
SCORECARD_TEAM = _rollup("scorecard__team", "day x cluster x team", _CLUSTER, _TEAM)
SCORECARD_DAY = _rollup("scorecard__day", "day x cluster", _CLUSTER)
SCORECARD_FLEET = _rollup("scorecard__fleet", "day; the whole fleet")
SCORECARD_COMPONENT = Table(
    "scorecard__component",
    "day x cluster x component x stage; additive",
    "observability",
    (
        _DS,
        _CLUSTER,
        _COMPONENT,
        _STAGE,
        _key("duration_ms", "long", "Wall time."),
        _key("gpu_ms", "long", "GPU time."),
        _key("inferred_ms", "long", "Wall time of rows that are inferred."),
        _key("job_count", "long", "Jobs with time in it."),
    ),
    ("ds", "cluster", "component", "stage"),
)
_LOSS = (
    _key("lost_ms", "long", "Wall time lost."),
    _key("lost_gpu_ms", "long", "GPU time lost."),
    Column("lost_cost", "double", "Its price in the site's currency; null without a price."),
)
CHARGES_OWNER_COMPONENT = Table(
    "charges__owner_component",
    "day x owner x component x cluster x model x team; sums to the ledger's loss",
    "observability",
    (
        _DS,
        _key("owner", "string", "Team that owns the loss."),
        _COMPONENT,
        _CLUSTER,
        _MODEL,
        _TEAM,
        *_LOSS,
    ),
    ("ds", "owner", "component", "cluster", "model", "team"),
)
CHARGES_CAUSE = Table(
    "charges__cause",
    "day x cause x cluster x model x team; sums to the ledger's loss",
    "reliability",
    (
        _DS,
        Column("cause", "string", "Cause; null: charged to no interruption."),
        _CLUSTER,
        _MODEL,
        _TEAM,
        *_LOSS,
    ),
    ("ds", "cause", "cluster", "model", "team"),
)
WAREHOUSE_PUBLICATION = Table(
    "warehouse__publication",
    "one row per day and run that published it",
    "observability",
    (
        _DS,
        _key("run_id", "string", "The run."),
        _key("published_at", "timestamp", "When the day was swapped."),
        _key("as_of", "timestamp", "The moment of the computation."),
        _key("engine", "string", "Engine and version."),
        _key("ettledger_version", "string", "Version of this program."),
        _key("is_provisional", "boolean", "Some job of the day was still open, or may yet be."),
        _key("job_count", "long", "Jobs with wall time on the day."),
        _key("effective_gpu_ms", "long", "As published."),
        _key("held_gpu_ms", "long", "As published."),
        _key("effective_ms", "long", "As published."),
        _key("wall_ms", "long", "As published."),
    ),
    ("ds", "run_id"),
    is_daily=False,
)
WAREHOUSE_STALE_DAY = Table(
    "warehouse__stale_day",
    "one row per day whose published figures no longer fit the logbook, until computed again",
    "observability",
    (
        _DS,
        _key("marked_at", "timestamp", "When it was found stale."),
        _key("run_id", "string", "The run that found it."),
        _key("reason", "string", "Why, in words."),
    ),
    ("ds",),
    is_daily=False,
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        LOGBOOK_EVENT,
        LOGBOOK_JOB,
        LOGBOOK_REJECT,
        LOGBOOK_FILE,
        LOGBOOK_JOIN,
        TIMELINE_ATTEMPT,
        TIMELINE_PHASE,
        LEDGER_INTERVAL,
        SCORECARD_JOB,
        SCORECARD_JOB_SOURCE,
        SCORECARD_JOB_COMPONENT,
        SCORECARD_ATTEMPT,
        SCORECARD_RECOVERY,
        SCORECARD_INTERRUPTION,
        SCORECARD_DISAGREEMENT,
        SCORECARD_MODEL,
        SCORECARD_TEAM,
        SCORECARD_DAY,
        SCORECARD_FLEET,
        SCORECARD_COMPONENT,
        CHARGES_OWNER_COMPONENT,
        CHARGES_CAUSE,
        WAREHOUSE_PUBLICATION,
        WAREHOUSE_STALE_DAY,
    )
}
