"""What reads a console log together: cleaned lines, those who listen to them, what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipelines.ingest.cleaning import Clock, stamp_of
from pipelines.ingest.records import Reading


@dataclass(slots=True)
class Line:
    """One line of a console log, or several that a terminal wrapped, cleaned for its listeners.

    `text` has no colours, no prefix of a collector, rank or clock; of a line that carriage returns
    wrote over, each state is a Line. `rank` and `host` are what a prefix said; `at` is the line's
    own time (epoch ms), None where it names none; `raw` is the text before rank and clock were
    taken off.
    """

    number: int
    text: str
    raw: str
    rank: int | None = None
    host: str | None = None
    at: int | None = None
    lines: int = 1
    """How many lines of the file it is; 0 where another state of the same line follows."""
    is_cut: bool = False
    """The file ends inside it."""
    attrs: dict[str, str] | None = None
    """What an event says of its time."""
    words: frozenset[str] = frozenset()
    """Which of the listeners' words it holds."""
    read: dict[str, dict[str, Any]] | None = None
    """What patterns of the profile have already read in it, by their name."""


@dataclass(slots=True)
class Told:
    """An event that a line tells: kind and fields of `records.Said`; rank and host are the line's.

    `at` None means the line's own time, or else the last time that the file named before it:
    then the event carries the attr `clock: line before`.
    """

    event: str
    at: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, str] = field(default_factory=dict)
    said_by: Line | None = None
    """The line that said it, where that is an earlier one than the line at hand."""


@dataclass(slots=True)
class Context:
    """What the listeners of one file share.

    `fields` are names that join the file to a job (`slurm_job_id`, `slurm_restart_count`,
    `torchelastic_run_id`, …); `first_at` is the first time that a line before the one at hand
    named, `last_at` the last one; `gpus` the accelerators of the attempt, where a line says
    them. `progress` counts the steps heard, `entries` how often a trainer started or was set back
    to an earlier step.
    """

    reading: Reading
    fields: dict[str, str] = field(default_factory=dict)
    first_at: int | None = None
    last_at: int | None = None
    gpus: int | None = None
    progress: int = 0
    entries: int = 0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        """The clock follows from the file's settings."""
        self.clock = Clock(self.reading.settings.zone_info, self.reading.file.modified_at)

    def instant(self, text: str) -> int | None:
        """A time as a line writes it, in epoch ms; None where it is none. It is the last named.

        Raises RejectError for a local time that the clock of the declared zone skipped.
        """
        stamp = stamp_of(text)
        found = self.clock.of(stamp, self.last_at) if stamp else None
        if found is None:
            return None
        self.last_at = found.at
        return found.at

    def note(self, text: str) -> None:
        """Say once what is odd about the file."""
        if text not in self.reading.tally.notes:
            self.reading.tally.notes.append(text)


class Listener(Protocol):
    """One who understands some lines of a console log; made anew for each file with its Context.

    It is handed the lines that hold one of its `words`, and every line while it `is_amid`.
    """

    @property
    def source(self) -> str:
        """Who speaks: a name of sources.py."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """Literals: what it understands holds one of them."""
        ...

    @property
    def is_amid(self) -> bool:
        """Does it wait for the next line, whatever that is?"""
        ...

    def hear(self, line: Line) -> Sequence[Told] | None:
        """What the line tells, perhaps nothing; None: the line is not for this listener."""
        ...

    def end(self) -> Sequence[Told]:
        """What is still to be told when the file ends."""
        ...
