"""Figures are pure: frame in, figure out, and what is drawn adds up to what came in."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import pandas as pd
import plotly.graph_objects as go
import pytest

from dashboards import figures
from dashboards.columns import plain
from dashboards.figures.by_attempt import MOST_BARS as MOST_ATTEMPT_BARS
from dashboards.figures.by_attempt import MOST_LANES
from dashboards.figures.by_source import MOST_BARS
from dashboards.figures.text import plain as plain_text
from dashboards.figures.text import visible
from pipelines.taxonomy import COMPONENTS, DEFAULT, Stage

MINUTE = 60_000
ZERO = pd.Timestamp("2026-11-01T00:00:00Z")
NOTHING = {
    "recoveries": pd.DataFrame({"started_at": pd.to_datetime([], utc=True), "ttr_ms": []}),
    "interruptions": pd.DataFrame(
        {"attempt": [], "began_at": pd.to_datetime([], utc=True), "kind": [], "cause": [], "is_infrastructure": []}
    ),
    "hidden": pd.DataFrame({"component": [], "started_at": pd.to_datetime([], utc=True), "duration_ms": []}),
}  # fmt: skip


def day_rows(*rows, provisional=()):
    """Rows of (day offset, effective, wasted) GPU ms."""
    zeros = {f"{s.value}_gpu_ms": 0 for s in Stage}
    return pd.DataFrame(
        [
            zeros
            | {
                "ds": date(2026, 11, 1) + timedelta(days=n),
                "effective_gpu_ms": effective,
                "wasted_training_gpu_ms": wasted,
                "held_gpu_ms": effective + wasted,
                "untold_gpu_ms": 0,
                "is_provisional": n in provisional,
            }
            for n, effective, wasted in rows
        ]
    )


def ledger(*rows):
    """Rows of (attempt, component, stage, minutes), one after another from midnight."""
    at, out = 0, []
    for attempt, component, stage, minutes in rows:
        out.append(
            {"attempt": attempt, "started_at": ZERO + pd.Timedelta(at, "ms"), "duration_ms": int(minutes * MINUTE),
             "component": component, "stage": stage, "gpus": 8, "is_inferred": False, "cause": None}
        )  # fmt: skip
        at += int(minutes * MINUTE)
    return pd.DataFrame(out).astype({"attempt": "Int64"})


def attempt_rows(*outcomes):
    return pd.DataFrame(
        [
            {"attempt": n, "outcome": o, "gpus": 8, "is_censored": o == "unknown"}
            for n, o in enumerate(outcomes)
        ]
    )


def drawn_ms(figure, name):
    return sum(sum(t.x) for t in figure.data if t.name == name)


def test_days_are_stacked_shares_in_stage_order():
    figure = figures.days(day_rows((0, 75, 25), (1, 50, 50), provisional=[1]))
    assert isinstance(figure, go.Figure)
    assert [t.name for t in figure.data] == [*(s.label for s in Stage), "Provisional day"]
    assert list(figure.data[0].y) == [0.75, 0.5]
    assert [sum(t.y[i] for t in figure.data[:5]) for i in (0, 1)] == [1, 1]
    assert [t.marker.color for t in figure.data[:5]] == [s.colour for s in Stage]
    assert list(figure.data[5].x) == ["2026-11-02"]


def test_a_day_without_gpus_is_left_out_and_far_days_stand_side_by_side():
    figure = figures.days(day_rows((0, 1, 1), (1, 0, 0), (400, 3, 1)))
    assert list(figure.data[0].x) == ["2026-11-01", "2027-12-06"]
    assert figure.layout.xaxis.type == "category"
    assert figure.layout.meta["notes"]


def test_no_day_at_all_is_an_empty_figure():
    assert list(figures.days(day_rows((0, 0, 0))).data[0].x) == []


def ranked(*rows):
    """Rows of (component, owner, lost GPU ms, cost); the share is of all rows."""
    whole = sum(r[2] for r in rows) or 1
    return pd.DataFrame(
        [
            {"component": c, "owner": o, "lost_gpu_ms": ms, "lost_ms": 7 * ms, "lost_cost": cost, "share_ratio": ms / whole}
            for c, o, ms, cost in rows
        ]
    )  # fmt: skip


def test_the_ranking_has_a_bar_per_source_in_its_colour_with_its_owner():
    figure = figures.ranking(ranked(("compile", "compiler", 3 * 3_600_000, 6.0), ("stalled", "reliability", 3_600_000, None)))  # fmt: skip
    bars, names = figure.data
    assert list(bars.x) == [3, 1]
    assert list(bars.marker.color) == [DEFAULT["compile"].colour, DEFAULT["stalled"].colour]
    assert "compiler" in names.text[0]
    assert "Compilation" in names.text[0]
    assert "USD 6.00" in bars.customdata[0][1]
    assert "USD" not in bars.customdata[1][1]


def test_the_smallest_sources_are_pooled_and_nothing_is_lost():
    rows = [(c.key, "x", 100 - n, None) for n, c in enumerate(COMPONENTS)]
    figure = figures.ranking(ranked(*rows))
    assert len(figure.data[0].x) == MOST_BARS
    assert sum(figure.data[0].x) * 3_600_000 == pytest.approx(sum(r[2] for r in rows))


def test_a_component_of_another_registry_takes_its_ancestors_colour():
    figure = figures.ranking(ranked(("compile.search", "compiler", 5, None)))
    assert list(figure.data[0].marker.color) == [DEFAULT["compile"].colour]
    assert "compile.search" in figure.data[1].text[0]


def test_attempts_lie_on_lanes_and_a_gap_follows_the_attempt_before_it():
    rows = ledger(
        (0, "trainer_init", "time_to_start", 2), (0, "effective_training", "effective", 10),
        (None, "requeue_wait", "time_to_recover", 5),
        (1, "repeated_training", "wasted_training", 3), (1, "effective_training", "effective", 20),
    )  # fmt: skip
    figure = figures.attempts(rows, attempts=attempt_rows("failed", "unknown"), **NOTHING)
    lanes = {t.name: list(t.y) for t in figure.data}
    assert lanes == {
        "Trainer init": [0], "Effective training": [0, 1], "Repeated training": [1], "Requeue wait": [0],
    }  # fmt: skip
    assert drawn_ms(figure, "Effective training") == 30 * MINUTE
    repeated = next(t for t in figure.data if t.name == "Repeated training")
    assert repeated.marker.pattern.shape == "/"
    assert "8 GPUs, failed" in figure.layout.yaxis.ticktext[0]
    assert "8 GPUs, running" in figure.layout.yaxis.ticktext[1]


def test_recoveries_interruptions_and_hidden_work_are_marked():
    rows = ledger(
        (0, "effective_training", "effective", 10), (0, "failure_detection", "time_to_recover", 5)
    )
    marks = {
        "recoveries": pd.DataFrame({"started_at": [ZERO], "ttr_ms": [9 * MINUTE]}),
        "interruptions": pd.DataFrame(
            {"attempt": [0], "began_at": [ZERO], "kind": ["end"], "cause": ["node_lost"], "is_infrastructure": [True]}
        ),
        "hidden": pd.DataFrame({"component": ["checkpoint_save"], "started_at": [ZERO], "duration_ms": [4 * MINUTE]}),
    }  # fmt: skip
    figure = figures.attempts(rows, attempts=attempt_rows("failed"), **marks)
    by_name = {t.name: t for t in figure.data}
    assert (
        by_name["Interruption"].customdata[0]
        == "2026-11-01 00:00:00 UTC<br>node lost (end), counted in NoF"
    )
    assert (list(by_name["Recovery"].y), list(by_name["Recovery"].x)) == ([1], [9 * MINUTE])
    hidden = by_name["Checkpoint save, beside training"]
    assert (list(hidden.y), list(hidden.x)) == ([2], [4 * MINUTE])


def test_rows_cut_at_midnight_are_drawn_as_one():
    rows = ledger(
        (0, "effective_training", "effective", 1440), (0, "effective_training", "effective", 60)
    )
    figure = figures.attempts(rows, attempts=attempt_rows("succeeded"), **NOTHING)
    assert list(figure.data[0].x) == [1500 * MINUTE]


def test_a_huge_job_is_pooled_without_losing_a_millisecond():
    rows = ledger(
        *[
            (0, *step)
            for _ in range(5_000)
            for step in [
                ("effective_training", "effective", 1),
                ("data_stall", "wasted_training", 0.25),
            ]
        ],
        (0, "stalled", "wasted_training", 300),
    )
    figure = figures.attempts(rows, attempts=attempt_rows("succeeded"), **NOTHING)
    assert sum(len(t.x) for t in figure.data) < 3 * MOST_ATTEMPT_BARS
    for component, name in [("effective_training", "Effective training"), ("data_stall", "Data stall"), ("stalled", "Stalled")]:  # fmt: skip
        assert (
            drawn_ms(figure, name) == rows.loc[rows["component"] == component, "duration_ms"].sum()
        )
    spans = sorted((b, b + x) for t in figure.data for b, x in zip(t.base, t.x, strict=True))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert "drawn pooled" in figure.layout.meta["notes"][0]


def test_very_many_attempts_share_lanes():
    rows = ledger(*[(n, "effective_training", "effective", 1) for n in range(100)])
    figure = figures.attempts(rows, attempts=attempt_rows(*["failed"] * 100), **NOTHING)
    assert len(figure.layout.yaxis.ticktext) <= MOST_LANES
    assert figure.layout.yaxis.ticktext[0] == "attempts 0 to 2"
    assert drawn_ms(figure, "Effective training") == 100 * MINUTE


def test_the_twin_without_validation_gives_the_same_figure():
    rows = ledger((0, "effective_training", "effective", 10))
    frames = {"attempts": attempt_rows("succeeded"), **NOTHING}
    spec = figures.attempts_spec(
        plain(rows), **{name: plain(frame) for name, frame in frames.items()}
    )
    assert go.Figure(spec).data == figures.attempts(rows, **frames).data


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<a href='javascript:x'>y</a>", "&lt;a href='javascript:x'&gt;y&lt;/a&gt;"),
        ("a & b", "a &amp; b"),
        ("a\u202eb\n", "a\\u202eb\\u000a"),
        ("x" * 200, "x" * 119 + "…"),
    ],
)
def test_text_of_logs_is_never_markup_in_a_figure(text, shown):
    assert plain_text(text) == shown


def test_what_cannot_be_seen_is_written_out():
    assert visible("ok \u2066 \x00") == "ok \\u2066 \\u0000"


def loss_rows(*rows):
    """Rows of (day offset, component, lost, held) GPU ms."""
    return pd.DataFrame(
        [
            {"ds": date(2026, 11, 1) + timedelta(days=n), "component": key, "lost_gpu_ms": lost, "held_gpu_ms": held}
            for n, key, lost, held in rows
        ]
    )  # fmt: skip


def test_losses_are_shares_of_what_was_held_in_taxonomy_order():
    figure = figures.losses(
        loss_rows((0, "stalled", 10, 100), (1, "stalled", 5, 50), (1, "compile", 20, 50))
    )
    assert isinstance(figure, go.Figure)
    assert [t.meta["key"] for t in figure.data] == ["compile", "stalled"]
    assert [list(t.y) for t in figure.data] == [[0.4], [0.1, 0.1]]
    assert [t.marker.color for t in figure.data] == [DEFAULT["compile"].colour, DEFAULT["stalled"].colour]  # fmt: skip


def test_other_losses_are_drawn_only_where_the_frame_has_them():
    frame = day_rows((0, 60, 30)).assign(held_gpu_ms=100)
    assert "Other losses" not in [t["name"] for t in figures.days_spec(frame)["data"]]
    told = figures.days_spec(frame.assign(other_gpu_ms=10))["data"]
    assert [t["y"] for t in told if t["name"] == "Other losses"] == [[0.1]]


def test_recoveries_are_counted_in_bins_and_none_is_lost():
    minutes = [0, 0.99, 1, 7, 59, 60, 5_000]
    figure = figures.recoveries(pd.DataFrame({"ttr_ms": [int(m * MINUTE) for m in minutes]}))
    counts = dict(zip(figure.data[0].x, figure.data[0].y, strict=True))
    assert {name: n for name, n in counts.items() if n} == {
        "&lt;1": 2, "1-2": 1, "5-10": 1, "45-60": 1, "1-2 h": 1, "&gt;24 h": 1,
    }  # fmt: skip
    assert figures.recoveries_spec(pd.DataFrame({"ttr_ms": []}))["data"] == []


def test_causes_are_ranked_and_split_by_whose_failure_they_are():
    struck = pd.DataFrame(
        {"cause": ["hardware", "user_code", "hardware"], "is_infrastructure": [True, False, True]}
    )
    ours, others = figures.causes(struck).data
    assert list(ours.y) == ["hardware", "user code"]
    assert (list(ours.x), list(others.x)) == ([2, 0], [0, 1])


def test_a_spread_is_a_line_from_the_median_to_the_95th_percentile():
    frame = pd.DataFrame(
        {"group": ["<b>a</b>", "b"], "p50_ms": [1_000.0, 0.0], "p95_ms": [9_000.0, 0.0], "attempt_count": [20, 3]}
    )  # fmt: skip
    line, median, high = figures.spread(frame).data
    assert list(line.x) == [1_000.0, 9_000.0, None]
    assert (list(median.x), list(high.x)) == ([1_000.0], [9_000.0])
    assert figures.spread_spec(frame)["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;a&lt;/b&gt;"]
