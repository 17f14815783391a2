"""Every case of tests/cases, read by the real readers and accounted in one walk, to the millisecond.

Each case is computed at a moment of its own, and is moved in time so that all share one `as_of`.
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from pipelines.accounts import accounts
from pipelines.intervals import DAY_MS
from tests.frames import AS_OF, Log, by_log
from tests.oracle import account

CASES = Path(__file__).parent / "cases"
NAMES = sorted(p.relative_to(CASES).with_suffix("").as_posix() for p in CASES.rglob("*.json"))
FIELDS = (
    "wall_ms",
    "components",
    "stages",
    "held_gpu_ms",
    "effective_gpu_ms",
    "ttr_ms",
    "time_to_new_data_ms",
    "interruptions",
    "flags",
)


def load(name):
    return json.loads((CASES / f"{name}.json").read_text())


CASE = {name: load(name) for name in NAMES}
WITH_DAYS = [
    name
    for name in NAMES
    if any("days" in j.get("also", {}) for j in CASE[name]["expected"]["jobs"])
]


def log_of(name):
    """Cases that tell days are moved by whole days, to an `as_of` a little later than their own."""
    case = CASE[name]
    shift = AS_OF - case["as_of"]
    lines = [json.dumps(line) for line in case.get("events", case.get("entries"))]
    return Log(name, lines, shift - shift % DAY_MS if name in WITH_DAYS else shift)


LOGS = {name: log_of(name) for name in NAMES}


@pytest.fixture(scope="module")
def told(shared_walk):
    """Accounts by case, and rejects by case."""
    frames, rejects = shared_walk
    return by_log(accounts(frames)), rejects


@pytest.mark.parametrize("name", NAMES)
def test_case(told, name):
    jobs, rejects = told
    expected = CASE[name]["expected"]
    assert rejects[name] == expected["rejects"]
    assert [key(job) for job in jobs[name]] == [key(job) for job in expected["jobs"]]
    for job, known in zip(jobs[name], expected["jobs"], strict=True):
        also = known.get("also", {})
        if "days" in also:
            also = {**also, "days": moved(also["days"], LOGS[name].shift)}
        wanted = {field: known[field] for field in FIELDS} | also
        assert {field: job[field] for field in wanted} == wanted
        assert job["ett_ratio"] == pytest.approx(known["ett_ratio"], abs=1e-12, rel=0)


@pytest.mark.parametrize("name", WITH_DAYS)
def test_a_case_that_tells_days_has_ended_and_may_be_computed_later(name):
    case = CASE[name]
    later = case["as_of"] + (AS_OF - case["as_of"]) % DAY_MS
    assert account(case["events"], as_of=later) == account(case["events"], as_of=case["as_of"])


def key(job):
    return job.get("cluster", "default"), job["job_id"]


def moved(days, shift):
    """Components by day, each day later by `shift` ms."""
    later = timedelta(milliseconds=shift)
    return {(date.fromisoformat(ds) + later).isoformat(): sums for ds, sums in days.items()}
