"""Numbers for the browser as compressed typed arrays, since JSON of a million rows loads slowly."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

# What JavaScript has a typed array for; whole numbers beyond 32 bits travel as doubles.
KINDS: dict[str, np.dtype[Any]] = {
    "u1": np.dtype("<u1"),
    "u2": np.dtype("<u2"),
    "u4": np.dtype("<u4"),
    "f8": np.dtype("<f8"),
}
_WHOLE = 2**53  # beyond it a double no longer tells neighbours apart


def pack(columns: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """Pack `{name: (kind, values)}` into one block: `columns` says where each lies in `deflate`.

    Kinds are those of `KINDS`; nulls are NaN in "f8" and have no place elsewhere. `deflate` is
    base64 of a zlib stream of the columns, widest first so that each lies aligned. Raises
    ValueError for a value that its kind cannot hold exactly.
    """
    arrays = {name: (kind, _as(kind, name, values)) for name, (kind, values) in columns.items()}
    widest_first = sorted(arrays.items(), key=lambda item: -KINDS[item[1][0]].itemsize)
    places, body = {}, bytearray()
    for name, (kind, array) in widest_first:
        places[name] = [kind, len(body), len(array)]
        body += array.tobytes()
    packed = base64.b64encode(zlib.compress(bytes(body), 6)).decode("ascii")
    return {"columns": places, "deflate": packed}


def _as(kind: str, name: str, values: Any) -> np.ndarray[Any, Any]:
    wide = np.asarray(values, dtype="f8")
    if np.nanmax(np.abs(wide), initial=0) > _WHOLE:
        raise ValueError(f"column '{name}' holds a number beyond 2^53, which a browser rounds")
    if kind == "f8":
        return wide
    with np.errstate(invalid="ignore"):  # a null is caught by the comparison that follows
        narrow: np.ndarray[Any, Any] = wide.astype(KINDS[kind])
    if not np.array_equal(narrow, wide):
        raise ValueError(f"column '{name}' holds a null or a number that '{kind}' cannot hold")
    return narrow


def unpack(packed: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The columns again, as the browser reads them.

    >>> unpack(pack({"ms": ("u4", [1, 2]), "gpu_ms": ("f8", [0.5, 8.0])}))["ms"].tolist()
    [1, 2]
    """
    body = zlib.decompress(base64.b64decode(packed["deflate"]))
    return {
        name: np.frombuffer(body, KINDS[kind], count, at)
        for name, (kind, at, count) in packed["columns"].items()
    }
