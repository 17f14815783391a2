"""What a fleet is like: the parameters of a simulation, and the named scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import log2, sqrt
from typing import TYPE_CHECKING

from pipelines.errors import UsageError, nearest
from pipelines.taxonomy import DEFAULT, Cause

if TYPE_CHECKING:
    from random import Random

SMALLEST = 8
"""Accelerators of the smallest job; lengths are stated for it."""

_SAVES_LIKE = 1024


def phase(key: str) -> str:
    """`key` itself, or a RegistryError that names the nearest phase a log may claim."""
    return DEFAULT[key].key


@dataclass(frozen=True, slots=True)
class Length:
    """A random length of time: `base_s` seconds on 8 GPUs, `doubling_s` more for each doubling.

    Drawn evenly between (1 - `spread`) and (1 + `spread`) of that.
    """

    base_s: float
    doubling_s: float = 0.0
    spread: float = 0.3

    def draw_ms(self, rng: Random, gpus: int = SMALLEST) -> int:
        """A length in whole milliseconds, at least 1, for a job of `gpus`."""
        usual = self.base_s + self.doubling_s * log2(max(gpus, SMALLEST) / SMALLEST)
        return max(1, round(1000 * usual * rng.uniform(1 - self.spread, 1 + self.spread)))

    def times(self, factor: float) -> Length:
        """The same length, `factor` times as long."""
        return replace(self, base_s=self.base_s * factor, doubling_s=self.doubling_s * factor)

    def __str__(self) -> str:
        growth = f" + {self.doubling_s:g} per doubling" if self.doubling_s else ""
        return f"{self.base_s:g}{growth} s ± {self.spread:.0%}"


@dataclass(frozen=True, slots=True)
class JobClass:
    """A kind of job: `share` of all jobs, its sizes, hours of pure training, seconds per step.

    `line_s`: a step line about every so many seconds (0: one line per step). `batches`: samples
    per GPU and step. `is_urgent`: of high priority, never kept waiting for days.
    """

    name: str
    share: float
    gpus: tuple[int, ...]
    hours: tuple[float, float]
    step_s: tuple[float, float]
    line_s: tuple[float, float]
    batches: tuple[int, ...]
    models: tuple[str, ...]
    teams: tuple[str, ...]
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What people want to train and how their jobs report; the same in every scenario.

    Ratios are shares of jobs. `queue`: wait before the first attempt; `long_queue_ratio` of the
    jobs wait `long_queue_days` instead.
    """

    classes: tuple[JobClass, ...]
    queue: Length = Length(900, 300, 0.9)
    long_queue_ratio: float = 0.04
    long_queue_days: tuple[float, float] = (1.0, 4.0)
    cancelled_ratio: float = 0.08
    failed_ratio: float = 0.05
    silent_ratio: float = 0.02
    publishes_ratio: float = 0.6
    samples_ratio: float = 0.5
    elastic_ratio: float = 0.3
    compile_phase_ratio: float = 0.6
    parent_phase_ratio: float = 0.8
    low_priority_ratio: float = 0.25
    ranks_ratio: float = 0.03
    unnumbered_ratio: float = 0.1
    resends_ratio: float = 0.03
    jittery_ratio: float = 0.03
    no_attempt_end_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class Scenario:
    """How a fleet treats its jobs. Lengths in seconds; rates per day of a job, or per GPU-day.

    `checkpoint_every_s` is that of a job of 1024 GPUs: see `checkpoint_seconds`.
    """

    name: str
    workload: Workload
    start_up: Mapping[str, Length]
    start_up_failure_ratio: float
    restore: Length
    compile_cold: Length
    compile_warm: Length
    warm_first_ratio: float
    warm_restart_ratio: float
    checkpoint_every_s: float
    async_checkpoint_ratio: float
    save: Length
    snapshot: Length
    upload: Length
    evaluation_every_s: float
    evaluation: Length
    data_stalls_per_day: float
    data_stall: Length
    hangs_per_day: float
    stalls_per_day: float
    hang: Length
    recompiles_per_day: float
    slow_lines_per_day: float
    flaps_per_day: float
    failures_per_gpu_day: float
    causes: Mapping[Cause, float]
    abrupt_ratio: float
    preemptions_per_day: float
    notice_ratio: float
    drains_per_day: float
    time_limit_h: float
    detection: Length
    release: Length
    restart_inside_ratio: float
    restart_held_ratio: float
    restart_gap: Length
    requeue: Length
    long_requeue_ratio: float
    long_requeue_days: tuple[float, float]
    deep_rollback_ratio: float
    silent_end_ratio: float
    standalone_publish_ratio: float
    publish: Length
    teardown: Length

    def checkpoint_seconds(self, gpus: int) -> float:
        """Time between checkpoints: four times as long on a 256th of the GPUs."""
        return self.checkpoint_every_s * sqrt(sqrt(_SAVES_LIKE / gpus))


