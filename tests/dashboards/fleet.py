"""A small published warehouse for page tests: a made-up fleet whose tables all add up."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from deltalake import write_deltalake

from pipelines import tables
from pipelines.taxonomy import DEFAULT, EFFECTIVE, REPEATED, Cause, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

START = datetime(2026, 11, 1, tzinfo=UTC)
AS_OF = datetime(2026, 11, 6, 18, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
PRICES = {"h100-east": 2.5, "h100-west": 2.1}
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "<a href='javascript:alert(1)'>%{x} {{7*7}}</a> & \"quotes\" #job=a/b?c \u202egnp.exe",
)
LOSSES = [s for s in Stage if s is not Stage.EFFECTIVE]


@dataclass
class Job:
    """Writes one job's ledger as a story; times in ms since the epoch."""

    job_id: str
    now: int
    gpus: int = 64
    cluster: str = "h100-east"
    model: str | None = "llm-70b"
    team: str | None = "foundation"
    attempt: int = -1
    stage: Stage = Stage.TIME_TO_START
    is_censored: bool = False
    is_told: bool = True
    rows: list[dict] = field(default_factory=list)
    attempts: list[dict] = field(default_factory=list)
    hidden: list[dict] = field(default_factory=list)
    recoveries: list[dict] = field(default_factory=list)
    interruptions: list[dict] = field(default_factory=list)
    last_progress: tuple[int, int] | None = None

    def begin(self, gpus: int | None = None, *, is_held: bool = False) -> Job:
        self.attempt += 1
        self.gpus = self.gpus if gpus is None else gpus
        self.attempts.append({"attempt": self.attempt, "started": self.now, "is_held": is_held})
        return self

    def spend(self, component: str, ms: int, *, inferred: bool = False, cause=None) -> Job:
        stage = self._stage_of(component)
        if ms <= 0:
            return self
        between = not self.attempts or "ended" in self.attempts[-1]
        self.rows.append(
            {
                "attempt": None if between else self.attempt,
                "started": self.now,
                "ended": self.now + ms,
                "component": component,
                "stage": stage.value,
                "gpus": 0 if component == "requeue_wait" else self.gpus,
                "is_inferred": inferred,
                "cause": cause,
            }
        )
        self.now += ms
        return self

    def _stage_of(self, component: str) -> Stage:
        if component in (EFFECTIVE, REPEATED):
            self._resume()
            return Stage.EFFECTIVE if component == EFFECTIVE else Stage.WASTED_TRAINING
        return self.stage

    def _resume(self) -> None:
        if self.stage is Stage.TIME_TO_RECOVER and self.last_progress:
            attempt, at = self.last_progress
            self.recoveries.append(
                {
                    "from": attempt,
                    "to": self.attempt,
                    "at": at,
                    "back": self.now,
                    "cause": self.interruptions[-1]["cause"],
                }
            )
        self.stage = Stage.WASTED_TRAINING

    def start_up(self, scale: float = 1.0) -> Job:
        for component, seconds in (
            ("scheduling", 25), ("hardware_setup", 70), ("launcher_init", 45),
            ("trainer_init.device_init", 20), ("trainer_init.process_group_init", 95),
            ("trainer_init.train_module_creation", 130), ("checkpoint_restore", 0 if not self.attempt else 150),
            ("compile", 260), ("trainer_init.first_batch", 35),
        ):  # fmt: skip
            self.spend(component, int(seconds * scale * SECOND))
        return self

    def loop(self, saves: int, every: int = 30 * MINUTE, save: int = 40 * SECOND) -> Job:
        self.spend("first_step_warmup", 50 * SECOND, inferred=True)
        for _ in range(saves):
            self.spend(EFFECTIVE, every).spend("checkpoint_save", save)
            self.hidden.append(
                {"attempt": self.attempt, "started": self.now, "ended": self.now + 5 * save,
                 "component": "checkpoint_save"}
            )  # fmt: skip
        self.spend(EFFECTIVE, every // 2)
        return self

    def crash(self, cause: Cause, detection: int = 12 * MINUTE) -> Job:
        self.interruptions.append({"attempt": self.attempt, "at": self.now, "cause": cause.value})
        if self.stage is not Stage.TIME_TO_START:
            self.last_progress = (
                (self.attempt, self.now)
                if self.stage is Stage.WASTED_TRAINING
                else self.last_progress
            )
            self.stage = Stage.TIME_TO_RECOVER
        self.spend("failure_detection", detection, cause=cause.value)
        outcome = "preempted" if cause is Cause.PREEMPTION else "failed"
        return self.end(outcome)

    def end(self, outcome: str) -> Job:
        self.attempts[-1] |= {"ended": self.now, "outcome": outcome, "gpus": self.gpus}
        return self

    def finish(self) -> Job:
        self.stage = Stage.SHUTDOWN
        return self.spend("model_publish", 240 * SECOND).spend("teardown", 31_250).end("succeeded")

    def silenced(self) -> Job:
        """As a scheduler alone would tell of it: nobody claims what was done with the GPUs."""
        self.is_told, self.hidden, self.recoveries = False, [], []
        for row in self.rows:
            row["stage"] = Stage.TIME_TO_START.value
            if row["component"] != "requeue_wait":
                row["component"] = "unattributed"
        return self

    def run_on(self) -> Job:
        """Still running at AS_OF."""
        as_of = int(AS_OF.timestamp() * 1000)
        if self.now < as_of:
            self.spend(EFFECTIVE, as_of - self.now)
        self.is_censored = True
        return self.end("unknown")


def at(day: int, hour: float = 0) -> int:
    return int((START + timedelta(days=day, hours=hour)).timestamp() * 1000)


def stories(jobs: int, seed: int = 7) -> Iterator[Job]:
    """The special jobs first, then ordinary ones up to `jobs` in all."""
    special = [
        Job("llm-405b-pretrain", at(0, 2), gpus=2048, model="llm-405b").begin().start_up(3)
        .loop(30).crash(Cause.HARDWARE).spend("restart_gap", 4 * MINUTE, cause="hardware")
        .begin(is_held=True).start_up(2).spend(REPEATED, 16 * MINUTE).loop(44).spend("stalled", 22 * MINUTE, inferred=True)
        .loop(3).crash(Cause.PREEMPTION, MINUTE).spend("requeue_wait", 3 * HOUR, cause="preemption")
        .begin(1920).start_up(2).spend(REPEATED, 25 * MINUTE).loop(40).spend("evaluation", 35 * MINUTE).loop(20).run_on(),
        *(Job(name, at(1, 3 + i), gpus=8, model=name, team=name, cluster="h100-west").begin().start_up().loop(5).finish()
          for i, name in enumerate(HOSTILE)),
        Job("crash-loop", at(2), gpus=128, model="ranker", team="ads").begin().start_up().loop(2),
        Job("step-by-step", at(1), gpus=32, model="ranker", team="ads").begin().start_up().loop(3000, 45 * SECOND, 3_210).finish(),
        Job("no-gpus-said", at(3), gpus=0, model=None, team=None, cluster="lab").begin().start_up().loop(4).finish(),
        Job("never-trained", at(3, 5), gpus=256, model="llm-70b").begin().start_up(0.5).crash(Cause.USER_CODE),
        Job("unclaimed-start", at(2, 9), gpus=512, cluster="lab").begin().spend("unattributed", 95 * MINUTE).loop(9).finish(),
    ]  # fmt: skip
    loop = special[4]
    for _ in range(109):
        loop.crash(Cause.OUT_OF_MEMORY, 90 * SECOND).spend("restart_gap", 20 * SECOND)
        loop.begin(is_held=True).start_up(0.2).spend(REPEATED, 2 * MINUTE).spend(
            EFFECTIVE, 6 * MINUTE
        )
    loop.finish()
    yield from special[:jobs]
    rng = random.Random(seed)
    for n in range(jobs - len(special)):
        yield _ordinary(n, rng)


def _ordinary(n: int, rng: random.Random) -> Job:
    model, team = rng.choice(
        [("ranker", "ads"), ("retrieval", "ads"), ("llm-70b", "foundation"), ("vision-xl", "perception"), ("speech", "perception")]
    )  # fmt: skip
    job = Job(
        f"{model}-{n:04d}", at(0, rng.uniform(0, 88)), gpus=rng.choice([8, 16, 64, 128, 512]),
        model=model, team=team, cluster=rng.choice(["h100-east", "h100-east", "h100-west", "lab"]),
    )  # fmt: skip
    job.begin().start_up(rng.uniform(0.6, 2)).loop(rng.randint(2, 12))
    for _ in range(rng.choice([0, 0, 0, 1, 1, 3])):
        cause = rng.choice(
            [Cause.HARDWARE, Cause.NETWORK, Cause.USER_CODE, Cause.PREEMPTION, Cause.UNKNOWN]
        )
        job.spend("data_stall", int(rng.uniform(0, 9) * MINUTE)).crash(cause)
        is_held = rng.random() < 0.6
        job.spend("restart_gap" if is_held else "requeue_wait", int(rng.uniform(1, 50) * MINUTE))
        job.begin(is_held=is_held).start_up(rng.uniform(0.6, 2))
        job.spend(REPEATED, int(rng.uniform(2, 28) * MINUTE)).loop(rng.randint(1, 9))
    return job.finish() if job.now < at(5, 10) else job.run_on()


def write_warehouse(
    warehouse: Path, jobs: int = 40, *, is_told: Callable[[str], bool] = lambda _: True
) -> Path:
    """Write every table that the pages read; `jobs` of them, over about six days.

    Of those that are not told only a scheduler speaks.
    """
    told = [job if is_told(job.job_id) else job.silenced() for job in stories(jobs)]
    ledger = _ledger(told)
    frames = {
        tables.LEDGER_INTERVAL: ledger,
        tables.SCORECARD_JOB: _scorecard_job(told, ledger),
        tables.SCORECARD_JOB_COMPONENT: _by(ledger, ["ds", "cluster", "job_id", "model", "team", "component", "stage"]),
        tables.SCORECARD_COMPONENT: _by(ledger, ["ds", "cluster", "component", "stage"]),
        tables.SCORECARD_ATTEMPT: _scorecard_attempt(told, ledger),
        tables.SCORECARD_FLEET: _rollup(ledger, ["ds"]),
        tables.SCORECARD_JOB_SOURCE: _sources(told, ledger),
        tables.SCORECARD_DISAGREEMENT: _disagreements(),
        tables.SCORECARD_RECOVERY: _recoveries(told),
        tables.SCORECARD_INTERRUPTION: _interruptions(told),
        tables.TIMELINE_ATTEMPT: _timeline_attempt(told, ledger),
        tables.TIMELINE_PHASE: _hidden(told),
        tables.CHARGES_OWNER_COMPONENT: _charges(ledger),
        tables.WAREHOUSE_PUBLICATION: _publication(ledger),
        tables.WAREHOUSE_STALE_DAY: pd.DataFrame([{"ds": days()[1], "marked_at": AS_OF, "run_id": "run-1", "reason": "lines came in"}]),
        tables.LOGBOOK_FILE: _files(told),
        tables.LOGBOOK_REJECT: _rejects(),
        tables.LOGBOOK_JOIN: _joins(),
    }  # fmt: skip
    for table, frame in frames.items():
        write_table(warehouse, table, frame)
    return warehouse


def write_table(warehouse: Path, table: tables.Table, frame: pd.DataFrame) -> None:
    """Commit `frame` as `<warehouse>/<table>`; days are partitions, as the warehouse has them."""
    columns = {c.name: frame.get(c.name, None) for c in table.columns}
    whole = pd.DataFrame(
        {k: v if v is not None else [None] * len(frame) for k, v in columns.items()}
    )
    arrow = pa.Table.from_pandas(whole, schema=table.arrow_schema, preserve_index=False)
    by = ["ds"] if table.is_daily else None
    write_deltalake(str(warehouse / table.name), arrow, mode="overwrite", partition_by=by)


def _stamp(values) -> pd.Series:
    return pd.to_datetime(pd.Series(values, dtype="Int64"), unit="ms", utc=True)


def _day(values) -> pd.Series:
    return _stamp(values).dt.date


def _ledger(told: list[Job]) -> pd.DataFrame:
    rows = []
    for job in told:
        for row in job.rows:
            start = row["started"]
            while start < row["ended"]:
                end = min(row["ended"], (start // DAY + 1) * DAY)
                rows.append({**row, "started": start, "ended": end, "cluster": job.cluster, "job_id": job.job_id, "model": job.model, "team": job.team, "is_told": job.is_told})  # fmt: skip
                start = end
    frame = pd.DataFrame(rows)
    frame["attempt"] = frame["attempt"].astype("Int64")
    frame["ds"] = _day(frame["started"])
    frame["duration_ms"] = frame["ended"] - frame["started"]
    frame["gpu_ms"] = frame["duration_ms"] * frame["gpus"]
    frame["started_at"], frame["ended_at"] = _stamp(frame["started"]), _stamp(frame["ended"])
    frame["inferred_ms"] = frame["duration_ms"].where(frame["is_inferred"], 0)
    return frame


def _by(ledger: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    sums = ledger.groupby(key, dropna=False)[["duration_ms", "gpu_ms", "inferred_ms"]].sum()
    jobs = ledger.groupby(key, dropna=False)["job_id"].nunique()
    return sums.assign(job_count=jobs).reset_index() if "job_id" not in key else sums.reset_index()


def _rollup(ledger: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    def total(mask: pd.Series, column: str) -> pd.Series:
        return ledger[column].where(mask, 0).groupby([ledger[k] for k in key], dropna=False).sum()

    everything = pd.Series(data=True, index=ledger.index)
    out = {"wall_ms": total(everything, "duration_ms"), "held_gpu_ms": total(everything, "gpu_ms")}
    for stage in Stage:
        name = "effective" if stage is Stage.EFFECTIVE else stage.value
        out[f"{name}_ms"] = total(ledger["stage"] == stage, "duration_ms")
        out[f"{name}_gpu_ms"] = total(ledger["stage"] == stage, "gpu_ms")
    out["unattributed_ms"] = total(ledger["component"] == "unattributed", "duration_ms")
    out["repeated_ms"] = total(ledger["component"] == REPEATED, "duration_ms")
    out["inferred_ms"] = total(everything, "inferred_ms")
    frame = pd.DataFrame(out)
    frame["job_count"] = ledger.groupby(key, dropna=False)["job_id"].nunique()
    frame["censored_count"] = 0
    frame["untold_ms"] = total(~ledger["is_told"], "duration_ms")
    frame["untold_gpu_ms"] = total(~ledger["is_told"], "gpu_ms")
    for ratio, part, whole, untold in (
        ("ett_ratio", "effective_ms", "wall_ms", "untold_ms"),
        ("gpu_ett_ratio", "effective_gpu_ms", "held_gpu_ms", "untold_gpu_ms"),
    ):
        frame[ratio] = (frame[part] / frame[whole]).where(frame[untold] < frame[whole])
    return frame.reset_index()


def _touching(ledger: pd.DataFrame, whole: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The figures of the whole, once for each day it touches."""
    return ledger[[*key, "ds"]].dropna().drop_duplicates().merge(whole, on=key)


def _scorecard_job(told: list[Job], ledger: pd.DataFrame) -> pd.DataFrame:
    facts = pd.DataFrame(
        [
            {
                "cluster": j.cluster, "job_id": j.job_id, "model": j.model, "team": j.team,
                "priority": "high" if j.gpus > 500 else None,
                "started": j.attempts[0]["started"], "ended": j.now, "attempt_count": len(j.attempts),
                "max_gpus": max(a["gpus"] for a in j.attempts), "outcome": j.attempts[-1]["outcome"],
                "interruption_count": len(j.interruptions), "recovery_count": len(j.recoveries),
                "failure_count": sum(Cause(i["cause"]).is_infrastructure for i in j.interruptions),
                "hidden_ms": sum(h["ended"] - h["started"] for h in j.hidden),
                "tts": next((r["started"] for r in j.rows if r["component"] in (EFFECTIVE, REPEATED)), None),
                "is_censored": j.is_censored, "is_presumed_dead": False, "is_clock_conflict": j.job_id == "ranker-0003",
                "is_position_uncertain": j.job_id == "crash-loop", "is_training_told": j.is_told,
                "sources": ", ".join(sources_of(j)),
                "queue_wait_ms": None if len(j.job_id) % 2 else 5 * MINUTE,
            }
            for j in told
        ]
    )  # fmt: skip
    facts["started_at"], facts["ended_at"] = _stamp(facts["started"]), _stamp(facts["ended"])
    facts["tts_ms"] = facts["tts"].astype("Int64") - facts["started"]
    key = ["cluster", "job_id"]
    return _touching(ledger, facts.merge(_rollup(ledger, key), on=key), key)


def sources_of(job: Job) -> list[str]:
    """A scheduler speaks of large jobs, a recorder of those whose training is told."""
    return [*(["lifecycle"] if job.is_told else []), *(["slurm"] if job.gpus > 500 or not job.is_told else [])]  # fmt: skip


def _sources(told: list[Job], ledger: pd.DataFrame) -> pd.DataFrame:
    words = {"lifecycle": "step, train_begin", "slurm": "attempt_started, job_submitted"}
    days = ledger.groupby(["cluster", "job_id", "ds"], as_index=False).agg(
        first_event_at=("started_at", "min"), last_event_at=("ended_at", "max")
    )
    rows = [
        {"cluster": j.cluster, "job_id": j.job_id, "source": s, "told": words[s], "event_count": 7}
        for j in told for s in sources_of(j)
    ]  # fmt: skip
    return pd.DataFrame(rows).merge(days, on=["cluster", "job_id"])


def _disagreements() -> pd.DataFrame:
    """The scheduler and the recorder of one job, on three days."""
    said = [
        (1, "gpus", 1, None, "2048", "1920"),
        (2, "started_at", 1, 61_000, "2026-11-03T00:00:00Z", "2026-11-03T00:01:01Z"),
        (3, "started_at", 2, 95_000, "2026-11-04T00:00:00Z", "2026-11-04T00:01:35Z"),
    ]
    names = ["field", "difference_count", "largest_difference_ms", "believed", "other"]
    frame = pd.DataFrame([dict(zip(names, row[1:], strict=True)) for row in said]).assign(
        ds=[days()[row[0]] for row in said], cluster="h100-east", job_id="llm-405b-pretrain",
        source="slurm", other_source="lifecycle",
    )  # fmt: skip
    return frame.astype({"largest_difference_ms": "Int64"})


def _joins() -> pd.DataFrame:
    common = {"source": "console", "cluster": "lab", "attempt": None}
    return pd.DataFrame(
        [
            {**common, "source_file": "lab/1.out", "own_id": "17", "job_id": "unclaimed-start", "rule": "field slurm_job_id", "reason": None},
            {**common, "source_file": "lab/2.out", "own_id": HOSTILE[1], "job_id": HOSTILE[1], "rule": None,
             "reason": "joins.csv has no row for it: add one"},
        ]
    )  # fmt: skip


def _scorecard_attempt(told: list[Job], ledger: pd.DataFrame) -> pd.DataFrame:
    key = ["cluster", "job_id", "attempt"]
    inside = ledger[ledger["attempt"].notna()]
    outcomes = pd.DataFrame(
        [{"cluster": j.cluster, "job_id": j.job_id, **a} for j in told for a in j.attempts]
    )
    whole = _rollup(inside, key).merge(outcomes[[*key, "outcome"]], on=key)
    return _touching(inside, whole, key)


def _timeline_attempt(told: list[Job], ledger: pd.DataFrame) -> pd.DataFrame:
    key = ["cluster", "job_id", "attempt"]
    frame = pd.DataFrame(
        [
            {"cluster": j.cluster, "job_id": j.job_id, "attempt_index": a["attempt"], "end_kind": "attempt_ended",
             "is_cut": False, "is_presumed_dead": False, "outside_line_count": 0,
             "is_censored": j.is_censored and a is j.attempts[-1], **a}
            for j in told for a in j.attempts
        ]
    )  # fmt: skip
    frame["started_at"], frame["ended_at"] = _stamp(frame["started"]), _stamp(frame["ended"])
    return _touching(ledger, frame, key)


def _hidden(told: list[Job]) -> pd.DataFrame:
    frame = pd.DataFrame(
        [{"cluster": j.cluster, "job_id": j.job_id, **h} for j in told for h in j.hidden],
        columns=["cluster", "job_id", "attempt", "started", "ended", "component"],
    )
    frame["started_at"], frame["ended_at"] = _stamp(frame["started"]), _stamp(frame["ended"])
    frame["duration_ms"] = frame["ended"] - frame["started"]
    frame["ds"] = _day(frame["started"])
    return frame.assign(is_blocking=False, is_inferred=False)


def _recoveries(told: list[Job]) -> pd.DataFrame:
    frame = pd.DataFrame(
        [
            {"cluster": j.cluster, "job_id": j.job_id, "model": j.model, "team": j.team, "from_attempt": r["from"],
             "to_attempt": r["to"], "at": r["at"], "back": r["back"], "cause": r["cause"], "new": r["back"] + 16 * MINUTE}
            for j in told for r in j.recoveries
        ],
        columns=["cluster", "job_id", "model", "team", "from_attempt", "to_attempt", "at", "back", "cause", "new"],
    )  # fmt: skip
    frame["started_at"], frame["resumed_at"] = _stamp(frame["at"]), _stamp(frame["back"])
    frame["new_data_at"] = _stamp(frame["new"])
    frame["ttr_ms"] = frame["back"] - frame["at"]
    frame["time_to_new_data_ms"] = frame["new"] - frame["at"]
    frame["ds"] = _day(frame["at"])
    return frame


def _interruptions(told: list[Job]) -> pd.DataFrame:
    frame = pd.DataFrame(
        [
            {"cluster": j.cluster, "job_id": j.job_id, "model": j.model, "team": j.team, "kind": "end",
             "is_infrastructure": Cause(i["cause"]).is_infrastructure, **i}
            for j in told for i in j.interruptions
        ]
    )  # fmt: skip
    frame["interruption_index"] = frame.groupby(["cluster", "job_id", "attempt"]).cumcount()
    frame["began_at"] = _stamp(frame["at"])
    frame["ds"] = _day(frame["at"])
    return frame


def _charges(ledger: pd.DataFrame) -> pd.DataFrame:
    lost = ledger[ledger["component"] != EFFECTIVE].copy()
    lost["owner"] = lost["component"].map(lambda key: DEFAULT[key].owner)
    lost["lost_ms"], lost["lost_gpu_ms"] = lost["duration_ms"], lost["gpu_ms"]
    key = ["ds", "owner", "component", "cluster", "model", "team"]
    frame = lost.groupby(key, dropna=False)[["lost_ms", "lost_gpu_ms"]].sum().reset_index()
    frame["lost_cost"] = frame["lost_gpu_ms"] / HOUR * frame["cluster"].map(PRICES)
    return frame


def _publication(ledger: pd.DataFrame) -> pd.DataFrame:
    days = _rollup(ledger, ["ds"])
    last = days["ds"].max()
    stale = days.assign(
        run_id="run-0",
        published_at=AS_OF - timedelta(days=1),
        as_of=AS_OF - timedelta(days=1),
        is_provisional=True,
    )
    fresh = days.assign(
        run_id="run-1", published_at=AS_OF, as_of=AS_OF, is_provisional=days["ds"] == last
    )
    both = pd.concat([stale.iloc[:1], fresh], ignore_index=True)
    return both.assign(engine="sail 0.7.2", ettledger_version="0.1.0")


def _files(told: list[Job]) -> pd.DataFrame:
    rows = [
        {"source": "lifecycle", "source_file": f"{j.cluster}/{n}.jsonl", "size_bytes": 9_000, "modified_at": AS_OF,
         "line_count": 100, "event_line_count": 99, "reject_count": 0, "ignored_count": 1, "event_count": 99,
         "settings_print": "as-they-are"}
        for n, j in enumerate(told)
    ]  # fmt: skip
    rows[1] |= {
        "reject_count": 4,
        "event_line_count": 95,
        "note": "the clock went back by 3 s at line 12",
    }
    rows[2] |= {"source_file": HOSTILE[1]}
    return pd.DataFrame(rows)


def _rejects() -> pd.DataFrame:
    reasons = [
        "unknown phase 'chekpoint_save': did you mean 'checkpoint_save'?",
        "ts is an integer below 10^11: seconds?",
    ]
    excerpts = [HOSTILE[0], HOSTILE[1], '{"ts": 1700000000, "event"', HOSTILE[2]]
    return pd.DataFrame(
        [
            {
                "source": "lifecycle",
                "source_file": "h100-west/1.jsonl",
                "source_line": 10 + n,
                "reason": reasons[n % 2],
                "excerpt": text,
            }
            for n, text in enumerate(excerpts)
        ]
    )


def days() -> list[date]:
    """The days that the fleet touches."""
    return [(START + timedelta(days=n)).date() for n in range(6)]
