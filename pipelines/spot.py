"""Accounts on the spot: files in, accounts out, no warehouse."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame

from pipelines import clock, tables, walk
from pipelines.accounts import accounts
from pipelines.engine import DEFAULT_ENGINE, open_engine
from pipelines.errors import InputError
from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_frame
from pipelines.scratch import Scratch
from pipelines.site import Site

STEPS = 55
"""About how many intermediates a walk keeps; the progress bar's length."""
SHOWN_REJECTS = 5


@dataclass(frozen=True)
class Spot:
    """The accounts of some files: jobs as dictionaries, rows of logbook__file, first rejects."""

    jobs: list[dict[str, Any]]
    files: list[dict[str, Any]]
    rejects: list[dict[str, Any]]

    @property
    def reject_count(self) -> int:
        """Lines that could not be read, of all files."""
        return sum(f["reject_count"] for f in self.files)


def account_paths(
    paths: Sequence[str],
    *,
    as_of_ms: int | None = None,
    dead_after_ms: int = walk.Settings.dead_after_ms,
    engine: str = DEFAULT_ENGINE,
    site: Site | None = None,
    tick: Callable[[int], None] = lambda _: None,
) -> Spot:
    """Read `paths` (files or folders) and account their jobs up to `as_of_ms` (None: now).

    `tick` is told how many intermediates are written. Raises InputError for a path that is not
    there or holds no file, EngineError where the engine cannot start.
    """
    found = raw_files(paths)
    if not found:
        raise InputError(f"no files in {', '.join(map(str, paths))}: give the folder of the logs")
    now = clock.now_ms() if as_of_ms is None else as_of_ms
    ours = site or Site()
    settings = walk.Settings(now, dead_after_ms, ours.taxonomy, ours.sources)
    running = open_engine(engine)
    try:
        with tempfile.TemporaryDirectory(prefix="ettledger-") as folder:
            scratch = Scratch(LocalFileSystem(), folder, Path(folder).as_uri())
            keep = ticking(scratch.keep, tick)
            book = walk.logbook(files_frame(running.session, found), settings, keep)
            ledger = walk.ledger(book[tables.LOGBOOK_EVENT.name], settings, keep)
            rejects = book[tables.LOGBOOK_REJECT.name].orderBy("source_file", "source_line")
            return Spot(
                jobs=accounts(ledger),
                files=_rows(book[tables.LOGBOOK_FILE.name]),
                rejects=_rows(rejects.limit(SHOWN_REJECTS)),
            )
    finally:
        running.stop()


def ticking(keep: walk.Keep, tick: Callable[[int], None]) -> walk.Keep:
    """`keep` that also tells how many frames it has kept."""
    count = 0

    def kept(name: str, frame: DataFrame) -> DataFrame:
        nonlocal count
        frame = keep(name, frame)
        count += 1
        tick(count)
        return frame

    return kept


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return list(frame.toArrow().to_pylist())
