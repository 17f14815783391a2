"""The accounting a second time, as naively as its text allows: what the real one is measured by.

Written from docs/accounting.md and docs/lifecycle-events.md alone; nothing of the pipeline is
used but the names in the taxonomy. Quadratic, whole milliseconds, no engine.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pipelines.taxonomy import COMPONENTS, DEFAULT, Cause, Outcome

DAY = 86_400_000
EPOCH = date(1970, 1, 1).toordinal()
YEAR_1 = (date(1, 1, 1).toordinal() - EPOCH) * DAY
YEAR_10000 = (date(9999, 12, 31).toordinal() + 1 - EPOCH) * DAY
LARGEST = 2**63 - 1
MOST_GPUS = 1_000_000
MILLIARD = 10**9

KINDS = {
    "job_submitted",
    "attempt_started",
    "phase_begin",
    "phase_end",
    "train_begin",
    "step",
    "checkpoint_durable",
    "interruption",
    "attempt_ended",
    "job_finished",
}
STRINGS = {
    "job_id", "event", "cluster", "host", "phase", "span_id", "outcome", "cause", "model", "team",
    "priority",
}  # fmt: skip
INTEGERS = {"attempt", "rank", "step", "samples", "gpus"}
BOOLEANS = {"blocking", "held"}
NEEDED = {
    "train_begin": "step",
    "step": "step",
    "checkpoint_durable": "step",
    "phase_begin": "phase",
    "phase_end": "phase",
}
TIED_TO_THE_PAST = {"attempt_ended", "interruption", "phase_end", "step", "checkpoint_durable"}
OF_NO_ATTEMPT = {"job_submitted", "job_finished"}
FAILURES = {"failed", "preempted", "timed_out"}
INFRASTRUCTURE = [c.value for c in Cause][:7]
CAUSE_BY_OUTCOME = {
    "preempted": "preemption",
    "timed_out": "timeout",
    "cancelled": "cancelled",
    "succeeded": "planned",
}
TAXONOMY_ORDER = {c.key: i for i, c in enumerate(COMPONENTS)}


# --- the format -----------------------------------------------------------------------------------


class RejectError(ValueError):
    """The line cannot be read."""


@dataclass(frozen=True)
class Line:
    """One event as read; an unknown outcome or cause is None."""

    ts: int
    event: str
    cluster: str
    job_id: str
    attempt: int | None = None
    rank: int | None = None
    host: str | None = None
    step: int | None = None
    samples: int | None = None
    phase: str | None = None
    span_id: str | None = None
    blocking: bool = True
    gpus: int | None = None
    held: bool = False
    outcome: str | None = None
    cause: str | None = None

    @property
    def emitter(self) -> tuple[int, str]:
        return (-1 if self.rank is None else self.rank, self.host or "")


RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def milliseconds(ts: Any) -> int:
    """`ts` as epoch milliseconds, or RejectError."""
    if isinstance(ts, bool) or not isinstance(ts, int | float | Decimal | str):
        raise RejectError("ts is of the wrong type")
    if isinstance(ts, int):
        if ts < 10**11:
            raise RejectError("ts would be seconds")
        moment = ts
    elif isinstance(ts, str):
        moment = from_rfc_3339(ts)
    else:
        moment = from_seconds(Decimal(repr(ts)) if isinstance(ts, float) else ts)
    if not YEAR_1 <= moment < YEAR_10000:
        raise RejectError("ts is outside the years 1 to 9999")
    return moment


def from_seconds(seconds: Decimal) -> int:
    if not seconds.is_finite() or seconds.adjusted() > 15:
        raise RejectError("ts is outside the years 1 to 9999")
    if seconds.adjusted() < -15:
        return 0
    return round(Fraction(seconds) * 1000)


def from_rfc_3339(text: str) -> int:
    match = RFC_3339.fullmatch(text)
    if not match:
        raise RejectError("ts is no RFC 3339 time with a zone")
    year, month, day, hour, minute, second = (int(x) for x in match.groups()[:6])
    fraction, sign, off_hour, off_minute = match.groups()[6:]
    try:
        midnight = (date(year, month, day).toordinal() - EPOCH) * DAY
    except ValueError as error:
        raise RejectError(str(error)) from None
    if (
        hour > 23
        or minute > 59
        or second > 59
        or int(off_hour or 0) > 23
        or int(off_minute or 0) > 59
    ):
        raise RejectError("ts is no time of day")
    offset = (int(off_hour or 0) * 60 + int(off_minute or 0)) * (-1 if sign == "-" else 1)
    seconds = hour * 3600 + minute * 60 + second - offset * 60 + Fraction("0" + (fraction or ".0"))
    return midnight + round(seconds * 1000)


def fields_of(raw: Any) -> dict[str, Any]:
    """The JSON object with `ts` in ms, nulls dropped and `cluster` filled in, or RejectError."""
    if isinstance(raw, str | bytes):
        try:
            raw = json.loads(raw, parse_float=Decimal, parse_constant=no_such_number)
        except ValueError as error:
            raise RejectError(str(error)) from None
    if not isinstance(raw, dict):
        raise RejectError("no object")
    found = {key: value for key, value in raw.items() if value is not None}
    for key, value in found.items():
        check_type(key, value)
    for key in ("ts", "job_id", "event"):
        if key not in found:
            raise RejectError(f"{key} is missing")
    if found["event"] not in KINDS:
        raise RejectError("unknown event")
    needed = NEEDED.get(found["event"])
    if needed and needed not in found:
        raise RejectError(f"{needed} is missing")
    if needed == "phase" and found["phase"] not in DEFAULT.phases:
        raise RejectError("not a phase of the taxonomy")
    return {**found, "ts": milliseconds(found["ts"]), "cluster": found.get("cluster") or "default"}


def no_such_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def check_type(key: str, value: Any) -> None:
    if key in STRINGS and not isinstance(value, str):
        raise RejectError(f"{key} is no string")
    if key in BOOLEANS and not isinstance(value, bool):
        raise RejectError(f"{key} is no boolean")
    largest = MOST_GPUS if key == "gpus" else LARGEST
    if key in INTEGERS and (type(value) is not int or not 0 <= value <= largest):
        raise RejectError(f"{key} is no integer between 0 and 2^63 - 1")
    if key == "attrs" and not isinstance(value, dict):
        raise RejectError("attrs is no object")


def line_of(fields: dict[str, Any]) -> Line:
    known = {key: value for key, value in fields.items() if key in Line.__dataclass_fields__}
    if known.get("outcome") not in set(Outcome) - {Outcome.UNKNOWN}:
        known["outcome"] = None
    if known.get("cause") not in set(Cause) - {Cause.UNKNOWN}:
        known["cause"] = None
    return Line(**known)


def read(lines: list[Any]) -> tuple[list[Line], int]:
    """The events, exact duplicates once, and how many lines were rejects."""
    seen: dict[str, Line] = {}
    rejects = 0
    for raw in lines:
        try:
            fields = fields_of(raw)
        except RejectError:
            rejects += 1
            continue
        seen[json.dumps(fields, sort_keys=True, default=float)] = line_of(fields)
    return list(seen.values()), rejects


# --- jobs and attempts ----------------------------------------------------------------------------


def runs_of(lines: list[Line]) -> list[list[Line]]:
    """The runs of one job key, in time order."""
    finished = [x.ts for x in lines if x.event == "job_finished"]
    openings = [
        x.ts
        for x in lines
        if x.event in ("job_submitted", "attempt_started") and finished and x.ts > min(finished)
    ]
    if not openings:
        return [lines]
    opening = min(openings)
    stays = TIED_TO_THE_PAST | {"job_finished"}
    is_earlier = [x.ts < opening or (x.ts == opening and x.event in stays) for x in lines]
    earlier = [x for x, is_so in zip(lines, is_earlier, strict=True) if is_so]
    later = [x for x, is_so in zip(lines, is_earlier, strict=True) if not is_so]
    return [earlier, *runs_of(later)]


def starts_of(lines: list[Line]) -> list[tuple[Line, int]]:
    """The `attempt_started` lines that are read, in order, each with its attempt's number."""
    starts = [x for x in lines if x.event == "attempt_started"]
    lowest = min((x.emitter for x in starts if x.attempt is None), default=None)
    read_ones = [x for x in starts if x.attempt is not None or x.emitter == lowest]
    numbered: list[tuple[Line, int]] = []
    for start in sorted(read_ones, key=lambda x: (x.ts, x.attempt is None, x.attempt or 0)):
        if start.attempt is not None:
            number = start.attempt
        elif not numbered:
            number = 0
        else:
            before, its_number = numbered[-1]
            is_same = before.attempt is None and before.ts == start.ts
            number = its_number if is_same else its_number + 1
        numbered.append((start, number))
    return numbered


