import json
from pathlib import Path

import pytest

from pipelines.ingest.recognise import GOODPUT_ARRAY, GOODPUT_LINES
from tests import oracle
from tests.ingest.helpers import as_lines, jsonl, parse

T = 1764000000


def told(*entries):
    """Entries (times in seconds from T) to (second, attempt, kind, *what else it says)."""
    shifted = [{k: v + T if k.endswith("_time") else v for k, v in e.items()} for e in entries]
    result = parse(GOODPUT_LINES, jsonl(*({"job_name": "j"} | e for e in shifted)))
    assert not result.rejects
    rows = [
        (e["at"] / 1000 - T, e["attempt"], e["event"], *_rest(e))
        for e in result.events
        if e["job_id"] == "j"
    ]
    return in_order(rows)


def in_order(rows):
    return sorted(rows, key=lambda row: row[:3])


def _rest(event):
    return [v for k, v in event.items() if k not in ("line", "at", "job_id", "event", "attempt")]


def start(at):
    return {"job_start_time": at}


def step(n, at):
    return {"step_count": n, "step_start_time": at}


def end(at):
    return {"job_end_time": at}


INFERRED = {"inferred": "true"}


@pytest.mark.parametrize(
    ("entries", "events"),
    [
        pytest.param(
            [start(0), step(0, 10), step(1, 15), step(2, 20), end(40)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (15, 0, "step", 1), (20, 0, "step", 2),
             (25, 0, "step", 3, INFERRED), (40, 0, "attempt_ended", "succeeded")],
            id="the last step completes at the usual speed",
        ),
        pytest.param(
            [start(0), step(0, 10), step(4, 50), end(55)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (50, 0, "step", 4),
             (55, 0, "step", 5, INFERRED), (55, 0, "attempt_ended", "succeeded")],
            id="but not after the end; time per step over missing records",
        ),
        pytest.param(
            [start(0), step(0, 10), step(1, 20)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (20, 0, "step", 1)],
            id="without an end the last step is not complete",
        ),
        pytest.param(
            [step(0, 10), start(100), step(7, 110), step(7, 112), step(8, 120), step(5, 130), step(6, 140)],
            [(10, 0, "train_begin", 0), (100, 1, "attempt_started"), (110, 1, "train_begin", 7),
             (120, 1, "step", 8), (130, 1, "train_begin", 5), (140, 1, "step", 6)],
            id="before the first start; the same twice; a step back",
        ),
        pytest.param(
            [start(0), step(2, 30), step(0, 10), step(1, 20)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (20, 0, "step", 1), (30, 0, "step", 2)],
            id="steps count in the order of their times",
        ),
        pytest.param(
            [start(100), end(150), start(50)],
            [(50, 1, "attempt_started"), (100, 0, "attempt_started"), (150, 0, "attempt_ended")],
            id="attempts are numbered in the order of the log; a followed end has no outcome",
        ),
        pytest.param(
            [start(0), step(3, 10), end(30), start(50), step(3, 60), step(4, 64), step(5, 68), end(90)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 3), (14, 0, "step", 4, INFERRED),
             (30, 0, "attempt_ended"), (50, 1, "attempt_started"), (60, 1, "train_begin", 3),
             (64, 1, "step", 4), (68, 1, "step", 5), (72, 1, "step", 6, INFERRED),
             (90, 1, "attempt_ended", "succeeded")],
            id="an attempt without a speed takes the log's",
        ),
        pytest.param(
            [start(0), step(3, 10), end(30)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 3), (30, 0, "attempt_ended", "succeeded")],
            id="without any speed the last step is not known to complete",
        ),
        pytest.param(
            [start(0), step(0, 10), step(1, 20), end(15)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (15, 0, "attempt_ended", "succeeded"), (20, 0, "step", 1)],
            id="an end before the last step completes nothing",
        ),
        pytest.param(
            [start(0), step(0, 10), step(1, 10**9), end(2 * 10**9)],
            [(0, 0, "attempt_started"), (10, 0, "train_begin", 0), (10**9, 0, "step", 1),
             (2 * 10**9 - 10, 0, "step", 2, INFERRED), (2 * 10**9, 0, "attempt_ended", "succeeded")],
            id="a step of thirty years",
        ),
        pytest.param(
            [{"tpu_init_start_time": 1}, {"tpu_init_end_time": 2}, {"training_prep_start_time": 2},
             {"training_prep_end_time": 3}, {"elastic_reinit_start_time": 4}, {"elastic_reinit_end_time": 5},
             {"elastic_wait_start_time": 6, "elastic_wait_event_type": "x"}],
            [(1, 0, "phase_begin", "trainer_init.device_init"), (2, 0, "phase_end", "trainer_init.device_init"),
             (2, 0, "phase_begin", "trainer_init.pre_train"), (3, 0, "phase_end", "trainer_init.pre_train"),
             (4, 0, "phase_begin", "trainer_init"), (5, 0, "phase_end", "trainer_init"),
             (6, 0, "phase_begin", "restart_gap", "x")],
            id="phases",
        ),
        pytest.param(
            [{"data_loading_start_time": 1}, {"data_loading_end_time": 9}, step(0, 5),
             {"data_loading_start_time": 10}, {"data_loading_end_time": 12}],
            [(1, 0, "phase_begin", "trainer_init.first_batch"), (5, 0, "train_begin", 0),
             (9, 0, "phase_end", "trainer_init.first_batch"), (10, 0, "phase_begin", "data_stall"),
             (12, 0, "phase_end", "data_stall")],
            id="a load belongs to the first batch where it begins before the first step",
        ),
        pytest.param(
            [{"custom_badput_event_type": "EVAL_STEP", "custom_badput_event_start_time": 1},
             {"custom_badput_event_type": "sdc", "custom_badput_event_start_time": 2}],
            [(1, 0, "phase_begin", "evaluation", "EVAL_STEP"), (2, 0, "phase_begin", "stalled", "sdc")],
            id="custom events",
        ),
        pytest.param(
            [{"event_type": "save", "step": 9, "checkpoint_manager_blocking_start_time": 1,
              "checkpoint_manager_blocking_duration_secs": 1.5, "checkpointer_blocking_start_time": 1},
             {"event_type": "restore", "checkpoint_manager_start_time": 4, "checkpoint_manager_duration_secs": 2}],
            [(1, 0, "phase_begin", "checkpoint_save"), (2.5, 0, "phase_end", "checkpoint_save"),
             (4, 0, "phase_begin", "checkpoint_restore"), (6, 0, "phase_end", "checkpoint_restore")],
            id="checkpoints",
        ),
    ],
)  # fmt: skip
def test_entries_to_events(entries, events):
    assert told(*entries) == in_order(events)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"job_start_time": T}, "job_name is missing"),
        ({"job_name": 5, "job_start_time": T}, "job_name is 5: expected a string"),
        ({"job_name": "j", "job_start_time": "x"}, 'a time is "x": expected epoch seconds'),
        ({"job_name": "j", "job_start_time": T * 1000}, "outside the years 1 to 9999"),
        ({"job_name": "j", "step_count": 3}, "step_count without step_start_time"),
        ({"job_name": "j", "step_start_time": T}, "step_count is null: expected an integer"),
        ({"job_name": "j", "step_start_time": T, "step_count": 1.5}, "step_count is 1.5"),
        ({"job_name": "j", "step_start_time": T, "step_count": -1}, "step_count is -1"),
        ({"job_name": "j", "step_start_time": T, "step_count": 2**63 - 1}, "step_count is 9223372036854775807"),
        ({"job_name": "j", "event_type": "save", "checkpoint_manager_blocking_start_time": T,
          "checkpoint_manager_blocking_duration_secs": -1}, "checkpoint_manager_blocking_duration_secs is -1: negative"),
    ],
)  # fmt: skip
def test_why_an_entry_is_rejected(entry, reason):
    result = parse(GOODPUT_LINES, jsonl(entry))
    assert result.events == []
    assert reason in result.rejects[0].reason


