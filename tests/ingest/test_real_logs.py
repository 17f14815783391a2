"""Every file of the real logs beside the project is read, and every line of it is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.survey import survey

DATA = Path(__file__).parents[2].parent / "shared/data"
FOLDERS = {
    "dlrover-events": {"dlrover", "unknown"},
    "log-quotes": {"console", "job_table", "slurm", "torchelastic", "unknown"},
    "megatron-bigscience": {"console", "unknown"},
    "mlperf-training-logs": {"mllog", "unknown"},
    "slurm-sacct-gcm": {"slurm", "unknown"},
    "slurm-sacct-sonar": {"slurm", "unknown"},
    "straggler-bytedance": {"job_table", "unknown"},
    "torch-trace-tlparse": {"torch_trace", "unknown"},
    "torchelastic-k8s": {"console", "unknown"},
    "tracelens-collectives": {"unknown"},
}
"""What the files of each folder are; the licence and the note on their origin are no logs."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_line_is_accounted_for(folder, engine):
    if engine.name != "sail":
        pytest.skip("reads files without an engine: once is enough")
    if not (DATA / folder).is_dir():
        pytest.skip(f"the real logs are not here: {DATA / folder}")
    seen = survey([str(DATA / folder)])
    assert seen.is_balanced
    assert [note for note in seen.notes if "reader failed" in note] == []
    assert {row["source"] for row in seen.files} <= FOLDERS[folder]
