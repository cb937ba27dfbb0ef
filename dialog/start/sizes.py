"""Rules that choose vocabulary, model and training from the size of a corpus.

The model is an LSTM with Bahdanau's attention: after a few epochs it is better than a Transformer
of equal size on four corpora (docs/results.md; trained to the end it is not), and no slower on a
CPU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

VOCABULARY = 8.0
"""Tokens = 8 * sqrt(words), as new words grow with the root of a text's length (Heaps). DailyDialog
(1.0 million words) then has the 8,000 tokens of its recipe, the built-in corpus about 1,000.
"""
FEWEST_TOKENS = 500
MOST_TOKENS = 8000


class ModelSize(NamedTuple):
    """Sizes of a model, for training splits of up to `words` words."""

    words: float
    embedding: int
    hidden: int
    dropout: float
    lr: float


MODELS = (
    ModelSize(250_000, 128, 168, 0.3, 2e-3),
    ModelSize(1_000_000, 192, 320, 0.2, 1e-3),
    ModelSize(math.inf, 256, 640, 0.2, 1e-3),
)
"""Sizes of the quickstart (0.7 million parameters, two minutes on two cores), of about 3 million,
and of DailyDialog's recipe (9.5 million), each with its learning rate.

Dropout: DailyDialog's tuned ten epochs use 0.2; smaller corpora are read more often, which needs
more of it.
"""

STEPS_AN_EPOCH = 100
"""An epoch has about this number of batches: a small corpus then gives thousands of steps in
`MOST_EPOCHS`, which the learning rate's warm-up and decay need.
"""
SMALLEST_BATCH = 1024
LARGEST_BATCH = 8192
"""Tokens of a batch, padding included; the largest is the schema's default."""

STEPS = 4000
"""Optimizer steps that are planned: the quickstart's corpus is learned in 2,300, and early stopping
ends what does not improve.
"""
FEWEST_EPOCHS = 5
MOST_EPOCHS = 40
"""A corpus read more than 40 times is learned by heart; one read less than 5 times was given too
little (DailyDialog improves for ten epochs).
"""

WARM_UP = 0.05
"""Part of the planned steps in which the learning rate rises; the quickstart has 9 %, of fewer
steps.
"""

PATIENCE = 3
"""Validations, one an epoch, without improvement after which training stops; the schema's 5 would
cost a small corpus a quarter of its time.
"""


class Sizes(NamedTuple):
    """Chosen sizes; `reasons` explains them in the words of a recipe's comments."""

    vocabulary: int
    model: ModelSize
    batch_tokens: int
    epochs: int
    warmup_steps: int
    reasons: tuple[str, ...]

    def sections(self) -> dict[str, Any]:
        """Return the sections of a recipe that these sizes determine."""
        size = self.model.hidden
        return {
            "model": {
                "embedding_size": self.model.embedding,
                "encoder": {"size": size},
                "decoder": {"size": size, "attention": {"size": size}},
                "dropout": self.model.dropout,
            },
            "optimizer": {
                "lr": self.model.lr,
                "schedule": {"warmup_steps": self.warmup_steps},
            },
        }


def choose_vocabulary(words: int) -> int:
    """Return the size of the vocabulary, a multiple of 100."""
    size = round(VOCABULARY * math.sqrt(words) / 100) * 100
    return min(MOST_TOKENS, max(FEWEST_TOKENS, size))


def choose_sizes(words: int, tokens: int, model: ModelSize | None = None) -> Sizes:
    """Choose all sizes.

    Args:
        words: Number of words of the training split.
        tokens: Number of source and target tokens of all training examples.
        model: Another model than that for the number of words, such as a smaller one.
    """
    chosen = model or next(size for size in MODELS if words <= size.words)
    vocabulary = choose_vocabulary(words)
    fitting = 2 ** round(math.log2(max(1, tokens) / STEPS_AN_EPOCH))
    batch = min(LARGEST_BATCH, max(SMALLEST_BATCH, fitting))
    steps = max(1, math.ceil(tokens / batch))
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(STEPS / steps)))
    warm_up = max(20, round(WARM_UP * epochs * steps))
    reasons = (
        f"vocabulary {vocabulary:,}: 8 x sqrt({words:,} words)",
        f"size {chosen.hidden}, dropout {chosen.dropout}: for {words:,} words of training",
        f"batches of {batch:,} tokens: about {steps:,} steps an epoch",
        f"at most {epochs} epochs: about {STEPS:,} steps, from {FEWEST_EPOCHS} to {MOST_EPOCHS}"
        " epochs; a validation after each stops what no longer improves",
        f"{warm_up} warm-up steps: {WARM_UP:.0%} of all",
    )
    return Sizes(vocabulary, chosen, batch, epochs, warm_up, reasons)


def smaller(model: ModelSize) -> ModelSize | None:
    """Return the next smaller model, or None."""
    place = MODELS.index(model)
    return MODELS[place - 1] if place else None
