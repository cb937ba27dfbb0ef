"""The attention of every layer and head, by the names of the modules.

Shapes: B rows, H heads, T target tokens, S source tokens, U turns of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.models.hierarchical import turn_numbers
from dialog.models.seq2seq import Seq2Seq


class AttentionMap(NamedTuple):
    """What one attention module looked at."""

    name: str
    kind: str  # "self" or "cross"
    side: str  # what the rows are: tokens of the "source" or the "target", or "turns" of the source
    columns: str  # what the columns are
    weights: Tensor  # [B, H, T, S]; rows sum to 1 over real tokens


def attention_maps(model: Seq2Seq, source: Tensor, source_mask: Tensor, target: Tensor) -> list[AttentionMap]:
    """All maps of a forward pass in their order; row t of a cross map is for the token after target t.

    Where the encoder knows turns, each cross map is followed by its sums over them.
    """
    names = {module: name for name, module in model.named_modules()}
    turns = turn_numbers(source, model.turn_tokens).masked_fill(~source_mask, 0) if model.tells_turns else None
    maps: list[AttentionMap] = []

    def keep(module: torch.nn.Module, weights: Tensor) -> None:
        name = names[module]
        own = "turns" if name.startswith("encoder.turns.") else "source" if name.startswith("encoder.") else "target"
        kind = "self" if name.endswith("self_attention") else "cross"
        maps.append(AttentionMap(name, kind, own, own if kind == "self" else "source", weights.detach()))
        if kind == "cross" and turns is not None:
            maps.append(AttentionMap(f"{name}.turns", kind, own, "turns", by_turn(weights.detach(), turns)))

    with torch.no_grad():
        model(source, source_mask, target, keep)
    return maps


def by_turn(weights: Tensor, turns: Tensor) -> Tensor:
    """Weights [B, H, T, S] over tokens and the turn of each token [B, S] -> weights [B, H, T, U] over turns."""
    sums = weights.new_zeros(*weights.shape[:-1], int(turns.max()) + 1)
    return sums.scatter_add(-1, turns[:, None, None].expand_as(weights), weights)  # [B, H, T, U]


def as_json(
    maps: list[AttentionMap], row: int, source: list[str], target: list[str], turns: Sequence[int] = ()
) -> dict[str, Any]:
    """One row's maps with the readable tokens on their axes; padding is cut off.

    ``target`` are the tokens that are said, without the one that begins a response. With the number of each source
    token's turn there are ``context_turns`` too, each turn in one text.
    """
    said = [""] * (max(turns, default=-1) + 1)
    for token, turn in zip(source, turns, strict=bool(turns)):
        said[turn] += token.replace("▁", " ")
    sizes = {"source": len(source), "target": len(target), "turns": len(said)}
    return {
        "context_tokens": source,
        **({"context_turns": said} if turns else {}),
        "response_tokens": target,
        "maps": [
            {
                "name": each.name,
                "kind": each.kind,
                "side": each.side,
                "columns": each.columns,
                "weights": each.weights[row, :, : sizes[each.side], : sizes[each.columns]].float().cpu().tolist(),
            }
            for each in maps
        ],
    }


def turns_of(model: Seq2Seq, source: Tensor, length: int) -> list[int]:
    """The number of each token's turn in a source [S] of so many real tokens; none if the encoder knows no turns."""
    if not model.tells_turns:
        return []
    numbers: list[int] = turn_numbers(source.unsqueeze(0), model.turn_tokens)[0, :length].tolist()
    return numbers
