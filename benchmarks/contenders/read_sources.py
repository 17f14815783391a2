"""The readers over the files of one source, without an engine. Usage: … FOLDER SITE_YAML."""

from __future__ import annotations

import sys

import pyarrow.compute as pc
from probe import Laps

from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_batch, read_files
from pipelines.site import load_site


def main() -> None:
    folder, site_file = sys.argv[1:]
    files, site = files_batch(raw_files([folder])), load_site(site_file)
    laps = Laps()
    lines = events = rejects = 0
    with laps.lap("read"):
        for batch in read_files([files], site.taxonomy, site.sources):
            lines += pc.sum(batch["line_count"]).as_py() or 0
            events += pc.sum(batch["event_count"]).as_py() or 0
            rejects += pc.sum(batch["reject_count"]).as_py() or 0
    if rejects or not events:
        raise SystemExit(f"{lines} lines gave {events} events and {rejects} rejects")
    laps.report(lines)


if __name__ == "__main__":
    main()
