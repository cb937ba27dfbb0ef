"""Search that avoids what the model would generate without a source.

Shapes: N rows, M hypotheses of all sources, S source tokens, L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from dialog.config.components import Component, build
from dialog.generation.constraints import Constraints
from dialog.generation.search import EncodingStep, Hypothesis, Replies, Search, Step
from dialog.generation.searches.single import BEAM, SINGLE, check_finite
from dialog.models.contracts import Memory, State
from dialog.models.state import Rows

TOGETHER = 32
"""Hypotheses whose tokens are scored together."""


@dataclass(frozen=True)
class Pair(Rows):
    """Memories or states of the model with its source and with the empty one."""

    full: Rows
    empty: Rows


class AntiLanguageModel(Search):
    """Search for the largest log p(T | S) - weight log p(T_1..g) + length_weight |T|.

    MMI-antiLM of Li et al. 2016 (NAACL), section 4.5.1. p(T_1..g) is the probability of the first g
    = ``tokens`` tokens under the same model after an empty source; |T| excludes the end token.
    Ranks are divided by the search's length penalty, if it has one. Temperature and truncations of
    sampling apply to the difference.

    Args:
        weight: lambda; 0 leaves the search as it is.
        tokens: g; later tokens, whose probabilities are those of fluent language, are not
            penalised.
        length_weight: gamma.
        search: The search; any but contrastive, which needs probabilities.
    """

    def __init__(
        self,
        *,
        constraints: Constraints,
        empty_source: Sequence[int],
        weight: float = 0.5,
        tokens: int = 5,
        length_weight: float = 0.0,
        search: Component = BEAM,
    ) -> None:
        check_finite(weight=weight, length_weight=length_weight)
        if search.get("name") == "contrastive":
            raise ValueError("contrastive search needs probabilities; choose another search")
        if tokens < 0:
            raise ValueError(f"tokens is {tokens}; give a number from 0")
        self.inner = build(SINGLE, search, constraints=replace(constraints, normalised=False))
        self.candidates = self.inner.candidates
        self.empty_source = list(empty_source)
        self.end = constraints.end
        self.weight = weight
        self.tokens = tokens
        self.length_weight = length_weight

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode responses for each row of `first` [N, 1]; the step must be an `EncodingStep`."""
        empty = torch.tensor([self.empty_source], device=source.device)
        started = cast("EncodingStep", step).start(empty, torch.ones_like(empty, dtype=torch.bool))
        memories, states = (
            Pair(full, part.repeat(len(first)))
            for full, part in zip((memory, state), started, strict=True)
        )
        replies = self.inner(DifferenceStep(step, self), first, memories, states, source, ids)
        return with_likelihoods(replies, step, first, memory, state, self.end)


class DifferenceStep:
    """Preferences for one search: log p(v | S) - weight log p(v), and ``length_weight`` for all but
    the end token.
    """

    def __init__(self, step: Step, settings: AntiLanguageModel) -> None:
        self.step = step
        self.settings = settings
        self.length = 0

    def __call__(self, tokens: Tensor, memory: Pair, state: Pair) -> tuple[Tensor, Pair]:
        """Read tokens [N, 1]; return preferences [N, 1, V] and the new states."""
        logits, full = self.step(tokens, memory.full, state.full)
        preferences = logits.float().log_softmax(-1)
        empty = state.empty
        if self.length < self.settings.tokens:
            logits, empty = self.step(tokens, memory.empty, state.empty)
            preferences = preferences - self.settings.weight * logits.float().log_softmax(-1)
        self.length += tokens.shape[1]
        preferences = preferences + self.settings.length_weight
        preferences[..., self.settings.end] -= self.settings.length_weight
        return preferences, Pair(full, empty)


def with_likelihoods(
    replies: Replies, step: Step, first: Tensor, memory: Memory, state: State, end: int
) -> Replies:
    """Return the hypotheses with the log-probabilities of their tokens under a step."""
    flat = [(row, reply) for row, hypotheses in enumerate(replies) for reply in hypotheses]
    scored: list[Hypothesis] = []
    for start in range(0, len(flat), TOGETHER):
        numbers, hypotheses = zip(*flat[start : start + TOGETHER], strict=True)
        rows = torch.tensor(numbers, device=first.device)  # [M]
        targets = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor([*reply.tokens, end]) for reply in hypotheses],
            batch_first=True,
            padding_value=end,
        ).to(first.device)  # [M, L + 1]
        read = torch.cat([first[rows], targets[:, :-1]], 1)
        logits, _ = step(read, memory.select(rows), state.select(rows))  # [M, L + 1, V]
        scores = (
            logits.float().log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1).tolist()
        )
        scored += [
            reply._replace(token_scores=row[: len(reply.token_scores)])
            for reply, row in zip(hypotheses, scores, strict=True)
        ]
    remaining = iter(scored)
    return [[next(remaining) for _ in hypotheses] for hypotheses in replies]
