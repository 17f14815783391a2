"""A synthetic fleet as rows of logbook__event: many marks quickly, and only what is asked for.

What it exercises, and all that the hand-written contenders of the ledger have to know: numbered
attempts that say their start and end, one emitter, positions in steps or samples, blocking phases
alone or one inside another, restarts inside an attempt and between attempts (held or requeued) that
repeat work, first-step warm-up, stalls, and every outcome.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.tables import LOGBOOK_EVENT

if TYPE_CHECKING:
    from pathlib import Path

AS_OF_MS = 1_798_761_600_000  # 1 January 2027, when every job has ended
_START_MS = 1_782_864_000_000  # 1 July 2026
_START_WITHIN_MS = 10 * 86_400_000
_DAY_MS = 86_400_000
_ROWS_PER_FILE = 250_000
_USUAL_MARKS = 2_500
_LARGEST = 100  # times the usual job
_FAILURES = ("failed", "failed", "failed", "preempted", "timed_out", "succeeded")
_ENDS = ("succeeded",) * 8 + ("cancelled", "failed")
_CAUSES = ("hardware", "network", "node_lost", "storage")
_CHILDREN = ("device_init", "process_group_init", "train_module_creation", "first_batch")

Inside = list[tuple[str, int, int]]
"""Phases of a progress interval: name, begin after the interval's, length, in ms."""


@dataclass
class FleetCount:
    """How much was written."""

    jobs: int = 0
    attempts: int = 0
    marks: int = 0
    phases: int = 0
    lines: int = 0

    def add(self, job: Job) -> None:
        """Count one job."""
        marks = sum(len(at) for _, at, _ in job.marks)
        self.jobs += 1
        self.attempts += job.attempt + 1
        self.marks += marks
        self.phases += sum(line["event"] == "phase_begin" for line in job.lines)
        self.lines += len(job.lines) + marks


def write_fleet(folder: Path, *, marks: int, seed: int) -> dict[str, int]:
    """Write about `marks` progress marks, and a phase for some 40 of them, as Parquet files.

    One job has a hundred times the marks of the usual one. The same arguments give the same rows.
    """
    folder.mkdir(parents=True)
    count = FleetCount()
    waiting: list[pa.Table] = []
    for index, size in enumerate(_sizes(np.random.default_rng(seed), marks)):
        job = Job(f"job-{index:05}", np.random.default_rng([seed, index]))
        job.live(size)
        count.add(job)
        waiting.append(job_rows(job))
        if sum(t.num_rows for t in waiting) >= _ROWS_PER_FILE:
            _write(folder, waiting)
            waiting = []
    if waiting:
        _write(folder, waiting)
    return asdict(count)


