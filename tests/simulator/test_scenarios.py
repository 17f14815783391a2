"""The scenarios are what they claim: the same intents, and how much of the time is effective."""

from pathlib import Path

import pytest

from pipelines.errors import RegistryError
from simulator import BASELINE, EXERCISE, OPTIMISED
from simulator.intents import DAY_MS, intent
from simulator.scenario import parameter_table, phase
from tests.simulator.fleets import fleet, intervals, jobs

DOCS = Path(__file__).parent.parent.parent / "docs" / "simulator.md"
LARGEST = 2048


@pytest.fixture(scope="module")
def truths(tmp_path_factory):
    """The jobs of one fleet in both scenarios, with their folders."""
    outs = {name: tmp_path_factory.mktemp(name) for name in ("baseline", "optimised")}
    for name, out in outs.items():
        fleet(name, out, jobs=192, days=21, events=400_000, seed=7)
    return {name: (out, jobs(out)) for name, out in outs.items()}


def ratio(own, effective="effective_ms", held="wall_ms"):
    return sum(job[effective] for job in own) / sum(job[held] for job in own)


def of(truths, scenario, least=0):
    return [job for job in truths[scenario][1].values() if job["gpus"] >= least]


def test_the_same_intents(truths):
    wanted = [
        {(key, job["model"], job["team"], job["gpus"]) for key, job in own.items()
         if not key[1].endswith("-publish")}
        for _, own in truths.values()
    ]  # fmt: skip
    assert wanted[0] == wanted[1]
    assert len(wanted[0]) == 192


def test_the_baseline_is_near_80_percent(truths):
    own = of(truths, "baseline")
    assert 0.77 < ratio(own) < 0.84
    assert 0.77 < ratio(own, "effective_gpu_ms", "held_gpu_ms") < 0.84


def test_its_largest_jobs_are_at_50_to_60_percent(truths):
    own = of(truths, "baseline", LARGEST)
    assert len(own) > 3
    assert 0.50 < ratio(own) < 0.60
    assert 0.50 < ratio(own, "effective_gpu_ms", "held_gpu_ms") < 0.60


def test_the_optimised_is_above_90_percent(truths):
    own = of(truths, "optimised")
    assert ratio(own) > 0.90
    assert ratio(own, "effective_gpu_ms", "held_gpu_ms") > 0.90


def test_its_largest_jobs_are_at_85_percent(truths):
    own = of(truths, "optimised", LARGEST)
    assert ratio(own) == pytest.approx(0.85, abs=0.03)
    assert ratio(own, "effective_gpu_ms", "held_gpu_ms") == pytest.approx(0.85, abs=0.03)


def test_what_is_cheaper_in_the_optimised(truths):
    shares = {name: shares_of(intervals(out)) for name, (out, _) in truths.items()}
    for component in ("trainer_init.train_module_creation", "compile", "checkpoint_save",
                      "model_publish", "failure_detection", "checkpoint_restore"):  # fmt: skip
        assert shares["optimised"][component] < 0.6 * shares["baseline"][component]


def shares_of(rows):
    """Share of the held GPU time of each component."""
    held = {}
    for own in rows.values():
        for start, end, component, _, gpus, _ in own:
            held[component] = held.get(component, 0) + (end - start) * gpus
    return {component: ms / sum(held.values()) for component, ms in held.items()}


def test_jobs_are_of_8_to_4096_gpus_and_hours_to_weeks():
    wanted = [intent(BASELINE.workload, seed=1, index=i, start_ms=0, days=60) for i in range(512)]
    hours = sorted(i.steps * i.step_ms / 3_600_000 for i in wanted)
    assert ({i.gpus for i in wanted} >= {8, 4096}, hours[0] < 5, hours[-1] > 2 * 7 * 24) == (
        True,
        True,
        True,
    )
    assert sum(i.gpus >= LARGEST for i in wanted) == pytest.approx(512 / 64, abs=1)
    assert max(i.queue_ms for i in wanted) > DAY_MS
    assert {i.cluster.name for i in wanted} == {"basalt", "cedar", "heron"}


def test_the_page_states_the_parameters():
    assert parameter_table(BASELINE, OPTIMISED, EXERCISE) in DOCS.read_text()


def test_a_phase_that_is_none_is_refused():
    with pytest.raises(RegistryError, match="did you mean 'checkpoint_save'"):
        phase("chekpoint_save")
