import datetime as dt
import gzip
import json
import pickle

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.ingest import pack, reading, recognise
from pipelines.ingest.files import raw_files
from pipelines.tables import LOGBOOK_EVENT, LOGBOOK_FILE, LOGBOOK_REJECT
from pipelines.taxonomy import DEFAULT
from tests.ingest.helpers import jsonl, read

T = 1764576000000
STEPS = jsonl(*({"ts": T + i, "job_id": "a", "event": "step", "step": i} for i in range(1000)))
MLLOG = b'x\n:::MLLOG {"time_ms": 1764576000000, "key": "run_start"}\n:::MLLOG {"time'
ENTRIES = json.dumps([{"job_name": "g", "job_start_time": 1764000000}, {"job_name": "g"}], indent=1)


@pytest.fixture
def folder(tmp_path):
    """One file of every format and fate."""
    (tmp_path / "steps.jsonl.gz").write_bytes(gzip.compress(STEPS + b"\nbad\n"))
    (tmp_path / "torn.log").write_bytes(zstandard.compress(STEPS)[:-20])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result_0.txt").write_bytes(MLLOG)
    (tmp_path / "entries.json").write_text(ENTRIES)
    (tmp_path / "notes.md").write_text("# Notes\n\nnothing")
    (tmp_path / "empty").write_text("")
    return tmp_path


# name: source, lines, event lines, rejects, ignored, events, words of the note
FATES = {
    "empty": ("unknown", 0, 0, 0, 0, 0, "empty"),
    "entries.json": ("goodput", 2, 1, 0, 1, 1, None),
    "notes.md": (
        "unknown",
        3,
        0,
        0,
        3,
        0,
        "not recognised: the first 16 MiB hold none of lifecycle",
    ),
    "run/result_0.txt": ("mllog", 3, 1, 1, 1, 2, "no run_stop"),
    "steps.jsonl.gz": ("lifecycle", 1002, 1000, 1, 1, 1000, None),
}
COUNTS = ("line_count", "event_line_count", "reject_count", "ignored_count", "event_count")


def check_fates(files):
    by_name = {file["source_file"]: file for file in files}
    assert by_name.keys() == {*FATES, "torn.log"}
    for name, (source, *counts, note) in FATES.items():
        file = by_name[name]
        assert (file["source"], *(file[c] for c in COUNTS)) == (source, *counts)
        assert file["note"] == note if note is None else note in file["note"]
    for file in files:
        accounted = file["event_line_count"] + file["reject_count"] + file["ignored_count"]
        assert file["line_count"] == accounted


def test_every_file_of_a_folder_is_accounted_for(folder):
    found = read(folder)
    check_fates(found["file"])
    reasons = {(r["source_file"], r["source_line"]): r["reason"] for r in found["reject"]}
    assert reasons["steps.jsonl.gz", 1002].startswith("not JSON")
    assert reasons["run/result_0.txt", 3].startswith("a torn :::MLLOG line")
    (lost,) = [reason for (name, _), reason in reasons.items() if name == "torn.log"]
    assert "the Zstandard data end early" in lost


def test_the_engine_reads_the_folder(spark, folder):
    frame = reading.files_frame(spark, raw_files([folder]))
    records = reading.read(frame, DEFAULT)
    events = reading.events(records).toArrow()
    rejects = reading.rejects(records).toArrow()
    files = reading.files(records).toArrow()
    assert events.schema.names == LOGBOOK_EVENT.names
    assert rejects.schema.names == LOGBOOK_REJECT.names
    assert files.schema.names == LOGBOOK_FILE.names
    check_fates(files.to_pylist())
    assert rejects.num_rows == sum(files["reject_count"].to_pylist())
    assert events.num_rows == sum(files["event_count"].to_pylist())
    for table, frame in ((LOGBOOK_EVENT, events), (LOGBOOK_FILE, files), (LOGBOOK_REJECT, rejects)):
        needed = [c.name for c in table.columns if not c.is_nullable]
        assert [name for name in needed if frame[name].null_count] == []
    step = next(
        e for e in events.to_pylist() if e["source_file"] == "steps.jsonl.gz" and e["step"] == 999
    )
    assert step["ds"] == dt.date(2025, 12, 1)
    assert step["event_at"] == dt.datetime(2025, 12, 1, 8, 0, 0, 999_000, dt.UTC)
    assert (step["cluster"], step["source_line"], step["is_blocking"]) == ("default", 1000, None)


