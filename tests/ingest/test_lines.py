import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest import lines as module
from pipelines.ingest.lines import Entries, Lines
from pipelines.ingest.unpack import DamageError


def cut(kind, *chunks, damage=None):
    """Units and refusals of `chunks`, which end with a DamageError where `damage` is given."""

    def stream():
        yield from chunks
        if damage:
            raise DamageError(damage)

    refused = []
    units = kind(stream(), lambda number, reason, head: refused.append((number, reason, head)))
    found = list(units)
    assert units.count == len(found) + len(refused)
    return found, refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [(1, b"a")]),
        (b"a\n", [(1, b"a")]),
        (b"a\n\nb", [(1, b"a"), (2, b""), (3, b"b")]),
        (b"a\r\nb\r\n", [(1, b"a\r"), (2, b"b\r")]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [(1, b"a"), (2, b"\xef\xbb\xbfb")]),
        (b"a\x00b\n\xff\xfe\n", [(1, b"a\x00b"), (2, b"\xff\xfe")]),
    ],
)
def test_lines_have_numbers(text, expected):
    assert cut(Lines, text) == (expected, [])


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\xef", b"")), st.integers(1, 7))
def test_where_chunks_are_cut_does_not_matter(text, size):
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert cut(Lines, *pieces) == cut(Lines, text)
    whole, _ = cut(Lines, text)
    assert b"\n".join(line for _, line in whole) == text.removesuffix(b"\n")


def test_a_line_too_long_is_refused_and_the_next_is_read(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_BYTES", 10)
    found, refused = cut(Lines, b"ok\n0123456", b"789abc", b"def\nnext\n" + b"x" * 30, b"x" * 30)
    assert found == [(1, b"ok"), (3, b"next")]
    assert [(n, head) for n, _, head in refused] == [(2, b"0123456789abcdef"), (4, b"x" * 30)]
    assert refused[0][1] == "a line longer than 16 MiB"


def test_after_damage_the_part_of_a_line_is_read_and_the_rest_refused():
    found, refused = cut(Lines, b"a\nb", damage="the gzip data end early")
    assert found == [(1, b"a"), (2, b"b")]
    assert refused == [(3, "the rest of the file is lost: the gzip data end early", b"")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"[]", []),
        (
            b' [ {"a": 1} , {"b": [1, 2]},\n{"c": "],{"} ] \n',
            [b'{"a": 1}', b'{"b": [1, 2]}', b'{"c": "],{"}'],
        ),
        (b'[{"a": "\\"],["}, 3, null, "x",]', [b'{"a": "\\"],["}', b"3", b"null", b'"x"']),
        (b"\xef\xbb\xbf[1,2]", [b"1", b"2"]),
    ],
)
def test_entries_of_an_array(text, expected):
    assert cut(Entries, text) == (list(enumerate(expected, 1)), [])


@pytest.mark.parametrize(
    ("text", "good", "reason", "head"),
    [
        (b'[{"a": 1}, {"b": ', 1, "the array does not end", b'{"b":'),
        (b'[{"a": 1}, {"b": "x', 1, "the array does not end", b'{"b": "x'),
        (b'[{"a": 1},', 1, "the array does not end", b""),
        (b'[{"a": 1}] {"b": 2}', 1, "text behind the array", b'{"b": 2}'),
    ],
)
def test_what_is_wrong_with_an_array_is_one_refusal(text, good, reason, head):
    found, refused = cut(Entries, text)
    assert len(found) == good
    assert refused == [(good + 1, f"the rest of the file is lost: {reason}", head)]


def test_an_entry_too_long_ends_the_array(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_BYTES", 50)
    found, refused = cut(Entries, b'[{"a": 1}, {"b": "', b"x" * 60, b'"}, {"c": 1}]')
    assert found == [(1, b'{"a": 1}')]
    assert [reason for _, reason, _ in refused] == [
        "the rest of the file is lost: an entry longer than 16 MiB"
    ]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\[]{},: ', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('b"]', max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(_VALUES, max_size=5), st.integers(1, 9), st.sampled_from([None, 1]))
def test_entries_are_those_that_json_finds_wherever_chunks_are_cut(array, size, indent):
    text = json.dumps(array, indent=indent).encode()
    found, refused = cut(Entries, *(text[i : i + size] for i in range(0, len(text), size)))
    assert refused == []
    assert [json.loads(entry) for _, entry in found] == array


@given(st.binary(max_size=40), st.integers(1, 9))
def test_no_bytes_break_the_array_cutter(garbage, size):
    text = b'[{"job_name": 1},' + garbage
    cut(Entries, *(text[i : i + size] for i in range(0, len(text), size)))
