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
        ({"expression": r"(?<=step )(?P<step>\d+)"}, "entry 1 ('step').expression: not an expression of RE2: invalid perl operator: (?<=; it has no look-around"),
        ({"expression": r"(?P<step>(a+)+)\1"}, r"invalid escape sequence: \1; it has no back references"),
        ({"expression": r"(?P<step>\d+"}, "entry 1 ('step').expression: not an expression of RE2: missing ): (?P<step>"),
        ({"expression": r"^step \d+"}, "the kind 'step' needs a group 'step'"),
        ({"expression": r"(?P<steps>\d+)"}, "the group 'steps' means nothing for the kind 'step', which takes batch, clock,"),
        ({"kind": "stepp"}, "entry 1 ('step').kind: unknown 'stepp': did you mean 'step'?"),
        ({"kind": "restored"}, "'duration' means nothing for the kind 'restored', which takes batch, clock, samples, step"),
        ({"kind": "fact"}, "means nothing for the kind 'fact', which takes clock, gpus, interval, total, and a field of your own"),
        ({"kind": "phase", "expression": r" (?P<duration>[0-9.]+) s/step,"}, "needs constants: {phase"),
        ({"constants": {"phase": "chekpoint"}}, "unknown 'chekpoint': did you mean 'checkpoint_save'?"),
        ({"constants": {"outcome": "success"}}, "unknown 'success': did you mean 'succeeded'?"),
        ({"unit": None}, "unit missing: is the duration in ms, s"),
        ({"examples": []}, "empty: give a real line"),
        ({"needs": "seconds"}, "the line does not hold 'seconds'"),
        ({"expression": r"^\S+ step (?P<step>\d+) of", "unit": None,
          "examples": [{"line": f"\x1b[31m2026-03-01T00:00:09Z {LINE}", "gives": {"step": 40}}]},
         f"'step' does not fit its own example; what is left of it without colours, prefix and clock is '{LINE}'"),
        ({"expression": r"^step (?P<step>\d+) of .* (?P<samples>\S+) s/step,", "examples": [{"line": LINE, "gives": {"step": 40}}]},
         "the group 'samples' holds '2.5', which is no whole number"),
        ({"examples": [{"line": LINE, "gives": {"step": 40, "duration": 2.5}}]}, "the example says {'duration': 2.5, 'step': 40}; `gives` has durations in ms"),
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


def test_an_escape_in_double_quotes_is_explained(tmp_path):
    path = tmp_path / "ours.yaml"
    path.write_text(r'name: "^step \d+"')
    with pytest.raises(RegistryError, match=r"unknown escape character.*use single quotes"):
        load_profile(path)


def of_kind(kind, needs, expression, line, gives, **more):
    return {"name": kind, "kind": kind, "needs": needs, "expression": expression,
            "examples": [{"line": line, "gives": gives}], **more}  # fmt: skip


def ours(tmp_path, *patterns):
    """A trainer of two steps a line, whose other lines are read as `patterns` say."""
    line = "step 40 seen 400, 2.5 s/step, lr"
    step = of_kind("step", " s/step, lr", r"^step (?P<step>\d+) seen (?P<samples>\d+), (?P<duration>[0-9.]+) s/step,",
                   line, {"step": 40, "samples": 400, "duration": 2500}, unit="s")  # fmt: skip
    path = tmp_path / "ours.yaml"
    said = {"name": "ours", "mark": [" s/step, lr"], "patterns": [step, *patterns]}
    path.write_text(yaml.safe_dump(said))
    return [load_profile(path)]


def loop(step, second, *, samples, each=2.5):
    return f"[{clock(second)}] step {step} seen {samples}, {each} s/step, lr"


@pytest.mark.parametrize("kind", ["restored", "train_begin"])
@pytest.mark.parametrize(
    ("groups", "said", "samples"),
    [("seen (?P<samples>\\d+) ", {"samples": 300}, 300), ("", {}, None), (".* of (?P<batch>\\d+) ", {"batch": 12}, 280)],
)  # fmt: skip
def test_an_entry_takes_the_samples_that_are_said_of_it(tmp_path, kind, groups, said, samples):
    at_entry = of_kind(kind, "from step ", rf"^from step (?P<step>\d+) {groups}",
                       "from step 30 seen 300 of 12 ", {"step": 30, **said})  # fmt: skip
    lines = [f"[{clock(50)}] from step 30 seen 300 of 12 .", loop(40, 100, samples=400)]
    rows = told(*lines, profiles=ours(tmp_path, at_entry))
    found = [f["samples"] for _, k, f in rows if k == "train_begin"]
    assert found == ([] if samples is None else [samples])


def test_a_rank_in_a_line_is_that_of_its_event(tmp_path):
    died = of_kind("interruption", "FATAL", r"^FATAL in rank (?P<rank>\d+): ", "FATAL in rank 17: x", {"rank": 17})  # fmt: skip
    rows = told(loop(40, 90, samples=400), f"[{clock(95)}] FATAL in rank 17: a bus",
                profiles=ours(tmp_path, died))  # fmt: skip
    assert rows[-1] == (95, "interruption", {"rank": 17})


START = of_kind("start", "hello", r"^hello\s*\n", "hello", {})
STAGE = of_kind("stage", "built", r"^built\s*\n", "built", {})
RESTORED = of_kind(
    "restored", "from step ", r"^from step (?P<step>\d+)\s*\n", "from step 30", {"step": 30}
)
LOAD = of_kind("phase", "load", r"^load (?P<duration>\d+) s", "load 9 s", {"duration": 9000}, unit="s",
               constants={"phase": "checkpoint_restore"})  # fmt: skip
SAVE = of_kind("phase", "save", r"^save (?P<duration>\d+) s", "save 9 s", {"duration": 9000}, unit="s",
               constants={"phase": "checkpoint_save"})  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "entry"),
    [
        ([(50, "anything")], 75),
        ([(80, "anything")], 80),
        ([(60, "anything"), (80, "anything")], 75),
        ([(50, "hello"), (80, "built")], 80),
        ([(50, "hello"), (80, "from step 30")], 80),
        ([(50, "hello"), (81, "load 9 s")], 81),
        ([(50, "hello"), (81, "save 9 s")], 75),
        ([], 75),
    ],
)  # fmt: skip
def test_an_inferred_entry_is_after_the_start_up(tmp_path, lines, entry):
    """Ten steps of 2.5 s end at 100 s. A save may lie among them, a start-up may not.

    Where the file begins with the step itself, nothing says that the ten did not precede it.
    """
    profiles = ours(tmp_path, START, STAGE, RESTORED, LOAD, SAVE)
    steps = [loop(40, 100, samples=400), loop(50, 125, samples=500)]
    rows = told(*(f"[{clock(s)}] {text}" for s, text in lines), *steps, profiles=profiles)
    assert [s for s, k, _ in rows if k == "train_begin"] == [entry]
    assert min(s for s, _, _ in rows) >= min([entry, *(s for s, _ in lines)])


def test_a_way_back_begins_after_the_step_before_it(tmp_path):
    lines = [loop(40, 100, samples=400), loop(50, 125, samples=500), loop(40, 130, samples=400)]
    rows = told(*lines, loop(50, 155, samples=500), profiles=ours(tmp_path))
    assert [(s, f["step"]) for s, k, f in rows if k == "train_begin"] == [(75, 30), (125, 30)]


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
