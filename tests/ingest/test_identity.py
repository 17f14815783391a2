"""Which job a record belongs to: by path, by field, by a join file, and why by none."""

from __future__ import annotations

import pytest

from pipelines.ingest.identity import Identities, Identity, Key

JOINS = {"17": {"job_id": "llm", "attempt": "2", "team": "", "cluster": "west"}}


def told(rules, fields=None, name="runs/llm/attempt_3/rank0.log", **known):
    identities = Identities(rules, name)
    key = identities.of("own", fields, **known)
    [joined] = identities.found.values()
    assert joined.key == key
    return key, joined.rule, joined.reason


@pytest.mark.parametrize(
    ("rules", "fields", "key", "rule", "reason"),
    [
        (
            Identity(path=r"^runs/(?P<job_id>[^/]+)/attempt_(?P<attempt>\d+)", cluster="east"),
            {},
            Key("llm", cluster="east", attempt=3),
            r"path ^runs/(?P<job_id>[^/]+)/attempt_(?P<attempt>\d+)",
            None,
        ),
        (Identity(field="slurm"), {"slurm": "17"}, Key("17"), "field slurm", None),
        (Identity(field="id"), {}, Key("own"), "field id", None),
        (
            Identity(field="slurm"),
            {"pod": "a", "node": "b"},
            Key("own"),
            None,
            "no field 'slurm' here; fields found: node, pod",
        ),
        (
            Identity(field="slurm", join=JOINS, join_file="joins.csv", cluster="east"),
            {"slurm": "17"},
            Key("llm", cluster="west", attempt=2),
            "slurm in joins.csv",
            None,
        ),
        (
            Identity(field="slurm", join=JOINS, join_file="joins.csv"),
            {"slurm": "18"},
            Key("own"),
            None,
            "slurm '18' is not in joins.csv",
        ),
    ],
)
def test_a_rule_names_the_job_or_the_reason_why_not(rules, fields, key, rule, reason):
    assert told(rules, fields) == (key, rule, reason)


def test_the_site_has_the_last_word_on_the_cluster_and_the_path_on_all():
    rules = Identity(path="(?P<rank>0)", cluster="site")
    assert told(rules, cluster="own", rank=5, model="m")[0] == Key("own", "site", rank=0, model="m")


def test_nothing_is_listed_where_nothing_is_declared():
    identities = Identities(Identity(), "a.log")
    assert identities.of("own", {"slurm": "1"}, cluster="c") == Key("own", cluster="c")
    assert identities.found == {}
