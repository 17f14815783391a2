"""Which job a file or a record belongs to: the site's rules, and why none of them fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import re2

GROUPS = ("cluster", "job_id", "attempt", "rank", "model", "team")
"""What a rule may name, as a group of its expression or as a column of its join file."""


class Key(NamedTuple):
    """What is known of the emitter of a line; None where nothing says it."""

    job_id: str
    cluster: str | None = None
    attempt: int | None = None
    rank: int | None = None
    model: str | None = None
    team: str | None = None


class Joined(NamedTuple):
    """How one own name of a file became a job: the rule that said so, or why none did."""

    own_id: str
    key: Key
    rule: str | None
    reason: str | None


@dataclass(frozen=True)
class Identity:
    """The site's rules for one kind of file (docs/sources.md), tried in this order.

    `path`: an expression searched in the file's name, with named groups out of GROUPS; it speaks of
    every record of the file. `field`: the name of a field that the reader finds, whose value is the
    job's id; with `join`, the value is looked up (value -> what GROUPS name).
    """

    path: str | None = None
    field: str | None = None
    join: Mapping[str, Mapping[str, str]] | None = None
    join_file: str | None = None
    cluster: str | None = None


@dataclass(slots=True)
class Identities:
    """The identities of one file: asked for each record, kept once for each question."""

    rules: Identity
    name: str
    found: dict[tuple[str | int | None, ...], Joined] = field(default_factory=dict)

    def of(self, own_id: str, fields: Mapping[str, str] | None = None, **known: str | int) -> Key:
        """The job of a record that calls it `own_id`, with the fields that tell more of it.

        `known` (cluster, attempt, rank, model, team) holds where no rule says otherwise. An answer
        is kept for each `own_id`, value of the rule's field, and `known`.
        """
        by = self.rules.field
        if by is None and self.rules.path is None:  # nothing is declared: nothing is to be listed
            if known.keys() <= {"cluster"}:  # so it is for millions of records
                cluster = self.rules.cluster or known.get("cluster")
                return Key(own_id, None if cluster is None else str(cluster))
            return _key(self._merged(own_id, known, {}))
        asked = (own_id, fields.get(by) if fields and by else None, *known.values())
        joined = self.found.get(asked)
        if joined is None:
            said, rule, reason = self._said(own_id, fields or {})
            key = _key(self._merged(own_id, known, said))
            joined = self.found[asked] = Joined(own_id, key, rule, reason)
        return joined.key

    def _merged(
        self, own_id: str, known: Mapping[str, str | int], said: Mapping[str, str]
    ) -> dict[str, str | int | None]:
        """The source's words, over them the site's cluster, over that what its rules say."""
        cluster = self.rules.cluster or known.get("cluster")
        return {"job_id": own_id, **known, "cluster": cluster, **said}

    def _said(
        self, own_id: str, fields: Mapping[str, str]
    ) -> tuple[dict[str, str], str | None, str | None]:
        """What the rules say: groups, the rule that said them, and why nothing did."""
        rules = self.rules
        said: dict[str, str] = {}
        used: list[str] = []
        if rules.path is not None and (found := re2.search(rules.path, self.name)):
            said = {k: v for k, v in found.groupdict().items() if v and k in GROUPS}
            used = [f"path {rules.path}"] if said else []
        if rules.field is None:
            return said, used[0] if used else None, None
        value = own_id if rules.field == "id" else fields.get(rules.field)
        if value is None:
            known = ", ".join(sorted(fields)) or "none"
            return said, _rule(used), f"no field '{rules.field}' here; fields found: {known}"
        if rules.join is None:
            return {**said, "job_id": value}, _rule([*used, f"field {rules.field}"]), None
        row = rules.join.get(value)
        if row is None:
            return said, _rule(used), f"{rules.field} '{value}' is not in {rules.join_file}"
        told = {k: v for k, v in row.items() if v}
        return {**said, **told}, _rule([*used, f"{rules.field} in {rules.join_file}"]), None


def _rule(used: list[str]) -> str | None:
    return ", ".join(used) or None


def _key(said: Mapping[str, str | int | None]) -> Key:
    """Attempt and rank as numbers; what is no number is not said."""
    numbers = {n: int(v) for n in ("attempt", "rank") if (v := str(said.get(n))).isdecimal()}
    words = {n: str(w) for n in ("cluster", "model", "team") if (w := said.get(n)) is not None}
    return Key(str(said["job_id"]), **words, **numbers)  # type: ignore[arg-type]
