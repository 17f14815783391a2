"""A profile of step logs: named regular expressions with units and examples, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from pipelines.errors import RegistryError, nearest
from pipelines.ingest.cleaning import plain
from pipelines.ingest.expressions import Error, compiled
from pipelines.registry import Node, root_of
from pipelines.taxonomy import DEFAULT, Cause, Outcome

FOLDER = Path(__file__).parent / "profiles"
BUILT_IN = ("megatron", "nemo", "torchtitan", "nanogpt", "hf_trainer", "lightning", "imagenet")
"""The packaged profiles, in the order in which their marks are looked for."""

KINDS = {
    "step": "a step is complete",
    "start": "the trainer's process starts",
    "stage": "a part of the start-up is over; its phase began at the stage before it",
    "restored": "the position that the run goes on from",
    "train_begin": "the loop is entered",
    "phase_begin": "a phase begins",
    "phase_end": "a phase ends",
    "phase": "a phase is over, and its duration is said",
    "checkpoint_durable": "a checkpoint can be restored from",
    "interruption": "a failure was detected",
    "attempt_ended": "the trainer ends",
    "fact": "something that holds for the file: gpus, interval, a field that joins it to a job",
    "clock": "a line without more than a time",
}
"""What a pattern may tell."""

_MS = {"ms": Decimal(1), "s": Decimal(1000), "min": Decimal(60_000), "h": Decimal(3_600_000)}
_COUNTS = frozenset({"step", "samples", "batch", "interval", "gpus", "epoch", "total", "rank"})
_DURATIONS = frozenset({"duration", "longest"})
_TEXTS = frozenset({"clock", "since", "unit"})
_FIELD_KINDS = frozenset({"fact", "start"})
_TAKES: Mapping[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "step": "step samples batch duration unit epoch total since interval rank",
        "start": "gpus interval total",
        "stage": "rank",
        "restored": "step samples batch",
        "train_begin": "step samples batch",
        "phase_begin": "step rank",
        "phase_end": "step rank",
        "phase": "duration longest unit rank",
        "checkpoint_durable": "step rank",
        "interruption": "rank",
        "attempt_ended": "rank",
        "fact": "gpus interval total",
        "clock": "",
    }.items()
}
"""The groups that mean something for each kind; beside them each takes a `clock`."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "step": ("step",), "restored": ("step",), "checkpoint_durable": ("step",),
    "phase": ("duration",), "clock": ("clock",),
}  # fmt: skip
_PROFILE = ("name", "mark", "patterns")
_PATTERN = (
    "name", "kind", "needs", "expression", "begins", "unit", "adds", "constants", "examples",
)  # fmt: skip
_CONSTANTS = ("phase", "blocking", "cause", "outcome", "step")
_EXAMPLE = ("line", "gives")
_LARGEST = 2**63
_USUAL_DIGITS = 18
_LITERAL = re.compile(r"\w+(?![\w*+?{])")
_CLOCK_PARTS = 3  # hours, minutes, seconds


@dataclass(frozen=True)
class Pattern:
    """One kind of line. `needs` is a literal that every such line holds: no other is looked at.

    `begins` is an expression for the first part of a line that a terminal may have wrapped: where
    it is found and `expression` is not, the lines that follow are tried as its rest. `unit` is that
    of the duration, where no group `unit` says it; `adds` is added to the group `step`.
    """

    name: str
    kind: str
    needs: str
    expression: str
    begins: str | None = None
    unit: str = "s"
    adds: int = 0
    constants: tuple[tuple[str, Any], ...] = ()

    @property
    def says(self) -> dict[str, Any]:
        """What every such line says, whatever its text."""
        return dict(self.constants)

    @property
    def first_word(self) -> str | None:
        """The literal with which the first part of a wrapped line begins, if one may be wrapped."""
        return None if self.begins is None else _word_of(self.begins)

    def may_begin(self, text: str) -> bool:
        """May this be the first part of a line that was wrapped?"""
        return self.begins is not None and compiled(self.begins).search(text) is not None

    def read(self, text: str) -> dict[str, Any] | None:
        r"""What a line says (see docs/sources/profiles.md); None: it is no such line.

        A whole line ends with its `\n`, so that an expression can ask for it. Counts are whole
        numbers, `duration` and `since` are Decimals of milliseconds, all else is text.
        """
        said = compiled(self.expression).search(text) if self.needs in text else None
        return None if said is None else self.values(said)

    def values(self, said: dict[str, str]) -> dict[str, Any] | None:
        """Groups as what they mean; None where one means nothing."""
        unit = _MS.get(said.pop("unit", self.unit))
        values: dict[str, Any] = {}
        if unit is None:
            return None
        for name, text in said.items():
            is_plain = name in _COUNTS and text.isdecimal() and text.isascii()
            is_plain = is_plain and len(text) <= _USUAL_DIGITS
            value = int(text) if is_plain else _value(name, text, unit)
            if value is None:
                return None
            values["duration" if name == "longest" else name] = value
        if self.adds and "step" in said:
            values["step"] += self.adds
        return values if values.get("step", 0) >= 0 else None


