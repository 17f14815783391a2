"""Rows of flat tables of jobs, and what they tell."""

import csv
import datetime as dt
import io
import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from pipelines.ingest.job_table import FIELDS
from pipelines.ingest.recognise import JOB_TABLE, PARQUET, PHILLY, recognise
from pipelines.ingest.records import Reading, Reject
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.taxonomy import DEFAULT
from tests.conftest import SHARED
from tests.ingest.helpers import SOME_FILE, _said

QUOTES = SHARED / "data" / "log-quotes"
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
OWN = {"job_id": "id", "submitted": "sub", "started": "beg", "ended": "fin", "state": "how",
       "gpus": "n", "team": "grp", "model": "net", "duration_s": "took"}  # fmt: skip


class Result(list):
    """Events as dictionaries, with what else the file gave."""


def read(text, form=JOB_TABLE, **settings):
    """The events of a text through the format's units and parser, its units accounted for."""
    rule = SourceRule("", FileSettings(**{"zone": "UTC", **settings}))
    reading = Reading(SOME_FILE, DEFAULT, sources=Sources((rule,)))
    units = form.units([text if isinstance(text, bytes) else text.encode()], reading.tally.refuse)
    result, rejects = Result(), []
    for record in form.parse(iter(units), reading):
        if isinstance(record, Reject):
            rejects.append(record)
        else:
            result.append({"line": record[0], "at": record[1], **_said(record[2])})
    result.rejects, result.tally = [*rejects, *reading.tally.refused], reading.tally
    assert reading.tally.accounted == units.count
    return result


def told(events):
    """(line, time, kind, GPUs or outcome)."""
    return [(e["line"], when(e["at"]), e["event"], e.get("gpus", e.get("outcome"))) for e in events]


def when(at):
    return dt.datetime.fromtimestamp(at / 1000, dt.UTC).strftime("%d %H:%M:%S")


def real(name):
    path = QUOTES / name
    if not path.exists():
        pytest.skip(f"no real logs at {path}")
    return path.read_bytes()


# --- public traces --------------------------------------------------------------------------------


def test_acme_and_helios_in_one_file_of_three_headers():
    """Helios names no zone: its times are read in the declared one."""
    data = real("acme_helios_readme_rows.csv")
    assert recognise([data])[0] is JOB_TABLE
    events = read(data, zone="Asia/Shanghai")
    by_job = {j: [e for e in events if e["job_id"] == j] for j in (e["job_id"] for e in events)}
    assert Counter(e["event"] for e in events) == {
        "job_submitted": 7, "attempt_started": 7, "attempt_ended": 7, "job_finished": 7,
    }  # fmt: skip
    assert told(by_job["5778432"]) == [
        (3, "28 16:18:22", "job_submitted", None),
        (3, "28 16:18:54", "attempt_started", 8),
        (3, "28 16:20:51", "attempt_ended", "failed"),
        (3, "28 16:20:51", "job_finished", "failed"),
    ]
    _, started, ended, _ = by_job["dlctk696s0jbvitv"]
    assert (started["gpus"], ended["at"] - started["at"]) == (64, 8_000)
    assert ended["attrs"] == {"state": "FAILED", "stated_duration_s": "18"}  # Kalos says 18
    helios = by_job["1425513"]
    assert [e.get("team") for e in helios[:2]] == ["vcpDC", "vcpDC"]
    assert told(helios)[1:3] == [
        (13, "09 10:41:28", "attempt_started", 1),
        (13, "17 06:15:21", "attempt_ended", "cancelled"),
    ]
    assert (events.tally.event_line_count, events.tally.ignored_count) == (7, 6)
    assert events.tally.notes == ["2 rows state a duration that is not end less start: computed"]
    unzoned = read(data, zone=None)
    assert [r.line for r in unzoned.rejects] == [11, 12, 13]
    assert "declare `zone:`" in unzoned.rejects[0].reason


