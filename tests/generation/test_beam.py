"""Beam search against brute force on random Markov chains, and beams with a sampled beginning."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from chains import END, START, Before, Chain, Sourced, repeats, responses
from torch import Tensor

from dialog.config.components import construct
from dialog.generation.constraints import Constraints
from dialog.generation.required_words import RequiredWords
from dialog.generation.search import Replies, Search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DelayedBeam, DiverseBeam
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.hypotheses import LengthPenalty
from dialog.models.contracts import State
from dialog.models.state import Rows

VOCABULARY = 5
EVERYTHING = 400
PIECES = [b"", b"", b" ca", b"t", b" dog"]
"""Text of each token; 0 and 1 are the end and begin tokens."""
PENALTIES = [
    {"length_penalty": 0.0},
    {"length_penalty": 1.0},
    {"length_penalty": 0.6, "normalisation": "gnmt"},
    {"length_penalty": 2.0, "normalisation": "gnmt"},
]


def text(tokens: list[int]) -> str:
    """Return a text with spaces around it."""
    return f" {b''.join(PIECES[token] for token in tokens).decode()} "


def limits(**others: object) -> Constraints:
    return Constraints(end=END, special=(START,), **{"min_length": 0, "max_length": 4, **others})


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(
    "constraint",
    [
        {},
        {"min_length": 2},
        {"no_repeat_ngram": 1},
        {"no_repeat_ngram": 2},
        {"required": ["cat"]},
    ],
)
def test_a_beam_of_everything_finds_the_best_responses(
    penalty: dict[str, Any], constraint: dict[str, Any]
) -> None:
    """In 40 random chains at a time."""
    divisor = LengthPenalty(penalty["length_penalty"], penalty.get("normalisation", "average"))
    required = constraint.get("required", [])
    tables = {"required": RequiredWords.build(required, PIECES, [2, 3, 4])} if required else {}
    constraints = limits(**{**constraint, **tables})
    order = constraint.get("no_repeat_ngram", 9)
    candidates = [
        tokens
        for tokens in responses(VOCABULARY, constraints)
        if not repeats(tokens, order) and all(f" {word} " in text(tokens) for word in required)
    ]
    count = min(7, len(candidates))
    chains = Sourced.draw(VOCABULARY, range(40))
    ranks = torch.stack(
        [chains.totals(tokens) / divisor(len(tokens) + 1) for tokens in candidates], 1
    )
    places = {tuple(tokens): place for place, tokens in enumerate(candidates)}
    replies = chains.search(
        construct(Beam, constraints=constraints, width=EVERYTHING, candidates=count, **penalty)
    )
    decoded = torch.tensor(
        [[places[tuple(reply.tokens)] for reply in hypotheses] for hypotheses in replies]
    )
    best = ranks.topk(count).values
    # two may be almost equal
    torch.testing.assert_close(ranks.gather(1, decoded), best, rtol=1e-6, atol=1e-6)
    assert all(len(set(row)) == count for row in decoded.tolist())
    stated = torch.tensor(
        [[reply.rank for reply in hypotheses] for hypotheses in replies], dtype=torch.double
    )
    torch.testing.assert_close(stated, best, rtol=1e-6, atol=1e-6)


def test_best_responses_of_a_chain_with_a_known_answer() -> None:
    """From the start to A 0.6, B 0.4; from A to the end 0.45, B 0.55; from B to the end 0.9,
    A 0.1.
    """
    a, b = 2, 3
    table = torch.eye(4)
    table[START], table[a], table[b] = torch.tensor(
        [[0, 0, 0.6, 0.4], [0.45, 0, 0, 0.55], [0.9, 0, 0.1, 0]]
    )
    chain = Chain(table.log().double().expand(4, 4, 4))
    (hypotheses,) = chain.search(
        construct(Beam, constraints=limits(), width=6, candidates=5, length_penalty=0.0)
    )
    expected = [([b], 0.36), ([a, b], 0.297), ([a], 0.27), ([b, a, b], 0.0198), ([b, a], 0.018)]
    assert [reply.tokens for reply in hypotheses] == [tokens for tokens, _ in expected]
    assert [math.exp(reply.score) for reply in hypotheses] == pytest.approx(
        [value for _, value in expected]
    )
    assert chain.search(Greedy(constraints=limits()))[0][0].tokens == [a, b]


def test_length_penalties_by_hand() -> None:
    assert LengthPenalty(0.6, "gnmt")(7) == pytest.approx(2**0.6)
    assert LengthPenalty(2.0, "average")(3) == 9
    assert LengthPenalty(0.0, "gnmt")(7) == LengthPenalty(0.0, "average")(7) == 1


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_scores_are_likelihoods_and_ranks_are_sorted(width: int, penalty: dict[str, Any]) -> None:
    for seed in range(10):
        chain = Chain.draw(VOCABULARY, seed)
        (found,) = chain.search(
            construct(Beam, constraints=limits(), width=width, candidates=width, **penalty)
        )
        assert found
        for reply in found:
            assert reply.token_scores == pytest.approx(
                chain.scores(reply.tokens, finished=reply.finished), abs=1e-6
            )
        assert len({tuple(reply.tokens) for reply in found}) == len(found)
        for finished in (True, False):
            ranks = [reply.rank for reply in found if reply.finished is finished]
            assert ranks == sorted(ranks, reverse=True)
        assert [reply.finished for reply in found] == sorted(
            (reply.finished for reply in found), reverse=True
        )


def test_open_hypotheses_are_ranked_by_their_own_length() -> None:
    logits = Chain.draw(VOCABULARY, 1).logits.clone()
    logits[..., END] -= 100
    (found,) = Chain(logits).search(
        construct(Beam, constraints=limits(), width=3, candidates=3, length_penalty=1.0)
    )
    assert [(len(reply.tokens), reply.finished) for reply in found] == 3 * [(4, False)]
    assert [reply.rank for reply in found] == pytest.approx([reply.score / 4 for reply in found])


@pytest.mark.parametrize("penalty", PENALTIES)
def test_width_one_is_greedy_search(penalty: dict[str, Any]) -> None:
    for seed in range(50):
        chain = Chain.draw(VOCABULARY, seed)
        constraints = limits(max_length=6, min_length=seed % 3)
        (greedy,), (beam,) = (
            chain.search(search)
            for search in (
                Greedy(constraints=constraints),
                construct(Beam, constraints=constraints, width=1, **penalty),
            )
        )
        assert [reply[:3] for reply in greedy] == [reply[:3] for reply in beam]


@pytest.mark.parametrize(
    "search",
    [
        lambda constraints: construct(Beam, constraints=constraints, width=3, candidates=3),
        lambda constraints: construct(
            DiverseBeam, constraints=constraints, width=4, groups=2, candidates=4
        ),
        lambda constraints: construct(
            DelayedBeam, constraints=constraints, width=3, candidates=2, top_k=0
        ),
    ],
)
def test_batched_equals_single(search: Callable[..., Search]) -> None:
    source = torch.tensor([[row + 6, row + 7, 0] for row in range(12)])
    decode = search(limits(max_length=9, no_repeat_ngram=2))
    for seed in range(5):
        chain = Chain.draw(VOCABULARY, seed)
        together = chain.search(decode, 12, source)
        for row in range(12):
            assert chain.search(decode, 1, source[row : row + 1, :2]) == [together[row]]


@dataclass(frozen=True)
class Shift(Rows):
    """Memory of a source: how much more probable its end token is."""

    shift: Tensor  # [N]


class Shifted(Chain):
    """Chain whose end token is more or less probable for each source."""

    def __call__(self, tokens: Tensor, memory: Shift, state: Before) -> tuple[Tensor, State]:
        logits, after = super().__call__(tokens, memory, state)
        logits = logits.clone()
        logits[..., END] += memory.shift.unsqueeze(1)
        return logits, after


def test_sources_that_have_ended_change_no_other_source() -> None:
    """Some sources end at once and others never do."""
    chain = Shifted(Chain.draw(VOCABULARY, 3).logits)
    shifts = torch.tensor([9.0, -9.0, 0.0, 9.0, 9.0, 1.0, 9.0, -2.0], dtype=torch.double)
    decode = construct(Beam, constraints=limits(max_length=12), width=3, candidates=3)

    def run(rows: Tensor) -> Replies:
        first = torch.full((len(rows), 1), START)
        return decode(chain, first, Shift(rows), Before(first.squeeze(1)), first)

    assert run(shifts) == [run(shifts[row : row + 1])[0] for row in range(len(shifts))]


def test_a_delayed_beam_begins_with_drawn_tokens() -> None:
    chain = Chain.draw(VOCABULARY, 5)
    begins = {
        tuple(
            chain.search(
                construct(
                    DelayedBeam,
                    constraints=limits(min_length=2),
                    delay=2,
                    top_k=0,
                    width=1,
                    seed=seed,
                )
            )[0][0].tokens[:2]
        )
        for seed in range(60)
    }
    assert len(begins) > 5
    (found,) = chain.search(
        construct(DelayedBeam, constraints=limits(), width=3, candidates=3, top_k=1)
    )
    assert len({tuple(reply.tokens) for reply in found}) == len(found)


@pytest.mark.parametrize(
    ("search", "arguments"),
    [
        (Beam, {"width": 0}),
        (Beam, {"width": 2, "candidates": 3}),
        (Beam, {"length_penalty": -1.0}),
        (Beam, {"normalisation": "wu"}),
        (DiverseBeam, {"width": 5, "groups": 2}),
        (DiverseBeam, {"diversity": -1.0}),
        (DelayedBeam, {"delay": 9}),
    ],
)
def test_invalid_settings_are_rejected(
    search: Callable[..., Search], arguments: dict[str, Any]
) -> None:
    with pytest.raises(
        ValueError, match=next(iter(arguments)) if "groups" not in arguments else "groups"
    ):
        construct(search, constraints=limits(), **arguments)


def test_scores_that_are_no_numbers_give_no_reply() -> None:
    chain = Chain(torch.full((VOCABULARY,) * 3, math.nan))
    assert chain.search(construct(Beam, constraints=limits(), width=2)) == [[]]
    assert chain.search(Greedy(constraints=limits())) == [[]]


def test_a_beam_may_be_wider_than_the_vocabulary() -> None:
    (found,) = Chain.draw(VOCABULARY, 1).search(
        construct(Beam, constraints=limits(), width=60, candidates=60)
    )
    assert len(found) == 60
