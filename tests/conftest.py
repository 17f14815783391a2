"""Fixtures of every test: one engine session for the whole run, and where the real logs are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def pytest_addoption(parser):
    parser.addoption("--engine", default="sail", help="engine of the session: sail or local[2]")


def pytest_collection_modifyitems(config, items):
    """On another engine than the default one, only what runs on an engine runs again."""
    if config.getoption("--engine") == "sail":
        return
    again = [item for item in items if "engine" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in again])
    items[:] = again


@pytest.fixture(scope="session")
def engine(request):
    from pipelines.engine import open_engine

    opened = open_engine(request.config.getoption("--engine"), is_small=True)
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def spark(engine):
    return engine.session


@pytest.fixture(scope="session")
def shared_walk(spark, tmp_path_factory):
    """Frames and rejects of one walk over the logs of several modules: Spark needs long for each."""
    from pipelines.walk import Settings
    from tests import test_cases, test_laws, test_walk
    from tests.frames import AS_OF, walked

    logs = [log for module in (test_cases, test_laws, test_walk) for log in module.LOGS.values()]
    return walked(spark, tmp_path_factory.mktemp("shared"), logs, Settings(AS_OF))


@pytest.fixture(scope="module")
def module_keep(tmp_path_factory):
    """`keep` for one walk of a module: intermediates in a folder of its own."""
    from pyarrow.fs import LocalFileSystem

    from pipelines.scratch import Scratch

    folder = tmp_path_factory.mktemp("scratch")
    return Scratch(LocalFileSystem(), str(folder), folder.as_uri()).keep


@pytest.fixture
def real_logs():
    """The folder of real logs, or a skip that says where it would be."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"real logs are not at {folder}")
    return folder
