"""Makers of hostile jobs in the lifecycle format: plain random ones by the thousand, and hypothesis.

A job is first told as a coherent story or as pure noise, then damaged: lines are lost, doubled,
moved, renumbered, and handed to other ranks. Times lie on a coarse grid, so that many events meet
at one millisecond.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from pipelines.taxonomy import COMPONENTS, Cause, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

MIDNIGHT = 1_764_547_200_000  # 2025-12-01T00:00:00Z

PHASES = [c.key for c in COMPONENTS if not c.is_given]
START_UP = ["scheduling", "hardware_setup", "launcher_init", "checkpoint_restore", "compile"] + [
    key for key in PHASES if key.startswith("trainer_init")
]
IN_LOOP = ["checkpoint_save", "data_stall", "evaluation", "stalled", "compile", "restart_gap"]
OUTCOMES = [o.value for o in Outcome] + ["exploded"]
CAUSES = [c.value for c in Cause] + ["gremlins"]
HOSTS = ["a", "b"]

Event = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """`unit`: ms of one tick of the grid; `dead_after` in ms; `step`: usual ticks of a step."""

    name: str
    unit: int
    dead_after: int
    step: tuple[int, ...]
    long_step: tuple[int, ...]


TINY = Scale("tiny", unit=1, dead_after=12, step=(1, 2, 3), long_step=(5, 9))
SECONDS = Scale("seconds", 1000, 1_800_000, step=(10, 10, 10, 11, 12), long_step=(35, 71, 90, 400))
HOURS = Scale("hours", 60_000, 1_800_000, step=(10, 10, 11), long_step=(25, 60, 800))
SCALES = (TINY, SECONDS, HOURS)


@dataclass(frozen=True)
class Fleet:
    """The lines of one batch of jobs, and how they are to be accounted."""

    lines: list[Event]
    as_of: int
    dead_after: int


class Story:
    """Tells one job: a clock in ticks, the lines so far, and how the teller likes to tell."""

    def __init__(self, random: Random, job_id: str, scale: Scale) -> None:
        self.random = random
        self.scale = scale
        self.job = {"job_id": job_id}
        if random.random() < 0.1:
            self.job["cluster"] = random.choice(["east", "west", "default"])
        self.zero = MIDNIGHT - scale.unit * random.choice([0, 3, 20, 100])
        self.now = random.randrange(4)
        self.lines: list[Event] = []
        self.is_numbered = random.random() < 0.5
        self.in_samples = random.random() < 0.4
        self.ranks = random.choice([1, 1, 1, 2, 3])
        self.attempt = 0
        self.step = random.choice([0, 0, 0, 7])
        self.offset = 0  # steps are numbered anew where samples count on (elastic jobs)
        self.batch = random.choice([1, 3, 10**13])

    def flip(self, chance: float) -> bool:
        return self.random.random() < chance

    def wait(self, *ticks: int) -> None:
        self.now += self.random.choice(ticks)

    def say(self, event: str, *, back: int = 0, **fields: Any) -> None:
        """A line at the clock (or `back` ticks before it)."""
        line = {"ts": self.zero + (self.now - back) * self.scale.unit, "event": event, **self.job}
        if self.is_numbered and event not in ("job_submitted", "job_finished"):
            line["attempt"] = self.attempt
        self.lines.append(line | {k: v for k, v in fields.items() if v is not None})

    def everywhere(self, event: str, **fields: Any) -> None:
        """The same line from one or all ranks, some of them a little earlier."""
        if self.ranks == 1:
            self.say(event, **fields)
            return
        for rank in range(self.ranks):
            if self.flip(0.8):
                host = self.random.choice([None, *HOSTS]) if self.flip(0.2) else None
                back = self.random.choice([0, 0, 0, 1])
                self.say(event, back=back, rank=rank, host=host, **fields)

    def mark(self, event: str) -> None:
        samples = self.step * self.batch if self.in_samples and self.flip(0.99) else None
        self.everywhere(event, step=max(self.step + self.offset, 0), samples=samples)

    def phase(self, key: str, *ticks: int) -> None:
        """A phase with perhaps another inside it or over its end; ends get lost."""
        span_id = self.random.choice([None, None, "s", f"s{self.now}"])
        blocking = self.random.choice([None, None, None, True, False])
        self.everywhere("phase_begin", phase=key, span_id=span_id, blocking=blocking)
        if self.flip(0.25):
            self.wait(0, 1)
            self.phase(self.random.choice(PHASES), *ticks)
        self.wait(*ticks)
        if self.flip(0.9):
            self.everywhere("phase_end", phase=key, span_id=span_id)

    def interruption(self) -> None:
        for _ in range(self.random.choice([1, 1, 2])):
            cause = self.random.choice([None, *CAUSES])
            self.say("interruption", cause=cause, back=self.random.choice([0, 0, 1, 2, 9]))

    def contradict(self, event: str, fields: Callable[[], Event]) -> None:
        """The same thing said by one emitter, or by several that do not agree."""
        rank, host = None, None
        for _ in range(self.random.choice([1, 1, 1, 1, 2, 3])):
            self.say(event, back=self.random.choice([0, 0, 0, 1]), rank=rank, host=host, **fields())
            rank, host = self.random.choice([None, 0, 1]), self.random.choice([None, *HOSTS])


def tell_attempt(story: Story) -> None:
    """One launch: start-up, the loop with its troubles, an end."""
    if story.flip(0.93):
        story.contradict("attempt_started", lambda: granted(story.random))
    for _ in range(story.random.choice([0, 0, 1, 2, 3])):
        story.wait(0, 0, 1, 2)
        story.phase(story.random.choice(START_UP), 0, 1, 3)
    if story.flip(0.85):
        tell_loop(story)
    story.wait(0, 0, 1, 3)
    if story.flip(0.3):
        story.interruption()
    story.wait(0, 1, 3)
    if story.flip(0.7):
        story.contradict("attempt_ended", lambda: ended(story.random))


def granted(random: Random) -> Event:
    return {
        "gpus": random.choice([None, 0, 1, 8, 64]),
        "held": random.choice([None, False, True]),
        "model": random.choice([None, "m1"]),
    }


def ended(random: Random) -> Event:
    return {"outcome": random.choice([None, *OUTCOMES]), "cause": random.choice([None, *CAUSES])}


def tell_loop(story: Story) -> None:
    if story.flip(0.85):
        story.mark("train_begin")
        if story.flip(0.15):
            blocking = story.random.choice([False, False, True, None])
            story.say("phase_begin", phase="compile", blocking=blocking)
        if story.flip(0.4):
            story.wait(*story.scale.long_step)
    for _ in range(story.random.choice([0, 1, 2, 5, 9])):
        tell_trouble(story)
        is_long = story.flip(0.12)
        story.wait(*(story.scale.long_step if is_long else story.scale.step))
        story.step += story.random.choice([1, 1, 1, 1, 2, 3])
        story.mark("step")


def tell_trouble(story: Story) -> None:
    """What may happen between two steps."""
    if story.flip(0.15):
        story.phase(story.random.choice(IN_LOOP), *story.scale.step, 0)
    if story.flip(0.07):
        story.interruption()
    if story.flip(0.15):
        story.say("checkpoint_durable", step=max(story.step - story.random.choice([0, 1, 3]), 0))
    if story.in_samples and story.flip(0.1):
        story.offset -= story.random.choice([1, 2, 5])
    if story.flip(0.12):
        story.wait(0, 1, 2)
        story.step = max(story.step - story.random.choice([0, 0, 1, 2, 5]), 0)
        story.mark(story.random.choice(["train_begin", "train_begin", "step"]))


def tell_run(story: Story) -> None:
    """One run of an id: queued, launched a few times, perhaps declared finished."""
    if story.flip(0.5):
        story.say("job_submitted", team=story.random.choice([None, "t1"]))
    story.wait(0, 0, 1, 4)
    for _ in range(story.random.choice([0, 1, 1, 2, 2, 3, 4])):
        tell_attempt(story)
        story.attempt += story.random.choice([1, 1, 1, 1, 2, 0])
        story.wait(0, 0, 1, 3, 8, -3)
        story.step = max(story.step - story.random.choice([0, 1, 2, 4, -2]), 0)
    if story.flip(0.5):
        story.contradict("job_finished", lambda: ended(story.random))


def story_of(random: Random, job_id: str, scale: Scale) -> list[Event]:
    story = Story(random, job_id, scale)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        tell_run(story)
        if random.random() < 0.7:
            story.attempt, story.step = 0, 0
        story.wait(0, 0, 1, 5)
    return story.lines


def noise(random: Random, job_id: str, scale: Scale) -> list[Event]:
    """Lines of every kind, without any sense, on a few milliseconds."""
    story = Story(random, job_id, scale)
    story.is_numbered = False
    ticks = random.choice([3, 8, 25, 90])
    kinds: list[tuple[str, Callable[[], Event]]] = [
        ("job_submitted", dict),
        ("attempt_started", lambda: {"gpus": random.choice([1, 4]), "held": random.random() < 0.3}),
        ("attempt_ended", lambda: {"outcome": random.choice(OUTCOMES)}),
        ("interruption", lambda: {"cause": random.choice(CAUSES)}),
        ("checkpoint_durable", lambda: {"step": random.randrange(8)}),
        ("job_finished", lambda: {"outcome": random.choice(OUTCOMES)}),
    ]
    training: list[tuple[str, Callable[[], Event]]] = [
        ("train_begin", lambda: marked(random, story)),
        ("step", lambda: marked(random, story)),
        ("phase_begin", lambda: {"phase": random.choice(few), "blocking": random.random() < 0.7}),
        ("phase_end", lambda: {"phase": random.choice(few)}),
    ]
    few = [*random.sample(PHASES, 3), "trainer_init", "compile"]
    for _ in range(random.choice([2, 6, 15, 30])):
        story.now = random.randrange(ticks)
        event, fields = random.choice(random.choice([kinds, training, training]))
        extra = fields()
        if random.random() < 0.3:
            extra["attempt"] = random.choice([0, 0, 1, 2])
        if random.random() < 0.2:
            extra["rank"] = random.randrange(3)
        story.say(event, **extra)
    return story.lines


def marked(random: Random, story: Story) -> Event:
    step = random.randrange(9)
    return {"step": step} | ({"samples": random.randrange(40)} if story.in_samples else {})


def damaged(random: Random, lines: list[Event], unit: int) -> list[Event]:
    """The lines as a bad network and bad clocks would deliver them."""
    out = []
    for line in lines:
        luck = random.random()
        if luck < 0.03:
            continue
        if luck < 0.06:
            out.append(dict(line))
        if luck > 0.97:
            line["ts"] += unit * random.choice([-9, -2, -1, 1, 2, 30])
        elif luck > 0.95:
            line["attempt"] = random.choice([0, 1, 2, 3])
        elif luck > 0.93:
            line.pop("attempt", None)
        elif luck > 0.92:
            line["rank"] = random.choice([0, 1, 5])
        elif luck > 0.91:
            line["host"] = random.choice(HOSTS)
        elif luck > 0.90:
            line["attrs"] = {"writer": random.choice(HOSTS)}
        out.append(line)
    return out


def job(random: Random, job_id: str = "job", scale: Scale | None = None) -> list[Event]:
    """The lines of one small hostile job, in no order; all times are integer epoch ms."""
    scale = scale or random.choice(SCALES)
    tell = noise if random.random() < 0.3 else story_of
    lines = tell(random, job_id, scale)
    if random.random() < 0.6:
        lines = damaged(random, lines, scale.unit)
    if scale is not TINY and random.random() < 0.5:
        lines = [{**line, "ts": line["ts"] + random.choice([0, 0, 0, 1, 333])} for line in lines]
    random.shuffle(lines)
    return lines


def jobs(seed_or_random: int | Random, count: int = 1, scale: Scale | None = None) -> list[Event]:
    """The shuffled lines of `count` hostile jobs (`job-0`, `job-1`, …)."""
    random = seed_or_random if isinstance(seed_or_random, Random) else Random(seed_or_random)
    lines = [line for i in range(count) for line in job(random, f"job-{i}", scale)]
    random.shuffle(lines)
    return lines


def fleet(seed_or_random: int | Random, count: int = 1, scale: Scale | None = None) -> Fleet:
    """`count` jobs of one scale with an `as_of` that some outlive and a fitting `dead_after`."""
    random = seed_or_random if isinstance(seed_or_random, Random) else Random(seed_or_random)
    scale = scale or random.choice(SCALES)
    lines = jobs(random, count, scale)
    times = sorted(line["ts"] for line in lines) or [MIDNIGHT]
    late = times[random.choice([len(times) // 2, (len(times) * 9) // 10, -1, -1])]
    as_of = late + random.choice([0, 1, scale.unit, scale.dead_after - 1, scale.dead_after])
    return Fleet(lines, as_of=as_of, dead_after=scale.dead_after)


BROKEN = [
    "{", "[]", "null", "7", '{"ts": NaN, "event": "step", "job_id": "j", "step": 1}',
    '{"ts": 1764547200000, "event": "heartbeat", "job_id": "j"}',
    '{"ts": 1764547200, "event": "job_submitted", "job_id": "j"}',
    '{"ts": "2025-12-01T00:00:60Z", "event": "job_submitted", "job_id": "j"}',
    '{"ts": 1764547200000, "event": "phase_end", "phase": "unattributed", "job_id": "j"}',
    '{"ts": 1764547200000, "event": "step", "step": 9223372036854775808, "job_id": "j"}',
]  # fmt: skip


def spelled(random: Random, line: Event) -> str:
    """The line as JSON text: its time in any of the allowed forms, nulls, keys in any order."""
    moment = datetime.fromtimestamp(line["ts"] // 1000, UTC)
    ms = f"{line['ts'] % 1000:03}"
    ahead = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    forms = [
        line["ts"],
        line["ts"] / 1000,
        f"{moment:%Y-%m-%dT%H:%M:%S}.{ms}Z",
        f"{ahead:%Y-%m-%dT%H:%M:%S}.{ms}00+05:30",
    ]
    fields = {**line, "ts": random.choice(forms)}
    if random.random() < 0.2:
        fields = dict.fromkeys(["rank", "cluster", "span_id", "gpus", "attrs"]) | fields
    items = list(fields.items())
    random.shuffle(items)
    return json.dumps(dict(items))


def as_written(random: Random, lines: list[Event], broken: int = 0) -> list[str]:
    """The lines as a file of many writers has them, and `broken` rejects among them."""
    texts = [spelled(random, line) for line in lines]
    texts += [random.choice(BROKEN) for _ in range(broken)]
    random.shuffle(texts)
    return texts


def event_lists(scale: Scale | None = None) -> st.SearchStrategy[list[Event]]:
    """Hypothesis: the lines of one hostile job; every choice is drawn, so failures shrink."""
    return st.randoms(use_true_random=False).map(lambda random: job(random, scale=scale))


def fleets(count: int = 1, scale: Scale | None = None) -> st.SearchStrategy[Fleet]:
    """Hypothesis: small batches with their `as_of` and `dead_after`."""
    return st.randoms(use_true_random=False).map(lambda random: fleet(random, count, scale))
