"""Composing a recipe: the order of its layers, where values come from, and what is refused."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.config.compose import asset_folders, compose, group_files, shipped_recipes
from dialog.config.schema import MINIMUM, NONZERO, SECTIONS, Recipe, TrainerConfig, to_dict, to_yaml
from dialog.config.yaml_layers import leaves
from dialog.errors import UserError

BASE = "defaults: {data: builtin, model: tiny, optimizer: adamw_plateau}\n"
TINY = """embedding_size: 8
encoder: {name: lstm, size: 8, layers: 2}
decoder:
  name: lstm
  size: 8
  attention: {name: additive, size: 4}
dropout: 0.5
"""
QUICK = compose("quickstart/transformer").recipe
RECIPES = sorted(path for root in asset_folders("recipes") for path in root.rglob("*.yaml"))


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's with a group choice of their own, in which we stand."""
    (tmp_path / "configs" / "model").mkdir(parents=True)
    (tmp_path / "configs" / "model" / "tiny.yaml").write_text(TINY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def composed(text: str, *overrides: str) -> Recipe:
    Path("my.yaml").write_text(text, encoding="utf-8")
    return compose("my.yaml", overrides).recipe


def refused(text: str | bytes, *overrides: str) -> str:
    Path("my.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        compose("my.yaml", overrides)
    return str(caught.value)


# ------------------------------------------------------------------ the order of layers


def test_a_value_comes_from_the_highest_layer_that_sets_it() -> None:
    frame = Recipe().model.tie_embeddings
    assert composed(BASE).model.tie_embeddings == frame  # no group sets it
    assert Recipe().model.dropout != 0.5
    assert composed(BASE).model.dropout == 0.5  # the group
    assert composed(BASE + "model: {dropout: 0.25}\n").model.dropout == 0.25  # the recipe
    assert composed(BASE + "model: {dropout: 0.25}\n", "model.dropout=0.75").model.dropout == 0.75  # the command line
    assert composed(BASE, "seed=2", "seed=3").seed == 3  # the last word


def test_a_swapped_group_replaces_all_that_the_recipe_says_of_it() -> None:
    recipe = composed(BASE + "model: {dropout: 0.25, tie_embeddings: false}\nseed: 9\n", "model=transformer")
    alone = composed(BASE.replace("tiny", "transformer"))
    assert recipe.model == alone.model
    assert recipe.seed == 9


def test_a_swap_holds_wherever_it_stands_among_the_overrides() -> None:
    one = composed(BASE, "model.dropout=0.0", "model=transformer")
    assert one == composed(BASE, "model=transformer", "model.dropout=0.0")
    assert one.model.dropout == 0.0


def test_a_group_that_the_recipe_does_not_name_can_be_chosen() -> None:
    assert composed(BASE, "logger=wandb").logger == {"name": "wandb"}


def test_a_group_that_is_no_section_is_laid_over_the_recipe(lab: Path) -> None:
    (lab / "configs" / "mine").mkdir()
    (lab / "configs" / "mine" / "small.yaml").write_text("model: {dropout: 0.0, encoder: {size: 2}}\nseed: 5\n")
    text = BASE + "model: {dropout: 0.25, encoder: {layers: 3}}\nseed: 9\n"
    recipe = composed(text, "mine=small")
    assert (recipe.model.dropout, recipe.seed) == (0.0, 5)
    assert recipe.model.encoder == {"name": "lstm", "size": 2, "layers": 3}  # and all else stays
    assert recipe == composed(text.replace("builtin,", "builtin, mine: small,"))
    assert composed(text, "seed=6", "mine=small").seed == 6  # the command line has the last word
    assert compose("my.yaml", ["mine=small"]).origin["seed"] == "configs/mine/small.yaml:2"
    assert "unknown mine 'smal'; did you mean 'small'?" in refused(text, "mine=smal")


def test_a_component_of_the_same_name_is_merged() -> None:
    assert composed(BASE + "model: {encoder: {size: 16}}\n").model.encoder == {"name": "lstm", "size": 16, "layers": 2}
    named = composed(BASE + "model: {encoder: {name: lstm, size: 16}}\n").model.encoder
    assert named == {"name": "lstm", "size": 16, "layers": 2}
    assert composed(BASE, "model.decoder.attention.size=5").model.decoder["attention"] == {
        "name": "additive",
        "size": 5,
    }


def test_a_renamed_component_starts_afresh() -> None:
    text = BASE + "model: {encoder: {name: transformer, heads: 2}}\n"
    assert composed(text).model.encoder == {"name": "transformer", "heads": 2}
    assert composed(BASE, "model.decoder.attention.name=dot").model.decoder["attention"] == {"name": "dot"}
    assert composed(BASE, "model.encoder={name: conv, width: 3}").model.encoder == {"name": "conv", "width": 3}
    assert composed(text).model.decoder["size"] == 8  # its neighbour stays


def test_an_empty_section_changes_nothing() -> None:
    assert composed(BASE + "model: {}\n") == composed(BASE)


def test_a_key_is_taken_out() -> None:
    recipe = composed(BASE + "seed: 7\n", "~model.encoder.layers", "~seed")
    assert recipe.model.encoder == {"name": "lstm", "size": 8}
    assert recipe.seed == Recipe().seed
    assert composed(BASE, "~model.dropout", "model.dropout=0.3").model.dropout == 0.3


@pytest.mark.parametrize("override", ["~seeds", "~model.encoder.layer", "~model.dropout.x", "~model.encoder.name.x.y"])
def test_a_key_that_is_not_there_cannot_be_taken_out(override: str) -> None:
    assert f"{override}: the recipe does not set {override[1:]!r}" in refused(BASE + "seed: 7\n", override)


def test_overrides_are_split_at_the_first_equals_sign() -> None:
    assert composed(BASE, "about.summary=a=b=c").about.summary == "a=b=c"


def test_overrides_are_read_as_yaml() -> None:
    recipe = composed(BASE, "optimizer.lr=1e-3", "trainer.max_epochs=null", "smoke=[a, b=c]", "about.summary=")
    assert recipe.optimizer["lr"] == 0.001
    assert recipe.trainer.max_epochs is None
    assert recipe.smoke == ["a", "b=c"]
    assert recipe.about.summary == ""


@pytest.mark.parametrize("override", ["foo", "=3", "=", "", "~", "~seed=3", "~=3"])
def test_what_is_no_override_is_refused(override: str) -> None:
    assert "must be key=value or ~key" in refused(BASE, override)


@pytest.mark.parametrize("override", ["smoke=[a", "about.summary=a: b", "seed=1\nfoo: 2", "about=" + "[" * 50_000])
def test_a_value_that_is_no_yaml_is_refused(override: str) -> None:
    assert f"override {override!r}: " in refused(BASE, override)


# ------------------------------------------------------------------ where values come from


def test_the_place_of_each_value() -> None:
    text = BASE + "seed: 4\nmodel:\n  encoder:\n    size: 16\n"
    Path("my.yaml").write_text(text, encoding="utf-8")
    origin = compose("my.yaml", ["model.decoder.size=9", "model.decoder.attention={name: dot}"]).origin
    assert origin["seed"] == "my.yaml:2"
    assert origin["model.encoder.size"] == "my.yaml:5"
    assert origin["model.encoder.layers"] == "configs/model/tiny.yaml:2"
    assert origin["model.dropout"] == "configs/model/tiny.yaml:7"
    assert origin["model.decoder.size"] == "command line"
    assert origin["model.decoder.attention.name"] == "command line"
    assert "model.decoder.attention.size" not in origin
    assert "trainer.max_epochs" not in origin  # a default of the frame


def test_what_is_taken_out_has_no_place() -> None:
    Path("my.yaml").write_text(BASE + "seed: 4\n", encoding="utf-8")
    assert "seed" not in compose("my.yaml", ["~seed"]).origin


def test_each_place_is_of_a_value_and_each_value_has_one() -> None:
    for name in shipped_recipes():
        made = compose(name, ["model.dropout=0.3"])
        keys = dict(leaves(to_dict(made.recipe)))
        assert set(made.origin) <= set(keys)
        assert all(place == "command line" or place.rpartition(":")[2].isdigit() for place in made.origin.values())
        default = dict(leaves(to_dict(replace(Recipe(), data=made.recipe.data, model=made.recipe.model, optimizer={}))))
        set_by_none = {key: value for key, value in keys.items() if key not in made.origin}
        assert all(default[key] == value for key, value in set_by_none.items())


def test_lines_are_those_of_the_file() -> None:
    made = compose("quickstart/transformer")
    key, place = next((key, place) for key, place in made.origin.items() if key == "trainer.max_epochs")
    path, _, line = place.rpartition(":")
    assert key.rpartition(".")[2] in Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1]


# ------------------------------------------------------------------ files


def test_a_recipe_at_any_path_uses_shipped_groups_and_those_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    (folder / "x.yaml").write_text(BASE, encoding="utf-8")
    made = compose(str(folder / "x.yaml"))
    assert made.name == "x"
    assert made.recipe.model.embedding_size == 8
    assert made.recipe.data == compose("quickstart/transformer").recipe.data


def test_the_nearest_group_wins(tmp_path: Path) -> None:
    folder = tmp_path / "near"
    (folder / "configs" / "model").mkdir(parents=True)
    (folder / "configs" / "model" / "tiny.yaml").write_text(TINY.replace("0.5", "0.125"), encoding="utf-8")
    (folder / "x.yaml").write_text(BASE, encoding="utf-8")
    assert compose("near/x.yaml").recipe.model.dropout == 0.125
    assert composed(BASE).model.dropout == 0.5


def test_a_byte_order_mark_and_other_line_ends_are_read() -> None:
    Path("my.yaml").write_bytes(b"\xef\xbb\xbf" + (BASE + "seed: 7\n").replace("\n", "\r\n").encode())
    made = compose("my.yaml")
    assert made.recipe.seed == 7
    assert made.origin["seed"] == "my.yaml:2"


def test_merge_keys_and_anchors_are_read() -> None:
    recipe = composed(BASE + "about: &about {summary: twice}\nexpect: [{<<: *about}]\n")
    assert recipe.expect == [{"summary": "twice"}]


# ------------------------------------------------------------------ what is refused


def bomb(first: str, wrap: str) -> str:
    """Nine levels of nine aliases each."""
    lines = [f"a: &a {first}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        inner = ", ".join(f"k{place}: *{before}" if wrap == "{}" else f"*{before}" for place in range(9))
        lines.append(f"{name}: &{name} {wrap[0]}{inner}{wrap[1]}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "my.yaml:1: must be a mapping"),
        ("hello\n", "my.yaml:1: must be a mapping"),
        ("", "my.yaml: the recipe must set data.corpus, data.tokenizer, model.decoder"),
        ("# nothing\n", "my.yaml: the recipe must set "),
        (BASE + "a: [1\n", "my.yaml:3: did not find expected"),
        (BASE + "a:\n\t- 1\n", "my.yaml:3: "),
        (BASE + "seed: 1\nseed: 2\n", "my.yaml:3: found duplicate key seed"),
        (BASE + "trainer:\n  max_epochs: 1\n  max_epochs: 2\n", "my.yaml:4: found duplicate key max_epochs"),
        (BASE.encode() + b"seed: 1\nabout: {summary: \xff}\n", "my.yaml:3: byte "),
        (BASE + "about: {summary: \x01}\n", "my.yaml: unacceptable character"),
        (BASE + "about: !!python/object/apply:os.getcwd []\n", "my.yaml:2: could not determine a constructor"),
        (BASE + "---\nseed: 1\n", "my.yaml:2: "),
        (BASE + "? [a]\n: b\n", "my.yaml:2: "),
        (BASE + "~: 2\n", "my.yaml: "),
        (BASE + "sed: 3\n", "my.yaml:2: sed: unknown key; did you mean 'seed'?"),
        (
            BASE + "trainer:\n  max_epoch: 3\n",
            "my.yaml:3: trainer.max_epoch: unknown key; did you mean 'max_epochs'",
        ),
        (BASE + "trainr:\n  max_epochs: 3\n", "my.yaml:3: trainr: unknown key; did you mean 'trainer'?"),
        (BASE + "1: 2\n", "my.yaml:2: 1: unknown key; choose from about, seed"),
        (BASE + "seed: many\n", "my.yaml:2: seed: Value 'many'"),
        (BASE + "seed: 1.5\n", "my.yaml:2: seed: "),
        (BASE + "seed: true\n", "my.yaml:2: seed: "),
        (BASE + "seed:\n", "my.yaml:2: seed: "),
        (BASE + "trainer:\n  limit_train_batches: many\n", "my.yaml:3: trainer.limit_train_batches: Value 'many'"),
        (BASE + "trainer: 5\n", "my.yaml:2: trainer: "),
        (BASE + "smoke: 5\n", "my.yaml:2: smoke: "),
        (BASE + "expect: [3]\n", "my.yaml:2: expect: "),
        (BASE + "model:\n  encoder: lstm\n", "my.yaml:3: model.encoder: "),
        (BASE + "model:\n  encoder:\n", "my.yaml:3: model.encoder: "),
        (BASE + "model:\n  encoder: [lstm]\n", "my.yaml:3: model.encoder: "),
        (BASE + "model: {encoder: {size: '???'}}\n", "my.yaml: the recipe must set model.encoder.size"),
        ("defaults: [data]\n", "my.yaml:1: defaults must be a mapping"),
        ("defaults:\n", "my.yaml:1: defaults must be a mapping"),
        ("defaults: {dta: builtin}\n", "my.yaml:1: unknown group 'dta'; did you mean 'data'?"),
        ("defaults:\n  data: bultin\n", "my.yaml:2: unknown data 'bultin'; did you mean 'builtin'?"),
        ("defaults: {data: ../../x}\n", "my.yaml:1: unknown data '../../x'; choose from "),
        (BASE + "about: {summary: '${oc.env:HOME}'}\n", "my.yaml:2: about.summary: interpolations"),
        (BASE + "smoke:\n- ${oc.env:HOME}\n", "my.yaml:2: smoke: interpolations"),
        (BASE + "expect: [{metric: '${seed}'}]\n", "my.yaml:2: expect: interpolations"),
        (BASE + "about: &a {summary: *a}\n", "my.yaml:2: "),
        (BASE + bomb("[x, x, x]", "[]"), "YAML node expansion exceeds"),
        (BASE + bomb("{x: 1}", "{}"), "YAML node expansion exceeds"),
        (BASE + "about: " + "[" * 50_000, "my.yaml:2: nested more than 32 levels deep"),
        (BASE + "about: " + "{a: " * 5_000 + "1" + "}" * 5_000, "my.yaml:2: nested more than 32 levels deep"),
    ],
    ids=range(43),
)
def test_a_broken_recipe_is_refused_with_its_place(text: str | bytes, message: str) -> None:
    found = refused(text)
    assert message in found
    assert "my.yaml" in found
    assert "\n" not in found


@pytest.mark.parametrize("key", [*MINIMUM, *NONZERO])
def test_numbers_that_mean_nothing_are_refused(key: str) -> None:
    value = MINIMUM.get(key, 1) - 1
    assert refused(BASE, f"{key}={value}").startswith(f"command line: {key}: must ")
    composed(BASE, f"{key}={MINIMUM.get(key, 1)}")
    section, name = key.split(".")
    assert refused(BASE + f"{section}:\n  {name}: {value}\n").startswith("my.yaml:3: ")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.max_epoch=3", "command line: trainer.max_epoch: unknown key; did you mean 'max_epochs'?"),
        ("modle=transformer", "command line: modle: unknown key; did you mean 'model'?"),
        ("a..b=3", "command line: a: unknown key"),
        ("/etc=3", "command line: /etc: unknown key"),
        ("a" * 300 + "=3", "command line: aaa"),
        ("seed=many", "command line: seed: Value 'many'"),
        ("seed.x=3", "command line: seed.x: "),
        ("model.encoder=lstm", "command line: model.encoder: "),
        ("data=bultin", "command line: unknown data 'bultin'; did you mean 'builtin'?"),
        ("data=" + "a" * 300, "command line: unknown data 'aaa"),
        ("defaults.data=dailydialog", "command line: defaults: unknown key"),
        ("about.summary=${oc.env:HOME}", "override 'about.summary=${oc.env:HOME}': interpolations"),
        ("smoke=['${oc.env:HOME}']", "interpolations"),
        ("model.encoder={name: lstm, size: '${seed}'}", "interpolations"),
    ],
)
def test_a_broken_override_is_refused_with_its_key(override: str, message: str) -> None:
    assert message in refused(BASE, override)


