"""Weights by their names in transformers.

A sinusoidal table of transformers has all sines, then all cosines, and Marian computes it when it
is loaded; ours alternates. So the D dimensions of every state are written in the order of
transformers: even ones, then odd ones. A sum, a norm and a product with the states are the same in
any order of D, if all weights have that order. The dimensions of heads and of the feed-forward
network's inner states keep theirs.

Shapes: D width, L positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dialog.export.formats.huggingface.native.classes import SIDES, SINUSOIDAL
from dialog.export.model_settings import transformer_settings
from dialog.models.positions import SinusoidalPositions
from dialog.models.seq2seq import Seq2Seq

READS = 1
WRITES = 0
"""Dimension of a weight that is the state's, in a layer that reads states, and in one that returns
them.
"""
PARTS = {
    "self_attention.query": ("self_attn.q_proj", READS),
    "self_attention.key": ("self_attn.k_proj", READS),
    "self_attention.value": ("self_attn.v_proj", READS),
    "self_attention.output": ("self_attn.out_proj", WRITES),
    "self_residual.norm": ("self_attn_layer_norm", WRITES),
    "cross_attention.query": ("encoder_attn.q_proj", READS),
    "cross_attention.key": ("encoder_attn.k_proj", READS),
    "cross_attention.value": ("encoder_attn.v_proj", READS),
    "cross_attention.output": ("encoder_attn.out_proj", WRITES),
    "cross_residual.norm": ("encoder_attn_layer_norm", WRITES),
    "feed_forward.0": ("fc1", READS),
    "feed_forward.3": ("fc2", WRITES),
    "feed_residual.norm": ("final_layer_norm", WRITES),
}
"""Name of each part of a layer in transformers."""
SHARED = "model.shared.weight"
TABLES = {
    "source_embedding.table": (SHARED, "model.encoder.embed_tokens.weight"),
    "target_embedding.table": ("model.decoder.embed_tokens.weight",),
    "head": ("lm_head.weight",),
    **{f"{side}.positions.table": (f"model.{side}.embed_positions.weight",) for side in SIDES},
}
"""Names of each table in transformers."""


def renamed(model: Seq2Seq, positions: int) -> dict[str, Tensor]:
    """Return copies of all weights by their names in transformers, with the dimensions of states in
    its order.

    A shared table is listed under each of its names. Sinusoidal tables have ``positions`` rows.
    """
    size, vocabulary = (int(model.arguments[key]) for key in ("embedding_size", "vocabulary"))
    sinusoidal = transformer_settings(model, "encoder").positions["name"] == SINUSOIDAL
    order = torch.arange(size)
    if sinusoidal:
        order = torch.cat([order[0::2], order[1::2]])  # [D]
    tensors = {"final_logits_bias": torch.zeros(1, vocabulary)}
    for name, tensor in model.state_dict().items():
        if name == "head.bias":
            tensors["final_logits_bias"] = tensor.clone().unsqueeze(0)  # [1, V]
        else:
            tensors |= {
                new: _reordered(tensor, dimension, order) for new, dimension in _new_names(name)
            }
    if sinusoidal:
        table = SinusoidalPositions(size)(torch.zeros(1, positions, size)).squeeze(0)  # [L, D]
        tensors |= {
            f"model.{side}.embed_positions.weight": table.index_select(1, order) for side in SIDES
        }
    return tensors


def _reordered(tensor: Tensor, dimension: int, order: Tensor) -> Tensor:
    """Return a copy with a dimension in a new order; the bias of a layer that reads states has no
    such dimension.
    """
    return tensor.index_select(dimension, order) if dimension < tensor.dim() else tensor.clone()


def _new_names(name: str) -> Iterator[tuple[str, int]]:
    """Yield the names of a weight in transformers, and its dimension of the state."""
    module, _, kind = name.rpartition(".")
    if module in TABLES:
        yield from ((table, READS) for table in TABLES[module])
        return
    side, _, part = module.partition(".")
    if part == "norm":
        yield f"model.{side}.layer_norm.{kind}", WRITES
        return
    layers, number, part = part.split(".", 2)
    new, dimension = PARTS[part]
    yield f"model.{side}.{layers}.{number}.{new}.{kind}", dimension
