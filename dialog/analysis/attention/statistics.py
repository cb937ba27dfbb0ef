"""Statistics of attention over a split, per layer and head.

Shapes: B rows, H heads, T target tokens, S source tokens, U turns of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.analysis.attention.maps import AttentionMap, attention_maps
from dialog.analysis.attention.rollout import rollout
from dialog.analysis.attention.sums import (
    Axes,
    Sum,
    Totals,
    alignment_sums,
    coverage_sums,
    kind_sums,
    row_sums,
    similarities,
    turn_sums,
)
from dialog.analysis.attention.token_kinds import KINDS, TokenKinds
from dialog.data.tokenizers.tokenizer import OTHER, PAD, SELF
from dialog.models.hierarchical import turn_numbers
from dialog.models.seq2seq import Seq2Seq

MEAN, ROLLOUT, UNIFORM = "mean", "rollout", "uniform"
"""Rows that are no module: the mean of all cross-attention heads, see `rollout`, and equal weights on all tokens."""


class Examples(NamedTuple):
    """A batch of examples, and what is known of their sources."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    with_roles: Tensor | None = None  # [B, S], the source with a role where each turn begins, if it differs from that
    gold: Sequence[Mapping[int, int]] = ()  # from target to source positions, see `dialog.data.gold_alignment`


def statistics(model: Seq2Seq, batches: Iterable[Examples], kinds: TokenKinds) -> dict[str, Any]:
    """Return the statistics of each head of each attention module under teacher forcing, as JSON.

    ``rows`` has a dict of means per head: ``module``, ``head``, and the statistics of `sums`, None where one is not
    defined. Cross-attention has all of them, self-attention only those that need no response. The rows `MEAN` and
    `ROLLOUT` are maps that are made of all heads; `UNIFORM` is what equal weights would give. ``similarity`` has the
    mean cosine of the rows of each pair of heads of the same kind. One pass over the batches, whose memory does not
    grow with their number; sums are float64. ``rows`` is empty for a model without attention.
    """
    totals: dict[str, Totals] = {}
    pairs: dict[str, Totals] = {}
    heads: dict[str, list[str]] = {}
    examples = tokens = 0
    training = model.training
    model.eval()
    for batch in batches:
        seen = BatchMaps(model, batch, kinds)
        examples += len(batch.source)
        tokens += int((batch.target[:, 1:] != PAD).sum())
        for name, weights, axes in seen.maps():
            totals.setdefault(name, Totals()).add(seen.sums(weights, axes))
        for group, (names, similarity) in seen.similarities().items():
            heads[group] = names
            pairs.setdefault(group, Totals()).add({"similarity": similarity})
    model.train(training)
    matrices = {group: _matrix(total) for group, total in pairs.items()}
    own = {
        name: (sum(matrix[place]) - matrix[place][place]) / (len(matrix) - 1) if len(matrix) > 1 else None
        for group, matrix in matrices.items()
        for place, name in enumerate(heads[group])
    }
    rows = [
        {"module": module, "head": head, **means, "similarity": own.get(f"{module}.{head}")}
        for module, total in totals.items()
        for head, means in enumerate(total.means())
    ]
    return {
        "examples": examples,
        "target_tokens": tokens,
        "rows": rows,
        "similarity": [
            {"kind": group, "heads": heads[group], "matrix": matrix}
            for group, matrix in matrices.items()
            if len(matrix) > 1
        ],
    }


