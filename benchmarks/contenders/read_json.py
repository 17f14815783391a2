"""A bare `json.loads` loop over the lines of one file. Usage: read_json.py FILE."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard
from probe import Laps

if TYPE_CHECKING:
    from collections.abc import Iterable


def main() -> None:
    path = Path(sys.argv[1])
    laps = Laps()
    with laps.lap("read"), opened(path) as lines:
        count = decoded(lines)
    laps.report(count)


def opened(path: Path) -> BinaryIO:
    """The lines of a file, decompressed by its suffix."""
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return io.BufferedReader(zstandard.open(path, "rb"))
    return path.open("rb")


def decoded(lines: Iterable[bytes]) -> int:
    """Decode every line, and keep nothing."""
    count = 0
    for line in lines:
        json.loads(line)
        count += 1
    return count


if __name__ == "__main__":
    main()
