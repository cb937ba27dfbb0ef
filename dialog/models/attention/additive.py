"""Bahdanau's additive scorer, the same with a weight for each feature of the source, and the same
for one query after the other with a written-out gradient.

`AdditiveSteps` uses s = sigmoid(2 x): tanh(x) = 2 s - 1, tanh'(x) = 4 s (1 - s). The -1 adds the
same to all energies of a query, so their softmax does not need it. Nothing of the size of the keys
is kept for the backward pass, which computes s again. It is a part of `recurrent/additive_loop.py`,
which has its gain.

Test: ``test_steps_are_the_formula`` in tests/models/attention/test_additive_energies.py.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import product

BLOCK = 2**19
"""Numbers in a block on a CPU: a block stays in its cache, and no step allocates [B, S, K]."""
PREPARED_BLOCK = 2**17
"""The same for `PreparedEnergies`, whose block stays in the cache of a core."""


class AdditiveScorer(nn.Module):
    """score(q, k) = v . tanh(W q + U k); Bahdanau et al. 2015, appendix A.1.2 (W_a, U_a, v_a).

    Parameters ``query.weight`` is W, ``key.weight`` is U, ``energy.weight`` is v; no biases.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(key_size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """U k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return additive_energies(self.query(query), keys, self.energy.weight)  # [B, T, S]

    def prepared(self, *, int8: bool) -> PreparedEnergies:
        """Return the energies of one query for each row of a beam; see `Decoder.prepared`."""
        return PreparedEnergies(self, int8=int8)


class FineGrainedScorer(nn.Module):
    """score_d(q, k) = v_d . tanh(W q + U k) for each feature d of the source; Choi, Cho & Bengio
    2018, section 3.

    The context is c_d = sum_j a_jd k_jd: with all v_d equal it is Bahdanau's. Energies take B T S K
    values.
    """

    per_feature = True

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(key_size, size, bias=False)
        self.energy = Linear(size, key_size, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """U k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def values(self, states: Tensor) -> Tensor:
        """Each feature as a head of width 1."""
        return states.transpose(1, 2).unsqueeze(-1)  # [B, M, S, 1]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, M, T, S]."""
        mixed = torch.tanh(self.query(query).unsqueeze(2) + keys.unsqueeze(1))  # [B, T, S, K]
        scores: Tensor = self.energy(mixed).permute(0, 3, 1, 2)  # [B, M, T, S]
        return scores

    def join(self, contexts: Tensor) -> Tensor:
        """Contexts [B, T, M] of contexts [B, M, T, 1]."""
        return contexts.squeeze(-1).transpose(1, 2)


class PreparedEnergies:
    """Energies of `AdditiveScorer`; the query is in the precision of the weights or in int8.

    They have sigmoid(2 x) instead of tanh(x), as in `AdditiveSteps`: where MKL has no fast
    functions for a processor, torch's tanh takes several times as long.
    """

    def __init__(self, scorer: AdditiveScorer, *, int8: bool) -> None:
        self.energy = 2 * scorer.energy.weight.detach().float().squeeze(0)  # [K]
        self.query = product(2 * scorer.query.weight.detach(), int8=int8)

    def keys(self, keys: Tensor) -> Tensor:
        """Return 2 U k."""
        return 2 * keys  # [N, S, K]

    def __call__(self, query: Tensor, keys: Tensor, copies: int) -> Tensor:
        """Return energies [N, copies, S], up to a constant of each row, of queries [N copies, Q]
        and 2 U k [N, S, K].
        """
        query = self.query(query).view(len(keys), copies, 1, -1)  # [N, copies, 1, K]
        energies = query.new_empty(len(keys), copies, keys.shape[1])  # [N, copies, S]
        rows = (
            len(keys)
            if keys.device.type != "cpu"
            else max(1, PREPARED_BLOCK // max(1, keys[0].numel() * copies))
        )
        for start in range(0, len(keys), rows):
            block = slice(start, start + rows)
            mixed = (query[block] + keys[block].unsqueeze(1)).sigmoid_()  # [n, copies, S, K]
            torch.mv(mixed.view(-1, mixed.shape[-1]), self.energy, out=energies[block].view(-1))
        return energies


def additive_energies(query: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    """Return the energies v . tanh(W q + U k); Bahdanau et al. 2015, appendix A.1.2.

    W q [B, T, K], U k [B, S, K] and v [1, K] -> energies [B, T, S].
    """
    mixed = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))  # [B, T, S, K]
    return F.linear(mixed, energy).squeeze(-1)  # [B, T, S]


class AdditiveSteps:
    """softmax_j(v . tanh(q + k_j)) for one query q [B, K] after the other, with the same keys
    [B, S, K] and v [K], in float32 or better.
    """

    def __init__(self, keys: Tensor, energy: Tensor, mask: Tensor) -> None:
        self.keys = keys
        self.energy = energy
        fill = torch.zeros(mask.shape, dtype=keys.dtype, device=keys.device)
        self.fill = fill.masked_fill(~mask, torch.finfo(keys.dtype).min)  # [B, S]
        self.rows = (
            len(keys) if keys.device.type != "cpu" else max(1, BLOCK // max(1, keys[0].numel()))
        )
        self.buffer = torch.empty_like(keys[: self.rows])

    def weights(self, query: Tensor) -> Tensor:
        """Return weights [B, S] for a query [B, K]; uniform in a row without real tokens."""
        energies = torch.empty_like(self.fill)
        for rows, s in self._blocks(query):
            flat = s.view(-1, s.shape[-1])
            torch.addmv(
                self.fill[rows].view(-1), flat, self.energy, alpha=2, out=energies[rows].view(-1)
            )
        return energies.softmax(-1)

    def backward(
        self, query: Tensor, gradient: Tensor, of_keys: Tensor, of_energy: Tensor
    ) -> Tensor:
        """Return the gradient of a query [B, K] from the gradient of its energies [B, S], which
        sums to 0 in a row.

        The gradients of keys [B, S, K] and v [K] are added to ``of_keys`` and ``of_energy``,
        without their factors 4 v and 2.
        """
        of_query = torch.empty_like(query)
        for rows, s in self._blocks(query):
            flat = s.view(-1, s.shape[-1])
            of_energy.addmv_(flat.t(), gradient[rows].reshape(-1))
            s.addcmul_(s, s, value=-1)  # s (1 - s)
            of_keys[rows].addcmul_(gradient[rows].unsqueeze(-1), s)
            torch.bmm(gradient[rows].unsqueeze(1), s, out=of_query[rows].unsqueeze(1))
        return of_query.mul_(4 * self.energy)

    def _blocks(self, query: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows, and their s(q + k) [b, S, K], which may be overwritten."""
        for start in range(0, len(query), self.rows):
            rows = slice(start, start + self.rows)
            keys = self.keys[rows]
            buffer = self.buffer[: len(keys)]
            torch.add(keys, query[rows].unsqueeze(1), out=buffer).mul_(2).sigmoid_()
            yield rows, buffer
