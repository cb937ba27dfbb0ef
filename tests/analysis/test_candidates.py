"""The rank of a reference among other references agrees with a plain loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dialog
from dialog.analysis import candidates
from dialog.analysis.candidates import batches, candidate_ranks, draw_candidates, joined
from dialog.config.schema import GenerationConfig
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Example, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.data.store.layout import LAYOUTS
from dialog.generation.responder import Responder
from dialog.metrics.likelihood import Hits
from dialog.runs.evaluator import Evaluator


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def responder(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> Responder:
    run = dialog.load(trained(request.param))
    return Responder(run.model.double(), run.tokenizer, 96, GenerationConfig())


@pytest.fixture(scope="module")
def split() -> list[Example]:
    rules = ExampleRules(7, first_turns=True)
    return list(examples(BuiltinDialogues(size=60).dialogues("validation"), rules, Counter()))


def measured_ranks(
    responder: Responder, split: list[Example], **processes: int
) -> dict[int, int] | None:
    return candidate_ranks(
        responder.model,
        responder.tokenizer,
        lambda: iter(split),
        max_source=responder.max_source,
        layout=responder.layout,
        **processes,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ranks_agree_with_scores_of_whole_examples(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    responder = replace(responder, layout=layout)
    monkeypatch.setattr(candidates, "EXAMPLES", 7)
    drawn = draw_candidates([example.response.text for example in split])
    ranks = measured_ranks(responder, split)
    assert ranks.keys() == drawn.keys()
    assert len(drawn) == 7
    evaluator = Evaluator(responder, {"name": "greedy"}, 1000)
    for index, texts in drawn.items():
        speaker = split[index].response.speaker
        scored = evaluator.scores(
            [replace(split[index], response=Turn(speaker, text)) for text in texts]
        )
        means = [-row.nll / row.tokens for row in scored]
        assert ranks[index] == 1 + sum(mean >= means[0] for mean in means[1:])


@pytest.mark.parametrize("world", [2, 5])
def test_processes_rank_different_examples(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    monkeypatch.setattr(candidates, "EXAMPLES", 20)
    monkeypatch.setattr(candidates, "CONTEXTS", 3)
    monkeypatch.setattr(candidates, "TOKENS", 150)
    shards = [measured_ranks(responder, split, rank=rank, world=world) for rank in range(world)]
    assert sum(map(len, shards)) == 20
    assert joined(shards) == measured_ranks(responder, split)


def test_candidates_are_different_and_the_same_for_every_model() -> None:
    references = [f"reference {number % 40}" for number in range(900)]
    drawn = draw_candidates(references)
    assert len(drawn) == candidates.EXAMPLES
    for index, texts in drawn.items():
        assert texts[0] == references[index]
        assert len(set(texts)) == len(texts) == 20
        assert set(texts) <= set(references)
    assert drawn == draw_candidates(references)
    assert draw_candidates(references[:19]) is None
    assert joined([None, None]) is None


def test_batches_hold_every_example_once_under_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "TOKENS", 200)
    assert list(batches([90, 2, 900, 60, 3, 80])) == [[1, 4, 3], [5, 0], [2]]


@torch.no_grad()
def test_candidates_that_tie_rank_before_the_reference(
    responder: Responder, split: list[Example]
) -> None:
    constant = replace(responder, model=deepcopy(responder.model).float())
    for parameter in constant.model.parameters():
        parameter.zero_()  # every token is as probable as any other
    assert set(measured_ranks(constant, split).values()) == {candidates.CANDIDATES}


def test_hits_are_first_ranks() -> None:
    metric = Hits()
    metric.update([1.0, 2.0, float("nan"), 1.0])
    assert metric.compute().item() == pytest.approx(2 / 3)
