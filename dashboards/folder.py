"""A folder that is replaced whole or not at all; older versions are kept beside it for a while."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = "ettledger-site.json"
KEPT_FOR = timedelta(days=30)
KEPT_AT_LEAST = 3  # versions, however old
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out`; on success it takes its place, on an error it goes.

    What stood at `out` goes to `<out>.versions/<when it was written>`; those older than `KEPT_FOR`
    are removed, save the last `KEPT_AT_LEAST`. Raises UsageError where `out` is something that was
    not written here, which is then left alone.
    """
    out = out.absolute()
    refuse_strangers(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f".{out.name}.{uuid4().hex[:8]}.new")
    fresh.mkdir()
    try:
        yield fresh
        _put_in_place(fresh, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def refuse_strangers(out: Path) -> None:
    """Raise UsageError unless `out` is absent, empty, or a site that was written here."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file: name a folder for the site")
    if any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"{out} holds files and no {MARKER}, so it is not a site of ettledger and is left "
            "alone: name a new or an empty folder"
        )


def versions(out: Path) -> list[Path]:
    """The versions kept of `out`, the newest first."""
    kept = _shelf(out).glob(f"*/{MARKER}")
    return sorted((marker.parent for marker in kept), key=lambda p: p.name, reverse=True)


def _shelf(out: Path) -> Path:
    return out.with_name(f"{out.name}.versions")


def _put_in_place(fresh: Path, out: Path) -> None:
    if not out.exists() or not any(out.iterdir()):
        fresh.rename(out)
        return
    previous = _place_for(out)
    if _exchanged(fresh, out):
        fresh.rename(previous)
    else:
        out.rename(previous)
        try:
            fresh.rename(out)
        except OSError:
            previous.rename(out)
            raise
    _prune(out)


def _place_for(out: Path) -> Path:
    """Where the version that stands at `out` is kept: under the moment that it was written."""
    written = datetime.fromtimestamp((out / MARKER).stat().st_mtime, UTC)
    name = f"{written:%Y%m%dT%H%M%S.%fZ}"
    _shelf(out).mkdir(exist_ok=True)
    place = _shelf(out) / name
    return place if not place.exists() else place.with_name(f"{name}-{uuid4().hex[:8]}")


def _prune(out: Path) -> None:
    oldest = time.time() - KEPT_FOR.total_seconds()
    for version in versions(out)[KEPT_AT_LEAST:]:
        if (version / MARKER).stat().st_mtime < oldest:
            shutil.rmtree(version, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders in one step, where the system can (Linux); else do nothing."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