@cache
def _word_of(expression: str) -> str:
    """The literal that an expression begins with."""
    found = _LITERAL.match(expression)
    return found[0] if found else ""


def _value(name: str, text: str, unit: Decimal) -> Any:
    """A group as what it means; None where it means nothing."""
    if name in _COUNTS:
        number = _number(text)
        is_count = number is not None and number % 1 == 0 and 0 <= number < _LARGEST
        return int(number) if number is not None and is_count else None
    if name in _DURATIONS:
        number = _number(text)
        return None if number is None or number < 0 else number * unit
    if name == "since":
        return _clock_ms(text)
    return text


def _number(text: str) -> Decimal | None:
    """A number; commas between its digits part thousands."""
    if len(text) <= _USUAL_DIGITS and text.replace(".", "", 1).isdecimal():
        return Decimal(text)
    try:
        number = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _LARGEST else None


def _clock_ms(text: str) -> Decimal | None:
    """`2:12:45` or `12:45` in ms."""
    parts = text.split(":")
    if len(parts) > _CLOCK_PARTS or not all(part.isdigit() for part in parts):
        return None
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return Decimal(seconds * 1000)


@dataclass(frozen=True)
class Profile:
    """How one trainer's lines are read. `mark`: literals that this trainer writes, and no other."""

    name: str
    mark: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = field(default=())


@cache
def built_in() -> tuple[Profile, ...]:
    """The packaged profiles."""
    return tuple(load_profile(FOLDER / f"{name}.yaml") for name in BUILT_IN)


def load_profile(path: Path) -> Profile:
    """The profile in a YAML file, its examples checked (docs/sources/profiles.md).

    Raises RegistryError, which names the file, the pattern in it, and why it is refused.
    """
    root = _root(path)
    parts = dict(root.items(known=_PROFILE))
    _require(root, parts, _PROFILE)
    mark = tuple(node.text() for node in parts["mark"].entries())
    if not mark:
        parts["mark"].fail("empty: give a text that every log of this trainer holds, and no other")
    patterns = tuple(_pattern(node) for node in parts["patterns"].entries())
    if not any(pattern.kind == "step" for pattern in patterns):
        parts["patterns"].fail("none of them is of the kind 'step': the profile tells no progress")
    return Profile(parts["name"].text(), mark, patterns)


def _root(path: Path) -> Node:
    try:
        return root_of(path)
    except RegistryError as error:
        if "unknown escape character" not in str(error):
            raise
        fix = "in double quotes YAML reads each \\ itself: use single quotes"
        raise RegistryError(f"{error}: {fix}") from error


def _require(node: Node, parts: Mapping[str, Node], names: Iterable[str]) -> None:
    missing = [name for name in names if name not in parts]
    if missing:
        node.fail(f"{' and '.join(missing)} missing")


def _pattern(node: Node) -> Pattern:
    node = _by_name(node)
    parts = dict(node.items(known=_PATTERN))
    _require(node, parts, ("name", "kind", "needs", "expression", "examples"))
    kind = _word(parts["kind"], KINDS)
    constants = _constants(parts.get("constants"))
    groups = _groups(parts["expression"], kind, constants)
    pattern = Pattern(
        name=parts["name"].text(),
        kind=kind,
        needs=parts["needs"].text(),
        expression=parts["expression"].text(),
        begins=_begins(parts.get("begins")),
        unit=_word(parts["unit"], _MS) if "unit" in parts else "s",
        adds=_whole(parts["adds"]) if "adds" in parts else 0,
        constants=tuple(constants.items()),
    )
    if "duration" in groups and "unit" not in groups and "unit" not in parts:
        node.fail(f"unit missing: is the duration in {', '.join(_MS)}?")
    _check_examples(pattern, parts["examples"])
    return pattern


def _by_name(node: Node) -> Node:
    """The same, so that each message says the pattern's name, too."""
    name = node.value.get("name") if isinstance(node.value, dict) else None
    if not isinstance(name, str):
        return node
    return replace(node, keys=(*node.keys[:-1], f"{node.keys[-1]} ('{name}')"))


def _word(node: Node, known: Mapping[str, Any]) -> str:
    if node.text() not in known:
        node.fail(f"unknown '{node.text()}': {nearest(node.text(), known)}")
    return node.text()


def _whole(node: Node) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        node.fail("expected a whole number")
    return int(node.value)


def _begins(node: Node | None) -> str | None:
    if node is None:
        return None
    _named(node)
    if not _word_of(node.text()):
        node.fail("an expression for a line's begin has to begin with a word")
    return node.text()


def _named(node: Node) -> frozenset[str]:
    try:
        names = compiled(node.text()).names
    except Error as error:
        reason = error.args[0].decode(errors="replace")
        node.fail(f"not an expression of RE2: {reason}{_unsupported(reason)}")
    return frozenset(names)


