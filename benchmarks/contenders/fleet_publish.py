"""Publish a simulated fleet as `ett run` does, then its pages. Usage: … RAW AS_OF_MS FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from probe import Laps

from dashboards.pages import write_site
from pipelines.materialise import materialise
from pipelines.resources import Fleet


def main() -> None:
    raw, as_of_ms, folder = sys.argv[1:]
    warehouse = Path(folder) / "warehouse"
    fleet = Fleet(
        raw=[raw], warehouse=str(warehouse), site=str(Path(folder) / "site"), as_of=as_of_ms
    )
    laps = Laps()
    with laps.lap("run"):
        report = materialise(fleet)
    with laps.lap("site"):
        summary = write_site(warehouse, Path(folder) / "again")
    laps.report(
        {"lines": report.line_count, "days": len(report.days), "jobs": summary.job_count,
         "files": summary.file_count, "site_bytes": summary.size_bytes}
    )  # fmt: skip


if __name__ == "__main__":
    main()
