"""The oracle against every case, and the laws that it must keep itself."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.oracle import DAY, account, account_goodput, read

CASES = Path(__file__).parent / "cases"
SEEDS = range(12)


def cases(folder):
    paths = sorted(folder.glob("*.json"))
    return [pytest.param(json.loads(path.read_text()), id=path.stem) for path in paths]


def assert_agrees(got, expected):
    """`got` holds every expected field of every job exactly (the ratio to 1e-12)."""
    assert got["rejects"] == expected["rejects"]
    jobs = {(j.get("cluster", "default"), j["job_id"]): j for j in got["jobs"]}
    wanted = {(j.get("cluster", "default"), j["job_id"]): j for j in expected["jobs"]}
    assert set(jobs) == set(wanted)
    for key, job in wanted.items():
        fields = {k: v for k, v in job.items() if k != "also"} | job.get("also", {})
        ratio = fields.pop("ett_ratio")
        assert {k: jobs[key].get(k) for k in fields} == fields
        assert jobs[key]["ett_ratio"] == (
            ratio if ratio is None else pytest.approx(ratio, abs=1e-12)
        )


@pytest.mark.parametrize("case", cases(CASES))
def test_case(case):
    assert_agrees(account(case["events"], as_of=case["as_of"]), case["expected"])


@pytest.mark.parametrize("case", cases(CASES / "goodput"))
def test_goodput_case(case):
    assert_agrees(account_goodput(case["entries"], as_of=case["as_of"]), case["expected"])


# --- the format -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "ms"),
    [
        (100_000_000_000, 100_000_000_000),
        (99_999_999_999, None),
        (True, None),
        ([], None),
        (1.0005, 1000),
        (1.0015, 1002),
        (-0.0015, -2),
        (1e300, None),
        (float("nan"), None),
        ("1970-01-01T00:00:01.0005Z", 1000),
        ("1970-01-01T00:00:01.00050000000000000000000000000000001Z", 1001),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:60Z", None),
        ("1970-01-01T00:00:00", None),
        ("1970-02-30T00:00:00Z", None),
        ("0001-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59.9995Z", None),
        ("9999-12-31T23:59:59.9994Z", 253_402_300_799_999),
    ],
)
def test_times(ts, ms):
    events, rejects = read([{"ts": ts, "job_id": "j", "event": "job_submitted"}])
    assert [e.ts for e in events] == ([] if ms is None else [ms])
    assert rejects == (ms is None)


STEP = {"ts": strategies.MIDNIGHT, "job_id": "j", "event": "step", "step": 1}


@pytest.mark.parametrize(
    ("change", "rejects"),
    [
        ({}, 0),
        ({"rank": None, "cluster": None}, 0),
        ({"unheard_of": [1, {}]}, 0),
        ({"phase": "lunch"}, 0),  # not a phase line: the word says nothing
        ({"event": "phase_begin", "phase": "lunch"}, 1),
        ({"event": "phase_begin", "phase": "requeue_wait"}, 1),
        ({"event": "phase_end"}, 1),
        ({"event": "train_begin", "step": None}, 1),
        ({"step": 1.0}, 1),
        ({"step": True}, 1),
        ({"step": -1}, 1),
        ({"samples": 2**63 - 1}, 0),
        ({"samples": 2**63}, 1),
        ({"held": 1}, 1),
        ({"attrs": "x"}, 1),
        ({"job_id": 7}, 1),
        ({"event": "heartbeat"}, 1),
    ],
)
def test_rejects(change, rejects):
    assert read([STEP | change])[1] == rejects


def test_equal_lines_count_once():
    same = [STEP, STEP | {"rank": None}, STEP | {"cluster": "default"}, STEP | {"cluster": ""}]
    in_text = json.dumps(STEP | {"ts": "2025-12-01T00:00:00Z"})
    assert len(read([*same, in_text])[0]) == 1
    assert len(read([STEP, STEP | {"attrs": {"writer": "b"}}])[0]) == 2


# --- the laws -------------------------------------------------------------------------------------


def accounts(fleet, lines=None, days=0):
    lines = fleet.lines if lines is None else lines
    as_of = fleet.as_of + days * DAY
    return account(lines, as_of=as_of, dead_after=fleet.dead_after)["jobs"]


def assert_balanced(job):
    rows = job["rows"]
    edges = [row[0] for row in rows[1:]]
    assert edges == [row[1] for row in rows[:-1]], "disjoint and without a gap"
    assert all(begin < end for begin, end, *_ in rows)
    if job["attempts"]:
        first, last = job["attempts"][0], job["attempts"][-1]
        assert job["wall_ms"] == last["end"] - first["start"]
        if rows:
            assert (rows[0][0], rows[-1][1]) == (first["start"], last["end"])
    assert sum(end - begin for begin, end, *_ in rows) == job["wall_ms"]
    assert sum(job["components"].values()) == job["wall_ms"]
    assert sum(job["stages"].values()) == job["wall_ms"]


def assert_sums_agree(job):
    by_day = Counter()
    for components in job["days"].values():
        assert sum(components.values()) <= DAY
        by_day.update(components)
    assert by_day == job["components"]
    effective = job["components"].get("effective_training", 0)
    assert job["stages"].get("effective", 0) == effective
    lost = job["lost_by_cause"].values()
    assert sum(wall for wall, _ in lost) == job["wall_ms"] - effective
    assert sum(gpu for _, gpu in lost) == job["held_gpu_ms"] - job["effective_gpu_ms"]
    assert 0 <= (job["lost_tail_ms"] or 0) <= effective
    assert all(ttr >= 0 for ttr in job["ttr_ms"])
    assert job["failures"] <= sum(job["interruptions"].values()) == len(job["interruption_list"])


def shifted(value, ms):
    """`value` with every time in it (a number near the fleets' midnight) moved by `ms`."""
    if isinstance(value, dict):
        return {k: shifted(v, ms) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shifted(v, ms) for v in value]
    is_time = type(value) is int and abs(value - strategies.MIDNIGHT) < 30 * DAY
    return value + ms if is_time else value


@pytest.mark.parametrize("seed", SEEDS)
def test_every_millisecond_is_in_one_row(seed):
    for job in accounts(strategies.fleet(seed, count=25)):
        assert_balanced(job)
        assert_sums_agree(job)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_and_copies_change_nothing(seed):
    fleet = strategies.fleet(seed, count=15)
    rng = random.Random(seed)
    lines = fleet.lines + rng.sample(fleet.lines, len(fleet.lines) // 3)
    rng.shuffle(lines)
    assert accounts(fleet, lines) == accounts(fleet)


@pytest.mark.parametrize("seed", SEEDS)
def test_how_lines_are_written_changes_nothing(seed):
    fleet = strategies.fleet(seed, count=15)
    texts = strategies.as_written(random.Random(seed), fleet.lines, broken=7)
    got = account(texts, as_of=fleet.as_of, dead_after=fleet.dead_after)
    assert got == {"jobs": accounts(fleet), "rejects": 7}


@pytest.mark.parametrize("seed", SEEDS)
def test_whole_days_later_only_the_days_change(seed):
    fleet = strategies.fleet(seed, count=15)
    later = [line | {"ts": line["ts"] + 3 * DAY} for line in fleet.lines]
    before, after = accounts(fleet), accounts(fleet, later, days=3)
    days = [list(job.pop("days").values()) for job in before]
    assert [list(job.pop("days").values()) for job in after] == days
    assert shifted(before, 3 * DAY) == shifted(after, 0)


def without_positions(jobs):
    """The accounts less the marks' own numbers."""
    for job in jobs:
        for attempt in job["attempts"]:
            attempt["marks"] = [(ts, event) for ts, event, *_ in attempt["marks"]]
            attempt["pairs"] = [(*pair[:3], pair[4] - pair[3]) for pair in attempt["pairs"]]
    return jobs


@pytest.mark.parametrize("seed", SEEDS)
def test_where_steps_are_counted_from_changes_nothing(seed):
    fleet = strategies.fleet(seed, count=15)
    in_steps = [{k: v for k, v in line.items() if k != "samples"} for line in fleet.lines]
    moved = [x | {"step": x["step"] + 1000} if "step" in x else x for x in in_steps]
    before, after = accounts(fleet, in_steps), accounts(fleet, moved)
    assert without_positions(after) == without_positions(before)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.fleets(count=1), st.randoms(use_true_random=False))
def test_laws_on_drawn_jobs(fleet, rng):
    jobs = accounts(fleet)
    for job in jobs:
        assert_balanced(job)
        assert_sums_agree(job)
    lines = list(fleet.lines)
    rng.shuffle(lines)
    assert accounts(fleet, lines) == jobs


OTHER_RULES = {
    *("effective", "time_to_start", "time_to_recover", "wasted_training", "shutdown"),
    *("censored", "clock_conflict", "presumed_dead", "hidden", "reused", "two days"),
    *("presumed", "as_of", "attempt_ended", "job_finished"),
    *("progress", "restart", "end", "notice", "lost tail", "never new again"),
}


def test_the_generator_reaches_every_rule():
    """Hostile jobs that never reach a rule would prove nothing about it."""
    seen = Counter()
    for seed in SEEDS:
        for job in accounts(strategies.fleet(seed, count=25)):
            seen.update(job["components"])
            seen.update(job["stages"])
            seen.update(job["flags"])
            seen.update(job["interruptions"])
            seen.update(x["kind"] for x in job["interruption_list"])
            for attempt in job["attempts"]:
                seen.update([attempt["end_kind"], f"outcome {attempt['outcome']}"])
                seen.update(pair[2] for pair in attempt["pairs"])
            seen["reused"] += "#" in job["job_id"]
            seen["lost tail"] += bool(job["lost_tail_ms"])
            seen["hidden"] += bool(job["hidden_ms"])
            seen["two days"] += len(job["days"]) > 1
            seen["never new again"] += None in job["time_to_new_data_ms"]
    components = {c.key for c in strategies.COMPONENTS}
    others = set(strategies.Cause) | {f"outcome {outcome}" for outcome in strategies.Outcome}
    reached = {name for name, n in seen.items() if n}
    assert (components | others | OTHER_RULES) - reached == set()
