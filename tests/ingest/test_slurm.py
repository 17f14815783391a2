"""Rows of sacct, and the attempts that they tell."""

import json
import re
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import spot
from pipelines.ingest.files import raw_files
from pipelines.ingest.identity import Identity
from pipelines.ingest.reading import files_batch, read_files
from pipelines.ingest.recognise import SLURM_JSON, SLURM_TEXT, recognise
from pipelines.ingest.records import Reading, Reject
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.ingest.slurm import Teller, seconds_of
from pipelines.ingest.slurm_columns import COLUMNS, Layout, header
from pipelines.taxonomy import DEFAULT
from tests.conftest import SHARED
from tests.ingest.helpers import SOME_FILE, _said

OSLO = {"zone": "Europe/Oslo"}
GCM = SHARED / "data" / "slurm-sacct-gcm"
SONAR = SHARED / "data" / "slurm-sacct-sonar"
REQUEUES = SHARED / "data" / "log-quotes" / "slurm_sacct_D_requeues_reportseff-25.txt"
SONAR_COLUMNS = [
    "JobID",
    "JobIDRaw",
    "User",
    "Account",
    "State",
    "Start",
    "End",
    "AveCPU",
    "AveDiskRead",
    "AveDiskWrite",
    "AveRSS",
    "AveVMSize",
    "ElapsedRaw",
    "ExitCode",
    "Layout",
    "MaxRSS",
    "MaxVMSize",
    "MinCPU",
    "ReqCPUS",
    "ReqMem",
    "ReqNodes",
    "Reservation",
    "Submit",
    "Suspended",
    "SystemCPU",
    "TimelimitRaw",
    "UserCPU",
    "NodeList",
    "Partition",
    "AllocTRES",
    "Priority",
    "JobName",
]
REQUEUES_COLUMNS = [
    "AdminComment",
    "AllocCPUS",
    "Elapsed",
    "JobID",
    "JobIDRaw",
    "MaxRSS",
    "NNodes",
    "ReqMem",
    "State",
    "Timelimit",
    "TotalCPU",
]

HEADER = "JobID|JobName|Account|State|Submit|Start|End|Elapsed|AllocTRES|NodeList|ExitCode|Reason"
DAY = "2026-03-02T"


def row(  # noqa: PLR0913, PLR0917 - as many as there are columns
    job="7", state="COMPLETED", submit="08:00:00", start="08:10:00", end="09:10:00",
    elapsed="01:00:00", tres="cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1", nodes="n1", code="0:0",
    reason="None",
):  # fmt: skip
    """A row under HEADER; times are of one day."""
    times = [f"{DAY}{t}" if re.match(r"\d\d:", t) else t for t in (submit, start, end)]
    return "|".join([job, "train", "nlp", state, *times, elapsed, tres, nodes, code, reason])


class Result(list):
    """Events as dictionaries, with what else the file gave."""

    rejects: list
    tally: object


def sacct(text, form=SLURM_TEXT, **settings):
    """The events of a text through the format's units and parser, its lines accounted for."""
    rule = SourceRule("", FileSettings(**{"zone": "UTC", **settings}))
    reading = Reading(SOME_FILE, DEFAULT, sources=Sources((rule,)))
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    units = form.units([data], reading.tally.refuse)
    result, result_rejects = Result(), []
    for record in form.parse(iter(units), reading):
        if isinstance(record, Reject):
            result_rejects.append(record)
        else:
            result.append({"line": record[0], "at": record[1], **_said(record[2])})
    result.rejects, result.tally = [*result_rejects, *reading.tally.refused], reading.tally
    assert reading.tally.accounted == units.count
    return result


def table(*rows, head=HEADER):
    return "\n".join([head, *rows]) + "\n"


def clock(at):
    """`08:10:00` of an instant of the day."""
    return f"{at // 3_600_000 % 24:02d}:{at // 60_000 % 60:02d}:{at // 1000 % 60:02d}"


def told(*rows, **settings):
    """(time, kind, outcome or GPUs, cause) of each event."""
    return [
        (clock(e["at"]), e["event"], e.get("outcome", e.get("gpus")), e.get("cause"))
        for e in sacct(table(*rows), **settings)
    ]


# --- a record is an attempt -----------------------------------------------------------------------


