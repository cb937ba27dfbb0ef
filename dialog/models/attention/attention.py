"""How a recurrent decoder reads its source: one attention for all scorers, and none.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width, H heads, W width of a head's values.
Masks are boolean, True = real.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, build
from dialog.models.attention.content import CONTENT, AdditiveScorer
from dialog.models.attention.interactive import InteractiveScorer
from dialog.models.attention.multi_head_scorer import MultiHeadScorer
from dialog.models.attention.positional import LocalScorer, LocationScorer
from dialog.models.attention.softmax import masked_softmax
from dialog.models.contracts import AttentionHook, Encoded, Memory, State
from dialog.models.state import Rows


class AttentionScorer(Protocol):
    """How well each query fits each source token. It only scores: :class:`Attention` masks, normalises and averages.

    These two methods are enough. The call may also name ``mask`` [B, S], ``last`` [B, S] (the weights of the step
    before) and ``coverage`` [B, S] (their sum over all steps before), and is given what it names. With H heads it
    gives scores [B, H, T, S], and has ``values(states)`` -> [B, H, S, W] and ``join(contexts)`` -> [B, T, M].
    One that changes what it reads has ``write(states, query, last)`` -> states [B, S, M], called before each read.
    """

    def keys(self, states: Tensor) -> Tensor:
        """States [B, S, M] -> keys [B, S, K]: all that depends on the source only, once for each source."""

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """Queries [B, T, Q] and keys [B, S, K] -> scores [B, T, S]."""


SCORERS: Family[AttentionScorer] = Family(
    "scorer",
    {
        **CONTENT,
        "multi_head": MultiHeadScorer,
        "location": LocationScorer,
        "local": LocalScorer,
        "interactive": InteractiveScorer,
    },
    runtime=("query_size", "key_size"),
)


@dataclass(frozen=True)
class Source(Rows):
    """A source as an attention reads it."""

    keys: Tensor  # [B, S, K], or with heads [B, H, S, K / H]
    values: Tensor  # [B, S, M], or with heads [B, H, S, W]
    mask: Tensor  # [B, S]


@dataclass(frozen=True)
class Past(Rows):
    """What an attention remembers of its reads."""

    last: Tensor  # [B, S], the weights of the step before
    coverage: Tensor  # [B, S], their sum over all steps before
    states: tuple[Tensor, ...]  # [B, S, M] as they were written, if they are


class SourceReader(nn.Module, ABC):
    """What a recurrent decoder asks at each step. The law: reading xs + ys is reading xs, and then ys."""

    shows: bool = True
    """Whether there are weights to be shown."""

    @property
    def additive(self) -> AdditiveScorer | None:
        """Its scorer, if a read is by Bahdanau's scores and nothing else: for this there is a faster loop."""
        return None

    @abstractmethod
    def start(self, encoded: Encoded) -> tuple[Rows, Rows]:
        """What stays fixed for a source, and what is remembered before the first read."""

    @abstractmethod
    def forward(
        self, query: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Queries [B, T, Q] -> contexts [B, T, M], and what is remembered after them."""


class Attention(SourceReader):
    """Soft alignment: the mean of the values, weighted by the softmax of a scorer's scores over real tokens.

    Where the scorer asks for no step before, all T queries are answered in one batch.
    """

    def __init__(self, scorer: Component, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.scorer: Any = build(SCORERS, scorer, query_size=query_size, key_size=key_size)
        if not callable(getattr(self.scorer, "keys", None)):
            raise TypeError(f"{type(self.scorer).__name__} has no keys(states); see AttentionScorer")
        if not callable(self.scorer):
            raise TypeError(f"{type(self.scorer).__name__} cannot be called with (query, keys); see AttentionScorer")
        self.asks = set(inspect.signature(getattr(self.scorer, "forward", self.scorer)).parameters)
        self.has_heads, self.writes = hasattr(self.scorer, "join"), hasattr(self.scorer, "write")
        self.remembers = self.writes or not self.asks.isdisjoint(("last", "coverage"))

    @property
    def additive(self) -> AdditiveScorer | None:
        """The scorer, unless it is another one, or one that was made of it."""
        return self.scorer if type(self.scorer) is AdditiveScorer else None

    def start(self, encoded: Encoded) -> tuple[Source, Rows]:
        """Keys and values of the source; nothing was read yet."""
        memory = self._source(encoded.states, encoded.mask)
        if not self.remembers:
            return memory, Rows()
        exact = torch.promote_types(encoded.states.dtype, torch.float32)  # as the weights that come will be
        nothing = encoded.states.new_zeros(encoded.mask.shape, dtype=exact)  # [B, S]
        return memory, Past(nothing, nothing, (encoded.states,) if self.writes else ())

    def forward(
        self, query: Tensor, memory: Source, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Queries [B, T, Q] -> contexts [B, T, M]; the hook is shown the weights [B, H, T, S] of all steps."""
        if not self.remembers:
            contexts, weights = self._read(query, memory, {})
        else:
            steps = []
            for one in torch.split(query, 1, 1):  # [B, 1, Q]
                if self.writes:
                    state = replace(state, states=(self.scorer.write(state.states[0], one, state.last),))
                    memory = self._source(state.states[0], memory.mask)
                context, weights = self._read(one, memory, {"last": state.last, "coverage": state.coverage})
                last = (weights if weights.dim() == 3 else weights.mean(1)).squeeze(1)  # [B, S]
                state = replace(state, last=last, coverage=state.coverage + last)
                steps.append((context, weights))
            contexts, weights = (torch.cat(each, -2) for each in zip(*steps, strict=True))
        if hook is not None:
            hook(self, weights if weights.dim() == 4 else weights.unsqueeze(1))  # [B, H, T, S]
        return contexts, state

    def _source(self, states: Tensor, mask: Tensor) -> Source:
        keys = self.scorer.keys(states)
        values = self.scorer.values(states) if self.has_heads else states
        return Source(keys, values.to(keys.dtype), mask)  # cast once, not at each step under autocast

    def _read(self, query: Tensor, memory: Source, past: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Contexts [B, T, M] and weights [B, T, S], or with heads [B, H, T, S]."""
        offered = {"mask": memory.mask, **past}
        scores = self.scorer(query, memory.keys, **{name: offered[name] for name in offered if name in self.asks})
        mask = memory.mask[:, None] if scores.dim() == 3 else memory.mask[:, None, None]
        weights = masked_softmax(scores, mask)
        contexts = weights.to(memory.values.dtype) @ memory.values  # [B, T, M], or with heads [B, H, T, W]
        return (self.scorer.join(contexts) if self.has_heads else contexts), weights


@dataclass(frozen=True)
class Summary(Rows):
    """A source in one vector."""

    vector: Tensor  # [B, M]


class NoAttention(SourceReader):
    """The fixed-vector baseline: every context is the source's summary; Cho et al. 2014, equation 7."""

    shows = False

    def start(self, encoded: Encoded) -> tuple[Summary, Rows]:
        """The summary."""
        return Summary(encoded.summary), Rows()

    def forward(
        self, query: Tensor, memory: Summary, state: Rows, hook: AttentionHook | None = None
    ) -> tuple[Tensor, Rows]:
        """Queries [B, T, Q] -> contexts [B, T, M]; there are no weights to be shown."""
        return memory.vector.unsqueeze(1).expand(-1, query.shape[1], -1), state


ATTENTIONS: Family[Any] = Family("attention", {"none": NoAttention, **SCORERS}, runtime=("query_size", "key_size"))
"""All that a recipe may name as a recurrent decoder's attention."""


def build_attention(component: Component, *, query_size: int, key_size: int) -> SourceReader:
    """The attention of a scorer, or none."""
    if component.get("name") == "none":
        return build(Family[SourceReader]("attention", {"none": NoAttention}), component)
    return Attention(component, query_size=query_size, key_size=key_size)
