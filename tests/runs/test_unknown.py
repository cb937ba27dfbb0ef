"""Bits per byte of tokenizers that have unknown tokens: unknown text is charged, in training and
evaluation alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import lightning
import pytest
import torch

import dialog
from dialog.build import build_corpus, build_model, build_rules
from dialog.config.schema import GenerationConfig
from dialog.data.examples import examples
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import PAD
from dialog.generation.responder import Responder
from dialog.metrics import build_metrics
from dialog.runs.evaluation.metrics import Evaluation
from dialog.runs.evaluator import Evaluator
from dialog.runs.prepare import prepare_data


@pytest.mark.parametrize(
    "tokenizer", ["{name: word, vocabulary: 12}", "{name: characters, vocabulary: 20}"]
)
def test_unknown_text_costs_its_bytes(tiny: Callable[..., Any], tokenizer: str) -> None:
    """Otherwise the vocabulary of twelve words has the lowest bits per byte of all."""
    recipe = tiny("lstm", f"data.tokenizer={tokenizer}").recipe
    data = prepare_data(recipe)
    store = Store(data, "validation")
    torch.manual_seed(0)
    model = build_model(recipe.model, len(store.tokenizer))
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        devices=1,
    )
    module, batches = (
        dialog.DialogModule(model, padding=PAD),
        dialog.DialogDataModule(data, batch_tokens=1200),
    )
    validated = trainer.validate(module, batches, verbose=False)[0]

    evaluation = Evaluation(build_metrics([]))
    stream = list(
        examples(build_corpus(recipe).dialogues("validation"), build_rules(recipe), Counter())
    )
    responder = Responder(
        model.eval(), store.tokenizer, recipe.data.max_source, GenerationConfig(max_length=2)
    )
    rows = [
        evaluation.add(answer)
        for answer in Evaluator(responder, {"name": "greedy"}, 1200).answers(stream)
    ]
    metrics = evaluation.metrics("validation")

    unknown_bytes = sum(row["reference_unknown_bytes"] for row in rows)
    assert (
        metrics["unknown_ratio"]
        == sum(row["reference_unknown"] for row in rows) / metrics["tokens"]
        > 0.1
    )
    bits = metrics["nll_nats"] / math.log(2) + 8 * unknown_bytes
    assert metrics["bits_per_byte"] == pytest.approx(bits / metrics["bytes"], rel=1e-12)
    assert metrics["bits_per_byte"] > 3
    assert metrics["perplexity_word"] == pytest.approx(2 ** (bits / metrics["words"]), rel=1e-9)
    assert metrics["perplexity_token"] == pytest.approx(
        math.exp(metrics["nll_nats"] / metrics["tokens"])
    )
    assert metrics["lossless"] is ("characters" in tokenizer)
    for name, same in {"bits_per_byte": "bits_per_byte", "perplexity": "perplexity_token"}.items():
        assert validated[f"validation/{name}"] == pytest.approx(metrics[same], rel=1e-5)
