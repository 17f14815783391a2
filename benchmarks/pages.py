"""Speed of the pages in Chromium, at 20 000 simulated jobs over 180 days.

    PYTHONPATH=. python benchmarks/pages.py /tmp/bench-pages

A fleet is simulated and accounted with `ett`; its site is served by a plain file server and opened
in a headless Chromium. What is in the folder already is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from dashboards.folder import MARKER
from dashboards.pages import write_site
from simulator import simulate
from simulator.scenario import BASELINE, FLEET
from tests.dashboards.browser import Browser

LINES_PER_JOB = 280
SIMULATED_DAYS = 203  # jobs are begun in the first 180
START = datetime(2026, 6, 1, tzinfo=UTC)
AT_ONCE = ("data/site.js", "data/jobs.js", "cube/*.js")
MARKS = {
    "headline painted": "first-contentful-paint",
    "first page usable": "ett-usable",
    "all of it drawn": "ett-settled",
}
IN_VIEW = {"top": "a filter, the top in view", "jobs": "a filter, the jobs in view"}
WHOLE = "a filter, the whole page save charts out of sight"
EVERY = "a filter, those charts too"
MARK = "return performance.getEntriesByName(arguments[0])[0].startTime"
# The time from a choice to the first painted frame of what is in view, until all is drawn save the
# charts more than half a screen away, and until these are drawn too.
FILTER = """
const [name, value, section] = arguments, control = document.getElementById(`filter-${name}`);
const choose = () => {
  const boxes = control.querySelectorAll("input[type=checkbox]");
  if (boxes.length) return boxes[value].click();
  control.value = value;
  control.dispatchEvent(new Event("change"));
};
document.getElementById(section).scrollIntoView();
return (async () => {
  await new Promise((go) => setTimeout(go, 100));
  const begin = performance.now(), before = ett.page.turn();
  choose();
  const isDone = () => ett.page.turn() !== before && ett.page.isSettled();
  while (!isDone()) await new Promise((go) => setTimeout(go, 50)); // seldom, so as not to disturb
  const at = (name) => performance.getEntriesByName(name)[0].startTime - begin;
  return ["ett-shown", "ett-answered", "ett-settled"].map(at);
})();
"""
# Each box is ticked and, later, taken back.
CHOICES = (
    ("cluster", 1), ("team", 2), ("model", 0), ("model", 3), ("model", 0), ("model", 3),
    ("owner", 3), ("team", 2), ("size", 3), ("owner", 3), ("size", 3), ("cluster", 1),
    ("from", "2026-08-01"), ("to", "2026-09-30"), ("from", ""), ("to", ""),
)  # fmt: skip


def simulated(folder: Path, jobs: int) -> Path:
    """The warehouse of a fleet of `jobs` jobs over 180 days, simulated and accounted with `ett`.

    They train a fifth of the usual time, so that so many can be simulated in a minute.
    """
    classes = tuple(replace(c, hours=(c.hours[0] / 5, c.hours[1] / 5)) for c in FLEET.classes)
    scenario = replace(BASELINE, workload=replace(FLEET, classes=classes))
    size: dict[str, Any] = {"jobs": jobs, "events": LINES_PER_JOB * jobs, "days": SIMULATED_DAYS}
    told = simulate(scenario, out=folder / "logs", start=START, seed=7, **size)
    ett, warehouse = Path(sys.executable).parent / "ett", folder / "warehouse"
    out = ["--warehouse", warehouse, "--site", folder / "first-site", "--as-of", told.as_of_ms]
    command = [ett, "run", folder / "logs" / "raw", *out]
    subprocess.run([str(word) for word in command], check=True)
    return warehouse


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing of each file."""


def measure(site: Path, loads: int, rounds: int) -> list[tuple[str, list[float]]]:
    """Named lists of milliseconds, each measured in one fresh Chromium."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{server.server_port}/index.html"
    try:
        with Browser(Path(tempfile.mkdtemp(prefix="bench-chromium-"))) as browser:
            return _measured(browser, page, loads, rounds)
    finally:
        server.shutdown()


def _measured(
    browser: Browser, page: str, loads: int, rounds: int
) -> list[tuple[str, list[float]]]:
    browser.look(1440)
    browser.cdp("Network.enable")
    browser.cdp("Network.setCacheDisabled", cacheDisabled=True)
    told: dict[str, list[float]] = {name: [] for name in MARKS}
    for _ in range(loads):
        browser.open("about:blank")
        browser.open(page)
        browser.until("window.ett?.page?.isSettled()", 60)
        for name, mark in MARKS.items():
            told[name].append(browser.run(MARK, mark))
    told |= {name: [] for name in (*IN_VIEW.values(), WHOLE, EVERY)}
    for section, name in [*IN_VIEW.items()] * rounds:
        for control, value in CHOICES:
            times = browser.run(FILTER, control, value, section)
            for measured, ms in zip((name, WHOLE, EVERY), times, strict=True):
                told[measured].append(ms)
    return list(told.items())


def report(site: Path, told: list[tuple[str, list[float]]]) -> str:
    """The table for docs/benchmarks.md, with the machine."""
    cores, load = os.cpu_count(), os.getloadavg()[0]
    lines = [f"{platform.machine()}, {_processor()}, {cores} cores, load {load:.1f}"]
    days = len(json.loads((site / MARKER).read_text())["days"])
    files = [p.stat().st_size for p in site.rglob("*") if p.is_file()]
    jobs = DeltaTable(str(site.parent / "warehouse" / "scorecard__job")).to_pyarrow_table(
        columns=["job_id"]
    )
    count, size = len(jobs["job_id"].unique()), f"{len(files):,} files, {sum(files) / 1e6:,.0f} MB"
    at_once = [p for name in AT_ONCE for p in site.glob(name)]
    first = f"{sum(p.stat().st_size for p in at_once) / 1e6:.1f} MB of data before the first filter"
    lines.append(f"{count:,} jobs, {days} days; {size}; {first}")
    lines += ["", "| measured | median ms | fastest ms | slowest ms | times |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, ms in told:
        lines.append(
            f"| {name} | {statistics.median(ms):.0f} | {min(ms):.0f} | {max(ms):.0f} | {len(ms)} |"
        )
    return "\n".join(lines)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    """Generate what is not there yet, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="kept between runs: the fleet and its site")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warehouse, site = chosen.folder / "warehouse", chosen.folder / "site"
    if not warehouse.exists():
        simulated(chosen.folder, chosen.jobs)
    if not site.exists():
        began = time.monotonic()
        write_site(warehouse, site, title="Large fleet")
        print(f"site written in {time.monotonic() - began:.0f} s")
    print(report(site, measure(site, chosen.loads, chosen.rounds)))


if __name__ == "__main__":
    main()
