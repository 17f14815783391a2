"""Launchers and Kubernetes to the ledger: one walk for a job of each, joined out of several files."""

import json
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from pipelines import tables, walk
from pipelines.accounts import accounts
from pipelines.ingest.files import raw_files
from pipelines.ingest.identity import Identity
from pipelines.ingest.reading import files_frame
from pipelines.ingest.settings import FileSettings, SourceRule, Sources
from pipelines.scratch import Scratch
from tests.ingest.console_logs import at
from tests.ingest.test_kubernetes import condition, ended, pod, workload

RUN = Path(__file__).parents[2].parent / "shared/data/torchelastic-k8s"
RULES = (
    SourceRule(
        "log_block", FileSettings(zone="UTC", identity=Identity(path=r"(?P<job_id>elastic)/"))
    ),
)


@pytest.fixture(scope="module")
def jobs(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("launchers")
    raw = folder / "raw"
    (raw / "elastic").mkdir(parents=True)
    for block in RUN.glob("log_block_*.log") if RUN.is_dir() else ():
        (raw / "elastic" / block.name).write_bytes(block.read_bytes())
    admitted = workload(condition("Admitted", 10))
    evicted = workload(
        condition("Admitted", 300, "False"), condition("Evicted", 300, reason="NodeFailures")
    )
    things = [admitted, evicted, pod(state=ended(137, 300, "OOMKilled"))]
    for scrape in ("monday", "tuesday"):  # the same objects twice count once
        (raw / f"{scrape}.json").write_text("\n".join(json.dumps(t) for t in things))
    settings = walk.Settings(at(86_400), sources=Sources(RULES))
    scratch = Scratch(LocalFileSystem(), str(folder / "kept"), (folder / "kept").as_uri())
    book = walk.logbook(files_frame(spark, raw_files([raw])), settings, scratch.keep)
    ledger = walk.ledger(book[tables.LOGBOOK_EVENT.name], settings, scratch.keep)
    return {job["job_id"]: job for job in accounts(ledger)}


def test_a_job_on_kubernetes_from_its_admission_to_its_eviction(jobs):
    job = jobs["ads/llm"]
    assert job["wall_ms"] == 290_000
    assert job["held_gpu_ms"] == 290_000 * 32
    assert job["queue_wait_ms"] == 10_000
    assert (job["components"]["scheduling"], job["components"]["hardware_setup"]) == (
        10_000,
        59_000,
    )
    assert job["interruptions"] == {"out_of_memory": 1}


@pytest.mark.skipif(not RUN.is_dir(), reason=f"no real logs at {RUN}")
def test_the_elastic_run_to_the_ledger(jobs):
    job = jobs["elastic"]
    assert job["wall_ms"] == 3_751_445
    assert job["components"]["launcher_init"] == 2_103 + 30_130 + 40_613
    assert job["components"]["restart_gap"] >= 4_958
    assert sum(job["interruptions"].values()) == 2
    assert job["held_gpu_ms"] == 3_751_445 * 4
    assert "position_uncertain" in job["flags"]
