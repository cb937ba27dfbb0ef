"""Attention maps of a batch with their axes, and the sums of their statistics.

Shapes: B rows, H heads, T target tokens, S source tokens, U turns of the source, K kinds, N gold
    links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dialog.analysis.attention.maps import AttentionMap, attention_maps, rollout
from dialog.analysis.attention.sums import (
    Axes,
    Sum,
    alignment_sums,
    coverage_sums,
    kind_sums,
    row_sums,
    similarities,
    turn_sums,
)
from dialog.analysis.attention.token_kinds import MASSES, TokenKinds
from dialog.data.tokenizers.tokenizer import OTHER, PAD, SELF
from dialog.models.hierarchical import turn_numbers
from dialog.models.seq2seq import Seq2Seq

MEAN = "mean"
ROLLOUT = "rollout"
UNIFORM = "uniform"
"""Maps that are no module: the mean of all cross-attention heads, see `rollout`, and equal weights
on all tokens.
"""


class Examples(NamedTuple):
    """A batch of examples, and what is known of their sources."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    # [B, S], the source with a role where each turn begins, if it differs from that
    with_roles: Tensor | None = None
    # from target to source positions, see `dialog.data.gold_alignment`
    gold: Sequence[Mapping[int, int]] = ()


class BatchMaps:
    """Attention maps of one batch, with their axes."""

    def __init__(self, model: Seq2Seq, batch: Examples, kinds: TokenKinds) -> None:
        device = next(model.parameters()).device
        source = batch.source.to(device)
        target = batch.target.to(device)
        inputs = target[:, :-1]
        self.columns = source != PAD  # [B, S]
        self.rows = target[:, 1:] != PAD  # [B, T]
        maps = attention_maps(model, source, self.columns, inputs)
        self.module_maps = [  # not those that only sum another one over turns
            attention
            for attention in maps
            if (attention.kind, attention.columns) != ("cross", "turns")
        ]
        self.cross_maps = [attention for attention in self.module_maps if attention.kind == "cross"]
        with_roles = source if batch.with_roles is None else batch.with_roles.to(device)
        # [B, S]
        self.turns = turn_numbers(with_roles, (OTHER, SELF)).masked_fill(~self.columns, -1)
        self.source_kinds = kinds.indicators(with_roles, self.columns)  # [B, S, K]
        self.target_kinds = kinds.indicators(inputs, self.rows)  # [B, T, K]
        self.response_tokens = int(self.rows.sum()) - len(source)
        links = [(row, *link) for row, gold in enumerate(batch.gold) for link in gold.items()]
        self.gold = torch.tensor(links, dtype=torch.long, device=device).reshape(-1, 3)  # [N, 3]

    def maps(self) -> list[tuple[str, Tensor, Axes]]:
        """Return name, weights [B, H, T, S] and axes of each map, with the maps that are no module
        at the end.
        """
        maps = [
            (attention.name, attention.weights, self._axes(attention))
            for attention in self.module_maps
        ]
        if not self.cross_maps:
            return maps
        # [B, S]
        uniform = self.columns.to(maps[0][1].dtype) / self.columns.sum(1, keepdim=True).clamp(min=1)
        summaries = {
            **self.summaries(),
            UNIFORM: uniform[:, None, None].expand(-1, 1, self.rows.shape[1], -1),
        }
        axes = self._axes(self.cross_maps[0])
        return maps + [(name, weights, axes) for name, weights in summaries.items()]

    def crosses(self) -> dict[str, Tensor]:
        """Return the weights [B, H, T, S] of all cross-attention, with the maps that
        summarise it.
        """
        modules = {attention.name: attention.weights for attention in self.cross_maps}
        return {**modules, **self.summaries()} if modules else {}

    def summaries(self) -> dict[str, Tensor]:
        """Return mean and rollout, [B, 1, T, S] each, of a model with cross-attention."""
        heads = torch.cat([attention.weights for attention in self.cross_maps], 1)
        followed = rollout(self.module_maps)
        assert followed is not None
        return {MEAN: heads.mean(1, keepdim=True), ROLLOUT: followed.unsqueeze(1)}

    def sums(
        self, name: str, weights: Tensor, axes: Axes, *, by_turn: bool = True
    ) -> dict[str, Sum]:
        """Return the sums of all statistics that are defined for a map; equal weights have no
        alignment.
        """
        sums = row_sums(weights, axes.rows, axes.visible)
        if axes.kinds is not None:
            sums |= kind_sums(weights, axes.rows, axes.kinds, MASSES)
        if axes.turns is not None:
            sums |= turn_sums(weights, axes.rows, axes.turns) if by_turn else {}
            sums |= coverage_sums(weights, axes.rows, self.columns)
            if len(self.gold) and name != UNIFORM:
                sums |= alignment_sums(weights, self.gold, self.response_tokens)
        return sums

    def similarities(self) -> dict[str, tuple[list[str], Sum]]:
        """Return the names of the heads and the sums of their cosines [H, H] for each kind of
        map.
        """
        groups: dict[str, list[AttentionMap]] = {}
        for attention in self.module_maps:
            groups.setdefault(f"{attention.kind}-attention of the {attention.side}", []).append(
                attention
            )
        return {
            group: (
                [
                    f"{attention.name}.{head}"
                    for attention in maps
                    for head in range(attention.weights.shape[1])
                ],
                similarities(
                    torch.cat([attention.weights for attention in maps], 1),
                    self._axes(maps[0]).rows,
                ),
            )
            for group, maps in groups.items()
        }

    def _axes(self, attention: AttentionMap) -> Axes:
        if attention.kind == "cross":
            visible = self.columns.sum(1, keepdim=True).expand_as(self.rows)  # [B, T]
            return Axes(self.rows, visible, self.source_kinds, self.turns)
        if attention.side == "target":
            visible = torch.arange(1, self.rows.shape[1] + 1, device=self.rows.device).expand_as(
                self.rows
            )
            return Axes(self.rows, visible, self.target_kinds)
        if attention.side == "turns":
            number = self.turns.amax(1, keepdim=True) + 1  # [B, 1]
            real = torch.arange(attention.weights.shape[2], device=number.device) < number  # [B, U]
            return Axes(real, number.expand_as(real))
        if attention.part.startswith("encoder.tokens."):  # of a hierarchical encoder, within turns
            same = self.turns.unsqueeze(2) == self.turns.unsqueeze(1)  # [B, S, S]
            return Axes(self.columns, same.sum(2), self.source_kinds)
        return Axes(
            self.columns,
            self.columns.sum(1, keepdim=True).expand_as(self.columns),
            self.source_kinds,
        )
