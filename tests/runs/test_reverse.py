"""Reranking with the reverse model of another run folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dialog
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.evaluated import settings_of
from dialog.runs.train import train

CONTEXT = ["Hello .", "How are you ?"]
INNER = {"name": "beam", "width": 4, "candidates": 4, "length_penalty": 0.0}


@pytest.fixture(scope="module")
def backward(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reverse model whose tokenizer is not that of the other runs."""
    overrides = [
        "data.reverse=true",
        "data.context_turns=1",
        "data.tokenizer.vocabulary=350",
        "trainer.max_steps=25",
    ]
    return train(
        tiny("lstm", *overrides), tmp_path_factory.mktemp("reverse") / "run", quiet=True
    ).folder


def test_candidates_are_reranked_by_the_last_turn(
    backward: Path, trained: Callable[[str], Path]
) -> None:
    run, reverse = dialog.load(trained("transformer")), dialog.load(backward)
    plain = run.respond(CONTEXT, INNER)
    search = {
        "name": "mmi",
        "reverse": str(backward),
        "weight": 3.0,
        "length_weight": 0.5,
        "search": INNER,
    }
    reranked = run.respond(CONTEXT, search).candidates
    tokens = {candidate.text: candidate.tokens - 1 for candidate in plain.candidates}
    assert {candidate.text: candidate.score for candidate in reranked} == pytest.approx(
        {candidate.text: candidate.score for candidate in plain.candidates}
    )
    for candidate in reranked:
        value = (
            candidate.score
            + 3 * reverse.score([candidate.text], CONTEXT[-1])
            + 0.5 * tokens[candidate.text]
        )
        assert candidate.rank == pytest.approx(value, abs=1e-4)
    assert [candidate.rank for candidate in reranked] == sorted(
        (one.rank for one in reranked), reverse=True
    )
    alike = run.respond_batch([["Bye ."], CONTEXT, ["Well ,", "Bye ."]], search)
    assert [candidate.text for candidate in alike[1].candidates] == [
        candidate.text for candidate in reranked
    ]


def test_evaluation_records_the_reverse_model(
    backward: Path, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained("lstm"), tmp_path / "run"))
    overrides = [
        "generation=mmi",
        f"generation.search.reverse={backward}",
        "generation.search.search.width=3",
    ]
    overrides.append("generation.search.search.candidates=3")
    evaluated, metrics = evaluate(dialog.load(folder, overrides=overrides), "test", quiet=True)
    assert evaluated.name != "test"
    search = metrics["generation"]["search"]
    weights = backward / "model.safetensors"
    assert (search["name"], search["reverse"], search["weight"]) == ("mmi", sha256(weights), 0.5)
    changed = Path(shutil.copytree(backward, tmp_path / "changed"))
    overrides[1] = f"generation.search.reverse={changed}"
    moved = settings_of(dialog.load(folder, overrides=overrides).recipe, None)
    assert moved["generation"] == metrics["generation"]  # another folder with the same weights
    (changed / "manifest.json").unlink()
    weights = changed / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    settings = settings_of(dialog.load(folder, overrides=overrides).recipe, None)
    assert settings["generation"]["search"]["reverse"] == sha256(weights) != search["reverse"]


def test_only_a_reverse_model_reranks(
    backward: Path, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    run = dialog.load(trained("lstm"))
    for folder, message in (
        (trained("transformer"), "not a reverse model; train one"),
        (tmp_path, "recipe.yaml"),
    ):
        with pytest.raises(UserError, match=message):
            run.respond(CONTEXT, {"name": "mmi", "reverse": str(folder)})
    module = dialog.DialogModule(
        run.model, padding=0, tokenizer=run.tokenizer, search={"name": "mmi", "reverse": "x"}
    )
    batch = dialog.collate([([5, 9, 2], [1, 9, 2])])
    with (
        torch.inference_mode(),
        pytest.raises(UserError, match="mmi: the reverse model x needs a run folder"),
    ):
        module.predict_step(batch, 0)


def test_anti_lm_scores_are_likelihoods(run: dialog.Run) -> None:
    for candidate in run.respond(CONTEXT, {"name": "anti_lm", "search": INNER}).candidates:
        assert candidate.score == pytest.approx(sum(candidate.token_scores))
        assert candidate.score == pytest.approx(run.score(CONTEXT, candidate.text), abs=1e-4)


def test_chat_reranks(backward: Path, run: dialog.Run) -> None:
    from dialog.chat.session import Session

    session = Session([run])
    session.change(lambda settings: settings.change({"reverse": str(backward), "weight": 2.0}))
    reply = session.answer("Hello .")
    ((described, candidates),) = session.n_best(3)
    assert described.startswith("mmi")
    assert reply == [candidates[0].text]
    assert len(candidates) == 3
    assert [one.rank for one in candidates] == sorted(
        (one.rank for one in candidates), reverse=True
    )
    json.dumps([candidate._asdict() for candidate in candidates])
