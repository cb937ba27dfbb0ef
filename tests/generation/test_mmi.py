"""Both forms of maximum mutual information against enumeration on random Markov chains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from chains import END, START, Sourced, responses, total

from dialog.config.components import build
from dialog.errors import UserError
from dialog.generation.constraints import Constraints
from dialog.generation.search import Hypothesis, Search
from dialog.generation.searches.family import SEARCHES

VOCABULARY, EMPTY, ROWS = 5, 3, 4
"""The last of the kinds of sources is the empty one."""
EVERYTHING = {"name": "beam", "width": 400, "candidates": 400, "length_penalty": 0.0}
INNER = [
    {"name": "greedy"},
    {"name": "beam", "width": 3, "candidates": 3},
    {"name": "diverse_beam", "width": 4, "groups": 2, "candidates": 4},
    {"name": "delayed_beam", "width": 3, "candidates": 2, "top_k": 0},
    {"name": "sampling", "candidates": 3},
]


def reverse(sources: list[list[int]], candidates: list[list[list[int]]]) -> list[list[float]]:
    """An arbitrary p(message | response)."""
    return [
        [-((sum(tokens) * 7 + len(tokens) * 3 + source[0] * 5) % 11) / 2.0 for tokens in rows]
        for source, rows in zip(sources, candidates, strict=True)
    ]


def component(
    name: str, scores: Callable[..., list[list[float]]] = reverse, **arguments: object
) -> Search:
    constraints = Constraints(end=END, special=(START,), min_length=0, max_length=4)
    runtime: dict[str, Any] = {"load_reverse": lambda folder: scores, "empty_source": [EMPTY]}
    return build(SEARCHES, {"name": name, **arguments}, constraints=constraints, **runtime)


def every() -> list[list[int]]:
    return list(
        responses(VOCABULARY, Constraints(end=END, special=(START,), min_length=0, max_length=4))
    )


def ended(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return [reply for reply in hypotheses if reply.finished]


@pytest.mark.parametrize(
    ("weight", "length_weight"), [(0.0, 0.0), (0.5, 0.0), (2.0, 0.7), (0.3, -1.0)]
)
def test_reranking_everything_is_enumeration(weight: float, length_weight: float) -> None:
    search = component(
        "mmi", reverse="run", weight=weight, length_weight=length_weight, search=EVERYTHING
    )
    for seed in range(0, 16, ROWS):
        step = Sourced.draw(VOCABULARY, range(seed, seed + ROWS))
        for kind, hypotheses in enumerate(step.search(search, EMPTY)):
            ranks = {
                tuple(tokens): total(step.scores(kind, tokens))
                + weight * reverse([[kind]], [[tokens]])[0][0]
                + length_weight * len(tokens)
                for tokens in every()
            }
            best = ended(hypotheses)
            assert {tuple(reply.tokens) for reply in best} == set(ranks)
            assert [reply.rank for reply in best] == pytest.approx(
                sorted(ranks.values(), reverse=True), abs=1e-5
            )
            assert best[0].rank == pytest.approx(ranks[tuple(best[0].tokens)], abs=1e-5)
            assert best[0].score == pytest.approx(
                total(step.scores(kind, best[0].tokens)), abs=1e-5
            )


@pytest.mark.parametrize("search", [INNER[1], *INNER[3:]], ids=lambda search: search["name"])
def test_weight_zero_is_the_search_by_likelihood(search: dict[str, Any]) -> None:
    arguments = {**search, **({} if search["name"] == "sampling" else {"length_penalty": 0.0})}
    plain, mmi = (
        component(**arguments),
        component("mmi", reverse="run", weight=0.0, search=arguments),
    )
    for seed in range(20):
        step = Sourced.draw(VOCABULARY, range(seed, seed + ROWS))
        for own, reranked in zip(step.search(plain, EMPTY), step.search(mmi, EMPTY), strict=True):
            assert ended(reranked) == [
                reply._replace(rank=pytest.approx(reply.score)) for reply in ended(own)
            ]


@pytest.mark.parametrize("tokens", [0, 1, 3, 9])
@pytest.mark.parametrize("length_weight", [0.0, 1.5])
def test_anti_lm_of_everything_is_enumeration(tokens: int, length_weight: float) -> None:
    """The ranks are exact differences, and the scores are the model's."""
    search = component(
        "anti_lm", weight=0.7, tokens=tokens, length_weight=length_weight, search=EVERYTHING
    )
    for seed in range(0, 8, ROWS):
        step = Sourced.draw(VOCABULARY, range(seed, seed + ROWS))
        for kind, hypotheses in enumerate(step.search(search, EMPTY)):
            ranks = {
                tuple(response): total(step.scores(kind, response))
                - 0.7 * total(step.scores(EMPTY, response)[:tokens])
                + length_weight * len(response)
                for response in every()
            }
            best = ended(hypotheses)
            assert [reply.rank for reply in best] == pytest.approx(
                sorted(ranks.values(), reverse=True), abs=1e-5
            )
            for reply in best[:20]:
                assert reply.rank == pytest.approx(ranks[tuple(reply.tokens)], abs=1e-5)
                assert reply.token_scores == pytest.approx(
                    step.scores(kind, reply.tokens), abs=1e-5
                )