def number_of(line: Line, starts: list[tuple[Line, int]]) -> int:
    """The number of the attempt that a line other than `attempt_started` belongs to."""
    if line.attempt is not None:
        return line.attempt
    if not starts:
        return 0
    earlier = [
        number
        for start, number in starts
        if start.ts < line.ts or (start.ts == line.ts and line.event not in TIED_TO_THE_PAST)
    ]
    return earlier[-1] if earlier else starts[0][1]


@dataclass
class Attempt:
    """One launch of a job; times are epoch ms."""

    number: int
    lines: list[Line]
    start: int = 0
    end: int = 0
    end_kind: str = ""
    is_last: bool = False
    is_cut: bool = False
    is_dead: bool = False
    gpus: int = 0
    held: bool = False
    outcome: str = "unknown"
    marks: list[Line] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def of(self, event: str) -> list[Line]:
        return [x for x in self.lines if x.event == event]

    @property
    def is_censored(self) -> bool:
        return self.end_kind == "as_of"

    @property
    def ends(self) -> list[Line]:
        """Its `attempt_ended` lines; one before the start says nothing."""
        return [x for x in self.of("attempt_ended") if x.ts >= self.start]

    def is_inside(self, line: Line) -> bool:
        return self.start <= line.ts <= self.end

    @property
    def last_mark(self) -> int | None:
        return self.marks[-1].ts if self.marks else None

    @property
    def progress(self) -> list[Pair]:
        return [p for p in self.pairs if p.kind == "progress"]


def attempts_of(lines: list[Line], *, as_of: int, dead_after: int) -> list[Attempt]:
    """The attempts of one run in order, with their envelopes, GPUs, marks and outcomes."""
    starts = starts_of(lines)
    members: dict[int, list[Line]] = {}
    for start, number in starts:
        members.setdefault(number, []).append(start)
    for line in lines:
        if line.event not in OF_NO_ATTEMPT | {"attempt_started"}:
            members.setdefault(number_of(line, starts), []).append(line)
    attempts = [Attempt(number, own) for number, own in members.items()]
    for attempt in attempts:
        started = attempt.of("attempt_started") or attempt.lines
        attempt.start = min(x.ts for x in started)
    attempts.sort(key=lambda a: (a.start, a.number))
    finished = [x for x in lines if x.event == "job_finished"]
    set_ends(attempts, finished, as_of=as_of, dead_after=dead_after)
    set_gpus(attempts)
    for attempt in attempts:
        attempt.marks = marks_of(attempt)
        attempt.outcome = outcome_of(attempt, finished)
    return attempts


