"""The walk against the oracle on hostile jobs, and the laws of the ledger, on the engine."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pipelines import walk
from tests import strategies
from tests.frames import Log, by_log, walked
from tests.oracle import DAY, account
from tests.strategies import HOURS, SECONDS, TINY
from tests.test_oracle import assert_balanced
from tests.told import as_the_oracle_tells, comparable

AS_OF = strategies.MIDNIGHT + 40 * DAY
DEAD_AFTER = 1_800_000
SCALES = [replace(scale, dead_after=DEAD_AFTER) for scale in (TINY, SECONDS, HOURS)]
SEEDS = range(9)
BROKEN = 3


def fleet_of(seed):
    return strategies.fleet(seed, count=12, scale=SCALES[seed % len(SCALES)])


def written(seed, lines):
    return strategies.as_written(random.Random(seed), lines, broken=BROKEN)


def doubled(seed, lines):
    rng = random.Random(seed)
    return rng.sample(more := lines + rng.sample(lines, len(lines) // 3), len(more))


def in_steps(lines, base=0):
    """The lines without samples, their steps counted from `base`."""
    moved = [{k: v for k, v in line.items() if k != "samples"} for line in lines]
    return [x | {"step": x["step"] + base} if "step" in x else x for x in moved]


def variants(seed):
    """The lines of one fleet told in four ways, of which each pair must account alike."""
    lines = fleet_of(seed).lines
    return {
        f"{seed}/plain": lines,
        f"{seed}/doubled": doubled(seed, lines),
        f"{seed}/steps": in_steps(lines),
        f"{seed}/steps from 1000": in_steps(lines, 1000),
    }


@pytest.fixture(scope="module")
def frames_and_rejects(spark, tmp_path_factory):
    logs = [
        Log(name, written(name, lines), AS_OF - fleet_of(seed).as_of)
        for seed in SEEDS
        for name, lines in variants(seed).items()
    ]
    return walked(spark, tmp_path_factory.mktemp("laws"), logs, walk.Settings(AS_OF, DEAD_AFTER))


@pytest.fixture(scope="module")
def frames(frames_and_rejects):
    return frames_and_rejects[0]


@pytest.fixture(scope="module")
def told(frames):
    jobs = by_log(as_the_oracle_tells(frames))
    return {name: [comparable(job) for job in own] for name, own in jobs.items()}


def by_the_oracle(fleet, days=0):
    later = AS_OF - fleet.as_of + days * DAY
    lines = [line | {"ts": line["ts"] + later} for line in fleet.lines]
    jobs = account(lines, as_of=AS_OF + days * DAY, dead_after=fleet.dead_after)["jobs"]
    return [comparable(job) for job in jobs]


def differences(jobs, others):
    """What two lists of accounts tell differently: (job, field, the one, the other)."""
    first, second = (
        {(j.get("cluster"), j["job_id"]): j for j in found} for found in (jobs, others)
    )
    assert first.keys() == second.keys()
    return [
        (*key, field, first[key][field], second[key][field])
        for key in first
        for field in first[key]
        if first[key][field] != second[key][field]
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_walk_and_the_oracle_agree(told, seed):
    assert differences(told[f"{seed}/plain"], by_the_oracle(fleet_of(seed))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_order_and_copies_change_nothing(told, seed):
    assert differences(told[f"{seed}/doubled"], told[f"{seed}/plain"]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_where_steps_are_counted_from_changes_nothing(told, seed):
    assert differences(told[f"{seed}/steps from 1000"], told[f"{seed}/steps"]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_millisecond_is_in_one_row(told, seed):
    for job in told[f"{seed}/plain"]:
        assert_balanced(job)


def test_broken_lines_are_counted(frames_and_rejects):
    _, rejects = frames_and_rejects
    assert rejects == {name: BROKEN for seed in SEEDS for name in variants(seed)}
