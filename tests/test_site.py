"""The site's YAML: what it says of its sources, and what is said of it where it is not valid."""

from __future__ import annotations

import pytest

from pipelines.errors import RegistryError
from pipelines.ingest.identity import Identity
from pipelines.ingest.settings import FileSettings
from pipelines.site import load_site


def site(folder, text):
    path = folder / "site.yaml"
    path.write_text(text)
    return load_site(path)


def test_the_first_rule_whose_path_is_found_holds(tmp_path):
    (tmp_path / "joins.csv").write_text("field,job_id,attempt\n17,llm,2\n")
    sources = site(
        tmp_path,
        r"""
currency: EUR
sources:
  - path: '^slurm/'
    source: slurm
    cluster: alpha
    zone: Europe/Oslo
    delimiter: '|#'
    columns: [JobID, State]
  - path: '^runs/(?P<job_id>[^/]+)/'
    clock_offset_ms: -250
    mapping: {gpus: num_gpus}
    identity: {field: slurm_job_id, join: joins.csv}
""",
    ).sources
    assert sources.settings_of("slurm/day.txt") == FileSettings(
        source="slurm",
        zone="Europe/Oslo",
        delimiter="|#",
        columns=("JobID", "State"),
        identity=Identity(cluster="alpha"),
    )
    assert sources.settings_of("runs/a/b.log") == FileSettings(
        clock_offset_ms=-250,
        mapping={"gpus": "num_gpus"},
        identity=Identity(
            path="^runs/(?P<job_id>[^/]+)/",
            field="slurm_job_id",
            join={"17": {"job_id": "llm", "attempt": "2"}},
            join_file="joins.csv",
        ),
    )
    assert sources.settings_of("other") == FileSettings()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{source: slurm}", "sources.entry 1: path missing"),
        ("{path: '(?<=a)b'}", "sources.entry 1.path: not an expression of RE2"),
        ("{path: '(?P<jobid>a)'}", "the group 'jobid' means nothing here"),
        ("{path: a, source: slrm}", "sources.entry 1.source: unknown source 'slrm'"),
        ("{path: a, zone: Mars/North}", "'Mars/North' is no time zone"),
        ("{path: a, clock_offset_ms: 1.5}", "expected whole milliseconds"),
        ("{path: a, identity: {join: j.csv}}", "field missing"),
        ("{path: a, identity: {field: id, join: j.csv}}", "cannot read"),
        ("{path: a, identity: {field: id, join: bad.csv}}", "has the columns field, jobid"),
        ("{path: a, identity: {field: id, join: twice.csv}}", "'1' stands twice"),
        ("{pth: a}", "unknown key 'pth'"),
        ("{path: ''}", "path: expected a text, found '': write one"),
        ("{path: '(?=a)'}", "not an expression of RE2: invalid perl operator: (?=;"),
        (
            "{path: a, identity: {field: id, join: short.csv}}",
            "short.csv, row 2 below the header: it has another number of columns",
        ),
        (
            "{path: a, identity: {field: id, join: words.csv}}",
            "words.csv, row 1 below the header: attempt 'first' is no whole number",
        ),
        (
            "{path: a, identity: {field: id, join: empty.csv}}",
            "empty.csv, row 1 below the header: field and job_id must say something",
        ),
    ],
)
def test_a_site_that_is_not_valid_is_told_where_and_why(tmp_path, rule, said):
    (tmp_path / "bad.csv").write_text("field,jobid\n1,2\n")
    (tmp_path / "twice.csv").write_text("field,job_id\n1,2\n1,3\n")
    (tmp_path / "short.csv").write_text("field,job_id\n1,2\n3\n")
    (tmp_path / "words.csv").write_text("field,job_id,attempt\n1,2,first\n")
    (tmp_path / "empty.csv").write_text("field,job_id\n1,\n")
    with pytest.raises(RegistryError) as refused:
        site(tmp_path, f"sources:\n  - {rule}\n")
    assert said in str(refused.value)


def test_a_join_file_as_office_programs_write_it_and_a_tab(tmp_path):
    joins = "\ufefffield, job_id, attempt\r\n 17 , llm, 2\r\n\r\n"
    (tmp_path / "joins.csv").write_bytes(joins.encode())
    rule = r"""{path: a, delimiter: "\t", identity: {field: id, join: joins.csv}}"""
    (found,) = site(tmp_path, f"sources:\n  - {rule}\n").sources.rules
    assert found.settings.delimiter == "\t"
    assert found.settings.identity.join == {"17": {"job_id": "llm", "attempt": "2"}}
