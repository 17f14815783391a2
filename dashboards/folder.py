"""A folder that is replaced whole or not at all; the version before is kept beside it."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = "ettledger-site.json"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out`; on success it takes its place, on an error it goes.

    What stood at `out` becomes `<out>.previous`. Raises UsageError where `out` is something that
    was not written here, which is then left alone.
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


def _put_in_place(fresh: Path, out: Path) -> None:
    if not out.exists():
        fresh.rename(out)
        return
    previous = out.with_name(f"{out.name}.previous")
    refuse_strangers(previous)
    shutil.rmtree(previous, ignore_errors=True)
    if _exchanged(fresh, out):
        fresh.rename(previous)
        return
    out.rename(previous)
    try:
        fresh.rename(out)
    except OSError:
        previous.rename(out)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders in one step, where the system can (Linux); else do nothing."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
