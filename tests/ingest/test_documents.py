"""JSON documents cut out of a stream: whole, wrapped, and behind a torn one."""

import pytest

from pipelines.ingest.documents import Documents


def cut(text: str, size: int) -> tuple[list[tuple[int, bytes]], list[tuple[int, str, bytes]]]:
    """The documents of a text that comes in pieces of `size` bytes, and what was refused."""
    lost: list[tuple[int, str, bytes]] = []
    data = text.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    found = list(Documents(pieces, lambda *refused: lost.append(refused)))
    return found, lost


@pytest.mark.parametrize(
    ("text", "documents", "torn"),
    [
        ('{"a":1}\n{"b":{"x":1\n{"c":3}\n', {1: '{"a":1}', 3: '{"c":3}'}, {2: '{"b":{"x":1'}),
        ('{"b":"x\n{"c":"}"}\n', {2: '{"c":"}"}'}, {1: '{"b":"x'}),
        ('[\n{"a":1},\n{"b":"x\n{"c":3}\n]', {1: '{"a":1}', 3: '{"c":3}'}, {2: '{"b":"x'}),
        ('{"items":[\n {"b":2\n{"items":[\n {"c":1}]}', {2: '{"c":1}'}, {1: '{"b":2'}),
        ('{"items":[\n{"b":\n{"x":[\n{"y":1}\n]}}\n]}', {1: '{"b":\n{"x":[\n{"y":1}\n]}}'}, {}),
        (r'{"a":"\n{y\"\n{"}', {1: r'{"a":"\n{y\"\n{"}'}, {}),
    ],
    ids=["in an object", "in a text", "in an array", "in a list of kubectl", "whole", "in no text"],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_torn_document_costs_only_itself(text, documents, torn, size):
    found, lost = cut(text, size)
    assert {number: document.decode() for number, document in found} == documents
    assert {number: head.decode() for number, _, head in lost} == torn
    assert all(reason == "the document is torn" for _, reason, _ in lost)
