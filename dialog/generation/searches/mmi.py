"""Maximum mutual information: rerank candidates by how probable they make the message.

Shapes: N sources, S source tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

from torch import Tensor

from dialog.config.components import Component, build
from dialog.generation.constraints import Constraints
from dialog.generation.search import Hypothesis, Replies, Search, Step, best_first
from dialog.generation.searches.single import BEAM, SINGLE, check_finite
from dialog.models.contracts import Memory, State

ReverseScores = Callable[[list[list[int]], list[list[list[int]]]], list[list[float]]]
"""From the tokens of N sources, and of the candidates of each, to log p(message | candidate) in
nats.
"""
LoadReverse = Callable[[str], ReverseScores]
"""Load the reverse model of a run folder."""


class MutualInformation(Search):
    """Rerank the candidates T of a search by log p(T | S) + weight log p(M | T) + length_weight
    |T|.

    MMI-bidi of Li et al. 2016 (NAACL), section 4.5.2. S is the source, M its last turn; |T|
    excludes the end token. Candidates without an end token come last.

    Args:
        reverse: Run folder of the model p(M | T), trained with data.reverse=true
            data.context_turns=1; required.
        weight: lambda; 0 sorts by log-probability and length only.
        length_weight: gamma.
        search: The search whose candidates are reranked.
    """

    def __init__(
        self,
        *,
        constraints: Constraints,
        load_reverse: LoadReverse,
        reverse: str = "",
        weight: float = 0.5,
        length_weight: float = 0.0,
        search: Component = BEAM,
    ) -> None:
        if not reverse:
            train = "`python -m dialog train RECIPE data.reverse=true data.context_turns=1`"
            raise ValueError(
                f"no reverse model; train one with {train}: its folder is generation.search.reverse"
            )
        check_finite(weight=weight, length_weight=length_weight)
        self.inner = build(SINGLE, search, constraints=constraints)
        self.candidates = self.inner.candidates
        if self.candidates < 2:
            raise ValueError(
                f"{search['name']} returns one candidate; set search.candidates, as of a beam or"
                " sampling"
            )
        self.weight = weight
        self.length_weight = length_weight
        self.scores = load_reverse(reverse)

    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode candidates for each row of `first` [N, 1] and sort them; none if a score is not a
        number.
        """
        replies = self.inner(step, first, memory, state, source, ids)
        tokens = [[reply.tokens for reply in hypotheses] for hypotheses in replies]
        reverse = self.scores(source.tolist(), tokens)
        return [self._sorted(*row) for row in zip(replies, reverse, strict=True)]

    def _sorted(
        self, hypotheses: Sequence[Hypothesis], reverse: Sequence[float]
    ) -> list[Hypothesis]:
        if any(map(isnan, reverse)):
            return []
        ranked = [
            hypothesis._replace(
                rank=hypothesis.score
                + self.weight * score
                + self.length_weight * len(hypothesis.tokens)
            )
            for hypothesis, score in zip(hypotheses, reverse, strict=True)
        ]
        return best_first(ranked)
