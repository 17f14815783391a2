"""The walk logbook -> timeline -> ledger -> scorecard -> charges: the pure steps, composed.

`keep(name, frame)` writes an intermediate and gives it back to be read: engines compute a shared
subplan again each time, and long plans overwhelm them, so each step that is used twice is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.attribution import charges as charging
from pipelines.attribution import interruptions as striking
from pipelines.errors import ConservationError
from pipelines.ingest import coverage, reading, trust
from pipelines.ingest.settings import Sources
from pipelines.intervals import union
from pipelines.metrics import attempts as enveloping
from pipelines.metrics import facts as telling
from pipelines.metrics import ledger as booking
from pipelines.metrics import marks as marking
from pipelines.metrics import phases as phasing
from pipelines.metrics import placing, speed, stages
from pipelines.metrics import scorecard as scoring
from pipelines.taxonomy import DEFAULT, Taxonomy

Keep = Callable[[str, DataFrame], DataFrame]
Frames = dict[str, DataFrame]
_SEVERAL = 2


@dataclass(frozen=True)
class Settings:
    """What a computation depends on besides the logbook."""

    as_of_ms: int
    dead_after_ms: int = 1_800_000
    taxonomy: Taxonomy = field(default=DEFAULT)
    sources: Sources = field(default_factory=Sources)


def logbook(files: DataFrame, settings: Settings, keep: Keep) -> Frames:
    """Read raw files (`reading.FILES_DDL`) into the logbook's tables."""
    records = keep("records", reading.read(files, settings.taxonomy, settings.sources))
    return {
        tables.LOGBOOK_EVENT.name: reading.events(records),
        tables.LOGBOOK_REJECT.name: reading.rejects(records),
        tables.LOGBOOK_FILE.name: reading.files(records),
        tables.LOGBOOK_JOIN.name: reading.joins(records),
    }


def timeline(events: DataFrame, settings: Settings, keep: Keep) -> Frames:
    """Lines to attempts, phases and progress: gaps and overlaps still visible.

    Frames: jobs, control, attempts, spans, strikes, joined (phases), covers, pairs, others, and
    what is known of the sources: covered, disagreed, uncertain.
    """
    lines = _placed(events, settings, keep)
    envelopes = keep(
        "envelopes",
        enveloping.envelopes(
            lines["marks"],
            lines["others"],
            lines["control"],
            lines["jobs"],
            as_of=settings.as_of_ms,
            dead_after=settings.dead_after_ms,
        ),
    )
    inside = marking.marks_inside(lines["marks"], envelopes)
    believed = keep("believed", marking.lowest_emitters(marking.emitters(inside)))
    spans = keep("spans", marking.mark_spans(believed))
    marks = keep(
        "believed_marks", marking.believed_marks(lines["marks"], believed, envelopes, spans)
    )
    strikes = keep("strikes", _of_attempts(lines["others"], envelopes, "interruption"))
    attempts = keep("attempts", _attempts(lines, envelopes, spans))
    phases = _phases(lines["others"], attempts, marks, strikes, settings, keep)
    position = keep("position", marking.positions(believed, marks))
    uncertain = marking.uncertain_positions(position, lines["others"], lines["jobs"])
    return {
        **lines,
        **phases,
        "uncertain": keep("uncertain", uncertain),
        "attempts": attempts,
        "spans": spans,
        "strikes": strikes,
        "pairs": keep("pairs", marking.pairs(marks, position, phases["covers"], strikes)),
        "outside": enveloping.outside_counts(attempts, lines["marks"], lines["others"]),
    }


def _phases(
    others: DataFrame,
    attempts: DataFrame,
    marks: DataFrame,
    strikes: DataFrame,
    settings: Settings,
    keep: Keep,
) -> Frames:
    paired = keep("paired", phasing.paired_spans(phasing.phase_lines(others, attempts)))
    closed = phasing.closed_spans(paired, attempts, marks, strikes)
    joined = keep("joined", phasing.joined_spans(closed))
    return {"joined": joined, "covers": keep("covers", phasing.covers(joined, settings.taxonomy))}


def _reconciled(events: DataFrame, keep: Keep) -> tuple[DataFrame, DataFrame]:
    """Events with one account of each allocation, and what was said otherwise."""
    if len(trust.roles_in(events).collect()) < _SEVERAL:
        return events, trust.no_disagreements(events)
    jobs = keep("mixed_jobs", trust.mixed_jobs(events))
    lines = keep("allocation_lines", trust.lines_of(events, jobs))
    known = keep("windows", trust.windows(lines))
    weak = keep("weak_lines", trust.fitted(lines, known))
    believed = keep("reconciled", trust.reconciled(events, jobs, lines, known, weak))
    struck = trust.fitted(trust.lines_of(events, jobs, ["interruption"]), known)
    differing = union([trust.disagreements(weak), trust.cause_disagreements(struck)])
    return believed, keep("disagreements", differing)