def test_a_group_of_the_users_is_refused_with_its_place() -> None:
    Path("configs/model/tiny.yaml").write_text(TINY + "drop_out: 1\n", encoding="utf-8")
    assert refused(BASE).startswith("configs/model/tiny.yaml:8: model.drop_out: unknown key; did you mean 'dropout'")
    Path("configs/model/tiny.yaml").write_text("- a\n", encoding="utf-8")
    assert refused(BASE) == "configs/model/tiny.yaml:1: must be a mapping of keys to values"


def test_an_unknown_recipe_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown recipe 'quickstart/transfomer'; did you mean 'quick"):
        compose("quickstart/transfomer")
    with pytest.raises(UserError, match=r"recipe file nowhere\.yaml does not exist"):
        compose("nowhere.yaml")
    with pytest.raises(UserError, match="unknown recipe"):
        compose("configs")


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_recipe_that_is_written_is_the_same_recipe(name: str) -> None:
    made = compose(name)
    Path("again.yaml").write_text(made.yaml(), encoding="utf-8")
    again = compose("again.yaml")
    assert again.recipe == made.recipe
    assert again.yaml() == made.yaml()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="$?"), max_size=8)
TRAPS = st.sampled_from([
    "1e3", "0x1f", "012", "1_0", "yes", "off", "null", "~", "", " a ", "12:30:00", "2020-01-01", "=", "<<", "a: b",
    "# a", "a\nb", "- a", "!x", "&x", "*x", "%", "@", "é", "👋", ".inf", "nan", "'", '"', "{", "[", "|", ">", "\t",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TRAPS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40)
@given(values=st.lists(VALUES, max_size=6), text=TRAPS | TEXTS)
def test_any_value_of_a_component_survives_writing(values: list[object], text: str) -> None:
    recipe = replace(QUICK, optimizer={"name": "x", "values": values}, about=replace(QUICK.about, summary=text))
    Path("again.yaml").write_text(to_yaml(recipe), encoding="utf-8", newline="")
    again = compose("again.yaml").recipe
    assert again == recipe
    assert repr(again) == repr(recipe)  # True is not 1


# ------------------------------------------------------------------ what ships


def test_recipes_and_groups_ship() -> None:
    assert len(RECIPES) == len(shipped_recipes()) > 0
    assert {"data", "model", "optimizer", "trainer", "logger"} <= set(group_files(RECIPES[0]))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_shipped_recipe_is_short_and_says_what_it_is(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").split("\n")) <= 31
    recipe = compose(str(path)).recipe
    assert recipe.about.summary
    assert recipe.smoke
    compose(str(path), recipe.smoke)


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_has_as_many_parameters_as_it_says(name: str) -> None:
    import torch

    from dialog.build import build_model
    from dialog.data.store.manifest import read_manifest
    from dialog.runs.prepare import prepare_data

    recipe = compose(name).recipe
    vocabulary = recipe.data.tokenizer["vocabulary"]
    if recipe.data.corpus["name"] in ("builtin", "synthetic"):  # has fewer tokens than it may
        vocabulary = read_manifest(prepare_data(recipe))["vocabulary"]
    with torch.device("meta"):
        model = build_model(recipe.model, vocabulary)
    assert recipe.about.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("group", "choice"), [(group, choice) for group, choices in group_files(RECIPES[0]).items() for choice in choices]
)
def test_each_choice_of_each_group_fits_the_frame(group: str, choice: str) -> None:
    made = compose("quickstart/transformer", [f"{group}={choice}"])
    places = [place for key, place in made.origin.items() if group not in SECTIONS or key.startswith(group)]
    assert [place for place in places if f"{choice}.yaml:" in place]


def test_the_trainers_fields_are_lightnings() -> None:
    from lightning.pytorch import Trainer as LightningTrainer

    theirs = inspect.signature(LightningTrainer).parameters
    assert [field.name for field in fields(TrainerConfig) if field.name not in theirs] == []


@pytest.mark.parametrize("override", ["model.objectives={name: denoising}", "model.objectives.0.weight=2"])
def test_a_mapping_where_a_list_belongs_is_the_users_to_mend(override: str) -> None:
    with pytest.raises(UserError, match=r"command line: model\.objectives"):
        compose("quickstart/transformer", [override])
