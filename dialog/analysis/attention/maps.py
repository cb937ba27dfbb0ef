"""Attention maps of every layer and head, named by their modules.

Shapes: B rows, H heads, T target tokens, S source tokens, U turns of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dialog.data.tokenizers.labels import joined_labels
from dialog.models.hierarchical import turn_numbers
from dialog.models.recurrence.mixers.mixer import Mixer
from dialog.models.seq2seq import Seq2Seq


class AttentionMap(NamedTuple):
    """Weights of one attention module."""

    name: str
    kind: str  # "self" or "cross"
    side: str  # rows: tokens of the "source" or "target", or "turns" of the source
    columns: str  # the same for the columns
    weights: Tensor  # [B, H, T, S]; rows sum to 1 over real tokens
    network: str = ""  # beginning of the name: the network of an ensemble, such as "networks.0."

    @property
    def part(self) -> str:
        """Name of the module within its network."""
        return self.name.removeprefix(self.network)


def attention_maps(
    model: Seq2Seq, source: Tensor, source_mask: Tensor, target: Tensor
) -> list[AttentionMap]:
    """Return the maps of one forward pass, in order; row t of a cross-attention map predicts target
    t + 1.

    If the encoder is hierarchical, each cross-attention map is followed by its sums over turns. The
    maps of an ensemble are those of its first network, then those of the next one.
    """
    names = {module: name for name, module in model.named_modules()}
    recorded: list[tuple[torch.nn.Module, Tensor]] = []

    def record(module: torch.nn.Module, weights: Tensor) -> None:
        recorded.append((module, weights.detach()))

    maps: list[AttentionMap] = []
    for network in model.members:
        recorded.clear()
        with torch.no_grad():
            memory, state = network.start(source, source_mask, record)
            network.decode(target, memory, state, record)  # without the head
        turns = (
            turn_numbers(source, network.turn_tokens).masked_fill(~source_mask, 0)
            if network.needs_turns
            else None
        )
        prefix = f"{names[network]}." if names[network] else ""
        for module, weights in recorded:
            name = names[module]
            part = name.removeprefix(prefix)
            side = "source" if part.startswith("encoder.") else "target"
            if part.startswith("encoder.turns."):
                side = "turns"
            kind = "self" if is_self_attention(module, name) else "cross"
            columns = side if kind == "self" else "source"
            maps.append(AttentionMap(name, kind, side, columns, weights, prefix))
            if kind == "cross" and turns is not None:
                sums = sum_by_turn(weights, turns)
                maps.append(AttentionMap(f"{name}.turns", kind, side, "turns", sums, prefix))
    return maps


def is_self_attention(module: torch.nn.Module, name: str) -> bool:
    """Return whether a module with this name shows weights of a sequence on itself: self-attention,
    or a mixer with the implicit weights of its recurrence.
    """
    return isinstance(module, Mixer) or name.endswith("self_attention")


def rollout(maps: Sequence[AttentionMap]) -> Tensor | None:
    """Return the rollout [B, T, S] of one forward pass, rows sum to 1; None without
    cross-attention.

    Abnar & Zuidema 2020, section 3:

        A' = (A + I) / 2       attention and residual connection; A is the mean over heads
        E  = product of A'     encoder
        R <- A' R              self-attention of the decoder, from R = 0
        R <- (R + C E) / 2     cross-attention C

    Each row of R is the part of a state that comes from each source token. Only the source's part
    is kept, and rows are divided by their sum. With
    recurrent layers, which have no weights between their states, the rollout is the cross-attention
    itself. The two parts of one attention over source and target (``decoder_only``) count like two
    attentions. Attention over whole turns (hierarchical encoders) is not followed. The rollout of
    an ensemble is the mean over its networks.
    """
    networks = dict.fromkeys(one.network for one in maps)
    rollouts = [
        _rollout_of_network([one for one in maps if one.network == name]) for name in networks
    ]
    followed = [one for one in rollouts if one is not None]
    return torch.stack(followed).mean(0) if followed else None


def _rollout_of_network(maps: Sequence[AttentionMap]) -> Tensor | None:
    """Return the rollout [B, T, S] of one network; None without cross-attention."""
    encoded: Tensor | None = None  # E; None: the identity
    reached: Tensor | None = None  # R; None: 0
    for attention in maps:
        if "turns" in (attention.side, attention.columns):
            continue
        mean = attention.weights.mean(1)
        if attention.side == "source":
            kept = (
                torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
                if encoded is None
                else encoded
            )
            encoded = (mean @ kept + kept) / 2  # [B, S, S]
        elif attention.kind == "cross":
            added = mean if encoded is None else mean @ encoded  # [B, T, S]
            reached = added / 2 if reached is None else (reached + added) / 2
        elif reached is not None:
            reached = (mean @ reached + reached) / 2
    if reached is None:
        return None
    return reached / reached.sum(-1, keepdim=True).clamp(min=torch.finfo(reached.dtype).tiny)


def sum_by_turn(weights: Tensor, turns: Tensor) -> Tensor:
    """Sum weights over the tokens of each turn: [B, H, T, S] and turn indices [B, S] ->
    [B, H, T, U].
    """
    sums = weights.new_zeros(*weights.shape[:-1], int(turns.max()) + 1)
    return sums.scatter_add(-1, turns[:, None, None].expand_as(weights), weights)  # [B, H, T, U]


def maps_with_tokens(
    maps: list[AttentionMap],
    row: int,
    source: list[str],
    target: list[str],
    turns: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the maps of one row of the batch with readable tokens on their axes, without padding.

    ``weights`` of each map are a float32 array [H, T, S]. ``target`` holds the predicted tokens,
    without the begin token. With ``turns``, the turn index of each source token, the result has
    ``context_turns`` too: the text of each turn.
    """
    tokens_of_turns: list[list[str]] = [[] for _ in range(max(turns, default=-1) + 1)]
    for token, turn in zip(source, turns, strict=bool(turns)):
        tokens_of_turns[turn].append(token)
    turn_texts = list(map(joined_labels, tokens_of_turns))
    sizes = {"source": len(source), "target": len(target), "turns": len(turn_texts)}
    return {
        "context_tokens": source,
        **({"context_turns": turn_texts} if turns else {}),
        "response_tokens": target,
        "maps": [
            {
                **{"name": name, "kind": kind, "side": side, "columns": columns},
                "weights": weights[row, :, : sizes[side], : sizes[columns]].float().cpu().numpy(),
            }
            for name, kind, side, columns, weights, _ in maps
        ],
    }


def rounded(weights: npt.NDArray[np.float32], digits: int) -> list[Any]:
    """Return weights as nested lists with so few decimals that their JSON is short."""
    nested: list[Any] = weights.astype(np.float64).round(digits).tolist()
    return nested


def turn_indices(model: Seq2Seq, source: Tensor, length: int) -> list[int]:
    """Return the turn index of each of the first `length` tokens of a source [S]; empty if all
    encoders are flat.
    """
    if not any(network.needs_turns for network in model.members):
        return []
    indices: list[int] = turn_numbers(source.unsqueeze(0), model.turn_tokens)[0, :length].tolist()
    return indices
