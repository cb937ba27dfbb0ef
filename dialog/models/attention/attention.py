"""Attention of a recurrent decoder: one class for all scorers, and the baseline without attention.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width, H heads, W width of a
head's values. Masks are boolean, True = real.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.errors import UserError
from dialog.models.attention.additive import AdditiveScorer, FineGrainedScorer
from dialog.models.attention.content import CONTENT_SCORERS, InteractiveScorer
from dialog.models.attention.heads import HeadSlices
from dialog.models.attention.multi_head_scorer import MultiHeadScorer
from dialog.models.attention.positional import LocalScorer, LocationScorer
from dialog.models.attention.softmax import additive_mask, masked_softmax
from dialog.models.contracts import AttentionHook, Encoded, Memory, State, declared_needs
from dialog.models.state import Rows, SharedRows


class AttentionScorer(Protocol):
    """Score of each query with each source token; :class:`Attention` masks, normalises and
    averages.

    The two methods below are enough. Optional:

    ``needs``: a set of further inputs of the call, passed by name: ``mask`` [B, S], ``last`` [B, S]
    (the weights of the last step) and ``coverage`` [B, S] (the sum of the weights of all earlier
    steps). Default: none.
    ``values(states)`` -> [B, H, S, W] and ``join(contexts)`` -> [B, T, M]: H heads; the scores are
    then [B, H, T, S]. ``head_output``: a `HeadSlices`; only with it can single heads be removed.
    ``per_feature``: True if heads are features of the source; a hook gets the mean of their
    weights. Default: False. ``write(states, query, last)`` -> [B, S, M]: changes the states, called
    before each read. ``prepared(int8=..)`` -> `PreparedScorer`: a faster form for generation.
    """

    def keys(self, states: Tensor) -> Tensor:
        """Project states [B, S, M] to keys [B, S, K], once for each source."""

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return scores [B, T, S] of queries [B, T, Q] and keys [B, S, K]."""


SCORER_INPUTS = ("mask", "last", "coverage")
"""Inputs that a scorer may declare in `needs`."""

SCORERS: Family[AttentionScorer] = Family(
    "scorer",
    {
        **CONTENT_SCORERS,
        "multi_head": MultiHeadScorer,
        "fine_grained": FineGrainedScorer,
        "location": LocationScorer,
        "local": LocalScorer,
        "interactive": InteractiveScorer,
    },
    runtime=("query_size", "key_size"),
)


@dataclass(frozen=True)
class AttentionMemory(Rows):
    """Source of an attention."""

    keys: Tensor  # [B, S, K], or with heads [B, H, S, K / H]
    values: Tensor  # [B, S, M], or with heads [B, H, S, W]
    mask: Tensor  # [B, S]


@dataclass(frozen=True)
class AttentionState(Rows):
    """Record of the reads so far."""

    last: Tensor  # [B, S], the weights of the last step
    coverage: Tensor  # [B, S], the sum of the weights of all earlier steps
    states: tuple[Tensor, ...]  # [B, S, M] as written; empty for a scorer that does not write


