"""Several runs as one model."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import dialog
from dialog.cli.respond import respond
from dialog.cli.score import score
from dialog.errors import UserError
from dialog.models.inference.ensemble import Ensemble
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.evaluation.evaluate import evaluate

CONTEXT = ["Hello .", "How are you ?"]
BEAM = {"name": "beam", "width": 4, "candidates": 4}


@pytest.fixture
def folders(trained: Callable[[str], Path]) -> list[Path]:
    return [trained("lstm"), trained("transformer")]


def test_probabilities_are_averaged(folders: list[Path]) -> None:
    """At each step; a score is the logarithm of the product of the means."""
    runs, together = [dialog.load(folder) for folder in folders], dialog.load(folders)
    for candidate in together.respond(CONTEXT, BEAM).candidates:
        source, target = together.responder.encode(
            together.responder.example(CONTEXT, candidate.text)
        )
        read, tokens = torch.tensor([source]), torch.tensor([target])
        with torch.inference_mode():
            logits = [run.model(read, read > 0, tokens[:, :-1]).double() for run in runs]
        mean = torch.stack([scores.softmax(-1) for scores in logits]).mean(0)[0]
        steps = [math.log(mean[step, token]) for step, token in enumerate(target[1:])]
        assert candidate.token_scores == pytest.approx(steps, abs=1e-4)
        assert together.score(CONTEXT, candidate.text) == pytest.approx(sum(steps), abs=1e-4)


def test_twice_the_same_run_is_that_run(folders: list[Path]) -> None:
    for folder in folders:
        one, two = dialog.load(folder), dialog.load([folder, folder])
        for search in (BEAM, {"name": "contrastive"}, {"name": "sampling", "candidates": 3}):
            texts = [
                [candidate.text for candidate in run.respond(CONTEXT, search).candidates]
                for run in (one, two)
            ]
            assert texts[0] == texts[1]
        assert two.score(CONTEXT, "Fine .") == pytest.approx(one.score(CONTEXT, "Fine ."), abs=1e-4)


def heads() -> Iterator[Seq2Seq]:
    """Networks of different sizes, of which two point at the source."""
    for seed, (name, size) in enumerate(
        [("pointer_generator", 8), ("vocabulary", 12), ("pointer", 16)]
    ):
        torch.manual_seed(seed)
        encoder = {"name": "lstm", "size": 6}
        decoder = {"name": "lstm_luong", "size": 6, "attention": {"name": "bilinear"}}
        yield Seq2Seq(
            20,
            padding=0,
            embedding_size=size,
            encoder=encoder,
            decoder=decoder,
            head={"name": name},
        ).eval()


@torch.inference_mode()
def test_attention_is_that_of_each_run(folders: list[Path]) -> None:
    together = dialog.load(folders).attention(CONTEXT, "Fine .")
    runs = [dialog.load(folder).attention(CONTEXT, "Fine .") for folder in folders]
    single = [
        (f"networks.{place}.{one['name']}", one)
        for place, run in enumerate(runs)
        for one in run["maps"]
    ]
    assert [one["name"] for one in together["maps"]] == [name for name, _ in single]
    for one, (_, other) in zip(together["maps"], single, strict=True):
        np.testing.assert_allclose(one["weights"], other["weights"], atol=1e-6)
        np.testing.assert_allclose(one["weights"].sum(-1), 1, atol=1e-5)
    recurrent, transformer = (
        run["maps"][-1]["weights"][0] if run["rollout"] is None else run["rollout"] for run in runs
    )
    np.testing.assert_allclose(together["rollout"], (recurrent + transformer) / 2, atol=1e-6)


def test_heads_that_point_are_averaged() -> None:
    networks = list(heads())
    source, target = torch.randint(1, 20, (3, 7)), torch.randint(1, 20, (3, 5))
    source[1, 4:] = 0
    mean = torch.stack([one(source, source > 0, target).softmax(-1) for one in networks]).mean(0)
    torch.testing.assert_close(Ensemble(networks)(source, source > 0, target).exp(), mean)


def test_evaluation_of_an_ensemble_has_a_folder_of_its_own(
    folders: list[Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders[0], tmp_path / "run"))
    evaluated, metrics = evaluate(dialog.load([folder, folders[1]]), "test", quiet=True)
    assert evaluated.name != "test"
    assert len(metrics["generation"]["ensemble"]) == 1
    single = [
        json.loads((one / "evaluation" / "test" / "metrics.json").read_text("utf-8"))
        for one in folders
    ]
    assert metrics["bits_per_byte"] < max(one["bits_per_byte"] for one in single)
    assert "hits_1_of_20" in metrics


def test_command_line(folders: list[Path], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"context": CONTEXT, "response": "Fine ."}), encoding="utf-8")
    together = dialog.load(folders)
    rows = {}
    for verb in (respond, score):
        path = tmp_path / f"{verb.name}.jsonl"
        arguments = [
            str(folders[0]),
            "--ensemble",
            str(folders[1]),
            "--input",
            str(pairs),
            "--output",
            str(path),
        ]
        assert CliRunner().invoke(verb, arguments).exit_code == 0
        rows[verb.name] = json.loads(path.read_text(encoding="utf-8"))
    assert rows["respond"]["response"] == together.respond(CONTEXT).text
    assert rows["score"]["nll"] == pytest.approx(-together.score(CONTEXT, "Fine ."), abs=1e-4)


def test_an_ensemble_prints_all_its_folders(folders: list[Path]) -> None:
    assert str(folders[1]) in repr(dialog.load(folders))


def test_an_ensemble_needs_a_run() -> None:
    with pytest.raises(UserError, match="no run folder; give one"):
        dialog.load([])


def test_different_input_is_one_line(folders: list[Path], tmp_path: Path) -> None:
    other = Path(shutil.copytree(folders[1], tmp_path / "other"))
    (other / "manifest.json").unlink()
    recipe = (other / "recipe.yaml").read_text(encoding="utf-8")
    (other / "recipe.yaml").write_text(
        recipe.replace("max_source: 128", "max_source: 64"), encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"other: data.max_source is 64, not 128 as in"):
        dialog.load([folders[0], other])
    tokenizer = (other / "tokenizer.json").read_text(encoding="utf-8")
    (other / "tokenizer.json").write_text(tokenizer + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="other: its tokenizer is not that of"):
        dialog.load([folders[0], other])
