import re

import pytest

from pipelines.errors import RegistryError
from pipelines.registry import load_registry
from pipelines.taxonomy import DEFAULT, Area


def load(tmp_path, text):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    return load_registry(path)


def test_an_empty_file_is_the_built_in_taxonomy(tmp_path):
    assert load(tmp_path, "") == DEFAULT
    assert load(tmp_path, "# nothing\ncomponents:\n") == DEFAULT


def test_the_example_of_the_documentation_loads(tmp_path, request):
    page = (request.config.rootpath / "docs/registry.md").read_text()
    site = load(tmp_path, re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    assert (site.currency, dict(site.prices)) == ("EUR", {"default": 2.1, "h100-west": 2.8})
    assert site["checkpoint_save"].owner == site["checkpoint_restore"].owner == "storage-platform"
    assert site["evaluation"].owner == "ranking-science"
    child, grandchild = site["checkpoint_save.serialize"], site["checkpoint_save.serialize.pin"]
    assert (child.owner, child.area) == ("storage-platform", Area.WASTED_TRAINING)
    assert child.colour == site["checkpoint_save"].colour
    assert (grandchild.owner, grandchild.colour) == ("kernel-team", "#4B3F72")
    assert grandchild.parent == "checkpoint_save.serialize"
    assert {child.key, grandchild.key} < site.phases
    assert site.model_owners == {("llama31_405b", "evaluation"): "language-quality"}


def test_the_messages_of_the_documentation_are_those_that_are_said(tmp_path, request):
    page = (request.config.rootpath / "docs/registry.md").read_text()
    shown = re.findall(r"^site\.yaml: (.*)$", page, re.MULTILINE)
    wrong = [
        "components: {chekpoint_save.serialize: {label: a, definition: b}}",
        "owners: {checkpoints: x}",
        "prices: {h100-west: '2,80'}",
    ]
    for text, message in zip(wrong, shown, strict=True):
        with pytest.raises(RegistryError, match=re.escape(message)):
            load(tmp_path, text)


CHILD = "label: a, definition: b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("owner: {}", "unknown key 'owner': did you mean 'owners'?"),
        ("[1]", "expected a mapping (key: value), found [1]"),
        ("components: {compile.x: 5}", "components.compile.x: expected a mapping"),
        ("components: {compile.x: {label: a}}", "components.compile.x: definition missing: a component needs label and definition"),
        (f"components: {{compile.x: {{{CHILD}, color: red}}}}", "unknown key 'color': did you mean 'colour'?"),
        (f"components: {{compile.x: {{{CHILD}, colour: red}}}}", "components.compile.x.colour: expected #RRGGBB, found 'red'"),
        (f"components: {{compile.x: {{{CHILD}, owner: 5}}}}", "components.compile.x.owner: expected a text, found 5"),
        (f"components: {{compile: {{{CHILD}}}}}", "components.compile: exists already"),
        (f"components: {{gpu_wait: {{{CHILD}}}}}", "components.gpu_wait: a site adds children only, as parent.child in lower case"),
        (f"components: {{compile.X: {{{CHILD}}}}}", "as parent.child in lower case"),
        (f"components: {{effective_training.fast: {{{CHILD}}}}}", "'effective_training' is given by the accounting only"),
        (f"components: {{compile.x.y: {{{CHILD}}}}}", "unknown parent 'compile.x': did you mean 'compile'?"),
        ("owners: {compiler: ''}", "owners.compiler: expected a text, found ''"),
        ("model_owners: {m: {evalution: x}}", "model_owners.m: unknown key 'evalution': did you mean 'evaluation'?"),
        ("model_owners: {m: {effective_training: x}}", "model_owners.m: unknown key 'effective_training'"),
        ("model_owners: {405: {evaluation: x}}", "the key 405 is no text: put it in quotes"),
        ("prices: {default: -1}", "prices.default: expected the price of one GPU-hour, 0 or more, found -1"),
        ("prices: {default: .nan}", "prices.default: expected the price"),
        ("prices: {default: true}", "prices.default: expected the price"),
        ("currency: euro", "currency: expected a code of ISO 4217 such as EUR, found 'euro'"),
        ("prices: {a: 1}\nprices: {a: 2}", "the key 'prices' stands twice"),
        ("prices: [", "not valid YAML"),
        ("prices: {default: 1" + 400 * "0" + "}", "prices.default: expected the price"),
        ("prices: {default: 0x1" + 5000 * "0" + "}", "found a number too long to show"),
        ("currency: 2001-99-99", "not valid YAML: month must be in 1..12"),
        ('currency: !!int ""', "not valid YAML"),
        ("owners: " + 2000 * "[" + 2000 * "]", "not valid YAML: nested too deeply"),
    ],
)  # fmt: skip
def test_every_error_names_the_place_what_is_known_and_the_fix(tmp_path, text, message):
    with pytest.raises(RegistryError) as error:
        load(tmp_path, text)
    assert str(tmp_path / "site.yaml") in str(error.value)
    assert message in str(error.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(RegistryError, match=r"cannot read the registry .*gone.yaml: No such file"):
        load_registry(tmp_path / "gone.yaml")


def test_an_error_is_one_line_however_large_the_value(tmp_path):
    levels = "".join(f"  - &l{n} [{', '.join(9 * [f'*l{n - 1}'])}]\n" for n in range(1, 9))
    for text in (f"owners:\n  - &l0 [x, x]\n{levels}", "a: 1\n---\nb: 2", "a:\tb\n\tc: d"):
        with pytest.raises(RegistryError) as error:
            load(tmp_path, text)
        assert len(str(error.value)) < 1000
        assert "\n" not in str(error.value)
