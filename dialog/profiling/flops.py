"""What a forward pass costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from dialog.models.seq2seq import Seq2Seq


def forward_flops(model: Seq2Seq, source_length: int, target_length: int) -> int:
    """FLOPs of one source and target under teacher forcing: 2 for each multiplication of its matrix products.

    Counted while it runs on a CPU, attention by its formula, so that it holds for any network; what is done number by
    number is left out.
    """
    source = torch.ones(1, source_length, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=FUSED) as counter:
        model(source, source > 0, torch.ones(1, target_length, dtype=torch.int64), lambda *_: None)
    return int(counter.get_total_flops())


def training_flops(model: Seq2Seq, source_length: int, target_length: int) -> int:
    """FLOPs of a forward and a backward pass: each product has two in return, for either factor's gradient.

    Where a recurrent layer begins with zeros, which take no gradient, this is one step's product too many. What
    activation checkpointing computes again is not counted: it is no work that the result needs.
    """
    return 3 * forward_flops(model, source_length, target_length)


Shape = Sequence[int]


def lstm_flops(inputs: Shape, weight: Shape, recurrent: Shape, *_: object, out_shape: object = None) -> int:
    """Inputs [B, T, I] in either order, weights [4 D, I] and [4 D, D]: two products at each step."""
    return 2 * inputs[0] * inputs[1] * weight[0] * (weight[1] + recurrent[1])


FUSED: dict[Any, Any] = {torch.ops.aten.mkldnn_rnn_layer: lstm_flops}
"""The kernel of a CPU that torch does not count."""
