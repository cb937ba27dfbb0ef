"""Sizes of a hierarchical encoder that depend on the source: its number of turns U and of tokens in
a turn L.

torch.export traces the sizes of inputs as free numbers, but not sizes that are computed from data.
So the encoder is traced with an input ``grid`` [U, L], and with a further output that computes
[U, L] from the source. Then a tensor of that shape replaces the input.

Shapes: B rows, S source tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import INT64, ir, opset20
from torch import Tensor

from dialog.models.hierarchical import Fold, turn_numbers

GRID = "grid"
SHAPE = "turn_shape"
"""Names of the additional input and output."""


def turn_shape(
    source: Tensor, mask: Tensor, turn_tokens: tuple[int, ...], shape: tuple[int, int]
) -> Tensor:
    """Return [U, L] for sources [B, S] with mask [B, S]; ``shape`` is the same, as numbers that are
    traced.
    """
    fold = Fold.of(turn_numbers(source, turn_tokens), mask, shape)
    return torch.stack([fold.turns.max(), fold.places.max()]) + 1


def compute_turn_shape(program: torch.onnx.ONNXProgram) -> None:
    """Replace the input ``grid`` by a tensor of the computed shape."""
    graph = program.model.graph
    grid = next(value for value in graph.inputs if value.name == GRID)
    shape = next(value for value in graph.outputs if value.name == SHAPE)
    node = ir.Node("", "ConstantOfShape", [shape])
    ir.convenience.replace_all_uses_with(grid, node.outputs[0])
    graph.inputs.remove(grid)
    graph.outputs.remove(shape)
    graph.append(node)
    graph.sort()


def cummax(values: INT64, dim: int) -> tuple[Any, Any]:
    """Translate ``values.cummax(1)`` of numbers from 0 on [B, S], as `Fold` uses it; its indices
    are not used.
    """
    op: Any = opset20
    assert dim == 1
    length = op.Shape(values, start=1, end=2)
    square = op.Expand(op.Constant(value_ints=[1]), op.Concat(length, length, axis=0))
    earlier = op.Trilu(square, upper=0)  # [S, S]
    rows = op.Unsqueeze(values, op.Constant(value_ints=[1]))  # [B, 1, S]
    largest = op.ReduceMax(op.Mul(rows, earlier), op.Constant(value_ints=[2]), keepdims=0)  # [B, S]
    return largest, largest


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {torch.ops.aten.cummax.default: cummax}
"""Operators that torch.onnx lacks."""
