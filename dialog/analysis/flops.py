"""FLOPs of forward and backward passes, and bytes of the state of generation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from dialog.errors import UserError
from dialog.models.kernels.private_operators import LINEAR, LSTM_KERNEL, operator_names
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import tensors_of


def forward_flops(model: Seq2Seq, source_length: int, target_length: int) -> int:
    """Return the FLOPs of one example under teacher forcing: 2 per multiplication of its matrix
    products.

    They are counted in a run on a CPU, with attention computed by its formula, so any network can
    be counted; element-wise operations are left out.
    """
    source = torch.ones(1, source_length, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=FUSED) as counter:
        model(source, source > 0, torch.ones(1, target_length, dtype=torch.int64), lambda *_: None)
    return int(counter.get_total_flops())


def training_flops(model: Seq2Seq, source_length: int, target_length: int) -> int:
    """Return the FLOPs of a forward and a backward pass: every product has two more, one per
    factor's gradient.

    One step too many is counted for a recurrent layer that starts from zeros, which have no
    gradient. Recomputation by activation checkpointing is not counted, since the result does not
    need it.
    """
    return 3 * forward_flops(model, source_length, target_length)


def state_bytes(model: Seq2Seq, source_length: int) -> int | None:
    """Return the bytes of memory and state that generation keeps for one source, in the weights'
    precision, after the first token of the response.

    Tensors that are kept twice, such as keys that are also values, count once. None if the network
    cannot read a source of that length, as with learned positions.
    """
    source = torch.ones(1, source_length, dtype=torch.int64)
    try:
        with torch.no_grad():
            memory, state = model.start(source, source > 0)
            _, state = model.step(source[:, :1], memory, state)
    except UserError:
        return None
    sizes = {
        tensor.data_ptr(): tensor.numel() * tensor.element_size()
        for tensor in tensors_of((memory, state))
        if tensor.is_floating_point()
    }
    return sum(sizes.values())


Shape = Sequence[int]


def lstm_flops(
    inputs: Shape, weight: Shape, recurrent: Shape, *_: object, out_shape: object = None
) -> int:
    """Return the FLOPs of inputs [B, T, I] or [T, B, I] with weights [4 D, I] and [4 D, D]: two
    products per step.
    """
    return 2 * inputs[0] * inputs[1] * weight[0] * (weight[1] + recurrent[1])


def linear_flops(inputs: Shape, weight: Shape, *_: object, out_shape: object = None) -> int:
    """Return the FLOPs of inputs [.., I] with weights [O, I]."""
    return 2 * prod(inputs) * weight[0]


FUSED: dict[Any, Any] = {
    name: flops
    for schema, flops in ((LSTM_KERNEL, lstm_flops), (LINEAR, linear_flops))
    for name in operator_names(schema)
}
"""Kernels that torch's FlopCounterMode does not count."""
