"""The accounts of one job as `ett account` makes them. Usage: goodput_account.py FILE AS_OF_MS."""

from __future__ import annotations

import sys
from unittest.mock import patch

from probe import Laps

from pipelines import spot
from pipelines.engine import Engine, open_engine
from pipelines.taxonomy import DEFAULT
from pipelines.walk import Settings


def main() -> None:
    path, as_of_ms = sys.argv[1:]
    laps = Laps()

    def timed(name: str) -> Engine:
        with laps.lap("start"):
            return open_engine(name)

    # The engine is opened inside: its start is timed there, so that it can be told apart.
    with patch.object(spot, "open_engine", timed), laps.lap("whole"):
        found = spot.account_paths(
            [path],
            as_of_ms=int(as_of_ms),
            dead_after_ms=Settings.dead_after_ms,
            engine="sail",
            taxonomy=DEFAULT,
            tick=lambda _: None,
        )
    for said in (laps.seconds, laps.cpu_seconds):
        said["account"] = said["whole"] - said["start"]
    (job,) = found.jobs
    laps.report({"ratio": job["ett_ratio"], "parts": job["components"], "name": "ettledger"})


if __name__ == "__main__":
    main()
