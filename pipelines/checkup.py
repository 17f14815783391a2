"""What `ett doctor` looks at: Python, engines, Java, memory, storage."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipelines.engine import java_home, open_engine

_GIB = 1 << 30
_ENOUGH_MEMORY = 4 * _GIB
_ENOUGH_DISK = 2 * _GIB
_JAVAS = ("17", "21")


@dataclass(frozen=True)
class Item:
    """One thing looked at: what was found, whether it will do, what to do where it will not."""

    name: str
    found: str
    is_well: bool
    advice: str = ""
    is_needed: bool = True


def examine() -> list[Item]:
    """Look at everything, in the order in which it is printed."""
    looks: tuple[Callable[[], Item], ...] = (
        _python, _packages, _sail, _java, _memory, _disk, _dagster_home,
    )  # fmt: skip
    return [look() for look in looks]


def _python() -> Item:
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Item(
        "Python",
        f"{platform.python_version()} at {sys.executable}",
        fits,
        "" if fits else "use Python 3.11, 3.12 or 3.13",
    )


def _packages() -> Item:
    names = ("ettledger", "pyspark", "pysail", "pyarrow", "deltalake", "dagster", "plotly")
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    advice = f"missing: {', '.join(missing)}; run `make setup`" if missing else ""
    return Item("packages", ", ".join(found), not missing, advice)


def _sail() -> Item:
    try:
        engine = open_engine("sail")
        count = engine.session.range(3).count()
        said = engine.version
        engine.stop()
    except Exception as error:  # noqa: BLE001 - the report is what the user came for
        return Item("sail", f"does not start: {error}", is_well=False, advice="run `make setup`")
    return Item("sail", f"{said} starts and counts to {count}", is_well=True)


def _java() -> Item:
    home = java_home()
    advice = "only for --engine local[*] and Spark masters: install Java 17 or 21"
    if home is None:
        return Item("Java", "none", is_well=False, advice=advice, is_needed=False)
    told = subprocess.run(  # noqa: S603 - the path was looked up, not typed
        [str(Path(home) / "bin" / "java"), "-version"], capture_output=True, text=True, check=False
    )
    first = (told.stderr or told.stdout).splitlines()[:1]
    line = first[0] if first else "says nothing"
    is_well = any(f'"{v}.' in line or f'"{v}"' in line for v in _JAVAS)
    return Item("Java", f"{line} at {home}", is_well, "" if is_well else advice, is_needed=False)


def _memory() -> Item:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fits = size >= _ENOUGH_MEMORY
    advice = "" if fits else "under 4 GiB large fleets will not fit; account fewer days at a time"
    return Item(
        "memory", f"{size / _GIB:.1f} GiB, {os.cpu_count()} cores", fits, advice, is_needed=False
    )


def _disk() -> Item:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    fits = free >= _ENOUGH_DISK
    advice = "" if fits else "set TMPDIR to a folder with more room"
    return Item("storage", f"{free / _GIB:.1f} GiB free at {folder}", fits, advice, is_needed=False)


def _dagster_home() -> Item:
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        advice = "for `dagster dev`, set DAGSTER_HOME to the folder with dagster.yaml"
        return Item(
            "Dagster", "DAGSTER_HOME is not set (`ett run` needs none)", True, advice, False
        )
    fits = (Path(home) / "dagster.yaml").is_file()
    advice = "" if fits else f"there is no dagster.yaml in {home}"
    return Item("Dagster", f"DAGSTER_HOME is {home}", fits, advice, is_needed=False)
