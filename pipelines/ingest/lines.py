"""A stream of bytes cut into numbered units: the lines of a text, or the entries of an array."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from pipelines.ingest.unpack import DamageError

LONGEST_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
SHOWN_BYTES = 1024
_TOO_LONG = f"longer than {LONGEST_BYTES // 1024 // 1024} MiB"

Refuse = Callable[[int, str, bytes], None]
"""Called with the number, the reason and the head of a unit that nobody can read."""


class Lines:
    """The lines of a text with their numbers from 1, without the line feed.

    A line longer than 16 MiB is refused, and what a damaged file lost is refused as one more
    line. `count` is the number of lines seen so far. A carriage return stays: to JSON it is
    white space.
    """

    def __init__(self, chunks: Iterable[bytes], refuse: Refuse) -> None:
        self.count = 0
        self._chunks = chunks
        self._refuse = refuse

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        held, is_dropping = b"", False
        try:
            for chunk in without_bom(self._chunks):
                parts = chunk.split(b"\n")
                last = parts.pop()
                if parts:
                    parts[0] = held + parts[0]
                    held = b""
                for part in parts:
                    self.count += 1
                    if is_dropping or len(part) > LONGEST_BYTES:
                        self._refuse(self.count, f"a line {_TOO_LONG}", part[:SHOWN_BYTES])
                        is_dropping = False
                    else:
                        yield self.count, part
                held = held[:SHOWN_BYTES] if is_dropping else held + last
                is_dropping = is_dropping or len(held) > LONGEST_BYTES
        except DamageError as damage:
            yield from self._last(held, is_dropping=is_dropping)
            self.count += 1
            self._refuse(self.count, f"the rest of the file is lost: {damage}", b"")
        else:
            yield from self._last(held, is_dropping=is_dropping)

    def _last(self, held: bytes, *, is_dropping: bool) -> Iterator[tuple[int, bytes]]:
        """The last line, where no line feed follows it."""
        if not held:
            return
        self.count += 1
        if is_dropping:
            self._refuse(self.count, f"a line {_TOO_LONG}", held[:SHOWN_BYTES])
        else:
            yield self.count, held


def without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, less the byte-order mark that some editors put first."""
    is_first = True
    for chunk in chunks:
        yield chunk.removeprefix(BOM) if is_first else chunk
        is_first = is_first and not chunk


# A whole string, the quote of one that the buffer cuts off, or a mark of structure.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?P<open>")|(?P<mark>[\[\]{},])', re.DOTALL)


class Entries:
    """The entries of one JSON array with their numbers from 1, as JSON text.

    The unit of accounting is the entry, whatever lines it spans. An entry longer than 16 MiB,
    a missing end, and what stands behind the array are refused, as one more entry each. `count`
    is the number of entries seen so far.
    """

    def __init__(self, chunks: Iterable[bytes], refuse: Refuse) -> None:
        self.count = 0
        self._chunks = chunks
        self._refuse = refuse
        self._depth = 0
        self._is_closed = False
        self._buffer = b""  # from the begin of the entry at hand
        self._scanned = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        lost = "the array does not end"
        try:
            for chunk in without_bom(self._chunks):
                self._buffer += chunk
                yield from self._complete()
                if len(self._buffer) > LONGEST_BYTES:
                    lost = f"an entry {_TOO_LONG}"
                    break
                if self._is_closed and self._buffer.strip():
                    lost = "text behind the array"
                    break
        except DamageError as damage:
            lost, self._is_closed = str(damage), False
        rest = self._buffer.strip()
        if rest or not self._is_closed:
            self.count += 1
            self._refuse(self.count, f"the rest of the file is lost: {lost}", rest[:SHOWN_BYTES])

    def _complete(self) -> Iterator[tuple[int, bytes]]:
        """The entries that end in the buffer; what stays is an unfinished one."""
        begin = 0
        scanned = len(self._buffer)
        for token in _TOKEN.finditer(self._buffer, self._scanned):
            if self._is_closed or token["open"]:
                scanned = token.start()
                break
            mark = token["mark"]
            is_end = self._depth == 1 and mark in (b",", b"]", b"}")
            if is_end and (entry := self._buffer[begin : token.start()].strip()):
                self.count += 1
                yield self.count, entry
            if is_end or (self._depth == 0 and mark):
                begin = token.end()
            self._step(mark)
        self._buffer = self._buffer[begin:]
        self._scanned = scanned - begin

    def _step(self, mark: bytes | None) -> None:
        if mark in (b"[", b"{"):
            self._depth += 1
        elif mark in (b"]", b"}"):
            self._depth -= 1
            self._is_closed = self._depth == 0
