"""Constraints that combine with any search: n-grams, penalties, prefixes, banned and required
words.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from chains import END, START, Chain, repeats
from torch.utils._python_dispatch import TorchDispatchMode

from dialog.config.components import Component, construct
from dialog.generation.banned_words import BannedWords
from dialog.generation.constraints import Constraints
from dialog.generation.required_words import RequiredWords
from dialog.generation.search import Search
from dialog.generation.searches.anti_lm import AntiLanguageModel
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DelayedBeam, DiverseBeam
from dialog.generation.searches.contrastive import Contrastive
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.mmi import MutualInformation
from dialog.generation.searches.sampling import Sampling

PIECES = [b"", b"", b" ca", b"t", b"s", b" dog", b" the", b"!", b" Cat"]
"""Text of each token; 0 and 1 are the end and begin tokens."""
Make = Callable[[Constraints], Search]
SEARCHES: dict[str, Make] = {
    "greedy": lambda constraints: Greedy(constraints=constraints),
    "beam": lambda constraints: construct(Beam, constraints=constraints, width=3, candidates=3),
    "diverse": lambda constraints: construct(
        DiverseBeam, constraints=constraints, width=4, groups=2, candidates=2
    ),
    "delayed": lambda constraints: construct(
        DelayedBeam, constraints=constraints, width=3, candidates=3
    ),
    "sampling": lambda constraints: Sampling(constraints=constraints, candidates=3),
    "contrastive": lambda constraints: Contrastive(constraints=constraints, top_k=3),
    "mmi": lambda constraints: mutual(
        constraints, {"name": "diverse_beam", "width": 4, "groups": 2, "candidates": 4}
    ),
    **{
        f"anti_lm, {inner['name']}": lambda constraints, inner=inner: AntiLanguageModel(
            constraints=constraints, empty_source=[0], search=inner, weight=0.8
        )
        for inner in ({"name": "greedy"}, {"name": "beam", "width": 3, "candidates": 3})
    },
}


def mutual(constraints: Constraints, inner: Component) -> Search:
    """The longest candidate first, whatever the model prefers."""

    def scores(sources: list[list[int]], candidates: list[list[list[int]]]) -> list[list[float]]:
        return [[float(len(tokens)) for tokens in rows] for rows in candidates]

    return MutualInformation(
        constraints=constraints,
        load_reverse=lambda folder: scores,
        reverse="run",
        search=inner,
        weight=9.0,
    )


@pytest.fixture(params=SEARCHES)
def make(request: pytest.FixtureRequest) -> Make:
    return SEARCHES[request.param]


def limits(**others: object) -> Constraints:
    return Constraints(end=END, **{"special": (START,), "min_length": 4, "max_length": 9, **others})


def decode(search: Search, source: torch.Tensor | None = None) -> list[list[int]]:
    """Decode with several chains; return the tokens of all candidates."""
    return [
        reply.tokens
        for seed in range(8)
        for reply in Chain.draw(len(PIECES), seed).search(search, 1, source)[0]
    ]


def text(tokens: list[int]) -> str:
    return b"".join(PIECES[token] for token in tokens).decode()


def words(tokens: list[int]) -> list[str]:
    return text(tokens).lower().replace("!", " ").split()


def test_responses_have_lengths_in_the_range(make: Make) -> None:
    for shortest, longest in ((0, 2), (3, 3), (4, 9)):
        lengths = set(map(len, decode(make(limits(min_length=shortest, max_length=longest)))))
        assert lengths <= set(range(shortest, longest + 1))
        assert max(lengths) > shortest or shortest == longest


def test_no_ngram_occurs_twice(make: Make) -> None:
    for order in (1, 2, 3):
        assert not any(
            repeats(tokens, order)
            for tokens in decode(make(limits(no_repeat_ngram=order, max_length=6)))
        )


def test_no_ngram_of_the_context_occurs(make: Make) -> None:
    source = torch.tensor([[2, 3, 4, 5, 6, 7, 8, 2, 5, 3, 8]])
    pairs = set(pairwise(source[0].tolist()))
    for tokens in decode(make(limits(block_context_ngram=2)), source):
        assert not pairs & set(pairwise(tokens))


def test_the_end_of_the_context_can_end_a_response() -> None:
    """A source ends with the end token; after the same last token a response may end too."""
    source = torch.tensor([[2, 3, END]])
    for order, prefix in ((1, []), (2, [3]), (3, [2, 3])):
        constraints = limits(min_length=0, block_context_ngram=order)
        tokens = torch.tensor([prefix], dtype=torch.long)
        _, preferences = constraints(
            torch.zeros(1, 9), tokens, source, constraints.start(1, tokens.device)
        )
        assert preferences[0, END] > -torch.inf


def test_a_response_begins_with_the_prefix(make: Make) -> None:
    for tokens in decode(make(limits(prefix=(6, 5)))):
        assert tokens[:2] == [6, 5]


def test_banned_words_do_not_occur_in_any_spelling(make: Make) -> None:
    finder = BannedWords.build(["cat"], PIECES)
    plain = decode(make(limits(special=(START, 5))))
    assert any("cat" in words(tokens) for tokens in plain)
    found = decode(make(limits(special=(START, 5), banned=finder)))
    assert not any("cat" in words(tokens) for tokens in found)
    assert any("cats" in words(tokens) for tokens in found) or "cats" not in map(
        tuple, map(words, plain)
    )


def test_required_words_occur(make: Make) -> None:
    required = RequiredWords.build(["cats", "dog"], PIECES, [2, 3, 4, 5])
    for lengths in ({}, {"min_length": 0, "max_length": 7}):
        for tokens in decode(make(limits(required=required, **lengths))):
            assert {"cats", "dog"} <= set(words(tokens)), text(tokens)


def test_banned_and_required_words_combine(make: Make) -> None:
    required = RequiredWords.build(["dog"], PIECES, [5])
    banned = BannedWords.build(["the", "cat"], PIECES)
    for tokens in decode(make(limits(required=required, banned=banned, no_repeat_ngram=3))):
        assert "dog" in words(tokens)
        assert not {"the", "cat"} & set(words(tokens))


def test_penalties_lower_repetition() -> None:
    def repeated(**settings: float) -> int:
        return sum(
            len(tokens) - len(set(tokens))
            for tokens in decode(Greedy(constraints=limits(**settings)))
        )

    plain = repeated()
    assert repeated(repetition_penalty=3.0) < plain
    assert repeated(frequency_penalty=3.0) < plain
    assert repeated(frequency_penalty=-3.0) > plain


def test_penalties_of_logits_by_hand() -> None:
    constraints = Constraints(end=END, min_length=0, repetition_penalty=2.0, frequency_penalty=0.5)
    logits, prefix = torch.tensor([[0.0, 4.0, -1.0, 3.0]]), torch.tensor([[1, 2, 2]])
    _, preferences = constraints(logits, prefix, prefix, constraints.start(1, torch.device("cpu")))
    expected = torch.tensor([[0.0, 4.0 / 2 - 0.5, -1.0 * 2 - 2 * 0.5, 3.0]]).log_softmax(-1)
    assert preferences.squeeze().tolist() == pytest.approx(expected.squeeze().tolist())


@pytest.mark.parametrize(
    "constraint",
    [
        {"frequency_penalty": 2.0},
        {"repetition_penalty": 2.0},
        {"prefix": (6, 5)},
        {"no_repeat_ngram": 1},
    ],
)
def test_constraints_change_choices_and_not_scores(make: Make, constraint: dict[str, Any]) -> None:
    search = make(limits(**constraint))
    for seed in range(3):
        chain = Chain.draw(len(PIECES), seed)
        for reply in chain.search(search)[0]:
            assert reply.token_scores == pytest.approx(
                chain.scores(reply.tokens, finished=reply.finished), abs=1e-6
            )


def test_a_row_in_which_everything_is_masked_ends() -> None:
    chain = Chain.draw(4, 1)  # two tokens besides begin and end
    constraints = Constraints(
        end=END, special=(START,), min_length=5, max_length=9, no_repeat_ngram=1
    )
    for search in (
        Greedy(constraints=constraints),
        construct(Beam, constraints=constraints, width=2),
    ):
        ((reply,),) = chain.search(search)
        assert sorted(reply.tokens) == [2, 3]
        assert reply.finished


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_length": 5, "max_length": 4}, "min_length"),
        ({"prefix": range(10)}, "prefix"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
    ],
)
def test_contradictions_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        limits(**settings)


def test_no_token_waits_for_an_index_of_the_host() -> None:
    """On a GPU, an index made of a list is a copy from the host, once for each token."""

    class Called(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.names.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    constraints = Constraints(end=2, special=(0, 1, 3, 5, 4), min_length=2)
    progress = constraints.start(3, torch.device("cpu"))
    prefix = torch.zeros(3, 1, dtype=torch.long)
    with Called() as called:
        _, preferences = constraints(torch.randn(3, 9), prefix, prefix, progress)
    assert torch.isinf(preferences[:, :6]).all()
    assert torch.isfinite(preferences[:, 6:]).all()
    copies = {"aten::_to_copy", "aten::index_put_", "aten::_index_put_impl_"}
    assert copies.isdisjoint(called.names)
    assert called.names.count("aten::fill_.Tensor") + called.names.count("aten::fill_") == 3
