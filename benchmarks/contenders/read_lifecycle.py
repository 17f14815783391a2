"""The lifecycle reader over one file, to Arrow batches, without an engine. Usage: … FILE."""

from __future__ import annotations

import sys

import pyarrow.compute as pc
from probe import Laps

from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_batch, read_files
from pipelines.taxonomy import DEFAULT


def main() -> None:
    files = files_batch(raw_files(sys.argv[1:]))
    laps = Laps()
    lines = events = 0
    with laps.lap("read"):
        for batch in read_files([files], DEFAULT):
            lines += pc.sum(batch["line_count"]).as_py() or 0
            events += pc.sum(batch["event_count"]).as_py() or 0
    if events != lines:
        raise SystemExit(f"{lines} lines gave {events} events: the log is not of the format")
    laps.report(lines)


if __name__ == "__main__":
    main()