def test_a_record_tells_its_job_its_attempt_and_the_schedulers_words():
    events = sacct(table(row(), row("7.batch"), row("7.0")))
    submitted, started, ended, finished = events
    assert (submitted["event"], submitted["job_id"], submitted["team"]) == (
        "job_submitted",
        "7",
        "nlp",
    )
    assert (started["event"], started["gpus"], clock(started["at"])) == (
        "attempt_started",
        4,
        "08:10:00",
    )
    assert started["attrs"] == {"job_name": "train", "nodes": "n1"}
    assert (ended["event"], ended["outcome"], clock(ended["at"])) == (
        "attempt_ended",
        "succeeded",
        "09:10:00",
    )
    assert ended["attrs"] == {"exit_code": "0:0", "state": "COMPLETED"}
    assert (finished["event"], finished["at"]) == ("job_finished", ended["at"])
    assert "attempt" not in started  # Slurm does not number them
    assert (events.tally.event_line_count, events.tally.ignored_count) == (1, 3)


@pytest.mark.parametrize(
    ("state", "reason", "outcome", "cause", "is_final"),
    [
        ("COMPLETED", "None", "succeeded", None, True),
        ("FAILED", "NonZeroExitCode", "failed", None, True),
        ("FAILED", "NodeDown", "failed", "node_lost", True),
        ("CANCELLED by 1185300516", "None", "cancelled", "cancelled", True),
        ("NODE_FAIL", "None", "failed", "node_lost", False),
        ("NODE_FAIL,REQUEUED", "None", "failed", "node_lost", False),
        ("FAILED,REQUEUED", "None", "failed", None, False),
        ("BOOT_FAIL", "None", "failed", "hardware", False),
        ("PREEMPTED", "None", "preempted", "preemption", False),
        ("REQUEUED", "None", "unknown", None, False),
        ("REQUEUED", "Preempted", "preempted", "preemption", False),
        ("REQUEUED", "NodeDown", "failed", "node_lost", False),
        ("TIMEOUT", "TimeLimit", "timed_out", "timeout", False),
        ("DEADLINE", "None", "timed_out", "timeout", True),
        ("OUT_OF_MEMORY", "None", "failed", "out_of_memory", False),
        ("RESIZING", "None", "unknown", "planned", False),
        ("SHRUGGED", "None", "unknown", None, False),
    ],
)
def test_states(state, reason, outcome, cause, is_final):
    got = told(row(state=state, reason=reason))
    assert got[2] == ("09:10:00", "attempt_ended", outcome, cause)
    assert (len(got) == 4 and got[3][1] == "job_finished") == is_final


def test_who_cancelled_is_kept():
    *_, ended, _ = sacct(table(row(state="CANCELLED by 1185300516", code="0:15")))
    assert ended["attrs"] == {
        "cancelled_by": "1185300516",
        "exit_code": "0:15",
        "state": "CANCELLED",
    }


@pytest.mark.parametrize("unsaid", ["Unknown", "None", "", "N/A", "1970-01-01T01:00:00", "0"])
def test_a_job_that_waits_or_runs_has_no_end(unsaid):
    waiting = row("8", "PENDING", start=unsaid, end=unsaid, nodes="None assigned", tres="")
    running = row("9", "RUNNING", end=unsaid, elapsed="02:00:00")
    assert told(waiting) == [("08:00:00", "job_submitted", None, None)]
    assert told(running) == [
        ("08:00:00", "job_submitted", None, None),
        ("08:10:00", "attempt_started", 4, None),
        ("10:10:00", "alive", None, None),
    ]


def test_a_job_cancelled_in_the_queue_had_no_hardware():
    by_nodes = row(
        state="CANCELLED by 5", start="08:30:00", end="08:30:00", tres="", nodes="None assigned"
    )
    bare = row(state="CANCELLED by 5", start="08:30:00", end="08:30:00", tres="", nodes="")
    never = row(
        state="CANCELLED by 5", start="Unknown", end="08:30:00", tres="", nodes="None assigned"
    )
    for one in (by_nodes, bare, never):
        assert [e[:3] for e in told(one)] == [
            ("08:00:00", "job_submitted", None),
            ("08:30:00", "job_finished", "cancelled"),
        ]


def test_an_attempt_of_no_length_has_no_end_that_could_be_taken_for_the_one_before():
    got = told(row(state="FAILED", end="08:10:00", elapsed="00:00:00"))
    assert [e[1] for e in got] == ["job_submitted", "attempt_started", "job_finished"]


