"""What is packed for the browser comes out as it went in, or is refused."""

from __future__ import annotations

import math

import pytest

from dashboards.packed import pack, unpack


def test_columns_come_out_as_they_went_in():
    packed = pack({"code": ("u1", [3, 0, 255]), "ms": ("u4", [86_400_000, 0, 1]), "gpu_ms": ("f8", [2.0**53, math.nan, 0.5])})  # fmt: skip
    out = {name: column.tolist() for name, column in unpack(packed).items()}
    assert out["code"] == [3, 0, 255]
    assert out["ms"] == [86_400_000, 0, 1]
    assert out["gpu_ms"][::2] == [2.0**53, 0.5]
    assert math.isnan(out["gpu_ms"][1])


def test_wide_columns_lie_first_so_that_each_is_aligned():
    columns = pack({"a": ("u1", [1] * 3), "b": ("f8", [1.0] * 3), "c": ("u2", [1] * 3)})["columns"]
    assert columns == {"b": ["f8", 0, 3], "c": ["u2", 24, 3], "a": ["u1", 30, 3]}


def test_an_empty_column_stays_empty():
    assert unpack(pack({"ms": ("u4", [])}))["ms"].tolist() == []


@pytest.mark.parametrize(
    ("kind", "value"), [("u1", 256), ("u4", -1), ("u4", 2**32), ("u2", 1.5), ("u1", math.nan), ("f8", 2.0**54)]
)  # fmt: skip
def test_a_number_that_its_kind_cannot_hold_is_refused(kind, value):
    with pytest.raises(ValueError, match="column 'ms' holds"):
        pack({"ms": (kind, [value])})
