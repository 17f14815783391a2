"""Speed of the pages in Chromium: a simulated fleet, tiled to 20 000 jobs over 180 days.

    python benchmarks/pages.py /tmp/bench-pages

A small fleet is simulated and accounted with `ett`; its published tables are then repeated, copy by
copy under new job names and fortnight by fortnight, and their sums multiplied, so that they still
add up. Its site is served by a plain file server and opened in a headless Chromium.
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
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from dashboards.folder import MARKER
from dashboards.pages import write_site
from pipelines import tables
from tests.dashboards.browser import Browser

SEED_JOBS, SEED_DAYS, SEED_EVENTS = 1_600, 14, 1_500_000
SEED_AS_OF = "2026-11-15T00:00:00Z"
AT_ONCE = ("data/site.js", "data/jobs.js", "cube/*.js")
MARKS = {
    "headline painted": "first-contentful-paint",
    "first page usable": "ett-usable",
    "all of it drawn": "ett-settled",
}
MARK = "return performance.getEntriesByName(arguments[0])[0].startTime"
# The time from a choice to its first painted frame, and until everything below the fold is drawn.
FILTER = """
const [name, place] = arguments, control = document.getElementById(`filter-${name}`);
const frame = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
return (async () => {
  const begin = performance.now();
  if (control.tagName === "SELECT") control.selectedIndex = place; else control.value = place;
  control.dispatchEvent(new Event("change"));
  const seen = ett.page.turn();
  const isShown = () => ett.page.turn() !== seen && ett.page.isSeen();
  while (!isShown()) await new Promise((go) => setTimeout(go, 0));
  await frame();
  const shown = performance.now() - begin;
  while (!ett.page.isSettled()) await new Promise((go) => setTimeout(go, 1));
  return [shown, performance.now() - begin];
})();
"""
CHOICES = (
    ("cluster", 1), ("team", 2), ("model", 1), ("model", 0), ("team", 0), ("owner", 3), ("size", 3),
    ("owner", 0), ("size", 0), ("cluster", 0), ("from", "2026-12-01"), ("to", "2027-01-31"),
    ("from", ""), ("to", ""),
)  # fmt: skip


def seed(folder: Path) -> Path:
    """A fleet of `SEED_JOBS` jobs, simulated and accounted; its warehouse."""
    warehouse = folder / "seed"
    if not warehouse.exists():
        ett = [Path(sys.executable).parent / "ett"]
        size = ["--jobs", SEED_JOBS, "--days", SEED_DAYS, "--events", SEED_EVENTS]
        _run(*ett, "simulate", folder / "logs", *size)
        out = ["--warehouse", warehouse, "--site", folder / "seed-site", "--as-of", SEED_AS_OF]
        _run(*ett, "run", folder / "logs/raw", *out)
    return warehouse


def _run(*command: Any) -> None:
    subprocess.run([str(word) for word in command], check=True)


def tile(warehouse: Path, out: Path, copies: int, fortnights: int) -> None:
    """Write `warehouse` again with every job `copies` times in each of `fortnights`."""
    for table in tables.TABLES.values():
        if (warehouse / table.name / "_delta_log").is_dir() and table.name != "logbook__event":
            rows = DeltaTable(str(warehouse / table.name)).to_pyarrow_table()
            by = ["ds"] if table.is_daily else None
            tiled = pa.concat_tables(_tiles(rows.select(table.names), table, copies, fortnights))
            write_deltalake(str(out / table.name), tiled, partition_by=by)


def _tiles(rows: pa.Table, table: tables.Table, copies: int, fortnights: int) -> list[pa.Table]:
    if "ds" not in table.names:
        return [rows]
    shifted = [_shifted(rows, timedelta(days=SEED_DAYS * n)) for n in range(fortnights)]
    if "job_id" not in table.names:
        return [_multiplied(part, copies) for part in shifted]
    return [
        _renamed(part, f"~{n}-{copy}") for n, part in enumerate(shifted) for copy in range(copies)
    ]


def _shifted(rows: pa.Table, by: timedelta) -> pa.Table:
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            moved = pc.add(rows[field.name], pa.scalar(by, pa.duration("us")))
        elif pa.types.is_date(field.type):
            moved = pc.add(
                rows[field.name].cast(pa.timestamp("s")), pa.scalar(by, pa.duration("s"))
            )
        else:
            continue
        rows = rows.set_column(place, field, moved.cast(field.type))
    return rows


def _renamed(rows: pa.Table, suffix: str) -> pa.Table:
    place = rows.schema.get_field_index("job_id")
    names = pc.binary_join_element_wise(rows["job_id"], suffix, "")
    return rows.set_column(place, rows.schema.field(place), names.cast(pa.string()))


def _multiplied(rows: pa.Table, copies: int) -> pa.Table:
    """Sums of so many copies; ratios stay."""
    for place, field in enumerate(rows.schema):
        is_sum = pa.types.is_integer(field.type) or field.name == "lost_cost"
        if is_sum:
            rows = rows.set_column(place, field, pc.multiply(rows[field.name], copies))
    return rows


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
    told |= {"a filter, what is in view": [], "a filter, the whole page": []}
    for _ in range(rounds):
        for name, place in CHOICES:
            shown, whole = browser.run(FILTER, name, place)
            told["a filter, what is in view"].append(shown)
            told["a filter, the whole page"].append(whole)
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
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--fortnights", type=int, default=13)
    parser.add_argument("--seed", type=Path, help="a warehouse to tile in place of a simulated one")
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warehouse, site = chosen.folder / "warehouse", chosen.folder / "site"
    if not warehouse.exists():
        tile(chosen.seed or seed(chosen.folder), warehouse, chosen.copies, chosen.fortnights)
    if not site.exists():
        began = time.monotonic()
        write_site(warehouse, site, title="Large fleet")
        print(f"site written in {time.monotonic() - began:.0f} s")
    print(report(site, measure(site, chosen.loads, chosen.rounds)))


if __name__ == "__main__":
    main()
