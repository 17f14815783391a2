"""What a reader is given and hands out: its file and settings; events, rejects, the account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from pipelines.ingest.files import RawFile
from pipelines.ingest.identity import Identities, Key
from pipelines.ingest.settings import FileSettings, Sources
from pipelines.taxonomy import Taxonomy

EXCERPT_CHARACTERS = 200
_LONGEST_CHARACTER = 4  # bytes in UTF-8


class Said(msgspec.Struct, kw_only=True, gc=False):
    """What one event says; None where it says nothing. Fields of lifecycle-events.md.

    No cycles are possible, and millions are made: the garbage collector need not look.
    """

    job_id: str
    event: str
    cluster: str | None = None
    attempt: int | None = None
    rank: int | None = None
    host: str | None = None
    step: int | None = None
    samples: int | None = None
    phase: str | None = None
    span_id: str | None = None
    blocking: bool | None = None
    gpus: int | None = None
    held: bool | None = None
    outcome: str | None = None
    cause: str | None = None
    model: str | None = None
    team: str | None = None
    priority: str | None = None
    attrs: dict[str, str] | None = None
    source: str | None = None
    """Who said it, where one file has several emitters; None: the file's own source."""


Event = tuple[int, int, Said]
"""Line of the file (from 1), time in epoch milliseconds, and what was said."""


class Reject(NamedTuple):
    """A line that could not be read, and why."""

    line: int
    reason: str
    excerpt: str


class RejectError(Exception):
    """Raised inside a reader for a line that cannot be read; its message is the reason."""


@dataclass(slots=True)
class Tally:
    """The account of one file, filled while it is read.

    Law: lines read = event lines + rejects + ignored lines. `refused` are lines that no parser
    sees (too long, or lost to damaged compression); they are counted as rejects.
    """

    line_count: int = 0
    event_line_count: int = 0
    reject_count: int = 0
    ignored_count: int = 0
    event_count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    notes: list[str] = field(default_factory=list)
    refused: list[Reject] = field(default_factory=list)

    @property
    def accounted(self) -> int:
        """Lines of which it is known what became of them."""
        return self.event_line_count + self.reject_count + self.ignored_count

    def reject(self, line: int, reason: object, text: bytes) -> Reject:
        """Count and make the reject of `text`, with as much of it as the table keeps.

        >>> Tally().reject(3, "not JSON", b"x" * 900).excerpt == "x" * 200
        True
        """
        self.reject_count += 1
        head = text[: EXCERPT_CHARACTERS * _LONGEST_CHARACTER].decode(errors="replace")
        return Reject(line, str(reason), head[:EXCERPT_CHARACTERS])

    def refuse(self, line: int, reason: str, text: bytes) -> None:
        """Reject a line that no parser will see."""
        self.refused.append(self.reject(line, reason, text))

    def saw(self, times: list[int]) -> None:
        """Count events at these times (epoch ms)."""
        self.event_count += len(times)
        seen = [t for t in (self.first_ms, self.last_ms) if t is not None]
        self.first_ms, self.last_ms = min([*times, *seen]), max([*times, *seen])


@dataclass(slots=True)
class Reading:
    """All that a parser may know besides the lines: the file, the site, and the file's account."""

    file: RawFile
    taxonomy: Taxonomy
    tally: Tally = field(default_factory=Tally)
    sources: Sources = field(default_factory=Sources)
    settings: FileSettings = field(init=False)
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        """Look up what the site says of this file."""
        self.settings = self.sources.settings_of(self.file.name)
        self.identities = Identities(self.settings.identity, self.file.name)

    def key(self, own_id: str, fields: dict[str, str] | None = None, **known: str | int) -> Key:
        """The job of a record that calls it `own_id` (see `Identities.of`)."""
        return self.identities.of(own_id, fields, **known)


Numbered = Iterable[tuple[int, bytes]]
Parser = Callable[[Numbered, Reading], Iterator[Event | Reject]]
"""A parser accounts for every line in the tally: an event line, a reject, or ignored."""


class Units(Protocol):
    """What a stream is cut into: lines, or what the format has in their place."""

    count: int

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Units with their numbers from 1."""
        ...


Cut = Callable[[Iterable[bytes], Callable[[int, str, bytes], None]], Units]
"""Cuts chunks into units; calls back with number, reason and head of what no parser will see."""


class Format(NamedTuple):
    """How files of one format are recognised, cut into units, and read.

    `knows_begin` is shown the first 64 KiB, `knows_line` one line after another. A console log may
    quote other formats, so a format `is_weak` where others have the first word.
    """

    source: str
    units: Cut
    parse: Parser
    knows_begin: Callable[[bytes], bool] | None = None
    knows_line: Callable[[bytes, Sources], bool] | None = None
    is_weak: bool = False
