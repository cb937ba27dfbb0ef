"""The contract of a loss.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from dialog.config.components import (
    Component,
    Family,
    build,
    import_part,
    name_and_arguments,
    resolve,
)
from dialog.errors import UserError


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    objective: Tensor  # [], to be minimised
    nll: Tensor  # [], -log p(target), never smoothed: comparable between losses


Loss = Callable[..., LossSums]
"""Map logits [N, V] and targets [N], without padding, to sums.

A loss lists its further inputs in an attribute ``needs``, a frozenset, and receives them by name:
``previous`` [N, T], the target tokens before each in its response, then padding; ``second_pass``
[N, V], the logits of a second pass with other dropout. Tokens come in chunks, so the sums of many
tokens must be the total of the sums of each.
"""

CALL: Family[LossSums] = Family(
    "loss", {}, runtime=("logits", "targets", "previous", "second_pass")
)
"""The inputs of a loss; the other arguments of a loss function are the recipe's."""


def needs_of(loss: Loss) -> frozenset[str]:
    """Return the inputs that a loss declares beside logits and targets."""
    declared: frozenset[str] = getattr(
        loss.func if isinstance(loss, partial) else loss, "needs", frozenset()
    )
    return declared


def build_loss(family: Family[Loss], component: Component, *, padding: int) -> Loss:
    """Build a loss of the family, or of a dotted name: a class is instantiated, a function is
    itself the loss.

    Raises:
        UserError: unknown name, invalid arguments, or an unknown input in ``needs``.
    """
    name, arguments = name_and_arguments(component)
    if "." in name and not isinstance(function := import_part(name), type):
        loss: Loss = partial(function, **arguments)
        resolve(
            CALL, component, logits=None, targets=None, **dict.fromkeys(_checked_needs(loss, name))
        )
        return loss
    loss = build(family, component, padding=padding)
    _checked_needs(loss, name)
    return loss


def _checked_needs(loss: Loss, name: str) -> frozenset[str]:
    if unknown := needs_of(loss) - CALL.runtime:
        raise UserError(
            f"{name}: needs: unknown {sorted(unknown)}; a loss may need 'previous' and"
            " 'second_pass'"
        )
    return needs_of(loss)