def set_ends(attempts: list[Attempt], finished: list[Line], *, as_of: int, dead_after: int) -> None:
    for i, attempt in enumerate(attempts):
        attempt.is_last = i == len(attempts) - 1
        last_event = max(x.ts for x in attempt.lines)
        closing = [x.ts for x in finished if x.ts >= attempt.start]
        if attempt.ends:
            attempt.end, attempt.end_kind = max(x.ts for x in attempt.ends), "attempt_ended"
        elif attempt.is_last and closing:
            attempt.end, attempt.end_kind = max(closing), "job_finished"
        elif not attempt.is_last or as_of - last_event >= dead_after:
            attempt.end, attempt.end_kind = last_event, "presumed"
            attempt.is_dead = attempt.is_last
        else:
            attempt.end, attempt.end_kind = as_of, "as_of"
    for attempt, successor in pairwise(attempts):
        if successor.start < attempt.end:
            attempt.end, attempt.is_cut = successor.start, True


def set_gpus(attempts: list[Attempt]) -> None:
    said: list[int | None] = []
    for attempt in attempts:
        starts = attempt.of("attempt_started")
        saying = [x for x in starts if x.gpus is not None]
        first = min(saying, key=lambda x: (x.ts, x.emitter, -x.gpus), default=None)
        said.append(first.gpus if first else None)
        attempt.held = any(x.held for x in starts)
    held_before = next((n for n in said if n is not None), 0)
    for attempt, gpus in zip(attempts, said, strict=True):
        attempt.gpus = held_before = held_before if gpus is None else gpus


def outcome_of(attempt: Attempt, finished: list[Line]) -> str:
    for ends in (attempt.ends, finished if attempt.is_last else []):
        known = [x for x in ends if x.outcome]
        if known:
            return min(known, key=lambda x: (-x.ts, x.emitter, x.outcome)).outcome
    last_mark = attempt.last_mark
    interrupted = any(last_mark is None or x.ts >= last_mark for x in attempt.of("interruption"))
    return "failed" if attempt.end_kind == "presumed" or interrupted else "unknown"


# --- marks and progress ---------------------------------------------------------------------------


def marks_of(attempt: Attempt) -> list[Line]:
    """The believed marks of an attempt, one of a kind at a millisecond, in order."""
    marks = []
    for kind in ("step", "train_begin"):
        inside = [x for x in attempt.of(kind) if attempt.is_inside(x)]
        believed = min((x.emitter for x in inside), default=None)
        for ts in {x.ts for x in inside if x.emitter == believed}:
            at_once = [x for x in inside if x.emitter == believed and x.ts == ts]
            marks.append(
                max(at_once, key=lambda x: (x.step, -1 if x.samples is None else x.samples))
            )
    first = min((x.ts for x in marks), default=None)
    return sorted(marks, key=lambda x: (x.ts, (x.event == "train_begin") == (x.ts != first)))


@dataclass
class Pair:
    """Two consecutive marks of one attempt. `high` is H before them, `free` as the split left it."""

    first: Line
    second: Line
    p0: int
    p1: int
    high: int
    kind: str
    is_first: bool = False
    is_resume: bool = False
    free: int = 0
    repeated: int = 0

    @property
    def begin(self) -> int:
        return self.first.ts

    @property
    def end(self) -> int:
        return self.second.ts

    @property
    def n(self) -> int:
        return self.p1 - self.p0


def set_pairs(attempts: list[Attempt]) -> None:
    """Give every attempt its mark pairs: progress, restart_gap or unattributed."""
    marks = [mark for attempt in attempts for mark in attempt.marks]
    in_samples = all(mark.samples is not None for mark in marks)
    high = -1
    for attempt in attempts:
        interruptions = [x.ts for x in attempt.of("interruption")]
        positions = [mark.samples if in_samples else mark.step for mark in attempt.marks]
        for i, (first, second) in enumerate(pairwise(attempt.marks)):
            high = max(high, positions[i])
            interrupted = any(first.ts <= ts < second.ts for ts in interruptions)
            kind = kind_of(second, positions[i], positions[i + 1], high, interrupted=interrupted)
            attempt.pairs.append(Pair(first, second, positions[i], positions[i + 1], high, kind))
        high = max([high, *positions])
        set_resumes(attempt.pairs)


def kind_of(second: Line, p0: int, p1: int, high: int, *, interrupted: bool) -> str:
    if p1 > p0 and not (second.event == "train_begin" and interrupted):
        return "progress"
    return "restart_gap" if p1 < high or interrupted else "unattributed"


def set_resumes(pairs: list[Pair]) -> None:
    progress = [p for p in pairs if p.kind == "progress"]
    for i, pair in enumerate(pairs):
        after_no_training = i > 0 and pairs[i - 1].kind != "progress"
        pair.is_first = any(pair is p for p in progress[:1])
        pair.is_resume = pair.first.event == "train_begin" or after_no_training


# --- phases ---------------------------------------------------------------------------------------


@dataclass
class Span:
    """One phase, from begin to end, joined over ranks and clipped to its attempt."""

    phase: str
    begin: int
    end: int
    blocking: bool
    is_inferred: bool
    emitter: tuple[int, str]

    @property
    def gating_rank(self) -> int | None:
        return None if self.emitter[0] < 0 else self.emitter[0]


