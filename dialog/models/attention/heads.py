"""Heads of multi-head attention, and their removal.

Shapes: B rows, H heads, D width, W width of a head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dialog.config.components import hint
from dialog.errors import UserError


class HeadSlices(NamedTuple):
    """Linear layer on one side of which the outputs, or the values, of H heads lie side by side.

    An attention with several heads has it as ``head_slices``, a scorer as ``head_output``.
    """

    linear: nn.Linear
    heads: int
    inputs: (
        # True: the layer reads the outputs of the heads, [.., H W]; False: it computes their
        # values, [.., H W]
        bool
    )

    def weights(self, head: int) -> list[Tensor]:
        """Return views of the parameters that belong to one head alone."""
        tensors = [self.linear.weight.T] if self.inputs else list(self.linear.parameters())
        return [torch.unflatten(tensor, 0, (self.heads, -1))[head] for tensor in tensors]

    def scaled(self, states: Tensor, scale: Tensor) -> Tensor:
        """Multiply each head's part of states [R, T, H W] by scale [B, H], with R / B rows of
        states per row of it.
        """
        rows = scale.repeat_interleave(len(states) // len(scale), 0)  # [R, H]
        # [R, T, H, W]
        scaled: Tensor = torch.unflatten(states, -1, (self.heads, -1)) * rows[:, None, :, None]
        return scaled.flatten(-2)


def heads_of(model: nn.Module) -> dict[str, HeadSlices]:
    """Return the attention modules whose heads can be removed one by one, by name."""
    slices = {name: getattr(module, "head_slices", None) for name, module in model.named_modules()}
    return {name: one for name, one in slices.items() if one is not None}


def head_names(model: nn.Module) -> list[str]:
    """Return ``module.head`` of every head that can be removed, in the order of the modules."""
    return [
        f"{name}.{head}" for name, slices in heads_of(model).items() for head in range(slices.heads)
    ]


def remove_heads(model: nn.Module, heads: Sequence[str]) -> None:
    """Remove heads, named ``module.head``, by setting their weights to 0.

    The output of a head is then 0, as in ``output([head_1; ...; 0; ...; head_H])``: exactly a mask
    of 0 on that head (Michel et al. 2019, 2.2), without any code in the forward pass. For joins by
    mean or maximum, the values of the head are 0 and it still counts as a head. The bias of the
    output layer stays.

    Raises:
        UserError: a head is unknown.
    """
    with torch.no_grad():
        for view in _views(model, heads):
            view.zero_()


@contextmanager
def without_heads(model: nn.Module, heads: Sequence[str]) -> Iterator[None]:
    """Remove heads within the block, and restore their weights after it."""
    views = _views(model, heads)
    kept = [view.clone() for view in views]
    remove_heads(model, heads)
    try:
        yield
    finally:
        with torch.no_grad():
            for view, values in zip(views, kept, strict=True):
                view.copy_(values)


def _views(model: nn.Module, heads: Sequence[str]) -> list[Tensor]:
    """Return the weights of heads."""
    attentions = heads_of(model)
    names = head_names(model)
    if heads and not names:
        raise UserError(
            f"head {heads[0]!r}: the model has no multi-head attention, whose heads could be"
            " removed"
        )
    views = []
    for head in heads:
        if head not in names:
            choices = (f"{name}.0-{one.heads - 1}" for name, one in attentions.items())
            raise UserError(f"unknown head {head!r}{hint(head, choices)}")
        name, _, number = head.rpartition(".")
        views += [view.detach() for view in attentions[name].weights(int(number))]
    return views
