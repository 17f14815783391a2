"""Lines of console logs made plain: colours, collectors, ranks and clocks taken off their front."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from pipelines.ingest.localtime import Placed, placed, with_year

LONGEST_CLOCK = 120  # characters, with what may stand before a clock
_DOCKER_CHUNK = 16_000  # Docker cuts lines at 16 KiB
_LONGEST_YEARLESS = len("12-31")
_LAST_SECOND = 59
_DAY_MS = 86_400_000
_ASSUMED = ZoneInfo("UTC")

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\S{8,40}) std(?:out|err) ([FP]) ?")
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) ")
_POD = re.compile(r"\[pod/([\w.-]+)/[\w.-]+\] ")
_JOURNAL = re.compile(r"([\w.-]+) (?:[A-Za-z][\w.@/-]*\[\d+\]|kernel): ")
_RANK = re.compile(
    r" {0,4}(?:\[[A-Za-z_]+(?P<local>\d+)\]:|\[(?P<host>[A-Za-z][\w.-]*):(?P<of>\d+)\]:"
    r"|\[\d+,(?P<mpi>\d+)\]<std(?:out|err)>:|(?P<srun>\d{1,6}):(?= )) ?"
)
_BEGINS_RANK = re.compile(r" {0,4}(?:\[|\d{1,6}: )|[\w.-]+(?:/\d+|:) \[")
"""What every rank's prefix begins with: cheaper to look for than each of the forms."""
_REPLICA = re.compile(r"[\w.-]+/\d+ (?=\[)")
_HOST = re.compile(r"([A-Za-z][\w.-]*\d): (?=\[)")  # of pdsh and its like
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
# What may stand before a clock: up to three words in brackets, of a logger or of its level.
_CLOCK = re.compile(
    r"\s{0,8}(?:\[[^\[\]]{1,48}\]:? ?){0,3}?\[?(?:NeMo [A-Z] )?(?:"
    r"(?P<date>\d{4}-\d\d-\d\d)[T _](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?"
    r"(?P<zone>Z| ?UTC\b|[+-]\d\d:?\d\d| [+-]\d{4}\b)?"
    r"|(?P<us>\d\d/\d\d/\d{4}) (?P<ustime>\d\d:\d\d:\d\d)"
    r"|[IWEFDC](?P<glog>(?:\d{4})?\d{3,4}) (?P<glogtime>\d\d:\d\d:\d\d)\.(?P<glogfraction>\d+)"
    r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )(?P<ctime>[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)"
    r"(?: (?P<czone>[A-Z]{3,5}))? (?P<year>\d{4})"
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?= \S+ \S+: )"
    r")\]? ?(?:(?:-|>>|\|) )?"
)


class Stamp(NamedTuple):
    """A clock as a line writes it: `2021-05-23`, or `05-23` where it names no year.

    `zone` is what `datetime.strptime` reads with %z, None where it names none; `fraction` are the
    digits after the second.
    """

    date: str
    time: str
    fraction: str = ""
    zone: str | None = None

    @property
    def names_year(self) -> bool:
        """Does it name a year?"""
        return len(self.date) > _LONGEST_YEARLESS


@dataclass(slots=True)
class Plain:
    """A line without what collectors and launchers put before it.

    `stamp` is the emitter's own clock, `collected` that of the collector. `is_partial`: the
    collector cut the line here, and its rest comes next. `fields` name what a collector knows.
    """

    text: str
    raw: str
    rank: int | None = None
    host: str | None = None
    stamp: Stamp | None = None
    collected: Stamp | None = None
    is_partial: bool = False
    fields: dict[str, str] | None = None


def plain(text: str) -> Plain:
    r"""Take off colours, the collector's, the launcher's and the clock's part of a line.

    >>> line = plain("[default7]: [2025-03-31 05:54:07] iteration 1")
    >>> line.text, line.rank, line.stamp.date
    ('iteration 1', 7, '2025-03-31')
    >>> plain('{"log":"\\u001b[31m0: hello\\n","stream":"stdout"}').text
    'hello'
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    line = Plain(text, text)
    if text.startswith("{"):
        _take_json(line)
    elif text[:2] == "20" or text.startswith("[pod/"):
        _take_collector(line)
    line.raw = line.text
    _take_rank(line)
    if _take_clock(line):
        _take_rank(line)
    return line


def _take_json(line: Plain) -> None:
    """A collector's object with the line in it: of Docker, of fluentd and of Fluent Bit."""
    if '"log"' not in line.text and '"message"' not in line.text:
        return
    try:
        entry = msgspec.json.decode(line.text)
    except (msgspec.MsgspecError, RecursionError):
        return
    text = entry.get("log", entry.get("message"))
    if not isinstance(text, str):
        return
    times = (entry.get(name) for name in ("time", "@timestamp", "timestamp"))
    at = next((time for time in times if isinstance(time, str)), "")
    line.is_partial = len(text) >= _DOCKER_CHUNK and not text.endswith("\n")
    line.text = _ANSI.sub("", text.rstrip("\r\n"))
    line.collected = stamp_of(at)
    line.fields = _kubernetes(entry.get("kubernetes"))


def _kubernetes(said: Any) -> dict[str, str] | None:
    if not isinstance(said, dict):
        return None
    names = {"pod_name": "pod", "namespace_name": "namespace", "host": "node"}
    fields = {to: v for name, to in names.items() if isinstance(v := said.get(name), str)}
    labels = said.get("labels")
    for name, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, str):
            fields[f"label:{name}"] = value
    return fields


