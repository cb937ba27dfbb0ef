"""Trained networks as a step.

Shapes: N rows, S source tokens, T tokens, E embedding size, V vocabulary, M networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dialog.models.inference.ensemble import MemberRows, log_mean
from dialog.models.seq2seq import Seq2Seq

Watch = Callable[[list[int]], None]
"""Called with the tokens of a response so far, after each token."""


class NetworkStep:
    """One network, or an ensemble whose probabilities are averaged: p(v) = mean_m p_m(v).

    The networks of an ensemble share a vocabulary.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = tuple(models)

    def start(self, source: Tensor, mask: Tensor) -> tuple[MemberRows, MemberRows]:
        """Encode a source [N, S]; return memory and state."""
        started = [model.start(source, mask) for model in self.models]
        memories, states = zip(*started, strict=True)
        return MemberRows(memories), MemberRows(states)

    def __call__(self, tokens: Tensor, memory: MemberRows, state: MemberRows) -> tuple[Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""
        results = [
            model.step(tokens, *parts) for model, *parts in zip(self.models, memory.parts, state.parts, strict=True)
        ]
        logits, states = zip(*results, strict=True)
        return mean_of(logits), MemberRows(states)

    def represent(self, tokens: Tensor, memory: MemberRows, state: MemberRows) -> tuple[Tensor, Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V], the outputs of all decoders [N, T, M E] and the new state."""
        results = [
            model.decode(tokens, *parts) for model, *parts in zip(self.models, memory.parts, state.parts, strict=True)
        ]
        decoded, states = zip(*results, strict=True)
        logits = [model.head(outputs) for model, outputs in zip(self.models, decoded, strict=True)]
        return mean_of(logits), torch.cat([outputs.outputs for outputs in decoded], -1), MemberRows(states)


class WatchedStep(NetworkStep):
    """Step that reports the tokens of one row that it reads, without the begin token, before it scores the next one."""

    def __init__(self, models: Sequence[Seq2Seq], watch: Watch) -> None:
        super().__init__(models)
        self.watch = watch
        self.tokens: list[int] = []

    def __call__(self, tokens: Tensor, memory: MemberRows, state: MemberRows) -> tuple[Tensor, MemberRows]:
        """Read tokens [1, 1]; return logits [1, 1, V] and the new state."""
        self.tokens.append(int(tokens))
        if len(self.tokens) > 1:
            self.watch(self.tokens[1:])
        return super().__call__(tokens, memory, state)


def mean_of(logits: Sequence[Tensor]) -> Tensor:
    """Return the logits of one network, or the logarithm of the mean probability of several."""
    return logits[0] if len(logits) == 1 else log_mean(logits)
