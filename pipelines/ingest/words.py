"""Literals that are looked for in every line of a log, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import re2

_NONE: frozenset[str] = frozenset()
_MOST_COMBINATIONS = 4096


class Words:
    """Tells which of many literals a text holds: one automaton (RE2) reads the text once.

    >>> sorted(Words(["iteration", "Traceback", "tera"]).found_in("iteration 7"))
    ['iteration', 'tera']
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._set = re2.Set.SearchSet()
        for word in self.words:
            self._set.Add(re2.escape(word))
        self._set.Compile()
        self._known: dict[tuple[int, ...], frozenset[str]] = {}

    def found_in(self, text: str | bytes) -> frozenset[str]:
        """The literals that are there."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        places = self._set.Match(data)
        if places is None:
            return _NONE
        key = tuple(places)
        found = self._known.get(key)
        if found is None:
            found = frozenset(self.words[place] for place in places)
            if len(self._known) < _MOST_COMBINATIONS:
                self._known[key] = found
        return found


@lru_cache(maxsize=64)
def words_of(words: tuple[str, ...]) -> Words:
    """The same, made once for all files that are read with the same listeners."""
    return Words(words)
