"""Composing a recipe: the order of its layers, places of values, and invalid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe_texts import BASE, TINY, composed, refused

from dialog.config.compose import compose, shipped_recipes, split_overrides
from dialog.config.schema import Recipe, to_dict, to_yaml
from dialog.config.yaml_layers import leaves

QUICK = compose("quickstart/transformer").recipe
SOME = [*shipped_recipes()][::4]
"""Of every folder."""
pytestmark = pytest.mark.usefixtures("lab")


# ------------------------------------------------------------------ order of layers


def test_highest_layer_wins() -> None:
    default = Recipe().model.tie_embeddings
    assert composed(BASE).model.tie_embeddings == default  # no group sets it
    assert Recipe().model.dropout != 0.5
    assert composed(BASE).model.dropout == 0.5  # the group
    assert composed(BASE + "model: {dropout: 0.25}\n").model.dropout == 0.25  # the recipe
    # the command line
    assert composed(BASE + "model: {dropout: 0.25}\n", "model.dropout=0.75").model.dropout == 0.75
    assert composed(BASE, "seed=2", "seed=3").seed == 3  # the last override wins


@pytest.mark.parametrize(
    ("recipe", "overrides", "name"),
    [
        (
            "dailydialog/transformer",
            ["data.corpus.name=jsonl", "data.path=my/chats.jsonl.gz"],
            "chats/transformer",
        ),
        (
            "dailydialog/sankar2019/lstm",
            ["data.corpus={name: csv}", "data.path=/x/a b/"],
            "a_b/sankar2019/lstm",
        ),
        ("dailydialog/transformer", ["data.corpus.name=my_lab.Forum"], "Forum/transformer"),
        ("dailydialog/transformer", ["data=builtin"], "builtin/transformer"),
        (
            "dailydialog/transformer",
            ["data=dailydialog", "data.path=elsewhere"],
            "dailydialog/transformer",
        ),
        ("quickstart/transformer", ["data.corpus.size=9"], "quickstart/transformer"),
    ],
)
def test_a_recipe_on_other_data_is_named_after_them(
    recipe: str, overrides: list[str], name: str
) -> None:
    assert compose(recipe, overrides).name == name


def test_swapped_group_replaces_the_section() -> None:
    recipe = composed(
        BASE + "model: {dropout: 0.25, tie_embeddings: false}\nseed: 9\n", "model=transformer"
    )
    alone = composed(BASE.replace("tiny", "transformer"))
    assert recipe.model == alone.model
    assert recipe.seed == 9


def test_own_settings_that_a_swap_drops_are_named(caplog: pytest.LogCaptureFixture) -> None:
    lab = compose("quickstart/transformer", ["model=small/transformer", "seed=3"])
    lab.warn_of_dropped()
    assert "model.dropout=0.0" in lab.dropped
    assert "model.dropout=0.0" in caplog.text
    same = [key for key in lab.dropped if key.startswith(("model.encoder.layers", "seed"))]
    assert same == []
    assert compose("quickstart/transformer", ["model.dropout=0.5"]).dropped == ()


def test_order_of_swaps_and_values_does_not_matter() -> None:
    one = composed(BASE, "model.dropout=0.0", "model=transformer")
    assert one == composed(BASE, "model=transformer", "model.dropout=0.0")
    assert one.model.dropout == 0.0


def test_group_without_default_can_be_chosen() -> None:
    assert composed(BASE, "logger=wandb").logger == {"name": "wandb"}


def test_group_that_is_not_a_section_overrides_the_recipe(lab: Path) -> None:
    (lab / "configs" / "mine").mkdir()
    (lab / "configs" / "mine" / "small.yaml").write_text(
        "model: {dropout: 0.0, encoder: {size: 2}}\nseed: 5\n"
    )
    text = BASE + "model: {dropout: 0.25, encoder: {layers: 3}}\nseed: 9\n"
    recipe = composed(text, "mine=small")
    assert (recipe.model.dropout, recipe.seed) == (0.0, 5)
    assert recipe.model.encoder == {"name": "lstm", "size": 2, "layers": 3}  # and all else stays
    assert recipe == composed(text.replace("builtin,", "builtin, mine: small,"))
    assert composed(text, "seed=6", "mine=small").seed == 6  # the command line wins
    assert compose("my.yaml", ["mine=small"]).origin["seed"] == "configs/mine/small.yaml:2"
    assert "unknown mine 'smal'; did you mean 'small'?" in refused(text, "mine=smal")


def test_component_of_the_same_name_is_merged() -> None:
    assert composed(BASE + "model: {encoder: {size: 16}}\n").model.encoder == {
        "name": "lstm",
        "size": 16,
        "layers": 2,
    }
    named = composed(BASE + "model: {encoder: {name: lstm, size: 16}}\n").model.encoder
    assert named == {"name": "lstm", "size": 16, "layers": 2}
    assert composed(BASE, "model.decoder.attention.size=5").model.decoder["attention"] == {
        "name": "additive",
        "size": 5,
    }


def test_renamed_component_is_configured_from_scratch() -> None:
    text = BASE + "model: {encoder: {name: transformer, heads: 2}}\n"
    assert composed(text).model.encoder == {"name": "transformer", "heads": 2}
    assert composed(BASE, "model.decoder.attention.name=dot").model.decoder["attention"] == {
        "name": "dot"
    }
    assert composed(BASE, "model.encoder={name: conv, width: 3}").model.encoder == {
        "name": "conv",
        "width": 3,
    }
    assert composed(text).model.decoder["size"] == 8  # its neighbour stays


def test_empty_section_changes_nothing() -> None:
    assert composed(BASE + "model: {}\n") == composed(BASE)


def test_key_is_removed() -> None:
    recipe = composed(BASE + "seed: 7\n", "~model.encoder.layers", "~seed")
    assert recipe.model.encoder == {"name": "lstm", "size": 8}
    assert recipe.seed == Recipe().seed
    assert composed(BASE, "~model.dropout", "model.dropout=0.3").model.dropout == 0.3


@pytest.mark.parametrize(
    "override", ["~seeds", "~model.encoder.layer", "~model.dropout.x", "~model.encoder.name.x.y"]
)
def test_missing_key_cannot_be_removed(override: str) -> None:
    assert f"{override}: the recipe does not set {override[1:]!r}" in refused(
        BASE + "seed: 7\n", override
    )


def test_overrides_are_split_at_the_first_equals_sign() -> None:
    assert composed(BASE, "about.summary=a=b=c").about.summary == "a=b=c"


def test_a_folder_with_an_equals_sign_is_no_override() -> None:
    names = ["runs/a[model=lstm]/seed-1", "a[model=lstm]", "gym/copy"]
    overrides = ["search=beam5", "data.path=./chats.csv", "~seed", "a.b='[c=d]'"]
    assert split_overrides([*names, *overrides]) == (names, overrides)


def test_overrides_are_read_as_yaml() -> None:
    recipe = composed(
        BASE, "optimizer.lr=1e-3", "trainer.max_epochs=null", "smoke=[a, b=c]", "about.summary="
    )
    assert recipe.optimizer["lr"] == 0.001
    assert recipe.trainer.max_epochs is None
    assert recipe.smoke == ["a", "b=c"]
    assert recipe.about.summary == ""


@pytest.mark.parametrize("override", ["foo", "=3", "=", "", "~", "~seed=3", "~=3"])
def test_invalid_override_form(override: str) -> None:
    assert "must be key=value or ~key" in refused(BASE, override)


@pytest.mark.parametrize(
    "override", ["smoke=[a", "about.summary=a: b", "seed=1\nfoo: 2", "about=" + "[" * 50_000]
)
def test_override_that_is_not_yaml(override: str) -> None:
    assert f"override {override[:100]!r}"[:-1] in refused(BASE, override)


# ------------------------------------------------------------------ places of values


def test_place_of_every_value() -> None:
    text = BASE + "seed: 4\nmodel:\n  encoder:\n    size: 16\n"
    Path("my.yaml").write_text(text, encoding="utf-8")
    origin = compose(
        "my.yaml", ["model.decoder.size=9", "model.decoder.attention={name: dot}"]
    ).origin
    assert origin["seed"] == "my.yaml:2"
    assert origin["model.encoder.size"] == "my.yaml:5"
    assert origin["model.encoder.layers"] == "configs/model/tiny.yaml:2"
    assert origin["model.dropout"] == "configs/model/tiny.yaml:7"
    assert origin["model.decoder.size"] == "command line"
    assert origin["model.decoder.attention.name"] == "command line"
    assert "model.decoder.attention.size" not in origin
    assert "trainer.max_epochs" not in origin  # a default of the schema


def test_removed_key_has_no_place() -> None:
    Path("my.yaml").write_text(BASE + "seed: 4\n", encoding="utf-8")
    assert "seed" not in compose("my.yaml", ["~seed"]).origin


def test_places_and_values_correspond() -> None:
    for name in SOME:
        made = compose(name, ["model.dropout=0.3"])
        keys = dict(leaves(to_dict(made.recipe)))
        assert set(made.origin) <= set(keys)
        assert all(
            place == "command line" or place.rpartition(":")[2].isdigit()
            for place in made.origin.values()
        )
        default = dict(
            leaves(
                to_dict(
                    replace(Recipe(), data=made.recipe.data, model=made.recipe.model, optimizer={})
                )
            )
        )
        set_by_none = {key: value for key, value in keys.items() if key not in made.origin}
        assert all(default[key] == value for key, value in set_by_none.items())


def test_line_is_the_line_in_the_file() -> None:
    made = compose("quickstart/transformer")
    key, place = next(
        (key, place) for key, place in made.origin.items() if key == "trainer.max_epochs"
    )
    path, _, line = place.rpartition(":")
    assert (
        key.rpartition(".")[2] in Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1]
    )


# ------------------------------------------------------------------ files


def test_recipe_anywhere_uses_shipped_and_local_groups(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    (folder / "x.yaml").write_text(BASE, encoding="utf-8")
    made = compose(str(folder / "x.yaml"))
    assert made.name == "x"
    assert made.recipe.model.embedding_size == 8
    assert made.recipe.data == compose("quickstart/transformer").recipe.data


def test_nearest_group_wins(tmp_path: Path) -> None:
    folder = tmp_path / "near"
    (folder / "configs" / "model").mkdir(parents=True)
    (folder / "configs" / "model" / "tiny.yaml").write_text(
        TINY.replace("0.5", "0.125"), encoding="utf-8"
    )
    (folder / "x.yaml").write_text(BASE, encoding="utf-8")
    assert compose("near/x.yaml").recipe.model.dropout == 0.125
    assert composed(BASE).model.dropout == 0.5


def test_byte_order_mark_and_crlf() -> None:
    Path("my.yaml").write_bytes(
        b"\xef\xbb\xbf" + (BASE + "seed: 7\n").replace("\n", "\r\n").encode()
    )
    made = compose("my.yaml")
    assert made.recipe.seed == 7
    assert made.origin["seed"] == "my.yaml:2"


def test_merge_keys_and_anchors_are_read() -> None:
    recipe = composed(BASE + "about: &about {summary: twice}\nexpect: [{<<: *about}]\n")
    assert recipe.expect == [{"summary": "twice"}]


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize("name", SOME)
def test_written_recipe_is_the_same_recipe(name: str) -> None:
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
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=20)
@given(values=st.lists(VALUES, max_size=6), text=TRAPS | TEXTS)
def test_any_value_of_a_component_survives_writing(values: list[object], text: str) -> None:
    recipe = replace(
        QUICK, optimizer={"name": "x", "values": values}, about=replace(QUICK.about, summary=text)
    )
    Path("again.yaml").write_text(to_yaml(recipe), encoding="utf-8", newline="")
    again = compose("again.yaml").recipe
    assert again == recipe
    assert repr(again) == repr(recipe)  # True is not 1