def test_a_step_tells_only_a_cause_that_its_job_may_not_name():
    got = told(row(state="FAILED"), row("7.batch", "FAILED"), row("7.0", "OUT_OF_MEMORY", end="09:09:58"),
               row("7.1", "COMPLETED"))  # fmt: skip
    assert got[4:] == [("09:09:58", "interruption", None, "out_of_memory")]


def test_scrapes_of_one_record_tell_one_attempt():
    running = row(state="RUNNING", end="Unknown", elapsed="00:30:00", code="0:0", reason="Priority")
    first, second = sacct(table(running)), sacct(table(row(state="FAILED", code="1:0")))
    same = [{k: v for k, v in e.items() if k != "line"} for e in (*first[:2], *second[:2])]
    assert same[:2] == same[2:]
    again = sacct(table(row(), row()))
    assert [dict(e, line=0) for e in again[:4]] == [dict(e, line=0) for e in again[4:]]


def test_what_the_record_disagrees_about_is_kept():
    head = HEADER + "|Suspended"
    *_, ended, _ = sacct(table(row(elapsed="00:40:00") + "|00:20:00", head=head))
    assert (ended["attrs"]["elapsed_s"], ended["attrs"]["suspended_s"]) == ("2400", "1200")
    backwards = sacct(table(row(end="08:09:00")))
    assert backwards == []
    assert "lies before Start" in backwards.rejects[0].reason


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=128G,node=1", 1),
        ("cpu=96,gres/gpu:a100=4,gres/gpu:h100=2,node=1", 6),
        ("gres/gpu=8", 8),
        ("cpu=6,gres/gpumem=40G,gres/gpuutil=99,node=1", 0),
        ("cpu=6,mem=1G,node=1", 0),
        ("", None),
    ],
)
def test_gpus_of_alloctres(tres, gpus):
    assert told(row(tres=tres))[1][2] == gpus


@pytest.mark.parametrize("tres", ["gres/shard=3", "gres/mps=50", "gres/hpu=8", "gres/gpu=1K"])
def test_what_is_no_plain_count_of_gpus_is_not_taken_for_none(tres):
    assert "gpus" not in sacct(table(row(tres=f"cpu=8,{tres}")))[1]


def test_gpus_of_clusters_that_account_for_nodes_only():
    head, one = HEADER + "|AllocNodes", row(tres="cpu=192,node=3") + "|3"
    mapping = {"gpus_per_node": "8", "model": "JobName", "priority": "Reason", "speed": "JobName"}
    events = sacct(table(one, head=head), mapping=mapping)
    assert (events[1]["gpus"], events[1]["model"]) == (24, "train")
    assert events.tally.notes == [
        "mapping: 'speed' means nothing to Slurm: model, team, priority, cluster, gpus_per_node"
    ]


# --- who the job is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "raw", "own", "slurm_job_id"),
    [
        ("6539191_195", "6539386", "6539191_195", "6539386"),
        ("123+1", "124", "123+1", "124"),
        ("123", "123", "123", None),
    ],
)
def test_arrays_and_components_keep_both_names(job, raw, own, slurm_job_id):
    started = sacct(table(row(job) + f"|{raw}", head=HEADER + "|JobIDRaw"))[1]
    assert (started["job_id"], started["attrs"].get("slurm_job_id")) == (own, slurm_job_id)


def test_tasks_that_wait_and_revoked_siblings_are_no_jobs():
    events = sacct(table(row("5_[1-10%2]", "PENDING", start="Unknown"), row("6", "REVOKED")))
    assert (events, events.tally.ignored_count) == ([], 3)
    assert len(events.tally.notes) == 2


def test_one_id_on_two_clusters_is_two_jobs():
    text = table(row() + "|east", row() + "|west", head=HEADER + "|Cluster")
    assert [e["cluster"] for e in sacct(text) if e["event"] == "attempt_started"] == [
        "east",
        "west",
    ]
    site = Identity(cluster="ours")
    assert {e["cluster"] for e in sacct(text, identity=site)} == {"ours"}


def test_a_site_that_joins_by_name_gets_one_job_that_no_single_record_finishes():
    text = table(row("7", "TIMEOUT"), row("7.0", "OUT_OF_MEMORY"), row("8", submit="10:00:00"))
    events = sacct(text, identity=Identity(field="JobName"))
    assert {e["job_id"] for e in events} == {"train"}
    assert Counter(e["event"] for e in events) == {
        "job_submitted": 2, "attempt_started": 2, "attempt_ended": 2, "interruption": 1,
    }  # fmt: skip


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "time", ["1772445600", "2026-03-02T10:00:00", "2026-03-02 11:00:00+01:00", "2026-03-02T10:00:00Z",
             "2026-03-02T05:00:00-0500", "2026-03-02T10:00:00.000"]
)  # fmt: skip
def test_every_way_to_say_ten_o_clock(time):
    (_, started, *_) = sacct(table(row(start=time, end="12:00:00")))
    assert clock(started["at"]) == "10:00:00"


