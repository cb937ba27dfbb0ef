"""Metrics of pretrained models, with tiny random models that the test makes itself."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_encoder import WORDS, save_encoder

from dialog.errors import UserError
from dialog.metrics import build_metrics
from dialog.metrics.meaning.bert_score import BertScore
from dialog.metrics.meaning.words import Meteor

RESPONSES = ["how are you today ?", "fine", "", "hello hello unknown", "what time is it"]
REFERENCES = ["fine thanks and you ?", "fine", "it is time .", "hello", "what time is it"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a BERT of two layers."""
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@torch.no_grad()
def by_hand(folder: Path, response: str, reference: str, layer: int) -> float:
    """BERTScore of one pair, by loops over tokens."""
    transformers = importlib.import_module("transformers")
    model = transformers.BertModel.from_pretrained(folder).eval()
    sides = []
    for text in (response, reference):
        ids = [1, *(WORDS.index(word) if word in WORDS else 3 for word in text.split()), 2]
        sides.append(model(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0])
    if min(map(len, sides)) == 2:
        return 0.0
    own, gold = sides
    cosine = torch.nn.functional.cosine_similarity
    precision = [max(float(cosine(token, other, 0)) for other in gold) for token in own[1:-1]]
    recall = [max(float(cosine(token, other, 0)) for other in own) for token in gold[1:-1]]
    means = [sum(side) / len(side) for side in (precision, recall)]
    return 2 * means[0] * means[1] / sum(means)


@pytest.mark.parametrize("layer", [None, 1])
def test_bert_score_agrees_with_loops_over_tokens(encoder: Path, layer: int | None) -> None:
    metric = BertScore(str(encoder), layer)
    expected = [
        by_hand(encoder, *pair, layer or 2) for pair in zip(RESPONSES, REFERENCES, strict=True)
    ]
    assert metric.statistics_of(RESPONSES, REFERENCES)[:, 0].tolist() == pytest.approx(
        expected, abs=1e-5
    )
    assert expected[2] == 0
    assert expected[4] == pytest.approx(1)
    metric.update(RESPONSES[:2], REFERENCES[:2])
    metric.update(RESPONSES[2:], REFERENCES[2:])
    assert metric.compute().item() == pytest.approx(100 * sum(expected) / 5, abs=1e-3)


def test_bert_score_equals_its_library(encoder: Path) -> None:
    library = pytest.importorskip("bert_score")
    # it cannot encode empty texts
    pairs = [pair for pair in zip(RESPONSES, REFERENCES, strict=True) if all(pair)]
    own, gold = (list(side) for side in zip(*pairs, strict=True))
    f1 = library.score(own, gold, model_type=str(encoder), num_layers=2)[2].tolist()
    assert BertScore(str(encoder)).statistics_of(own, gold)[:, 0].tolist() == pytest.approx(
        f1, abs=1e-5
    )


def test_mauve_separates_other_texts_from_the_same(encoder: Path) -> None:
    pytest.importorskip("mauve")
    texts = [" ".join(WORDS[5 + number % 7 : 8 + number % 7 + number % 3]) for number in range(120)]
    values = {}
    for name, responses in {"same": texts, "other": ["fine thanks"] * len(texts)}.items():
        metric: Any = build_metrics([{"name": "mauve", "model": str(encoder)}])["mauve"]
        metric.update(responses[:50], texts[:50])
        metric.update(responses[50:], texts[50:])
        values[name] = metric.compute().item()
    assert values["same"] == pytest.approx(100)
    assert 0 <= values["other"] < 50


def test_meteor_matches_synonyms_of_wordnet() -> None:
    pytest.importorskip("nltk")
    try:
        metric = Meteor()
    except ValueError:
        pytest.skip("WordNet is not on this machine")
    # one chunk of two words
    assert metric.score("the rock", "the stone") == pytest.approx(0.5**4 * 15)
    assert math.isclose(metric.score("the rock", "the sky"), 0.25)


@pytest.mark.parametrize("name", ["bert_score", "mauve"])
def test_missing_folder_package_and_layer_are_user_errors(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "mauve", sys)
    with pytest.raises(
        UserError, match=f"{name}: model: {tmp_path} has no config.json; give the folder"
    ):
        build_metrics([{"name": name, "model": str(tmp_path)}])
    (tmp_path / "config.json").write_text(json.dumps({}), encoding="utf-8")
    with pytest.raises(UserError, match=f"{name}: model: {tmp_path} cannot be read"):
        build_metrics([{"name": name, "model": str(tmp_path)}])
    if name == "bert_score":
        with pytest.raises(UserError, match="bert_score: layer is 3; the model has 0 to 2"):
            build_metrics([{"name": name, "model": str(encoder), "layer": 3}])
    monkeypatch.setitem(sys.modules, "transformers" if name == "bert_score" else "mauve", None)
    with pytest.raises(UserError, match=rf"{name}: needs .*; run pip install -e '.\[meaning\]'"):
        build_metrics([{"name": name, "model": str(encoder)}])