def spans_of(attempt: Attempt) -> list[Span]:
    """The joined spans of an attempt, blocking and hidden ones."""
    lines = [x for x in attempt.lines if x.event in ("phase_begin", "phase_end")]
    spans = []
    for key in {(x.emitter, x.phase, x.span_id) for x in lines}:
        own = [x for x in lines if (x.emitter, x.phase, x.span_id) == key]
        spans += paired(own, attempt)
    clipped = []
    for span in spans:
        span.begin, span.end = max(span.begin, attempt.start), min(span.end, attempt.end)
        if span.begin < span.end:
            clipped.append(span)
    return joined(clipped)


def paired(lines: list[Line], attempt: Attempt) -> list[Span]:
    """Spans of the begins and ends of one emitter, phase and span_id."""
    spans = []
    stack: list[Line] = []
    for ts in sorted({x.ts for x in lines}):
        ends = sum(x.ts == ts and x.event == "phase_end" for x in lines)
        closing = min(ends, len(stack))
        spans += [stated_span(stack.pop(), ts) for _ in range(closing)]
        begins = [x for x in lines if x.ts == ts and x.event == "phase_begin"]
        stack += sorted(begins, key=lambda x: x.blocking)
        closing = min(ends - closing, len(begins))
        spans += [stated_span(stack.pop(), ts) for _ in range(closing)]
    return spans + [unclosed_span(begin, attempt) for begin in stack]


def stated_span(begin: Line, end: int) -> Span:
    return Span(begin.phase, begin.ts, end, begin.blocking, False, begin.emitter)


def unclosed_span(begin: Line, attempt: Attempt) -> Span:
    stops = [x.ts for x in attempt.marks + attempt.of("interruption")] + [attempt.end]
    end = min((ts for ts in stops if ts > begin.ts), default=begin.ts)
    return Span(begin.phase, begin.ts, end, begin.blocking, True, begin.emitter)


def joined(spans: list[Span]) -> list[Span]:
    islands: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.phase, s.blocking, s.begin)):
        for island in islands[-1:]:
            is_same = (island[0].phase, island[0].blocking) == (span.phase, span.blocking)
            if is_same and span.begin <= max(s.end for s in island):
                island.append(span)
                break
        else:
            islands.append([span])
    return [join(island) for island in islands]


def join(island: list[Span]) -> Span:
    end = max(s.end for s in island)
    last = [s for s in island if s.end == end]
    return Span(
        phase=island[0].phase,
        begin=min(s.begin for s in island),
        end=end,
        blocking=island[0].blocking,
        is_inferred=all(s.is_inferred for s in last),
        emitter=min(s.emitter for s in last),
    )


def innermost(active: list[Span]) -> Span:
    """The one of several active blocking spans that has the instant."""
    rest = [s for s in active if not any(x.phase.startswith(s.phase + ".") for x in active)]
    return min(rest, key=lambda s: (-s.begin, s.end, TAXONOMY_ORDER[s.phase]))


# --- who has an instant ---------------------------------------------------------------------------


@dataclass
class Row:
    """An interval of the ledger; `attempt` is None between attempts."""

    begin: int
    end: int
    component: str
    gpus: int = 0
    is_inferred: bool = False
    attempt: int | None = None
    stage: str = ""
    cause: str | None = None

    @property
    def ms(self) -> int:
        return self.end - self.begin


Piece = tuple[int, int]


def cut_front(pieces: list[Piece], ms: int) -> tuple[list[Piece], list[Piece]]:
    """The first `ms` of the pieces in time order, and the rest."""
    front: list[Piece] = []
    back: list[Piece] = []
    for begin, end in sorted(pieces):
        middle = min(end, begin + ms)
        ms -= middle - begin
        front += [(begin, middle)] if middle > begin else []
        back += [(middle, end)] if end > middle else []
    return front, back


def length(pieces: list[Piece]) -> int:
    return sum(end - begin for begin, end in pieces)


def free_pieces(attempt: Attempt, begin: int, end: int) -> list[Piece]:
    """What the explicit blocking phases leave of [begin, end)."""
    blocking = [s for s in attempt.spans if s.blocking]
    return [
        (a, b)
        for a, b in elementary(attempt, begin, end)
        if not any(s.begin <= a and b <= s.end for s in blocking)
    ]


def elementary(attempt: Attempt, begin: int, end: int) -> list[Piece]:
    """[begin, end) cut wherever a blocking span begins or ends, or a mark is."""
    cuts = {x.ts for x in attempt.marks} | {begin, end}
    cuts |= {ts for s in attempt.spans if s.blocking for ts in (s.begin, s.end)}
    inside = sorted(ts for ts in cuts if begin <= ts <= end)
    return list(pairwise(inside))


