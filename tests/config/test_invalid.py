"""Invalid recipes and overrides: one line with file and line, or key, and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_texts import BASE, TINY, composed, refused

from dialog.comparison.grid.contenders import read_contenders
from dialog.config.compose import compose
from dialog.config.schema import MINIMUM, NONZERO
from dialog.errors import UserError

pytestmark = pytest.mark.usefixtures("lab")


def bomb(first: str, wrap: str) -> str:
    """Nine levels of nine aliases each."""
    lines = [f"a: &a {first}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        inner = ", ".join(
            f"k{place}: *{before}" if wrap == "{}" else f"*{before}" for place in range(9)
        )
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
        (
            BASE + "trainer:\n  max_epochs: 1\n  max_epochs: 2\n",
            "my.yaml:4: found duplicate key max_epochs",
        ),
        (BASE.encode() + b"seed: 1\nabout: {summary: \xff}\n", "my.yaml:3: byte "),
        (BASE + "about: {summary: \x01}\n", "my.yaml: unacceptable character"),
        (
            BASE + "about: !!python/object/apply:os.getcwd []\n",
            "my.yaml:2: could not determine a constructor",
        ),
        (BASE + "---\nseed: 1\n", "my.yaml:2: "),
        (BASE + "? [a]\n: b\n", "my.yaml:2: "),
        (BASE + "~: 2\n", "my.yaml: "),
        (BASE + "sed: 3\n", "my.yaml:2: sed: unknown key; did you mean 'seed'?"),
        (
            BASE + "trainer:\n  max_epoch: 3\n",
            "my.yaml:3: trainer.max_epoch: unknown key; did you mean 'max_epochs'",
        ),
        (
            BASE + "trainr:\n  max_epochs: 3\n",
            "my.yaml:3: trainr: unknown key; did you mean 'trainer'?",
        ),
        (BASE + "1: 2\n", "my.yaml:2: 1: unknown key; choose from about, seed"),
        (BASE + "seed: many\n", "my.yaml:2: seed: Value 'many'"),
        (BASE + "seed: 1.5\n", "my.yaml:2: seed: "),
        (BASE + "seed: true\n", "my.yaml:2: seed: "),
        (BASE + "seed:\n", "my.yaml:2: seed: "),
        (
            BASE + "trainer:\n  limit_train_batches: many\n",
            "my.yaml:3: trainer.limit_train_batches: Value 'many'",
        ),
        (BASE + "trainer: 5\n", "my.yaml:2: trainer: "),
        (BASE + "smoke: 5\n", "my.yaml:2: smoke: "),
        (BASE + "expect: [3]\n", "my.yaml:2: expect: "),
        (BASE + "model:\n  encoder: lstm\n", "my.yaml:3: model.encoder: give a mapping"),
        (BASE + "model:\n  encoder:\n", "my.yaml:3: model.encoder: "),
        (BASE + "model:\n  encoder: [lstm]\n", "my.yaml:3: model.encoder: "),
        (
            BASE + "model: {encoder: {size: '???'}}\n",
            "my.yaml: the recipe must set model.encoder.size",
        ),
        ("defaults: [data]\n", "my.yaml:1: defaults must be a mapping"),
        ("defaults:\n", "my.yaml:1: defaults must be a mapping"),
        ("defaults: {dta: builtin}\n", "my.yaml:1: unknown group 'dta'; did you mean 'data'?"),
        (
            "defaults:\n  data: bultin\n",
            "my.yaml:2: unknown data 'bultin'; did you mean 'builtin'?",
        ),
        ("defaults: {data: ../../x}\n", "my.yaml:1: unknown data '../../x'; choose from "),
        (BASE + "about: {summary: '${oc.env:HOME}'}\n", "my.yaml:2: about.summary: interpolations"),
        (BASE + "smoke:\n- ${oc.env:HOME}\n", "my.yaml:2: smoke: interpolations"),
        (BASE + "expect: [{metric: '${seed}'}]\n", "my.yaml:2: expect: interpolations"),
        (BASE + "about: &a {summary: *a}\n", "my.yaml:2: "),
        (BASE + bomb("[x, x, x]", "[]"), "YAML node expansion exceeds"),
        (BASE + bomb("{x: 1}", "{}"), "YAML node expansion exceeds"),
        (BASE + "about: " + "[" * 50_000, "my.yaml:2: nested more than 32 levels deep"),
        (
            BASE + "about: " + "{a: " * 5_000 + "1" + "}" * 5_000,
            "my.yaml:2: nested more than 32 levels deep",
        ),
    ],
    ids=range(43),
)
def test_invalid_recipe_names_its_place(text: str | bytes, message: str) -> None:
    found = refused(text)
    assert message in found
    assert "my.yaml" in found
    assert "\n" not in found


DIGITS = "9" * 200_000
LONG = [
    DIGITS,
    f"-{DIGITS}",
    f"0x{DIGITS}",
    f"0b{'1' * 200_000}",
    f"!!int '{DIGITS}'",
    ":".join(["59"] * 70_000),
]


@pytest.mark.parametrize("number", [*LONG, f"[{DIGITS}]", f"{{a: 0x{DIGITS}}}"], ids=range(8))
def test_an_integer_of_many_digits_names_its_place(number: str) -> None:
    found = refused(f"{BASE}seed: 1\nabout: {number}\n")
    assert found.startswith("my.yaml:3: ")
    assert len(found) < 200
    override = refused(BASE, f"about.summary={number}")
    assert "about.summary" in override
    assert len(override) < 400


@pytest.mark.parametrize("text", [f"'{DIGITS}'", f"v{DIGITS}", "0123456789abcdef" * 8])
def test_a_text_of_many_digits_is_read(text: str) -> None:
    assert composed(f"{BASE}about: {{summary: {text}}}\n").about.summary == text.strip("'")


@pytest.mark.parametrize("key", [*MINIMUM, *NONZERO])
def test_numbers_out_of_range(key: str) -> None:
    value = MINIMUM.get(key, 1) - 1
    assert refused(BASE, f"{key}={value}").startswith(f"command line: {key}: must ")
    composed(BASE, f"{key}={MINIMUM.get(key, 1)}")
    section, name = key.split(".")
    assert refused(BASE + f"{section}:\n  {name}: {value}\n").startswith("my.yaml:3: ")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "trainer.max_epoch=3",
            "command line: trainer.max_epoch: unknown key; did you mean 'max_epochs'?",
        ),
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
def test_invalid_override_names_its_key(override: str, message: str) -> None:
    assert message in refused(BASE, override)


def test_invalid_group_names_its_place() -> None:
    Path("configs/model/tiny.yaml").write_text(TINY + "drop_out: 1\n", encoding="utf-8")
    assert refused(BASE).startswith(
        "configs/model/tiny.yaml:8: model.drop_out: unknown key; did you mean 'dropout'"
    )
    Path("configs/model/tiny.yaml").write_text("- a\n", encoding="utf-8")
    assert refused(BASE) == "configs/model/tiny.yaml:1: must be a mapping of keys to values"


def test_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(
        UserError, match="unknown recipe 'quickstart/transfomer'; did you mean 'quick"
    ):
        compose("quickstart/transfomer")
    with pytest.raises(UserError, match=r"recipe file nowhere\.yaml does not exist"):
        compose("nowhere.yaml")
    with pytest.raises(
        UserError, match=r"^configs/model/lstm does not exist, and no recipe has this name$"
    ):
        compose("configs/model/lstm")
    Path("configs/model/mine.conf").write_text(TINY, encoding="utf-8")
    with pytest.raises(
        UserError,
        match=r"mine\.conf is not a recipe.*\.yaml or \.yml.*start",
    ):
        compose("configs/model/mine.conf")
    with pytest.raises(UserError, match="unknown recipe"):
        compose("unknown")


def test_folder_of_recipes_is_named_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "mine.yaml"
    folder.mkdir()
    with pytest.raises(UserError, match=rf"{folder} is a folder, not a recipe; .*start"):
        compose(str(folder))
    (folder / "small.yaml").touch()
    with pytest.raises(
        UserError, match=rf"is a folder, not a recipe; recipes in it: {folder}/small\.yaml$"
    ):
        compose(str(folder))
    with pytest.raises(UserError, match="is a folder, not a recipe; recipes in it"):
        read_contenders([str(folder)], ["model.dropout=0"])


def test_a_run_that_is_not_tuned_names_the_command() -> None:
    with pytest.raises(
        UserError,
        match="unknown generation 'tuned'; `python -m dialog tune-generation RUN` writes it",
    ):
        compose("quickstart/transformer", ["generation=tuned"])


@pytest.mark.parametrize(
    "override", ["model.objectives={name: denoising}", "model.objectives.0.weight=2"]
)
def test_mapping_in_place_of_a_list(override: str) -> None:
    with pytest.raises(UserError, match=r"command line: model\.objectives"):
        compose("quickstart/transformer", [override])
