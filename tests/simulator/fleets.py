"""Simulated fleets for tests, and how to read what they wrote."""

import gzip
import json
from datetime import UTC, datetime

import pyarrow.parquet as pq

from simulator import simulate

START = datetime(2026, 1, 5, tzinfo=UTC)


def fleet(scenario, out, **wanted):
    return simulate(scenario, out=out, start=START, **wanted)


def texts(out, pattern="*.jsonl*"):
    """The bytes of every log file by its name."""
    files = sorted(p for p in (out / "raw").rglob(pattern) if p.is_file())
    read = {
        p: gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in files
    }
    return {p.relative_to(out / "raw").as_posix(): text for p, text in read.items()}


def lines(out):
    return [json.loads(line) for text in texts(out).values() for line in text.splitlines()]


def jobs(out, truth="truth"):
    """The rows of jobs.parquet by (cluster, job id)."""
    rows = pq.read_table(out / truth / "jobs.parquet").to_pylist()
    return {(row["cluster"], row["job_id"]): row for row in rows}


def intervals(out, truth="truth"):
    """(start, end, component, stage, gpus, attempt) of each job in order, by (cluster, job id)."""
    rows = {}
    for row in pq.read_table(out / truth / "intervals.parquet").to_pylist():
        key = row.pop("cluster"), row.pop("job_id")
        names = ("started_at_ms", "ended_at_ms", "component", "stage", "gpus", "attempt")
        rows.setdefault(key, []).append(tuple(row[name] for name in names))
    return rows
