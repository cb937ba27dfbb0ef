"""The metrics of an evaluation: the standard ones, and those that a recipe adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from torch import Tensor
from torchmetrics import Metric

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.errors import UserError
from dialog.metrics.bleu import BLEU, SacreBLEU
from dialog.metrics.chrf import ChrF
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
from dialog.metrics.measurement import INPUTS, Measurement, arguments_of
from dialog.metrics.overlap import F1, PlatoBLEU, RougeL
from dialog.metrics.parlai_sets import ParlaiSets
from dialog.metrics.repetition import Repetition, SelfBLEU, TrainCopyRatio
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

ORDERS = {
    **{"bleu": (1, 2, 3, 4), "bleu_plato": (1, 2)},
    **{"distinct": (1, 2), "ead": (1, 2), "entropy": (1, 2), "repetition": (3,)},
}
"""The n of the standard metrics of n-grams."""
ADDED = {"parlai_sets", "meteor", "embedding_average", "bert_score", "mauve"}
"""Metrics that are measured if a recipe adds them."""


def _standard() -> Iterator[Component]:
    for name in METRICS:
        if name in ORDERS:
            yield from ({"name": name, "n": n} for n in ORDERS[name])
        elif name not in ADDED:
            yield {"name": name}


STANDARD: tuple[Component, ...] = tuple(_standard())
"""The metrics of every evaluation."""
UNDEFINED = "undefined or infinite for these responses"
"""Reason for which a metric without a finite value is absent from metrics.json."""
NESTED = ("sacrebleu",)
"""Metrics that metrics.json has as score and signature; it has the other metrics as numbers."""


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


def results(measurement: Measurement) -> dict[str, Any]:
    """Return the metrics as JSON, with their `signatures`; `left_out` has the reasons for those
    that are absent.
    """
    values = {name: _plain(value) for name, value in measurement.values().items()}
    undefined = {
        name: UNDEFINED
        for name, value in values.items()
        if isinstance(value, float) and not isfinite(value)
    }
    values = {name: value for name, value in values.items() if name not in undefined}
    measured = {name: metric for name, metric in measurement.metrics.items() if name in values}
    signatures = {
        name: metric.signature for name, metric in measured.items() if hasattr(metric, "signature")
    }
    nested = {
        name: {"score": values[name], "signature": signatures[name]}
        for name in NESTED
        if name in signatures
    }
    return {
        **values,
        **nested,
        "signatures": signatures,
        "left_out": measurement.left_out | undefined,
    }


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


def _plain(value: object) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
