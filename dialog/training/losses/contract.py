"""What a loss promises, and what it may ask for.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from dialog.config.components import Component, Family, build, import_part, name_and_arguments, parameters, resolve


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    objective: Tensor  # [], what training lowers
    nll: Tensor  # [], -log p(target), never smoothed: what is compared


Loss = Callable[..., LossSums]
"""Logits [N, V] and targets [N], padding already left out, to sums.

A loss may also name ``previous`` [N, T] (the target tokens before each in its response, padding elsewhere) and
``again`` [N, V] (the logits of a second pass with other dropout), and is given what it names. It sees the tokens in
chunks, so what it gives for many must be the sum of what it gives for each.
"""


CALL: Family[LossSums] = Family("loss", {}, runtime=("logits", "targets", "previous", "again"))
"""What a loss function is called with."""


def build_loss(table: Family[Loss], component: Component, *, padding: int) -> Loss:
    """A loss of the table, or of a dotted name: of a class that makes one, or of a function that is one."""
    name, arguments = name_and_arguments(component)
    if "." in name and "logits" in parameters(found := import_part(name), name):
        resolve(CALL, component, logits=None, targets=None, previous=None, again=None)  # checks the arguments
        return partial(found, **arguments)
    return build(table, component, padding=padding)


def asks(loss: Loss, name: str) -> bool:
    """Whether the call of a loss names something."""
    return name in inspect.signature(getattr(loss, "forward", loss)).parameters


def given(loss: Loss, **offered: Tensor) -> dict[str, Tensor]:
    """What is offered and the loss names."""
    return {name: value for name, value in offered.items() if asks(loss, name)}


def at_least_float(logits: Tensor) -> Tensor:
    """Logits in float32 or better: sums over a vocabulary are never taken in half precision."""
    return logits if logits.dtype.itemsize >= 4 else logits.float()