def _take_collector(line: Plain) -> None:
    text = line.text
    if found := _POD.match(text):
        line.fields, text = {"pod": found[1]}, text[found.end() :]
    if found := _CRI.match(text):
        line.is_partial = found[2] == "P"
    else:
        found = _STAMPED.match(text)
    if found:
        line.collected = stamp_of(found[1])
        text = text[found.end() :]
        if journal := _JOURNAL.match(text):
            line.host, text = journal[1], text[journal.end() :]
    line.text = text


def _take_rank(line: Plain) -> None:
    """`[default7]:`, `[rank3]:`, `[host:3]:`, `[1,3]<stdout>:` and `3: ` name a rank."""
    if _BEGINS_RANK.match(line.text) is None:
        return
    if found := _REPLICA.match(line.text):
        line.text = line.text[found.end() :]
    elif found := _HOST.match(line.text):
        line.host, line.text = found[1], line.text[found.end() :]
    found = _RANK.match(line.text)
    if not found or line.rank is not None:
        return
    line.rank = int(found[found.lastgroup or 0])
    line.host = found["host"] or line.host
    line.text = line.text[found.end() :]


def _take_clock(line: Plain) -> bool:
    text = line.text
    if text.find(":", 0, LONGEST_CLOCK) < 0:
        return False
    found = _CLOCK.match(text, 0, LONGEST_CLOCK)
    if found is None:
        return False
    line.stamp = _stamp(found)
    line.text = text[found.end() :]
    if found["syslog"] and (journal := _JOURNAL.match(line.text)):
        line.host, line.text = journal[1], line.text[journal.end() :]
    return True


def stamp_of(text: str) -> Stamp | None:
    """The clock that a text begins with.

    >>> stamp_of("2021-05-23T08:45:57")
    Stamp(date='2021-05-23', time='08:45:57', fraction='', zone=None)
    """
    found = _CLOCK.match(text)
    return _stamp(found) if found else None


def _stamp(found: re.Match[str]) -> Stamp:
    """Which of the usual forms it is."""
    date, time, fraction, zone = found.group("date", "time", "fraction", "zone")
    if date:
        return Stamp(date, time, fraction or "", zone.strip() if zone else None)
    if date := found["us"]:
        month, day, year = date.split("/")
        return Stamp(f"{year}-{month}-{day}", found["ustime"])
    if date := found["glog"]:
        day = f"{date[:-2][-2:]:0>2}-{date[-2:]}"
        is_whole = len(date) > len("1231")  # else MMDD or MDD
        date = f"{date[:4]}-{day}" if is_whole else day
        return Stamp(date, found["glogtime"], found["glogfraction"])
    name, of_month, time = (found["ctime"] or found["syslog"]).split()
    day = f"{_MONTHS.get(name, 0):02}-{of_month:0>2}"
    zone = "Z" if found["czone"] in ("UTC", "GMT") else None
    return Stamp(f"{found['year']}-{day}" if found["year"] else day, time, "", zone)


@dataclass(slots=True)
class Clock:
    """Stamps to instants. `zone` is the declared one: without it, stamps without a zone are UTC.

    `by` is the file's last change, `about` a time (epoch ms) that the file names somewhere: with
    one of them a year is found for stamps that name none. `is_assumed` and `is_year_guessed` tell
    that UTC, or the last change, was needed.
    """

    zone: ZoneInfo | None
    by: datetime
    about: int | None = None
    is_assumed: bool = False
    is_year_guessed: bool = False

    def of(self, stamp: Stamp, near: int | None = None) -> Placed | None:
        """The instant; None where there is no such date or time.

        `near` is an instant that the file named before. Raises RejectError for a local time that
        the clock of the declared zone skipped.
        """
        date = stamp.date if stamp.names_year else self._date(stamp.date, near)
        if stamp.zone is None and self.zone is None and stamp.names_year:
            self.is_assumed = True
        if date is None or (at := _at(date, stamp.time[:5], stamp.zone, self.zone)) is None:
            return None
        second = int(stamp.time[6:])
        if second > _LAST_SECOND:
            return None
        ms = second * 1000 + (int(stamp.fraction[:3].ljust(3, "0")) if stamp.fraction else 0)
        return Placed(at.at + ms, at.is_ambiguous)

    def _date(self, yearless: str, near: int | None) -> str | None:
        near = self.about if near is None else near
        self.is_year_guessed = self.is_year_guessed or near is None
        return _with_year(yearless, None if near is None else near // _DAY_MS, self.by)


@lru_cache(maxsize=256)
def _with_year(yearless: str, near: int | None, by: datetime) -> str | None:
    """A date whose year is the nearest to `near`, a day of the epoch; else it is found by `by`."""
    month, day = (int(part) for part in yearless.split("-"))
    if not month:
        return None
    about = None if near is None else datetime.fromtimestamp(near * _DAY_MS / 1000, UTC)
    date = with_year(month, day, near=about, by=by)
    return None if date is None else f"{date:%Y-%m-%d}"


@lru_cache(maxsize=4096)
def _at(date: str, time: str, offset: str | None, zone: ZoneInfo | None) -> Placed | None:
    """A minute as an instant."""
    try:
        local = datetime.fromisoformat(f"{date}T{time}")
    except ValueError:
        return None
    shift = timedelta(0)
    if offset and offset not in ("Z", "UTC"):
        hours, minutes = int(offset[1:3]), int(offset[-2:])
        shift = timedelta(hours=hours, minutes=minutes) * (-1 if offset[0] == "-" else 1)
    try:
        return placed(local - shift, _ASSUMED if offset else zone or _ASSUMED)
    except OverflowError:
        return None
