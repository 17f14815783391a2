import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.lifecycle import KINDS, as_text, read_line
from pipelines.ingest.recognise import LIFECYCLE
from pipelines.ingest.records import RejectError
from pipelines.taxonomy import DEFAULT
from tests import oracle
from tests.ingest.helpers import jsonl, parse, read

T = 1764576000000
STEP = {"ts": T, "job_id": "a", "event": "step", "step": 3}


def one(**changes):
    """What one line says: STEP with `changes`; the event, or the reason of its reject."""
    result = parse(LIFECYCLE, jsonl(STEP | changes))
    return result.events[0] if result.events else result.rejects[0].reason


def test_every_field_lands_in_its_column(tmp_path):
    line = {
        "ts": "2025-12-01T08:00:00.123Z", "job_id": "a", "event": "attempt_started",
        "cluster": "west", "attempt": 2, "rank": 7, "host": "n1", "step": 5, "samples": 2**63 - 1,
        "span_id": "s", "blocking": False, "gpus": 64, "held": True, "outcome": "failed",
        "cause": "network", "model": "m", "team": "t", "priority": "p", "attrs": {"b": "2", "a": "1"},
    }  # fmt: skip
    path = tmp_path / "x.log"
    path.write_bytes(jsonl(line, STEP | {"event": "phase_begin", "phase": "compile"}))
    first, second = read(path)["event"]
    assert {k: v for k, v in first.items() if v is not None} == {
        "record": "event", "source": "lifecycle", "source_file": "x.log", "source_line": 1,
        "event_at": dt.datetime(2025, 12, 1, 8, 0, 0, 123000, dt.UTC), "job_id": "a",
        "event": "attempt_started", "cluster": "west", "attempt": 2, "rank": 7, "host": "n1",
        "step": 5, "samples": 2**63 - 1, "span_id": "s", "is_blocking": False, "gpus": 64,
        "is_held": True, "outcome": "failed", "cause": "network", "model": "m", "team": "t",
        "priority": "p", "attrs": '{"a":"1","b":"2"}',
    }  # fmt: skip
    assert (second["cluster"], second["phase"], second["source_line"]) == ("default", "compile", 2)
    assert (second["is_blocking"], second["is_held"], second["gpus"]) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, {}),
        ({"step": 0, "rank": 2**63 - 1}, {"step": 0, "rank": 2**63 - 1}),
        ({"cluster": None, "host": None, "attrs": None, "blocking": None}, {}),
        ({"cluster": ""}, {"cluster": ""}),  # `default` in the table
        ({"outcome": "succeeded", "cause": "unknown"}, {"outcome": "succeeded", "cause": "unknown"}),
        ({"outcome": "exploded"}, {"outcome": "unknown", "attrs": {"outcome": "exploded"}}),
        ({"cause": "FAILED"}, {"cause": "unknown", "attrs": {"cause": "FAILED"}}),
        ({"cause": "x", "attrs": {"cause": "y"}}, {"cause": "unknown", "attrs": {"cause": "y", "line.cause": "x"}}),
        ({"loss": 1.50, "note": "hi"}, {"attrs": {"loss": "1.5", "note": "hi"}}),
        ({"gone": None}, {}),
        ({"job_id": ""}, {"job_id": ""}),
        ({"a": 1, "attrs": {"a": "2", "b": None}}, {"attrs": {"a": "2", "line.a": "1"}}),
        ({"attrs": {"hit": True, "n": 10**30, "o": {"b": [1, 2], "a": {}}}}, {"attrs": {"hit": "true", "n": f"1{'0' * 30}", "o": '{"a":{},"b":[1,2]}'}}),
        ({"attrs": {}}, {"attrs": {}}),  # null in the table
        ({"phase": "nonsense"}, {"attrs": {"phase": "nonsense"}}),  # a step claims no phase
        ({"job_id": "\x00ü"}, {"job_id": "\x00ü"}),
    ],
)  # fmt: skip
def test_what_a_line_says(changes, said):
    plain = {"line": 1, "at": T, "job_id": "a", "event": "step", "step": 3}
    assert one(**changes) == plain | said


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ts": None}, "ts missing: every event needs ts, job_id, event"),
        ({"ts": None, "job_id": None}, "ts and job_id missing"),
        ({"job_id": 5}, "job_id is 5: expected a string"),
        ({"event": "stop"}, "unknown event 'stop': did you mean 'step'?"),
        ({"event": ""}, "unknown event '': known: attempt_ended,"),
        ({"step": None}, "step missing: a step event needs it"),
        ({"event": "train_begin", "step": None}, "step missing: a train_begin event needs it"),
        ({"event": "checkpoint_durable", "step": None}, "step missing"),
        ({"event": "phase_begin"}, "phase missing: a phase_begin event needs it"),
        ({"event": "phase_end", "phase": "chekpoint_save"}, "unknown phase 'chekpoint_save': did you mean 'checkpoint_save'?"),
        ({"event": "phase_end", "phase": "requeue_wait"}, "phase 'requeue_wait' is given by the accounting only"),
        ({"event": "phase_end", "phase": ""}, "unknown phase ''"),
        ({"step": "3"}, 'step is "3": expected an integer from 0 to 2^63 - 1'),
        ({"step": 3.0}, "step is 3.0: expected an integer"),
        ({"step": True}, "step is true: expected an integer"),
        ({"step": -1}, "step is -1: expected an integer"),
        ({"samples": 2**63}, "samples is 9223372036854775808: expected an integer"),
        ({"gpus": "8"}, 'gpus is "8": expected an integer'),
        ({"gpus": 1_000_001}, "gpus is 1000001: expected an integer from 0 to 1 000 000"),
        ({"attempt": -1}, "attempt is -1"),
        ({"held": 1}, "held is 1: expected true or false"),
        ({"blocking": "false"}, 'blocking is "false": expected true or false'),
        ({"host": 5}, "host is 5: expected a string"),
        ({"cause": 5}, "cause is 5: expected a string"),
        ({"attrs": "x"}, 'attrs is "x": expected an object'),
        ({"ts": 1764576000}, "ts is the integer 1764576000, below 10^11"),
        ({"ts": "2025-12-01T08:00:00"}, "expected RFC 3339 with a zone"),
    ],
)  # fmt: skip
def test_why_a_line_is_rejected(changes, reason):
    assert one(**changes).startswith(reason) or reason in one(**changes)


