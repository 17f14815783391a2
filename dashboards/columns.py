"""Frames as plain columns: lists of Python values, which a page with thousands of jobs can afford.

Cutting one job out of a pandas frame costs a millisecond per operation; out of lists, nothing.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

Columns = dict[str, list[Any]]

BLOCK = 100_000


def plain(frame: pd.DataFrame) -> Columns:
    """Every column as a list: nulls are None, times epoch milliseconds (UTC), days ISO text."""
    return {str(name): values(frame[name]) for name in frame.columns}


def values(column: pd.Series) -> list[Any]:
    """One column as `plain` has it."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        whole = column.astype("datetime64[ms, UTC]").astype("int64").astype("Int64")
        column = whole.mask(column.isna())
    objects = column.astype(object)
    listed = objects.where(column.notna(), None).tolist()
    return [v.isoformat() if isinstance(v, date) else v for v in listed]


class Rows:
    """The rows of each key in one frame: sorted once, then cut many times.

    Asked in the order of the keys, it holds only `BLOCK` rows or one key's as Python values.
    """

    def __init__(self, frame: pd.DataFrame, key: Sequence[str], *order: str) -> None:
        names = list(key)
        self._frame = frame.sort_values([*names, *order], kind="stable", ignore_index=True)
        sizes = self._frame.groupby(names, sort=False).size()
        ends = sizes.cumsum()
        spans = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
        self._where = dict(zip(ends.index.tolist(), spans, strict=True))
        self._first = self._last = 0
        self._block = plain(self._frame.iloc[:0])

    def __getitem__(self, key: tuple[str, ...]) -> Columns:
        """The columns of `key`, empty ones where the frame does not have it."""
        begin, end = self._where.get(key, (self._first, self._first))
        if begin < self._first or end > self._last:
            self._first, self._last = begin, max(end, begin + BLOCK)
            self._block = plain(self._frame.iloc[self._first : self._last])
        here = slice(begin - self._first, end - self._first)
        return {name: column[here] for name, column in self._block.items()}
