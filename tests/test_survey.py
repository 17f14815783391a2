"""What `ett check` says of logs: read as, not read, not joined, and what would tell more."""

from __future__ import annotations

import json

from click.testing import CliRunner

from pipelines.cli import ett
from pipelines.site import load_site
from pipelines.survey import advice, doubts, survey

SITE = """
sources:
  - path: '^told/'
    identity: {field: slurm_job_id, join: joins.csv}
  - path: sacct
    cluster: west
    zone: Europe/Oslo
"""
SACCT = """\
JobID|State|Submit|Start|End|AllocTRES
1|COMPLETED|2026-11-01T09:00:00|2026-11-01T10:00:00|2026-11-01T11:00:00|gres/gpu=8
2|RUNNING|2026-11-01T09:00:00|never|Unknown|gres/gpu=8
3|RUNNING|2026-11-01T09:00:00|nevermore|Unknown|gres/gpu=8
"""


def lifecycle(job, event, second, **said):
    return json.dumps(
        {"ts": 1_790_000_000_000 + 1000 * second, "job_id": job, "event": event} | said
    )


def logs(folder):
    raw = folder / "raw"
    raw.mkdir()
    (raw / "sacct.txt").write_text(SACCT)
    steps = [lifecycle("a", "attempt_started", 0), lifecycle("a", "step", 9, step=1)]
    (raw / "a.jsonl").write_text("\n".join([*steps, '{"job_id": "a", "event": "stp"}', ""]))
    (raw / "README").write_text("not a log\n")
    (folder / "joins.csv").write_text("field,job_id\n")
    (folder / "site.yaml").write_text(SITE)
    return str(raw), load_site(folder / "site.yaml")


def test_what_files_hold(tmp_path):
    raw, site = logs(tmp_path)
    seen = survey([raw], site)
    assert seen.is_balanced
    assert {f["source_file"]: f["source"] for f in seen.files} == {
        "README": "unknown",
        "a.jsonl": "lifecycle",
        "sacct.txt": "slurm",
    }
    assert seen.words["slurm", "attempt_started"] == seen.words["lifecycle", "step"] == 1
    assert sorted((r.source, r.line_count, r.place) for r in seen.rejects.values()) == [
        ("lifecycle", 1, "a.jsonl:3"),
        ("slurm", 2, "sacct.txt:3"),
    ]
    assert seen.company == {("lifecycle",): ["default/a"], ("slurm",): ["west/1"]}
    assert seen.idle_rules == ["^told/"]
    lacking = [(a.job_count, a.text.partition(":")[0]) for a in advice(seen)]
    assert (1, "only schedulers or launchers speak of them") in lacking
    assert lacking[-1][1].startswith("1 files were not recognised")


def test_what_looks_like_a_mistake_is_told(tmp_path):
    """A phase that never ends, and one name in two clusters."""
    lines = [
        lifecycle("a", "attempt_started", 0),
        lifecycle("a", "phase_begin", 1, phase="evaluation"),
        lifecycle("a", "phase_begin", 2, phase="compile"),
        lifecycle("a", "phase_end", 3, phase="compile"),
        lifecycle("a", "attempt_started", 0, cluster="west", gpus=8),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    seen = survey([str(tmp_path)])
    split, unclosed = doubts(seen)
    assert split.startswith("a is a job in each of default, west")
    assert (
        unclosed
        == "1 more begins than ends of evaluation in lifecycle: each lasts to the next step"
    )
    assert (1, "no line says how many accelerators they held") in [
        (a.job_count, a.text.partition(",")[0]) for a in advice(seen)
    ]


def test_events_are_printed_by_line(tmp_path):
    log = tmp_path / "a.jsonl"
    log.write_text(lifecycle("a", "step", 9, step=7, rank=0) + "\n")
    told = CliRunner().invoke(ett, ["check", str(log), "--events"])
    assert told.output == "a.jsonl:1  2026-09-21T14:13:29.000Z  step  job_id=a rank=0 step=7\n"


def test_the_command_tells_it_in_words(tmp_path):
    raw, _ = logs(tmp_path)
    told = CliRunner().invoke(ett, ["check", raw, "--registry", str(tmp_path / "site.yaml")])
    assert told.exit_code == 0, told.output
    for words in ("2 x sacct.txt:3:", "1 jobs of which slurm speak", "to learn more", "README"):
        assert words in told.output