def test_no_files_are_no_records(spark):
    assert reading.read(reading.files_frame(spark, []), DEFAULT).count() == 0


def test_the_task_can_be_sent(folder):
    task = pickle.dumps((reading.read_files, DEFAULT))
    assert pickle.loads(task)[0] is reading.read_files


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_where_batches_are_cut_does_not_matter(monkeypatch, folder, rows):
    whole = read(folder)
    monkeypatch.setattr(pack, "BATCH_ROWS", rows)
    assert read(folder) == whole


def test_a_reader_that_fails_loses_neither_the_rest_nor_other_files(monkeypatch, folder):
    def failing(lines, reading):
        for number, _ in lines:
            if number == 3:
                raise ZeroDivisionError("oh")
            reading.tally.event_line_count += 1
            yield from ()

    broken = recognise.LIFECYCLE._replace(parse=failing)
    monkeypatch.setattr(recognise, "FORMATS", (broken, *recognise.FORMATS))
    found = read(folder)
    files = {file["source_file"]: file for file in found["file"]}
    broken = files["steps.jsonl.gz"]
    assert [broken[c] for c in COUNTS] == [1002, 2, 1000, 0, 0]
    assert broken["note"] == "the lifecycle reader failed at line 3: ZeroDivisionError('oh')"
    lines = [r["source_line"] for r in found["reject"] if r["source_file"] == "steps.jsonl.gz"]
    assert lines == list(range(3, 1003))
    assert files["entries.json"]["event_count"] == 1


def test_a_file_that_vanished_is_one_reject(tmp_path):
    (tmp_path / "a").write_text("x")
    batch = reading.files_batch(raw_files([tmp_path]))
    (tmp_path / "a").unlink()
    rows = [row for records in reading.read_files([batch], DEFAULT) for row in records.to_pylist()]
    assert [(row["record"], row["reason"]) for row in rows] == [
        ("reject", "the rest of the file is lost: cannot be read: No such file or directory"),
        ("file", None),
    ]
    assert [rows[1][c] for c in COUNTS] == [1, 0, 1, 0, 0]


_PIECES = st.sampled_from(
    [
        b"\n", b"\r\n", b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"\x00", b"\xff", b"\xef\xbb\xbf",
        STEPS[:70], STEPS[:40], b'{"ts":1764576000000,"job_id":"a","event":"attempt_started"}',
        b":::MLLOG ", b'{"time_ms":1764576000000,"key":"run_start"}',
        b'{"time_ms":1764576000000,"key":"eval_stop","metadata":{"samples_count":3}}',
        b'{"job_name":"g","job_start_time":1764000000.5}', b"Traceback (most recent call last)",
        b'{"job_name":"g","step_count":1,"step_start_time":1764000000}',
        b'{"job_name":"g","job_end_time":1764000000}', b'{"time_ms":1764576000000,"key":"submission_org","value":"\\ud800"}', b"9" * 5000,
        b"GLOBAL_RANK: 0, MEMBER: 1/99999999999999999999", b'{"job_name":"g","step_count":',
        b',"step_start_time":1}', b'"ts":', b'"samples_count":', b"NaN", b"1e999", b"null", b"true",
    ]
)  # fmt: skip
_GARBAGE = st.lists(_PIECES | st.binary(max_size=12), max_size=25).map(b"".join)
_PACKED = st.sampled_from(
    [
        lambda b: b,
        gzip.compress,
        lambda b: gzip.compress(b)[:-9],
        lambda b: zstandard.compress(b)[:-1],
    ]
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(_GARBAGE, _PACKED)
def test_lines_are_events_rejects_or_ignored_whatever_the_bytes(tmp_path, text, packed):
    path = tmp_path / "garbage"
    path.write_bytes(packed(text))
    found = read(path)
    (file,) = found["file"]
    assert (
        file["line_count"]
        == file["event_line_count"] + file["reject_count"] + file["ignored_count"]
    )
    assert file["reject_count"] == len(found["reject"])
    assert file["event_count"] == len(found["event"])
    assert "failed" not in (file["note"] or "").replace("a sign of a failure: failed", "")