class BatchMaps:
    """Attention maps of one batch, with their axes."""

    def __init__(self, model: Seq2Seq, batch: Examples, kinds: TokenKinds) -> None:
        device = next(model.parameters()).device
        source, target = batch.source.to(device), batch.target.to(device)
        inputs = target[:, :-1]
        self.columns = source != PAD  # [B, S]
        self.rows = target[:, 1:] != PAD  # [B, T]
        self.own = [one for one in attention_maps(model, source, self.columns, inputs) if not _is_summed(one)]
        with_roles = source if batch.with_roles is None else batch.with_roles.to(device)
        self.turns = turn_numbers(with_roles, (OTHER, SELF)).masked_fill(~self.columns, -1)  # [B, S]
        self.source_kinds = kinds.indicators(with_roles, self.columns)  # [B, S, K]
        self.target_kinds = kinds.indicators(inputs, self.rows)  # [B, T, K]
        self.response_tokens = int(self.rows.sum()) - len(source)
        links = [(row, *link) for row, gold in enumerate(batch.gold) for link in gold.items()]
        self.gold = torch.tensor(links, dtype=torch.long, device=device).reshape(-1, 3)  # [N, 3]

    def maps(self) -> list[tuple[str, Tensor, Axes]]:
        """Return name, weights [B, H, T, S] and axes of each map, with the maps that are no module at the end."""
        maps = [(one.name, one.weights, self._axes(one)) for one in self.own]
        crosses = [one for one in self.own if one.kind == "cross"]
        if not crosses:
            return maps
        cross = self._axes(crosses[0])
        heads = torch.cat([one.weights for one in crosses], 1)
        uniform = self.columns.to(heads.dtype) / self.columns.sum(1, keepdim=True).clamp(min=1)  # [B, S]
        followed = rollout(self.own)
        assert followed is not None
        return [
            *maps,
            (MEAN, heads.mean(1, keepdim=True), cross),
            (ROLLOUT, followed.unsqueeze(1), cross),
            (UNIFORM, uniform[:, None, None].expand(-1, 1, self.rows.shape[1], -1), cross),
        ]

    def sums(self, weights: Tensor, axes: Axes) -> dict[str, Sum]:
        """Return the sums of all statistics that are defined for a map."""
        sums = row_sums(weights, axes.rows, axes.visible)
        if axes.kinds is not None:
            sums |= kind_sums(weights, axes.rows, axes.kinds, KINDS)
        if axes.turns is not None:
            sums |= turn_sums(weights, axes.rows, axes.turns)
            sums |= coverage_sums(weights, axes.rows, self.columns)
            if len(self.gold):
                sums |= alignment_sums(weights, self.gold, self.response_tokens)
        return sums

    def similarities(self) -> dict[str, tuple[list[str], Sum]]:
        """Return the names of the heads and the sums of their cosines [H, H] for each kind of map."""
        groups: dict[str, list[AttentionMap]] = {}
        for one in self.own:
            groups.setdefault(f"{one.kind}-attention of the {one.side}", []).append(one)
        return {
            group: (
                [f"{one.name}.{head}" for one in maps for head in range(one.weights.shape[1])],
                similarities(torch.cat([one.weights for one in maps], 1), self._axes(maps[0]).rows),
            )
            for group, maps in groups.items()
        }

    def _axes(self, one: AttentionMap) -> Axes:
        if one.kind == "cross":
            visible = self.columns.sum(1, keepdim=True).expand_as(self.rows)  # [B, T]
            return Axes(self.rows, visible, self.source_kinds, self.turns)
        if one.side == "target":
            visible = torch.arange(1, self.rows.shape[1] + 1, device=self.rows.device).expand_as(self.rows)
            return Axes(self.rows, visible, self.target_kinds)
        if one.side == "turns":
            number = self.turns.amax(1, keepdim=True) + 1  # [B, 1]
            real = torch.arange(one.weights.shape[2], device=number.device) < number  # [B, U]
            return Axes(real, number.expand_as(real))
        if one.name.startswith("encoder.tokens."):  # of a hierarchical encoder, within turns
            same = self.turns.unsqueeze(2) == self.turns.unsqueeze(1)  # [B, S, S]
            return Axes(self.columns, same.sum(2), self.source_kinds)
        return Axes(self.columns, self.columns.sum(1, keepdim=True).expand_as(self.columns), self.source_kinds)


def _is_summed(one: AttentionMap) -> bool:
    """Return whether a map only sums another one over turns."""
    return one.kind == "cross" and one.columns == "turns"


def _matrix(total: Totals) -> list[list[float]]:
    """Return the mean of a matrix."""
    sums, number = total.values["similarity"]
    matrix: list[list[float]] = (sums / number.clamp(min=1)).tolist()
    return matrix
