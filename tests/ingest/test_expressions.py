"""Which expressions Python's engine may run, that it reads what RE2 reads, and what it may cost."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.expressions import LONGEST_TEXT, Error, Expression, compiled
from pipelines.ingest.profile import BUILT_IN, FOLDER
from pipelines.ingest.words import Words

PATTERNS = [
    pattern
    for name in BUILT_IN
    for pattern in yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["patterns"]
]
LINES = sorted({example["line"] for pattern in PATTERNS for example in pattern["examples"]})


@pytest.mark.parametrize(
    ("expression", "is_bounded"),
    [
        (r"^step (?P<step>\d+)/ *\d+ done", True),
        (r"(?:loss|lr): (?P<loss>[0-9.]+)(?: \||\s*\n)", True),
        (r"a.* b.* c.* d", True),
        (r"a.* b.* c.* d.* e", False),  # a power of the length too many
        (r"(a+)+b", False),  # exponential
        (r"(?:a|a)*b", False),
        (r"\d+\d+x", False),  # where does the first one end?
        (r"\d*-?\d+x", False),
        (r"\d+\d\d+x", False),
        (r"\d+-\d+x", True),
        (r"(?:x|\d+)(?:\d+|y)", False),
        (r"█+█+x", False),
        (r"x$", False),  # Python finds it before a last line feed, RE2 does not
        (r"(?i)step", False),
        (r"[[:alpha:]]", False),
    ],
)
def test_what_python_may_run(expression, is_bounded):
    assert Expression(expression).is_bounded is is_bounded


def test_what_re2_cannot_read_nobody_reads():
    with pytest.raises(Error):
        Expression(r"(?<=step )\d+")


def test_most_packaged_expressions_are_bounded():
    linear = [p["name"] for p in PATTERNS if not compiled(p["expression"]).is_bounded]
    assert len(linear) <= len(PATTERNS) // 10


@given(st.data())
def test_both_engines_read_the_same(data):
    """In the examples' lines, cut, doubled, mixed with each other and with other characters."""
    line, other = (data.draw(st.sampled_from(LINES)) for _ in range(2))
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(line))] * 2)))
    middle = data.draw(st.sampled_from(["", "é", "\t", "  ", "\n", other, line[begin:end] * 2]))
    text = f"{line[:begin]}{middle}{line[end:]}\n"[:LONGEST_TEXT]
    for pattern in PATTERNS:
        engine = compiled(pattern["expression"])
        assert engine.search(text) == engine.search_linear(text)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern["name"])
def test_the_worst_line_costs_little(pattern):
    """As long as Python's engine gets it: begins of the line itself, again and again, no end."""
    engine = compiled(pattern["expression"])
    lines = [example["line"] for example in pattern["examples"]]
    cuts = {line[:end] for line in lines for end in range(len(line) // 2, len(line), 7)}
    worst = [(cut * LONGEST_TEXT)[:LONGEST_TEXT] for cut in cuts if cut.strip()]
    begin = time.process_time()
    for text in worst:
        engine.search(text)
    assert time.process_time() - begin < 0.02 * len(worst) + 0.05


def test_which_words_a_text_holds():
    words = Words(["iteration", "a.b", "tera", "Xid"])
    assert words.found_in("iteration 7") == {"iteration", "tera"}
    assert words.found_in(b"a.b \xff Xid") == {"a.b", "Xid"}
    assert words.found_in("axb \udcff") == frozenset()


@given(st.text(), st.lists(st.text(min_size=1, max_size=3), max_size=9))
def test_words_are_found_as_in_finds_them(text, words):
    words = [word for word in words if word.isascii() and "\0" not in word]
    found = Words([*words, text[1:3]] if text[1:3].isascii() and text[1:3] else words)
    assert found.found_in(text) == {word for word in found.words if word in text}
