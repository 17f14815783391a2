"""Frames as plain columns, and one key's rows cut from them."""

from __future__ import annotations

from datetime import date

import pandas as pd

from dashboards import columns
from dashboards.columns import Rows, plain


def test_nulls_are_none_times_are_milliseconds_and_days_are_text():
    frame = pd.DataFrame(
        {
            "at": pd.to_datetime(["1970-01-01T00:00:01.250Z", None], utc=True),
            "ds": [date(2026, 11, 1), None],
            "n": pd.array([1, None], dtype="Int64"),
            "ratio": [0.5, float("nan")],
            "is_held": pd.array([True, None], dtype="boolean"),
            "cause": ["hardware", None],
        }
    )
    assert plain(frame) == {
        "at": [1250, None],
        "ds": ["2026-11-01", None],
        "n": [1, None],
        "ratio": [0.5, None],
        "is_held": [True, None],
        "cause": ["hardware", None],
    }


def test_rows_of_one_key_in_order(monkeypatch):
    monkeypatch.setattr(columns, "BLOCK", 2)  # smaller than the frame: blocks are reloaded
    frame = pd.DataFrame(
        {"cluster": list("bababa"), "job_id": list("xyxyxx"), "n": [3, 5, 1, 4, 2, 6]}
    )
    rows = Rows(frame, ["cluster", "job_id"], "n")
    every = {key: rows[key]["n"] for key in [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]}
    assert every == {("a", "x"): [6], ("a", "y"): [4, 5], ("b", "x"): [1, 2, 3]}
    assert rows["no", "such"] == {"cluster": [], "job_id": [], "n": []}


def test_rows_of_an_empty_frame():
    frame = pd.DataFrame({"cluster": [], "job_id": [], "n": []})
    assert Rows(frame, ["cluster", "job_id"], "n")["a", "x"] == {
        "cluster": [],
        "job_id": [],
        "n": [],
    }
