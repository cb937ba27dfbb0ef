"""``--metrics``: metrics of files of responses beside the standard ones."""

from __future__ import annotations

from collections.abc import Sequence

from dialog.analysis.measured import metrics_of
from dialog.comparison.decisions.looks import LOOKS
from dialog.comparison.grid.folder import Grid
from dialog.comparison.grid.responses import first_recipe
from dialog.config.components import Component
from dialog.config.trust import FULL_TRUST, Trust, TrustedName, imported_names
from dialog.config.yaml_layers import parse_value
from dialog.errors import UserError, section
from dialog.metrics.words import UNDETERMINED


def parse_metrics(texts: Sequence[str]) -> tuple[Component, ...]:
    """Parse values of ``--metrics``, each the inside of a recipe's list: ``meteor, {name: mauve,
    model: DIR}``.

    The caller names them, so those with a dot may be imported.

    Raises:
        UserError: no YAML, or no component.
    """
    components: list[Component] = []
    for text in texts:
        values = parse_value(f"--metrics {text}", f"[{text}]")
        if len(values) == 1 and isinstance(values[0], list):
            (values,) = values
        for value in values:
            component = {"name": value} if isinstance(value, str) else value
            if not isinstance(component, dict) or not isinstance(component.get("name"), str):
                raise UserError(
                    f"--metrics {text}: give names, or components such as {{name: distinct, n: 3}}"
                )
            components.append(component)
    return tuple(FULL_TRUST.allow(components))


def metrics_of_files(
    planned: Grid, current: Grid, requested: Sequence[str]
) -> tuple[Component, ...]:
    """Return the metrics of ``--metrics``; without it those of the folder.

    Raises:
        UserError: a recipe names the metrics, or the folder has results with others.
    """
    if not requested:
        return current.metrics
    if first := first_recipe(planned.contenders):
        raise UserError(
            f"--metrics: files have the metrics of {first.name}; for recipes, set metrics=[...]"
        )
    metrics = parse_metrics(requested)
    if metrics != current.metrics and (current.folder / LOOKS).is_file():
        raise UserError(
            f"--metrics: {current.folder} has results with other metrics; leave it out, or choose"
            " another --output"
        )
    return metrics


def check_metrics(components: Sequence[Component]) -> None:
    """Check metrics by building them.

    Raises:
        UserError: an unknown name, a missing model, or code whose import the caller has not
            allowed.
    """
    with section("--metrics"):
        metrics_of(components, UNDETERMINED)


def trust_of_metrics(components: Sequence[Component]) -> Trust:
    """Return the permission to import those metrics that the caller has allowed."""
    names = imported_names(list(components))
    return Trust(frozenset(name for name in names if isinstance(name, TrustedName)))
