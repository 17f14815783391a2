"""The parts: start-ups, speeds, lengths of time, lines."""

import json
from random import Random

import pytest

from simulator.intents import Layout, countable_ms
from simulator.logs import LogFiles, Pen
from simulator.pace import Pace, is_told
from simulator.scenario import BASELINE, Length
from simulator.startup import Kind, Span, holders, start_up


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([("a", 0, 10)], [("a", 10), (None, 20)]),
        ([("parent", 0, 20), ("child", 5, 10)], [("parent", 5), ("child", 10), ("parent", 20)]),
        ([("a", 0, 10), ("b", 5, 15)], [("a", 5), ("b", 10), ("b", 15), (None, 20)]),
    ],
    ids=["gap", "nested", "overlap"],
)
def test_the_phase_entered_last_is_waited_for(spans, expected):
    assert list(holders([Span(*s) for s in spans], 0, 20)) == expected


@pytest.mark.parametrize("kind", list(Kind))
def test_a_start_up_has_parents_gaps_and_overlaps(kind):
    spans, ready = start_up(
        BASELINE, kind, start=1000, gpus=64, compile_ms=(5000, {}), restores=True,
        says_parent=True, rng=Random(1),
    )  # fmt: skip
    by = {s.phase: s for s in spans}
    parent = by["trainer_init"]
    assert max(s.end for s in spans) <= ready
    assert all(parent.begin <= s.begin and s.end <= parent.end for s in spans if "." in s.phase)
    assert by["trainer_init.first_batch"].begin < by["compile"].end
    assert ("scheduling" in by, "hardware_setup" in by) == (
        kind is Kind.FRESH,
        kind is not Kind.INSIDE,
    )


def pace(*, step_ms=1000, hides=True, steady=0, faster=0, slower=0):
    return Pace(step_ms, 1, False, True, hides, steady, faster, slower)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (pace(steady=3), [], True),
        (pace(steady=2), [], False),
        (pace(steady=2, hides=False), [], True),
        (pace(steady=2), [pace(steady=1)], True),
        (pace(steady=2), [pace(steady=5, step_ms=900)], False),
        (pace(steady=2, slower=2), [], True),
        (pace(steady=1, slower=3), [], False),
        (pace(steady=2, faster=3), [], False),
    ],
    ids=["three", "two", "two-nothing-hidden", "three-in-the-job", "two-speeds", "median-steady",
         "mostly-slower", "mostly-faster"],
)  # fmt: skip
def test_when_a_log_shows_the_speed(own, others, expected):
    assert is_told(own, [own, *others]) is expected


@pytest.mark.parametrize(
    ("step_ms", "batch", "expected"),
    [(1000, 0, 1000), (1000, 512, 1000), (1001, 1024, 1002), (300, 65536, 384), (302, 7, 308)],
)
def test_step_times_have_whole_nanoseconds_per_sample(step_ms, batch, expected):
    assert countable_ms(step_ms, batch) == expected
    assert batch == 0 or expected * 10**9 % batch == 0


def test_lengths_grow_with_each_doubling():
    assert Length(10, 5, 0).draw_ms(Random(1), 8) == 10_000
    assert Length(10, 5, 0).draw_ms(Random(1), 64) == 25_000
    assert 7_000 <= Length(10).draw_ms(Random(2)) <= 13_000


def test_step_lines_go_to_the_day_they_are_of(tmp_path):
    day = 86_400_000
    files = LogFiles(tmp_path)
    pen = Pen(files, "basalt", "j", Layout.BY_DAY, attempt=0)
    pen.say_steps(
        range(day - 2000, day + 1001, 1000), range(1, 5), range(64, 257, 64), until=day * 2
    )
    files.flush()
    told = {p.parent.name: p.read_text().splitlines() for p in tmp_path.rglob("*.jsonl")}
    steps = {name: [json.loads(x)["step"] for x in own] for name, own in told.items()}
    assert steps == {"1970-01-01": [1, 2], "1970-01-02": [3, 4]}
    assert json.loads(told["1970-01-02"][0]) == {
        "cluster": "basalt", "job_id": "j", "attempt": 0, "event": "step", "ts": day, "step": 3,
        "samples": 192,
    }  # fmt: skip
    assert (pen.lines, pen.step_lines, pen.last_ms) == (4, 4, day + 1000)


def test_other_ranks_follow_but_not_past_the_end(tmp_path):
    files = LogFiles(tmp_path)
    pen = Pen(files, "heron", "j", Layout.BY_JOB, ranks=(0, 1), attempt=0)
    pen.say_steps(range(1000, 2001, 1000), range(1, 3), None, until=2000)
    files.flush()
    told = [json.loads(x) for x in (tmp_path / "heron" / "j.jsonl").read_text().splitlines()]
    assert [(x["rank"], x["ts"], x["step"]) for x in told] == [
        (0, 1000, 1),
        (0, 2000, 2),
        (1, 1003, 1),
    ]


def test_memory_holds_a_few_megabytes_of_lines(tmp_path):
    files = LogFiles(tmp_path)
    for name in ("a", "b"):
        for _ in range(30):
            files.append(name, b"x" * 100_000)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) >= 2_000_000
    files.flush()
    assert files.byte_count == 6_000_000
    assert files.file_count == 2
