"""Which format a file has, told by its content alone: the first line that is decisive decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from pipelines.ingest import (
    console,
    dlrover,
    goodput,
    job_table,
    kubernetes,
    lifecycle,
    mllog,
    nvrx,
    otlp,
    parquet,
    slurm,
    slurm_json,
    slurm_text,
    torch_trace,
    torchelastic_events,
    trainer_state,
)
from pipelines.ingest.documents import Documents
from pipelines.ingest.lines import BOM, Entries, Lines
from pipelines.ingest.records import Format
from pipelines.ingest.settings import Sources
from pipelines.ingest.unpack import DamageError

HEAD_BYTES = 16 * 1024 * 1024
LOOKED_FOR = (
    'lifecycle events (a JSON object with "job_id" and "event"), MLPerf lines (:::MLLOG) and '
    'goodput entries ("job_name" with a time), PyTorch traces (V0530 17:32:40.123000 … {json}), '
    'OpenTelemetry spans ("resourceSpans"), '
    'sacct\'s header or JSON ("JobID", "jobs"), the header of a known table of jobs, '
    "lines of a trainer, a launcher or a scheduler, Kubernetes objects or Events as JSON, "
    "NVRx's cycle files, TorchElastic's and DLRover's events"
)
_NO_SOURCES = Sources()

# Names are looked for in the text, not in decoded JSON, so that torn lines tell too.
_KIND = re.compile(rb'"event"\s*:\s*"(?:%s)"' % "|".join(lifecycle.KINDS).encode())
_ENTRY = re.compile(
    rb'"(?:job_start_time|job_end_time|step_count|step_start_time|event_type'
    rb"|(?:tpu_init|training_prep|data_loading|custom_badput_event|elastic|checkpoint_manager)_)"
)
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_OTLP = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"resource(?:Spans|Metrics|Logs)"\s*:')
_BEGIN_BYTES = 65_536


def _is_mllog(line: bytes, _: Sources) -> bool:
    return mllog.MARKER in line and not line.lstrip().startswith(b"{")


def _is_lifecycle(line: bytes, _: Sources) -> bool:
    has_job = b'"job_id"' in line
    if b'"event"' in line:
        return has_job or _KIND.search(line) is not None
    return has_job and b'"ts"' in line


def _is_goodput(line: bytes, _: Sources) -> bool:
    return bool(b'"job_name"' in line and _ENTRY.search(line))


def _is_goodput_array(begin: bytes) -> bool:
    return bool(_ARRAY.match(begin) and b'"job_name"' in begin and _ENTRY.search(begin))


def _is_torch_trace(line: bytes, _: Sources) -> bool:
    return bool(torch_trace.RECORD.match(line))


def _is_otlp(begin: bytes) -> bool:
    return bool(_OTLP.match(begin))


TORCH_TRACE = Format(torch_trace.SOURCE, Lines, torch_trace.parse, knows_line=_is_torch_trace)
OTLP = Format(otlp.SOURCE, Documents, otlp.parse, knows_begin=_is_otlp)
MLLOG = Format(mllog.SOURCE, Lines, mllog.parse, knows_line=_is_mllog)
LIFECYCLE = Format(lifecycle.SOURCE, Lines, lifecycle.parse, knows_line=_is_lifecycle)
GOODPUT_LINES = Format(goodput.SOURCE, Lines, goodput.parse, knows_line=_is_goodput)
GOODPUT_ARRAY = Format(goodput.SOURCE, Entries, goodput.parse, knows_begin=_is_goodput_array)

SLURM_JSON = Format(slurm.SOURCE, Documents, slurm_json.parse, knows_begin=slurm_json.is_slurm)
SLURM_TEXT = Format(slurm.SOURCE, Lines, slurm_text.parse, knows_begin=slurm_text.is_table)
PHILLY = Format(job_table.SOURCE, Documents, job_table.parse_philly, job_table.is_philly)
PARQUET = Format(job_table.SOURCE, parquet.Rows, job_table.parse_rows, parquet.is_parquet)
JOB_TABLE = Format(job_table.SOURCE, Lines, job_table.parse_csv, job_table.is_table)
CONSOLE = console.FORMAT
TRAINER_STATE = trainer_state.FORMAT
KUBERNETES = kubernetes.FORMAT
NVRX = nvrx.FORMAT
DLROVER = dlrover.FORMAT
TORCHELASTIC_EVENTS = torchelastic_events.FORMAT

FORMATS: tuple[Format, ...] = (
    PARQUET,
    SLURM_JSON,
    SLURM_TEXT,
    PHILLY,
    JOB_TABLE,
    TORCH_TRACE,
    OTLP,
    MLLOG,
    LIFECYCLE,
    GOODPUT_ARRAY,
    GOODPUT_LINES,
    TRAINER_STATE,
    KUBERNETES,
    NVRX,
    TORCHELASTIC_EVENTS,
    DLROVER,
    CONSOLE,
)
"""Every format, in the order in which they are asked."""


def recognise(
    chunks: Iterable[bytes], sources: Sources = _NO_SOURCES, forced: str | None = None
) -> tuple[Format | None, Iterator[bytes]]:
    """The format of a stream (None: nothing known is in it), and the stream from its begin.

    Looks at no more than the first 16 MiB: a console log can say much before its first record.
    With `forced`, the name of a source, only the formats of that source are asked, and its last
    one holds where none knows the content.
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
    asked = tuple(f for f in FORMATS if forced in (None, f.source))
    found = _format_of(looked_at(), asked, sources)
    return found or (asked[-1] if forced and asked else None), again()


def _format_of(
    chunks: Iterator[bytes], asked: tuple[Format, ...], sources: Sources
) -> Format | None:
    begin = bytearray()
    while len(begin) < _BEGIN_BYTES and (chunk := next(chunks, None)) is not None:
        begin += chunk
    begin = begin.removeprefix(BOM)
    for known in asked:
        if known.knows_begin and known.knows_begin(bytes(begin)):
            return known
    if _ARRAY.match(begin):
        return None
    weak: Format | None = None
    strong = tuple(f for f in asked if f.knows_line and not f.is_weak)
    unfinished = b""
    for chunk in chain([bytes(begin)], chunks, [b"\n"]):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for line in lines:
            found = format_of_line(line, sources, asked if weak is None else strong)
            if found is not None and not found.is_weak:
                return found
            weak = weak or found
    return weak


def format_of_line(
    line: bytes, sources: Sources = _NO_SOURCES, asked: tuple[Format, ...] | None = None
) -> Format | None:
    """The format that this line decides, or None: blank, foreign or too torn to tell.

    >>> format_of_line(b'{"job_id": "a", "event": "heartb').source
    'lifecycle'
    """
    for known in FORMATS if asked is None else asked:
        if known.knows_line and known.knows_line(line, sources):
            return known
    return None
