"""The ledger of joined sources against the truth: it may differ only where they say too little."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from pipelines import walk
from pipelines.ingest.files import raw_files
from pipelines.ingest.reading import files_frame
from pipelines.site import load_site
from simulator.formats.site import PLACES
from tests.simulator.fleets import fleet, intervals, jobs

JOINED = "truth/joined"
STEP_MS = 1000  # of the coarsest clock
TRAINING = {"repeated_training", "effective_training"}
TOLD = {
    "effective_training": 0.94, "repeated_training": 0.94, "failure_detection": 0.97,
    "requeue_wait": 0.99, "launcher_init": 0.95, "first_step_warmup": 0.99,
    "checkpoint_restore": 0.9,
}  # fmt: skip
"""The share of a component's time that is found as what it was."""
TOLD_BY_RECENT = {"checkpoint_save": 0.99, "evaluation": 0.99}
"""The same of what only later versions of the trainer time."""
BORDER_MS = 60_000  # in one line, what nobody says moves the border between the two


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    out = tmp_path_factory.mktemp("joined")
    return out, fleet("exercise", out, jobs=30, days=3, seed=4, is_joined=True)


@pytest.fixture(scope="module")
def ledger(joined, spark, module_keep):
    """Rows of the ledger by (cluster, job): start, end, component, is it inferred."""
    out, summary = joined
    settings = walk.Settings(summary.as_of_ms, sources=load_site(out / "site.yaml").sources)
    book = walk.logbook(files_frame(spark, raw_files([out / "raw"])), settings, module_keep)
    told = walk.ledger(book["logbook__event"], settings, module_keep)
    rows = {}
    for row in told["ledger__interval"].toArrow().to_pylist():
        edges = (round(row[name].timestamp() * 1000) for name in ("started_at", "ended_at"))
        own = rows.setdefault((row["cluster"], row["job_id"]), [])
        own.append((*edges, row["component"], row["is_inferred"]))
    return rows


@pytest.fixture(scope="module")
def exact(joined):
    return {key for key, job in jobs(joined[0], JOINED).items() if job["is_exact"]}


def overlaid(true, told):
    """(ms, true row, told row or None) of each stretch in which neither changes."""
    edges = sorted({edge for row in (*true, *told) for edge in row[:2]})
    for start, end in pairwise(edges):
        of = [next((r for r in rows if r[0] <= start < r[1]), None) for rows in (true, told)]
        if of[0] is not None:
            yield end - start, *of


def test_every_job_is_found(ledger, joined):
    held = {key for key, rows in intervals(joined[0], JOINED).items() if rows}
    assert held == ledger.keys()


@pytest.mark.parametrize("cluster", PLACES)
def test_time_is_nowhere_but_where_it_may_be(joined, ledger, exact, cluster):
    """In its own component, unattributed, inferred, or found as the sources cannot but say."""
    said = json.loads((joined[0] / JOINED / "tellable.json").read_text())[cluster]["components"]
    wrong, right = Counter(), Counter()
    for key, true in intervals(joined[0], JOINED).items():
        if key[0] != cluster or key not in exact:
            continue
        for length, row, told in overlaid(true, ledger[key]):
            found = told[2] if told else None
            may_be = {row[2], "unattributed", *said[row[2]]["found_as"]}
            is_edge = length < (BORDER_MS if {row[2], found} == TRAINING else STEP_MS)
            if is_edge or found in may_be or (told and told[3]):
                right[row[2], found] += length
            else:
                wrong[key[1], row[2], found] += length
    assert wrong == {}
    assert sum(right.values()) > 10 * 3_600_000


@pytest.mark.parametrize("cluster", PLACES)
def test_what_is_told_exactly_is_there(joined, ledger, exact, cluster):
    """Most of the training on new data, of saves and of waits is found as what it was."""
    told, true = Counter(), Counter()
    for key, rows in intervals(joined[0], JOINED).items():
        if key[0] == cluster and key in exact:
            for length, row, found in overlaid(rows, ledger[key]):
                true[row[2]] += length
                told[row[2]] += length * (found is not None and found[2] == row[2])
    at_least = TOLD | (TOLD_BY_RECENT if PLACES[cluster].is_recent else {})
    shares = {component: told[component] / true[component] for component in at_least}
    assert {c: s for c, s in shares.items() if s < at_least[c]} == {}