@pytest.mark.parametrize("search", INNER, ids=lambda search: search["name"])
def test_anti_lm_of_weight_zero_is_the_search(search: dict[str, Any]) -> None:
    plain, anti = component(**search), component("anti_lm", weight=0.0, search=search)
    for seed in range(10):
        step = Sourced.draw(VOCABULARY, range(seed, seed + ROWS))
        for own, other in zip(step.search(plain, EMPTY), step.search(anti, EMPTY), strict=True):
            assert [reply.tokens for reply in own] == [reply.tokens for reply in other]
            assert [reply.rank for reply in own] == pytest.approx(
                [reply.rank for reply in other], abs=1e-5
            )
            for one, two in zip(own, other, strict=True):
                assert one.token_scores == pytest.approx(two.token_scores, abs=1e-5)


def test_anti_lm_of_a_model_that_ignores_its_source() -> None:
    """Of log p(T | S) = log p(T), all but the fraction 1 - weight is subtracted."""
    search = component(
        "anti_lm", weight=0.25, tokens=9, search={**EVERYTHING, "width": 8, "candidates": 8}
    )
    plain = component(**{**EVERYTHING, "width": 8, "candidates": 8})
    for seed in range(10):
        step = Sourced.draw(VOCABULARY, [seed] * ROWS)
        for own, other in zip(step.search(plain, EMPTY), step.search(search, EMPTY), strict=True):
            for reply in other:
                assert reply.rank == pytest.approx(0.75 * reply.score, abs=1e-5)
            assert own[0].tokens == other[0].tokens


def test_scores_that_are_no_numbers_give_no_reply() -> None:
    def broken(sources: list[list[int]], candidates: list[list[list[int]]]) -> list[list[float]]:
        return [
            [math.nan if source[0] == 1 else -1.0] * len(rows)
            for source, rows in zip(sources, candidates, strict=True)
        ]

    replies = Sourced.draw(VOCABULARY, range(ROWS)).search(
        component("mmi", broken, reverse="run"), EMPTY
    )
    assert [bool(hypotheses) for hypotheses in replies] == [True, False, True]
    step = Sourced.draw(VOCABULARY, range(ROWS))
    step.tables[1] = math.nan
    for search in (component("mmi", reverse="run"), component("anti_lm")):
        assert [bool(hypotheses) for hypotheses in step.search(search, EMPTY)] == [
            True,
            False,
            True,
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"name": "mmi"},
            "mmi: no reverse model; train one with `python -m dialog train RECIPE data.reverse=true",
        ),
        ({"name": "mmi"}, "its folder is generation.search.reverse"),
        (
            {"name": "mmi", "reverse": "run", "search": {"name": "greedy"}},
            "greedy returns one candidate",
        ),
        (
            {"name": "mmi", "reverse": "run", "search": {"name": "beem"}},
            "unknown search 'beem'; did you mean 'beam'",
        ),
        ({"name": "anti_lm", "search": {"name": "contrastive"}}, "choose another search"),
        ({"name": "anti_lm", "tokens": -1}, "tokens is -1"),
        ({"name": "anti_lm", "weight": math.inf}, "weight is inf"),
        ({"name": "mmi", "reverse": "run", "length_weight": math.nan}, "length_weight is nan"),
        ({"name": "mmi", "reverse": "run", "search": "beam"}, "a component needs a name"),
    ],
)
def test_invalid_settings_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        component(**arguments)
