"""By what the best weights are told: a metric of the validation, and which way is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from dialog.errors import UserError

MONITORS: Mapping[str, str] = {
    "validation/loss": "min",
    "validation/perplexity": "min",
    "validation/bits_per_byte": "min",
    "validation/token_accuracy": "max",
}
"""Every metric that a validation logs, and whether its least or its greatest value is the best."""


class Monitor(NamedTuple):
    """A metric with its direction."""

    name: str
    mode: str

    @property
    def worst(self) -> float:
        """What every number is better than."""
        return math.inf if self.mode == "min" else -math.inf

    def better(self, value: float, than: float) -> bool:
        """Whether a value is a number and better than another."""
        return math.isfinite(value) and (value < than if self.mode == "min" else value > than)


BY_LOSS = Monitor("validation/loss", MONITORS["validation/loss"])


def monitor(name: str) -> Monitor:
    """The metric of a recipe's ``checkpoint.monitor``.

    Raises:
        UserError: with the names that there are.
    """
    if name not in MONITORS:
        raise UserError(f"no validation logs {name!r}; choose from {', '.join(MONITORS)}")
    return Monitor(name, MONITORS[name])
