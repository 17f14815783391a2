"""Simulate a fleet and its truth. Usage: fleet_simulate.py FOLDER JOBS EVENTS."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from probe import Laps

from simulator import simulate


def main() -> None:
    folder, jobs, events = sys.argv[1:]
    laps = Laps()
    with laps.lap("simulate"):
        summary = simulate(
            "baseline",
            out=Path(folder),
            jobs=int(jobs),
            events=int(events),
            days=14,
            start=datetime(2026, 11, 1, tzinfo=UTC),
            seed=7,
        )
    laps.report(
        {"jobs": summary.jobs, "lines": summary.events, "files": summary.files,
         "as_of_ms": summary.as_of_ms}
    )  # fmt: skip


if __name__ == "__main__":
    main()
