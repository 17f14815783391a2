"""One long job as the entries that ml-goodput-measurement records, one JSON object per line."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

JOB = "long-job"
AS_OF_MS = 1_798_761_600_000  # 1 January 2027, when it has ended
_START = 1_782_864_000.0  # 1 July 2026
_STEP_S = 0.8
_STEPS_PER_LIFE = 50_000
_STEPS_PER_SAVE = 500
_STEPS_PER_EVALUATION = 10_000


def write_entries(path: Path, *, steps: int, has_evaluations: bool, seed: int) -> int:
    """A job that trains to step `steps`, is broken every 50 000 steps and repeats up to 500.

    Every attempt records its initialisation; saves block for 1.5 s; with `has_evaluations` the
    loop stops each 10 000 steps for an evaluation (a custom badput event). Returns the entries.
    """
    story = _Story(Random(seed), has_evaluations=has_evaluations)
    saved = 0
    while saved < steps:
        goal = min(saved + _STEPS_PER_LIFE, steps)
        saved = story.live(saved, goal, is_last=goal == steps)
    text = "\n".join(json.dumps({"job_name": JOB, **entry}) for entry in story.entries)
    path.write_text(text + "\n", encoding="utf-8")
    return len(story.entries)


class _Story:
    """The entries so far; `now` in seconds."""

    def __init__(self, rng: Random, *, has_evaluations: bool) -> None:
        self.rng = rng
        self.has_evaluations = has_evaluations
        self.now = _START
        self.entries: list[dict[str, object]] = []

    def say(self, **entry: object) -> None:
        self.entries.append(entry)

    def wait(self, seconds: float) -> float:
        """Let time pass, in whole milliseconds; returns when it has."""
        self.now = round(self.now + seconds, 3)
        return self.now

    def live(self, first: int, goal: int, *, is_last: bool) -> int:
        """One attempt from step `first` to `goal`; returns the step that was saved last."""
        self.say(job_start_time=self.now)
        for name, seconds in (("tpu_init", 30), ("training_prep", 60), ("data_loading", 20)):
            self.say(**{f"{name}_start_time": self.now})
            self.say(**{f"{name}_end_time": self.wait(seconds)})
        saved = first
        for step in range(first, goal):
            self.say(step_count=step, step_start_time=self.now)
            self.wait(_STEP_S * self.rng.uniform(0.97, 1.03) + (60 if step == first else 0))
            if step > first and step % _STEPS_PER_SAVE == 0:
                saved = step
                self._save(step)
            if self.has_evaluations and step > first and step % _STEPS_PER_EVALUATION == 0:
                self._evaluate()
        if is_last:
            self.say(job_end_time=self.wait(30))
            return goal
        self.wait(self.rng.uniform(60, 900))
        return saved

    def _save(self, step: int) -> None:
        begin = self.now
        self.wait(1.5)
        self.say(
            step=step,
            event_type="save",
            checkpoint_manager_blocking_start_time=begin,
            checkpoint_manager_blocking_duration_secs=1.5,
            checkpointer_blocking_duration_secs=1.2,
            wait_for_prev_duration_secs=0.2,
            get_old_steps_duration_secs=0.1,
            directory="gs://bucket/checkpoints",
        )

    def _evaluate(self) -> None:
        kind = {"custom_badput_event_type": "eval_step"}
        self.say(**kind, custom_badput_event_start_time=self.now)
        self.say(**kind, custom_badput_event_end_time=self.wait(45))
