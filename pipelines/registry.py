"""The site's registry: one YAML file with its components, owners and prices, as a Taxonomy."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from pipelines.errors import RegistryError, nearest
from pipelines.taxonomy import DEFAULT, Taxonomy

_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_CHILD = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
_HIGHEST_PRICE = 1e9  # beyond, sums of money would lose their cents, or be infinite
_SECTIONS = ("components", "owners", "model_owners", "prices", "currency", "sources", "profiles")
_CHILD_NEEDED = ("label", "definition")
_CHILD_FIELDS = (*_CHILD_NEEDED, "owner", "colour")


def load_registry(path: str | Path) -> Taxonomy:
    """The taxonomy of the site that the YAML file describes (docs/registry.md).

    What the file does not say is as in the built-in taxonomy. Raises RegistryError, which names
    the file, the key in it, what is known, and the fix.
    """
    return taxonomy_of(sections_of(path))


def sections_of(path: str | Path) -> Sections:
    """The sections of the YAML file, none of them looked into. Raises RegistryError."""
    return Sections(str(path), dict(root_of(path).items(known=_SECTIONS)))


def taxonomy_of(sections: Sections) -> Taxonomy:
    """The built-in taxonomy with what the file says of components, owners and prices."""
    site = _renamed(DEFAULT, sections["owners"])
    site = _extended(site, sections["components"])
    return replace(
        site,
        model_owners=_model_owners(site, sections["model_owners"]),
        prices=_prices(sections["prices"]),
        currency=_currency(sections["currency"]),
    )


@dataclass(frozen=True)
class Sections:
    """The sections of one file by name; an absent one says nothing."""

    file: str
    found: dict[str, Node]

    def __getitem__(self, name: str) -> Node:
        """The section, empty where the file has none."""
        return self.found.get(name, Node(self.file, (name,), None))


@dataclass(frozen=True)
class Node:
    """A value of the file and the keys that lead to it, so that messages can say where."""

    file: str
    keys: tuple[str, ...]
    value: Any

    def fail(self, what: str) -> NoReturn:
        """Raise a RegistryError that says where in the file, and what."""
        place = f"{'.'.join(self.keys)}: " if self.keys else ""
        raise RegistryError(f"{self.file}: {place}{what}")

    def items(self, known: Iterable[str] | None = None) -> Iterator[tuple[str, Node]]:
        """The members of a mapping; nothing where the file says nothing."""
        if self.value is None:
            return
        if not isinstance(self.value, dict):
            self.fail(f"expected a mapping (key: value), found {_shown(self.value)}")
        for key, value in self.value.items():
            if not isinstance(key, str):
                self.fail(f"the key {_shown(key)} is no text: put it in quotes")
            if known is not None and key not in known:
                self.fail(f"unknown key '{key}': {nearest(key, known)}")
            yield key, Node(self.file, (*self.keys, key), value)

    def entries(self) -> Iterator[Node]:
        """The members of a list; nothing where the file says nothing."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            self.fail(f"expected a list (- entry), found {_shown(self.value)}")
        for number, value in enumerate(self.value, start=1):
            yield Node(self.file, (*self.keys, f"entry {number}"), value)

    def text(self) -> str:
        """A text with something in it."""
        if not isinstance(self.value, str):
            self.fail(f"expected a text, found {_shown(self.value)}: put it in quotes")
        if not self.value.strip():
            self.fail(
                f"expected a text, found {_shown(self.value)}: write one, or leave the key out"
            )
        return self.value


def _shown(value: Any) -> str:
    """A value as a message quotes it: never more than a line of it."""
    try:
        return _brief.repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number too long to show"


_brief = reprlib.Repr()
_brief.maxlevel = 2
_brief.maxstring = _brief.maxother = 80


def root_of(path: str | Path) -> Node:
    """A YAML file whole, none of it looked into. Raises RegistryError."""
    return Node(str(path), (), _yaml(Path(path)))


class _Loader(yaml.SafeLoader):
    """YAML in which a key may stand only once: the second would silently win."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's
        mapping = super().construct_mapping(node, deep)
        names = [key.value for key, _ in node.value]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            message = f"the key '{twice[0]}' stands twice"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        return mapping


def _yaml(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise RegistryError(f"cannot read the registry {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, IndexError) as error:  # of a tag or date: no YAMLError
        raise RegistryError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise RegistryError(f"{path}: not valid YAML: nested too deeply") from None


def _renamed(site: Taxonomy, section: Node) -> Taxonomy:
    """`owners`: the built-in name of an owner -> the site's."""
    known = {c.owner for c in site if c.owner is not None}
    names = {old: new.text() for old, new in section.items(known=known)}
    components = {
        key: replace(c, owner=names.get(c.owner, c.owner)) if c.owner else c
        for key, c in site.components.items()
    }
    return replace(site, components=components)


def _extended(site: Taxonomy, section: Node) -> Taxonomy:
    """`components`: `parent.child` -> label, definition, and where they differ owner and colour."""
    children = sorted(section.items(), key=lambda item: item[0].count("."))  # parents first
    for key, node in children:
        _check_child(site, key, node)
        fields = dict(node.items(known=_CHILD_FIELDS))
        missing = [name for name in _CHILD_NEEDED if name not in fields]
        if missing:
            node.fail(
                f"{' and '.join(missing)} missing: a component needs {' and '.join(_CHILD_NEEDED)}"
            )
        if "colour" in fields and not _COLOUR.fullmatch(fields["colour"].text()):
            fields["colour"].fail(f"expected #RRGGBB, found {_shown(fields['colour'].value)}")
        said = {name: field.text() for name, field in fields.items()}
        site = site.with_child(
            key,
            label=said["label"],
            owner=said.get("owner"),
            definition=said["definition"],
            colour=said.get("colour"),
        )
    return site


def _check_child(site: Taxonomy, key: str, node: Node) -> None:
    if key in site.components:
        node.fail("exists already; give a child of it, or rename its owner under 'owners'")
    if not _CHILD.fullmatch(key):
        node.fail("a site adds children only, as parent.child in lower case: a new child's name "
                  f"begins with one of {', '.join(sorted(site.phases))}")  # fmt: skip
    parent = key.rpartition(".")[0]
    if parent not in site.components:
        node.fail(f"unknown parent '{parent}': {nearest(parent, site.components)}")
    if site[parent].is_given:
        node.fail(f"'{parent}' is given by the accounting only: a log cannot claim a part of it")


def _model_owners(site: Taxonomy, section: Node) -> dict[tuple[str, str], str]:
    """`model_owners`: model -> component -> owner."""
    owned = {c.key for c in site if c.owner is not None}
    return {
        (model, component): owner.text()
        for model, components in section.items()
        for component, owner in components.items(known=owned)
    }


def _prices(section: Node) -> dict[str, float]:
    """`prices`: cluster -> price of one GPU-hour; `default` is the price of all others."""
    return {cluster: _price(node) for cluster, node in section.items()}


def _price(node: Node) -> float:
    is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if not is_number or not 0 <= node.value <= _HIGHEST_PRICE:
        node.fail(f"expected the price of one GPU-hour, 0 or more, found {_shown(node.value)}")
    return float(node.value)


def _currency(section: Node) -> str:
    if section.value is None:
        return DEFAULT.currency
    if not _CURRENCY.fullmatch(section.text()):
        section.fail(f"expected a code of ISO 4217 such as EUR, found {_shown(section.value)}")
    return section.text()
