"""`grep -c` of a pattern over all files of a folder. Usage: grep_count.py PATTERN FOLDER."""

from __future__ import annotations

import resource
import subprocess
import sys

from probe import Laps


def main() -> None:
    pattern, folder = sys.argv[1:]
    laps = Laps()
    with laps.lap("read"):
        told = subprocess.run(
            ["grep", "-rchE", pattern, folder], capture_output=True, text=True, check=True
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    laps.cpu_seconds["read"] += used.ru_utime + used.ru_stime
    laps.report(sum(map(int, told.stdout.split())))


if __name__ == "__main__":
    main()
