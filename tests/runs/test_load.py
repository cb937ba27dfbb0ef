"""Loading a run folder: errors are one line, and no code of the folder is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import dialog
from dialog.cli import main
from dialog.runs.folder import LISTED
from dialog.training.checkpoints.manifest import list_files

CONTEXT = ["Hello, I booked three nights.", "Welcome.", "Which day is it?"]


def complaint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The error of ``dialog respond``: one line, exit code 2."""
    monkeypatch.setattr(sys, "argv", ["dialog", "respond", str(folder)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert output.out == ""
    assert str(folder) in line
    return line


# ------------------------------------------------------------------ loading


def test_folder_that_is_not_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not a run folder" in complaint(tmp_path, monkeypatch, capsys)
    assert "not a run folder" in complaint(tmp_path / "missing", monkeypatch, capsys)


def test_folder_of_several_runs_names_one(copied: Path, tmp_path: Path) -> None:
    """As the folder of a recipe or of a comparison."""
    inner = tmp_path / "compared" / "runs" / "lstm" / "seed-1"
    inner.parent.mkdir(parents=True)
    copied.rename(inner)
    with pytest.raises(
        dialog.UserError, match=r"no recipe.yaml; a run folder below it is .*lstm/seed-1$"
    ):
        dialog.load(tmp_path / "compared")


def test_missing_files_name_the_remedy(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "model.safetensors").unlink()
    assert "rebuild it from checkpoints/best.ckpt: " in complaint(copied, monkeypatch, capsys)
    (copied / "checkpoints" / "best.ckpt").unlink()
    assert "checkpoints/best.ckpt is missing too" in complaint(copied, monkeypatch, capsys)
    (copied / "summary.json").unlink()
    assert f"train --resume {copied}" in complaint(copied, monkeypatch, capsys)
    (copied / "tokenizer.json").unlink()
    assert "tokenizer.json is missing; restore it" in complaint(copied, monkeypatch, capsys)


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def scrambled(content: bytes) -> bytes:
    return content[:8] + b"\0" * 40 + content[48:]


@pytest.mark.parametrize("damage", [truncated, scrambled, lambda _: b"", lambda _: b"{}"])
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_damaged_run(
    copied: Path,
    name: str,
    damage: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (copied / name).write_bytes(damage((copied / name).read_bytes()))
    assert name in complaint(copied, monkeypatch, capsys)


def test_weights_of_another_architecture(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = copied / "recipe.yaml"
    recipe.write_text(
        recipe.read_text(encoding="utf-8").replace("embedding_size: 24", "embedding_size: 32")
    )
    list_files(copied, LISTED)
    assert "does not fit the recipe" in complaint(copied, monkeypatch, capsys)


def test_unknown_precision_names_the_nearest(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"bfloat15.*bfloat16"):
        dialog.load(copied, precision="bfloat15")


def test_override_with_an_invalid_model(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"^model: .*dropout"):
        dialog.load(copied, overrides=["model.dropout=5"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_device(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"^device cuda: "):
        dialog.load(copied, device="cuda")


def test_public_names_are_listed() -> None:
    assert set(dialog.__all__) <= set(dir(dialog))


def test_a_run_in_the_current_folder_has_its_name(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copied)
    assert dialog.load(".").name == dialog.load(copied).name != ""


def test_half_precision_responds(run: dialog.Run) -> None:
    half = dialog.load(run.folder, precision="bfloat16")
    assert half.respond(CONTEXT).candidates[0].tokens > 0
    assert half.score(CONTEXT, "Monday.") == pytest.approx(run.score(CONTEXT, "Monday."), rel=0.05)


def test_int8_responds_and_keeps_float32_scores(run: dialog.Run) -> None:
    quantised = dialog.load(run.folder, precision="int8")
    assert quantised.responder.int8
    assert quantised.respond(CONTEXT).candidates[0].tokens > 0
    assert quantised.score(CONTEXT, "Monday.") == run.score(CONTEXT, "Monday.")


@pytest.mark.parametrize(
    ("lacks_vnni", "message"),
    [(True, r"^precision int8: .*VNNI"), (False, r"^precision int8: .*additive")],
)
def test_int8_without_its_products(
    run: dialog.Run, monkeypatch: pytest.MonkeyPatch, lacks_vnni: bool, message: str
) -> None:
    monkeypatch.setattr("dialog.models.inference.has_int8", lambda _: not lacks_vnni)
    monkeypatch.setattr("dialog.models.inference.can_prepare", lambda _: False)
    with pytest.raises(dialog.UserError, match=message):
        dialog.load(run.folder, precision="int8")


# ------------------------------------------------------------------ trust

PARTS = {
    "generation.search": "greedy",
    "model.encoder": "transformer",
    "model.decoder": "transformer",
    "model.loss": "cross_entropy",
    "data.corpus": "builtin",
    "data.tokenizer": "byte_bpe",
    "optimizer": "adamw",
    "optimizer.schedule": "inverse_sqrt",
    "logger": "none",
}


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that creates a file when it is imported; the path of that file."""
    mark = tmp_path / "imported"
    text = (
        "from pathlib import Path\nfrom dialog.generation.searches.greedy import"
        f" Greedy\nPath({str(mark)!r}).touch()\n"
    )
    (tmp_path / "foreign_parts.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "foreign_parts", raising=False)
    return mark


def tampered(folder: Path, place: str, name: str) -> None:
    """Give the component at ``place`` of the run's recipe another name."""
    from omegaconf import OmegaConf

    recipe = OmegaConf.load(folder / "recipe.yaml")
    assert OmegaConf.select(recipe, f"{place}.name") == PARTS[place]
    OmegaConf.update(recipe, f"{place}.name", name)
    OmegaConf.save(recipe, folder / "recipe.yaml")
    list_files(folder, LISTED)


@pytest.mark.parametrize("place", PARTS)
def test_recipe_of_a_run_imports_nothing(
    copied: Path,
    place: str,
    foreign: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tampered(copied, place, "foreign_parts.Greedy")
    line = complaint(copied, monkeypatch, capsys)
    assert "foreign_parts.Greedy" in line
    assert "--trust" in line
    assert not foreign.exists()


def test_trusted_recipe_may_import(copied: Path, foreign: Path) -> None:
    tampered(copied, "generation.search", "foreign_parts.Greedy")
    loaded = dialog.load(copied, trust=True)
    assert foreign.exists()
    assert (
        loaded.respond(CONTEXT).text
        == dialog.load(copied, overrides=["generation.search.name=greedy"]).respond(CONTEXT).text
    )
