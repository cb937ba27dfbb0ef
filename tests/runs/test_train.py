"""Training into a run folder, and the checks before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import dialog
from dialog.build import build_corpus
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.tokenizers.tokenizer import SELF
from dialog.errors import DivergedError, UserError
from dialog.runs.check import check_recipe
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.folder import finish, with_absolute_path
from dialog.runs.prepare import prepare_data


def test_failed_evaluation_changes_no_file(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def dialogues(self, split: str) -> object:
            yield Dialogue("d1", (Turn("A", "Hi"), Turn("B", "Hello")))
            raise UserError("corpus.jsonl:2: broken")

        def fingerprint(self) -> dict[str, str]:
            return {}

    before = {path: path.read_bytes() for path in copied.rglob("*.*") if path.is_file()}
    monkeypatch.setattr("dialog.build.build_corpus", lambda recipe: Broken())
    with pytest.raises(UserError, match="broken"):
        evaluate(dialog.load(copied), "test", quiet=True)
    assert {path: path.read_bytes() for path in copied.rglob("*.*") if path.is_file()} == before


def test_training_never_overwrites_a_run(tiny: Callable[..., Any], copied: Path) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    with pytest.raises(dialog.UserError, match="exists"):
        dialog.train(tiny("transformer"), copied)
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


def test_run_folder_is_complete_and_reproducible(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    """The same recipe and seed give the same weights."""
    folder = trained("transformer")
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "recipe.yaml", "environment.json", "tokenizer.json", "tokenizer_config.json", "checkpoints",
        "model.safetensors", "metrics.jsonl", "attention", "evaluation",
    }  # fmt: skip
    again = dialog.train(
        dialog.compose(str(folder / "recipe.yaml")), tmp_path / "again", quiet=True
    )
    assert (again.folder / "recipe.yaml").read_text() == (folder / "recipe.yaml").read_text()
    first, second = (dialog.load(each).model.state_dict() for each in (folder, again.folder))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_special_tokens_in_a_text_are_text_in_transformers(trained: Callable[[str], Path]) -> None:
    from transformers import AutoTokenizer

    folder = trained("transformer")
    text = "ignore </s> this <pad><s> <unk><self> <other>"
    ids = AutoTokenizer.from_pretrained(folder)(text).input_ids
    assert ids == dialog.load(folder).tokenizer.encode(text)
    assert min(ids) > SELF


def test_check_of_a_recipe_downloads_nothing() -> None:
    recipe = dialog.compose(
        "dailydialog/transformer", ["logger=none", "trainer.accelerator=cpu", "trainer.devices=1"]
    ).recipe
    assert check_recipe(recipe) == 1
    for read in (build_corpus, prepare_data):
        with pytest.raises(
            UserError, match=r"^data\.corpus: dailydialog is missing and DIALOG_OFFLINE"
        ):
            read(recipe)


def test_bpe_dropout_changes_training_and_needs_byte_bpe(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    few = ("trainer.max_steps=3", "trainer.val_check_interval=3")
    tokens = []
    for name, chance in (("without", 0.0), ("with", 0.5), ("again", 0.5)):
        recipe = tiny("transformer", f"data.bpe_dropout={chance}", *few)
        tokens.append(dialog.train(recipe, tmp_path / name, quiet=True).target_tokens)
    assert tokens[0] < tokens[1] == tokens[2]
    words = tiny("transformer", "data.bpe_dropout=0.1", "data.tokenizer={name: word}")
    with pytest.raises(UserError, match=r"^data\.bpe_dropout: "):
        dialog.train(words, tmp_path / "words", quiet=True)
    assert not (tmp_path / "words").exists()


def test_finish_tells_divergence_from_too_few_steps(tmp_path: Path) -> None:
    end = partial(finish, tmp_path, None, seconds=0.0, target_tokens=0)
    with pytest.raises(UserError, match="no validation was run"):
        end()
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 1, "validation/loss": 1.5}\n', encoding="utf-8"
    )
    with pytest.raises(DivergedError, match=r"checkpoint\.monitor was finite in no validation"):
        end()


def test_recipe_of_a_run_finds_its_corpus_from_every_folder(
    tiny: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [{"turns": ["Hello !", "Hi !", "Good bye ."]}] * 4
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text(
            "\n".join(map(json.dumps, turns)), encoding="utf-8"
        )
    monkeypatch.chdir(tmp_path)
    recipe = tiny(
        "lstm", "data.corpus={name: jsonl}", "data.path=.", "trainer.max_steps=1", "preflight=false"
    )
    run = dialog.train(recipe, Path("run"), quiet=True).folder.resolve()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert dialog.compose(str(run / "recipe.yaml")).recipe.data.path == str(tmp_path)
    folder, _ = evaluate(dialog.load(run), "test", quiet=True)
    assert folder.is_dir()


def test_no_path_stays_no_path(tiny: Callable[..., Any]) -> None:
    for override in ((), ("data.path=",)):
        recipe = tiny("lstm", *override).recipe
        assert with_absolute_path(recipe) == recipe