def _placed(events: DataFrame, settings: Settings, keep: Keep) -> Frames:
    believed, disagreed = _reconciled(events, keep)
    mark_lines, other_lines = placing.lines_until(believed, as_of=settings.as_of_ms)
    others = keep("other_lines", other_lines)
    runs = keep("runs", placing.run_starts(others))
    is_start = F.col("event") == "attempt_started"
    is_control = F.col("event").isin(*placing.OF_THE_JOB)
    control = keep("control", placing.with_run(others.where(is_control), runs))
    starts = keep("starts", placing.believed_starts(placing.with_run(others.where(is_start), runs)))
    slots = keep("slots", placing.attempt_slots(starts, runs))
    simple = keep("simple", placing.simple_jobs(slots))
    marks = keep("mark_lines", placing.place(mark_lines, slots, simple))
    rest = placing.place(others.where(~is_start & ~is_control), slots, simple)
    placed = keep("others", union([rest, starts]))
    jobs = keep("jobs", enveloping.jobs_from_lines([marks, placed, control]))
    told = placing.with_few_runs(coverage.told_lines(events, as_of=settings.as_of_ms), runs)
    return {
        "covered": keep("covered", _of_jobs(coverage.coverage(told), jobs)),
        "disagreed": keep("disagreed", _of_jobs(placing.with_run(disagreed, runs), jobs)),
        "marks": marks,
        "others": placed,
        "control": control,
        "starts": starts,
        "jobs": jobs,
    }


def _of_jobs(placed: DataFrame, jobs: DataFrame) -> DataFrame:
    """What was said of a run of a job, with the key `job` in place of its names."""
    keys = F.broadcast(jobs.select(*placing.RUN, "job"))
    return placed.join(keys, on=placing.RUN, how="inner").drop(*placing.RUN)


def _of_attempts(others: DataFrame, attempts: DataFrame, event: str) -> DataFrame:
    """Lines of one kind with the keys of their attempt."""
    keys = attempts.select(*enveloping.ATTEMPT, "job", "att")
    return (
        others.where(F.col("event") == event)
        .join(F.broadcast(keys), on=enveloping.ATTEMPT, how="inner")
        .select("job", "att", "at", "step", "cause")
    )


def _attempts(lines: Frames, envelopes: DataFrame, spans: DataFrame) -> DataFrame:
    held = enveloping.accelerators(envelopes, lines["starts"])
    outcome = enveloping.outcomes(envelopes, lines["others"], lines["control"], spans)
    return envelopes.join(held, on="att", how="inner").join(outcome, on="att", how="inner")


def ledger(events: DataFrame, settings: Settings, keep: Keep) -> Frames:
    """Events to the ledger and what hangs on it: whole jobs up to `as_of`, rows cut at midnight.

    Raises ConservationError where progress does not add up.
    """
    frames = timeline(events, settings, keep)
    frames |= _progress(frames, keep)
    frames |= _rows(frames, keep)
    _audit(frames)
    frames |= _course(frames, settings, keep)
    return frames | _published(frames, settings, keep)


def _progress(frames: Frames, keep: Keep) -> Frames:
    pairs = frames["pairs"]
    firsts = keep("firsts", speed.first_progress(pairs))
    counted = keep("counted_rates", speed.counted_rates(pairs, firsts))
    rates = keep("rates", speed.usual_rates(counted, firsts))
    judged = speed.judged(pairs.where("t0 IS NOT NULL"), rates)
    exceptions = keep("exceptions", judged.where("NOT is_plain"))
    compiles = speed.compiled(exceptions.where("is_progress AND is_warm"), frames["joined"])
    return {
        "exceptions": exceptions,
        "priced": keep("priced", speed.priced(exceptions, compiles)),
        "ends": keep(
            "ends",
            pairs.groupBy("att").agg(F.min("f1").alias("f_first"), F.max("f1").alias("f_last")),
        ),
    }


def _rows(frames: Frames, keep: Keep) -> Frames:
    attempts, covers = frames["attempts"], frames["covers"]
    clocked = keep("clocked", booking.free_clock(attempts, covers))
    plain = booking.plain_stretches(frames["exceptions"], frames["ends"])
    idle = frames["exceptions"].where("NOT is_progress")
    labelled = keep(
        "labels", booking.labels(clocked, frames["ends"], plain, frames["priced"], idle)
    )
    segments = keep("segments", booking.free_segments(clocked, covers))
    inside = booking.attempt_rows(labelled, segments, covers)
    tiled = booking.job_rows(inside, attempts, enveloping.gaps(attempts))
    rows = keep("rows", booking.with_uncertain(tiled, frames["uncertain"]))
    return {"labels": labelled, "rows": rows}


