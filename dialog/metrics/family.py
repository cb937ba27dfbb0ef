"""The metrics of an evaluation: the standard ones, and those that a recipe adds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torchmetrics import Metric, MetricCollection

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.errors import UserError
from dialog.metrics.diversity import DistinctN, LengthMean, UniqueRatio
from dialog.metrics.likelihood import (
    BitsPerByte,
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    TokenAccuracy,
    UnknownRatio,
)
from dialog.metrics.overlap import F1, SacreBLEU
from dialog.metrics.parlai_sets import ParlaiSets
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
        "distinct": DistinctN,
        "length_mean": LengthMean,
        "unique_ratio": UniqueRatio,
        "parlai_sets": ParlaiSets,
    },
    runtime=("language",),
)

STANDARD: tuple[Component, ...] = (
    *({"name": name} for name in METRICS if name not in ("distinct", "parlai_sets")),
    {"name": "distinct", "n": 1},
    {"name": "distinct", "n": 2},
)
"""The metrics of every evaluation."""

INPUTS = (
    *("responses", "references", "contexts", "preds", "target", "dialogues"),
    *("nll", "tokens", "correct", "words", "bytes", "unknown", "unknown_bytes"),
)
"""Names of the arguments that an evaluation passes to `update`; a metric receives those that it names.

`responses`, `references`, and for the metrics of torchmetrics the same as `preds` and `target`: raw text; `contexts`:
lists of turns; `dialogues`: ids of the dialogues. The others, one number per reference, are defined in `likelihood.py`.
"""


def build_metrics(components: Sequence[Component], *, language: str = UNDETERMINED) -> MetricCollection:
    """Build the standard metrics and those of a recipe, by their key in metrics.json.

    A metric with the key of a standard one replaces it. The metrics do not communicate: rank 0 has all responses.

    Args:
        components: Components of the family `metrics`; a name with a dot is any `torchmetrics.Metric`, whose `update`
            takes arguments of `INPUTS`.
        language: Language of the references, as `detect_language` returns it.

    Raises:
        UserError: unknown name or arguments, two metrics of one key, or no metric that takes these inputs.
    """
    metrics: dict[str, Metric | MetricCollection] = {}
    for component in components:
        if key(component) in metrics:
            raise UserError(f"{component['name']}: listed twice; remove one, or give them different numbers")
        metrics[key(component)] = _build(component, language)
    for component in STANDARD:
        if key(component) not in metrics:
            metrics[key(component)] = _build(component, language)
    return MetricCollection(metrics, compute_groups=False)


def key(component: Component) -> str:
    """Return the key of a metric in metrics.json: its name, without the module, and its whole numbers: distinct_2."""
    name, arguments = name_and_arguments(component)
    numbers = [str(value) for value in arguments.values() if isinstance(value, int) and not isinstance(value, bool)]
    return "_".join([name.rpartition(".")[2], *numbers])


def results(metrics: MetricCollection) -> dict[str, Any]:
    """Return the values as JSON: numbers, lists or dictionaries; with its signature if a metric has one."""
    values: dict[str, Any] = {}
    for name in sorted(map(str, metrics), key=_position):
        metric = metrics[name]
        value, signature = _plain(metric.compute()), getattr(metric, "signature", None)
        values[name] = value if signature is None else {"score": value, "signature": signature}
    return values


def _position(name: str) -> int:
    standard = [key(component) for component in STANDARD]
    return standard.index(name) if name in standard else len(standard)


def _build(component: Component, language: str) -> Metric:
    name = component.get("name")
    metric = build(METRICS, component, language=language)
    if not isinstance(metric, Metric):
        raise UserError(f"{name} is no torchmetrics.Metric; derive it from torchmetrics.Metric")
    arguments = inspect.signature(metric.update).parameters.values()
    required = {
        argument.name for argument in arguments if argument.default is argument.empty and argument.kind not in _VARIADIC
    }
    if missing := sorted(required - set(INPUTS)):
        raise UserError(f"{name}: update has unknown arguments {', '.join(missing)}; choose from {', '.join(INPUTS)}")
    metric.distributed_available_fn = _never
    return metric


def _never() -> bool:
    """Return that there are no other processes to sync with; `sync_on_compute` is read by the constructor only."""
    return False


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _plain(value: object) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
