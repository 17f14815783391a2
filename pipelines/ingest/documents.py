"""A stream of bytes cut into JSON documents: one after another, in an array, or in a wrapper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipelines.ingest.lines import LONGEST_BYTES, SHOWN_BYTES, Refuse, without_bom
from pipelines.ingest.unpack import DamageError

WRAPPERS = frozenset({b'"jobs"', b'"items"', b'"resourceSpans"', b'"log_history"'})
"""Members whose entries are the documents: of sacct, kubectl, OTLP and the Hugging Face Trainer."""

_IDLE = b" \t\r\n,"
_LONGEST_COLON = 64  # a wrapper's name, its colon, and the white space around it
_NOWHERE = 1 << 30  # inside a wrapper, behind its array: no document lies at such a depth
_LONGEST_INDENT = 64
# A string, whole or torn off at the end of its line, or the quote of one that the buffer cuts off;
# a mark of structure.
_TOKEN = re.compile(
    rb'"(?:[^"\\\n]++|\\.)*+(?:"|(?=\n))|(?P<open>")|(?P<mark>[\[\]{},])', re.DOTALL
)


class Documents:
    """The documents of a JSON text with their numbers from 1, as JSON text.

    A document is an object: an element of the outermost array, or of the array that an outermost
    object has under one of WRAPPERS, or else the outermost object itself; several may follow one
    another. The unit of accounting is the document, whatever lines it spans. One longer than
    16 MiB, text between documents, and what lies behind a damage or lacks its end, is refused as
    one more document each. A torn one ends where a line begins with `{` behind a value.
    """

    def __init__(self, chunks: Iterable[bytes], refuse: Refuse) -> None:
        self.count = 0
        self._chunks = chunks
        self._refuse = refuse
        self._buffer = b""
        self._scanned = 0
        self._depth = 0
        self._base = 0  # the depth at which documents lie
        self._begin: int | None = None  # of the document at hand, in the buffer
        self._between = 0  # where the text behind the last document begins
        self._word = b""  # the last string seen

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        lost = "a document does not end"
        try:
            for chunk in without_bom(self._chunks):
                self._buffer += chunk
                yield from self._complete()
                if len(self._buffer) > LONGEST_BYTES:
                    lost = f"a document longer than {LONGEST_BYTES // 1024 // 1024} MiB"
                    break
        except DamageError as damage:
            lost = str(damage)
            self._depth += 1
        rest = self._buffer[self._between if self._begin is None else self._begin :].strip(_IDLE)
        if rest or self._depth:
            self._lose(f"the rest of the file is lost: {lost}", rest)

    def _lose(self, reason: str, text: bytes) -> None:
        self.count += 1
        self._refuse(self.count, reason, text[:SHOWN_BYTES])

    def _complete(self) -> Iterator[tuple[int, bytes]]:
        """The documents that end in the buffer; what stays is an unfinished one."""
        scanned = len(self._buffer)
        for token in _TOKEN.finditer(self._buffer, self._scanned):
            if token["open"]:
                scanned = token.start()
                break
            mark = token["mark"]
            if mark is None:
                self._word = token[0]
            elif mark in b"[{":
                self._open(mark, token)
            elif mark in b"]}" and (begin := self._close(token)) is not None:
                self.count += 1
                yield self.count, self._buffer[begin : token.end()]
        self._keep(scanned)

    def _keep(self, scanned: int) -> None:
        """Drop what is done with: of an object that only wraps documents, nothing is needed."""
        kept = self._between if self._begin is None else self._begin
        if self._begin is None and self._depth != self._base:
            kept = max(kept, scanned - len(self._word))
        self._buffer, self._scanned = self._buffer[kept:], scanned - kept
        self._between = max(self._between - kept, 0)
        self._begin = None if self._begin is None else self._begin - kept

    def _open(self, mark: bytes, token: re.Match[bytes]) -> None:
        if mark == b"{" and self._begin is not None and self._is_new(token.start()):
            self._lose("the document is torn", self._buffer[self._begin : token.start()].rstrip())
            self._base = self._depth = 1 if self._base == 1 else 0
            self._begin, self._between = None, token.start()
        if self._depth == self._base and self._begin is None:
            self._refuse_between(token.start())
            self._begin = token.start()
        wraps = self._depth == 1 and self._base == 0 and self._is_wrapper(token.start())
        is_outer_array = mark == b"[" and self._depth == 0
        self._depth += 1
        if is_outer_array or (mark == b"[" and wraps):
            self._base, self._begin, self._between = self._depth, None, token.end()

    def _is_new(self, start: int) -> bool:
        """Does a line begin with this brace, behind a value? No document has such a place."""
        before = self._buffer[max(start - _LONGEST_INDENT, 0) : start]
        return before.endswith(b"\n") and before.rstrip()[-1:] not in (b"", b",", b"[", b":")

    def _is_wrapper(self, end: int) -> bool:
        if self._word not in WRAPPERS:
            return False
        head = self._buffer[max(end - _LONGEST_COLON, 0) : end].rstrip()
        return head.endswith(b":") and head[:-1].rstrip().endswith(self._word)

    def _close(self, token: re.Match[bytes]) -> int | None:
        """Where the document begins that ends here."""
        begin = self._begin
        if self._depth == self._base and begin is None:
            self._refuse_between(token.start())
        self._depth = max(self._depth - 1, 0)
        if self._depth == self._base and begin is not None:
            self._begin, self._between = None, token.end()
            return begin
        if self._depth < self._base or self._depth == 0:
            self._base = 0 if self._depth == 0 else _NOWHERE
            self._between = token.end()
        return None

    def _refuse_between(self, end: int) -> None:
        if text := self._buffer[self._between : end].strip(_IDLE):
            self._lose("text between JSON documents", text)
