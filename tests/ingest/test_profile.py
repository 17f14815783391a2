import re
from pathlib import Path

import pytest
import yaml

from pipelines.errors import RegistryError
from pipelines.ingest.profile import BUILT_IN, FOLDER, built_in, load_profile
from tests.ingest.console_logs import clock, told

PAGE = Path(__file__).parents[2] / "docs" / "sources" / "profiles.md"

LINE = "step 40 of 1,000 done, 1,024 tokens, 2.5 s/step, lr 0.1"
PATTERN = {
    "name": "step",
    "kind": "step",
    "needs": " s/step",
    "expression": r"^step (?P<step>\d+) of .* (?P<duration>[0-9.]+) s/step,",
    "unit": "s",
    "examples": [{"line": LINE, "gives": {"step": 40, "duration": 2500}}],
}


def load(tmp_path, **changes):
    pattern = {k: v for k, v in (PATTERN | changes).items() if v is not None}
    said = {"name": "ours", "mark": [" s/step"], "patterns": [pattern]}
    path = tmp_path / "ours.yaml"
    path.write_text(yaml.safe_dump(said))
    return load_profile(path)


def test_a_profile_of_the_site_comes_first(tmp_path):
    profile = load(tmp_path)
    line = "[{}] step {} of 1,000 done, 1,024 tokens, 2.5 s/step, lr 0.1"
    rows = told(line.format(clock(100), 40), line.format(clock(125), 50), profiles=[profile])
    assert rows == [
        (75, "train_begin", {"step": 30}),
        (100, "step", {"step": 40}),
        (125, "step", {"step": 50}),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expression": r"(?<=step )(?P<step>\d+)"}, "not an expression of RE2: invalid perl operator: (?<=; no look-around"),
        ({"expression": r"(?P<step>(a+)+)\1"}, "not an expression of RE2"),
        ({"expression": r"^step \d+"}, "the kind 'step' needs a group 'step'"),
        ({"expression": r"(?P<steps>\d+)"}, "the group 'steps' means nothing here"),
        ({"kind": "stepp"}, "unknown 'stepp': known are step, start"),
        ({"kind": "phase_begin"}, "needs constants: {phase"),
        ({"constants": {"phase": "chekpoint"}}, "unknown 'chekpoint': known are checkpoint_restore"),
        ({"unit": None}, "unit missing: is the duration in ms, s"),
        ({"examples": []}, "empty: give a real line"),
        ({"needs": "seconds"}, "the line does not hold 'seconds'"),
        ({"examples": [{"line": LINE, "gives": {"step": 41, "duration": 2500}}]}, "gives {'duration': 2500, 'step': 40}, the example says {'duration': 2500, 'step': 41}"),
        ({"examples": [{"line": "40 s/step", "gives": {"step": 41}}]}, "'step' does not fit its own example"),
        ({"expression": r"^step (?P<step>\d+) of .* (?P<duration>[0-9.]+) s/step, lr (?P<samples>[0-9.]+)",
          "examples": [{"line": LINE.replace("0.1", "12"), "gives": {"step": 40, "duration": 2500, "samples": 12}}]},
         "lr 1' it reads {'duration': 2500, 'samples': 1, 'step': 40}: let the expression go on"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_profile_is_said(tmp_path, changes, reason):
    with pytest.raises(RegistryError) as raised:
        load(tmp_path, **changes)
    assert str(tmp_path / "ours.yaml") in str(raised.value)
    assert reason in str(raised.value)


def test_the_packaged_profiles_load_and_each_has_a_step():
    assert [profile.name for profile in built_in()] == list(BUILT_IN)
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(BUILT_IN)


def test_no_expression_can_backtrack(tmp_path):
    """RE2's time is linear in the text: what would take a backtracking engine years takes none."""
    profile = load(
        tmp_path,
        expression=r"^step (?P<step>\d+) of (x+x+)+y|^step (?P<samples>\d+) of .* s/step,",
        unit=None,
        examples=[{"line": LINE, "gives": {"samples": 40}}],
        constants={"step": 1},
    )
    assert profile.patterns[0].read("step 1 of " + "x" * 50_000 + " s/step\n") is None


def test_the_recipe_of_the_page_works(tmp_path):
    """The profile and the log of docs/sources/profiles.md, followed to the letter."""
    blocks = dict(re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL))
    path = tmp_path / "tinytrain.yaml"
    path.write_text(blocks["tinytrain.yaml"])
    rows = told(*blocks["run.log"].splitlines(), profiles=[load_profile(path)])
    table = "".join(f"{s:g} {k} {f.get('step', f.get('phase', ''))}".rstrip() + "\n" for s, k, f in rows)  # fmt: skip
    assert table == blocks["events"]