def test_a_local_time_needs_the_sites_zone():
    events = sacct(table(row()), zone=None)
    assert events == []
    assert "declare `zone:`" in events.rejects[0].reason


def test_daylight_saving():
    autumn = "7|x|t|{}|2025-10-26T00:00:00|2025-10-26T02:50:00|{}|{}|gres/gpu=1|n|0:0|None"
    _, started, ended, _ = sacct(
        table(autumn.format("COMPLETED", "2025-10-26T02:10:00", "00:20:00")), **OSLO
    )
    assert started["attrs"]["local_time"] == "ambiguous, the first"
    assert ended["attrs"]["local_time"] == "ambiguous, the second"
    assert ended["at"] - started["at"] == 20 * 60_000
    spring = sacct(table(row(start="2026-03-29T02:30:00", end="2026-03-29T04:00:00")), **OSLO)
    assert spring == []
    assert "does not exist in Europe/Oslo" in spring.rejects[0].reason


def test_durations():
    assert [seconds_of(t) for t in ("1-00:15:56", "00:23.779", "35317", "UNLIMITED")] == [
        87356, 23, 35317, None,
    ]  # fmt: skip


# --- lines to records -----------------------------------------------------------------------------


def test_headers_and_what_stands_between_the_columns():
    assert header("JobID|#State|#End$") is None or header("JobID|#State|#End").delimiter == "|#"
    assert header("jobid|state|").is_closed
    assert header(",JobID,State,Submit").columns == ("", "JobID", "State", "Submit")
    assert header("JobID,State,job_done") == Layout(("JobID", "State", "job_done"), ",")
    assert header("       JobID    JobName  Partition ") is None  # for eyes, cut to widths
    assert header("job_id,user,state,submit_time") is None


def test_without_a_header_the_site_says_the_columns():
    declared = sacct(row() + "\n", columns=tuple(HEADER.split("|")))
    assert len(declared) == 4
    undeclared = sacct(row() + "\n")
    assert "declare `columns:`" in undeclared.rejects[0].reason


def test_a_record_over_several_lines_is_as_many_event_lines():
    text = table(row().replace("train", "sbatch --wrap 'a\n\\n b'\n"), row("8"))
    events = sacct(text)
    assert [e["line"] for e in events] == [2] * 4 + [5] * 4
    assert (events.tally.event_line_count, events.tally.reject_count) == (4, 0)
    assert events[1]["attrs"]["job_name"] == "sbatch --wrap 'a\n\\n b'\n"


def test_delimiters_in_free_text_move_no_column():
    piped = row().replace("train", "grep a | wc || true")
    (_, started, *_) = sacct(table(piped, row("8")))
    assert (started["attrs"]["job_name"], started["gpus"]) == ("grep a | wc || true", 4)
    last = "JobID|State|Submit|Start|End|AllocTRES|JobName"
    one = f"7|FAILED|{DAY}08:00:00|{DAY}08:10:00|{DAY}09:00:00|gres/gpu=2|a|b\nc\n"
    events = sacct(f"{last}\n{one}{one}")
    assert [e["attrs"]["job_name"] for e in events if e["event"] == "attempt_started"] == [
        "a|b\nc"
    ] * 2


def test_torn_records_cost_only_themselves():
    whole, torn = row("8"), row("7")[:50]
    for text in (
        table(torn, whole),
        table(row("7")[30:], whole),
        table("sacct: error: x", whole, torn),
    ):
        events = sacct(text)
        assert [e["job_id"] for e in events] == ["8"] * 4
        assert all("columns" in r.reason for r in events.rejects)


def test_a_row_of_other_shapes_names_the_column():
    (reject,) = sacct(table(row("123+"))).rejects
    assert reject.reason == "sacct prints no '123+' under JobID"
    (reject,) = sacct(table(row(submit="02 Mar 08:00"))).rejects
    assert reject.reason == "sacct prints no '02 Mar 08:00' under Submit (unset SLURM_TIME_FORMAT)"


