"""The course of one training job: its attempts, how they start, how they end, what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipelines.taxonomy import Cause, Outcome
from simulator.book import EndOfTimeError
from simulator.incidents import (
    Incident,
    Recovery,
    next_incident,
    own_failure,
    start_up_failure,
    time_limit,
)
from simulator.intents import DAY_MS, LOW, Ending, Intent, countable_ms
from simulator.life import DEAD_AFTER_MS, NEVER, StruckError
from simulator.loop import Disturbance, Loop
from simulator.pace import Pace, is_told
from simulator.scenario import Scenario, phase
from simulator.startup import COMPILE, Kind, start_up
from simulator.truth import JobTruth

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from simulator.logs import Pen

_PUBLISH = phase("model_publish")
_RANK_LAG_MS = 3
_SAYS_NOTHING_RATIO = 0.15
_SAYS_PREEMPTION_RATIO = 0.5
_RESIZE_RATIO = 0.4
_COMPILES_FIRST_RATIO = 0.5
_OMITS_GPUS_RATIO = 0.2
_SIZES = ((1, 1), (1, 2), (5, 8))
_LONGEST_FILING_MS = 2000


@dataclass(frozen=True, slots=True)
class _Next:
    """The attempt to come: when, on how many GPUs, and whether they are kept meanwhile."""

    start: int
    gpus: int
    is_held: bool


class Course(Loop):
    """One training job from its submission to its end or the end of time.

    After `run`, `publish_from` is when a job of its own publishes the model, or None.
    """

    def __init__(
        self,
        intent: Intent,
        scenario: Scenario,
        pen: Pen,
        *,
        as_of: int,
        log_every: int,
        rng: Random,
    ) -> None:
        super().__init__(intent, scenario, pen, as_of=as_of, log_every=log_every, rng=rng)
        self.publish_from: int | None = None
        self.paces: list[Pace] = []
        self._publishes_itself = rng.random() >= scenario.standalone_publish_ratio
        self._tries = intent.crashes
        self._started = 0
        self._ended: Outcome | None = None
        self._is_held = False
        self._last_gpus: int | None = None

    def run(self) -> JobTruth:
        """Live the job and say what truly happened."""
        intent = self.intent
        try:
            dimensions = {"model": intent.model, "team": intent.team, "priority": intent.priority}
            self._submit(intent.submitted_ms, intent.queue_ms, dimensions)
            while (following := self._attempt()) is not None:
                self._await(following)
            self.book.finish(self._ended or Outcome.UNKNOWN, is_censored=False)
        except EndOfTimeError:
            self.finish_uploads(min(self.as_of, self.struck_at))
            self.leave_uploads_open()
            self._cut_off(ended=self._ended)
        if not all(is_told(pace, self.paces) for pace in self.paces):
            self.doubts.add("its speed does not show")
        return JobTruth(
            cluster=intent.cluster.name,
            job_id=intent.job_id,
            model=intent.model,
            team=intent.team,
            gpus=intent.gpus,
            queue_wait_ms=self.queue_wait_ms,
            hidden_ms=self.hidden_ms,
            doubts=frozenset(self.doubts),
            book=self.book,
        )

    def _attempt(self) -> _Next | None:
        """One attempt; the one that follows it, if any."""
        self._start_attempt()
        kind = Kind.HELD if self._is_held else Kind.FRESH
        while True:
            try:
                first = self._start_up(kind)
                self._enter_loop(kind)
                self.train(first)
                return self._wind_up()
            except StruckError:
                incident = self._struck_by()
                if incident.recovery is not Recovery.INSIDE or self.book.last_mark is None:
                    return self._break_down(incident)
                self._restart_inside(incident)
                kind = Kind.INSIDE

    def _start_attempt(self) -> None:
        now, habits = self.book.now, self.intent.habits
        number = 0 if self.book.last_attempt is None else self.book.last_attempt + 1
        is_same = self._last_gpus == self.gpus
        self.pen.attempt = number
        self.book.open_attempt(number, self.gpus)
        self._started, self._ended, self._is_alarmed, self._has_warned = now, None, False, False
        per_step = habits.batch * self.gpus or 1
        step_ms = countable_ms(self.intent.step_ms, habits.batch * self.gpus)
        self.pace = Pace(step_ms, per_step, habits.is_jittery)
        self.paces.append(self.pace)
        target = self.intent.stop_step * (habits.batch * self.intent.gpus or 1)
        self.goal = self.step + -(-(target - self.position) // per_step)
        fields: dict[str, object] = {"held": True} if self._is_held else {}
        if not is_same or self.rng.random() >= _OMITS_GPUS_RATIO:
            fields["gpus"] = self.gpus
        self.pen.say_scheduler(now, "attempt_started", **fields)

    def _start_up(self, kind: Kind) -> Disturbance:
        """Bring everything up; what is left to befall the first step."""
        now, habits = self.book.now, self.intent.habits
        length, attrs = self._compilation()
        is_before = habits.says_compile and self.rng.random() < _COMPILES_FIRST_RATIO
        spans, ready = start_up(
            self.scenario,
            kind,
            start=now,
            gpus=self.gpus,
            compile_ms=(length, attrs) if is_before else None,
            restores=self.step > 0,
            says_parent=habits.says_parent,
            rng=self.rng,
        )
        if kind is not Kind.INSIDE:
            self._expect_incident(ready)
        self._play(spans, ready)
        if is_before:
            return Disturbance()
        if habits.says_compile:
            return Disturbance(phase=COMPILE, length=length, attrs=attrs)
        return Disturbance(warmup=length)

    def _compilation(self) -> tuple[int, Mapping[str, str]]:
        """Length and attributes; a cache made for another world size is no help."""
        scenario, rng = self.scenario, self.rng
        is_first = len(self.paces) == 1
        is_same = is_first or self.pace.batch == self.paces[-2].batch
        ratio = scenario.warm_first_ratio if is_first else scenario.warm_restart_ratio
        is_warm = is_same and rng.random() < ratio
        length = scenario.compile_warm if is_warm else scenario.compile_cold
        return length.draw_ms(rng, self.gpus), {"cache_hit": "true" if is_warm else "false"}

    def _expect_incident(self, ready: int) -> None:
        now, rng = self.book.now, self.rng
        self.strike_with(self._next_incident())
        if rng.random() < self.scenario.start_up_failure_ratio:
            early = start_up_failure(self.scenario, start=now, ready=ready, rng=rng)
            if early.at_ms < self.struck_at:
                self.strike_with(early)

    def _next_incident(self) -> Incident:
        return next_incident(
            self.scenario,
            self.intent,
            gpus=self.gpus,
            now=self.book.now,
            limit_ms=time_limit(self.scenario, self._started),
            rng=self.rng,
        )

    def _enter_loop(self, kind: Kind) -> None:
        now = self.book.now
        fields: dict[str, object] = {"step": self.step}
        if self.intent.habits.batch:
            fields["samples"] = self.position
        for rank in self.pen.ranks or (None,):
            at = now + (rank or 0) * _RANK_LAG_MS
            own = fields if rank is None else {**fields, "rank": rank}
            if at <= self.as_of:
                self.pen.say(at, "train_begin", **own)
        self.book.mark_entry()
        self._is_alarmed = False
        if kind is Kind.INSIDE:
            self.strike_with(self._next_incident())

    def _wind_up(self) -> _Next | None:
        """The goal is reached."""
        ending = self.intent.ending
        if ending is Ending.FAILED:
            self._tries -= 1
            now = self.book.now
            self.strike_with(own_failure(self.intent, now=now, tries=self._tries, rng=self.rng))
            self._open_phase = None
            raise StruckError
        if ending is Ending.SILENT:
            self._vanish()
        elif ending is Ending.CANCELLED:
            self._leave(Outcome.CANCELLED)
        else:
            self._conclude()
        return None

    def _conclude(self) -> None:
        """The last evaluation and save, and the model's publication."""
        if not self.durable or self.durable[-1].step < self.step:
            self.evaluate()
            self.save()
        if self.intent.publishes and self._publishes_itself:
            self._run(_PUBLISH, self.scenario.publish.draw_ms(self.rng, self.gpus))
        self._leave(Outcome.SUCCEEDED)
        if self.intent.publishes and not self._publishes_itself:
            self.publish_from = self.book.now

    def _leave(self, outcome: Outcome) -> None:
        """Tear down and end for good."""
        teardown = self.scenario.teardown.draw_ms(self.rng, self.gpus)
        self.finish_uploads(self.book.now)
        self.book.claim(None, self.book.now + teardown)
        self.finish_uploads(self.book.now)
        self.abort_uploads()
        self._close(outcome)
        filed = self.book.now
        if self.intent.habits.says_last_end:
            self.pen.say_scheduler(filed, "attempt_ended", outcome=outcome)
            filed += self.rng.randint(0, _LONGEST_FILING_MS)
        self._file(filed, outcome)

    def _vanish(self) -> None:
        """The launcher dies with its last line, and the scheduler does not say so."""
        self.finish_uploads(self.book.now)
        self.leave_uploads_open()
        self._count(Cause.UNKNOWN)
        self._close(Outcome.FAILED)
        self.book.flags.add("presumed_dead")
        if self.as_of - self.book.now < DEAD_AFTER_MS:
            self.doubts.add("dead for so short a time that it may still be alive")

    def _close(self, outcome: Outcome) -> None:
        self.book.close_attempt(outcome)
        self._ended = outcome

    def _file(self, at: int, outcome: Outcome) -> None:
        if at <= self.as_of:
            self.pen.say_scheduler(at, "job_finished", outcome=outcome)

    def _struck_by(self) -> Incident:
        if self.incident is None:
            raise ValueError("struck by nothing")
        return self.incident

    def _detect(self, incident: Incident) -> None:
        """Until the failure is noticed, everybody waits for what was open."""
        self.finish_uploads(self.book.now)
        self.book.claim(self._open_phase, self._noticed_at(incident))
        self._open_phase = None
        self.pen.say(self.book.now, "interruption", **_cause_of(incident))
        self._is_alarmed = True
        self._count(incident.cause)

    def _noticed_at(self, incident: Incident) -> int:
        """A preemption or a time limit is known at once; a failure is not."""
        if incident.outcome is not Outcome.FAILED:
            return self.book.now
        return self.book.now + self.scenario.detection.draw_ms(self.rng, self.gpus)

    def _restart_inside(self, incident: Incident) -> None:
        self._detect(incident)
        self.abort_uploads()
        self.roll_back()
        self.incident, self.struck_at = None, NEVER

    def _break_down(self, incident: Incident) -> _Next | None:
        """The attempt ends by `incident`; the one that follows, if any."""
        is_said = self._says_interruption(incident)
        if is_said:
            self._detect(incident)
        else:
            self._die_unsaid(incident)
        self.abort_uploads()
        self.struck_at = NEVER
        if incident.is_announced and self._can_save():
            self.save()
        following = self._following(incident)
        if not (is_said and self._says_no_end(incident, following)):
            following = self._release(incident, following)
        self._open_phase = None
        self._close(incident.outcome)
        if following is None:
            self._file(self.book.now, incident.outcome)
            return None
        self.roll_back()
        return following

    def _says_interruption(self, incident: Incident) -> bool:
        """Is there a line of its own? There must be one where another would be taken for it."""
        if incident.announced_ms is not None:
            last_mark = self.book.last_mark or 0
            return last_mark - incident.announced_ms > DEAD_AFTER_MS
        if self._has_warned:
            return True
        if incident.outcome is Outcome.TIMED_OUT:
            return False
        says = 1 - _SAYS_NOTHING_RATIO
        if incident.outcome is Outcome.PREEMPTED:
            says = _SAYS_PREEMPTION_RATIO
        return self.rng.random() < says

    def _die_unsaid(self, incident: Incident) -> None:
        """The same as `_detect` without a line: what was open stays so to the attempt's end."""
        self.finish_uploads(self.book.now)
        self.book.claim(self._open_phase, self._noticed_at(incident))

    def _release(self, incident: Incident, following: _Next | None) -> _Next | None:
        """The hardware is given back, and the scheduler says so: all that follows is later."""
        length = self.scenario.release.draw_ms(self.rng, self.gpus)
        self.book.claim(self._open_phase, self.book.now + length)
        if not incident.is_announced and not self._is_alarmed:
            self._count(incident.cause)
        cause = {} if incident.outcome is Outcome.TIMED_OUT else _cause_of(incident)
        self.pen.say_scheduler(self.book.now, "attempt_ended", outcome=incident.outcome, **cause)
        return following and replace(following, start=following.start + length)

    def _says_no_end(self, incident: Incident, following: _Next | None) -> bool:
        """Some launchers die without a word; the interruption is then the last line."""
        is_failure = incident.outcome is Outcome.FAILED
        if not is_failure or following is None or following.start > self.as_of:
            return False
        return self.rng.random() < self.scenario.silent_end_ratio

    def _can_save(self) -> bool:
        """Is there anything to save before the hardware goes?"""
        saved = self.durable[-1].step if self.durable else 0
        is_free = self._open_phase is None and self.book.last_mark is not None
        return is_free and self.step > saved

    def _following(self, incident: Incident) -> _Next | None:
        """The attempt after `incident`, if the hardware went now."""
        scenario, rng = self.scenario, self.rng
        if incident.recovery is Recovery.NONE:
            return None
        is_held = incident.recovery in (Recovery.HELD, Recovery.INSIDE)
        if is_held:
            gap = scenario.restart_gap.draw_ms(rng, self.gpus)
        elif self.intent.priority == LOW and rng.random() < scenario.long_requeue_ratio:
            gap = round(rng.uniform(*scenario.long_requeue_days) * DAY_MS)
        else:
            gap = scenario.requeue.draw_ms(rng, self.gpus)
        return _Next(self.book.now + gap, self._next_size(is_held=is_held), is_held)

    def _next_size(self, *, is_held: bool) -> int:
        if not self.intent.habits.is_elastic or self.rng.random() >= _RESIZE_RATIO:
            return self.gpus
        part, whole = self.rng.choice(_SIZES)
        size = self.intent.gpus * part // whole
        return min(size, self.gpus) if is_held else size

    def _await(self, following: _Next) -> None:
        """Wait for the next attempt; raises EndOfTimeError where it does not come in time."""
        kept = min(self.gpus, following.gpus) if following.is_held else None
        self.book.wait(following.start, gpus=kept)
        self._last_gpus, self.gpus = self.gpus, following.gpus
        self._is_held = following.is_held


def _cause_of(incident: Incident) -> dict[str, str]:
    return {} if incident.cause is Cause.UNKNOWN else {"cause": incident.cause}
