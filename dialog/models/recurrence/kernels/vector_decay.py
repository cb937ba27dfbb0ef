"""Matrix states with a decay for each feature of the keys.

Shapes: B rows, T tokens, H heads, K, V widths of a head's keys and values, N chunks of C tokens.
"""

from __future__ import annotations

from torch import Tensor

from dialog.models.recurrence.kernels.recurrence import (
    Memory,
    Recurrence,
    Signals,
    carry,
    causal,
    join,
    masked,
    outer,
    read,
    split,
    zero_states,
)

LARGEST_EXPONENT = 80.0
"""exp(88.7) overflows in float32."""


def check_chunk(chunk: int, lowest: float) -> None:
    """Check that no product of decays exp(``lowest``) overflows within half a chunk.

    Raises:
        ValueError: the chunk is too long.
    """
    longest = int(2 * LARGEST_EXPONENT / -lowest)
    if chunk > longest:
        raise ValueError(f"chunk must be at most {longest} here, not {chunk}")


class VectorDecay(Recurrence):
    """S_t = diag(exp g_t) S_{t-1} + k_t v_t', o_t = S_t' q_t; Yang et al. 2023, 4.

    Signals (q, k, v, g): q, k, g [B, T, H, K], v [B, T, H, V], ``lowest`` <= g <= 0; memory (S,)
    [B, H, K, V]. In a chunk the weights are (Q * exp(a - r)) (K * exp(r - a))', a = the sum of g.
    The constant r = C ``lowest`` / 2 keeps both factors within exp(+-C ``lowest`` / 2); it is no
    value of the chunk itself, so that a later token never changes how an earlier one is rounded.

    Raises:
        ValueError: a chunk for which that overflows.
    """

    def __init__(self, chunk: int = 32, *, lowest: float) -> None:
        super().__init__(chunk)
        check_chunk(chunk, lowest)
        self.lowest = lowest

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        return (zero_states(signals[1], signals[2]),)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        query, key, value, log_decay = signals
        state = log_decay.exp().unsqueeze(-1) * memory[0] + outer(key, value)
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
        elapsed = split(masked(log_decay, mask), size).cumsum(-2)  # a [B, H, N, C, K]
        middle = size * self.lowest / 2
        weights = (query * (elapsed - middle).exp()) @ (key * (middle - elapsed).exp()).mT
        outputs = weights.masked_fill(~causal(weights), 0.0) @ value
        end = elapsed[..., -1:, :]
        added = (key * (end - elapsed).exp()).mT @ value  # [B, H, N, K, V]
        before, state = carry(end.mT.exp(), added, memory)
        if before is not None:
            outputs = outputs + (query * elapsed.exp()) @ before
        return join(outputs, count), (state,)
