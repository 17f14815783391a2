r"""Regular expressions that no line can hold up: run by RE2, or by Python where that is bounded.

RE2 takes time linear in the line, whatever the expression, but some 20 µs for a line with a dozen
groups, and Python's own engine a fifth of it. So Python runs an expression on lines of up to
LONGEST_TEXT characters where the expression cannot make it backtrack without bound: where

- RE2 reads it too (so there is no look-around and no back reference);
- nothing that repeats holds another repetition or a choice: a text can be cut into its rounds in
  one way only, and no line costs exponential time;
- two repetitions share no character, or one that ends the first always stands between them;
- at most MOST_OPEN of them are open, that is may run over text of any kind (`.*`, `[^,]+`, `\S+`):
  the cost is at most a power of the short text's length;
- it means the same to both: no flag, no `$` (to Python a line's end, too), no class of POSIX.

All others, and longer lines, are RE2's.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import re2

LONGEST_TEXT = 1024
"""Characters. A step line has 300 to 600."""
MOST_OPEN = 3
_OPEN_CHARACTERS = 80  # of 128: a class with more runs over text of any kind
_NONE: frozenset[str] = frozenset()
_ASCII = [chr(n) for n in range(128)]
_REPEATS = frozenset({code.MAX_REPEAT, code.MIN_REPEAT})
_PLAIN = frozenset({code.LITERAL, code.NOT_LITERAL, code.IN, code.ANY})

Error = re2.error


class Expression:
    """One compiled expression with its named groups. Raises Error where RE2 cannot read it."""

    def __init__(self, expression: str) -> None:
        options = re2.Options()
        options.log_errors = False  # they are raised
        self._linear = re2.compile(expression.encode(), options=options)
        places = self._linear.groupindex.items()
        self.names = tuple(name.decode() for name, _ in places)
        self._places = tuple(place for _, place in places)
        self._python = _python(expression)

    @property
    def is_bounded(self) -> bool:
        """Does Python's engine run it, on short lines?"""
        return self._python is not None

    def search(self, text: str) -> dict[str, str] | None:
        """The named groups that it finds in a text, without white space around them; or None."""
        if self._python is None or len(text) > LONGEST_TEXT:
            return self.search_linear(text)
        found = self._python.search(text)
        if found is None:
            return None
        return {n: said.strip() for n, said in found.groupdict().items() if said is not None}

    def search_linear(self, text: str) -> dict[str, str] | None:
        """The same by RE2."""
        found = self._linear.search(text.encode(errors="replace"))
        if found is None:
            return None
        said = [found.group(place) for place in self._places]
        return {
            name: group.decode(errors="replace").strip()
            for name, group in zip(self.names, said, strict=True)
            if group is not None
        }


@lru_cache(maxsize=512)
def compiled(expression: str) -> Expression:
    """An expression, compiled once."""
    return Expression(expression)


def _python(expression: str) -> re.Pattern[str] | None:
    """The expression for Python's engine, where that is bounded and means the same."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parts = parser.parse(expression, re.ASCII)
            compiled_ = re.compile(expression, re.ASCII)
    except (re.error, Warning, RecursionError, OverflowError):
        return None
    return compiled_ if compiled_.flags == re.ASCII and is_bounded(parts) else None


def is_bounded(parts: Any) -> bool:
    """Do the rules of this module hold for a parsed expression?"""
    walk = _Walk()
    return walk.sequence(parts) and walk.open_count <= MOST_OPEN


class _Walk:
    """Goes through an expression from left to right.

    `before` are the characters of repetitions that may still go on here, `open_before` those of an
    open one, after which any character that is always there ends the doubt: it was counted.
    """

    def __init__(self) -> None:
        self.open_count = 0
        self._before: frozenset[str] = frozenset()
        self._open_before: frozenset[str] = frozenset()

    def sequence(self, parts: Any) -> bool:
        """Is each of the parts allowed where it stands?"""
        return all(self._part(kind, value) for kind, value in parts)

    def _part(self, kind: Any, value: Any) -> bool:
        if kind in _REPEATS:
            return self._repeat(*value)
        if kind is code.SUBPATTERN:
            _, flags_on, flags_off, inside = value
            return not flags_on and not flags_off and self.sequence(inside)
        if kind is code.BRANCH:
            return self._branch(value[1])
        if kind is code.AT:
            return value not in (code.AT_END, code.AT_END_STRING)
        if kind not in _PLAIN:
            return False
        is_end = not self._before & _characters([(kind, value)])
        self._before = frozenset() if is_end else self._before
        self._open_before = frozenset()
        return True

    def _branch(self, branches: Any) -> bool:
        """Behind a choice may go on what any of its branches leaves behind."""
        begin, after, open_after = (self._before, self._open_before), _NONE, _NONE
        for branch in branches:
            self._before, self._open_before = begin
            if not self.sequence(branch):
                return False
            after |= self._before
            open_after |= self._open_before
        self._before, self._open_before = after, open_after
        return True

    def _repeat(self, least: int, most: Any, body: Any) -> bool:
        if most == 1:
            return self._branch([body, []])
        if len(body) != 1 or body[0][0] not in _PLAIN or _is_beyond_ascii(body[0]):
            return False
        characters = _characters(body)
        if characters & (self._before | self._open_before):
            return False
        if len(characters) >= _OPEN_CHARACTERS:
            self.open_count += 1
            self._open_before = characters
        elif least == 0:
            self._before |= characters
        else:
            self._before, self._open_before = characters, frozenset()
        return True


def _characters(body: Any) -> frozenset[str]:
    """The ASCII characters that one place of a repetition may be."""
    part = parser.SubPattern(parser.State(), list(body))
    one = compiler.compile(part, re.ASCII)
    return frozenset(character for character in _ASCII if one.match(character))


def _is_beyond_ascii(part: Any) -> bool:
    """Does it name a character that `_characters` would not see?"""
    if isinstance(part, tuple | list):
        return any(_is_beyond_ascii(each) for each in part)
    return isinstance(part, int) and part >= len(_ASCII)
