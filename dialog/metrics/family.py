"""The metrics of an evaluation: the standard ones, and those that a recipe adds."""

from __future__ import annotations

from collections.abc import Sequence

from torchmetrics import Metric

from dialog.config.components import Component, Family, build
from dialog.errors import UserError
from dialog.metrics.diversity import (
    DistinctN,
    Dullness,
    Entropy,
    ExpectationAdjustedDistinct,
    LengthMean,
    UniqueRatio,
)
from dialog.metrics.likelihood import (
    BitsPerByte,
    Hits,
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    TokenAccuracy,
    UnknownRatio,
)
from dialog.metrics.meaning.bert_score import BertScore
from dialog.metrics.meaning.mauve import Mauve
from dialog.metrics.meaning.words import EmbeddingAverage, Meteor
from dialog.metrics.measurement import INPUTS, arguments_of
from dialog.metrics.overlap import BLEU, F1, ChrF, PlatoBLEU, RougeL, SacreBLEU
from dialog.metrics.parlai_sets import ParlaiSets
from dialog.metrics.repetition import Repetition, SelfBLEU, TrainCopyRatio
from dialog.metrics.scores.family import components_of
from dialog.metrics.words import UNDETERMINED

METRICS: Family[Metric] = Family(
    "metric",
    {
        "bits_per_byte": BitsPerByte,
        "perplexity_token": PerplexityToken,
        "perplexity_word": PerplexityWord,
        "nll_nats": NegativeLogLikelihood,
        "token_accuracy": TokenAccuracy,
        "unknown_ratio": UnknownRatio,
        "f1": F1,
        "sacrebleu": SacreBLEU,
        "bleu": BLEU,
        "bleu_plato": PlatoBLEU,
        "chrf": ChrF,
        "rouge_l": RougeL,
        "distinct": DistinctN,
        "ead": ExpectationAdjustedDistinct,
        "entropy": Entropy,
        "unique_ratio": UniqueRatio,
        "dullness": Dullness,
        "self_bleu": SelfBLEU,
        "repetition": Repetition,
        "train_copy_ratio": TrainCopyRatio,
        "hits_1_of_20": Hits,
        "length_mean": LengthMean,
        "parlai_sets": ParlaiSets,
        "meteor": Meteor,
        "embedding_average": EmbeddingAverage,
        "bert_score": BertScore,
        "mauve": Mauve,
    },
    runtime=("language",),
)


def build_metrics(
    components: Sequence[Component], *, language: str = UNDETERMINED
) -> dict[str, Metric]:
    """Build the standard metrics and those of a recipe, by their key in metrics.json.

    The metrics do not communicate: rank 0 has all responses.

    Args:
        components: Components of the family `metrics`; a name with a dot is any
            `torchmetrics.Metric`, whose `update` takes arguments of `INPUTS`.
        language: Language of the references, as `detect_language` returns it.

    Raises:
        UserError: unknown name or arguments, two metrics of one key, or no metric that takes these
            inputs.
    """
    return {
        name: _build(component, language) for name, component in components_of(components).items()
    }


def check_metrics(components: Sequence[Component]) -> None:
    """Check the metrics of a recipe by building them; the standard ones do not depend on it.

    Raises:
        UserError: as `build_metrics`.
    """
    components_of(components)
    for component in components:
        _build(component, UNDETERMINED)


def _build(component: Component, language: str) -> Metric:
    name = component.get("name")
    metric = build(METRICS, component, language=language)
    if not isinstance(metric, Metric):
        raise UserError(f"{name} is no torchmetrics.Metric; derive it from torchmetrics.Metric")
    if missing := sorted(
        {argument for argument, required in arguments_of(metric).items() if required} - set(INPUTS)
    ):
        raise UserError(
            f"{name}: update has unknown arguments {', '.join(missing)}; choose from"
            f" {', '.join(INPUTS)}"
        )
    metric.distributed_available_fn = _never
    return metric


def _never() -> bool:
    """Return False: no other process to synchronise with; `sync_on_compute` is read by the
    constructor only.
    """
    return False
