"""Simulate a fleet: its intents, job after job, into log files and the true ledger beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from pipelines.errors import UsageError
from simulator.budget import Budget, Expectation, expect, log_interval, plan_budget, usual_lines
from simulator.course import Course
from simulator.formats.joined import JoinedLogs
from simulator.intents import DAY_MS, Intent, intent
from simulator.publishing import Publishing
from simulator.scenario import Scenario, Workload, scenario_named
from simulator.truth import JobTruth, TruthWriter
from simulator.writers import LifecycleLogs, Logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

_DEFAULT_JOBS = 200
_SAMPLED = 128
_ASKED_WITHIN_MS = (1_000, 600_000)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written: `jobs` (publishing jobs included), `events` (lines), `files`, `bytes`."""

    jobs: int
    events: int
    files: int
    bytes: int
    as_of_ms: int
    truth_path: Path


def simulate(  # noqa: PLR0913 - each argument is a choice of its own, all but one by name
    scenario: Scenario | str,
    *,
    out: Path,
    jobs: int | None = None,
    events: int | None = None,
    days: int,
    start: datetime,
    seed: int,
    compress: bool = False,
    is_joined: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Simulate `days` of a fleet from `start` and write its logs and its true ledger.

    Writes `out/raw/**.jsonl` (`.jsonl.gz` where `compress`), `out/truth/intervals.parquet`,
    `out/truth/jobs.parquet` and `out/simulation.json`. `jobs`: training jobs wanted. `events`:
    lines wanted, kept to within 5 % by the log intervals, and by the number of jobs where that is
    left open. `progress` is told the lines written so far. The same arguments give the same bytes.

    `is_joined`: the same fleet in the logs that sites really have, in place of lifecycle events:
    Slurm accounting, Kubernetes objects, and the output of launchers and trainers, with the
    `out/site.yaml` that joins them (docs/simulator.md). `events` stays the number of lifecycle
    events, so that the courses are the same.

    Raises UsageError for an unknown scenario, a start without a zone, a folder that already holds
    logs, or numbers that cannot be met.
    """
    chosen = scenario_named(scenario) if isinstance(scenario, str) else scenario
    plan = _plan(chosen, jobs=jobs, events=events, days=days, start=start, seed=seed)
    raw = _empty_folder(out / "raw")
    truth_path = out / "truth"
    total_jobs = total_events = 0
    logs: Logs = LifecycleLogs(raw, plan.as_of_ms, is_compressed=compress)
    if is_joined:
        logs = JoinedLogs(out, plan.as_of_ms, is_compressed=compress)
    with TruthWriter(truth_path) as truths, logs:
        for truth, lines in _courses(chosen, plan, logs):
            truths.add(truth)
            total_jobs, total_events = total_jobs + 1, total_events + lines
            if progress is not None:
                progress(total_events)
    summary = Summary(
        total_jobs, total_events, logs.file_count, logs.byte_count, plan.as_of_ms, truth_path
    )
    _describe(out / "simulation.json", chosen, plan, summary)
    return summary


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fleet to simulate; `budget` where a number of lines is wanted."""

    seed: int
    jobs: int
    start_ms: int
    days: int
    budget: Budget | None = None

    @property
    def as_of_ms(self) -> int:
        """The end of the simulated time."""
        return self.start_ms + self.days * DAY_MS

    def intents(self, workload: Workload) -> Iterator[Intent]:
        """The training jobs, in the order of the budget."""
        for index in self.budget.order if self.budget else range(self.jobs):
            yield intent(
                workload, seed=self.seed, index=index, start_ms=self.start_ms, days=self.days
            )

    def expectations(self, scenario: Scenario) -> Iterator[tuple[Intent, Expectation]]:
        """The training jobs and what each is likely to write."""
        for one in self.intents(scenario.workload):
            yield one, expect(scenario, one, self.as_of_ms)


def _plan(
    scenario: Scenario,
    *,
    jobs: int | None,
    events: int | None,
    days: int,
    start: datetime,
    seed: int,
) -> _Plan:
    """Check the numbers and settle those left open."""
    if start.tzinfo is None:
        raise UsageError(f"the start {start} has no zone: write {start.isoformat()}+00:00")
    for name, number in (("days", days), ("jobs", jobs), ("events", events)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is {number}: it must be at least 1")
    start_ms = round(start.timestamp() * 1000)
    plan = _Plan(seed, jobs or _DEFAULT_JOBS, start_ms, days)
    if events is None:
        return plan
    if jobs is None:
        sample = list(replace(plan, jobs=_SAMPLED).expectations(scenario))
        plan = replace(plan, jobs=max(1, round(events / usual_lines(sample))))
    return replace(plan, budget=plan_budget(events, plan.jobs, plan.expectations(scenario)))


def _courses(scenario: Scenario, plan: _Plan, logs: Logs) -> Iterator[tuple[JobTruth, int]]:
    """Every job lived: its truth and the lines it wrote."""
    budget = plan.budget
    for one, expected in plan.expectations(scenario):
        rng = Random(f"{plan.seed}:course:{one.index}")
        usual = budget.allow(one) if budget else log_interval(one, 1.0)
        every = max(1, int(usual + rng.random()))
        pen, book = logs.open(one, one.job_id, habits=one.habits)
        course = Course(one, scenario, pen, as_of=plan.as_of_ms, log_every=every, rng=rng)
        course.book = book
        yield logs.close(one, course.run()), pen.lines
        others = pen.lines - pen.step_lines
        if course.publish_from is not None and course.publish_from < plan.as_of_ms:
            publishing = _publishing_after(course, course.publish_from, logs)
            yield logs.close(one, publishing.run()), publishing.pen.lines
            others += publishing.pen.lines
        if budget:
            budget.spend(one, expected, (pen.step_lines, others), every)


def _publishing_after(course: Course, ready_ms: int, logs: Logs) -> Publishing:
    """The job that publishes the model of `course` some time after it is `ready_ms`."""
    one = course.intent
    pen, book = logs.open(one, f"{one.job_id}-publish")
    at = min(ready_ms + course.rng.randint(*_ASKED_WITHIN_MS), course.as_of)
    publishing = Publishing(one, course.scenario, pen, at=at, as_of=course.as_of, rng=course.rng)
    publishing.book = book
    return publishing


def _empty_folder(folder: Path) -> Path:
    """`folder`, made; logs of another simulation in it would become part of this one."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already holds logs: remove it or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _describe(path: Path, scenario: Scenario, plan: _Plan, summary: Summary) -> None:
    """Write what was simulated as JSON."""
    what = {
        "scenario": scenario.name,
        "seed": plan.seed,
        "start_ms": plan.start_ms,
        "days": plan.days,
        "as_of_ms": summary.as_of_ms,
        "training_jobs": plan.jobs,
        "jobs": summary.jobs,
        "events": summary.events,
        "files": summary.files,
        "bytes": summary.bytes,
    }
    path.write_text(json.dumps(what, indent=1) + "\n", encoding="utf-8")
