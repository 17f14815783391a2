"""What a site says of its files: reader, cluster, zone, clock offset, columns, identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import re2

from pipelines.ingest.identity import Identity

if TYPE_CHECKING:
    from pipelines.ingest.profile import Profile

_PRINT_CHARACTERS = 16


@dataclass(frozen=True)
class FileSettings:
    """What holds for one file; everything may be unsaid.

    `source` forces a reader. `zone` (IANA) reads times that name no zone; without it they are
    rejects that say so. `clock_offset_ms` is added to every instant. `columns` are the names of a
    table without a header, `mapping` says which column of a table means what (field -> column).
    """

    source: str | None = None
    zone: str | None = None
    clock_offset_ms: int = 0
    columns: tuple[str, ...] = ()
    delimiter: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    identity: Identity = field(default_factory=Identity)

    @cached_property
    def zone_info(self) -> ZoneInfo | None:
        """The declared zone."""
        return ZoneInfo(self.zone) if self.zone else None


@dataclass(frozen=True)
class SourceRule:
    """The settings of the files in whose name `path` (RE2) is found."""

    path: str
    settings: FileSettings


@dataclass(frozen=True)
class Sources:
    """All that a site says of its sources (docs/sources.md): rules, own profiles of step logs."""

    rules: tuple[SourceRule, ...] = ()
    profiles: tuple[Profile, ...] = ()

    def rule_of(self, name: str) -> SourceRule | None:
        """The first rule whose path is found in the file's name."""
        return next((rule for rule in self.rules if re2.search(rule.path, name)), None)

    def print_of(self, name: str, phases: Iterable[str]) -> str:
        """A fingerprint of all that the site says of a file, and of the phases it may claim.

        A file whose fingerprint has changed is read again.
        """
        said = repr((self.settings_of(name), self.profiles, sorted(phases)))
        return sha256(said.encode()).hexdigest()[:_PRINT_CHARACTERS]

    def settings_of(self, name: str) -> FileSettings:
        """The settings of that rule; nothing said where there is none."""
        rule = self.rule_of(name)
        return rule.settings if rule else FileSettings()
