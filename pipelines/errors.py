"""Errors that a user may meet: each names what was missing, what exists, and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class EttError(Exception):
    """Base of every error raised on purpose; its message is meant for the user."""


class UsageError(EttError):
    """The command or a setting was given something it cannot use."""


class InputError(EttError):
    """An input file or folder cannot be read at all (single bad lines are rejects instead)."""


class RegistryError(EttError):
    """The site registry (YAML) is not valid."""


class EngineError(EttError):
    """The engine asked for cannot be started here."""


class ContractError(EttError):
    """A frame does not fit the table it is meant for."""


class ConservationError(EttError):
    """The ledger does not balance: publication is stopped."""


class WarehouseError(EttError):
    """The warehouse cannot be read or committed to."""


class ConflictError(WarehouseError):
    """Another run changed a table between this run's reading and its commit."""


def harmless(text: str) -> str:
    r"""Text from logs as a terminal may show it: control characters escaped, none obeyed.

    >>> print(harmless("a\x1b[31mb\nc"))
    a\x1b[31mb\nc
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(word: str, known: Iterable[str]) -> str:
    """Say which known word is nearest, as the tail of a message.

    >>> nearest("chekpoint_save", ["checkpoint_save", "compile"])
    "did you mean 'checkpoint_save'?"
    >>> nearest("zzz", ["compile", "evaluation"])
    'known: compile, evaluation'

    Of many known words the first are named, and how many there are.
    """
    words = sorted(known)
    close = get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    hidden = len(words) - _MOST_NAMED
    more = f", … ({len(words):,} in all)" if hidden > 0 else ""
    return f"known: {', '.join(words[:_MOST_NAMED])}{more}"


_MOST_NAMED = 40
