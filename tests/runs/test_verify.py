"""Verified run folders: changed files are detected, weights are rebuilt, equal weights are equal
bytes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from lightning.pytorch import Callback, Trainer
from safetensors import safe_open
from safetensors.torch import load_file

import dialog
from dialog.build import build_model
from dialog.cli.verify import verify as verb
from dialog.comparison.grid.contenders import read_contenders
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.runs.folder import LISTED, read_recipe
from dialog.runs.train import resume, train
from dialog.runs.verify import verify
from dialog.runs.weights import recipe_hash, weights_writer, write_safetensors
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

WEIGHTS = "model.safetensors"
CONTEXT = ["Hello, I booked three nights.", "Welcome.", "Which day is it?"]


def damaged(folder: Path) -> dict[str, tuple[str, str]]:
    return {
        file.file: (file.state, file.remedy) for file in verify(folder) if file.state != "intact"
    }


def flip(path: Path, place: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


# ------------------------------------------------------------------ damage


def test_bit_flips_are_detected(copied: Path) -> None:
    chance, size = random.Random(1), (copied / WEIGHTS).stat().st_size
    for _ in range(40):
        place, bit = chance.randrange(size), chance.randrange(8)
        flip(copied / WEIGHTS, place, bit)
        with pytest.raises(
            UserError, match=rf"{WEIGHTS}: has changed.*rebuild it from checkpoints/best\.ckpt"
        ):
            dialog.load(copied)
        flip(copied / WEIGHTS, place, bit)
    assert dialog.load(copied)


@pytest.mark.parametrize("name", ["tokenizer.json", "recipe.yaml"])
def test_changed_text_files_are_detected(copied: Path, name: str) -> None:
    text = (copied / name).read_text(encoding="utf-8")
    if name == "tokenizer.json":
        tree = json.loads(text)
        vocabulary = tree["model"]["vocab"]
        first, second = list(vocabulary)[100:102]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
        text = json.dumps(tree)
    (copied / name).write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"{name}: has changed"):
        dialog.load(copied)
    assert list(damaged(copied)) == [name]


def test_run_of_an_older_version_loads_with_a_warning(
    trained: Callable[[str], Path], copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (copied / "manifest.json").unlink()
    again = dialog.load(copied)
    (message,) = caplog.messages
    assert "not verified, it has no manifest.json" in message
    assert again.score(CONTEXT, "Monday.") == dialog.load(trained("transformer")).score(
        CONTEXT, "Monday."
    )
    with pytest.raises(UserError, match="cannot be verified"):
        verify(copied)
    resume(copied, quiet=True)
    assert {file.file for file in verify(copied)} >= set(LISTED)
    assert damaged(copied) == {}


def test_verify_lists_states_and_remedies(copied: Path) -> None:
    assert damaged(copied) == {}
    flip(copied / WEIGHTS, -1)
    flip(copied / "checkpoints" / "last.ckpt", 1000)
    (copied / "environment.json").unlink()
    states = damaged(copied)
    assert {file: state for file, (state, _) in states.items()} == {
        WEIGHTS: "changed",
        "checkpoints/last.ckpt": "changed",
        "environment.json": "missing",
    }
    assert "rebuild it from checkpoints/best.ckpt" in states[WEIGHTS][1]
    assert "previous.ckpt" in states["checkpoints/last.ckpt"][1]
    flip(copied / "checkpoints" / "best.ckpt", 1000)
    assert damaged(copied)[WEIGHTS] == ("changed", "restore it from a copy, or train again")
    with pytest.raises(UserError, match="not a run folder"):
        verify(copied.parent)


def test_verb_prints_files_and_fails_for_damage(copied: Path) -> None:
    done = CliRunner().invoke(verb, [str(copied), "--json"], standalone_mode=False)
    assert {file["state"] for file in json.loads(done.stdout)} == {"intact"}
    flip(copied / WEIGHTS, 5000)
    done = CliRunner().invoke(verb, [str(copied)], standalone_mode=False)
    (line,) = [line for line in done.stdout.splitlines() if "changed" in line]
    assert line.startswith(WEIGHTS)
    assert isinstance(done.exception, UserError)
    assert f"1 of {len(done.stdout.splitlines())} files" in str(done.exception)


def test_names_of_a_manifest_cannot_control_the_terminal(copied: Path) -> None:
    manifest = json.loads((copied / "manifest.json").read_text(encoding="utf-8"))
    manifest["\x1b]0;title\x07\nfake.ckpt  intact"] = "0" * 64
    (copied / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    shown = CliRunner().invoke(verb, [str(copied)], standalone_mode=False).stdout
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("fake.ckpt")]


# ------------------------------------------------------------------ the weights


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: flip(path, 9000)], ids=["missing", "changed"]
)
def test_resume_rebuilds_the_weights(copied: Path, damage: Callable[[Path], None]) -> None:
    """A run that has ended gets the same bytes again; without best.ckpt the error states it."""
    before = (copied / WEIGHTS).read_bytes()
    damage(copied / WEIGHTS)
    resume(copied, quiet=True)
    assert (copied / WEIGHTS).read_bytes() == before
    damage(copied / WEIGHTS)
    (copied / "checkpoints" / "best.ckpt").unlink()
    with pytest.raises(UserError, match=r"best\.ckpt is missing too"):
        resume(copied, quiet=True)


def test_weights_have_metadata_and_follow_the_umask(trained: Callable[[str], Path]) -> None:
    folder = trained("transformer")
    recipe, path = read_recipe(folder), folder / WEIGHTS
    assert path.stat().st_mode == (folder / "recipe.yaml").stat().st_mode
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    best = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / "best.ckpt")
    assert metadata.items() >= {
        "format": "pt", "recipe": recipe_hash(recipe), "step": str(best["global_step"]),
        "tokenizer": Tokenizer.load(folder / "tokenizer.json").fingerprint,
        "target_embedding.table.weight": "head.weight",
    }.items()  # fmt: skip
    longer = read_recipe(folder, ["trainer.max_steps=7", "checkpoint.patience=1", "logger=none"])
    assert (
        recipe_hash(longer) == recipe_hash(recipe) != recipe_hash(read_recipe(folder, ["seed=9"]))
    )


def test_safetensors_library_reads_the_file(tmp_path: Path) -> None:
    tensors = {
        "é": torch.tensor(3), "half": torch.randn(3, 5).bfloat16(), "mask": torch.tensor([True, False, True]),
        "columns": torch.randn(4, 6).t(), "empty": torch.zeros(0, 2), "double": torch.randn(2, dtype=torch.float64),
    }  # fmt: skip
    write_safetensors(tmp_path / "file", tensors, {"b": "2", "a": "1"})
    read = load_file(tmp_path / "file")
    assert read.keys() == tensors.keys()
    assert all(
        torch.equal(read[name], value) and read[name].dtype == value.dtype
        for name, value in tensors.items()
    )
    with safe_open(tmp_path / "file", framework="pt") as file:
        assert file.metadata() == {"a": "1", "b": "2"}


WRITE = """
import sys
from pathlib import Path
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.runs.folder import read_recipe
from dialog.runs.weights import rebuild_weights
folder = Path(sys.argv[1])
rebuild_weights(folder, read_recipe(folder), Tokenizer.load(folder / "tokenizer.json"))
"""


@pytest.mark.endurance
def test_weights_are_equal_bytes_in_every_process(copied: Path) -> None:
    """Embeddings are tied, so there are several names to write; the order of a set depends on the
    process.
    """
    before = (copied / WEIGHTS).read_bytes()
    (copied / WEIGHTS).unlink()
    subprocess.run(
        [sys.executable, "-c", WRITE, str(copied)],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=True,
    )
    assert (copied / WEIGHTS).read_bytes() == before


def test_tied_weights_are_stored_once(copied: Path) -> None:
    """The names of a tied parameter may have equal tensors of their own, as those of sharded
    runs.
    """
    best = SafeCheckpointIO().load_checkpoint(copied / "checkpoints" / "best.ckpt")
    state = {name: value.clone() for name, value in best["state_dict"].items()}
    tokenizer = Tokenizer.load(copied / "tokenizer.json")
    before = (copied / WEIGHTS).read_bytes()
    recipe = read_recipe(copied)
    model = build_model(recipe.model, len(tokenizer))
    weights_writer(copied, recipe, tokenizer, model)({**best, "state_dict": state})
    assert (copied / WEIGHTS).read_bytes() == before


class PowerCutError(Exception):
    pass


class Stop(Callback):
    """Loads the run at each step after a validation, and stops."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step == 30:
            self.check()
            raise PowerCutError

    def check(self) -> None:
        best = SafeCheckpointIO().load_checkpoint(self.folder / "checkpoints" / "best.ckpt")[
            "state_dict"
        ]
        for name, value in dialog.load(self.folder).model.state_dict().items():
            assert torch.equal(best[f"model.{name}"], value)


@pytest.mark.parametrize("averaging", ["null", "{name: ema, decay: 0.9}"])
def test_stopped_run_has_the_best_weights(
    tiny: Callable[..., Any], tmp_path: Path, averaging: str
) -> None:
    stop = Stop(tmp_path / "run")
    recipe = tiny("transformer", f"checkpoint.averaging={averaging}", "preflight=false")
    with pytest.raises(PowerCutError):
        train(recipe, stop.folder, quiet=True, callbacks=[stop])
    stop.check()
    assert damaged(stop.folder) == {}
    assert dialog.load(stop.folder).respond(CONTEXT).text
    with pytest.raises(UserError, match="training has not finished; resume it"):
        read_contenders([str(stop.folder)], [])
