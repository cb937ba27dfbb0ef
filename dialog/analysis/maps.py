"""The attention of every layer and head, by the names of the modules.

Shapes: B rows, H heads, T target tokens, S source tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.models.seq2seq import Seq2Seq


class AttentionMap(NamedTuple):
    """What one attention module looked at."""

    name: str
    kind: str  # "self" or "cross"
    side: str  # "source" or "target": whose tokens the rows are
    weights: Tensor  # [B, H, T, S]; rows sum to 1 over real tokens


def attention_maps(model: Seq2Seq, source: Tensor, source_mask: Tensor, target: Tensor) -> list[AttentionMap]:
    """All maps of a forward pass in their order; row t of a cross map is for the token after target t."""
    names = {module: name for name, module in model.named_modules()}
    maps: list[AttentionMap] = []

    def keep(module: torch.nn.Module, weights: Tensor) -> None:
        name = names[module]
        side = "source" if name.startswith("encoder.") else "target"
        kind = "self" if name.endswith("self_attention") else "cross"
        maps.append(AttentionMap(name, kind, side, weights.detach()))

    with torch.no_grad():
        model(source, source_mask, target, keep)
    return maps


def as_json(maps: list[AttentionMap], row: int, source: list[str], target: list[str]) -> dict[str, Any]:
    """One row's maps with the readable tokens on their axes; padding is cut off.

    ``target`` are the tokens that are said, without the one that begins a response.
    """
    sizes = {"source": len(source), "target": len(target)}
    return {
        "context_tokens": source,
        "response_tokens": target,
        "maps": [
            {"name": each.name, "kind": each.kind, "side": each.side, "weights": cut(each, row, sizes).tolist()}
            for each in maps
        ],
    }


def cut(each: AttentionMap, row: int, sizes: dict[str, int]) -> Tensor:
    """A map's real part [H, T, S]."""
    columns = sizes["source"] if each.kind == "cross" else sizes[each.side]
    return each.weights[row, :, : sizes[each.side], :columns].float().cpu()