_RECOMMENDERS = ("marlin-ctr", "osprey-retrieval", "kestrel-feed", "tern-ads", "plover-sequence")
_RECOMMENDER_TEAMS = ("ads-ranking", "feed-relevance", "search", "integrity")
_LANGUAGE = ("sable-8b", "sable-70b", "onyx-moe-120b", "quill-code-34b")
_FRONTIER = ("sable-405b", "onyx-moe-1t")
_LANGUAGE_TEAMS = ("foundation-models", "assistant", "code-models")

FLEET = Workload(
    (
        JobClass(
            "frontier language", 1 / 64, (2048, 4096, 4096), (12, 56), (6, 14), (0, 0), (1, 2),
            _FRONTIER, _LANGUAGE_TEAMS[:1], is_urgent=True,
        ),
        JobClass(
            "large language", 4 / 64, (512, 1024), (24, 240), (4, 10), (0, 20), (1, 2, 4),
            _LANGUAGE, _LANGUAGE_TEAMS,
        ),
        JobClass(
            "language", 13 / 64, (64, 128, 256), (8, 160), (2, 8), (0, 40), (1, 2, 4),
            _LANGUAGE, _LANGUAGE_TEAMS,
        ),
        JobClass(
            "large recommendation", 6 / 64, (256, 512), (120, 480), (0.5, 1.2), (30, 60),
            (64, 128), _RECOMMENDERS, _RECOMMENDER_TEAMS,
        ),
        JobClass(
            "recommendation", 18 / 64, (32, 64, 128), (12, 160), (0.3, 1.0), (20, 60),
            (64, 128, 256), _RECOMMENDERS, _RECOMMENDER_TEAMS,
        ),
        JobClass(
            "small recommendation", 22 / 64, (8, 16), (3, 60), (0.2, 0.8), (10, 40),
            (128, 256), _RECOMMENDERS, _RECOMMENDER_TEAMS,
        ),
    )
)  # fmt: skip
"""Jobs of 8 to 4096 GPUs, hours to weeks; the largest hold about a sixth of the GPU time."""

_CAUSES = {
    Cause.HARDWARE: 30,
    Cause.NETWORK: 18,
    Cause.NODE_LOST: 14,
    Cause.STORAGE: 9,
    Cause.SERVICE: 6,
    Cause.SCHEDULER: 4,
    Cause.OUT_OF_MEMORY: 6,
    Cause.USER_CODE: 5,
    Cause.UNKNOWN: 8,
}

BASELINE = Scenario(
    name="baseline",
    workload=FLEET,
    start_up={
        phase("scheduling"): Length(30, 10),
        phase("hardware_setup"): Length(70, 30),
        phase("launcher_init"): Length(30, 20),
        phase("trainer_init.device_init"): Length(15, 3),
        phase("trainer_init.process_group_init"): Length(12, 12),
        phase("trainer_init.preproc_creation"): Length(25, 2),
        phase("trainer_init.train_module_creation"): Length(60, 18),
        phase("trainer_init.init_plugins"): Length(8),
        phase("trainer_init.pre_train"): Length(10, 2),
        phase("trainer_init.first_batch"): Length(35, 6),
    },
    start_up_failure_ratio=0.03,
    restore=Length(40, 20),
    compile_cold=Length(240, 100),
    compile_warm=Length(60, 10),
    warm_first_ratio=0.1,
    warm_restart_ratio=0.3,
    checkpoint_every_s=1800,
    async_checkpoint_ratio=0.2,
    save=Length(65, 10),
    snapshot=Length(8, 2),
    upload=Length(150, 20),
    evaluation_every_s=4 * 3600,
    evaluation=Length(480, 20),
    data_stalls_per_day=18,
    data_stall=Length(260, 0, 0.8),
    hangs_per_day=0.3,
    stalls_per_day=0.2,
    hang=Length(840, 0, 0.5),
    recompiles_per_day=0.2,
    slow_lines_per_day=12,
    flaps_per_day=0.05,
    failures_per_gpu_day=0.0021,
    causes=_CAUSES,
    abrupt_ratio=0.02,
    preemptions_per_day=0.4,
    notice_ratio=0.5,
    drains_per_day=0.03,
    time_limit_h=168,
    detection=Length(300, 60, 0.6),
    release=Length(30, 4),
    restart_inside_ratio=0.1,
    restart_held_ratio=0.3,
    restart_gap=Length(120, 30),
    requeue=Length(900, 150, 0.8),
    long_requeue_ratio=0.03,
    long_requeue_days=(1.0, 3.0),
    deep_rollback_ratio=0.05,
    silent_end_ratio=0.1,
    standalone_publish_ratio=0.1,
    publish=Length(900, 60),
    teardown=Length(60, 10),
)
"""A fleet near 80 % ETT, its largest jobs at 50-60 %."""

