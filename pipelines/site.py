"""The site's YAML file whole: its taxonomy, and what it says of its sources (docs/sources.md)."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

import re2

from pipelines.errors import InputError, RegistryError
from pipelines.ingest.identity import GROUPS, Identity
from pipelines.ingest.profile import Profile, load_profile
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.ingest.sources import source
from pipelines.registry import Node, sections_of, taxonomy_of
from pipelines.taxonomy import DEFAULT, Taxonomy

_RULE = (
    "path", "source", "cluster", "zone", "clock_offset_ms", "columns", "delimiter", "mapping",
    "identity",
)  # fmt: skip
_IDENTITY = ("field", "join")
_LONGEST_OFFSET_MS = 86_400_000


@dataclass(frozen=True)
class Site:
    """Everything that one site says of itself."""

    taxonomy: Taxonomy = DEFAULT
    sources: Sources = field(default_factory=Sources)


def load_site(path: str | Path) -> Site:
    """The site that the YAML file describes; what it does not say is built in.

    Files that it names (profiles, joins) are looked for beside it. Raises RegistryError, which
    names the file, the key in it, what is known, and the fix.
    """
    sections = sections_of(path)
    folder = Path(path).parent
    rules = tuple(_rule(entry, folder) for entry in sections["sources"].entries())
    profiles = tuple(_profile(entry, folder) for entry in sections["profiles"].entries())
    return Site(taxonomy_of(sections), Sources(rules, profiles))


def _profile(entry: Node, folder: Path) -> Profile:
    path = folder / entry.text()
    if not path.is_file():
        entry.fail(f"there is no file {path}: give the profile's path, relative to this file")
    return load_profile(path)


def _rule(entry: Node, folder: Path) -> SourceRule:
    said = dict(entry.items(known=_RULE))
    if "path" not in said:
        entry.fail("path missing: an expression that is searched in the names of files")
    path = _expression(said["path"])
    settings = FileSettings(
        source=_source(said.get("source")),
        zone=_zone(said.get("zone")),
        clock_offset_ms=_offset(said.get("clock_offset_ms")),
        columns=tuple(n.text() for n in said["columns"].entries()) if "columns" in said else (),
        delimiter=_delimiter(said.get("delimiter")),
        mapping={k: n.text() for k, n in said["mapping"].items()} if "mapping" in said else {},
        identity=_identity(path, said, folder),
    )
    return SourceRule(path, settings)


def _expression(node: Node) -> str:
    try:
        groups = re2.compile(node.text(), options=_quiet()).groupindex
    except re2.error as error:
        why = error.args[0] if error.args else error
        said = why.decode(errors="replace") if isinstance(why, bytes) else why
        node.fail(f"not an expression of RE2: {said}; no look-around, no back references")
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        node.fail(f"the group '{unknown[0]}' means nothing here: known are {', '.join(GROUPS)}")
    return node.text()


def _quiet() -> re2.Options:
    """RE2 would write its own line to the terminal, beside the message of here."""
    options = re2.Options()
    options.log_errors = False
    return options


def _delimiter(node: Node | None) -> str | None:
    """What stands between columns: perhaps a tab, so that white space alone is a text here."""
    if node is None or (isinstance(node.value, str) and node.value.isspace()):
        return node.value if node else None
    return node.text()


def _source(node: Node | None) -> str | None:
    if node is None:
        return None
    try:
        return source(node.text()).name
    except InputError as error:
        node.fail(str(error))


def _zone(node: Node | None) -> str | None:
    if node is None:
        return None
    try:
        return ZoneInfo(node.text()).key
    except (KeyError, ValueError, OSError):  # of names unknown, unsafe, or a folder
        node.fail(f"'{node.text()}' is no time zone: write a name such as Europe/Oslo or UTC")


def _offset(node: Node | None) -> int:
    if node is None:
        return 0
    value = node.value
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or abs(value) > _LONGEST_OFFSET_MS:
        node.fail("expected whole milliseconds, at most a day, that are added to every instant")
    return int(value)


def _identity(path: str, said: dict[str, Node], folder: Path) -> Identity:
    cluster = said["cluster"].text() if "cluster" in said else None
    node = said.get("identity")
    parts = dict(node.items(known=_IDENTITY)) if node else {}
    if node and "field" not in parts:
        node.fail("field missing: which field of the source names the job (docs/sources.md)")
    join = parts.get("join")
    return Identity(
        path=path if re2.compile(path).groupindex else None,
        field=parts["field"].text() if node else None,
        join=_join(join, folder / join.text()) if join else None,
        join_file=join.text() if join else None,
        cluster=cluster,
    )


def _join(node: Node, path: Path) -> dict[str, dict[str, str]]:
    """The rows of a join file by their first column, `field`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [
                {n: w.strip() if isinstance(w, str) else w for n, w in row.items()}
                for row in csv.DictReader(file, skipinitialspace=True)
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        node.fail(f"cannot read {path}: {error}")
    columns = set(rows[0]) - {None} if rows else {"field", "job_id"}
    unknown = columns - {"field", *GROUPS}
    if unknown or not {"field", "job_id"} <= columns:
        found = ", ".join(sorted(map(str, columns)))
        others = ", ".join(GROUPS)
        node.fail(f"{path} has the columns {found}: needed are field and job_id, others: {others}")
    joined: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=1):
        if fault := _fault(row):
            node.fail(f"{path}, row {number} below the header: {fault}")
        name = row.pop("field")
        if joined.setdefault(name, row) != row:
            raise RegistryError(f"{path}: '{name}' stands twice, with two meanings")
    return joined


def _fault(row: dict[str | None, str | None]) -> str | None:
    """Why a row of a join file joins nothing, or something else than was meant."""
    if None in row or None in row.values():
        return "it has another number of columns"
    if not row["field"] or not row["job_id"]:
        return "field and job_id must say something"
    odd = [n for n in ("attempt", "rank") if (w := row.get(n)) and not str(w).isdecimal()]
    return f"{odd[0]} '{row[odd[0]]}' is no whole number" if odd else None
