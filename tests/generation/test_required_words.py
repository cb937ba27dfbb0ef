"""Required words in beam search: in every response, at any width, with true scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from chains import END, START, Sourced

from dialog.config.components import construct
from dialog.generation.banned_words import BannedWords
from dialog.generation.constraints import Constraints
from dialog.generation.required_words import RequiredWords
from dialog.generation.search import Search
from dialog.generation.searches.banks import Banks
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DelayedBeam, DiverseBeam

PIECES = [b"", b"", b" ca", b"t", b"s", b" dog", b" the", b"!", b" Cat"]
"""Text of each token; 0 and 1 are the end and begin tokens."""
WORDS = [
    ["dog"],
    ["cats", "dog"],
    ["cat", "cats"],
    ["cat the", "the dog", "dog cat"],
    ["dog", "dog the dog"],
]
"""The last ones share tokens, or one contains another."""
PENALTIES = [
    {"length_penalty": 0.0},
    {"length_penalty": 1.0},
    {"length_penalty": 0.6, "normalisation": "gnmt"},
]
SEARCHES: list[Callable[..., Search]] = [
    lambda **rest: construct(Beam, width=5, candidates=5, **rest),
    lambda **rest: construct(Beam, width=2, candidates=1, **rest),
    lambda **rest: construct(DiverseBeam, width=6, groups=3, candidates=4, **rest),
    lambda **rest: construct(DelayedBeam, width=5, candidates=5, delay=1, top_k=0, **rest),
]


def limits(words: list[str], longest: int, **others: object) -> Constraints:
    required = RequiredWords.build(words, PIECES, range(2, len(PIECES)))
    values = {
        "special": (START,),
        "min_length": 0,
        "max_length": longest,
        "required": required,
        **others,
    }
    return Constraints(end=END, **values)


def contains(tokens: list[int], words: list[str]) -> bool:
    """Return whether a response has all words, by its text alone."""
    text = f" {b''.join(PIECES[token] for token in tokens).decode().lower().replace('!', ' ')} "
    return all(f" {word} " in text for word in words)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("search", SEARCHES)
def test_every_response_has_all_words(
    search: Callable[..., Search], penalty: dict[str, Any]
) -> None:
    """With room for few tokens or many; the scores are those of the model, and the batch changes
    nothing.
    """
    chains = Sourced.draw(len(PIECES), range(12))
    for words in WORDS:
        for longest in (9, 14):
            decode = search(constraints=limits(words, longest), **penalty)
            together = chains.search(decode)
            for kind, replies in enumerate(together):
                assert replies
                for reply in replies:
                    assert contains(reply.tokens, words), (words, reply.tokens)
                    expected = chains.scores(kind, reply.tokens, finished=reply.finished)
                    assert reply.token_scores == pytest.approx(expected, abs=1e-6)
        assert Sourced(chains.tables[:1]).search(decode)[0] == together[0]


@pytest.mark.parametrize("words", WORDS)
def test_words_fit_into_the_shortest_response(words: list[str]) -> None:
    shortest = 1
    while True:
        try:
            constraints = limits(words, shortest)
            break
        except ValueError:
            shortest += 1
    for replies in Sourced.draw(len(PIECES), range(40)).search(
        construct(Beam, constraints=constraints, width=2)
    ):
        assert contains(replies[0].tokens, words)


def test_other_constraints_hold_beside_required_words() -> None:
    chains = Sourced.draw(len(PIECES), range(40))
    banned = BannedWords.build(["the"], PIECES)
    constraints = limits(
        ["cats", "dog"], 12, banned=banned, min_length=6, no_repeat_ngram=2, prefix=(5,)
    )
    for replies in chains.search(construct(Beam, constraints=constraints, width=5, candidates=5)):
        for reply in replies:
            assert contains(reply.tokens, ["cats", "dog"])
            assert len(reply.tokens) >= 6
            assert reply.tokens[0] == 5
            assert not contains(reply.tokens, ["the"])


def test_words_that_are_blocked_end_the_response_without_them() -> None:
    """Two words need the same token, which may occur once."""
    constraints = limits(["cat", "cats"], 8, no_repeat_ngram=1, special=(START, 8))
    for replies in Sourced.draw(len(PIECES), range(20)).search(
        construct(Beam, constraints=constraints, width=3)
    ):
        assert replies
        assert not contains(replies[0].tokens, ["cat", "cats"])


@pytest.mark.parametrize(
    ("words", "tokens", "needed"),
    [
        (["cats", "dog"], [], 4),
        (["cats", "dog"], [2], 3),
        (["cats", "dog"], [2, 3], 2),
        (["cats", "dog"], [2, 6], 4),  # broken off
        (["cats", "dog"], [2, 3, 4, 5], 0),
        (["cat", "cats"], [2, 3], 3),  # the boundary may be that of the next word
        (["cat"], [2, 3, 4], 2),
        (["the dog", "dog the"], [6], 2),
    ],
)
def test_tokens_that_are_needed_by_hand(words: list[str], tokens: list[int], needed: int) -> None:
    required = RequiredWords.build(words, PIECES, range(2, 7))
    constraints = limits(words, 12, required=required)
    progress = constraints.start(1, torch.device("cpu"))
    for token in tokens:
        progress = constraints.advance(progress, torch.tensor([token]))
    assert int(required.needed[progress.required, progress.missing]) == needed


def test_places_go_to_each_bank_in_turn() -> None:
    """With one word of one token: candidates with the word (*) and without it, in the order of
    their places.
    """
    constraints = limits(["dog"], 9)
    banks = Banks.of(constraints, constraints.start(2, torch.device("cpu")), 2, 0)
    tokens = torch.tensor([[[6, 7, 5], [6, 5, 7]]])
    sums = torch.tensor([[-1.0, -2.0, -8.0, -1.5, -9.0, -torch.inf]])
    order = banks.order(sums, tokens, 0)
    assert order[0].tolist() == [2, 0, 4, 3, 1, 5]  # * -8, -1, * -9, -1.5, -2, none


def test_too_many_words_are_rejected() -> None:
    with pytest.raises(ValueError, match="13 required words; give at most 12"):
        limits(["dog"] * 13, 60)