@pytest.mark.parametrize("text", [b"nonsense", b"[1]", b'{"job_name": "j", "job_start_time": NaN}'])
def test_what_is_no_object_is_rejected(text):
    assert parse(GOODPUT_LINES, text).rejects[0].reason.startswith("not a JSON object")


def test_entries_of_other_kinds_are_ignored_and_make_no_attempt():
    other = {"job_name": "j", "active_slices": 3, "elastic_slice_counts_timestamp": T}
    result = parse(GOODPUT_LINES, b"\n" + jsonl(other, {"job_name": "j", "job_start_time": T}))
    assert [(event["line"], event["attempt"]) for event in result.events] == [(3, 0)]
    assert (result.tally.ignored_count, result.tally.event_line_count) == (2, 1)


def test_several_jobs_are_kept_apart():
    entries = [{"job_name": name, "job_start_time": T + i} for i, name in enumerate("aba")]
    events = parse(GOODPUT_LINES, jsonl(*entries)).events
    assert [(e["job_id"], e["attempt"]) for e in events] == [("a", 0), ("b", 0), ("a", 1)]


def test_the_facts_of_one_entry_come_in_one_order_whatever_the_order_of_its_fields():
    fields = {"job_end_time": T + 9, "step_start_time": T + 1, "step_count": 0, "job_start_time": T}
    turned = dict(reversed(fields.items()))
    before = {"job_name": "a", "job_start_time": T - 9}
    told = [
        parse(GOODPUT_LINES, jsonl(before, {"job_name": "a"} | f)).events for f in (fields, turned)
    ]
    assert told[0] == told[1]
    assert [e["attempt"] for e in told[0] if e["event"] == "train_begin"] == [1]