def _sizes(rng: np.random.Generator, marks: int) -> list[int]:
    sizes = [min(_LARGEST * _USUAL_MARKS, marks // 4)]
    while sum(sizes) < marks:
        sizes.append(int(_USUAL_MARKS * rng.lognormal(0, 0.8)) + 10)
    return sizes


def _write(folder: Path, tables: list[pa.Table]) -> None:
    name = f"part-{len(list(folder.iterdir())):04}.parquet"
    pq.write_table(pa.concat_tables(tables), folder / name, compression="zstd")


def job_rows(job: Job) -> pa.Table:
    """A job's lines as rows of logbook__event in order of time."""
    schema = LOGBOOK_EVENT.arrow_schema
    rows = pa.concat_tables([LOGBOOK_EVENT.arrow(job.lines), *map(job.mark_rows, job.marks)])
    rows = rows.sort_by("event_at")
    micros = rows["event_at"].cast(pa.int64()).to_numpy()
    same = {
        "cluster": "default",
        "job_id": job.job_id,
        "source": "lifecycle",
        "source_file": job.job_id,
    }
    known = {name: pa.repeat(value, len(rows)) for name, value in same.items()} | {
        "ds": pa.array((micros // (1000 * _DAY_MS)).astype(np.int32)).cast(pa.date32()),
        "rank": pa.repeat(pa.scalar(0, pa.int64()), len(rows)),
        "source_line": pa.array(np.arange(1, len(rows) + 1)),
    }
    columns = [known.get(name, rows[name]) for name in schema.names]
    return pa.table(columns, schema=schema)


@dataclass
class Job:
    """One job told from its start to its end; times in epoch ms."""

    job_id: str
    rng: np.random.Generator
    now: int = 0
    attempt: int = -1
    saved: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    marks: list[tuple[int, np.ndarray, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.now = _START_MS + int(rng.integers(_START_WITHIN_MS))
        self.gpus = int(8 * 2 ** rng.integers(0, 10))
        self.mark_ms = int(np.exp(rng.uniform(np.log(5_000), np.log(60_000))))
        self.steps_per_mark = int(rng.choice([1, 5, 20, 50]))
        self.batch = int(self.gpus * rng.choice([4, 64])) if rng.random() < 0.5 else None

    def live(self, size: int) -> None:
        """Tell the whole life, with about `size` marks."""
        attempts = int(self.rng.geometric(0.35))
        self._say("job_submitted")
        self._wait(1_000, 600_000)
        for index in range(attempts):
            self._try_once(size // attempts, is_last=index == attempts - 1)
        self._say("job_finished", outcome=self.lines[-1]["outcome"])

    def mark_rows(self, stretch: tuple[int, np.ndarray, np.ndarray]) -> pa.Table:
        """The marks of a stretch: a train_begin, then steps."""
        attempt, at, steps = stretch
        event = pa.array(["train_begin", *["step"] * (len(at) - 1)])
        known = {
            "event": event,
            "event_at": pa.array(at * 1000).cast(pa.timestamp("us", tz="UTC")),
            "attempt": pa.repeat(pa.scalar(attempt, pa.int64()), len(at)),
            "step": pa.array(steps),
            "samples": pa.array(steps * self.batch) if self.batch else None,
        }
        schema = LOGBOOK_EVENT.arrow_schema
        columns = [
            column if (column := known.get(f.name)) is not None else pa.nulls(len(at), f.type)
            for f in schema
        ]
        return pa.table(columns, schema=schema)

    def _say(self, event: str, at: int | None = None, **said: Any) -> None:
        when = self.now if at is None else at
        self.lines.append({"event": event, "event_at": when * 1000, **said})

    def _wait(self, low: int, high: int) -> None:
        self.now += int(self.rng.integers(low, high))

    def _try_once(self, size: int, *, is_last: bool) -> None:
        """One attempt: the gap before it, start-up, training, an end."""
        rng = self.rng
        is_held = self.attempt >= 0 and bool(rng.random() < 0.5)
        if self.attempt >= 0:
            self._wait(*((0, 180_000) if is_held else (300_000, 10_000_000)))
        self.attempt += 1
        if rng.random() < 0.1:
            self.gpus = max(8, self.gpus // 2)
        said = {"attempt": self.attempt, "gpus": self.gpus, "is_held": is_held}
        self._say("attempt_started", model=f"model-{self.gpus}", team="bench", **said)
        self._start_up()
        is_trained = is_last or bool(rng.random() > 0.05)
        if is_trained:
            self._train(size)
        self._end(str(rng.choice(_ENDS if is_last else _FAILURES)), is_trained=is_trained)

    def _start_up(self) -> None:
        """Lone phases, then one with others inside, of which the first may begin with it."""
        for name in ("scheduling", "hardware_setup"):
            self._wait(0, 5_000)
            self._phase(name, 20_000, 90_000)
        self._wait(0, 2_000)
        begin = self.now
        for child in _CHILDREN:
            self._wait(0, 3_000)
            self._phase(f"trainer_init.{child}", 2_000, 60_000)
        self._wait(1, 3_000)
        self._span("trainer_init", begin, self.now)
        if self.attempt:
            self._phase("checkpoint_restore", 20_000, 200_000)

    def _phase(self, name: str, low: int, high: int) -> None:
        begin = self.now
        self._wait(low, high)
        self._span(name, begin, self.now)

    def _span(self, name: str, begin: int, end: int) -> None:
        self._say("phase_begin", begin, attempt=self.attempt, phase=name, is_blocking=True)
        self._say("phase_end", end, attempt=self.attempt, phase=name)

    def _train(self, size: int) -> None:
        """One stretch in the loop, or two with a restart inside the attempt between them."""
        has_compile = bool(self.rng.random() < 0.5)  # inside the first step, else before the loop
        if not has_compile:
            self._phase("compile", 30_000, 300_000)
            self._wait(1, 2_000)
        is_broken = bool(self.rng.random() < 0.3)
        self._stretch(max(size // 2 if is_broken else size, 5), has_compile=has_compile)
        if is_broken:
            self._strike(60_000)
            self._wait(1_000, 120_000)
            self._stretch(max(size // 2, 5), has_compile=False)

    def _strike(self, within_ms: int) -> None:
        self._wait(1, within_ms)
        self._say("interruption", attempt=self.attempt, cause=str(self.rng.choice(_CAUSES)))

    def _stretch(self, size: int, *, has_compile: bool) -> None:
        """A train_begin at the step saved last, and `size` step lines."""
        rng = self.rng
        ms = (self.mark_ms * (1 + 0.02 * rng.standard_normal(size))).astype(np.int64)
        ms[0] += int(self.mark_ms * rng.uniform(0, 4))
        slow = np.flatnonzero(rng.random(size) < 1 / 1_000)
        ms[slow] += (self.mark_ms * rng.uniform(0, 6, slow.size)).astype(np.int64)
        ms[slow] += rng.integers(0, 300_000, slow.size)
        busy = np.flatnonzero(rng.random(size) < 1 / 55)
        inside = {int(i): self._inside(int(ms[i])) for i in busy}
        if has_compile:
            inside[0] = [("compile", int(rng.integers(1_000)), int(rng.integers(60_000, 400_000)))]
        for i, phases in inside.items():
            ms[i] += sum(length for name, _, length in phases if name != "data_stall")
        at = self.now + np.concatenate([[0], np.cumsum(ms)])
        steps = self.saved + self.steps_per_mark * np.arange(size + 1)
        self.marks.append((self.attempt, at, steps))
        self._tell(inside, at, steps)
        self.now = int(at[-1])

    def _inside(self, free_ms: int) -> Inside:
        """A save; an evaluation that waits for data; or an evaluation that a save touches."""
        rng = self.rng
        begin, kind = int(rng.integers(free_ms)), rng.random()
        length, save = int(rng.integers(60_000, 600_000)), int(rng.integers(2_000, 90_000))
        if kind < 0.85:
            return [("checkpoint_save", begin, save)]
        if kind < 0.95:
            stall = int(rng.integers(1, length // 2))
            return [("evaluation", begin, length), ("data_stall", begin + stall, length // 3)]
        return [("evaluation", begin, length), ("checkpoint_save", begin + length, save)]

    def _tell(self, inside: dict[int, Inside], at: np.ndarray, steps: np.ndarray) -> None:
        for i, phases in sorted(inside.items()):
            for name, after, length in phases:
                begin = int(at[i]) + after
                self._span(name, begin, begin + length)
                if name == "checkpoint_save":
                    self.saved = int(steps[i])
                    durable = {"attempt": self.attempt, "step": self.saved}
                    self._say("checkpoint_durable", begin + length, **durable)

    def _end(self, outcome: str, *, is_trained: bool) -> None:
        if outcome in ("failed", "preempted", "timed_out"):
            self._strike(30_000)
        elif is_trained and self.rng.random() < 0.5:
            self._phase("model_publish", 30_000, 600_000)
        self._wait(0, 600_000)
        self._say("attempt_ended", attempt=self.attempt, outcome=outcome)
