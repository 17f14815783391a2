"""The ledger by hand in DuckDB's SQL (ledger.sql) over the same files. Usage: … EVENTS SUMS."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
from probe import Laps

SCRIPT = Path(__file__).with_name("ledger.sql").read_text(encoding="utf-8")


def main() -> None:
    events, sums_path = sys.argv[1:]
    laps = Laps()
    for lap in ("first", "second"):
        with laps.lap(lap):
            rows = account(events)
        if lap == "first":
            sums: dict[str, dict[str, int]] = {}
            for job_id, component, ms in rows:
                sums.setdefault(job_id, {})[component] = ms
            Path(sums_path).write_text(json.dumps(sums), encoding="utf-8")
    laps.report(f"duckdb {duckdb.__version__}")


def account(events: str) -> list[tuple[str, str, int]]:
    """Job, component and milliseconds, in a database of its own."""
    with duckdb.connect(":memory:") as base:
        base.execute("SET TimeZone = 'UTC'")
        script = SCRIPT.replace("$events", f"'{events}/*.parquet'")
        return base.execute(script).fetchall()


if __name__ == "__main__":
    main()
