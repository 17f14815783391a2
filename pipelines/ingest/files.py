"""Which files there are: folders walked in one fixed order, each file with its name and size."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, NoReturn

from pipelines.errors import InputError


class RawFile(NamedTuple):
    """One file as found. `name` is its path relative to the folder given, with `/`."""

    path: str
    name: str
    size_bytes: int
    modified_at: datetime


def raw_files(roots: Iterable[str | Path]) -> list[RawFile]:
    """The files under `roots` (files or folders), in order of roots and then of names.

    What begins with a dot is skipped, unless it is a root itself; a file reached twice, also by
    a link, counts once. Raises InputError for a root that does not exist, and where two files of
    different folders would have one name.
    """
    found: dict[str, RawFile] = {}
    seen: set[tuple[int, int]] = set()
    for root in map(Path, roots):
        for path, name in _walk(root):
            _check_name(path)
            try:
                stat = path.stat()
            except FileNotFoundError:  # rotated away since the folder was listed
                continue
            identity = stat.st_dev, stat.st_ino
            if identity in seen:
                continue
            if name in found:
                raise InputError(
                    f"two files are named '{name}': {found[name].path} and {path}; names are "
                    "relative to the folder given, so give a folder that holds both"
                )
            seen.add(identity)
            found[name] = RawFile(str(path), name, stat.st_size, _moment(stat.st_mtime))
    return list(found.values())


def _moment(modified: float) -> datetime:
    """The time of change; what no clock can have said is the end of time."""
    try:
        return datetime.fromtimestamp(modified, UTC)
    except (ValueError, OverflowError):
        return datetime.max.replace(tzinfo=UTC)


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    try:
        yield from _found(root)
    except OSError as error:  # a folder that may not be listed would be missing without a word
        place = os.fsdecode(error.filename or root)
        raise InputError(f"cannot look into '{place}': {error.strerror}") from error


def _found(root: Path) -> Iterator[tuple[Path, str]]:
    if root.is_file():
        yield root, root.name
        return
    if not root.is_dir():
        raise InputError(f"no file or folder at '{root}' (looked in {Path.cwd()})")
    names = []
    for folder, folders, files in os.walk(root, onerror=_raise):
        folders[:] = [f for f in folders if not f.startswith(".")]
        inside = Path(folder).relative_to(root)
        names += [(inside / f).as_posix() for f in files if not f.startswith(".")]
    for name in sorted(names):
        if (root / name).is_file():  # not a socket, a pipe or a broken link
            yield root / name, name


def _raise(error: OSError) -> NoReturn:
    raise error


def _check_name(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"the name of the file {str(path)!r} is not UTF-8: rename it") from None
