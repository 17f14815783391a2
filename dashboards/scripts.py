"""Data as script files: a page opened from a folder may load scripts, but may not fetch JSON."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PIECE_BYTES = 400_000


def as_json(value: Any) -> str:
    r"""Compact ASCII JSON that can also stand inside a page: `<` is written `\u003c`.

    Raises ValueError for a number that JSON does not have (NaN, infinity).

    >>> as_json({"job": "</script>"})
    '{"job":"\\u003c/script>"}'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def write_data(folder: Path, name: str, value: Any) -> None:
    """Write `<name>.js`, which registers `value` under `name` when the page loads it."""
    path = folder / f"{name}.js"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"ett.put({as_json(name)},{as_json(value)});\n", encoding="ascii")


def write_pieces(
    folder: Path, details: Iterable[tuple[int, dict[str, Any]]]
) -> dict[int, tuple[int, int]]:
    """Write `jobs/<n>.js`, several small jobs to a compressed piece; each's (piece, place)."""
    places: dict[int, tuple[int, int]] = {}
    (folder / "jobs").mkdir()
    for number, piece in enumerate(_pieces(details)):
        path = folder / "jobs" / f"{number}.js"
        body = "[" + ",".join(text for _, text in piece) + "]"
        path.write_text(f'ett.put("jobs/{number}","{_deflated(body)}");\n', encoding="ascii")
        places |= {position: (number, place) for place, (position, _) in enumerate(piece)}
    return places


def _deflated(text: str) -> str:
    """Base64 of the compressed text: an eighth of it, and nothing in it can end a script."""
    return base64.b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def _pieces(details: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[list[tuple[int, str]]]:
    piece: list[tuple[int, str]] = []
    size = 0
    for position, detail in details:
        text = as_json(detail)
        if piece and size + len(text) > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append((position, text))
        size += len(text)
    if piece:
        yield piece