OPTIMISED = replace(
    BASELINE,
    name="optimised",
    start_up={key: length.times(0.3) for key, length in BASELINE.start_up.items()},
    start_up_failure_ratio=0.01,
    restore=Length(15, 6),
    compile_warm=Length(20, 3),
    warm_first_ratio=0.9,
    warm_restart_ratio=0.97,
    checkpoint_every_s=750,
    async_checkpoint_ratio=1.0,
    snapshot=Length(2, 0.6),
    upload=Length(120, 10),
    evaluation=Length(200, 10),
    data_stalls_per_day=3,
    hangs_per_day=0.15,
    detection=Length(60, 10, 0.6),
    restart_inside_ratio=0.25,
    restart_held_ratio=0.6,
    restart_gap=Length(30, 5),
    long_requeue_ratio=0.015,
    standalone_publish_ratio=0.95,
    teardown=Length(30, 3),
)
"""The same intents above 90 % ETT, the largest at 85 %: cheaper initialisation, warm compile
caches, asynchronous checkpoints, standalone publishing, cheaper recovery."""

_TINY = Workload(
    (
        JobClass(
            "tiny language", 0.5, (16, 64), (0.8, 4), (8, 20), (0, 300), (1, 2),
            _LANGUAGE, _LANGUAGE_TEAMS,
        ),
        JobClass(
            "tiny recommendation", 0.5, (8, 16, 32), (0.8, 4), (1, 4), (120, 400), (64, 128),
            _RECOMMENDERS, _RECOMMENDER_TEAMS,
        ),
    ),
    cancelled_ratio=0.1,
    failed_ratio=0.1,
    silent_ratio=0.06,
    elastic_ratio=0.5,
    ranks_ratio=0.08,
    unnumbered_ratio=0.2,
    resends_ratio=0.08,
    no_attempt_end_ratio=0.15,
)  # fmt: skip

EXERCISE = replace(
    BASELINE,
    name="exercise",
    workload=_TINY,
    start_up_failure_ratio=0.08,
    async_checkpoint_ratio=0.5,
    evaluation_every_s=3600,
    data_stalls_per_day=20,
    hangs_per_day=10,
    stalls_per_day=6,
    recompiles_per_day=6,
    flaps_per_day=6,
    failures_per_gpu_day=0.25,
    preemptions_per_day=8,
    drains_per_day=1,
    time_limit_h=3,
    restart_inside_ratio=0.3,
    abrupt_ratio=0.04,
    checkpoint_every_s=500,
    long_requeue_ratio=0.03,
    deep_rollback_ratio=0.2,
    standalone_publish_ratio=0.4,
)
"""Small jobs that meet everything that can happen: for tests, no likeness of a fleet."""

SCENARIOS = {s.name: s for s in (BASELINE, OPTIMISED, EXERCISE)}


def scenario_named(name: str) -> Scenario:
    """The scenario called `name`, or a UsageError that names the nearest one."""
    try:
        return SCENARIOS[name]
    except KeyError:
        raise UsageError(f"unknown scenario '{name}': {nearest(name, SCENARIOS)}") from None


def parameter_table(*scenarios: Scenario) -> str:
    """The parameters of `scenarios` side by side, as a Markdown table (docs/simulator.md)."""
    names = [s.name for s in scenarios]
    lines = [f"| parameter | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    told = [_told(s) for s in scenarios]
    lines += [f"| {key} | {' | '.join(t[key] for t in told)} |" for key in told[0]]
    return "\n".join(lines)


def _told(scenario: Scenario) -> dict[str, str]:
    """Every parameter by name, in words."""
    told: dict[str, str] = {}
    for key in (f.name for f in fields(Scenario) if f.name not in {"name", "workload"}):
        value = getattr(scenario, key)
        if isinstance(value, Mapping):
            told |= {f"{key} `{part}`": _words(item) for part, item in value.items()}
        else:
            told[key] = _words(value)
    return told


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return "-".join(f"{item:g}" for item in value)
    return f"{value:g}" if isinstance(value, float | int) else str(value)