def test_a_file_of_steps_alone_says_so():
    events = sacct(table(row("7.0"), row("7.batch")))
    assert not events
    assert events.tally.notes == [
        "all 2 records are steps of jobs (123.0), which tell nothing alone: print the jobs too"
    ]


def test_a_mapping_that_is_no_number_is_named():
    notes = sacct(table(row()), mapping={"gpus_per_node": "eight"}).tally.notes
    assert notes == ["mapping: gpus_per_node 'eight' is no whole number"]


def test_rows_of_another_number_of_columns_are_given_up_soon():
    """AdminComment comes first: no line shows that it begins a record, all might be one."""
    names = sorted(COLUMNS.values(), key=lambda name: name != "AdminComment")
    said = dict.fromkeys(("Submit", "Eligible", "Start", "End"), "Unknown") | {"State": "FAILED"}
    said |= {"JobID": "7", "JobIDRaw": "7"}
    text = "|".join(said.get(name, "") for name in names)
    begun = time.process_time()
    events = sacct("\n".join(["|".join([*names[:50], "Odd", *names[50:]]), *[text] * 40]))
    assert time.process_time() - begun < 3  # of the 16 s that forty tries of every begin take
    assert len(events.rejects) == 40


def test_an_odd_row_of_sonar_costs_only_itself():
    good = 'v=0.1.0,JobID=7,State=FAILED,"AllocTRES=cpu=6,node=1",Submit=2026-03-02T08:00:00'
    events = sacct(f"v=0.1.0,Job\rID=6\n{good}\n")
    assert [e["job_id"] for e in events] == ["7"]
    assert "no row of sonar" in events.rejects[0].reason


def test_bytes_that_are_no_text_stay_where_they_are():
    events = sacct(table(row()).encode().replace(b"train", b"tr\xffin"))
    assert events[1]["attrs"]["job_name"] == "tr\ufffdin"


NAMES = ("JobID", "State", "Submit", "Start", "End", "AllocTRES", "JobName", "SubmitLine", "Account",
         "WorkDir", "NodeList", "ReqMem")  # fmt: skip
WORDS = st.text("ab /=-", max_size=8)
MINUTES = st.integers(0, 59)


@st.composite
def printed(draw):
    """Records with free text that holds anything, as sacct prints them in some layout."""
    columns = draw(st.permutations(NAMES))
    delimiter = draw(st.sampled_from(["|", "|#", "^", "~", "\t"]))
    hostile = st.lists(st.sampled_from([delimiter, "\n", "a", " b ", "\\n", "|"]), max_size=6)
    records = []
    for number in range(draw(st.integers(1, 5))):
        minute = draw(MINUTES)
        record = {
            "JobID": str(100 + number) + draw(st.sampled_from(["", "_3", ".0", ".batch"])),
            "State": draw(st.sampled_from(["COMPLETED", "FAILED", "CANCELLED by 7", "REQUEUED"])),
            "Submit": f"{DAY}08:{minute:02d}:00", "Start": f"{DAY}09:{minute:02d}:00",
            "End": f"{DAY}10:{minute:02d}:00",
            "AllocTRES": f"cpu=1,gres/gpu={draw(st.integers(1, 9))}",
            "JobName": "".join(draw(hostile)), "SubmitLine": "".join(draw(hostile)),
            "Account": "acct", "WorkDir": "/w" + draw(WORDS), "NodeList": "n[1-2]", "ReqMem": "4G",
        }  # fmt: skip
        records.append(record)
    torn = draw(st.none() | st.tuples(st.integers(0, len(records) - 1), st.integers(0, 60)))
    return columns, delimiter, draw(st.booleans()), records, torn


def facts(events):
    return {(e["job_id"], e["event"], e["at"], e.get("outcome")) for e in events}


