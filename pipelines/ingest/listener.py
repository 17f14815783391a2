"""What reads a console log together: cleaned lines, those who listen to them, what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipelines.ingest.records import Reading


@dataclass(slots=True)
class Line:
    """One line of a console log, or several that a terminal wrapped, cleaned for its listeners.

    `text` has no colours, no overwritten part before a carriage return, no prefix of a collector,
    rank or clock. `rank` and `host` are what a prefix said; `at` is the line's own time (epoch ms),
    None where it names none; `raw` is the text before its clock was taken off.
    """

    number: int
    text: str
    raw: str
    rank: int | None = None
    host: str | None = None
    at: int | None = None


@dataclass(slots=True)
class Told:
    """An event that a line tells: kind, and fields of `records.Said`; rank and host follow the line.

    `at` None means the line's own time, or else the last time that the file named before it:
    then the event carries the attr `clock: line before`.
    """

    event: str
    at: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """What the listeners of one file share.

    `fields` are names that join the file to a job (`slurm_job_id`, `slurm_restart_count`,
    `torchelastic_run_id`, …); `last_at` the last time that a line named; `gpus` the accelerators of
    the attempt, where a line says them.
    """

    reading: Reading
    fields: dict[str, str] = field(default_factory=dict)
    last_at: int | None = None
    gpus: int | None = None

    def note(self, text: str) -> None:
        """Say once what is odd about the file."""
        if text not in self.reading.tally.notes:
            self.reading.tally.notes.append(text)


class Listener(Protocol):
    """One who understands some lines of a console log; made anew for each file with its Context."""

    source: str

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What the line tells, perhaps nothing; None: the line is not for this listener."""
        ...

    def end(self) -> Sequence[Told]:
        """What is still to be told when the file ends."""
        ...
