"""Evaluation without some attention heads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dialog
from dialog.errors import UserError
from dialog.models.attention.heads import head_names
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.evaluated import current_evaluation

HEAD = "decoder.layers.0.cross_attention.1"


@pytest.fixture
def run(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained("transformer"), tmp_path / "run"))


def test_it_never_replaces_the_evaluation(run: Path) -> None:
    before = (run / "evaluation" / "test" / "metrics.json").read_bytes()
    loaded = dialog.load(run, ablate=[HEAD])
    folder, metrics = evaluate(loaded, "test", quiet=True)
    assert folder.name.startswith("test-")
    assert metrics["ablated"] == [HEAD]
    assert (run / "evaluation" / "test" / "metrics.json").read_bytes() == before
    own = current_evaluation(run, dialog.load(run).recipe, "test", None)
    assert own is not None
    assert own.folder.name == "test"
    shutil.rmtree(own.folder)
    assert current_evaluation(run, dialog.load(run).recipe, "test", None) is None


def test_a_name_is_not_shared_with_other_heads(run: Path) -> None:
    evaluate(dialog.load(run, ablate=[HEAD]), "test", name="pruned", quiet=True)
    with pytest.raises(UserError, match="other settings or data"):
        evaluate(dialog.load(run), "test", name="pruned", quiet=True)


def test_without_any_head_the_likelihood_is_the_end_of_the_curve(run: Path) -> None:
    curve = dialog.load(run).head_ablation("test", sample=10_000, quiet=True)["curve"]
    loaded = dialog.load(run, ablate=head_names(dialog.load(run).model))
    _, metrics = evaluate(loaded, "test", quiet=True)
    assert metrics["bits_per_byte"] == pytest.approx(curve[-1]["bits_per_byte"], rel=1e-6)
    assert metrics["bits_per_byte"] != pytest.approx(curve[0]["bits_per_byte"], rel=1e-4)


def test_an_unknown_head_names_the_nearest_one(run: Path) -> None:
    with pytest.raises(UserError, match=f"cross_attention.1'; did you mean '{HEAD[:-1]}0-"):
        dialog.load(run, ablate=["decoder.layer.0.cross_attention.1"])
