"""Diverse beam search against a direct implementation on random Markov chains."""

from __future__ import annotations

from collections import Counter

import pytest
from chains import END, START, Chain

from dialog.config.components import construct
from dialog.generation.constraints import Constraints
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DiverseBeam

VOCABULARY = 5
Ranked = tuple[float, list[int]]
"""A sum of preferences, and tokens."""


def limits(**others: object) -> Constraints:
    return Constraints(end=END, special=(START,), **{"min_length": 0, "max_length": 4, **others})


def groups_by_hand(
    chain: Chain, constraints: Constraints, size: int, groups: int, diversity: float
) -> list[list[int]]:
    """Return the ended responses of Algorithm 1 of Vijayakumar et al. 2018, sorted by penalised sum
    / length.

    A group ends with ``size`` responses.
    """
    beams: list[list[Ranked]] = [[(0.0, [])] for _ in range(groups)]
    ended: list[list[Ranked]] = [[] for _ in range(groups)]
    for length in range(constraints.max_length + 1):
        chosen: Counter[int] = Counter()  # by earlier groups at this step
        for group in range(groups):
            extensions = sorted(
                (
                    (
                        total
                        + chain.scores([*tokens, token], finished=False)[-1]
                        - diversity * chosen[token],
                        [*tokens, token],
                    )
                    for total, tokens in beams[group]
                    for token in range(VOCABULARY)
                    if token not in constraints.special
                ),
                reverse=True,
            )
            ended[group] += [
                (total / (length + 1), path[:-1])
                for total, path in extensions[:size]
                if path[-1] == END
            ]
            beams[group] = [(total, path) for total, path in extensions if path[-1] != END][:size]
            chosen.update(path[-1] for _, path in beams[group])
            if len(ended[group]) >= size:
                beams[group] = []
    best = [reply for responses in ended for reply in sorted(responses, reverse=True)[:size]]
    ordered = [tokens for _, tokens in sorted(best, reverse=True)]
    return [tokens for place, tokens in enumerate(ordered) if tokens not in ordered[:place]]


@pytest.mark.parametrize(
    ("size", "groups", "diversity"), [(1, 3, 0.5), (2, 2, 2.0), (3, 2, 0.5), (2, 3, 1.0)]
)
def test_groups_against_the_published_algorithm(size: int, groups: int, diversity: float) -> None:
    """The candidates that have ended; a group without enough of them adds its open hypotheses."""
    constraints, width = limits(max_length=6), size * groups
    search = construct(
        DiverseBeam,
        constraints=constraints,
        width=width,
        groups=groups,
        diversity=diversity,
        candidates=width,
    )
    for seed in range(30):
        chain = Chain.draw(VOCABULARY, seed)
        (found,) = chain.search(search)
        ended = [reply.tokens for reply in found if reply.finished]
        assert ended == groups_by_hand(chain, constraints, size, groups, diversity)


def test_groups_avoid_the_tokens_of_earlier_groups() -> None:
    chain = Chain.draw(VOCABULARY, 2)
    plain, apart = (
        {
            reply.tokens[0]
            for reply in chain.search(
                construct(
                    DiverseBeam,
                    constraints=limits(min_length=1, max_length=1),
                    width=3,
                    groups=3,
                    candidates=3,
                    diversity=diversity,
                )
            )[0]
        }
        for diversity in (0.0, 100.0)
    )
    assert len(plain) == 1
    assert len(apart) == 3


def test_groups_without_diversity_are_equal_beams() -> None:
    """Their candidates are those of one beam: none occurs twice."""
    for seed in range(20):
        chain = Chain.draw(VOCABULARY, seed)
        (single,) = chain.search(construct(Beam, constraints=limits(), width=2, candidates=2))
        (groups,) = chain.search(
            construct(
                DiverseBeam, constraints=limits(), width=4, groups=2, diversity=0.0, candidates=4
            )
        )
        assert groups[:2] == single


@pytest.mark.parametrize("candidates", [1, 2, 5])
def test_candidates_of_groups_differ(candidates: int) -> None:
    """The best ones are those of all candidates."""
    counts = []
    for seed in range(30):
        chain = Chain.draw(VOCABULARY, seed)
        settings = {"constraints": limits(max_length=3), "width": 6, "groups": 3, "diversity": 2.0}
        (every,), (best,) = (
            chain.search(construct(DiverseBeam, candidates=count, **settings))
            for count in (6, candidates)
        )
        assert len({tuple(reply.tokens) for reply in every}) == len(every)
        assert best == every[:candidates]
        counts.append(len(every))
    assert 6 in counts