class SourceReader(nn.Module, ABC):
    """Access of a recurrent decoder to its source.

    The law: reading xs + ys is reading xs, and then ys.
    """

    has_weights: bool = True
    """False if no weights are computed that a hook or a pointer could use."""

    @property
    def preparable(self) -> bool:
        """True if `prepared` returns a reader."""
        return False

    def prepared(self, *, int8: bool) -> PreparedReader:
        """Return a reader with the same contexts up to rounding; see `Decoder.prepared`."""
        raise TypeError(f"{type(self).__name__} is not preparable")

    @property
    def additive(self) -> AdditiveScorer | None:
        """The scorer if it is exactly an `AdditiveScorer`, which has a faster loop;
        else None.
        """
        return None

    @abstractmethod
    def start(self, encoded: Encoded) -> tuple[Rows, Rows]:
        """Return the memory of a source and the state before the first read."""

    @abstractmethod
    def forward(
        self, query: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Return contexts [B, T, M] for queries [B, T, Q], and the new state."""


class Attention(SourceReader):
    """Soft alignment: the mean of the values, weighted by the softmax of a scorer's scores over
    real tokens.

    All T queries are one batch, unless the scorer depends on earlier reads.
    """

    def __init__(self, scorer: Component, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.scorer: Any = build(SCORERS, scorer, query_size=query_size, key_size=key_size)
        self.name = scorer["name"]
        kind = type(self.scorer).__name__
        if not callable(getattr(self.scorer, "keys", None)):
            raise TypeError(f"{kind}: no method keys(states); see AttentionScorer")
        if not callable(self.scorer):
            raise TypeError(f"{kind}: cannot be called with (query, keys); see AttentionScorer")
        self.needs = declared_needs(self.scorer, SCORER_INPUTS)
        self.has_heads = hasattr(self.scorer, "join")
        self.writes = hasattr(self.scorer, "write")
        self.shows_mean = getattr(self.scorer, "per_feature", False)
        self.is_stateful = self.writes or not self.needs.isdisjoint(("last", "coverage"))

    @property
    def head_slices(self) -> HeadSlices | None:
        """Heads of the scorer; None if it has one."""
        slices: HeadSlices | None = getattr(self.scorer, "head_output", None)
        return slices

    @property
    def additive(self) -> AdditiveScorer | None:
        """The scorer, unless its class is another one, even a subclass."""
        return self.scorer if type(self.scorer) is AdditiveScorer else None

    @property
    def preparable(self) -> bool:
        """True if the scorer has a method ``prepared``."""
        return hasattr(self.scorer, "prepared")

    def prepared(self, *, int8: bool) -> PreparedAttention:
        """Return the same mean with the prepared scorer."""
        return PreparedAttention(self.scorer.prepared(int8=int8))

    def start(self, encoded: Encoded) -> tuple[AttentionMemory, Rows]:
        """Return keys and values of the source, and a state with all weights 0."""
        memory = self._memory(encoded.states, encoded.mask)
        if not self.is_stateful:
            return memory, Rows()
        # the precision of attention weights
        exact = torch.promote_types(encoded.states.dtype, torch.float32)
        zeros = encoded.states.new_zeros(encoded.mask.shape, dtype=exact)  # [B, S]
        return memory, AttentionState(zeros, zeros, (encoded.states,) if self.writes else ())

    def forward(
        self,
        query: Tensor,
        memory: AttentionMemory,
        state: State,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, State]:
        """Return contexts [B, T, M] for queries [B, T, Q]; the hook gets the weights [B, H, T, S]
        of all steps.

        Raises:
            UserError: the scorer returned scores of the wrong shape.
        """
        if not self.is_stateful:
            contexts, weights = self._read(query, memory, {})
        else:
            steps = []
            for step_query in torch.split(query, 1, 1):  # [B, 1, Q]
                if self.writes:
                    state = replace(
                        state, states=(self.scorer.write(state.states[0], step_query, state.last),)
                    )
                    memory = self._memory(state.states[0], memory.mask)
                context, weights = self._read(
                    step_query, memory, {"last": state.last, "coverage": state.coverage}
                )
                last = (weights if weights.dim() == 3 else weights.mean(1)).squeeze(1)  # [B, S]
                state = replace(state, last=last, coverage=state.coverage + last)
                steps.append((context, weights))
            contexts, weights = (torch.cat(parts, -2) for parts in zip(*steps, strict=True))
        if hook is not None:
            shown = weights.mean(1) if self.shows_mean else weights
            hook(self, shown if shown.dim() == 4 else shown.unsqueeze(1))  # [B, H, T, S]
        return contexts, state

    def _memory(self, states: Tensor, mask: Tensor) -> AttentionMemory:
        keys = self.scorer.keys(states)
        values = self.scorer.values(states) if self.has_heads else states
        # cast once, not at each step under autocast
        return AttentionMemory(keys, values.to(keys.dtype), mask)

    def _read(
        self, query: Tensor, memory: AttentionMemory, past: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return contexts [B, T, M] and weights [B, T, S], or with heads [B, H, T, S]."""
        offered = {"mask": memory.mask, **past}
        scores = self.scorer(query, memory.keys, **{name: offered[name] for name in self.needs})
        self._check_scores(scores, query, memory.mask)
        mask = memory.mask[:, None] if scores.dim() == 3 else memory.mask[:, None, None]
        weights = masked_softmax(scores, mask)
        # [B, T, M], or with heads [B, H, T, W]
        contexts = weights.to(memory.values.dtype) @ memory.values
        return (self.scorer.join(contexts) if self.has_heads else contexts), weights

    def _check_scores(self, scores: Tensor, query: Tensor, mask: Tensor) -> None:
        """Compare shapes only: about a microsecond, at every read."""
        heads = scores.shape[1:2] if self.has_heads else ()
        expected = (len(query), *heads, query.shape[1], mask.shape[1])
        if scores.shape != expected:
            letters = "[B, H, T, S]" if self.has_heads else "[B, T, S]"
            raise UserError(
                f"attention {self.name}: scores have the shape {list(scores.shape)}; "
                f"return {letters}, here {list(expected)}"
            )


@dataclass(frozen=True)
class SummaryMemory(Rows):
    """Source as one vector."""

    vector: Tensor  # [B, M]


class NoAttention(SourceReader):
    """The fixed-vector baseline: every context is the source's summary; Cho et al. 2014,
    equation 7.
    """

    has_weights = False
    preparable = True

    def prepared(self, *, int8: bool) -> PreparedSummary:
        """Return the vector for each row of a beam."""
        return PreparedSummary()

    def start(self, encoded: Encoded) -> tuple[SummaryMemory, Rows]:
        """Return the summary, and an empty state."""
        return SummaryMemory(encoded.summary), Rows()

    def forward(
        self, query: Tensor, memory: SummaryMemory, state: Rows, hook: AttentionHook | None = None
    ) -> tuple[Tensor, Rows]:
        """Return contexts [B, T, M] for queries [B, T, Q]; the hook is never called."""
        return memory.vector.unsqueeze(1).expand(-1, query.shape[1], -1), state


class PreparedScorer(Protocol):
    """A scorer in float32 for N sources, each with ``copies`` queries."""

    def keys(self, keys: Tensor) -> Tensor:
        """Return what is read of keys [N, S, Q] at each step."""

    def __call__(self, query: Tensor, keys: Tensor, copies: int) -> Tensor:
        """Return scores [N, copies, S] of queries [N copies, Q]; they may differ from the scorer's
        by a constant of each row.
        """


class PreparedReader(Protocol):
    """A reader in float32; the rows of a beam share their source."""

    def start(self, memory: Memory) -> SharedRows:
        """Return what is read at each step."""

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, Tensor | None]:
        """Return contexts [B, M] for states [B, D], and the attention weights [N, K, S], if there
        are any.
        """


