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
"""Called before each step, with the tokens of the response so far if they are known; an error ends
the search.
"""


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

    def __call__(
        self, tokens: Tensor, memory: MemberRows, state: MemberRows
    ) -> tuple[Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""
        results = [
            model.step(tokens, *parts)
            for model, *parts in zip(self.models, memory.parts, state.parts, strict=True)
        ]
        logits, states = zip(*results, strict=True)
        return mean_of(logits), MemberRows(states)

    def represent(
        self, tokens: Tensor, memory: MemberRows, state: MemberRows
    ) -> tuple[Tensor, Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V], the outputs of all decoders [N, T, M E] and
        the new state.
        """
        results = [
            model.decode(tokens, *parts)
            for model, *parts in zip(self.models, memory.parts, state.parts, strict=True)
        ]
        decoded, states = zip(*results, strict=True)
        logits = [model.head(outputs) for model, outputs in zip(self.models, decoded, strict=True)]
        return (
            mean_of(logits),
            torch.cat([outputs.outputs for outputs in decoded], -1),
            MemberRows(states),
        )


class WatchedStep(NetworkStep):
    """Step that calls ``watch`` before it computes.

    Args:
        models: As in `NetworkStep`.
        watch: Receives the tokens that the step has read, without the begin token; none unless
            ``shows_tokens``.
        shows_tokens: The tokens are those of one response, in order.
    """

    def __init__(self, models: Sequence[Seq2Seq], watch: Watch, *, shows_tokens: bool) -> None:
        super().__init__(models)
        self.watch = watch
        self.shows_tokens = shows_tokens
        self.tokens: list[int] = []

    def __call__(
        self, tokens: Tensor, memory: MemberRows, state: MemberRows
    ) -> tuple[Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""
        self._report(tokens)
        return super().__call__(tokens, memory, state)

    def represent(
        self, tokens: Tensor, memory: MemberRows, state: MemberRows
    ) -> tuple[Tensor, Tensor, MemberRows]:
        """Read tokens [N, T]; return logits [N, T, V], the outputs of all decoders [N, T, M E] and
        the new state.
        """
        self._report(tokens)
        return super().represent(tokens, memory, state)

    def _report(self, tokens: Tensor) -> None:
        if self.shows_tokens:
            self.tokens.append(int(tokens))
        self.watch(self.tokens[1:])


def mean_of(logits: Sequence[Tensor]) -> Tensor:
    """Return the logits of one network, or the logarithm of the mean probability of several."""
    return logits[0] if len(logits) == 1 else log_mean(logits)
