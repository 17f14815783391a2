"""What `simulate` writes: files, figures, the same bytes again, and clear refusals."""

import json
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import pytest

from pipelines.errors import UsageError
from pipelines.taxonomy import DEFAULT, Cause, Stage
from simulator import EXERCISE
from tests.simulator.fleets import START, fleet, intervals, jobs, lines, texts

DAY_MS = 86_400_000
START_MS = round(START.timestamp() * 1000)


def milliseconds(ts):
    if isinstance(ts, int):
        return ts
    return round(datetime.fromisoformat(ts).timestamp() * 1000)


# --- the truth ------------------------------------------------------------------------------------


def test_intervals_tile_the_wall_time(exercise):
    out, summary = exercise
    truth = jobs(out)
    for key, rows in intervals(out).items():
        assert all(before[1] == after[0] for before, after in pairwise(rows))
        assert all(start < end <= summary.as_of_ms for start, end, *_ in rows)
        assert rows[-1][1] - rows[0][0] == truth[key]["wall_ms"]


def test_stages_and_components_are_the_taxonomys(exercise):
    rows = [row for own in intervals(exercise[0]).values() for row in own]
    assert {stage for _, _, _, stage, _, _ in rows} == set(Stage)
    assert {component for _, _, component, _, _, _ in rows} == {c.key for c in DEFAULT}


def test_every_cause_strikes(exercise):
    struck = {cause for job in jobs(exercise[0]).values() for cause, _ in job["interruptions"]}
    assert struck == set(Cause) - {Cause.CANCELLED}  # a cancelled job is not interrupted


def test_everything_happens(exercise):
    """Held and requeued restarts, restarts inside, other world sizes, the dead and the running."""
    out, _ = exercise
    told, truth, rows = lines(out), jobs(out), intervals(out)
    own = [row for job in rows.values() for row in job]
    assert {row[2] for row in own if row[5] is None} == {"restart_gap", "requeue_wait"}
    assert any(row[2] == "restart_gap" and row[5] is not None for row in own)
    assert any(len({row[4] for row in job if row[4]}) > 1 for job in rows.values())
    flags = {flag for job in truth.values() for flag in job["flags"]}
    assert flags == {"censored", "presumed_dead"}
    assert any(job["wall_ms"] == 0 for job in truth.values())
    assert any(job["queue_wait_ms"] > DAY_MS for job in truth.values())
    publishing = [row[2] for key, job in rows.items() if key[1].endswith("-publish") for row in job]
    assert "model_publish" in publishing
    assert {line["event"] for line in told} == {
        "job_submitted", "attempt_started", "phase_begin", "phase_end", "train_begin", "step",
        "checkpoint_durable", "interruption", "attempt_ended", "job_finished",
    }  # fmt: skip
    assert any(line.get("blocking") is False for line in told)
    assert any("rank" in line for line in told)
    assert any(line["event"] == "step" and "attempt" not in line for line in told)
    hits = {line["attrs"].get("cache_hit") for line in told if "attrs" in line}
    assert hits == {"true", "false", None}


# --- the files ------------------------------------------------------------------------------------


def test_the_summary_counts_what_is_there(exercise):
    out, summary = exercise
    read = texts(out)
    assert summary.events == sum(text.count(b"\n") for text in read.values())
    assert summary.bytes == sum(map(len, read.values()))
    assert summary.files == len(read)
    assert summary.jobs == len(jobs(out))
    assert summary.as_of_ms == START_MS + 3 * DAY_MS
    told = json.loads((out / "simulation.json").read_text())
    assert told["as_of_ms"] == summary.as_of_ms
    assert (told["scenario"], told["seed"], told["training_jobs"]) == ("exercise", 1, 150)


def test_no_line_is_later_than_the_end(exercise):
    out, summary = exercise
    times = [milliseconds(line["ts"]) for line in lines(out)]
    assert min(times) >= START_MS
    assert max(times) <= summary.as_of_ms


