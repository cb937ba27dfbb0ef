"""Bahdanau's scores one query at a time over the same source, with a gradient that is written out.

Shapes: B rows, S source tokens, K key width. All in float32 or better.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

LARGEST = 40.0
"""Of numbers x up to here float32 holds exp(2 x) and exp(-2 x) in full precision."""

BLOCK = 2**19
"""Numbers that are looked at together on a CPU: they stay in its cache, and [B, S, K] is not made anew at each step."""


class AdditiveSteps:
    """softmax_j(v . tanh(q + k_j)) for one query [B, K] after the other, the same keys [B, S, K] and v [K].

    With r = 1 / (1 + exp(2 x)), tanh(x) = 1 - 2 r and its slope is 4 r (1 - r); the 1 adds the same to all scores of a
    query, so it is left out. On a CPU exp(2 q + 2 k) = exp(2 q) exp(2 k), of which the keys' part is one for all
    queries: a product and a reciprocal in place of a tanh, 0.7 against 9.2 ms for 2 million numbers. Where a query or
    key is above ``LARGEST``, and on a GPU, r = sigmoid(-2 (q + k)). Nothing of the size of the keys is kept of a step:
    r is made anew in the backward pass.
    """

    def __init__(self, base: Tensor, energy: Tensor, mask: Tensor, *, grown: bool) -> None:
        self.base = base  # [B, S, K], exp(2 k) if grown, else -2 k
        self.grown = grown
        self.energy = energy  # [K]
        fill = torch.zeros(mask.shape, dtype=base.dtype, device=base.device)
        self.fill = fill.masked_fill(~mask, torch.finfo(base.dtype).min)  # [B, S]
        self.one = base.new_ones(())
        self.rows = len(base) if base.device.type != "cpu" else max(1, BLOCK // max(1, base[0].numel()))
        self.room = torch.empty_like(base[: self.rows])

    @classmethod
    def over(cls, keys: Tensor, energy: Tensor, mask: Tensor) -> AdditiveSteps:
        """The steps over keys [B, S, K] whose mask [B, S] is True where they are real."""
        grown = keys.device.type == "cpu" and _small(keys)
        return cls((2 * keys).exp_() if grown else -2 * keys, energy, mask, grown=grown)

    def weights(self, query: Tensor) -> Tensor:
        """Query [B, K] -> weights [B, S]; of a row in which nothing is real, all alike."""
        scores = torch.empty_like(self.fill)
        for here, mixed in self._mixed(query):
            flat = mixed.view(-1, mixed.shape[-1])
            torch.addmv(self.fill[here].view(-1), flat, self.energy, alpha=-2, out=scores[here].view(-1))
        return scores.softmax(-1)

    def slopes(self, query: Tensor, slope: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
        """From the slopes of a step's scores [B, S] to those of its query [B, K].

        Those of keys [B, S, K] and of v [K] are added to what is given, still without their factors 4 v and -2.
        """
        found = torch.empty_like(query)
        for here, mixed in self._mixed(query):
            flat = mixed.view(-1, mixed.shape[-1])
            energy.addmv_(flat.t(), slope[here].reshape(-1))
            mixed.addcmul_(mixed, mixed, value=-1)  # r (1 - r)
            keys[here].addcmul_(slope[here].unsqueeze(-1), mixed)
            torch.bmm(slope[here].unsqueeze(1), mixed, out=found[here].unsqueeze(1))
        return found.mul_(4 * self.energy)

    def _mixed(self, query: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """R [b, S, K] of a block of rows, and which; it may be overwritten."""
        grown = self.grown and _small(query)
        factors = (2 * query).exp_() if grown else query
        for start in range(0, len(query), self.rows):
            here = slice(start, start + self.rows)
            base, factor = self.base[here], factors[here].unsqueeze(1)
            room = self.room[: len(base)]
            if grown:
                torch.addcmul(self.one, base, factor, out=room).reciprocal_()
            else:
                base = base.log().neg_() if self.grown else base
                torch.add(base, factor, alpha=-2, out=room).sigmoid_()
            yield here, room


def _small(numbers: Tensor) -> bool:
    """Whether all are so near to 0 that exponentials of them can be multiplied; not where one is no number."""
    return bool((numbers.abs().amax() <= LARGEST) if numbers.numel() else True)