@given(printed())
@settings(deadline=None)  # each layout compiles its own expressions
def test_whatever_the_text_no_record_is_read_as_another(case):
    columns, delimiter, is_closed, records, torn = case
    close = delimiter if is_closed else ""
    lines = [delimiter.join(record[c] for c in columns) + close for record in records]
    if torn is not None:
        lines[torn[0]] = lines[torn[0]][: torn[1]]
    events = sacct("\n".join([delimiter.join(columns) + close, *lines, ""]))
    reading = Reading(
        SOME_FILE, DEFAULT, sources=Sources((SourceRule("", FileSettings(zone="UTC")),))
    )
    truth = [
        {"at": at, **_said(said)} for r in records for _, at, said in Teller(reading).tell(1, r)
    ]
    assert facts(events) <= facts(truth)
    gpus = {e["job_id"]: e["gpus"] for e in truth if "gpus" in e}
    assert all(e["gpus"] == gpus[e["job_id"]] for e in events if "gpus" in e)
    hostile = [r["JobName"] + r["SubmitLine"] for r in records]
    if torn is None:
        both = any(
            delimiter[0] in r["JobName"] and delimiter[0] in r["SubmitLine"] for r in records
        )
        if Layout(tuple(columns), delimiter).begins("") is not None and not both:
            assert {e["team"] for e in events if "team" in e} <= {"acct"}
        if not any(delimiter[0] in t or "\n" in t for t in hostile):
            assert facts(events) == facts(truth)


@given(st.binary(max_size=300), st.booleans())
@settings(deadline=None)
def test_any_bytes_are_accounted_for(data, has_header):
    sacct((HEADER.encode() + b"\n" if has_header else b"") + data)
    sacct(b'{"jobs": [' + data, SLURM_JSON)


# --- JSON -----------------------------------------------------------------------------------------


def number(value, *, is_set=True, infinite=False):
    return {"set": is_set, "infinite": infinite, "number": value}


def sacct_json(*jobs):
    return json.dumps({"meta": {"Slurm": {}}, "jobs": list(jobs), "errors": []}, indent=1)


def job(state=("FAILED",), end=1772442600, **fields):
    """The job of `row()` as data_parser prints it; times are epochs of 2026-03-02."""
    return {
        "job_id": 7, "name": "train", "account": "nlp", "nodes": "n1", "cluster": "east",
        "array": {"job_id": 0, "task_id": number(0, is_set=False), "task": ""},
        "het": {"job_id": 0, "job_offset": number(0, is_set=False)},
        "state": {"current": list(state), "reason": "None"},
        "exit_code": {"status": ["ERROR"], "return_code": number(1), "signal": {"id": number(0, is_set=False)}},
        "time": {"submission": 1772438400, "start": 1772439000, "end": end, "elapsed": 3600, "suspended": 0},
        "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8},
                               {"type": "gres", "name": "gpu", "count": 4},
                               {"type": "gres", "name": "gpu:a100", "count": 4}]},
        "steps": [], **fields,
    }  # fmt: skip


def test_json_and_text_of_one_record_tell_the_same():
    text = table(row(state="FAILED", code="1:0") + "|east", head=HEADER + "|Cluster")
    ours = sacct(sacct_json(job()), SLURM_JSON, zone=None)
    assert [dict(e, line=0) for e in ours] == [dict(e, line=0) for e in sacct(text)]
    old = job(state="FAILED", exit_code={"status": "ERROR", "return_code": 1})
    old["state"] = {"current": "FAILED", "reason": "None"}
    assert sacct(sacct_json(old), SLURM_JSON) == ours


def test_json_says_unknown_by_zero_unset_and_infinite():
    running = job(("RUNNING",), end=0)
    waiting = job(
        ("PENDING",), end=number(0, is_set=False), nodes="None assigned", tres={"allocated": []}
    )
    waiting["time"]["start"] = number(0, infinite=True)
    events = sacct(sacct_json(running, waiting), SLURM_JSON)
    assert [(e["line"], e["event"]) for e in events] == [
        (1, "job_submitted"), (1, "attempt_started"), (1, "alive"), (2, "job_submitted"),
    ]  # fmt: skip


def test_json_arrays_steps_and_the_json_of_others():
    step = {"step": {"id": "7.batch", "name": "batch"}, "state": ["OUT_OF_MEMORY"],
            "time": {"start": 1772439000, "end": 1772442000, "elapsed": 3000}}  # fmt: skip
    array = job(job_id=9, array={"job_id": 5, "task_id": number(3)}, steps=[step])
    squeue = {"job_id": 1, "job_state": ["RUNNING"]}
    events = sacct(sacct_json(array, squeue), SLURM_JSON)
    assert {e["job_id"] for e in events} == {"5_3"}
    assert (events[-1]["event"], events[-1]["cause"]) == ("interruption", "out_of_memory")
    assert "not squeue's" in events.rejects[0].reason


