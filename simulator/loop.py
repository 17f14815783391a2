"""The training loop of a job: steps, what disturbs them, checkpoints and evaluations."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.taxonomy import EFFECTIVE, REPEATED, STALLED, WARMUP, Cause
from simulator.intents import DAY_MS, Ending, Intent
from simulator.life import NEVER, Life, StruckError
from simulator.pace import JITTER, Pace
from simulator.scenario import Scenario, phase
from simulator.startup import COMPILE, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from simulator.incidents import Incident
    from simulator.logs import Pen

SAVE = phase("checkpoint_save")
EVALUATION = phase("evaluation")
_DATA_STALL = phase("data_stall")
_STALLED = phase(STALLED)
_LINES_AT_ONCE = 8192
_STALL_FLOOR_MS = 60_000
_KEPT_CHECKPOINTS = 2
_FLAP_CAUSES = (Cause.NETWORK, Cause.STORAGE, Cause.SERVICE)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What makes one log interval unlike the others.

    Milliseconds of `warmup` at its start, of `hang` at its end, of `slowness` spread over its
    steps, and a `phase` of `length` that begins after `offset` of its other time.
    """

    warmup: int = 0
    hang: int = 0
    slowness: int = 0
    phase: str | None = None
    offset: int = 0
    length: int = 0
    attrs: Mapping[str, str] | None = None

    @property
    def extra_ms(self) -> int:
        """How much longer it makes the interval, the phase left out."""
        return self.warmup + self.hang + self.slowness


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved position; `begin` to `end`: its way to storage."""

    step: int
    position: int
    begin: int
    end: int


class Loop(Life):
    """A job that trains.

    `step` is the last completed one, `position` its place in the data (samples where marks carry
    them, else steps), `high` the furthest place ever trained to, `goal` the step to stop at.
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
        super().__init__(pen, as_of=as_of, rng=rng)
        self.intent = intent
        self.scenario = scenario
        self.gpus = intent.gpus
        self.step = self.position = self.high = self.goal = 0
        self.pace = Pace(intent.step_ms, 1, intent.habits.is_jittery)
        self.incident: Incident | None = None
        self.durable: list[Checkpoint] = []
        self.hidden_ms: int | None = 0
        self._uploads: list[Checkpoint] = []
        self._log_every = log_every
        self._checkpoint_every = self._steps_of(scenario.checkpoint_seconds(intent.gpus))
        self._evaluation_every = self._steps_of(scenario.evaluation_every_s)
        self._is_async = rng.random() < scenario.async_checkpoint_ratio
        self._has_warned = False
        self._bump_at = 0
        self._bumps = self._bump_rates()

    def train(self, first: Disturbance) -> None:
        """Train to the goal; `first` befalls the first step."""
        self._bump_at = self._next_bump()
        if self.step < self.goal:
            self._interval(1, first)
        while self.step < self.goal:
            self._advance()
            if self.step < self.goal:
                self._pause()

    def strike_with(self, incident: Incident) -> None:
        """Let `incident` be what stops the attempt."""
        self.incident = incident
        self.struck_at = incident.at_ms

    def save(self) -> None:
        """Hold the loop until the checkpoint is in storage."""
        began = self.book.now
        self._run(SAVE, self.scenario.save.draw_ms(self.rng, self.gpus))
        self._keep(Checkpoint(self.step, self.position, began, self.book.now))

    def evaluate(self) -> None:
        """Hold the loop for an evaluation."""
        self._run(EVALUATION, self.scenario.evaluation.draw_ms(self.rng, self.gpus))

    def roll_back(self) -> None:
        """Go back to the newest checkpoint that can be restored, or to the beginning."""
        if len(self.durable) > 1 and self.rng.random() < self.scenario.deep_rollback_ratio:
            self.durable.pop()
        self.step = self.durable[-1].step if self.durable else 0
        self.position = self.durable[-1].position if self.durable else 0

    def finish_uploads(self, until: int) -> None:
        """Uploads that ended by `until` are durable."""
        for upload in [u for u in self._uploads if u.end <= until]:
            self._uploads.remove(upload)
            self._say_upload(upload, upload.end, upload.end)
            self._keep(upload)

    def abort_uploads(self) -> None:
        """Uploads under way end now and come to nothing."""
        for upload in self._uploads:
            self._say_upload(upload, self.book.now, self.book.now)
        self._uploads = []

    def leave_uploads_open(self) -> None:
        """Nobody will say when the uploads under way ended."""
        for upload in self._uploads:
            self._say_upload(upload, upload.end, min(self.book.now, self.as_of))
            self.hidden_ms = None
        self._uploads = []

    def _steps_of(self, seconds: float) -> int:
        """Steps in `seconds`, in whole log intervals: a checkpoint's step is always logged."""
        lines = seconds * 1000 / (self.intent.step_ms * self._log_every)
        return max(1, round(lines)) * self._log_every

    def _bump_rates(self) -> dict[str, float]:
        scenario = self.scenario
        return {
            "slow": scenario.slow_lines_per_day,
            "data": scenario.data_stalls_per_day,
            "hang": scenario.hangs_per_day,
            "stall": scenario.stalls_per_day,
            "recompile": scenario.recompiles_per_day,
            "flap": 0.0 if self.intent.ending is Ending.SILENT else scenario.flaps_per_day,
        }

    def _next_bump(self) -> int:
        per_ms = sum(self._bumps.values()) / DAY_MS
        return self.book.now + round(self.rng.expovariate(per_ms)) if per_ms else NEVER

    def _advance(self) -> None:
        """Train up to the next stop, or to the first thing that disturbs it and through that."""
        size, count = self._next_lines()
        times = self.pace.times(self.book.now, size, count, self.rng)
        first = min(self.as_of, self.struck_at, self._bump_at, self._notice_at)
        done = bisect_right(times, first)
        if done:
            self._steady(times[:done], size)
        if done == count:
            return
        if first == self.as_of:
            self.book.claim(None, first + 1)
        elif first == self.struck_at:
            self._break_off(size)
        elif first == self._notice_at:
            self._take_notice(size)
        else:
            self._bump(size)

    @property
    def _notice_at(self) -> int:
        incident = self.incident
        if incident is None or incident.is_announced or self.intent.ending is Ending.SILENT:
            return self.struck_at
        return min(incident.notice_ms, self.struck_at)

    def _next_lines(self) -> tuple[int, int]:
        """(steps per line, lines) until the next checkpoint, evaluation or the goal."""
        step, each = self.step, self._log_every
        checkpoint = (step // self._checkpoint_every + 1) * self._checkpoint_every
        evaluation = (step // self._evaluation_every + 1) * self._evaluation_every
        stop = min(self.goal, checkpoint, evaluation)
        size = min(each - step % each, stop - step)
        return size, min((stop - step) // size, _LINES_AT_ONCE) if size == each else 1

    def _steady(self, times: Sequence[int], size: int, *, is_logged: bool = True) -> None:
        """Intervals of `size` steps end at `times`: what was trained before is repeated."""
        ahead, each = self.high - self.position, size * self.pace.batch
        if ahead <= 0:
            pieces = [(EFFECTIVE, times[-1])]
        else:
            turn = self._turn(times, ahead, each)
            pieces = [(REPEATED, turn)]
            if turn < times[-1]:
                pieces.append((EFFECTIVE, times[-1]))
        self.book.progress(pieces, times[-1])
        if self.pace.is_jittery:
            self.pace.saw_jitter(len(times))
        else:
            self.pace.saw(0, len(times))
        self._complete(times, size, is_logged=is_logged)

    def _turn(self, times: Sequence[int], ahead: int, each: int) -> int:
        """When the data trained before is used up: `ahead` positions, `each` per interval."""
        full, rest = divmod(ahead, each)
        if full >= len(times):
            return times[-1]
        begin = times[full - 1] if full else self.book.now
        return begin + rest * (times[full] - begin) // each

    def _complete(self, times: Sequence[int], size: int, *, is_logged: bool = True) -> None:
        """Intervals of `size` steps are done: write their lines."""
        count, each = len(times), size * self.pace.batch
        steps = range(self.step + size, self.step + size * count + 1, size)
        places = range(self.position + each, self.position + each * count + 1, each)
        if is_logged:
            samples = places if self.intent.habits.batch else None
            self.pen.say_steps(times, steps, samples, until=self.as_of)
        self.step, self.position = steps[-1], places[-1]
        self.high = max(self.high, self.position)

    def _interval(self, size: int, disturbance: Disturbance) -> None:
        """One log interval of `size` steps, disturbed."""
        pieces = self._pieces(size, disturbance)
        now = self.book.now
        end = now + sum(length for _, length in pieces)
        spans = _spans_of(disturbance, now)
        if end > min(self.as_of, self.struck_at):
            self._play(spans, end)
        for span in spans:
            self._say_span(span, end)
        ends = []
        for component, length in pieces:
            now += length
            ends.append((component, now))
        self.book.progress(ends, end)
        self.pace.saw(disturbance.extra_ms)
        self._note_hidden(size, disturbance)
        self._complete([end], size)

    def _pieces(self, size: int, disturbance: Disturbance) -> list[tuple[str, int]]:
        """(component, ms) of one interval in time order."""
        work, n = size * self.pace.step_ms + disturbance.slowness, size * self.pace.batch
        again = min(max(self.high - self.position, 0), n) * work // n
        free = [
            (WARMUP, disturbance.warmup),
            (REPEATED, again),
            (EFFECTIVE, work - again),
            (STALLED, disturbance.hang),
        ]
        return _with_phase([p for p in free if p[1]], disturbance)

    def _note_hidden(self, size: int, disturbance: Disturbance) -> None:
        """Overhead that no line declares shows only where it is long enough."""
        step_ms, work = self.pace.step_ms, size * self.pace.step_ms
        if not disturbance.warmup and not disturbance.hang:
            return
        self.pace.hides_overhead = True
        if disturbance.warmup and disturbance.warmup <= max(step_ms // 2, work // 10):
            self.doubts.add("a slow first step too short to show")
        if disturbance.hang and disturbance.hang <= max(4 * step_ms, work // 2, _STALL_FLOOR_MS):
            self.doubts.add("a hang too short to show")

    def _bump(self, size: int) -> None:
        kind = self.rng.choices(list(self._bumps), list(self._bumps.values()))[0]
        if kind == "flap":
            self._flap(size)
        else:
            self._uninterrupted(size, self._disturbance(kind, size))
        self._bump_at = self._next_bump()

    def _flap(self, size: int) -> None:
        """Something failed and came back by itself; not between an announcement and its event."""
        if self.incident is not None and self.incident.is_announced:
            return
        self._has_warned = True
        self._warn(size, self.rng.choice(_FLAP_CAUSES))

    def _disturbance(self, kind: str, size: int) -> Disturbance:
        rng, scenario, work = self.rng, self.scenario, size * self.pace.step_ms
        if kind == "slow":
            return Disturbance(slowness=round(work * rng.uniform(-JITTER, JITTER)))
        if kind == "hang":
            return Disturbance(hang=scenario.hang.draw_ms(rng))
        key, length, attrs = _DATA_STALL, scenario.data_stall, None
        if kind == "stall":
            key, length = _STALLED, scenario.hang
        elif kind == "recompile":
            key, length, attrs = COMPILE, scenario.compile_warm, {"reason": "new shapes"}
        offset = rng.randrange(work)
        return Disturbance(phase=key, offset=offset, length=length.draw_ms(rng), attrs=attrs)

    def _take_notice(self, size: int) -> None:
        """The incident to come is announced, and training goes on until it is there."""
        if self.incident is not None:
            self.incident.announced_ms = self._warn(size, self.incident.cause)

    def _warn(self, size: int, cause: Cause) -> int:
        """An `interruption` line inside an interval, which is trained to its end all the same."""
        work = size * self.pace.step_ms
        at = self.book.now + self.rng.randrange(work)
        if at <= self.as_of:
            self.pen.say(at, "interruption", cause=cause)
            self._count(cause)
            if self.book.now + work > self.as_of:
                self.doubts.add("a warning was the last word: it reads as a failure")
        self._uninterrupted(size, Disturbance())
        return at

    def _uninterrupted(self, size: int, disturbance: Disturbance) -> None:
        """A disturbed interval; an incident that would fall into it waits for its end."""
        work = size * self.pace.step_ms
        end = self.book.now + work + disturbance.extra_ms + disturbance.length
        if self.incident is not None and self.struck_at <= end:
            self.incident.at_ms = self.struck_at = end + 1
        self._interval(size, disturbance)

    def _break_off(self, size: int) -> None:
        """The incident falls into the next interval: its whole steps are done, the rest is lost."""
        whole = min((self.struck_at - self.book.now) // self.pace.step_ms, size - 1)
        if whole:
            is_logged = self.incident is None or not self.incident.is_abrupt
            if not is_logged:
                self.doubts.add("steps were done that were never logged")
            self._steady([self.book.now + whole * self.pace.step_ms], whole, is_logged=is_logged)
        self.book.claim(None, self.struck_at)
        raise StruckError

    def _pause(self) -> None:
        """What is due between two steps."""
        self.finish_uploads(self.book.now)
        if self.step % self._evaluation_every == 0:
            self.evaluate()
        if self.step % self._checkpoint_every == 0:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Save; asynchronously only where the upload before has ended."""
        if not self._is_async:
            self.save()
        elif not self._uploads:
            self._run(SAVE, self.scenario.snapshot.draw_ms(self.rng, self.gpus))
            now = self.book.now
            end = now + self.scenario.upload.draw_ms(self.rng, self.gpus)
            self._uploads.append(Checkpoint(self.step, self.position, now, end))

    def _keep(self, checkpoint: Checkpoint) -> None:
        where = {"step": checkpoint.step}
        if self.intent.habits.batch:
            where["samples"] = checkpoint.position
        self.pen.say(checkpoint.end, "checkpoint_durable", **where)
        self.durable = [*self.durable, checkpoint][-_KEPT_CHECKPOINTS:]

    def _say_upload(self, upload: Checkpoint, end: int, stop: int) -> None:
        """Write the upload as a span beside training that ends at `end`, up to `stop`."""
        self._say_span(Span(SAVE, upload.begin, end), stop, is_blocking=False)
        if self.hidden_ms is not None:
            self.hidden_ms += end - upload.begin


def _spans_of(disturbance: Disturbance, start: int) -> list[Span]:
    if disturbance.phase is None:
        return []
    begin = start + disturbance.offset
    attrs = disturbance.attrs or {}
    return [Span(disturbance.phase, begin, begin + disturbance.length, attrs)]


def _with_phase(
    pieces: Sequence[tuple[str, int]], disturbance: Disturbance
) -> list[tuple[str, int]]:
    """The phase let in after `offset` ms of `pieces`."""
    if disturbance.phase is None:
        return list(pieces)
    inside = [(disturbance.phase, disturbance.length)]
    left, out = disturbance.offset, list[tuple[str, int]]()
    for component, length in pieces:
        if inside and left < length:
            out += [(component, left), inside.pop(), (component, length - left)]
        else:
            out.append((component, length))
        left -= length
    return out
