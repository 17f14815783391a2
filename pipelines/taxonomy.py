"""The components, stages, causes, outcomes and owners: the only place where they are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipelines.errors import RegistryError, nearest


class Area(StrEnum):
    """What kind of overhead a component is (L2 of the published definition)."""

    SCHEDULING = "scheduling"
    HARDWARE_SETUP = "hardware setup"
    LAUNCHER_INIT = "launcher init"
    TRAINER_INIT = "trainer init"
    RECOVERY = "recovery"
    COMPILATION = "compilation"
    EFFECTIVE = "effective"
    WASTED_TRAINING = "wasted training"
    SHUTDOWN = "shutdown"
    UNATTRIBUTED = "unattributed"


class Stage(StrEnum):
    """Where in a job's life a millisecond lies (L1). The order is the stacking order."""

    EFFECTIVE = "effective"
    TIME_TO_START = "time_to_start"
    TIME_TO_RECOVER = "time_to_recover"
    WASTED_TRAINING = "wasted_training"
    SHUTDOWN = "shutdown"

    @property
    def label(self) -> str:
        """The words for a legend."""
        return self.value.replace("_", " ").capitalize()

    @property
    def colour(self) -> str:
        """A colour that stays apart from the others for the colour-blind (Okabe-Ito)."""
        return _STAGE_COLOURS[self]


_STAGE_COLOURS = {
    Stage.EFFECTIVE: "#009E73",
    Stage.TIME_TO_START: "#E69F00",
    Stage.TIME_TO_RECOVER: "#D55E00",
    Stage.WASTED_TRAINING: "#CC79A7",
    Stage.SHUTDOWN: "#56B4E9",
}


class Outcome(StrEnum):
    """How an attempt or a job ended. Any other word means UNKNOWN."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"

    @property
    def is_failure(self) -> bool:
        """Did the attempt end against everybody's will?"""
        return self in (Outcome.FAILED, Outcome.PREEMPTED, Outcome.TIMED_OUT)

    @property
    def implied_cause(self) -> Cause:
        """The cause of an end whose lines name none (docs/accounting.md, Interruptions)."""
        return _IMPLIED_CAUSE.get(self, Cause.UNKNOWN)