def _audit(frames: Frames) -> None:
    """Stop where progress intervals and what the ledger made of them disagree."""
    for worst in booking.progress_difference(frames["pairs"], frames["labels"]).limit(1).collect():
        [attempt] = frames["attempts"].where(F.col("att") == worst["att"]).collect()
        raise ConservationError(
            f"job {attempt['name']} in {attempt['cluster']}, attempt {attempt['attempt']}: its"
            f" progress intervals have {worst['in_pairs']} ms of free time, the ledger gave them"
            f" {worst['in_labels']} ms; nothing was published, please report this log"
        )


def _course(frames: Frames, settings: Settings, keep: Keep) -> Frames:
    attempts, spans, exceptions = frames["attempts"], frames["spans"], frames["exceptions"]
    edges = keep("edges", exceptions.where("NOT is_progress OR is_stretch_start"))
    runs = keep("stretches", stages.stretches(edges, spans))
    recovered = keep("recovered", stages.with_new_data(stages.recoveries(runs), frames["rows"]))
    miles = keep("milestones", stages.milestones(attempts, runs, edges, spans))
    struck = frames["pairs"].where("is_struck")
    groups = keep("groups", striking.groups(frames["strikes"], spans, struck))
    breaks = keep("breaks", striking.breaks(attempts, edges.where("is_gap"), spans))
    interruptions = keep(
        "interruptions",
        striking.interruptions(groups, breaks, attempts, dead_after=settings.dead_after_ms),
    )
    return {
        "recovered": recovered,
        "milestones": miles,
        "interruptions": interruptions,
        "stage_tiling": keep("stage_tiling", stages.stage_tiling(miles, recovered)),
        "cause_tiling": keep("cause_tiling", striking.cause_tiling(interruptions, miles)),
    }


def _published(frames: Frames, settings: Settings, keep: Keep) -> Frames:
    attempts, control = frames["attempts"], frames["control"]
    dimensions = enveloping.dimensions(frames["starts"], control)
    named = keep("named", telling.named_jobs(frames["jobs"], dimensions))
    pieces = keep(
        "pieces", booking.pieces(frames["rows"], frames["stage_tiling"], frames["cause_tiling"])
    )
    durable = _of_attempts(frames["others"], attempts, "checkpoint_durable")
    tails = telling.lost_tails(frames["milestones"], durable, frames["pairs"], frames["priced"])
    queues = enveloping.queues(attempts, control, frames["jobs"], as_of=settings.as_of_ms)
    told_by = coverage.summary(frames["covered"])
    whole = {"named": named, "pieces": pieces, "lost_tails": tails, "queues": queues}
    whole |= {"told_by": told_by}
    facts = keep("job_facts", telling.job_facts(frames | whole))
    told = _tables(frames | whole, keep)
    days = keep("job_days", telling.job_days(told[tables.LEDGER_INTERVAL.name], facts))
    return whole | told | {"job_facts": facts, "job_days": days}


def _tables(frames: Frames, keep: Keep) -> Frames:
    """The tables that are rows of one kind of thing each, not sums."""
    attempts, named, struck = frames["attempts"], frames["named"], frames["interruptions"]
    rows = {
        tables.LEDGER_INTERVAL: telling.interval_rows(frames["pieces"], named),
        tables.TIMELINE_ATTEMPT: telling.attempt_rows(
            attempts, frames["spans"], frames["outside"], named
        ),
        tables.TIMELINE_PHASE: telling.phase_rows(frames["joined"], attempts, named),
        tables.SCORECARD_RECOVERY: telling.recovery_rows(
            frames["recovered"], struck, attempts, named
        ),
        tables.SCORECARD_INTERRUPTION: telling.interruption_rows(struck, attempts, named),
        tables.SCORECARD_JOB_SOURCE: telling.source_rows(frames["covered"], named),
        tables.SCORECARD_DISAGREEMENT: telling.disagreement_rows(frames["disagreed"], named),
    }
    return {table.name: keep(table.name, frame) for table, frame in rows.items()}


def scorecard(ledger: Frames, settings: Settings) -> Frames:
    """Every scorecard table, from the frames of `ledger`."""
    del settings
    return scoring.scorecards(ledger)


def charges(ledger: Frames, settings: Settings) -> Frames:
    """Both charge tables, from the frames of `ledger`."""
    intervals = ledger[tables.LEDGER_INTERVAL.name]
    return {
        tables.CHARGES_OWNER_COMPONENT.name: charging.by_owner(intervals, settings.taxonomy),
        tables.CHARGES_CAUSE.name: charging.by_cause(intervals, settings.taxonomy),
    }
