"""Console logs for tests: lines made from the format strings of the trainers, and what is told."""

from __future__ import annotations

import datetime as dt

from pipelines.ingest.console import FORMAT
from pipelines.ingest.files import RawFile
from pipelines.ingest.records import Reading, Reject
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT

DAY = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
CHANGED = dt.datetime(2026, 3, 9, tzinfo=dt.UTC)


def at(second: float) -> int:
    """Epoch ms of a second of the day of every log."""
    return int((DAY.timestamp() + second) * 1000)


def clock(second: float) -> str:
    """That second as logs write it."""
    return f"{DAY + dt.timedelta(seconds=second):%Y-%m-%d %H:%M:%S}"


def megatron(step: int, ms: float, *, second: float | None = None, batch: int = 8, samples=None):
    """A line of Megatron-LM's training_log (megatron/training/training.py)."""
    stamp = "" if second is None else f" [{clock(second)}]"
    log = f"{stamp} iteration {step:8d}/{1000:8d} |"
    log += f" consumed samples: {step * batch if samples is None else samples:12d} |"
    log += f" elapsed time per iteration (ms): {ms:.1f} | learning rate: {1.5e-4:.6E} |"
    log += f" global batch size: {batch:5d} | lm loss: {7.34:.6E} | loss scale: {8192.0:.1f} |"
    return log + f" number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |"


def stage(what: str, second: float) -> str:
    """A line of Megatron-LM's print_datetime."""
    return f"[{what}] datetime: {clock(second)} "


def read(text, *, name="job.log", zone=None, profiles=()):
    """Events as dicts of what is not None, rejects, and the tally; every line accounted for."""
    data = text if isinstance(text, bytes) else text.encode()
    rules = (SourceRule("", FileSettings(zone=zone)),)
    sources = Sources(rules, tuple(profiles))
    reading = Reading(RawFile(f"/logs/{name}", name, len(data), CHANGED), DEFAULT, sources=sources)
    units = FORMAT.units([data], reading.tally.refuse)
    events, rejects = [], []
    for record in FORMAT.parse(iter(units), reading):
        if isinstance(record, Reject):
            rejects.append(record)
        else:
            line, when, said = record
            fields = {n: getattr(said, n) for n in type(said).__struct_fields__}
            events.append({"line": line, "at": when} | {k: v for k, v in fields.items() if v is not None})  # fmt: skip
    assert reading.tally.accounted == units.count
    return events, rejects, reading.tally


def told(*lines, attrs=False, **how):
    """Lines as (second, kind, what else it says), without job, source and sign of life."""
    text = "".join(f"{line}\n" for line in lines)
    events, _, _ = read(text, **how)
    dropped = {"line", "at", "event", "job_id", "source"} | (set() if attrs else {"attrs"})
    rows = [
        ((e["at"] - at(0)) / 1000, e["event"], {k: v for k, v in e.items() if k not in dropped})
        for e in events
        if e["event"] != "alive"
    ]
    return sorted(rows, key=lambda row: row[0])
