"""The goodput of one job by ml-goodput-measurement. Usage: goodput_library.py FILE JOB.

Its calculator asks a logger for the entries (Cloud Logging, normally). This one gives it
the entries of a file, as its own tests do; what the calculator does with them is its own.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ml_goodput_measurement.src.goodput import GoodputCalculator
from probe import Laps

Cursor = tuple[dt.datetime, str]


class FileLogger:
    """Stands for the library's Cloud Logging client: entries that are in memory already."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries
        self.job_start_time: dt.datetime | None = None

    def read_cloud_logging_entries(self, **_: Any) -> tuple[list[dict[str, Any]], Cursor]:
        """All entries, and where the log was read up to."""
        return self.entries, (dt.datetime.now(dt.UTC), "last")


def main() -> None:
    path, job = sys.argv[1:]
    laps = Laps()
    with laps.lap("read"):
        entries = [json.loads(line) for line in Path(path).read_text().splitlines()]
    with tempfile.TemporaryDirectory() as cache, laps.lap("account"):
        calculator = GoodputCalculator(job, "log", FileLogger(entries), cache_dir=cache)
        percent, parts, _ = calculator.get_job_goodput(include_badput_breakdown=True)
    named = {kind.name: part for kind, part in parts.items()}
    name = f"ml-goodput-measurement {version('ml-goodput-measurement')}"
    laps.report({"ratio": percent / 100, "parts": named, "name": name})


if __name__ == "__main__":
    main()