def test_an_odd_step_and_odd_bytes_in_json_cost_no_job():
    step = {"step": {"id": "7.a b"}, "time": {"end": 1772442000}, "state": ["COMPLETED"]}
    text = sacct_json(job(steps=[step])).encode().replace(b'"train"', b'"tr\xe4in"')
    events = sacct(text, SLURM_JSON)
    assert [e["event"] for e in events][:2] == ["job_submitted", "attempt_started"]
    assert events[1]["attrs"]["job_name"] == "tr\ufffdin"
    (note,) = events.tally.notes
    assert "1 jobs or steps could not be read; the first: document 1, '7.a b' is no" in note


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b"\xef\xbb\xbf" + table(row()).encode(), SLURM_TEXT),
        (b"sacct: error: slurmdbd: Unknown error\n" + sacct_json(job()).encode(), SLURM_JSON),
        (sacct_json().encode(), SLURM_JSON),
    ],
    ids=["a byte-order mark", "a message before the JSON", "a day without jobs"],
)
def test_sacct_is_recognised_behind(text, form):
    assert recognise([text])[0] == form


# --- real files -----------------------------------------------------------------------------------


def read_real(path, **settings):
    """A real file through recognition, as the engine reads it: rows by kind of record."""
    if not path.exists():
        pytest.skip(f"no real logs at {path}")
    rule = SourceRule("", FileSettings(**{**OSLO, **settings}))
    found = {"event": [], "reject": [], "file": []}
    for batch in read_files([files_batch(raw_files([path]))], DEFAULT, Sources((rule,))):
        for record in batch.to_pylist():
            found[record["record"]].append(record)
    (file,) = found["file"]
    assert file["source"] == "slurm"
    lines = file["event_line_count"] + file["reject_count"] + file["ignored_count"]
    assert lines == file["line_count"] > 0
    return found, file, Counter(e["event"] for e in found["event"])


def held(found):
    """(job, GPUs) of each attempt, sorted."""
    starts = [e for e in found["event"] if e["event"] == "attempt_started"]
    return sorted((e["job_id"], e["gpus"]) for e in starts)


@pytest.mark.parametrize(
    ("name", "lines", "attempts", "states"),
    [
        ("sample-sacct-fake-line-break.txt", (6, 3, 3), [("201729", 1024), ("201844", 256)],
         {"FAILED": 1, "REQUEUED": 1}),
        ("sample-sacct-multiple-multiline.txt", (10, 7, 3), [("201729", 1024), *[("201844", 256)] * 3],
         {"FAILED": 1, "REQUEUED": 3}),
        ("sample-sacct-output-invalid-utf8.txt", (12, 2, 10), [("3557891", 8), ("3557892", 1)],
         {"FAILED": 1, "TIMEOUT": 1}),
        ("sample-sacct-output.txt", (69, 0, 69), [], {}),
    ],
)  # fmt: skip
def test_gcm(name, lines, attempts, states):
    found, file, _ = read_real(GCM / name)
    assert (file["line_count"], file["event_line_count"], file["ignored_count"]) == lines
    assert held(found) == attempts
    ends = [json.loads(e["attrs"]) for e in found["event"] if e["event"] == "attempt_ended"]
    assert Counter(a["state"] for a in ends) == states


def test_the_rows_around_midnight():
    """306 jobs, 12 of them cancelled in the queue (Start = End), and 880 steps: 6 ran out of memory."""
    found, file, kinds = read_real(GCM / "sample-sacct-output-midnight-edge-case.txt")
    assert (file["line_count"], file["event_line_count"], file["ignored_count"]) == (1187, 312, 875)
    assert kinds == {
        "attempt_started": 294,
        "attempt_ended": 294,
        "job_finished": 301,
        "interruption": 6,
    }
    outcomes = Counter(e["outcome"] for e in found["event"] if e["event"] == "attempt_ended")
    assert outcomes == {
        "failed": 261,
        "succeeded": 18,
        "cancelled": 12,
        "unknown": 2,
        "timed_out": 1,
    }
    assert len({e["job_id"] for e in found["event"]}) == 306
    assert {gpus for _, gpus in held(found)} == {None}  # no AllocTRES was printed
    first = found["event"][0]
    assert (first["job_id"], first["event_at"].isoformat()) == (
        "39125549",
        "2021-04-05T00:07:20+00:00",
    )


