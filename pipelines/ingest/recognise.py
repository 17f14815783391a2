"""Which format a file has, told by its content alone: the first line that is decisive decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from pipelines.ingest import goodput, lifecycle, mllog
from pipelines.ingest.lines import Entries, Lines
from pipelines.ingest.records import Parser
from pipelines.ingest.unpack import DamageError

HEAD_BYTES = 16 * 1024 * 1024
LOOKED_FOR = (
    'lifecycle events (a JSON object with "job_id" and "event"), MLPerf lines (:::MLLOG) and '
    'goodput entries ("job_name" with a time)'
)


class Format(NamedTuple):
    """How files of one format are cut into units, and read."""

    source: str
    units: type[Lines | Entries]
    parse: Parser


LIFECYCLE = Format(lifecycle.SOURCE, Lines, lifecycle.parse)
MLLOG = Format(mllog.SOURCE, Lines, mllog.parse)
GOODPUT_LINES = Format(goodput.SOURCE, Lines, goodput.parse)
GOODPUT_ARRAY = Format(goodput.SOURCE, Entries, goodput.parse)

# Names are looked for in the text, not in decoded JSON, so that torn lines tell too.
_KIND = re.compile(rb'"event"\s*:\s*"(?:%s)"' % "|".join(lifecycle.KINDS).encode())
_ENTRY = re.compile(
    rb'"(?:job_start_time|job_end_time|step_count|step_start_time|event_type'
    rb"|(?:tpu_init|training_prep|data_loading|custom_badput_event|elastic|checkpoint_manager)_)"
)
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_BEGIN_BYTES = 65_536


def recognise(chunks: Iterable[bytes]) -> tuple[Format | None, Iterator[bytes]]:
    """The format of a stream (None: nothing known is in it), and the stream from its begin.

    Looks at no more than the first 16 MiB: a console log can say much before its first record.
    """
    seen: list[bytes] = []
    damage: list[DamageError] = []

    def read() -> Iterator[bytes]:
        try:
            yield from chunks
        except DamageError as error:
            damage.append(error)

    def looked_at() -> Iterator[bytes]:
        size = 0
        while size < HEAD_BYTES and (chunk := next(stream, None)) is not None:
            seen.append(chunk)
            size += len(chunk)
            yield chunk

    def again() -> Iterator[bytes]:
        yield from seen
        yield from stream
        if damage:
            raise damage[0]

    stream = read()
    return _format_of(looked_at()), again()


def _format_of(chunks: Iterator[bytes]) -> Format | None:
    begin = bytearray()
    while len(begin) < _BEGIN_BYTES and (chunk := next(chunks, None)) is not None:
        begin += chunk
    if _ARRAY.match(begin):
        is_goodput = b'"job_name"' in begin and _ENTRY.search(begin)
        return GOODPUT_ARRAY if is_goodput else None
    unfinished = b""
    for chunk in chain([bytes(begin)], chunks):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for line in lines:
            if found := format_of_line(line):
                return found
    return format_of_line(unfinished)


def format_of_line(line: bytes) -> Format | None:
    """The format that this line decides, or None: blank, foreign or too torn to tell.

    >>> format_of_line(b'{"job_id": "a", "event": "heartb').source
    'lifecycle'
    """
    is_marked = mllog.MARKER in line and not line.lstrip().startswith(b"{")
    if is_marked:
        return MLLOG
    has_job = b'"job_id"' in line
    if (has_job and (b'"event"' in line or b'"ts"' in line)) or _KIND.search(line):
        return LIFECYCLE
    if b'"job_name"' in line and _ENTRY.search(line):
        return GOODPUT_LINES
    return None
