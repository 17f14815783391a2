"""A job of its own that publishes a trained model: small, and it never trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.taxonomy import Outcome
from simulator.book import EndOfTimeError
from simulator.life import Life
from simulator.scenario import SMALLEST, Scenario, phase
from simulator.startup import RESTORE, Span
from simulator.truth import JobTruth

if TYPE_CHECKING:
    from random import Random

    from simulator.intents import Intent
    from simulator.logs import Pen

_QUEUE_MS = (5_000, 300_000)
_LONGEST_GAP_MS = 3000
_PHASES = tuple(phase(key) for key in ("scheduling", "hardware_setup", "launcher_init"))
_PUBLISH = phase("model_publish")
_TEARDOWN = phase("teardown")


class Publishing(Life):
    """The job that publishes the model of `intent` on a few accelerators, asked for at `at`."""

    def __init__(
        self, intent: Intent, scenario: Scenario, pen: Pen, *, at: int, as_of: int, rng: Random
    ) -> None:
        super().__init__(pen, as_of=as_of, rng=rng)
        self.intent = intent
        self.scenario = scenario
        self._at = at

    def run(self) -> JobTruth:
        """Live the job and say what truly happened."""
        intent = self.intent
        ended: Outcome | None = None
        try:
            dimensions = {"model": intent.model, "team": intent.team, "priority": intent.priority}
            self._submit(self._at, self.rng.randint(*_QUEUE_MS), dimensions)
            self._publish()
            ended = Outcome.SUCCEEDED
            self.book.finish(ended, is_censored=False)
        except EndOfTimeError:
            self._cut_off(ended=ended)
        return JobTruth(
            cluster=intent.cluster.name,
            job_id=self.pen.job_id,
            model=intent.model,
            team=intent.team,
            gpus=SMALLEST,
            queue_wait_ms=self.queue_wait_ms,
            hidden_ms=0,
            doubts=frozenset(self.doubts),
            book=self.book,
        )

    def _publish(self) -> None:
        self.pen.attempt = 0
        self.book.open_attempt(0, SMALLEST)
        self.pen.say_scheduler(self.book.now, "attempt_started", gpus=SMALLEST)
        spans = self._spans()
        self._play(spans, spans[-1].end)
        self.book.close_attempt(Outcome.SUCCEEDED)
        self.pen.say_scheduler(self.book.now, "attempt_ended", outcome=Outcome.SUCCEEDED)
        self.pen.say_scheduler(self.book.now, "job_finished", outcome=Outcome.SUCCEEDED)

    def _spans(self) -> list[Span]:
        """Phases one after the other, with gaps that nobody claims."""
        scenario = self.scenario
        lengths = [
            *((key, scenario.start_up[key]) for key in _PHASES),
            (RESTORE, scenario.restore),
            (_PUBLISH, scenario.publish),
            (_TEARDOWN, scenario.teardown),
        ]
        spans, now = list[Span](), self.book.now
        for key, length in lengths:
            end = now + length.draw_ms(self.rng)
            spans.append(Span(key, now, end))
            now = end + self.rng.randint(0, _LONGEST_GAP_MS)
        return spans
