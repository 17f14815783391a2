"""One made-up warehouse and its site for all page tests, and a browser where one is installed."""

from __future__ import annotations

import pytest

from dashboards.pages import write_site
from dashboards.published import Published
from tests.dashboards import browser as driver
from tests.dashboards.fleet import write_warehouse


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    return write_warehouse(tmp_path_factory.mktemp("fleet") / "warehouse")


@pytest.fixture(scope="session")
def published(warehouse):
    return Published(warehouse)


@pytest.fixture(scope="session")
def site(warehouse, tmp_path_factory):
    """The folder of a written site; tests only read it."""
    return write_site(warehouse, tmp_path_factory.mktemp("site") / "out").index.parent


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless Chromium, or a skip that says what to install."""
    why = driver.missing()
    if why:
        pytest.skip(f"no browser to test the pages in: {why}")
    with driver.Browser(
        tmp_path_factory.mktemp("profile"), tmp_path_factory.mktemp("downloads")
    ) as page:
        yield page
