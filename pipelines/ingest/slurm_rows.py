"""Lines of sacct put together to records: one record may span lines, and may be torn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipelines.ingest.records import RejectError
from pipelines.ingest.slurm_columns import Layout

_MOST_LINES = 256
_MOST_BEGINS = 16
_MOST_CHARACTERS = 1 << 18

Line = tuple[int, bytes]


@dataclass
class Rows:
    """Lines that belong together, and the record that they make, or why they make none."""

    lines: list[Line]
    record: dict[str, str] | None = None
    reason: str = ""
    is_ignored: bool = False

    def told(self) -> dict[str, str]:
        """The record. Raises RejectError where there is none."""
        if self.record is None:
            raise RejectError(self.reason)
        return self.record


@dataclass
class Assembly:
    """Takes lines one by one and gives back those that are done with, in order.

    Held are the lines of a record that is not complete, or that may go on; `record` is what the
    first `spans` of them make.
    """

    layout: Layout
    lines: list[Line] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    record: dict[str, str] | None = None
    spans: int = 0

    def take(self, line: Line, text: str) -> Iterator[Rows]:
        """One more line: what is now done with."""
        if not (self.lines or text.strip()):
            yield Rows([line], is_ignored=True)
            return
        if self.lines and self._is_begin(text):
            yield from self.end()
        self.lines.append(line)
        self.texts.append(text)
        if self.record is not None:
            self._go_on()
        else:
            yield from self._complete()
        if self._is_over():
            yield from self.end()

    def end(self) -> Iterator[Rows]:
        """Give up what is held: its record, and the lines that never became one."""
        if self.record is not None:
            yield Rows(self.lines[: self.spans], self.record)
        if self.spans < len(self.lines):
            yield from self._rejects(self.spans, len(self.lines))
        self._forget(len(self.lines))

    def _is_begin(self, text: str) -> bool:
        layout = self.layout
        return bool(layout.begins(text)) or layout.is_sure(layout.record(text))

    def _is_over(self) -> bool:
        """Is it useless to wait for the next line?

        Where nobody can see that a line begins a record, what is complete is taken as it is.
        """
        if not self.lines:
            return False
        if self.record is None:
            is_done = self.layout.begins(self.texts[0]) is False
        else:
            is_done = not self.layout.has_head and self.layout.is_sure(self.record)
        is_full = len(self.lines) > _MOST_LINES or sum(map(len, self.texts)) > _MOST_CHARACTERS
        return is_done or is_full

    def _go_on(self) -> None:
        """The line begins no record: is it a part of the one before it?"""
        if longer := self.layout.read(self._text()):
            self.record, self.spans = longer, len(self.lines)
        elif not self.layout.is_sure(self.record):
            self.record, self.spans = None, 0

    def _complete(self) -> Iterator[Rows]:
        """Find the record that the last lines make; what stands before them is torn."""
        layout, found = self.layout, 1
        record = layout.record(self.texts[-1])
        if layout.is_sure(record):  # as by far the most lines are
            yield from self._found(len(self.lines) - 1, record)
            return
        for begin in range(len(self.lines) - 1, -1, -1):
            found += layout.count(self.texts[begin]) - 1
            if found < layout.needed - layout.may_be_closed:
                continue
            record = layout.record(self._text(begin))
            if layout.is_sure(record) or (record and begin == 0):
                yield from self._found(begin, record)
                return
            if found > layout.needed:
                self.record = self._parted(begin)
                self.spans = len(self.lines) if self.record else 0
                return

    def _found(self, begin: int, record: dict[str, str] | None) -> Iterator[Rows]:
        """The lines from `begin` on are this record: those before it are torn."""
        if begin:
            yield from self._rejects(0, begin)
            self._forget(begin)
        self.record, self.spans = record, len(self.lines)

    def _parted(self, last: int) -> dict[str, str] | None:
        """The record of all lines, as far as no later begin of one says otherwise.

        The first lines may be a torn record, and the lines from one up to `last` on a whole one.
        """
        record = self.layout.parted(self._text())
        for begin in range(last, max(last - _MOST_BEGINS, 0), -1):
            if record is None:
                break
            later = self.layout.parted(self._text(begin))
            record = self.layout.agreed(record, later) if later else record
        return record

    def _rejects(self, begin: int, end: int) -> Iterator[Rows]:
        reason = self.layout.fault(self._text(begin, end))
        for line in self.lines[begin:end]:
            yield Rows([line], None, reason)

    def _text(self, begin: int = 0, end: int | None = None) -> str:
        return "\n".join(self.texts[begin:end])

    def _forget(self, count: int) -> None:
        self.lines, self.texts = self.lines[count:], self.texts[count:]
        self.record, self.spans = None, 0