def rates_of(attempt: Attempt) -> list[int]:
    """The rates of an attempt without its first progress interval's."""
    rates = []
    for pair in attempt.progress[1:]:
        free = length(free_pieces(attempt, pair.begin, pair.end))
        if free > 0:
            rates.append(free * MILLIARD // pair.n)
    return rates


def speed_of(attempt: Attempt, attempts: list[Attempt]) -> int | None:
    """`m` of an attempt, None where nothing is inferred."""
    rates = rates_of(attempt)
    if len(rates) < 3:
        rates = [rate for a in attempts for rate in rates_of(a)]
    return sorted(rates)[(len(rates) - 1) // 2] if len(rates) >= 3 else None


def inferred_overhead(attempt: Attempt, pair: Pair, free: int, m: int | None) -> tuple[str, int]:
    """Which overhead a progress interval hides and how many ms of it (0: none)."""
    starts_over = pair.is_first or pair.is_resume
    component = "first_step_warmup" if starts_over else "stalled"
    if m is None:
        return component, 0
    expected = m * pair.n // MILLIARD
    excess = free - expected
    explained = any(
        s.phase == "compile" and s.blocking and s.begin < pair.end and pair.begin < s.end
        for s in attempt.spans
    )
    if starts_over:
        limit = max(m // (2 * MILLIARD), expected // 10)
        return component, excess if excess > limit and not explained else 0
    limit = max(4 * m // MILLIARD, expected // 2, 60_000)
    return component, excess if excess > limit else 0


def progress_rows(attempt: Attempt, pair: Pair, m: int | None) -> list[Row]:
    """Inferred overhead, repeated and new training of one progress interval."""
    pieces = free_pieces(attempt, pair.begin, pair.end)
    component, excess = inferred_overhead(attempt, pair, length(pieces), m)
    if component == "stalled":
        rest, overhead = cut_front(pieces, length(pieces) - excess)
    else:
        overhead, rest = cut_front(pieces, excess)
    pair.free = length(rest)
    ahead = max(pair.high - pair.p0, 0)
    pair.repeated = min(ahead, pair.n) * pair.free // pair.n
    repeated, new = cut_front(rest, pair.repeated)
    return [
        *(Row(a, b, component, is_inferred=True) for a, b in overhead),
        *(Row(a, b, "repeated_training") for a, b in repeated),
        *(Row(a, b, "effective_training") for a, b in new),
    ]


def rows_of_attempt(attempt: Attempt, m: int | None) -> list[Row]:
    rows = []
    for begin, end in elementary(attempt, attempt.start, attempt.end):
        active = [s for s in attempt.spans if s.blocking and s.begin <= begin and end <= s.end]
        if active:
            span = innermost(active)
            rows.append(Row(begin, end, span.phase, is_inferred=span.is_inferred))
        else:
            component = without_phase(attempt, begin, end)
            rows += [Row(begin, end, component)] if component else []
    for pair in attempt.progress:
        rows += progress_rows(attempt, pair, m)
    for row in rows:
        row.gpus, row.attempt = attempt.gpus, attempt.number
    return sorted(rows, key=lambda r: r.begin)


def without_phase(attempt: Attempt, begin: int, end: int) -> str | None:
    """Who has an instant that no explicit phase has; None: a progress interval."""
    for pair in attempt.pairs:
        if pair.begin <= begin and end <= pair.end:
            return None if pair.kind == "progress" else pair.kind
    if attempt.marks and begin >= attempt.marks[-1].ts:
        if attempt.outcome in FAILURES:
            return "failure_detection"
        if attempt.outcome in ("succeeded", "cancelled"):
            return "teardown"
    return "unattributed"


def gap_row(before: Attempt, after: Attempt) -> Row:
    if after.held:
        return Row(before.end, after.start, "restart_gap", min(before.gpus, after.gpus))
    return Row(before.end, after.start, "requeue_wait", 0)


def rows_of(attempts: list[Attempt]) -> list[Row]:
    """The job's rows in time order, without stages and causes."""
    rows: list[Row] = []
    for i, attempt in enumerate(attempts):
        if i > 0 and attempts[i - 1].end < attempt.start:
            rows.append(gap_row(attempts[i - 1], attempt))
        rows += rows_of_attempt(attempt, speed_of(attempt, attempts))
    return rows


# --- stages and recoveries ------------------------------------------------------------------------


def recovery_windows(attempts: list[Attempt]) -> list[tuple[int, int, int, int]]:
    """(begin, end, attempt before, attempt after) of each completed recovery."""
    progress = [(a, a.pairs.index(p)) for a in attempts for p in a.progress]
    windows = []
    for (a, i), (b, k) in pairwise(progress):
        if a is not b or any(p.kind == "restart_gap" for p in a.pairs[i + 1 : k]):
            windows.append((a.pairs[i].end, b.pairs[k].begin, a.number, b.number))
    return windows


def stage_of(row: Row, attempts: list[Attempt], windows: list[tuple[int, int, int, int]]) -> str:
    progress = [p for a in attempts for p in a.progress]
    if row.component == "effective_training":
        return "effective"
    if not progress or row.end <= progress[0].begin:
        return "time_to_start"
    if any(begin <= row.begin and row.end <= end for begin, end, _, _ in windows):
        return "time_to_recover"
    if row.end <= progress[-1].end:
        return "wasted_training"
    return stage_after_progress(row, attempts[-1])


def stage_after_progress(row: Row, last: Attempt) -> str:
    """The stage of a row after the end of the job's last progress interval."""
    if not last.progress:
        return "time_to_recover"
    follows = last.pairs[last.pairs.index(last.progress[-1]) + 1 :]
    up_to_last_mark = row.end <= last.marks[-1].ts
    if any(p.kind == "restart_gap" for p in follows) and (up_to_last_mark or last.is_censored):
        return "time_to_recover"
    if not up_to_last_mark and (last.outcome in FAILURES or last.is_dead):
        return "time_to_recover"
    return "wasted_training" if up_to_last_mark or last.is_censored else "shutdown"


def recoveries_of(
    windows: list[tuple[int, int, int, int]], rows: list[Row]
) -> list[dict[str, Any]]:
    recoveries = []
    for begin, end, before, after in windows:
        news = [r.begin for r in rows if r.component == "effective_training" and r.begin >= end]
        recoveries.append(
            {
                "begin": begin,
                "end": end,
                "from_attempt": before,
                "to_attempt": after,
                "ttr_ms": end - begin,
                "new_data_at": min(news, default=None),
                "time_to_new_data_ms": min(news) - begin if news else None,
            }
        )
    return recoveries


# --- interruptions --------------------------------------------------------------------------------


@dataclass
class Interruption:
    """`gap` says where in its attempt's course: before mark number `gap`, or after the last."""

    attempt: Attempt
    gap: int
    kind: str
    cause: str = "unknown"

    @property
    def begin(self) -> int:
        return self.attempt.marks[self.gap - 1].ts if self.gap > 0 else self.attempt.end


def interruptions_of(attempts: list[Attempt], *, dead_after: int) -> list[Interruption]:
    return [x for a in attempts for x in interruptions_in(a, dead_after=dead_after)]


def interruptions_in(attempt: Attempt, *, dead_after: int) -> list[Interruption]:
    """The interruptions of one attempt in the order of its course."""
    groups: dict[int, list[Line]] = {}
    for line in attempt.of("interruption"):
        gap = sum(mark.ts <= line.ts for mark in attempt.marks)
        groups.setdefault(gap, []).append(line)
    found = [
        Interruption(attempt, i + 1, "restart")
        for i, pair in enumerate(attempt.pairs)
        if pair.kind == "restart_gap"
    ]
    if attempt.outcome in FAILURES or not attempt.is_last:
        found.append(Interruption(attempt, len(attempt.marks), "end"))
    unclaimed = {gap: own for gap, own in groups.items() if gap not in [x.gap for x in found]}
    for one in found:
        lines = groups.get(one.gap) or notice(one, unclaimed, dead_after=dead_after)
        one.cause = cause_of(one, lines)
    for gap, lines in unclaimed.items():
        alone = Interruption(attempt, gap, "notice")
        alone.cause = cause_of(alone, lines)
        found.append(alone)
    return sorted(found, key=lambda x: x.gap)


def notice(one: Interruption, unclaimed: dict[int, list[Line]], *, dead_after: int) -> list[Line]:
    """Take the latest earlier group that belongs to nobody, if it is recent enough."""
    earlier = max((gap for gap in unclaimed if gap < one.gap), default=None)
    if earlier is None:
        return []
    last_line = max(x.ts for x in unclaimed[earlier])
    last_mark = one.attempt.marks[one.gap - 1].ts
    return unclaimed.pop(earlier) if last_mark - last_line <= dead_after else []


def cause_of(one: Interruption, lines: list[Line]) -> str:
    sources = [lines]
    if one.kind == "end" or one.gap == len(one.attempt.marks):
        sources.append(one.attempt.ends)
    for source in sources:
        known = sorted((x.ts, x.cause) for x in source if x.cause)
        if known:
            return known[0][1]
    return CAUSE_BY_OUTCOME.get(one.attempt.outcome, "unknown") if one.kind == "end" else "unknown"


def with_causes(rows: list[Row], interruptions: list[Interruption]) -> list[Row]:
    """The rows, cut where an interruption begins, each with the cause it is charged to."""
    begins = sorted({x.begin for x in interruptions})
    charged = []
    for row in rows:
        is_charged = row.component == "repeated_training" or row.stage in (
            "time_to_recover",
            "time_to_start",
        )
        if not is_charged:
            charged.append(row)
            continue
        edges = [row.begin, *(ts for ts in begins if row.begin < ts < row.end), row.end]
        for begin, end in pairwise(edges):
            before = [x for x in interruptions if x.begin <= begin]
            latest = max((x.begin for x in before), default=None)
            cause = [x.cause for x in before if x.begin == latest][-1] if before else None
            charged.append(Row(**{**vars(row), "begin": begin, "end": end, "cause": cause}))
    return charged


# --- the account of a job -------------------------------------------------------------------------


def lost_tail(attempts: list[Attempt]) -> int | None:
    last = attempts[-1] if attempts else None
    if last is None or last.is_censored or last.outcome == "succeeded":
        return 0
    durable = [x.step for a in attempts for x in a.of("checkpoint_durable")]
    if not durable:
        return None
    kept = max(durable)
    return sum(beyond(pair, kept) for attempt in attempts for pair in attempt.progress)


def beyond(pair: Pair, kept: int) -> int:
    """The effective ms of one progress interval beyond checkpoint step `kept`."""
    s0, s1 = pair.first.step, pair.second.step
    if s1 <= s0:
        return pair.free - pair.repeated if s1 > kept else 0
    saved = min(max(kept - s0, 0), s1 - s0) * pair.free // (s1 - s0)
    return pair.free - max(pair.repeated, saved)


def queue_wait(lines: list[Line], attempts: list[Attempt], as_of: int) -> int | None:
    submitted = [x.ts for x in lines if x.event == "job_submitted"]
    if not submitted:
        return None
    finished = [x.ts for x in lines if x.event == "job_finished"]
    until = attempts[0].start if attempts else max(finished, default=as_of)
    return until - min(submitted)


def flags_of(attempts: list[Attempt]) -> list[str]:
    last = attempts[-1] if attempts else None
    flags = ["censored"] if last is None or last.is_censored else []
    flags += ["clock_conflict"] if any(a.is_cut for a in attempts) else []
    return flags + (["presumed_dead"] if last and last.is_dead else [])


def sums(rows: list[Row], key: Any) -> dict[Any, int]:
    """Milliseconds by `key`, only those above zero."""
    total: Counter[Any] = Counter()
    for row in rows:
        total[key(row)] += row.ms
    return {k: ms for k, ms in total.items() if ms}


def days_of(rows: list[Row]) -> dict[str, dict[str, int]]:
    days: dict[str, Counter[str]] = {}
    for row in rows:
        begin = row.begin
        while begin < row.end:
            end = min(row.end, (begin // DAY + 1) * DAY)
            day = (
                (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=begin // DAY)).date().isoformat()
            )
            days.setdefault(day, Counter())[row.component] += end - begin
            begin = end
    return {day: dict(components) for day, components in sorted(days.items())}


def hidden_of(attempts: list[Attempt]) -> dict[str, int]:
    hidden: Counter[str] = Counter()
    for attempt in attempts:
        for span in attempt.spans:
            if not span.blocking:
                hidden[span.phase] += span.end - span.begin
    return dict(hidden)


def lost_by_cause(rows: list[Row]) -> dict[str | None, list[int]]:
    lost: dict[str | None, list[int]] = {}
    for row in rows:
        if row.component != "effective_training":
            wall, gpu = lost.get(row.cause, [0, 0])
            lost[row.cause] = [wall + row.ms, gpu + row.ms * row.gpus]
    return lost


def merged(rows: list[Row], key: Any) -> list[tuple[Any, ...]]:
    """(begin, end, *key(row)) of rows in time order; touching ones of equal key are one."""
    out: list[tuple[Any, ...]] = []
    for row in rows:
        if out and out[-1][1] == row.begin and out[-1][2:] == key(row):
            out[-1] = (out[-1][0], row.end, *key(row))
        else:
            out.append((row.begin, row.end, *key(row)))
    return out


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "start": attempt.start,
        "end": attempt.end,
        "outcome": attempt.outcome,
        "gpus": attempt.gpus,
        "held": attempt.held,
        "end_kind": attempt.end_kind,
        "is_cut": attempt.is_cut,
        "outside_line_count": sum(not attempt.is_inside(x) for x in attempt.lines),
        "marks": [(x.ts, x.event, x.step, x.samples) for x in attempt.marks],
        "pairs": [(p.begin, p.end, p.kind, p.p0, p.p1, p.high) for p in attempt.pairs],
        "spans": sorted(
            (s.phase, s.blocking, s.begin, s.end, s.is_inferred, s.gating_rank)
            for s in attempt.spans
        ),
    }


def account_of_run(lines: list[Line], *, as_of: int, dead_after: int) -> dict[str, Any]:
    """The account of one run of one job."""
    attempts = attempts_of(lines, as_of=as_of, dead_after=dead_after)
    set_pairs(attempts)
    for attempt in attempts:
        attempt.spans = spans_of(attempt)
    rows = rows_of(attempts)
    windows = recovery_windows(attempts)
    for row in rows:
        row.stage = stage_of(row, attempts, windows)
    interruptions = interruptions_of(attempts, dead_after=dead_after)
    rows = with_causes(rows, interruptions)
    recoveries = recoveries_of(windows, rows)
    wall = attempts[-1].end - attempts[0].start if attempts else 0
    effective = [r for r in rows if r.component == "effective_training"]
    progress = [p for a in attempts for p in a.progress]
    counted = Counter(x.cause for x in interruptions)
    return {
        "wall_ms": wall,
        "components": sums(rows, lambda r: r.component),
        "stages": sums(rows, lambda r: r.stage),
        "held_gpu_ms": sum(r.ms * r.gpus for r in rows),
        "effective_gpu_ms": sum(r.ms * r.gpus for r in effective),
        "ett_ratio": sum(r.ms for r in effective) / wall if wall else None,
        "ttr_ms": [x["ttr_ms"] for x in recoveries],
        "time_to_new_data_ms": [x["time_to_new_data_ms"] for x in recoveries],
        "interruptions": dict(counted),
        "flags": flags_of(attempts),
        "hidden_ms": hidden_of(attempts),
        "lost_tail_ms": lost_tail(attempts),
        "queue_wait_ms": queue_wait(lines, attempts, as_of),
        "tts_ms": progress[0].begin - attempts[0].start if progress else None,
        "days": days_of(rows),
        "rows": merged(rows, lambda r: (r.component, r.stage, r.gpus, r.is_inferred, r.attempt)),
        "causes_of_rows": merged(rows, lambda r: (r.component, r.stage, r.cause)),
        "lost_by_cause": lost_by_cause(rows),
        "failures": sum(counted[cause] for cause in INFRASTRUCTURE),
        "recoveries": recoveries,
        "attempts": [attempt_record(a) for a in attempts],
        "interruption_list": [
            {"attempt": x.attempt.number, "kind": x.kind, "cause": x.cause, "begin": x.begin}
            for x in interruptions
        ],
    }


def account(lines: list[Any], *, as_of: int, dead_after: int = 1_800_000) -> dict[str, Any]:
    """The accounts of all jobs in `lines` (decoded objects or JSON text) at `as_of`, epoch ms.

    `{"jobs": [...], "rejects": n}`: each job in the shape of the cases' `expected.jobs` with the
    fields of `also` beside it, and more to compare by (rows, recoveries, attempts, ...).
    """
    events, rejects = read(lines)
    keys: dict[tuple[str, str], list[Line]] = {}
    for line in events:
        if line.ts <= as_of:
            keys.setdefault((line.cluster, line.job_id), []).append(line)
    jobs = []
    for (cluster, job_id), own in sorted(keys.items()):
        for i, run in enumerate(runs_of(own), start=1):
            name = {"job_id": job_id if i == 1 else f"{job_id}#{i}"}
            if cluster != "default":
                name["cluster"] = cluster
            jobs.append({**name, **account_of_run(run, as_of=as_of, dead_after=dead_after)})
    return {"jobs": jobs, "rejects": rejects}


# --- entries of ml-goodput-measurement ------------------------------------------------------------

PHASE_OF_ENTRY = {
    "tpu_init": "trainer_init.device_init",
    "training_prep": "trainer_init.pre_train",
    "elastic_wait": "restart_gap",
    "elastic_reinit": "trainer_init",
}


def seconds(value: Any) -> int:
    """Epoch ms of a time in seconds, whole or not."""
    return from_seconds(Decimal(repr(value)))


def goodput_lines(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lifecycle objects of the entries of one or several logs."""
    lines = []
    for name in {entry["job_name"] for entry in entries}:
        attempts: list[list[dict[str, Any]]] = []
        for entry in entries:
            if entry["job_name"] == name:
                if not attempts or entry.get("job_start_time") is not None:
                    attempts.append([])
                attempts[-1].append(entry)
        log_rates = [rate for own in attempts for rate in step_rates(own)]
        for number, own in enumerate(attempts):
            is_last = number == len(attempts) - 1
            told = goodput_attempt(own, log_rates, is_last=is_last)
            lines += [{"job_id": name, "attempt": number, **line} for line in told]
    return lines


def step_records(entries: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(ms, n) by time; of the same n twice in a row only the first."""
    records = [
        (seconds(e["step_start_time"]), e["step_count"])
        for e in entries
        if e.get("step_start_time") is not None
    ]
    records.sort(key=lambda r: r[0])
    return [r for i, r in enumerate(records) if i == 0 or records[i - 1][1] != r[1]]


def step_rates(entries: list[dict[str, Any]]) -> list[int]:
    """ms per step between consecutive rising records."""
    records = step_records(entries)
    return [(t1 - t0) // (n1 - n0) for (t0, n0), (t1, n1) in pairwise(records) if n1 > n0]


def goodput_attempt(
    entries: list[dict[str, Any]], log_rates: list[int], *, is_last: bool
) -> list[dict[str, Any]]:
    """Lifecycle objects of one attempt's entries."""
    records = step_records(entries)
    lines: list[dict[str, Any]] = []
    for i, (ts, n) in enumerate(records):
        rises = i > 0 and n > records[i - 1][1]
        lines.append({"ts": ts, "event": "step" if rises else "train_begin", "step": n})
    for entry in entries:
        if entry.get("job_start_time") is not None:
            lines.append({"ts": seconds(entry["job_start_time"]), "event": "attempt_started"})
        if entry.get("job_end_time") is not None:
            outcome = {"outcome": "succeeded"} if is_last else {}
            end = {"ts": seconds(entry["job_end_time"]), "event": "attempt_ended", **outcome}
            lines.append(end)
    ends = [x["ts"] for x in lines if x["event"] == "attempt_ended"]
    if ends and records:
        lines.append(last_step(records, sorted(step_rates(entries) or log_rates), max(ends)))
    return lines + goodput_phases(entries, records[0][0] if records else None)


def last_step(records: list[tuple[int, int]], rates: list[int], end: int) -> dict[str, Any]:
    ts, n = records[-1]
    done = min(end, ts + rates[(len(rates) - 1) // 2]) if rates else end
    return {"ts": done, "event": "step", "step": n + 1, "attrs": {"inferred": "true"}}


def goodput_phases(entries: list[dict[str, Any]], first_record: int | None) -> list[dict[str, Any]]:
    lines = []
    loading = "trainer_init.first_batch"
    for entry in entries:
        for key, value in entry.items():
            match = re.fullmatch(r"(\w+)_(start|end)_time", key)
            if value is None or not match or match[1] in ("job", "step"):
                continue
            ts = seconds(value)
            phase = PHASE_OF_ENTRY.get(match[1])
            if match[1] == "custom_badput_event":
                kind = entry["custom_badput_event_type"]
                phase = "evaluation" if "eval" in kind.lower() else "stalled"
            if match[1] == "data_loading":
                if match[2] == "start":
                    is_first = first_record is None or ts < first_record
                    loading = "trainer_init.first_batch" if is_first else "data_stall"
                phase = loading
            if phase:
                event = "phase_begin" if match[2] == "start" else "phase_end"
                lines.append({"ts": ts, "event": event, "phase": phase})
        lines += checkpoint_phase(entry)
    return lines


def checkpoint_phase(entry: dict[str, Any]) -> list[dict[str, Any]]:
    names = {"save": "checkpoint_manager_blocking", "restore": "checkpoint_manager"}
    name = names.get(entry.get("event_type", ""))
    if not name or entry.get(f"{name}_start_time") is None:
        return []
    begin = Decimal(repr(entry[f"{name}_start_time"]))
    duration = entry.get(f"{name}_duration_secs")
    phase = f"checkpoint_{entry['event_type']}"
    lines = [{"ts": from_seconds(begin), "event": "phase_begin", "phase": phase}]
    if duration is not None:
        end = from_seconds(begin + Decimal(repr(duration)))
        lines.append({"ts": end, "event": "phase_end", "phase": phase})
    return lines


def account_goodput(entries: list[dict[str, Any]], as_of: int) -> dict[str, Any]:
    """The accounts of the entries of ml-goodput-measurement at `as_of`, epoch ms."""
    return account(goodput_lines(entries), as_of=as_of)
