"""``dialog recipes copy``."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.cli import program
from dialog.config.compose import compose, shipped_recipes
from dialog.errors import UserError
from dialog.recipes.copy import copy_recipe
from dialog.version import __version__

COPIED = ("quickstart/transformer", "dailydialog/sankar2019/lstm")


@pytest.mark.parametrize(
    "name",
    [
        name if name in COPIED else pytest.param(name, marks=pytest.mark.endurance)
        for name in shipped_recipes()
    ],
)
def test_copy_composes_to_the_same_recipe_alone(name: str, tmp_path: Path) -> None:
    copied = compose(str(copy_recipe(name, tmp_path / "mine")))
    assert copied.recipe == compose(name).recipe
    places = {place.rpartition(":")[0] for place in copied.origin.values()} - {""}
    assert len(places) > 2
    assert all(Path(place).resolve().is_relative_to(tmp_path / "mine") for place in places)
    for path in (tmp_path / "mine").rglob("*.yaml"):
        assert f"of dialog-seq2seq {__version__}" in path.read_text(encoding="utf-8").split("\n")[0]
    assert "# Run: " not in (tmp_path / "mine" / f"{name.rpartition('/')[2]}.yaml").read_text(
        encoding="utf-8"
    )


def test_copy_takes_the_changes_of_its_groups(tmp_path: Path) -> None:
    copied = copy_recipe("quickstart/transformer", tmp_path / "mine")
    group = tmp_path / "mine" / "configs" / "optimizer" / "adamw_inverse_sqrt.yaml"
    group.write_text(group.read_text(encoding="utf-8") + "weight_decay: 0.123\n", encoding="utf-8")
    assert compose(str(copied)).recipe.optimizer["weight_decay"] == 0.123


def test_copy_refuses_what_does_not_compose(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    for text, message in (
        ("defaults:", "defaults"),
        ("defaults: [data]", "defaults"),
        ("trainer: {steps: 1}", "steps"),
    ):
        recipe.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            copy_recipe(str(recipe), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_copy_refuses_to_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(
        ["recipes", "copy", "reverse/transformer", str(tmp_path / "mine")], standalone_mode=False
    )
    copied = Path(capsys.readouterr().out.strip())
    before = copied.read_bytes()
    with pytest.raises(UserError, match="mine exists; choose another DEST"):
        copy_recipe("reverse/lstm_luong", tmp_path / "mine")
    assert copied.read_bytes() == before
    with pytest.raises(UserError, match="did you mean 'reverse/transformer'"):
        copy_recipe("reverse/transforme", tmp_path / "other")
    with pytest.raises(
        UserError, match=r"mine\.yaml: DEST is a new folder for the copy; name it without \.yaml"
    ):
        copy_recipe("reverse/transformer", tmp_path / "mine.yaml")
    assert not (tmp_path / "other").exists()