@pytest.mark.parametrize("field", ["event", "phase"])
def test_a_reason_quotes_no_more_than_a_line_of_a_word(field):
    reason = one(**{"event": "phase_end", field: 100_000 * "compile"})
    assert reason.startswith(f"unknown {field} 'compilecompile")
    assert len(reason) < 1000


@pytest.mark.parametrize("kind", [k for k, needed in KINDS.items() if needed is None])
def test_other_kinds_need_nothing_more(kind):
    assert one(event=kind, step=None)["event"] == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "not JSON"),
        (b'{"ts": 1764576000000, "job_id": "a", "event": "st', "not JSON"),
        (b"[1, 2]", "one JSON object per line is expected"),
        (b"3", "one JSON object per line is expected"),
        (b'{"ts":1764576000000,"job_id":"a","event":"step","step":NaN}', "not JSON"),
        (b'{"ts":1764576000000,"job_id":"\\ud800","event":"step","step":1}', "not JSON"),
        (b'{"ts":1764576000000,"job_id":"\xff","event":"step","step":1}', "job_id is"),
        (b'{"ts":1764576000000,"job_id":"a","event":"step","step":1,"x":"\xff"}', "cannot be kept"),
        (b'{"ts":1764576000000,"job_id":"a","event":"step","step":1}\x00\x00', "not JSON"),
        (b'{"ts":1764576000000,"job_id":"a","event":"step","step":1,"x":' + b"[" * 9000, "not JSON"),
        (b'{"ts":1764576000000,"job_id":"a","event":"step","step":1} {}', "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_rejected(text, reason):
    result = parse(LIFECYCLE, text)
    assert result.events == []
    assert reason in result.rejects[0].reason
    assert result.rejects[0].excerpt == text.decode(errors="replace")[:200]


def test_blank_lines_are_ignored_and_line_ends_are_white_space():
    text = b"\xef\xbb\xbf" + jsonl(STEP).replace(b"\n", b"\r\n") + b"\r\n  \n" + jsonl(STEP)[:-1]
    result = parse(LIFECYCLE, text)
    assert [event["line"] for event in result.events] == [1, 4]
    assert (result.tally.event_line_count, result.tally.ignored_count) == (2, 2)


def test_of_a_doubled_key_the_last_counts():
    text = b'{"ts":1764576000000,"job_id":"a","event":"step","step":"x","step":4}'
    assert parse(LIFECYCLE, text).events[0]["step"] == 4


def test_the_site_s_components_are_phases():
    site = DEFAULT.with_child("compile.triton", label="t", owner=None, definition="d")
    line = jsonl(STEP | {"event": "phase_begin", "phase": "compile.triton"})
    assert parse(LIFECYCLE, line, taxonomy=site).events[0]["phase"] == "compile.triton"
    assert parse(LIFECYCLE, line).rejects


_TEXT = st.sampled_from(["", "a", "ü", "failed", "weird", "default", "compile", "evaluation"])
_NUMBER = st.sampled_from([0, 1, 2**63 - 1, 2**63, -1, 1.5, True, None, "3"])
_LINES = st.fixed_dictionaries(
    {"ts": st.sampled_from([T, T / 1000, "2025-12-01T08:00:00Z", 5, None, "x"])},
    optional={
        "job_id": _TEXT, "event": st.sampled_from([*KINDS, "heartbeat"]), "cluster": _TEXT,
        "attempt": _NUMBER, "rank": _NUMBER, "step": _NUMBER, "samples": _NUMBER, "gpus": _NUMBER,
        "phase": _TEXT, "host": _TEXT, "outcome": _TEXT, "cause": _TEXT,
        "blocking": st.sampled_from([True, False, None, 1]), "held": st.booleans(),
        "attrs": st.dictionaries(_TEXT, _TEXT | _NUMBER, max_size=2) | st.none(), "loss": _NUMBER,
    },
)  # fmt: skip


def by_every_rule(text):
    """What `read_line` alone makes of a line: the event, or the reason."""
    try:
        at, said = read_line(text, DEFAULT)
    except RejectError as reason:
        return str(reason)
    fields = {name: getattr(said, name) for name in type(said).__struct_fields__}
    return {"line": 1, "at": at} | {
        name: value for name, value in fields.items() if value is not None
    }


@given(_LINES)
def test_the_quick_reader_and_the_full_one_agree(line):
    text = json.dumps(line).encode()
    result = parse(LIFECYCLE, text)
    found = result.events[0] if result.events else result.rejects[0].reason
    if result.events and found.get("attrs") == {}:
        del found["attrs"]  # null in the table either way
    assert found == by_every_rule(text)


@given(_LINES)
def test_an_independent_reader_takes_the_same_lines_at_the_same_times(line):
    text = json.dumps(line).encode()
    result = parse(LIFECYCLE, text)
    lines, rejects = oracle.read([text])
    assert len(result.rejects) == rejects
    assert [event["at"] for event in result.events] == [one.ts for one in lines]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"a\\u00fc"', "aü"),
        (b"1.50", "1.5"),
        (b"1e3", "1000.0"),
        (b"0.1234567890123456789", "0.1234567890123456789"),
        (b"1e999", "1e999"),
        (b"1e99999999999999999999", "1e99999999999999999999"),
        (b"99999999999999999999999", "99999999999999999999999"),
        (b"false", "false"),
        (b'[1, {"b": 2, "a": null}]', '[1,{"a":null,"b":2}]'),
    ],
)
def test_values_of_attrs_are_strings(raw, text):
    assert as_text(raw) == text


def test_the_lines_of_the_rejects_case(request):
    path = request.config.rootpath / "tests/cases/26_rejects_duplicates_time_formats.json"
    case = json.loads(path.read_text())
    result = parse(LIFECYCLE, jsonl(*case["events"]))
    assert len(result.rejects) == case["expected"]["rejects"] == 6
    assert {event["at"] for event in result.events if event.get("step") == 2} == {1764576030000}