def case(request, number):
    (path,) = (request.config.rootpath / "tests/cases/goodput").glob(f"{number}_*.json")
    return json.loads(path.read_text())["entries"]


def test_the_entries_of_case_18_by_hand(request):
    """Attempt 0 says its end, so its last step completes; attempt 1 runs on."""
    events = parse(GOODPUT_ARRAY, json.dumps(case(request, 18), indent=1)).events
    kinds = [(e["attempt"], e["event"]) for e in events]
    assert kinds.count((0, "step")) == 20
    assert kinds.count((1, "step")) == 21
    said = {(e["attempt"], e["event"], e.get("step")): e for e in events}
    assert said[0, "train_begin", 0]["at"] == 1764000055000
    assert said[0, "step", 20]["at"] == 1764000295000
    assert said[0, "step", 20]["attrs"] == INFERRED
    assert said[1, "train_begin", 18]["at"] == 1764000470000
    assert said[1, "step", 39]["at"] == 1764000720000
    assert [e.get("outcome", "none said") for e in events if e["event"] == "attempt_ended"] == [
        "none said"
    ]


def test_the_entries_of_case_06_by_hand(request):
    """Saves hold the loop for 1.5 s each; by lines and in an array the events are the same."""
    entries = case(request, "06")
    result = parse(GOODPUT_LINES, jsonl(*entries))
    spans = [
        (e["at"] - 1764000000000, e["event"])
        for e in result.events
        if e.get("phase") == "checkpoint_save"
    ]
    saves = [e for e in entries if e.get("event_type") == "save"]
    begins = [round((e["checkpoint_manager_blocking_start_time"] - T) * 1000) for e in saves]
    assert spans == [
        (at + add, kind) for at in begins for add, kind in ((0, "phase_begin"), (1500, "phase_end"))
    ]
    assert result.tally.event_line_count == len(entries)
    assert parse(GOODPUT_ARRAY, json.dumps(entries)).events == result.events


CASES = sorted((Path(__file__).parent.parent / "cases/goodput").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_entries_of_a_case_account_to_what_it_expects(path):
    case = json.loads(path.read_text())
    result = parse(GOODPUT_LINES, jsonl(*case["entries"]))
    found = oracle.account(as_lines(result.events), as_of=case["as_of"])
    assert len(result.rejects) == case["expected"]["rejects"]
    for expected, job in zip(case["expected"]["jobs"], found["jobs"], strict=True):
        assert {key: job[key] for key in expected} == expected