class Cause(StrEnum):
    """Why a job was interrupted. Any other word means UNKNOWN."""

    HARDWARE = "hardware"
    NETWORK = "network"
    STORAGE = "storage"
    NODE_LOST = "node_lost"
    PREEMPTION = "preemption"
    SCHEDULER = "scheduler"
    SERVICE = "service"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    USER_CODE = "user_code"
    CANCELLED = "cancelled"
    PLANNED = "planned"
    UNKNOWN = "unknown"

    @property
    def is_infrastructure(self) -> bool:
        """Counted in NoF: the infrastructure's failures, not the user's."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = frozenset(
    {
        Cause.HARDWARE,
        Cause.NETWORK,
        Cause.STORAGE,
        Cause.NODE_LOST,
        Cause.PREEMPTION,
        Cause.SCHEDULER,
        Cause.SERVICE,
    }
)
_IMPLIED_CAUSE = {
    Outcome.PREEMPTED: Cause.PREEMPTION,
    Outcome.TIMED_OUT: Cause.TIMEOUT,
    Outcome.CANCELLED: Cause.CANCELLED,
    Outcome.SUCCEEDED: Cause.PLANNED,
}


@dataclass(frozen=True, slots=True)
class Component:
    """One place where time can go. Legend, order, glossary and routing come from it.

    `is_given` marks what only the accounting may give: a phase line with it is a reject.
    """

    key: str
    label: str
    area: Area
    owner: str | None
    definition: str
    colour: str
    order: int
    is_given: bool = False

    @property
    def parent(self) -> str | None:
        """The key one level up, or None."""
        head, _, tail = self.key.rpartition(".")
        return head if tail and head else None


_C = Component
COMPONENTS: tuple[Component, ...] = (
    _C(
        "scheduling", "Scheduling", Area.SCHEDULING, "scheduler",
        "Hardware was granted, the launcher had not yet started.", "#64797D", 10,
    ),
    _C(
        "hardware_setup", "Hardware set-up", Area.HARDWARE_SETUP, "cluster",
        "Host checks; image and binaries were brought up.", "#BC714E", 20,
    ),
    _C(
        "launcher_init", "Launcher init", Area.LAUNCHER_INIT, "launcher",
        "The launcher started and its workers met (rendezvous).", "#B98A00", 30,
    ),
    _C(
        "trainer_init", "Trainer init", Area.TRAINER_INIT, "trainer",
        "Trainer start-up outside its named parts.", "#EAA32A", 40,
    ),
    _C(
        "trainer_init.device_init", "Device init", Area.TRAINER_INIT, "trainer",
        "Accelerators were opened and tested.", "#F0C100", 41,
    ),
    _C(
        "trainer_init.process_group_init", "Process-group init", Area.TRAINER_INIT,
        "communication", "Communicators were built between the ranks.", "#A75026", 42,
    ),
    _C(
        "trainer_init.preproc_creation", "Preprocessing creation", Area.TRAINER_INIT, "trainer",
        "Preprocessing modules were created.", "#C4CD56", 43,
    ),
    _C(
        "trainer_init.train_module_creation", "Train-module creation", Area.TRAINER_INIT,
        "trainer", "The model was built and sharded.", "#C7B364", 44,
    ),
    _C(
        "trainer_init.init_plugins", "Plug-in init", Area.TRAINER_INIT, "trainer",
        "Plug-ins and callbacks were set up.", "#FBD38D", 45,
    ),
    _C(
        "trainer_init.pre_train", "Pre-train", Area.TRAINER_INIT, "trainer",
        "The trainer's last preparations before the loop.", "#965C49", 46,
    ),
    _C(
        "trainer_init.first_batch", "First batch", Area.TRAINER_INIT, "data ingestion",
        "The loop waited for its first batch.", "#743927", 47,
    ),
    _C(
        "checkpoint_restore", "Checkpoint restore", Area.RECOVERY, "checkpointing",
        "State was loaded.", "#803F86", 50,
    ),
    _C(
        "compile", "Compilation", Area.COMPILATION, "compiler",
        "Compilation before or in the loop; a recompilation carries the attr `reason`.",
        "#034B9F", 60,
    ),
    _C(
        "first_step_warmup", "First-step warm-up", Area.COMPILATION, "compiler",
        "The excess of the first step after a start over the attempt's usual speed (inferred).",
        "#3DA3F2", 61, is_given=True,
    ),
    _C(
        "effective_training", "Effective training", Area.EFFECTIVE, None,
        "Training on new data.", "#009E73", 70, is_given=True,
    ),
    _C(
        "repeated_training", "Repeated training", Area.WASTED_TRAINING, "reliability",
        "Training on data that the job had trained before, after a rollback.", "#E859A1", 80,
        is_given=True,
    ),
    _C(
        "checkpoint_save", "Checkpoint save (blocking)", Area.WASTED_TRAINING, "checkpointing",
        "The loop waited for a save; the asynchronous upload is not counted.", "#A36AB9", 90,
    ),
    _C(
        "data_stall", "Data stall", Area.WASTED_TRAINING, "data ingestion",
        "The loop waited for data.", "#7A4DF2", 100,
    ),
    _C(
        "evaluation", "Evaluation", Area.WASTED_TRAINING, "model team",
        "Evaluation that blocked the loop.", "#78CCAC", 110,
    ),
    _C(
        "stalled", "Stalled", Area.WASTED_TRAINING, "reliability",
        "A hang or an extreme straggler, declared or inferred.", "#81300C", 120,
    ),
    _C(
        "failure_detection", "Failure detection", Area.RECOVERY, "reliability",
        "From the last progress to the end of a failed attempt.", "#BE4F0F", 130,
    ),
    _C(
        "restart_gap", "Restart gap", Area.RECOVERY, "reliability",
        "Between attempts with the GPUs kept; restarts and rollbacks inside an attempt.",
        "#FF8693", 140,
    ),
    _C(
        "requeue_wait", "Requeue wait", Area.RECOVERY, "scheduler",
        "Between attempts, the GPUs released.", "#ADBDCD", 150, is_given=True,
    ),
    _C(
        "model_publish", "Model publish", Area.SHUTDOWN, "publishing",
        "A snapshot was made while GPUs were held.", "#43D3FF", 160,
    ),
    _C(
        "teardown", "Teardown", Area.SHUTDOWN, "launcher",
        "The rest of the shutdown.", "#3C79D8", 170,
    ),
    _C(
        "unattributed", "Unattributed", Area.UNATTRIBUTED, "observability",
        "Nobody claimed it.", "#4D4D4D", 180, is_given=True,
    ),
)  # fmt: skip

EFFECTIVE = "effective_training"
REPEATED = "repeated_training"
WARMUP = "first_step_warmup"
STALLED = "stalled"
COMPILE = "compile"
RESTART_GAP = "restart_gap"
REQUEUE_WAIT = "requeue_wait"
FAILURE_DETECTION = "failure_detection"
TEARDOWN = "teardown"
UNATTRIBUTED = "unattributed"


@dataclass(frozen=True)
class Taxonomy:
    """The components of one site: the built-in ones, its children, and its owners' names.

    `model_owners` maps (model, component) to an owner, `prices` a cluster to the price of one
    GPU-hour (key `default` for the rest) in `currency`.
    """

    components: Mapping[str, Component] = field(
        default_factory=lambda: {c.key: c for c in COMPONENTS}
    )
    model_owners: Mapping[tuple[str, str], str] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    currency: str = "USD"

    def __iter__(self) -> Iterator[Component]:
        """Components in taxonomy order."""
        return iter(sorted(self.components.values(), key=lambda c: (c.order, c.key)))

    def __getitem__(self, key: str) -> Component:
        """The component, or a RegistryError that names the nearest known key."""
        try:
            return self.components[key]
        except KeyError:
            raise RegistryError(self.unknown(key)) from None

    def owner_of(self, key: str, model: str | None) -> str | None:
        """Who owns a component: of this model, where the site names one for it."""
        return self.model_owners.get((model or "", key), self[key].owner)

    def unknown(self, key: str) -> str:
        """Why `key` is no component here, with the nearest one that is."""
        return f"unknown component '{key}': {nearest(key, self.components)}"

    @property
    def phases(self) -> frozenset[str]:
        """The keys that a log may claim as `phase`."""
        return frozenset(c.key for c in self.components.values() if not c.is_given)

    def with_child(
        self, key: str, *, label: str, owner: str | None, definition: str, colour: str | None = None
    ) -> Taxonomy:
        """Add `parent.child`; it takes the parent's area, and its owner where none is given."""
        parent = self[key.rpartition(".")[0]]
        child = replace(
            parent,
            key=key,
            label=label,
            owner=owner or parent.owner,
            definition=definition,
            colour=colour or parent.colour,
            is_given=False,
        )
        return replace(self, components={**self.components, key: child})


DEFAULT = Taxonomy()
