"""Statistics of the attention maps of a batch, as sums over their rows.

Shapes: B batch rows, H heads, T queries (rows of a map), S keys (columns of a map), K kinds, D
    distances.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

DISTANCES = 5
"""Number of turns, from either end of a context, with a value of their own; the last value is of
all further turns.
"""


class Sum(NamedTuple):
    """Sum over the rows of a map, and the number of them."""

    total: Tensor  # [H]
    number: Tensor  # []


Sums = Mapping[str, Sum]
"""Sums by the name of their statistic."""
ZERO = Sum(torch.tensor(0.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64))


@dataclass
class Totals:
    """Running totals in float64 of the statistics of one attention module; the size is that of one
    value per head.
    """

    values: dict[str, Sum] = field(default_factory=dict)

    def add(self, sums: Sums) -> None:
        """Add the sums of one batch; does not wait for the device."""
        for name, (total, number) in sums.items():
            before = self.values.get(name, ZERO)
            self.values[name] = Sum(before.total + total.double(), before.number + number.double())

    def means(self) -> Iterator[dict[str, float | None]]:
        """Yield the means of each head by statistic; None for one that was defined in no row."""
        heads: dict[int, dict[str, float | None]] = defaultdict(dict)
        for name, (total, number) in self.values.items():
            for head, value in enumerate((total / number).tolist()):
                heads[head][name] = None if math.isnan(value) else value
        yield from heads.values()


class Axes(NamedTuple):
    """Rows and columns of a map."""

    rows: Tensor  # [B, T], True = real
    visible: Tensor  # [B, T], number of columns that a row can attend to
    kinds: Tensor | None = None  # [B, S, K], see `TokenKinds.indicators`
    # [B, S], the turn of each source token, counted from 0; -1 at padding
    turns: Tensor | None = None


def row_sums(weights: Tensor, rows: Tensor, visible: Tensor) -> dict[str, Sum]:
    """Sum the entropy and the largest weight of the rows of weights [B, H, T, S].

    ``entropy`` is -sum_s a_s log a_s / log n, with n the number of columns that the row can attend
    to: 0 for one-hot, 1 for uniform weights; rows with n = 1 are left out. ``sharpness`` is max_s
    a_s.
    """
    several = rows & (visible > 1)
    scale = several / visible.clamp(min=2).to(weights.dtype).log()  # [B, T]
    entropy = torch.einsum("bht,bt->h", torch.special.entr(weights).sum(-1), scale)
    sharpness = torch.einsum("bht,bt->h", weights.amax(-1), rows.to(weights.dtype))
    return {"entropy": Sum(entropy, several.sum()), "sharpness": Sum(sharpness, rows.sum())}


def kind_sums(
    weights: Tensor, rows: Tensor, kinds: Tensor, names: tuple[str, ...]
) -> dict[str, Sum]:
    """Sum the mass of weights [B, H, T, S] on each kind of tokens [B, S, K], by the names of the
    kinds.

    The mean is over rows of the examples that have such a token.
    """
    received = torch.einsum("bhts,bt->bhs", weights, rows.to(weights.dtype))  # [B, H, S]
    mass = received @ kinds.to(weights.dtype)  # [B, H, K]
    present = kinds.any(1)  # [B, K]
    counts = (rows.sum(1, keepdim=True) * present).sum(0)  # [K]
    return {name: Sum(mass[:, :, kind].sum(0), counts[kind]) for kind, name in enumerate(names)}


def turn_sums(weights: Tensor, rows: Tensor, turns: Tensor) -> dict[str, Sum]:
    """Sum the mass of weights [B, H, T, S] on each turn of the context, turns [B, S].

    ``mass_turn_1`` is the mass on the first turn, ``mass_distance_0`` that on the last one; the
    last value of each is the mass on all further turns. The mean is over rows of the examples whose
    context has such a turn.
    """
    last = turns.amax(1, keepdim=True)
    sums: dict[str, Sum] = {}
    for prefix, first, places in (("mass_turn", 1, turns), ("mass_distance", 0, last - turns)):
        limited = torch.where(turns < 0, DISTANCES, places.clamp(max=DISTANCES - 1))
        # [B, S, D]
        indicators = torch.nn.functional.one_hot(limited, DISTANCES + 1)[..., :DISTANCES].bool()
        names = tuple(f"{prefix}_{number + first}" for number in range(DISTANCES))
        sums |= kind_sums(weights, rows, indicators, names)
    return sums


def coverage_sums(weights: Tensor, rows: Tensor, columns: Tensor) -> dict[str, Sum]:
    """Sum coverage and repetition of the source over a response; weights [B, H, T, S], columns
    [B, S].

    ``coverage`` of a response is sum_s min(1, c_s) / min(S, T) with c_s = sum_t a_ts: 1 if all mass
    reaches tokens that were not fully read yet, 1 / min(S, T) if one token is read all the time.
    ``repetition`` of a token is sum_s min(a_ts, sum_{t' < t} a_t's), the coverage loss of See
    et al. 2017, equation 12; the first token is left out.
    """
    real = weights * rows[:, None, :, None]
    read = real.sum(2)  # [B, H, S]
    most = torch.minimum(rows.sum(1), columns.sum(1)).clamp(min=1)  # [B]
    covered = read.clamp(max=1).sum(-1) / most.unsqueeze(1)  # [B, H]
    later = real[:, :, 1:]
    repeated = torch.minimum(later, real.cumsum(2)[:, :, :-1]).sum((0, 2, 3))  # [H]
    return {
        "coverage": Sum(covered.sum(0), (rows.any(1) & columns.any(1)).sum()),
        "repetition": Sum(repeated, rows[:, 1:].sum()),
    }


def alignment_sums(weights: Tensor, gold: Tensor, response_tokens: int) -> dict[str, Sum]:
    """Sum agreement with gold links [N, 3] of batch row, target and source position; weights
    [B, H, T, S].

    Each of the ``response_tokens`` (without end tokens) is linked to the source token of its
    largest weight. ``alignment_accuracy`` is the share of the gold links that are among these,
    ``alignment_error_rate`` is 1 - 2 |A and G| / (|A| + |G|), Och & Ney 2003 with all gold links
    sure.
    """
    row, target, source = gold.unbind(1)
    hits = (weights[row, :, target].argmax(-1) == source.unsqueeze(1)).sum(0)  # [H]
    links = hits.new_tensor(len(gold))
    both = links + response_tokens
    return {
        "alignment_accuracy": Sum(hits, links),
        "alignment_error_rate": Sum(both - 2 * hits, both),
    }


def similarities(weights: Tensor, rows: Tensor) -> Sum:
    """Sum the cosines of the rows of each pair of heads of weights [B, H, T, S]: total [H, H]."""
    heads = weights.transpose(1, 2)  # [B, T, H, S]
    units = torch.nn.functional.normalize(heads, dim=-1)  # 0 at padding
    products = units @ units.transpose(2, 3)  # [B, T, H, H]
    return Sum(torch.einsum("btgh,bt->gh", products, rows.to(products.dtype)), rows.sum())