def test_philly_numbers_its_attempts_and_leaves_times_out():
    data = real("philly_records.json")
    assert recognise([data])[0] is PHILLY
    events = read(data, PHILLY, zone="America/Los_Angeles")
    assert [(e["line"], e["event"], e.get("attempt"), e.get("gpus")) for e in events] == [
        (1, "job_submitted", None, None),
        (1, "attempt_started", 0, 8), (1, "attempt_ended", 0, None),
        (1, "attempt_started", 1, 8), (1, "attempt_ended", 1, None),
        (1, "job_finished", None, None),
        (2, "job_submitted", None, None),
        (2, "attempt_started", 0, 1),
        (2, "attempt_started", 1, 1), (2, "attempt_ended", 1, None),
        (2, "attempt_started", 2, 1),
        (2, "attempt_ended", 3, None), (2, "job_finished", None, None),
        (3, "job_submitted", None, None),
    ]  # fmt: skip
    first, finished, waiting = events[1], events[5], events[-1]
    assert (when(first["at"]), first["team"]) == ("07 08:12:09", "ee9e8c")  # 01:12:09 in Seattle
    assert (when(finished["at"]), finished["outcome"]) == ("09 13:53:12", "succeeded")
    assert waiting["attrs"] == {"state": "Killed", "user": "2c46d5"}


def test_philly_that_is_not():
    job = {"jobid": "a", "attempts": [], "submitted_time": None}
    bad = {"jobid": "b", "attempts": 7, "submitted_time": "2017-10-07 01:11:39"}
    events = read(json.dumps([job, bad]), PHILLY)
    assert events == []
    assert [r.reason.split(":")[0] for r in events.rejects] == [
        "no time of submission, start or end", "no job of Philly",
    ]  # fmt: skip


def test_pai_has_no_header_no_year_and_no_attempts():
    columns = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
    rows = "4b3f,8cb3,5854,Terminated,4550879.0,4551416.0\n5c,8d,58,Running,4550900.0,\n"
    events = read(rows, columns=columns, source="job_table", zone=None)
    assert told(events) == [
        (1, "22 16:07:59", "job_submitted", None),
        (1, "22 16:16:56", "job_finished", "succeeded"),
        (2, "22 16:08:20", "job_submitted", None),
    ]
    assert "its days are of 1970" in events.tally.notes[0]


# --- a site's own table ---------------------------------------------------------------------------


def own(*rows, head="id,sub,beg,fin,how,n,grp,net,took", mapping=OWN, **settings):
    text = "\n".join([head, *rows]) + "\n"
    return read(text, mapping=mapping, source="job_table", **settings)


@pytest.mark.parametrize(
    ("state", "outcome", "is_final"),
    [
        ("Pass", "succeeded", True), ("COMPLETED", "succeeded", True), ("Killed", "cancelled", True),
        ("CANCELLED by 7", "cancelled", True), ("Timed Out", "timed_out", False),
        ("NODE_FAIL", "failed", False), ("fail", "failed", True), ("Odd", "unknown", False),
        ("", None, False),
    ],
)  # fmt: skip
def test_states_of_tables(state, outcome, is_final):
    events = own(f"a,1772438400,1772438460,1772438520,{state},8,nlp,bert,60")
    assert (events[1]["gpus"], events[1]["model"], events[1]["team"]) == (8, "bert", "nlp")
    assert (events[2]["event"], events[2].get("outcome")) == ("attempt_ended", outcome)
    assert (len(events) == 4) == is_final


@pytest.mark.parametrize(
    ("time", "zone"),
    [("1772445600", None), ("1772445600000", None), ("1772445600.0", None),
     ("2026-03-02T10:00:00Z", None), ("2026-03-02 11:00", "Europe/Oslo"),
     ('"2026-03-02 10:00:00.000+00:00"', None)],
)  # fmt: skip
def test_times_of_tables(time, zone):
    (started,) = own(f"a,,{time},None,RUNNING,0.5,,,", zone=zone)
    assert (started["event"], when(started["at"])) == ("attempt_started", "02 10:00:00")
    assert "gpus" not in started  # half a GPU is no number of GPUs


