"""Slurm accounting as text (`sacct -P`, `-p`, any delimiter): its lines to events."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.records import Event, Numbered, Reading, Reject, RejectError
from pipelines.ingest.slurm import STATES, Teller
from pipelines.ingest.slurm_columns import COLUMNS, Layout, declared, header
from pipelines.ingest.slurm_rows import Assembly, Rows

_HEAD_LINES = 20
_SONAR = re.compile(r'"?v=[\d.]+,')
_STATE_CELL = re.compile(
    rb"\|(?:%s)(?: by \w+)?\s*(?=\||$)" % b"|".join(sorted(s.encode() for s in STATES))
)
_ID_CELL = re.compile(
    rb"(?:^|\|)\d+(?:_\d+)?(?:\+\d+)?(?:\.(?:batch|extern|interactive|\d+))?(?=\|)"
)


def is_table(begin: bytes) -> bool:
    """Does the text begin with a header of sacct, sonar's `name=value`, or rows of sacct?"""
    lines = [line for line in begin.split(b"\n")[:_HEAD_LINES] if line.strip()]
    bare = sum(bool(_STATE_CELL.search(line) and _ID_CELL.search(line)) for line in lines)
    return (bool(lines) and bare * 2 > len(lines)) or any(map(_is_header, lines))


def _is_header(line: bytes) -> bool:
    if b"jobid" not in line.lower():
        return False
    text = line.decode(errors="replace")
    return header(text) is not None or bool(_SONAR.match(text) and "JobID=" in text)


def parse(lines: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Lines of sacct to events; headers and steps are ignored, torn records are rejects."""
    tally, teller = reading.tally, Teller(reading)
    for rows in _assembled(lines, declared(reading.settings)):
        if rows.is_ignored:
            tally.ignored_count += len(rows.lines)
            continue
        try:
            events = teller.tell(rows.lines[0][0], rows.told())
        except RejectError as reason:
            for number, text in rows.lines:
                yield tally.reject(number, reason, text)
            continue
        tally.event_line_count += len(rows.lines) if events else 0
        tally.ignored_count += 0 if events else len(rows.lines)
        yield from events
    teller.end()


def _assembled(lines: Numbered, layout: Layout | None) -> Iterator[Rows]:
    """Lines put together to records. Every line comes out once, in order."""
    held = Assembly(layout) if layout else None
    for number, line in lines:
        text = line.decode("utf-8", "replace")
        if (told := header(text)) is not None:
            yield from held.end() if held else ()
            held = Assembly(told)
            yield Rows([(number, line)], is_ignored=True)
        elif _SONAR.match(text):
            yield _sonar(number, line, text)
        elif held is None:
            yield _without_layout(number, line)
        else:
            yield from held.take((number, line), text)
    yield from held.end() if held else ()


def _without_layout(number: int, line: bytes) -> Rows:
    reason = (
        "no header says what the columns are: declare `columns:` (and `delimiter:`) for this "
        "file in the site's `sources:`, or print without --noheader"
    )
    return Rows([(number, line)], None, reason, is_ignored=not line.strip())


def _sonar(number: int, line: bytes, text: str) -> Rows:
    """A line of sonar's older form: `v=0.1.0,JobID=…,"AllocTRES=cpu=6,node=1",JobName=…`."""
    try:
        row: Sequence[str] = next(csv.reader([text]), [])
    except csv.Error as error:
        return Rows([(number, line)], None, f"no row of sonar: {error}")
    pairs = (word.partition("=") for word in row)
    record = {COLUMNS.get(name.lower(), name): value for name, _, value in pairs}
    return Rows([(number, line)], record, is_ignored="JobID" not in record)
