"""Several networks as one.

Shapes: B rows, S source tokens, T target tokens, M members, E_m embedding size of member m, V
    vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Memory, State
from dialog.models.heads import Decoded, Head, at_least_float
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import Rows


@dataclass(frozen=True)
class MemberRows(Rows):
    """One memory or state for each network."""

    parts: tuple[Any, ...]


class Ensemble(Seq2Seq):
    """Networks of one vocabulary whose probabilities are averaged at each step: p(v) = mean_m
    p_m(v).
    """

    def __init__(self, networks: Sequence[Seq2Seq]) -> None:
        nn.Module.__init__(self)
        self.networks = nn.ModuleList(networks)
        self.head = MeanHead(
            [network.head for network in networks],
            [int(network.arguments["embedding_size"]) for network in networks],
        )
        self.encoder_needs = frozenset()
        self.turn_tokens = networks[0].turn_tokens

    @property
    def members(self) -> tuple[Seq2Seq, ...]:
        """The networks."""
        return tuple(network for network in self.networks if isinstance(network, Seq2Seq))

    def start(
        self,
        source: Tensor,
        source_mask: Tensor,
        hook: AttentionHook | None = None,
        *,
        turn_shape: tuple[int, int] | None = None,
    ) -> tuple[Memory, State]:
        """Encode a source [B, S] with each network; return memories and states."""
        started = [
            network.start(source, source_mask, hook, turn_shape=turn_shape)
            for network in self.members
        ]
        memories, states = zip(*started, strict=True)
        return MemberRows(memories), MemberRows(states)

    def decode(
        self, tokens: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Decoded, State]:
        """Advance by tokens [B, T]; return the inputs of all heads side by side [B, T, sum_m E_m],
        and the states.
        """
        parts = zip(self.members, memory.parts, state.parts, strict=True)
        results = [network.decode(tokens, own, before, hook) for network, own, before in parts]
        decoded, states = zip(*results, strict=True)
        joined = (
            torch.cat(columns, -1)
            for columns in zip(*(vars(part).values() for part in decoded), strict=True)
        )
        return Decoded(*joined), MemberRows(states)


class MeanHead(Head):
    """log mean_m p_m(v) from the inputs of M heads side by side.

    Args:
        heads: The heads.
        sizes: E_m of each.
    """

    def __init__(self, heads: Sequence[Head], sizes: Sequence[int]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.sizes = list(sizes)
        self.pointing = [head.points for head in heads]

    def forward(self, decoded: Decoded) -> Tensor:
        """Log-probabilities [.., V]."""
        length = decoded.weights.shape[-1] // max(1, sum(self.pointing))
        spans = [length * points for points in self.pointing]
        widths = (self.sizes, self.sizes, spans, spans)
        parts = (
            part.split(width, -1)
            for part, width in zip(vars(decoded).values(), widths, strict=True)
        )
        inputs = zip(self.heads, *parts, strict=True)
        return log_mean([head(Decoded(*own)) for head, *own in inputs])

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """No values."""
        return {}


def log_mean(logits: Sequence[Tensor]) -> Tensor:
    """Return log mean_m p_m(v) of M networks from their logits [.., V]."""
    scores = [at_least_float(own).log_softmax(-1) for own in logits]
    return torch.stack(scores).logsumexp(0) - math.log(len(scores))