def test_sonar_in_its_three_forms():
    """122 jobs of Fox: 32 run, 31 wait, 4 were cancelled in the queue; 83 GPUs were held."""
    text, file, kinds = read_real(SONAR / "sacct_output.txt", columns=tuple(SONAR_COLUMNS))
    assert kinds == {"job_submitted": 122, "attempt_started": 87, "alive": 32, "attempt_ended": 55,
                     "job_finished": 56, "interruption": 1}  # fmt: skip
    assert (file["line_count"], sum(gpus for _, gpus in held(text))) == (301, 83)
    report, file, again = read_real(SONAR / "sonar_sacct_output.txt")
    assert (again, file["line_count"], held(report)) == (kinds, 1, held(text))
    old, _, kinds = read_real(SONAR / "sacct-output.txt", columns=tuple(SONAR_COLUMNS))
    pairs, file, again = read_real(SONAR / "sacctd-output.txt")
    assert kinds["attempt_started"] == 29 == again["attempt_started"]
    assert held(old) == held(pairs)
    assert sum(gpus for _, gpus in held(old)) == 16


def test_sonar_without_columns_says_what_to_declare():
    found, _, kinds = read_real(SONAR / "sacct_output.txt")
    assert (len(kinds), len(found["reject"])) == (0, 301)
    assert "declare `columns:`" in found["reject"][0]["reason"]
    _, file, _ = read_real(SONAR / "newfmt_slurmjobs.json")
    assert (file["line_count"], file["ignored_count"]) == (2, 2)  # one step, one error
    _, _, kinds = read_real(SONAR / "oldfmt_slurmjobs.csv")
    assert kinds["attempt_started"] == 3


def test_requeues_without_any_instant_are_rejects_that_say_so():
    found, file, _ = read_real(REQUEUES, columns=tuple(REQUEUES_COLUMNS))
    assert (file["reject_count"], file["ignored_count"]) == (4, 8)
    assert "no Submit, Start or End" in found["reject"][0]["reason"]
    assert (
        file["note"] == "job records without any instant: 4 REQUEUED; print Submit, Start and End"
    )


def test_four_requeued_records_are_four_attempts_of_one_job(tmp_path):
    """The real records, with the Start and End that their Elapsed allows, each requeued at once."""
    if not REQUEUES.exists():
        pytest.skip(f"no real logs at {REQUEUES}")
    at, lines = 1_772_438_400, ["Submit|Start|End|" + "|".join(REQUEUES_COLUMNS)]
    for line in REQUEUES.read_text().splitlines():
        name, elapsed = line.split("|")[3], seconds_of(line.split("|")[2])
        is_job = name == "235929"
        if is_job:
            submit, start, at = at, at + 60, at + 60 + elapsed
        lines.append(f"{submit}|{start}|{at}|{line}")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    (job,) = spot.account_paths([str(tmp_path)], as_of_ms=(at + 86_400) * 1000).jobs
    elapsed = (3889 + 4473 + 6122 + 2153) * 1000  # 01:04:49, 01:14:33, 01:42:02, 00:35:53
    assert job["components"] == {"requeue_wait": 3 * 60_000, "unattributed": elapsed}
    assert (job["interruptions"], job["queue_wait_ms"]) == ({"unknown": 3}, 60_000)


def test_a_recycled_id_is_a_new_run_and_a_requeue_is_not(tmp_path):
    rows = [row(state="NODE_FAIL"), row(submit="09:10:00", start="09:20:00", end="10:00:00"),
            row(submit="20:00:00", start="20:01:00", end="21:00:00", state="FAILED")]  # fmt: skip
    text = table(*rows)
    text = re.sub(r"(T\d\d:\d\d:\d\d)", r"\1Z", text)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "scraped_again.txt").write_text(text)
    jobs = spot.account_paths([str(tmp_path)], as_of_ms=1_772_600_000_000).jobs
    keys = ("job_id", "queue_wait_ms", "held_gpu_ms", "interruptions", "ett_ratio")
    assert [tuple(j[k] for k in keys) for j in jobs] == [
        ("7", 600_000, 4 * 100 * 60_000, {"node_lost": 1}, None),
        ("7#2", 60_000, 4 * 59 * 60_000, {"unknown": 1}, None),
    ]
    assert jobs[0]["components"]["requeue_wait"] == 600_000


def test_a_log_that_prints_a_header_at_its_end_stays_a_log():
    text = b"".join(b"step %d\n" % n for n in range(50)) + HEADER.encode() + b"\n"
    assert recognise([text])[0] is None
    assert recognise([table(row()).encode()])[0] is SLURM_TEXT
    assert recognise([row().encode() + b"\n"])[0] is SLURM_TEXT
    assert recognise([sacct_json(job()).encode()])[0] is SLURM_JSON