def test_rows_that_cannot_be():
    events = own(
        "a,1772438400,1772438460,1772438450,Pass,8,,,", ",1772438400,,,Pass,8,,,", "b,,,,Pass,8,,,",
        "c,yesterday,,,Pass,8,,,", "d,1772438400", "", 'e,"1772438400,,,',
    )  # fmt: skip
    assert events == []
    assert [r.line for r in events.rejects] == [2, 3, 4, 5, 6, 8]
    assert "before started" in events.rejects[0].reason
    assert "2 fields, the table has 9 columns" in events.rejects[4].reason
    assert "not closed" in events.rejects[5].reason


def test_a_quotation_mark_that_nothing_closes_costs_one_line():
    events = own('a,"1772438400,,,', "b,1772438400,,,,,,,", "c,1772438400,,,,,,,")
    assert [(e["line"], e["job_id"]) for e in events] == [(3, "b"), (4, "c")]
    assert [(r.line, r.reason) for r in events.rejects] == [
        (2, "a quotation mark is not closed: the row is torn")
    ]


def test_a_row_may_span_lines_and_hold_commas():
    events = own('a,1772438400,,,,8,"n,l\np","be""rt",', "b,1772438400,,,,8,x,y,")
    assert [(e["line"], e["team"], e["model"]) for e in events] == [
        (2, "n,l\np", 'be"rt'),
        (4, "x", "y"),
    ]
    assert events.tally.event_line_count == 3


def test_what_no_map_fits_is_ignored_unless_the_site_calls_it_a_table():
    text = "a,b\n1,2\n"
    ignored = read(text)
    assert (ignored.rejects, ignored.tally.ignored_count) == ([], 2)
    assert "no map fits these columns: a, b" in ignored.tally.notes[0]
    refused = read(text, source="job_table")
    assert "declare `source: job_table` and `mapping:`" in refused.rejects[0].reason
    wrong = read("id,x\n1,2\n", mapping={"job_id": "id", "ended": "end", "colour": "x"})
    assert wrong.tally.notes == [
        "mapping: there is no column 'end' for ended",
        f"mapping: 'colour' means nothing to a table: {', '.join(FIELDS)}",
    ]


def test_parquet_is_read_as_its_csv_would_be(tmp_path):
    utc = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)
    rows = {
        "id": [7.0, 8.0], "sub": [utc, None], "beg": [utc, utc], "n": [8, None],
        "fin": [utc + dt.timedelta(hours=1), None], "how": ["Pass", "Running"],
    }  # fmt: skip
    path = tmp_path / "jobs.parquet"
    pq.write_table(pa.table(rows), path)
    mapping = {k: v for k, v in OWN.items() if v in rows}
    data = path.read_bytes()
    assert recognise([data])[0] is PARQUET
    assert told(read(data, PARQUET, mapping=mapping)) == [
        (1, "02 10:00:00", "job_submitted", None),
        (1, "02 10:00:00", "attempt_started", 8),
        (1, "02 11:00:00", "attempt_ended", "succeeded"),
        (1, "02 11:00:00", "job_finished", "succeeded"),
        (2, "02 10:00:00", "attempt_started", None),
    ]
    assert read(data, PARQUET, mapping=mapping)[0]["job_id"] == "7"
    torn = read(data[:-20], PARQUET, mapping=mapping)
    assert "the rest of the file is lost" in torn.rejects[0].reason


CELLS = st.text('ab,"\n ', max_size=6)


@settings(deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=6), st.permutations(list(OWN.values())))
def test_cells_hold_anything_in_columns_of_any_order(cells, columns):
    """Rows written by Python's csv come back whole, whatever is in their cells."""
    rows = [
        dict(dict.fromkeys(columns, ""), id=f"j{n}", sub="1772438400", net=cell)
        for n, cell in enumerate(cells)
    ]
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    events = read(out.getvalue(), mapping=OWN)
    assert [(e["job_id"], e.get("model", "")) for e in events] == [
        (f"j{n}", cell.strip()) for n, cell in enumerate(cells)
    ]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_accounted_for(data):
    read(HELIOS.encode() + b"\n" + data)
    read(b"PAR1" + data, PARQUET)
    read(b'[{"jobid": "x"}, ' + data, PHILLY)
