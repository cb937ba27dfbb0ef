"""Bahdanau's energies: the formula, and the same for one query after the other with a written-out gradient.

Formula: ``additive_energies``. With r(x) = 1 / (1 + exp(2 x)), tanh(x) = 1 - 2 r and tanh'(x) = 4 r (1 - r); the 1 adds
v . 1 to all energies of a query, so a softmax of them does not need it. On a CPU exp(2 q + 2 k) = exp(2 q) exp(2 k),
and exp(2 k) is the same for all queries: a product and a reciprocal replace a tanh. If a query or key exceeds
``LARGEST``, and on a GPU, r = sigmoid(-2 (q + k)). Nothing of the size of the keys is kept for the backward pass, which
computes r again.

Gain: that of `additive_loop.py`, of which it is a part. The exponentials: GAIN_EXPONENTIALS

Test: ``test_steps_are_the_formula`` in tests/models/kernels/test_additive_energies.py.

Shapes: B rows, T queries, S source tokens, K key width. The steps are in float32 or better.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

LARGEST = 40.0
"""Up to this |x| float32 holds exp(2 x) and exp(-2 x) in full precision."""

BLOCK = 2**19
"""Numbers in a block on a CPU: a block stays in its cache, and no step allocates [B, S, K]."""


def additive_energies(query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    """Return the energies v . tanh(W q + U k); Bahdanau et al. 2015, appendix A.1.2.

    W q [B, T, K], U k [B, S, K] and v [1, K] -> energies [B, T, S].
    """
    mixed = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))  # [B, T, S, K]
    return F.linear(mixed, energy).squeeze(-1)  # [B, T, S]


class AdditiveSteps:
    """softmax_j(v . tanh(q + k_j)) for one query q [B, K] after the other, with the same keys [B, S, K] and v [K]."""

    def __init__(self, base: Tensor, energy: Tensor, mask: Tensor, *, exponential: bool) -> None:
        self.base = base  # [B, S, K], exp(2 k) if exponential, else -2 k
        self.exponential = exponential
        self.energy = energy  # [K]
        fill = torch.zeros(mask.shape, dtype=base.dtype, device=base.device)
        self.fill = fill.masked_fill(~mask, torch.finfo(base.dtype).min)  # [B, S]
        self.one = base.new_ones(())
        self.rows = len(base) if base.device.type != "cpu" else max(1, BLOCK // max(1, base[0].numel()))
        self.buffer = torch.empty_like(base[: self.rows])

    @classmethod
    def over(cls, keys: Tensor, energy: Tensor, mask: Tensor) -> AdditiveSteps:
        """Prepare the keys [B, S, K]; mask [B, S], True = real."""
        exponential = keys.device.type == "cpu" and _is_small(keys)
        return cls((2 * keys).exp_() if exponential else -2 * keys, energy, mask, exponential=exponential)

    def weights(self, query: Tensor) -> Tensor:
        """Return weights [B, S] for a query [B, K]; uniform in a row without real tokens."""
        energies = torch.empty_like(self.fill)
        for rows, r in self._blocks(query):
            flat = r.view(-1, r.shape[-1])
            torch.addmv(self.fill[rows].view(-1), flat, self.energy, alpha=-2, out=energies[rows].view(-1))
        return energies.softmax(-1)

    def backward(self, query: Tensor, gradient: Tensor, of_keys: Tensor, of_energy: Tensor) -> Tensor:
        """Return the gradient of a query [B, K] from the gradient of its energies [B, S].

        The gradients of keys [B, S, K] and v [K] are added to ``of_keys`` and ``of_energy``, without their factors 4 v
        and -2.
        """
        of_query = torch.empty_like(query)
        for rows, r in self._blocks(query):
            flat = r.view(-1, r.shape[-1])
            of_energy.addmv_(flat.t(), gradient[rows].reshape(-1))
            r.addcmul_(r, r, value=-1)  # r (1 - r)
            of_keys[rows].addcmul_(gradient[rows].unsqueeze(-1), r)
            torch.bmm(gradient[rows].unsqueeze(1), r, out=of_query[rows].unsqueeze(1))
        return of_query.mul_(4 * self.energy)

    def _blocks(self, query: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows, and their r(q + k) [b, S, K], which may be overwritten."""
        exponential = self.exponential and _is_small(query)
        factors = (2 * query).exp_() if exponential else query
        for start in range(0, len(query), self.rows):
            rows = slice(start, start + self.rows)
            base, factor = self.base[rows], factors[rows].unsqueeze(1)
            buffer = self.buffer[: len(base)]
            if exponential:
                torch.addcmul(self.one, base, factor, out=buffer).reciprocal_()
            else:
                base = base.log().neg_() if self.exponential else base
                torch.add(base, factor, alpha=-2, out=buffer).sigmoid_()
            yield rows, buffer


def _is_small(numbers: Tensor) -> bool:
    """Return whether products of their exponentials are exact; False if a number is NaN."""
    return bool((numbers.abs().amax() <= LARGEST) if numbers.numel() else True)
