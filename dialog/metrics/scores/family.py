"""The standard metrics of every evaluation, without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.errors import UserError
from dialog.metrics.scores.bleu import BLEUScore, SacreBLEUScore
from dialog.metrics.scores.chrf import ChrFScore
from dialog.metrics.scores.diversity import (
    DistinctNScore,
    DullnessScore,
    EntropyScore,
    ExpectationAdjustedDistinctScore,
    LengthMeanScore,
    UniqueRatioScore,
)
from dialog.metrics.scores.likelihood import (
    BitsPerByteScore,
    HitsScore,
    NegativeLogLikelihoodScore,
    PerplexityTokenScore,
    PerplexityWordScore,
    TokenAccuracyScore,
    UnknownRatioScore,
)
from dialog.metrics.scores.overlap import F1Score, PlatoBLEUScore, RougeLScore
from dialog.metrics.scores.repetition import RepetitionScore, SelfBLEUScore, TrainCopyRatioScore
from dialog.metrics.words import UNDETERMINED

SCORES: Family[Any] = Family(
    "metric",
    {
        "bits_per_byte": BitsPerByteScore,
        "perplexity_token": PerplexityTokenScore,
        "perplexity_word": PerplexityWordScore,
        "nll_nats": NegativeLogLikelihoodScore,
        "token_accuracy": TokenAccuracyScore,
        "unknown_ratio": UnknownRatioScore,
        "f1": F1Score,
        "sacrebleu": SacreBLEUScore,
        "bleu": BLEUScore,
        "bleu_plato": PlatoBLEUScore,
        "chrf": ChrFScore,
        "rouge_l": RougeLScore,
        "distinct": DistinctNScore,
        "ead": ExpectationAdjustedDistinctScore,
        "entropy": EntropyScore,
        "unique_ratio": UniqueRatioScore,
        "dullness": DullnessScore,
        "self_bleu": SelfBLEUScore,
        "repetition": RepetitionScore,
        "train_copy_ratio": TrainCopyRatioScore,
        "hits_1_of_20": HitsScore,
        "length_mean": LengthMeanScore,
    },
    runtime=("language",),
)

ORDERS = {
    **{"bleu": (1, 2, 3, 4), "bleu_plato": (1, 2)},
    **{"distinct": (1, 2), "ead": (1, 2), "entropy": (1, 2), "repetition": (3,)},
}
"""The n of the standard metrics of n-grams."""


def _standard() -> Iterator[Component]:
    for name in SCORES:
        if name in ORDERS:
            yield from ({"name": name, "n": n} for n in ORDERS[name])
        else:
            yield {"name": name}


STANDARD: tuple[Component, ...] = tuple(_standard())
"""The metrics of every evaluation."""


def components_of(components: Sequence[Component]) -> dict[str, Component]:
    """Return the components of the standard metrics, then of those that a recipe adds, by their key
    in metrics.json.

    A metric with the key of a standard one replaces it.

    Raises:
        UserError: two metrics of one key.
    """
    added: dict[str, Component] = {}
    for component in components:
        if key(component) in added:
            raise UserError(
                f"{component['name']}: listed twice; remove one, or give them different numbers"
            )
        added[key(component)] = component
    return {key(component): component for component in STANDARD} | added


def build_scores(
    components: Sequence[Component] = (), *, language: str = UNDETERMINED
) -> dict[str, Any]:
    """Build the standard metrics without torch, by their key in metrics.json.

    Args:
        components: Components with names of `SCORES`, which replace standard ones.
        language: Language of the references, as `detect_language` returns it.
    """
    return {
        name: build(SCORES, component, language=language)
        for name, component in components_of(components).items()
    }


def key(component: Component) -> str:
    """Return the key of a metric in metrics.json: its name, without the module, and its whole
    numbers: distinct_2.
    """
    name, arguments = name_and_arguments(component)
    numbers = [
        str(value)
        for value in arguments.values()
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    return "_".join([name.rpartition(".")[2], *numbers])
