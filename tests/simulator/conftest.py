"""Fixtures: a fleet of small jobs that meet everything that can happen."""

import pytest

from tests.simulator.fleets import fleet


@pytest.fixture(scope="session")
def exercise(tmp_path_factory):
    """The folder and the summary of 150 small jobs."""
    out = tmp_path_factory.mktemp("exercise")
    return out, fleet("exercise", out, jobs=150, days=3, seed=1)
