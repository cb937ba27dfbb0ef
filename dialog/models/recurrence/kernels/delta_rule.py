"""Matrix states that are corrected: a key's old value is taken out before the new one is added.

Shapes: B rows, T tokens, H heads, K, V widths of a head's keys and values, N chunks of C tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.models.recurrence.kernels.recurrence import (
    Memory,
    Recurrence,
    Signals,
    causal,
    decays_between,
    join,
    masked,
    outer,
    read,
    split,
    zero_states,
)
from dialog.models.recurrence.kernels.vector_decay import check_chunk


class DeltaRule(Recurrence):
    """S = exp(g_t) S_{t-1}, S_t = S + b_t k_t (v_t - S' k_t)', o_t = S_t' q_t; Yang et al. 2024,
    3.3.

    Signals (q, k, v, g, b): q, k [B, T, H, K], v [B, T, H, V], g <= 0 and b in (0, 2) [B, T, H];
    memory (S,) [B, H, K, V]. The keys need length 1, else the state grows without limit. The
    corrections U of a chunk solve (1 + M) U = b * (V - exp(a) K S_0) with M_ij = b_i k_i' k_j D_ij
    for j < i; with them the outputs are (Q K' * D) U + exp(a) Q S_0.
    """

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        return (zero_states(signals[1], signals[2]),)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        query, key, value, log_decay, rate = signals
        state = log_decay.exp()[..., None, None] * memory[0]
        correction = rate.unsqueeze(-1) * (value - read(key, state))
        state = state + outer(key, correction)
        return read(query, state), (state,)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding has decay 1 and rate 0."""
        query, key, value, log_decay, rate = signals
        count = query.shape[1]
        size = self.size(count)
        query, key, value = (split(each, size) for each in (query, key, value))
        elapsed = split(masked(log_decay, mask), size).cumsum(-1)  # a [B, H, N, C]
        rate = split(masked(rate, mask), size).unsqueeze(-1)  # [B, H, N, C, 1]
        decays = decays_between(elapsed)
        grown = elapsed.exp().unsqueeze(-1)
        end = elapsed[..., -1:]
        # the solver takes the diagonal as 1 and ignores all above it
        matrix = (key * rate) @ key.mT * decays
        weights = query @ key.mT * decays
        leaving = (key * (end - elapsed).exp().unsqueeze(-1)).mT  # [B, H, N, K, C]
        if not memory and key.shape[2] == 1:
            corrections = solve(matrix, value * rate)
            state = leaving[:, :, 0] @ corrections[:, :, 0]
            return join(weights @ corrections, count), (state,)
        solved = solve(matrix, torch.cat([value * rate, key * rate * grown], -1))
        fixed, per_state = torch.split(solved, [value.shape[-1], key.shape[-1]], -1)
        (state,) = memory or self.start(signals)
        before: list[Tensor] = []
        corrected: list[Tensor] = []
        kept = end.exp().unsqueeze(-1)
        for chunk in range(key.shape[2]):  # only what depends on the state
            before.append(state)
            correction = fixed[:, :, chunk] - per_state[:, :, chunk] @ state
            corrected.append(correction)
            state = kept[:, :, chunk] * state + leaving[:, :, chunk] @ correction
        outputs = weights @ torch.stack(corrected, 2) + query @ torch.stack(before, 2) * grown
        return join(outputs, count), (state,)


class VectorDeltaRule(Recurrence):
    """S_t = diag(exp g_t) S_{t-1} + b_t (S_{t-1}' a_t)' + k_t v_t', o_t = S_t' q_t: a diagonal
    plus a matrix of rank 1; Peng et al. 2025, 4.

    Signals (q, k, v, g, a, b): all [B, T, H, K] but v [B, T, H, V], ``lowest`` <= g <= 0; memory
    (S,) [B, H, K, V]. Chunks are those of `VectorDecay` and `DeltaRule` together: exponents are
    relative to a constant, and a triangular system gives U_t = S_{t-1}' a_t.

    Raises:
        ValueError: a chunk for which an exponent overflows.
    """

    def __init__(self, chunk: int = 64, *, lowest: float) -> None:
        super().__init__(chunk)
        check_chunk(chunk, lowest)
        self.lowest = lowest

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        return (zero_states(signals[1], signals[2]),)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        query, key, value, log_decay, towards, along = signals
        (state,) = memory
        kept = log_decay.exp().unsqueeze(-1) * state
        state = kept + outer(along, read(towards, state)) + outer(key, value)
        return read(query, state), (state,)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding has decay 1, key 0 and b = 0."""
        query, key, value, log_decay, towards, along = signals
        count = query.shape[1]
        size = self.size(count)
        query, value, towards = (split(each, size) for each in (query, value, towards))
        key, log_decay, along = (
            split(masked(each, mask), size) for each in (key, log_decay, along)
        )
        elapsed = log_decay.cumsum(-2)  # [B, H, N, C, K]
        middle = size * self.lowest / 2
        earlier = elapsed - log_decay  # a_t meets the state before its decay
        readers = torch.cat(
            [query * (elapsed - middle).exp(), towards * (earlier - middle).exp()], -2
        )
        rising = (middle - elapsed).exp()
        weights = readers @ torch.cat([key * rising, along * rising], -2).mT  # [B, H, N, 2C, 2C]
        up_to = causal(weights[..., :size, :size])
        before_it = causal(weights[..., :size, :size], -1)
        query_key = weights[..., :size, :size].masked_fill(~up_to, 0.0)
        query_along = weights[..., :size, size:].masked_fill(~up_to, 0.0)
        towards_key = weights[..., size:, :size].masked_fill(~before_it, 0.0)
        matrix = -weights[..., size:, size:]
        end = elapsed[..., -1:, :]
        falling = (end - elapsed).exp()
        added = (key * falling).mT @ value  # [B, H, N, K, V]
        leaving = (along * falling).mT  # [B, H, N, K, C]
        if not memory and key.shape[2] == 1:
            reads = solve(matrix, towards_key @ value)
            state = added[:, :, 0] + leaving[:, :, 0] @ reads[:, :, 0]
            return join(query_key @ value + query_along @ reads, count), (state,)
        right = torch.cat([towards_key @ value, towards * earlier.exp()], -1)
        fixed, per_state = torch.split(solve(matrix, right), [value.shape[-1], key.shape[-1]], -1)
        (state,) = memory or self.start(signals)
        before: list[Tensor] = []
        seen: list[Tensor] = []
        kept = end.mT.exp()
        for chunk in range(key.shape[2]):
            before.append(state)
            reads = fixed[:, :, chunk] + per_state[:, :, chunk] @ state
            seen.append(reads)
            state = kept[:, :, chunk] * state + added[:, :, chunk] + leaving[:, :, chunk] @ reads
        outputs = query_key @ value + query_along @ torch.stack(seen, 2)
        outputs = outputs + (query * elapsed.exp()) @ torch.stack(before, 2)
        return join(outputs, count), (state,)


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve (1 + L) X = ``right`` [.., C, V], L = the part of ``matrix`` [.., C, C] strictly below
    its diagonal.
    """
    solution: Tensor = torch.linalg.solve_triangular(matrix, right, upper=False, unitriangular=True)
    return solution