class PreparedSummary:
    """The source as one vector."""

    def start(self, memory: SummaryMemory) -> SharedRows:
        """Return the vector [N, M]."""
        return SharedRows((memory.vector.float(),))

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, None]:
        """Return the vector of each row."""
        vector = memory.parts[0]
        return (vector if memory.copies == 1 else vector.repeat_interleave(memory.copies, 0)), None


class PreparedAttention:
    """The mean of a source's values, with a prepared scorer, for the rows of a beam."""

    def __init__(self, scores: PreparedScorer) -> None:
        self.scores = scores

    def start(self, memory: AttentionMemory) -> SharedRows:
        """Return keys [N, S, Q], values [N, S, M], and a mask [N, S] that is added to the
        scores.
        """
        values = memory.values.float().masked_fill(~memory.mask.unsqueeze(-1), 0.0)
        keys = self.scores.keys(memory.keys.float())
        return SharedRows((keys, values), (additive_mask(memory.mask, torch.float32),))

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, Tensor]:
        """Return contexts and weights."""
        keys, values = memory.parts
        (mask,) = memory.masks
        weights = self.scores(query, keys, memory.copies).add_(mask.unsqueeze(1)).softmax(-1)
        return torch.bmm(weights, values).flatten(0, 1), weights


ATTENTIONS: Family[Any] = Family(
    "attention", {"none": NoAttention, **SCORERS}, runtime=("query_size", "key_size")
)
"""Attentions of recurrent decoders, by their names in a recipe."""


def build_attention(component: Component, *, query_size: int, key_size: int) -> SourceReader:
    """Build the attention of a scorer, or `NoAttention` for ``none``.

    Raises:
        UserError: no mapping, an unknown name, or arguments that do not fit.
    """
    name, _ = name_and_arguments(component)
    if ATTENTIONS.constructor(name) is NoAttention:
        none: SourceReader = build(ATTENTIONS, component)
        return none
    return Attention(component, query_size=query_size, key_size=key_size)
