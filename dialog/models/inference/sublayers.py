"""Sublayers of a Transformer prepared for generation, for rows [N, D] in float32."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.inference.products import HalfProduct, Product, product
from dialog.models.transformer.feed_forward import FeedForward, SwiGLU
from dialog.models.transformer.sublayers import Residual


def joined(layers: list[nn.Linear], int8: bool) -> Product:
    """Return one product for several layers with the same input."""
    has_bias = layers[0].bias is not None
    bias = torch.cat([layer.bias for layer in layers]) if has_bias else None
    return product(torch.cat([layer.weight for layer in layers]), bias, int8=int8)


def prepared_feed_forward(layer: nn.Module, int8: bool) -> Product:
    """Return a feed-forward network."""
    if isinstance(layer, SwiGLU):
        both = joined([layer.gate, layer.value], int8)
        output = product(layer.output.weight, int8=int8)

        def gated(rows: Tensor) -> Tensor:
            gate, value = both(rows).chunk(2, 1)
            return output(F.silu(gate).mul_(value))

        return gated
    assert isinstance(layer, FeedForward)
    first, activation, _, last = layer
    inner, outer = (joined([cast("nn.Linear", part)], int8) for part in (first, last))
    if isinstance(activation, nn.ReLU):
        # max(0, x) rounds nothing
        rectified = inner.half if isinstance(inner, HalfProduct) else inner
        return lambda rows: outer(rectified(rows).relu_())
    return lambda rows: outer(activation(inner(rows)))


def prepared_residual(residual: Residual) -> Callable[[Tensor, Product], Tensor]:
    """Return the norm and the sum around a sublayer."""
    norm = prepared_norm(residual.norm)
    if residual.norm_first:
        return lambda rows, sublayer: rows + sublayer(norm(rows))
    return lambda rows, sublayer: norm(rows + sublayer(rows))


def prepared_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a norm in float32, without the overhead of a module's call."""
    norm = deepcopy(norm).float()
    if isinstance(norm, nn.LayerNorm):
        sizes = norm.normalized_shape
        weight = norm.weight
        bias = norm.bias
        smallest = norm.eps
        return lambda rows: F.layer_norm(rows, sizes, weight, bias, smallest)
    return cast("Callable[[Tensor], Tensor]", norm.forward)
