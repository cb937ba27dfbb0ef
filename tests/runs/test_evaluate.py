"""Scores of a split depend neither on batches nor on ranks, and agree with a plain loop."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dialog
from dialog.analysis.attention.alignment import AlignmentCounts
from dialog.analysis.attention.maps import attention_maps
from dialog.analysis.measured import read_measured
from dialog.build import build_corpus
from dialog.comparison.statistics.section import run_metrics
from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Copy, Example, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import encode_example
from dialog.data.tokenizers.tokenizer import EOS, PAD
from dialog.errors import UserError
from dialog.generation.responder import Candidate, Responder
from dialog.metrics import build_metrics
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.metrics import Evaluation
from dialog.runs.evaluator import Answered, Evaluator, Scored

MAX_SOURCE = 96
GREEDY = {"name": "greedy"}
BUDGETS = [1, 150, 700, 10**6]


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def responder(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> Responder:
    run = dialog.load(trained(request.param))
    return Responder(run.model.double(), run.tokenizer, MAX_SOURCE, GenerationConfig(max_length=12))


@pytest.fixture(scope="module")
def split() -> list[Example]:
    """Examples of a split, with first turns: some have an empty context."""
    stream = BuiltinDialogues(size=60).dialogues("validation")
    return list(examples(stream, ExampleRules(7, first_turns=True), Counter()))


def evaluated(
    responder: Responder, split: list[Example], budget: int
) -> tuple[list[Answered], dict[str, Any]]:
    aligned, evaluation = AlignmentCounts(), Evaluation(build_metrics([]))
    found = list(Evaluator(responder, GREEDY, budget).answers(iter(split), aligned))
    for each in found:
        evaluation.add(each)
    return found, evaluation.metrics("validation", aligned)


def test_every_example_once_and_in_order(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.runs.evaluator.BLOCK", 13)
    seen: list[int] = []
    for budget in BUDGETS:
        found = list(
            Evaluator(responder, GREEDY, budget).answers(iter(split), progress=seen.append)
        )
        assert [each.example for each in found] == split
    assert seen.count(len(split)) == len(BUDGETS)
    assert list(Evaluator(responder, GREEDY, 100).answers(iter(()))) == []


@pytest.mark.parametrize("world", [2, 3, 7])
def test_ranks_change_nothing(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    """Bit-identical, also in the last block, which has fewer batches than ranks."""
    monkeypatch.setattr("dialog.runs.evaluator.BLOCK", len(split) - 1)
    whole, metrics = evaluated(responder, split, 700)
    sent: list[list[Any]] = [[] for _ in range(world - 1)]
    counts = [AlignmentCounts() for _ in range(world)]
    for rank, blocks in enumerate(sent, 1):
        share = {
            "rank": rank,
            "world": world,
            "gather": lambda own, to=blocks: to.append(own) or [],
        }
        assert (
            list(Evaluator(responder, GREEDY, 700, **share).answers(iter(split), counts[rank]))
            == []
        )
    evaluation, others = Evaluation(build_metrics([])), zip(*sent, strict=True)
    first = Evaluator(responder, GREEDY, 700, world=world, gather=lambda own: [own, *next(others)])
    found = list(first.answers(iter(split), counts[0]))
    for each in found:
        evaluation.add(each)
    assert found == whole
    assert evaluation.metrics("validation", AlignmentCounts.total(counts)) == metrics


def test_batches_change_nothing(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, metrics = evaluated(responder, split, BUDGETS[0])
    for budget in BUDGETS[1:]:
        for module in ("evaluator", "evaluation.metrics"):
            monkeypatch.setattr(f"dialog.runs.{module}.BLOCK", 20 if budget == BUDGETS[1] else 4096)
        found, again = evaluated(responder, split, budget)
        assert [each.scored.nll for each in found] == pytest.approx(
            [each.scored.nll for each in first], abs=1e-9
        )
        assert [each.response.text for each in found] == [each.response.text for each in first]
        assert again.keys() == metrics.keys()
        reliability = zip(
            again.pop("calibration")["bins"], metrics["calibration"]["bins"], strict=True
        )
        assert all(row == pytest.approx(other, abs=1e-9) for row, other in reliability)
        for name in again:
            value = metrics[name]
            assert again[name] == (
                pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            ), name


@pytest.mark.parametrize(
    "search", [{"name": "sampling"}, {"name": "delayed_beam", "delay": 6, "width": 2}]
)
def test_first_turns_are_drawn_each_for_itself(
    responder: Responder, split: list[Example], search: Component
) -> None:
    """They have one empty source; neither the size of the batches nor the number of ranks changes a
    response.
    """
    first = [example for example in split if not example.context]
    drawn = [answered.response for answered in Evaluator(responder, search, 700).answers(split)]
    texts = {text for example, (text, *_) in zip(split, drawn, strict=True) if example in first}
    assert len(texts) > len(first) / 2 > 2
    for budget, world in ((1, 1), (150, 3)):
        ranks = [
            Evaluator(responder, search, budget, rank=rank, world=world) for rank in range(world)
        ]
        shards = [
            {each.example.id: each.response for each in rank.answers(split)} for rank in ranks
        ]
        responses = {name: response for shard in shards for name, response in shard.items()}
        assert [responses[example.id].ids for example in split] == [
            response.ids for response in drawn
        ]
    (alone,) = responder.respond([[]], search, ids=[first[-1].id])
    assert alone[0].ids == drawn[split.index(first[-1])].ids


@torch.no_grad()
def test_likelihood_agrees_with_a_loop_over_examples(
    responder: Responder, split: list[Example]
) -> None:
    nll, tokens, correct = 0.0, 0, 0
    for example in split:
        source, target = encode_example(
            responder.tokenizer, example, max_source=MAX_SOURCE, max_target=None
        )
        read = torch.tensor([source])
        logits = responder.model(
            read, torch.ones_like(read, dtype=torch.bool), torch.tensor([target[:-1]])
        )[0]
        for scores, token in zip(logits.log_softmax(-1), target[1:], strict=True):
            nll -= scores[token].item()
            correct += int(scores.argmax()) == token
        tokens += len(target) - 1
        assert target[-1] == EOS
    metrics = evaluated(responder, split, 500)[1]
    size = sum(len(each.response.text.encode()) for each in split)
    words = sum(len(each.response.text.split()) for each in split)
    assert metrics["nll_nats"] == pytest.approx(nll, abs=1e-8)
    assert (metrics["tokens"], metrics["words"], metrics["bytes"]) == (tokens, words, size)
    assert metrics["bits_per_byte"] == pytest.approx(nll / math.log(2) / size, abs=1e-9)
    assert metrics["perplexity_token"] == pytest.approx(math.exp(nll / tokens))
    assert metrics["perplexity_word"] == pytest.approx(math.exp(nll / words))
    assert metrics["token_accuracy"] == pytest.approx(correct / tokens)
    assert metrics["examples"] == len(split)
    assert metrics["dialogues"] == len({each.dialogue_id for each in split})


def test_scores_are_those_of_the_answers(
    responder: Responder, split: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [each.scored.nll for each in Evaluator(responder, GREEDY, 700).answers(iter(split))]
    monkeypatch.setattr("dialog.runs.evaluator.BLOCK", 13)
    assert [
        scored.nll for scored in Evaluator(responder, GREEDY, 150).scores(split)
    ] == pytest.approx(answers, abs=1e-9)


@torch.no_grad()
def test_calibration_agrees_with_a_loop_over_tokens(
    responder: Responder, split: list[Example]
) -> None:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for example in split:
        source, target = encode_example(
            responder.tokenizer, example, max_source=MAX_SOURCE, max_target=None
        )
        read = torch.tensor([source])
        logits = responder.model(read, read != PAD, torch.tensor([target[:-1]]))[0]
        for scores, token in zip(logits.softmax(-1), target[1:], strict=True):
            confidence = scores.max().item()
            bins.setdefault(math.ceil(10 * confidence), []).append(
                (confidence, scores.argmax().item() == token)
            )
    metrics = evaluated(responder, split, 500)[1]
    assert len(bins) > 4
    means = [
        [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
        for _, pairs in sorted(bins.items())
    ]
    shown = metrics["calibration"]["bins"]
    assert [row["tokens"] for row in shown] == [len(pairs) for _, pairs in sorted(bins.items())]
    assert [[row["confidence"], row["accuracy"]] for row in shown] == [
        pytest.approx(mean, abs=1e-9) for mean in means
    ]
    gaps = [
        len(bins[number]) * abs(mean[0] - mean[1])
        for number, mean in zip(sorted(bins), means, strict=True)
    ]
    assert metrics["calibration_error"] == pytest.approx(sum(gaps) / metrics["tokens"], abs=1e-9)


def test_long_references_are_not_truncated(responder: Responder) -> None:
    """Bits per byte of a truncated reference would be too low."""
    long = Example("a#1", "a", (Turn("a", "Hi"),), Turn("b", "so " * 300), 0)
    ((_, scored, _),) = Evaluator(responder, GREEDY, 10).answers([long])
    assert scored.tokens == len(responder.tokenizer.encode(long.response.text)) + 1
    assert scored.nll > 300


def test_empty_context(responder: Responder) -> None:
    alone = Example("a#0", "a", (), Turn("a", "Hello"), 0)
    answer = Example("a#1", "a", (Turn("b", "Hello"),), Turn("a", "Hello"), 0)
    found = list(Evaluator(responder, GREEDY, 1000).answers([alone, answer, alone]))
    assert found[0].row()["context"] == []
    assert math.isfinite(found[0].scored.nll)
    assert found[0].scored.nll == pytest.approx(found[2].scored.nll, abs=1e-9)
    assert found[0].scored.nll != pytest.approx(found[1].scored.nll, abs=1e-6)


def test_empty_reference_is_one_end_token(responder: Responder) -> None:
    silent = Example("a#1", "a", (Turn("b", "Hello"),), Turn("a", ""), 0)
    (found,) = Evaluator(responder, GREEDY, 1000).answers([silent])
    assert found.scored.tokens == 1
    assert (found.row()["reference_words"], found.row()["reference_bytes"]) == (0, 0)


def test_empty_split_raises() -> None:
    with pytest.raises(UserError, match="empty split"):
        Evaluation(build_metrics([])).metrics("test")


# ------------------------------------------------------------------ files


FIELDS = [
    "id", "dialogue_id", "context", "reference", "response", "score", "nll", "reference_tokens", "reference_correct",
    "reference_words", "reference_bytes", "reference_unknown", "reference_unknown_bytes",
    "train_copy", "candidate_rank",
]  # fmt: skip


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_files_of_a_split(trained: Callable[[str], Path], family: str) -> None:
    folder = trained(family) / "evaluation" / "test"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "metrics.json",
        "responses.jsonl",
        "statistics.safetensors",
        "cost.json",
        "manifest.json",
    }
    cost = json.loads((folder / "cost.json").read_text(encoding="utf-8"))
    rows = [
        json.loads(line)
        for line in (folder / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    dialogues = build_corpus(dialog.load(trained(family)).recipe).dialogues("test")
    expected = list(examples(dialogues, ExampleRules(7, first_turns=False), Counter()))
    assert [row["id"] for row in rows] == [each.id for each in expected]
    for row, example in zip(rows, expected, strict=True):
        assert list(row) == FIELDS
        assert row["dialogue_id"] == example.dialogue_id
        assert row["context"] == [turn.text for turn in example.context]
        assert row["reference"] == example.response.text
        assert row["reference_words"] == len(example.response.text.split())
        assert row["reference_bytes"] == len(example.response.text.encode())
        assert row["score"] < 0 < row["nll"]
        assert row["reference_unknown"] == row["reference_unknown_bytes"] == 0
    assert metrics["examples"] == cost["responses"] == len(rows)
    assert 0 < cost["decoding_seconds"] < 60
    assert metrics["nll_nats"] == pytest.approx(sum(row["nll"] for row in rows), rel=1e-12)
    assert (
        metrics["token_accuracy"]
        == sum(row["reference_correct"] for row in rows) / metrics["tokens"]
    )
    assert metrics["unknown_ratio"] == 0
    assert metrics["lossless"]
    for name, field in {
        "tokens": "reference_tokens",
        "words": "reference_words",
        "bytes": "reference_bytes",
    }.items():
        assert metrics[name] == sum(row[field] for row in rows)


def test_fingerprint_depends_on_the_text_only(split: list[Example], responder: Responder) -> None:
    whole = evaluated(responder, split, 700)[1]["fingerprint"]
    assert whole == evaluated(responder, split, 90)[1]["fingerprint"]
    assert whole != evaluated(responder, split[:-1], 700)[1]["fingerprint"]
    assert whole != evaluated(responder, split[::-1], 700)[1]["fingerprint"]


# ------------------------------------------------------------------ answers


def answered(reference: str, response: str, *, copies: bool) -> Answered:
    turn = Turn("a", reference, (Copy(0, 1, 0, 0),) if copies else ())
    return Answered(
        Example("d#1", "d", (Turn("b", "x"),), turn, 0),
        Scored(1.0, 2, 1),
        Candidate(response, -1.0, 3, [-0.5, -0.25, -0.25], -1.0),
    )


def test_answers_must_match_word_for_word() -> None:
    evaluation = Evaluation(build_metrics([]))
    for each in [
        answered("At nine .", "At nine .", copies=True),
        answered("At nine .", " At  nine .\n", copies=True),
        answered("At nine .", "At ten .", copies=True),
        answered("At nine .", "at nine .", copies=True),
        answered("At nine .", "At nine", copies=True),
        answered("Hello .", "Hello .", copies=False),
        answered("Hello .", "Bye .", copies=False),
    ]:
        evaluation.add(each)
    metrics = evaluation.metrics("test")
    assert metrics["questions"] == 5
    assert metrics["answer_accuracy"] == pytest.approx(2 / 5)
    right = [[1, 1], [1, 1], [0, 1], [0, 1], [0, 1], [0, 0], [0, 0]]
    assert evaluation.measurement.statistics()["answer_accuracy"].tolist() == right


def test_no_answer_accuracy_without_questions() -> None:
    evaluation = Evaluation(build_metrics([]))
    evaluation.add(answered("Hello .", "Hello .", copies=False))
    assert not {"questions", "answer_accuracy"} & evaluation.metrics("test").keys()


# ------------------------------------------------------------------ alignment


def test_alignment_agrees_with_the_attention_maps(
    responder: Responder, split: list[Example]
) -> None:
    hits: Counter[str] = Counter()
    tokens = 0
    for example in split:
        pairs = alignment(responder.tokenizer, example, max_source=MAX_SOURCE)
        source, target = encode_example(
            responder.tokenizer, example, max_source=MAX_SOURCE, max_target=None
        )
        read = torch.tensor([source])
        for each in attention_maps(responder.model, read, read != PAD, torch.tensor([target[:-1]])):
            if each.kind == "cross":
                for head, weights in enumerate(each.weights[0]):
                    hits[f"{each.name}.{head}"] += sum(
                        weights[t].argmax().item() == s for t, s in pairs.items()
                    )
        tokens += len(pairs)
    metrics = evaluated(responder, split, 700)[1]
    assert metrics["copied_tokens"] == tokens > 10
    assert metrics["alignment_heads"] == pytest.approx(
        {name: each / tokens for name, each in hits.items()}
    )
    assert metrics["alignment_accuracy"] == max(metrics["alignment_heads"].values())


def test_shares_of_copies_are_kept_per_response(trained: Callable[[str], Path]) -> None:
    """A comparison can resample them, also on subsets."""
    folder, metrics = evaluate(dialog.load(trained("lstm")), "validation", quiet=True)
    compared = run_metrics(read_measured(folder))
    for key in ("answer_accuracy", "alignment_accuracy"):
        assert compared[key].value() == metrics[key]
        clean = ~np.array(read_measured(folder).leaked, dtype=bool)
        assert compared[key].restrict(clean).value() == metrics["subsets"]["clean"][key]