def test_clusters_keep_their_logs_in_their_own_ways(exercise):
    names = texts(exercise[0])
    assert {name.split("/")[0] for name in names} == {"basalt", "cedar", "heron"}
    assert any(name.startswith("cedar/") and "/attempt-1." in name for name in names)
    assert any(name.startswith("basalt/scheduler/2026-01-05.") for name in names)
    for name, text in names.items():
        if name.startswith("basalt/"):
            days = {milliseconds(json.loads(x)["ts"]) // DAY_MS for x in text.splitlines()}
            assert len(days) == 1


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    for name, seed in (("one", 5), ("two", 5), ("other", 6)):
        fleet("exercise", tmp_path / name, jobs=12, days=2, seed=seed)
    assert texts(tmp_path / "one") == texts(tmp_path / "two")
    assert intervals(tmp_path / "one") == intervals(tmp_path / "two")
    assert texts(tmp_path / "one") != texts(tmp_path / "other")


def test_compressed_files_say_the_same(tmp_path):
    plain = fleet("exercise", tmp_path / "plain", jobs=12, days=2, seed=5)
    small = fleet("exercise", tmp_path / "small", jobs=12, days=2, seed=5, compress=True)
    assert {f"{name}.gz": text for name, text in texts(tmp_path / "plain").items()} == texts(
        tmp_path / "small"
    )
    assert small.bytes < plain.bytes / 3


def test_progress_is_told(tmp_path):
    told = []
    summary = fleet("exercise", tmp_path, jobs=8, days=2, seed=5, progress=told.append)
    assert told == sorted(told)
    assert len(told) == summary.jobs
    assert told[-1] == summary.events


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    [
        {"scenario": "baseline", "events": 60_000, "days": 7},
        {"scenario": "optimised", "events": 60_000, "days": 7},
        {"scenario": "baseline", "events": 60_000, "jobs": 25, "days": 14},
        {"scenario": "exercise", "events": 15_000, "days": 3},
    ],
    ids=lambda wanted: "-".join(map(str, wanted.values())),
)
def test_events_are_met_within_five_percent(tmp_path, wanted):
    wanted = dict(wanted)
    summary = fleet(wanted.pop("scenario"), tmp_path, seed=3, **wanted)
    assert summary.events == pytest.approx(wanted["events"], rel=0.05)


def test_half_a_year(tmp_path):
    """Few lines for much time: a line every few minutes."""
    summary = fleet("baseline", tmp_path, jobs=40, days=180, events=60_000, seed=2)
    assert summary.events == pytest.approx(60_000, rel=0.05)
    assert sum(job["is_exact"] for job in jobs(tmp_path).values()) > 0.85 * summary.jobs


def test_a_calm_fleet_needs_no_incident(tmp_path):
    """Rates of zero are rates."""
    names = [name for name in EXERCISE.__slots__ if name.endswith("_day")]
    calm = replace(EXERCISE, **dict.fromkeys(names, 0.0), start_up_failure_ratio=0, time_limit_h=99)
    fleet(calm, tmp_path, jobs=10, days=2, seed=1)
    causes = {cause for job in jobs(tmp_path).values() for cause, _ in job["interruptions"]}
    assert causes <= {Cause.USER_CODE, Cause.OUT_OF_MEMORY, Cause.UNKNOWN}


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"scenario": "basline"}, "did you mean 'baseline'"),
        ({"days": 0}, "days is 0: it must be at least 1"),
        ({"start": datetime(2026, 1, 5)}, r"has no zone: write 2026-01-05T00:00:00\+00:00"),  # noqa: DTZ001
        ({"jobs": 50, "events": 100}, "50 jobs cannot write 100 events: between "),
        ({"jobs": 1, "events": 10**9}, "1 jobs cannot write 1000000000 events: between "),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, wanted, message):
    from simulator import simulate

    usual = {"scenario": "exercise", "days": 2, "start": START, "seed": 1, "out": tmp_path}
    with pytest.raises(UsageError, match=message):
        simulate(**{**usual, **wanted})
    assert not any(tmp_path.iterdir())


def test_a_folder_with_logs_is_refused(tmp_path):
    fleet("exercise", tmp_path, jobs=2, days=1, seed=1)
    with pytest.raises(UsageError, match="already holds logs"):
        fleet("exercise", tmp_path, jobs=2, days=1, seed=1)
