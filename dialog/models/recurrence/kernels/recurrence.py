"""Contract of the recurrences, and what their chunkwise forms share.

Shapes: B rows, T tokens, H heads, K, V widths of a head's keys and values, N chunks of C tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.models.kernels.autocast import without_autocast

Signals = tuple[Tensor, ...]
"""Inputs of a recurrence: queries, keys, values and gates, each [B, T, ...]; one token: [B, ...]"""

Memory = tuple[Tensor, ...]
"""State of a recurrence, each [B, ...] in float32 or better; () is the state before all tokens."""

NEVER = -1e30
"""Logarithm of a gate that is closed. It is finite because -inf - (-inf) is NaN."""


class Recurrence(ABC):
    """A recurrence in two forms: `step` defines it, `chunk` computes the same for many tokens.

    The laws: `chunk` equals a loop of `step`, from any memory and for any chunk size;
    ``chunk(xs + ys)`` is ``chunk(xs)`` and then ``chunk(ys)``. Padding on the right, where the mask
    is False, changes neither the outputs at real tokens nor the memory: it closes the gates
    themselves.

    Both need signals in float32 or better; `run` converts.
    """

    def __init__(self, chunk: int = 64) -> None:
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}")
        self.longest = chunk

    @abstractmethod
    def start(self, signals: Signals) -> Memory:
        """Return the memory before all tokens, for signals [B, T, ...]."""

    @abstractmethod
    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token: signals [B, ...] to outputs [B, ...] and the new memory."""

    @abstractmethod
    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens, mask [B, T] (True = real); return outputs [B, T, ...] and the memory
        after each row's real tokens.
        """

    def size(self, tokens: int) -> int:
        """Return the size of the chunks into which T tokens are split: equal ones, of at most
        `longest`, so that little is filled up.
        """
        number = -(-tokens // self.longest)
        return -(-tokens // number)

    def run(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens in float32 or better, also under autocast: a single token by `step`,
        more by `chunk`; the outputs are in that precision.
        """
        with without_autocast(signals[0]):
            signals = tuple(exact(signal) for signal in signals)
            if signals[0].shape[1] > 1 or mask is not None:
                return self.chunk(signals, memory, mask)
            one = tuple(signal.squeeze(1) for signal in signals)
            outputs, memory = self.step(one, memory or self.start(signals))
            return outputs.unsqueeze(1), memory

    def weights(self, signals: Signals, mask: Tensor | None = None) -> Tensor:
        """Return the part of each value in each output, as shares [B, H, T, T] of the sum of sizes.

        Outputs are linear in the values: with o_t = sum_s c_ts v_s, the share of s in t is |c_ts| /
        sum_s |c_ts|. The values that an earlier memory holds are left out. Values are the third
        signal, [B, T, H, V].
        """
        query, key, value, *gates = (exact(signal) for signal in signals)
        tokens = value.shape[1]
        identity = torch.eye(tokens, dtype=value.dtype, device=value.device)
        # the values are unit vectors, so that feature s of an output is c_ts: [B, T, H, T]
        each = identity.unsqueeze(1).expand(len(value), tokens, value.shape[2], tokens)
        sizes = self.run((query, key, each, *gates), (), mask)[0].movedim(2, 1).abs()
        return F.normalize(sizes, p=1.0, dim=-1)


def exact(signal: Tensor) -> Tensor:
    """Return a tensor in float32 or better."""
    return signal.to(torch.promote_types(signal.dtype, torch.float32))


def masked(signal: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """Set a signal [B, T, ...] to a value at padding."""
    if mask is None:
        return signal
    return signal.masked_fill(~mask.view(*mask.shape, *(1,) * (signal.dim() - 2)), value)


def split(signal: Tensor, tokens: int, fill: float = 0.0) -> Tensor:
    """Cut [B, T, H, ...] into chunks [B, H, N, C, ...] of C ``tokens``, the last one filled up.

    0 is the identity: of keys and of logarithms of decays.
    """
    missing = -signal.shape[1] % tokens
    if missing:
        signal = F.pad(signal, (0, 0) * (signal.dim() - 2) + (0, missing), value=fill)
    return torch.unflatten(signal, 1, (-1, tokens)).movedim(3, 1)


def join(outputs: Tensor, tokens: int) -> Tensor:
    """Join chunks [B, H, N, C, V] to [B, T, H, V] of T ``tokens``."""
    return outputs.movedim(1, 3).flatten(1, 2)[:, :tokens]


def decays_between(elapsed: Tensor) -> Tensor:
    """Return D [.., C, C]: D_ij = exp(a_i - a_j) for j <= i, else 0; a = ``elapsed`` [.., C] falls.

    The exponents are masked, not the result: exp of the upper triangle overflows, and 0 times its
    gradient is NaN.
    """
    exponents = elapsed.unsqueeze(-1) - elapsed.unsqueeze(-2)
    return exponents.masked_fill(~causal(exponents), -torch.inf).exp()


def causal(weights: Tensor, diagonal: int = 0) -> Tensor:
    """Return the mask [C, C] of the lower triangle of weights [.., C, C]."""
    return torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).tril(diagonal)


def carry(decays: Tensor, added: Tensor, memory: Memory) -> tuple[Tensor | None, Tensor]:
    """Return the states before each chunk [B, H, N, K, V], and the last one [B, H, K, V].

    A chunk multiplies the state by its decay [B, H, N, 1 or K, 1] and adds to it. The first result
    is None if the only chunk starts without memory.
    """
    if not memory and added.shape[2] == 1:
        return None, added[:, :, 0]
    state = memory[0] if memory else torch.zeros_like(added[:, :, 0])
    before = []
    for decay, sums in zip(decays.unbind(2), added.unbind(2), strict=True):
        before.append(state)
        state = decay * state + sums
    return torch.stack(before, 2), state


def zero_states(key: Tensor, value: Tensor) -> Tensor:
    """Return states of zeros [B, H, K, V] for keys [B, T, 1 or H, K] and values [B, T, H, V]."""
    return value.new_zeros(len(value), value.shape[2], key.shape[-1], value.shape[-1])


def outer(key: Tensor, value: Tensor) -> Tensor:
    """Return k v' [B, H, K, V] of keys [B, 1 or H, K] and values [B, H, V]."""
    return key.unsqueeze(-1) * value.unsqueeze(-2)


def read(query: Tensor, state: Tensor) -> Tensor:
    """Return S' q [B, H, V] of queries [B, 1 or H, K] and states [B, H, K, V]."""
    return (query.unsqueeze(-2) @ state).squeeze(-2)
