"""The bytes of one file, decompressed as they are read: plain, gzip or Zstandard, by content."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

import zstandard

CHUNK_BYTES = 262_144
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MAGIC_BYTES = 4
_GZIP_WINDOW = 31  # zlib: a gzip header is expected
# A thousand compressed bytes can stand for megabytes: small steps bound the memory.
_ZSTD_STEP = 1024


class DamageError(Exception):
    """The rest of a file cannot be read: torn compression, or the disk. Its message says why."""


def chunks(path: str) -> Iterator[bytes]:
    """The bytes of the file at `path` in pieces of bounded size.

    Everything that can be read is yielded first; then DamageError is raised where the rest
    cannot be.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - thousands of small files: Path costs more
            magic = file.read(_MAGIC_BYTES)
            file.seek(0)
            pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            if magic.startswith(_GZIP):
                yield from _gunzip(pieces)
            elif magic == _ZSTD:
                yield from _unzstd(pieces)
            else:
                yield from pieces
    except OSError as error:
        raise DamageError(f"cannot be read: {error.strerror or error}") from error


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    def step(member: Any, data: bytes) -> Generator[bytes, None, bytes]:
        while data and not member.eof:
            before = member.copy()
            try:
                text = member.decompress(data, CHUNK_BYTES)
            except zlib.error as error:
                yield _salvage(before, data)
                raise DamageError(f"the gzip data are damaged ({error})") from error
            yield text
            data = member.unconsumed_tail
        return member.unused_data  # type: ignore[no-any-return]

    yield from _members(pieces, lambda: zlib.decompressobj(_GZIP_WINDOW), step, "gzip")


def _salvage(member: Any, data: bytes) -> bytes:
    """What comes out of `data` before the error: byte by byte, once per damaged file."""
    out = bytearray()
    with suppress(zlib.error):
        for byte in data:
            out += member.decompress(bytes([byte]))
    return bytes(out)


def _unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    def step(frame: Any, data: bytes) -> Generator[bytes, None, bytes]:
        for start in range(0, len(data), _ZSTD_STEP):
            try:
                yield frame.decompress(data[start : start + _ZSTD_STEP])
            except zstandard.ZstdError as error:
                raise DamageError(f"the Zstandard data are damaged ({error})") from error
            if frame.eof:
                return frame.unused_data + data[start + _ZSTD_STEP :]  # type: ignore[no-any-return]
        return b""

    yield from _members(pieces, zstandard.ZstdDecompressor().decompressobj, step, "Zstandard")


def _members(
    pieces: Iterator[bytes],
    new: Callable[[], Any],
    step: Callable[[Any, bytes], Generator[bytes, None, bytes]],
    what: str,
) -> Iterator[bytes]:
    """Decompress members that follow one another, as `cat a.gz b.gz` makes them.

    Zero bytes after a member are padding.
    """
    member: Any = None
    for piece in pieces:
        data = piece if member else piece.lstrip(b"\0")
        while data:
            member = member or new()
            data = yield from step(member, data)
            if member.eof:
                member, data = None, data.lstrip(b"\0")
    if member:
        raise DamageError(f"the {what} data end early: the file was cut off")
