"""Matrix states with one decay for each head and token: retention, state space duality, and
exponential gates.

Shapes: B rows, T tokens, H heads, K, V widths of a head's keys and values, N chunks of C tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.models.recurrence.kernels.recurrence import (
    NEVER,
    Memory,
    Recurrence,
    Signals,
    carry,
    causal,
    decays_between,
    join,
    masked,
    outer,
    read,
    split,
    zero_states,
)


class ScalarDecay(Recurrence):
    """S_t = exp(g_t) S_{t-1} + k_t v_t', o_t = S_t' q_t; Dao & Gu 2024, 6; Sun et al. 2023, 2.

    Signals (q, k, v, g): q, k [B, T, H, K], or [B, T, 1, K] for all heads, v [B, T, H, V],
    g [B, T, H] <= 0; memory (S,) [B, H, K, V]. With a = the sum of g within a chunk and S_0 the
    state before it: O = (Q K' * D) V + exp(a) Q S_0, D_ij = exp(a_i - a_j) for j <= i.
    """

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        return (zero_states(signals[1], signals[2]),)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        query, key, value, log_decay = signals
        state = log_decay.exp()[..., None, None] * memory[0] + outer(key, value)
        return read(query, state), (state,)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding has decay 1 and key 0."""
        query, key, value, log_decay = signals
        count = query.shape[1]
        size = self.size(count)
        query = split(query, size)
        key = split(masked(key, mask), size)
        value = split(value, size)
        elapsed = split(masked(log_decay, mask), size).cumsum(-1)  # a [B, H, N, C]
        outputs = (query @ key.mT * decays_between(elapsed)) @ value
        end = elapsed[..., -1:]
        added = key.mT @ (value * (end - elapsed).exp().unsqueeze(-1))  # [B, H, N, K, V]
        before, state = carry(end.exp().unsqueeze(-1), added, memory)
        if before is not None:
            outputs = outputs + (query @ before) * elapsed.exp().unsqueeze(-1)
        return join(outputs, count), (state,)


class ExponentialGates(Recurrence):
    """S_t = f S_{t-1} + i k_t v_t', n_t = f n_{t-1} + i k_t, o_t = S_t' q_t / max(|n_t' q_t|, 1)
    with i = exp(i~): the matrix memory of xLSTM; Beck et al. 2024, 2.3 and A.3.

    Signals (q, k, v, i~, log f): q, k [B, T, H, K], v [B, T, H, V], i~, log f [B, T, H]. The memory
    (S, n, m), [B, H, K, V], [B, H, K] and [B, H], is scaled by exp(-m), m_t = max(log f + m_{t-1},
    i~), so that nothing overflows; outputs do not depend on m, and no gradient passes through it.
    """

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        state = zero_states(signals[1], signals[2])
        return state, torch.zeros_like(state[..., 0]), torch.zeros_like(state[..., 0, 0])

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        query, key, value, log_input, log_forget = signals
        state, norm, top = memory
        new_top = torch.maximum(log_forget + top, log_input).detach()
        forget = (log_forget + top - new_top).exp()
        enter = (log_input - new_top).exp()
        state = forget[..., None, None] * state + enter[..., None, None] * outer(key, value)
        norm = forget.unsqueeze(-1) * norm + enter.unsqueeze(-1) * key
        scale = torch.maximum((query * norm).sum(-1).abs(), (-new_top).exp())
        return read(query, state) / scale.unsqueeze(-1), (state, norm, new_top)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding has log f = 0 and a closed input gate."""
        query, key, value, log_input, log_forget = signals
        count = query.shape[1]
        size = self.size(count)
        fresh = len(memory) == 0  # torch.compile cannot negate a tuple
        state, norm, top = memory or self.start(signals)
        query, key, value = (split(each, size) for each in (query, key, value))
        log_input = split(masked(log_input, mask, NEVER), size, NEVER)  # [B, H, N, C]
        elapsed = split(masked(log_forget, mask), size).cumsum(-1)
        pairs = elapsed.unsqueeze(-1) - elapsed.unsqueeze(-2) + log_input.unsqueeze(-2)
        pairs = pairs.masked_fill(~causal(pairs), -torch.inf)  # [B, H, N, C, C]
        end = elapsed[..., -1:]
        to_end = end - elapsed + log_input  # [B, H, N, C]
        highest = to_end.detach().amax(-1)  # [B, H, N]
        entering = key * (to_end - highest.unsqueeze(-1)).exp().unsqueeze(-1)
        added = entering.mT @ value  # [B, H, N, K, V]
        keys = entering.sum(-2)  # [B, H, N, K]
        states: list[Tensor] = []
        norms: list[Tensor] = []
        tops: list[Tensor] = []
        for chunk in range(added.shape[2]):
            states.append(state)
            norms.append(norm)
            tops.append(top)
            kept = end[:, :, chunk, 0] + top
            top = torch.maximum(kept, highest[:, :, chunk]).detach()
            forget = (kept - top).exp()
            enter = (highest[:, :, chunk] - top).exp()
            state = forget[..., None, None] * state + enter[..., None, None] * added[:, :, chunk]
            norm = forget.unsqueeze(-1) * norm + enter.unsqueeze(-1) * keys[:, :, chunk]
        from_start = elapsed + torch.stack(tops, 2).unsqueeze(-1)  # [B, H, N, C]
        row_top = torch.maximum(pairs.amax(-1), from_start).detach()
        weights = (query @ key.mT) * (pairs - row_top.unsqueeze(-1)).exp()
        outputs = weights @ value
        sums = weights.sum(-1)
        if not fresh or added.shape[2] > 1:
            query = query * (from_start - row_top).exp().unsqueeze(-1)
            outputs = outputs + query @ torch.stack(states, 2)
            sums = sums + (query @ torch.stack(norms, 2).unsqueeze(-1)).squeeze(-1)
        scale = torch.maximum(sums.abs(), (-row_top).exp())
        return join(outputs / scale.unsqueeze(-1), count), (state, norm, top)
