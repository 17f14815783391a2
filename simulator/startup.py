"""How an attempt starts: phases with parents and children, gaps and overlaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from simulator.scenario import Scenario, phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from random import Random

COMPILE = phase("compile")
RESTORE = phase("checkpoint_restore")
_PARENT = phase("trainer_init")
_BEFORE_TRAINER = (phase("scheduling"), phase("hardware_setup"), phase("launcher_init"))
_DEVICE = phase("trainer_init.device_init")
_GROUPS = phase("trainer_init.process_group_init")
_PREPROC = phase("trainer_init.preproc_creation")
_MODULE = phase("trainer_init.train_module_creation")
_PLUGINS = phase("trainer_init.init_plugins")
_PRE_TRAIN = phase("trainer_init.pre_train")
_FIRST_BATCH = phase("trainer_init.first_batch")
_GAP_RATIO = 0.5
_LONGEST_GAP_MS = 6000
_OVERLAP_RATIO = 0.5
_ENTERED_WITHIN = (0.3, 0.9)


class Kind(StrEnum):
    """What has to be brought up."""

    FRESH = "on hardware just granted"
    HELD = "on hardware kept since the last attempt"
    INSIDE = "workers only, inside the attempt"


@dataclass(slots=True)
class Span:
    """A phase from `begin` to `end`; where several are open, that entered last is waited for."""

    phase: str
    begin: int
    end: int
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Trainer:
    """The process that starts up; `now` is its clock."""

    scenario: Scenario
    gpus: int
    rng: Random
    now: int
    spans: list[Span] = field(default_factory=list)

    def run(self, key: str, length: int, attrs: Mapping[str, str] | None = None) -> Span:
        span = Span(key, self.now, self.now + length, attrs or {})
        self.spans.append(span)
        self.now = span.end
        if self.rng.random() < _GAP_RATIO:
            self.now += self.rng.randint(1, _LONGEST_GAP_MS)
        return span

    def run_usual(self, key: str) -> Span:
        return self.run(key, self._usual_ms(key))

    def run_beside(self, last: Span, key: str) -> None:
        """Enter `key` while `last` still runs: it may end before `last` or after it."""
        into = round((last.end - last.begin) * self.rng.uniform(*_ENTERED_WITHIN))
        begin = last.begin + max(1, into)
        self.spans.append(Span(key, begin, begin + self._usual_ms(key)))
        self.now = max(self.now, self.spans[-1].end)

    def build(self) -> None:
        """From the devices to the model; preprocessing may be created beside it."""
        self.run_usual(_DEVICE)
        self.run_usual(_GROUPS)
        module = self.run_usual(_MODULE)
        if self.rng.random() < _OVERLAP_RATIO:
            self.run_beside(module, _PREPROC)
        else:
            self.run_usual(_PREPROC)

    def _usual_ms(self, key: str) -> int:
        return self.scenario.start_up[key].draw_ms(self.rng, self.gpus)


def start_up(
    scenario: Scenario,
    kind: Kind,
    *,
    start: int,
    gpus: int,
    compile_ms: tuple[int, Mapping[str, str]] | None,
    restores: bool,
    says_parent: bool,
    rng: Random,
) -> tuple[list[Span], int]:
    """The phases of a start-up from `start`, in order of begin, and when the loop is entered.

    `compile_ms`: length and attributes of a compilation before the loop, None for none.
    """
    trainer = _Trainer(scenario, gpus, rng, start)
    for key in _needed(kind):
        trainer.run_usual(key)
    parent = Span(_PARENT, trainer.now, trainer.now)
    trainer.now += rng.randint(0, _LONGEST_GAP_MS)
    trainer.build()
    if restores:
        trainer.run(RESTORE, scenario.restore.draw_ms(rng, gpus))
    trainer.run_usual(_PLUGINS)
    trainer.run_usual(_PRE_TRAIN)
    if compile_ms is None:
        trainer.run_usual(_FIRST_BATCH)
    else:
        trainer.run_beside(trainer.run(COMPILE, *compile_ms), _FIRST_BATCH)
    parent.end = trainer.now
    spans = [*trainer.spans, parent] if says_parent else trainer.spans
    return sorted(spans, key=lambda s: (s.begin, s is not parent)), trainer.now


def holders(spans: Iterable[Span], start: int, stop: int) -> Iterator[tuple[str | None, int]]:
    """Who is waited for in `[start, stop)`: (phase or None, until), in order of time.

    `spans` come in order of entry, a parent before its child of the same millisecond.
    """
    own = [s for s in spans if s.begin < stop and s.end > start]
    edges = {stop} | {t for s in own for t in (s.begin, s.end) if start < t < stop}
    now = start
    for edge in sorted(edges):
        active = [s.phase for s in own if s.begin <= now and s.end >= edge]
        yield (active[-1] if active else None), edge
        now = edge


def _needed(kind: Kind) -> tuple[str, ...]:
    if kind is Kind.FRESH:
        return _BEFORE_TRAINER
    return _BEFORE_TRAINER[1:] if kind is Kind.HELD else _BEFORE_TRAINER[2:]
