"""The same fleet in the logs that sites really have, read back by a few plain expressions."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
import re2
from click.testing import CliRunner

from pipelines.cli import ett
from pipelines.site import load_site
from pipelines.taxonomy import DEFAULT
from simulator.formats.site import PLACES
from tests.simulator.fleets import fleet, intervals, jobs, lines, texts

STEP = re.compile(
    r"\[(\S+ \S+)\] iteration +(\d+)/ *\d+ \| consumed samples: +(\d+) "
    r"\| elapsed time per iteration \(ms\): ([\d.]+)"
)
DATED = re.compile(r"\[before the start of training step\] datetime: (\S+ \S+)")
STARTED = re.compile(r"I(\d{4} \S+) \d+ \S+ \[default\] Starting worker group")
TIMER = re.compile(r"(save-checkpoint|evaluate)(?: \.+)?: \(?(?:[\d.]+, )?([\d.]+)\)?")
JOINED = "truth/joined"
PHASES = {"save-checkpoint": "checkpoint_save", "evaluate": "evaluation"}


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """The folder and the summary of the same jobs as those of `exercise`."""
    out = tmp_path_factory.mktemp("joined")
    return out, fleet("exercise", out, jobs=150, days=3, seed=1, is_joined=True)


@pytest.fixture(scope="module")
def read(joined):
    """Every file's text by its name."""
    raw = joined[0] / "raw"
    return {p.relative_to(raw).as_posix(): p.read_text() for p in raw.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def events(exercise):
    """The same jobs' lifecycle events, of many ranks the lowest, each once, by (cluster, job)."""
    told = {}
    for line in {json.dumps(line, sort_keys=True): line for line in lines(exercise[0])}.values():
        if line.get("rank", 0) == 0:
            told.setdefault((line["cluster"], line["job_id"]), []).append(line)
    return told


def milliseconds(text, zone):
    at = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return round(at.timestamp() * 1000)


def consoles(read):
    """(place, job id, text) of each file of a job's output; the job's own id stands in it."""
    for name, text in sorted(read.items()):
        cluster, folder, job, *_ = name.split("/")
        if folder == "jobs":
            named = re.search(r"^SLURM_JOB_NAME=(\S+)$", text, re.MULTILINE)
            yield PLACES[cluster], named[1] if named else job, text


def found(read, expression):
    """What `expression` finds in each job's output, by (cluster, job id)."""
    own = {}
    for place, job, text in consoles(read):
        own.setdefault((place.name, job), []).extend(expression.findall(text))
    return own


# --- one course, several tellings ------------------------------------------------------------------


def test_the_fleet_is_the_same(exercise, joined):
    assert jobs(joined[0]) == jobs(exercise[0])
    assert intervals(joined[0]) == intervals(exercise[0])
    assert joined[1].events == exercise[1].events


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        fleet("exercise", tmp_path / name, jobs=8, days=2, seed=5, is_joined=True)
    files = [sorted((tmp_path / name).rglob("*.*")) for name in ("one", "two")]
    assert [p.name for p in files[0]] == [p.name for p in files[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True) if a.is_file())


def test_compressed_files_say_the_same(tmp_path):
    for name, is_small in (("plain", False), ("small", True)):
        out = tmp_path / name
        fleet("exercise", out, jobs=8, days=2, seed=5, is_joined=True, compress=is_small)
    plain, small = texts(tmp_path / "plain", "*.*"), texts(tmp_path / "small", "*.gz")
    assert {f"{name}.gz": text for name, text in plain.items()} == small


def test_the_scheduler_knows_allocations_only(joined):
    """Between its allocations nothing is held; hardware kept is time inside one."""
    plain, told = intervals(joined[0]), intervals(joined[0], JOINED)
    assert len(told) == len(plain)
    for rows in told.values():
        assert all(before[1] == after[0] for before, after in pairwise(rows))
        assert all(row[2] == "requeue_wait" for row in rows if row[5] is None)
    assert any(row[2] == "restart_gap" and row[5] is None for own in plain.values() for row in own)


def test_the_command_writes_them(tmp_path):
    asked = ["simulate", str(tmp_path / "fleet"), "--format", "joined", "--scenario", "exercise"]
    done = CliRunner().invoke(ett, [*asked, "--jobs", "3", "--days", "1"])
    assert done.exit_code == 0, done.output
    assert "--registry" in done.output
    assert (tmp_path / "fleet" / "site.yaml").is_file()
    assert list((tmp_path / "fleet" / "raw").rglob("sacct_2026-11-0*.txt"))


# --- the trainer -----------------------------------------------------------------------------------


def test_every_step_has_its_line(read, events):
    """Time to the trainer's clock, step, and samples where marks carry them."""
    told = {}
    for place, job, text in consoles(read):
        own = told.setdefault((place.name, job), [])
        for time, step, samples, _ in STEP.findall(text):
            own.append((milliseconds(time, place.zone), int(step), int(samples)))
    for key, own in events.items():
        clock = PLACES[key[0]].clock_ms
        true = [e for e in own if e["event"] == "step"]
        expected = [(at(e) // clock * clock, e["step"]) for e in true]
        assert sorted(expected) == sorted((t, s) for t, s, _ in told.get(key, []))
        samples = sorted(e["samples"] for e in true if "samples" in e)
        assert not samples or samples == sorted(n for *_, n in told[key])


def at(event):
    ts = event["ts"]
    return ts if isinstance(ts, int) else round(datetime.fromisoformat(ts).timestamp() * 1000)


def test_the_loop_is_entered_where_it_was(read, events):
    told = {}
    for place, job, text in consoles(read):
        own = told.setdefault((place.name, job), [])
        own += [milliseconds(time, place.zone) for time in DATED.findall(text)]
    for key, own in events.items():
        clock = PLACES[key[0]].clock_ms
        expected = [at(e) // clock * clock for e in own if e["event"] == "train_begin"]
        assert sorted(expected) == sorted(told.get(key, []))


def test_timers_say_how_long_the_loop_was_held(read, events):
    """Of jobs that one rank reports: others end a phase a little later."""
    told = found(read, TIMER)
    checked = 0
    for key, own in events.items():
        if any("rank" in e for e in own) or key not in told:
            continue
        expected = Counter()
        for phase, length in lengths(own):
            if PLACES[key[0]].is_recent or phase == "checkpoint_save":
                expected[phase] += length
        said = Counter()
        for name, length in told[key]:
            said[PHASES[name]] += round(float(length))
        assert said == expected
        checked += sum(expected.values())
    assert checked > 0


def lengths(own):
    """(phase, ms) of each blocking save and evaluation that ended."""
    begins = {}
    for event in own:
        phase = event.get("phase")
        if phase in PHASES.values() and event.get("blocking", True):
            if event["event"] == "phase_begin":
                begins[phase] = at(event)
            elif event["event"] == "phase_end":
                yield phase, at(event) - begins.pop(phase)


def test_saves_and_evaluations_are_not_part_of_the_time_per_iteration(read):
    """The lines of a steady job say the same time per iteration, whatever lies between them."""
    steady = 0
    for text in (t for _, _, t in consoles(read)):
        each = [float(ms) for *_, ms in STEP.findall(text)]
        if len(each) > 10:
            middle = sorted(each)[len(each) // 2]
            steady += sum(abs(ms - middle) < 0.1 for ms in each) > 0.5 * len(each)
    assert steady > 20


# --- the launcher ----------------------------------------------------------------------------------


def test_workers_start_when_the_launcher_is_done(read, events):
    told = {}
    for place, job, text in consoles(read):
        own = told.setdefault((place.name, job), [])
        for time in STARTED.findall(text):
            local = datetime.strptime(f"2026{time} +0000", "%Y%m%d %H:%M:%S.%f %z")
            own.append(milliseconds(local.replace(tzinfo=None).isoformat(), place.zone))
    checked = 0
    for key, own in events.items():
        if any("rank" in e for e in own):
            continue
        ends = [e for e in own if e["event"] == "phase_end" and e["phase"] == "launcher_init"]
        if not key[1].endswith("-publish"):
            assert sorted(map(at, ends)) == sorted(told.get(key, []))
            checked += len(ends)
    assert checked > 200


def test_failures_leave_their_signs(read):
    text = "\n".join(text for _, _, text in consoles(read))
    for sign in (
        "NVRM: Xid", "Watchdog caught collective operation timeout", "CUDA out of memory",
        "OSError: [Errno 5]", "DUE TO PREEMPTION", "DUE TO TIME LIMIT", "DUE TO NODE FAILURE",
        "Received Signals.SIGTERM death signal", "will restart worker group", "ChildFailedError",
        "[exiting program after receiving SIGTERM.] datetime:", "scheduled an async checkpoint",
        "worker group successfully finished", "[after training is done] datetime:",
    ):  # fmt: skip
        assert sign in text


# --- Slurm -----------------------------------------------------------------------------------------


def accounting(read, cluster):
    """The last state of each record, by (job id, submit), and how many times it was printed."""
    records, printed = {}, Counter()
    for name in sorted(n for n in read if n.startswith(f"{cluster}/slurm/")):
        head, *rows = [line.split("|") for line in read[name].splitlines()]
        for row in (dict(zip(head, values, strict=True)) for values in rows):
            if "." not in row["JobID"]:
                key = row["JobID"], row["Submit"]
                records[key] = row
                printed[key] += 1
    return records, printed


def seconds(elapsed):
    days, _, rest = elapsed.rpartition("-")
    hours, minutes, secs = map(int, rest.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + secs


@pytest.mark.parametrize("cluster", ["cedar", "basalt"])
def test_records_are_allocations(joined, read, cluster):
    """One record each, requeues under the same id; Elapsed is the allocation's length."""
    records, _ = accounting(read, cluster)
    key = "JobID" if cluster == "cedar" else "JobName"
    said = {}
    for row in records.values():
        if row["End"] != "Unknown":
            said.setdefault(row[key], []).append(seconds(row["Elapsed"]))
    checked = 0
    truth = jobs(joined[0], JOINED)
    for (name, job_id), rows in intervals(joined[0], JOINED).items():
        if name != cluster or truth[name, job_id]["flags"]:
            continue
        attempts = {}
        for start, end, *_, attempt in rows:
            if attempt is not None:
                attempts[attempt] = attempts.get(attempt, 0) + end - start
        assert len(attempts) == len(said[job_id])
        for true, elapsed in zip(attempts.values(), said[job_id], strict=True):
            assert abs(true / 1000 - elapsed) < 1
            checked += 1
    assert checked > 50
    assert max(Counter(r["JobID"] for r in records.values()).values()) > 2


def test_scrapes_repeat_what_they_said(read):
    records, printed = accounting(read, "cedar")
    assert max(printed.values()) > 2
    first = read[min(n for n in read if n.startswith("cedar/slurm/"))]
    assert "|RUNNING|0:0|" in first
    states = Counter(row["State"].split()[0] for row in records.values())
    assert states.keys() >= {"COMPLETED", "REQUEUED", "PREEMPTED", "TIMEOUT", "NODE_FAIL"}
    assert all(row["End"] == "Unknown" for row in records.values() if row["State"] == "RUNNING")
    assert all(row["Start"] == "Unknown" for row in records.values() if row["State"] == "PENDING")


def test_columns_are_those_of_the_version(read):
    heads = {n.split("/")[0]: t.splitlines()[0] for n, t in read.items() if "/slurm/" in n}
    assert heads["cedar"].endswith("|Restarts")
    assert "Restarts" not in heads["basalt"]


# --- Kubernetes ------------------------------------------------------------------------------------


def test_pods_say_when_hosts_were_set_up(read, events):
    """Bound to a node at the end of scheduling, running at the end of the hosts' set-up."""
    pods = {}
    for name in (n for n in read if n.endswith("/pods.json")):
        for pod in json.loads(read[name])["items"]:
            pods[pod["metadata"]["uid"]] = pod
    told, true = set(), set()
    for pod in pods.values():
        job = pod["metadata"]["labels"]["ettledger/job"]
        for status in pod["status"].get("containerStatuses", []):
            state = next(iter(status["state"].values()))
            told.add((job, state["startedAt"]))
    for (cluster, job), own in events.items():
        ends = [e for e in own if e["event"] == "phase_end" and e.get("phase") == "hardware_setup"]
        if cluster == "heron" and not any("rank" in e for e in own):
            true |= {(job, f"{datetime.fromtimestamp(at(e) // 1000, UTC):%FT%TZ}") for e in ends}
    assert true
    assert true <= told


def test_a_workload_is_admitted_for_each_allocation(joined, read):
    admitted = {}
    for name in (n for n in read if n.endswith("/workloads.json")):
        for workload in json.loads(read[name])["items"]:
            job = workload["metadata"]["labels"]["ettledger/job"]
            for condition in workload["status"]["conditions"]:
                if condition["type"] == "Admitted" and condition["status"] == "True":
                    admitted.setdefault(job, set()).add(condition["lastTransitionTime"])
    for (cluster, job), rows in intervals(joined[0], JOINED).items():
        if cluster == "heron":
            assert len(admitted[job]) == len({row[5] for row in rows if row[5] is not None})


# --- what ties it together -------------------------------------------------------------------------


def test_the_site_knows_every_file(joined, read):
    sources = load_site(joined[0] / "site.yaml").sources
    for name in read:
        [rule, *_] = [r for r in sources.rules if re2.search(r.path, name)]
        assert rule.settings.identity.cluster == name.split("/")[0]
    assert all(any(re2.search(rule.path, name) for name in read) for rule in sources.rules)


def test_what_can_be_told_is_said_of_every_component(joined):
    said = json.loads((joined[0] / "truth" / "joined" / "tellable.json").read_text())
    keys = {c.key for c in DEFAULT}
    assert said.keys() == PLACES.keys()
    for place in said.values():
        assert place["components"].keys() == keys
        for tellable in place["components"].values():
            assert set(tellable["found_as"]) <= keys
            assert (tellable["clock_ms"] is None) == (tellable["telling"] == "unsaid") or (
                tellable["telling"] == "inferred"
            )


def test_the_truth_of_the_sources_is_a_truth(joined):
    rows = list(jobs(joined[0], JOINED).values())
    plain = jobs(joined[0])
    assert len(rows) == len(plain)
    assert sum(r["effective_ms"] for r in rows) == sum(r["effective_ms"] for r in plain.values())
    assert sum(r["is_exact"] for r in rows) > 0.85 * len(rows)