def _unsupported(reason: str) -> str:
    """What an expression for another engine would have to do without."""
    if re.search(r"invalid perl operator: \(\?<?[=!]", reason):
        return "; it has no look-around"
    if re.search(r"invalid escape sequence: \\\d", reason):
        return "; it has no back references"
    return ""


def _groups(node: Node, kind: str, constants: Mapping[str, Any]) -> frozenset[str]:
    """The groups of an expression, which must be those that its kind knows."""
    groups = _named(node)
    meaningless = groups - _TAKES[kind] - {"clock"}
    if kind in _FIELD_KINDS:
        meaningless &= _COUNTS | _DURATIONS | _TEXTS
    if meaningless:
        words = ", ".join(sorted({*_TAKES[kind], "clock"}))
        own = ", and a field of your own" if kind in _FIELD_KINDS else ""
        said = f"the group '{min(meaningless)}' means nothing for the kind '{kind}'"
        node.fail(f"{said}, which takes {words}{own}")
    missing = [n for n in _NEEDED.get(kind, ()) if n not in groups and n not in constants]
    if missing:
        node.fail(f"the kind '{kind}' needs a group '{missing[0]}'")
    if kind in ("phase", "phase_begin", "phase_end") and "phase" not in constants:
        node.fail(f"the kind '{kind}' needs constants: {{phase: …}}")
    return groups


def _constants(node: Node | None) -> dict[str, Any]:
    said = dict(node.items(known=_CONSTANTS)) if node else {}
    checks: Mapping[str, Iterable[str]] = {
        "phase": DEFAULT.phases, "cause": list(Cause), "outcome": list(Outcome),
    }  # fmt: skip
    for name, part in said.items():
        if name in checks:
            _word(part, dict.fromkeys(sorted(checks[name])))
        elif name == "blocking" and not isinstance(part.value, bool):
            part.fail("expected true or false")
        elif name == "step":
            _whole(part)
    return {name: part.value for name, part in said.items()}


def _check_examples(pattern: Pattern, examples: Node) -> None:
    """A pattern without an example, or whose example gives something else, is refused."""
    nodes = list(examples.entries())
    if not nodes:
        examples.fail("empty: give a real line, and what it gives")
    for node in nodes:
        parts = dict(node.items(known=_EXAMPLE))
        _require(node, parts, _EXAMPLE)
        wanted = {name: part.value for name, part in parts["gives"].items()}
        line = plain(parts["line"].text()).text + "\n"
        if pattern.needs not in line:
            node.fail(
                f"the line does not hold '{pattern.needs}', which `needs` says of each; "
                f"{_searched(line)}"
            )
        found = pattern.read(line)
        if found is None:
            _fail_unread(pattern, node, line)
        told = _shown(found)
        if told != wanted:
            is_other = "duration" in told and told["duration"] != wanted.get("duration")
            unit = "; `gives` has durations in ms" if is_other else ""
            node.fail(f"'{pattern.name}' gives {told}, the example says {wanted}{unit}")
        _check_cuts(pattern, node, line, found)


def _fail_unread(pattern: Pattern, node: Node, line: str) -> NoReturn:
    """Say what stands between a line and its pattern: the expression, or what a group holds."""
    said = compiled(pattern.expression).search(line)
    if said is None:
        node.fail(f"'{pattern.name}' does not fit its own example; {_searched(line)}")
    for name, text in said.items():
        if name == "unit" and text not in _MS:
            node.fail(f"the group 'unit' holds '{text}': {nearest(text, _MS)}")
        if name != "unit" and _value(name, text, Decimal(1)) is None:
            node.fail(f"the group '{name}' holds '{text}', which is no {_meaning(name)}")
    node.fail(f"`adds: {pattern.adds}` makes the step of its own example negative")


def _meaning(name: str) -> str:
    if name in _COUNTS:
        return "whole number"
    return "time such as 2:12:45" if name == "since" else "number"


def _searched(line: str) -> str:
    """What expressions are searched in, for a message."""
    return f"what is left of it without colours, prefix and clock is '{line.rstrip()}'"


def _check_cuts(pattern: Pattern, node: Node, line: str, whole: dict[str, Any]) -> None:
    """A line cut off anywhere gives nothing, or what the whole line gives: never less of a number.

    A process that is killed leaves such a line.
    """
    for end in range(line.index(pattern.needs) + len(pattern.needs), len(line)):
        found = pattern.read(line[:end])
        if found is not None and found != whole:
            node.fail(
                f"of the line cut off after '{line[max(end - 20, 0) : end]}' it reads "
                f"{_shown(found)}: let the expression go on to a mark "
                "behind the last number, or to the line's end, \\n"
            )


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a line gave, as the example would say it."""
    return {name: _plain(value) for name, value in sorted(values.items())}


def _plain(value: Any) -> Any:
    """A value as YAML writes it."""
    if isinstance(value, Decimal):
        return int(value) if value % 1 == 0 else float(value)
    return value
