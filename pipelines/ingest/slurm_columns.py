"""The columns of sacct's text: header, delimiter, and one record's text parted into its fields."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cached_property

import re2

from pipelines.ingest.settings import FileSettings

_NAMES = """
Account AdminComment AllocCPUS AllocGRES AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead
AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy
ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible
End ExitCode Extra FailedNode Flags GID Group HetJobID HetJobOffset JobID JobIDRaw JobName Layout
Licenses MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask
MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode
MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition Planned
PlannedCPU PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax
ReqCPUFreqMin ReqCPUS ReqGRES ReqMem ReqNodes ReqReservation ReqSwitch ReqTRES Reservation
ReservationId Reserved Restarts ResvCPU ResvCPURAW SLUID Start State StdErr StdIn StdOut Submit
SubmitLine Suspended SystemComment SystemCPU TaskCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve
TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode
TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode
TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID
User UserCPU WCKey WCKeyID WorkDir
"""
COLUMNS = {name.lower(): name for name in _NAMES.split()}
"""What sacct can print (`sacct --helpformat`), by its name in lower case."""
_FREE = frozenset(
    {"AdminComment", "Comment", "Constraints", "Container", "Extra", "JobName", "SubmitLine",
     "StdErr", "StdIn", "StdOut", "SystemComment", "WCKey", "WorkDir"}
)  # fmt: skip
_LISTS = re.compile(r".*TRES.*|.*GRES|NodeList|Flags|Licenses")  # they hold commas
_TIME = r"(?:\d[\dT:. ,+-]*Z?|Unknown|None|N/A|NaT|nan)"
_SURE = {
    "JobID": r"\d+(?:_(?:\d+|\[[^\]|\0]*\]?))?(?:\+\d+)?(?:\.[\w+-]+)?",
    "State": r"[A-Z][A-Z_]+(?:[,+][A-Z_]+)*(?: by [\w.-]+)?\+?",
    "Submit": _TIME,
    "Start": _TIME,
    "End": _TIME,
    "Eligible": _TIME,
    "ElapsedRaw": r"\d*",
    "Elapsed": r"[\d:.-]*",
    "ExitCode": r"(?:\d+:\d+)?",
    "NNodes": r"[\d.KM]*",
    "AllocTRES": r"(?:[\w/:.-]+=[\w.]+(?:,[\w/:.-]+=[\w.]+)*)?",
}
_SURE["JobIDRaw"] = _SURE["JobID"]
"""What sacct prints in a column: it has a word for every state and time, if only Unknown."""
_GAPS = {"Submit", "Start", "End", "Eligible"}
_SHAPES = {c: f"(?:{shape})?" if c in _GAPS else shape for c, shape in _SURE.items()}
"""The same after others had it: a data frame writes an empty field for what is unknown."""
_MOST_TIMES = 4
_MOST_DELIMITERS = 400
"""In free text, beyond so many times the columns; more are rows that none of the columns fit."""
_QUOTING = frozenset(",;\t")


@dataclass(frozen=True)
class Layout:
    """The columns of a table and what stands between them; `is_closed`: also behind the last.

    Where the site declares the columns it `may_be_closed`: no header shows it.
    """

    columns: tuple[str, ...]
    delimiter: str = "|"
    is_closed: bool = False
    may_be_closed: bool = False

    def count(self, text: str) -> int:
        """How many columns there are in `text`, perhaps the torn begin of a record."""
        return len(self._split(text))

    @property
    def needed(self) -> int:
        """What `count` says of a whole record without delimiters in free text."""
        return len(self.columns) + self.is_closed

    def record(self, text: str) -> dict[str, str] | None:
        """The record, where `text` has exactly its columns and what must have a shape has it."""
        fields = self._split(text)
        is_closed = len(fields) == len(self.columns) + 1 and not fields[-1]
        if is_closed and (self.is_closed or self.may_be_closed):
            del fields[-1]
        elif self.is_closed:
            return None
        if len(fields) != len(self.columns):
            return None
        at, shapes = self._strict
        fits = shapes.fullmatch("\0".join([fields[n] for n in at]))
        return dict(zip(self.columns, fields, strict=True)) if fits else None

    def fault(self, text: str) -> str:
        """Why `text` is no record."""
        fields = self._split(text)
        found, needed = len(fields), self.needed
        if found == needed:
            said = zip(self.columns, fields, strict=False)
            odd = ((c, w) for c, w in said if c in _SHAPES and not re.fullmatch(_SHAPES[c], w))
            column, word = next(odd, (self.columns[0], fields[0]))
            hint = " (unset SLURM_TIME_FORMAT)" if column in _GAPS else ""
            return f"sacct prints no '{word[:40]}' under {column}{hint}"
        return f"{found} columns between '{self.delimiter}', {needed} are expected: " + (
            "the record is torn" if found < needed else "delimiters in free text, read in no way"
        )

    def parted(self, text: str) -> dict[str, str] | None:
        """The record, where delimiters inside free text make more columns than there are.

        Free text is read as short and as long as the other columns' shapes allow: only columns
        that are the same both times are said. None where a column of a shape is not.
        """
        found = self.count(text) if self._free else 0
        if not self.needed <= found <= _MOST_TIMES * self.needed + _MOST_DELIMITERS:
            return None
        text = text.removesuffix("\r")
        if self._outline.fullmatch(text) is None:  # without groups: a hundred times faster
            return None
        read = []
        for pattern in self._loose:
            match = pattern.fullmatch(text)
            if match is None or self._swallows(match):
                return None
            read.append(dict(zip(self.columns, match.groups(), strict=True)))
        return self.agreed(read[0], read[-1])

    def read(self, text: str) -> dict[str, str] | None:
        """The record that `text` is, in the way that leaves the fewest doubts."""
        record = self.record(text)
        return record if self.is_sure(record) else self.parted(text) or record

    def is_sure(self, record: dict[str, str] | None) -> bool:
        """Has it a word for every time, as sacct has, if only Unknown?

        Columns that moved have gaps there, and so has the tail of another record.
        """
        return record is not None and "" not in [record[name] for name in self._timed]

    def agreed(self, one: dict[str, str], other: dict[str, str]) -> dict[str, str] | None:
        """What two readings of a record both say; None where a column of a shape differs."""
        if any(one.get(c) != other.get(c) for c in self.columns if c in _SHAPES):
            return None
        return {name: word for name, word in one.items() if other.get(name) == word}

    def begins(self, text: str) -> bool | None:
        """Does a record begin here? None: no column of a shape stands before all free text."""
        return bool(self._head.match(text)) if self._head else None

    @property
    def has_head(self) -> bool:
        """Does a column of a shape stand before all free text, so that `begins` can tell?"""
        return self._head is not None

    def _split(self, text: str) -> list[str]:
        text = text.removesuffix("\r")
        if '"' in text and self.delimiter in _QUOTING:
            try:
                rows = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
                return next(rows, [])
            except csv.Error:
                pass  # a lone quotation mark is text
        return text.split(self.delimiter)

    def _swallows(self, match: re.Match[str]) -> bool:
        """Would a free text hold about a record of its own? Then two records were taken for one."""
        most = max(len(self.columns) // 2, 2)
        return any(
            "\n" in (text := match[at + 1]) and text.count(self.delimiter) >= most
            for at in self._free
        )

    @cached_property
    def _free(self) -> tuple[int, ...]:
        is_list = _LISTS.fullmatch if self.delimiter == "," else lambda _: None
        return tuple(at for at, c in enumerate(self.columns) if c in _FREE or is_list(c))

    @cached_property
    def _strict(self) -> tuple[list[int], re.Pattern[str]]:
        """Where the columns of a shape are, and their shapes with a NUL between, which none has."""
        at = [n for n, column in enumerate(self.columns) if column in _SHAPES]
        shapes = "\0".join(_SHAPES[self.columns[n]] for n in at)
        return at, re.compile(shapes, re.ASCII)

    @cached_property
    def _head(self) -> re.Pattern[str] | None:
        """The columns before any free text, if one of them is never empty."""
        before = self.columns[: min(self._free, default=len(self.columns))]
        if not {"JobID", "JobIDRaw", "State"}.intersection(before):
            return None
        end = re.escape(self.delimiter) if len(before) < len(self.columns) else ""
        quote = '"?' if self.delimiter in _QUOTING else ""
        words = (f"{quote}{_SHAPES.get(column, self._other)}{quote}" for column in before)
        return re.compile(re.escape(self.delimiter).join(words) + end, re.ASCII)

    @cached_property
    def _timed(self) -> list[str]:
        return [column for column in self.columns if column in _GAPS]

    @property
    def _other(self) -> str:
        """A column of no shape: it holds no delimiter."""
        return f"[^{re.escape(self.delimiter[0])}]*"

    @cached_property
    def _loose(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """All columns as one expression, with free text as short and as long as it can be."""
        words = [
            "%s" if at in self._free else f"({_SURE.get(column, self._other)})"
            for at, column in enumerate(self.columns)
        ]
        close = re2.escape(self.delimiter)
        if not self.is_closed:
            close = f"(?:{close})?" if self.may_be_closed else ""
        whole = re2.escape(self.delimiter).join(words) + close
        kinds = ("(.*?)", "(.*)")
        short, long = (re2.compile("(?s)" + whole.replace("%s", kind)) for kind in kinds)
        return short, long

    @cached_property
    def _outline(self) -> re.Pattern[str]:
        """The same expression without its groups: does it match at all?"""
        options = re2.Options()
        options.never_capture = True
        outline: re.Pattern[str] = re2.compile(self._loose[0].pattern, options=options)
        return outline


def header(text: str) -> Layout | None:
    """The layout that a header of sacct gives: its columns and delimiter; None: it is no header.

    >>> header("JobID|#State|#Submit|#").delimiter
    '|#'
    """
    text = text.strip("\r\n")
    if "jobid" not in text.lower():
        return None
    between = re.search(r'[^A-Za-z0-9_"]+', text)
    if between is None or not between[0].strip(" "):
        return None
    words = [word.strip().strip('"') for word in text.split(between[0])]
    is_closed = words[-1] == ""
    names = words[:-1] if is_closed else words
    known = [COLUMNS.get(name.lower()) for name in names]
    is_named = sum(name is not None for name in known) * 2 > len(names)
    if len(names) < 2 or not is_named or not {"JobID", "JobIDRaw"}.intersection(known):  # noqa: PLR2004
        return None
    columns = tuple(one or name for one, name in zip(known, names, strict=True))
    return Layout(columns, between[0], is_closed)


def declared(settings: FileSettings) -> Layout | None:
    """The layout that the site declares for a file without a header."""
    if not settings.columns:
        return None
    columns = tuple(COLUMNS.get(name.lower(), name) for name in settings.columns)
    return Layout(columns, settings.delimiter or "|", may_be_closed=True)
