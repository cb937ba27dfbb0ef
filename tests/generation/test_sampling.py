"""Sampling: frequencies of the draws, truncations, and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from chains import END, START, Chain, Sourced
from torch import Tensor

from dialog.config.components import build
from dialog.generation.constraints import Constraints
from dialog.generation.search import Search
from dialog.generation.searches.family import SEARCHES
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.sampling import FEW, Sampling, draw, within_mass, within_sorted

PROBABILITIES = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
DRAWS = 100_000
CRITICAL = 25.0
"""A chi-square variable with up to 5 degrees of freedom exceeds it once in 7,000 times."""


def sampler(max_length: int = 1, **settings: object) -> Sampling:
    return Sampling(
        constraints=Constraints(end=END, special=(START,), min_length=0, max_length=max_length),
        **settings,
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.4, 0.25, 0.15, 0.1, 0.06, 0.04]),
        ({"temperature": 2.0}, (PROBABILITIES**0.5 / (PROBABILITIES**0.5).sum()).tolist()),
        ({"top_k": 2}, [0.4 / 0.65, 0.25 / 0.65, 0, 0, 0, 0]),
        ({"top_p": 0.7}, [0.5, 0.25 / 0.8, 0.15 / 0.8, 0, 0, 0]),
        ({"top_p": 0.1}, [1, 0, 0, 0, 0, 0]),
        ({"min_p": 0.3}, [0.5, 0.25 / 0.8, 0.15 / 0.8, 0, 0, 0]),
        # entropy 1.51 nats; information 0.92, 1.39, 1.90, 2.30, ...: the nearest are the second and
        # the third
        ({"typical_p": 0.3}, [0, 0.25 / 0.4, 0.15 / 0.4, 0, 0, 0]),
        # the square roots are 0.63, 0.50, 0.39, ... of 2.28: half of the mass is reached with the
        # third
        (
            {"temperature": 2.0, "top_p": 0.5},
            [*(PROBABILITIES[:3] ** 0.5 / (PROBABILITIES[:3] ** 0.5).sum()).tolist(), 0, 0, 0],
        ),
        ({"top_k": 3, "top_p": 0.5}, [0.4 / 0.65, 0.25 / 0.65, 0, 0, 0, 0]),
    ],
)
def test_draws_have_the_stated_frequencies(settings: dict[str, Any], expected: list[float]) -> None:
    kept = sampler(**settings).truncate(PROBABILITIES.log().unsqueeze(0))
    assert (kept / kept.sum()).squeeze(0).tolist() == pytest.approx(expected, abs=1e-6)
    uniform = torch.from_numpy(np.random.default_rng(1).random(DRAWS))
    counts = draw(kept.expand(DRAWS, -1), uniform).bincount(minlength=6).double()
    wanted = DRAWS * torch.tensor(expected, dtype=torch.double)
    assert counts[wanted == 0].sum() == 0
    assert float(((counts - wanted) ** 2 / wanted)[wanted > 0].sum()) < CRITICAL


@pytest.mark.parametrize("mass", [1e-6, 0.1, 0.9, 0.999, 1 - 1e-7])
@pytest.mark.parametrize("scale", [0.0, 0.1, 3.0, 40.0])
def test_truncation_of_a_large_vocabulary(mass: float, scale: float) -> None:
    """Equal to a stable sort, also of equal and impossible tokens: with few digits many are
    equal.
    """
    generator = torch.Generator().manual_seed(1)
    for digits, size in ((0, FEW + 1), (1, 10 * FEW), (7, 31 * FEW)):
        logits = (scale * torch.randn(3, size, generator=generator)).round(decimals=digits)
        logits[:, 5:9] = -torch.inf
        probabilities = logits.softmax(-1)
        for order in (-probabilities, (probabilities.clamp_min(1e-38).log() + 4).abs()):
            kept = within_mass(probabilities, order, mass)
            assert kept.equal(within_sorted(probabilities, order.argsort(stable=True), mass))


@pytest.mark.parametrize("mass", [0.1, 0.9])
def test_the_smallest_set_reaches_the_mass(mass: float) -> None:
    probabilities = torch.randn(4, 3 * FEW, generator=torch.Generator().manual_seed(1)).softmax(-1)
    for row, kept in zip(
        probabilities.tolist(),
        within_mass(probabilities, -probabilities, mass).tolist(),
        strict=True,
    ):
        inside = sorted(number for number, is_kept in zip(row, kept, strict=True) if is_kept)
        assert sum(inside[1:]) < mass <= sum(inside)
        assert inside[0] > max(
            number for number, is_kept in zip(row, kept, strict=True) if not is_kept
        )


@pytest.mark.parametrize("equal", [False, True])
def test_responses_of_sources_have_the_frequencies_of_the_chain(equal: bool) -> None:
    """Different sources, and equal ones with different ids, get independent draws."""
    chain = Chain.draw(5, 1)
    source = torch.arange(10, 4010).unsqueeze(1)
    replies = chain.search(
        sampler(),
        4000,
        source * 0 + 10 if equal else source,
        list(map(str, range(4000))) if equal else (),
    )
    table = chain.logits[START, START].index_fill(0, torch.tensor([START]), -torch.inf).softmax(-1)
    first = torch.tensor(
        [reply.tokens[0] if reply.tokens else END for (reply,) in replies]
    ).bincount(minlength=5)
    expected = (4000 * table)[table > 0]
    assert float(((first[table > 0] - expected) ** 2 / expected).sum()) < CRITICAL


SAMPLING = {"name": "sampling", "candidates": 3}
DRAWING = {
    "sampling": {},
    "best of n": {"candidates": 3},
    "delayed_beam": {"width": 3, "candidates": 2, "top_k": 0},
    "mmi": {"reverse": "run", "search": SAMPLING},
    "anti_lm": {"search": SAMPLING},
    "anti_lm, delayed": {
        "name": "anti_lm",
        "search": {"name": "delayed_beam", "width": 3, "delay": 5, "top_k": 0},
    },
}


@pytest.mark.parametrize("name", DRAWING)
def test_a_seed_gives_the_same_text_in_any_batch(name: str) -> None:
    """Whatever the order, the padding and the size of the batches; equal sources with different ids
    have own draws.
    """
    step = Sourced(Sourced.draw(7, [1, 2, 3]).tables / 4)
    kinds, ids = [1, 1, 2, 1, 2, 1, 1, 2], ["a", "b", "a", "c", "b", "d", "e", "c"]
    search, other = (drawing(name, seed) for seed in (5, 6))
    together = step.answer(search, kinds, ids)
    assert step.answer(other, kinds, ids) != together
    texts = [(kind, *reply[0].tokens) for kind, reply in zip(kinds, together, strict=True)]
    assert len(set(texts)) > 5
    for size in (1, 2, 3, 5):
        order = sorted(range(8), key=lambda row: ids[row] * row)
        for start in range(0, 8, size):
            rows = order[start : start + size]
            own = step.answer(
                search, [kinds[row] for row in rows], [ids[row] for row in rows], padding=size
            )
            assert [[reply.tokens for reply in replies] for replies in own] == [
                [reply.tokens for reply in together[row]] for row in rows
            ]
    assert step.answer(search, [1, 1], ["a", "a"]) == [together[0]] * 2
    (alone,) = step.answer(search, [1])
    assert step.answer(search, [1, 2, 1])[::2] == [alone, alone]


def drawing(name: str, seed: int) -> Search:
    component: dict[str, Any] = {"name": {"best of n": "sampling"}.get(name, name), **DRAWING[name]}
    component |= (
        {"search": {**component["search"], "seed": seed}}
        if "search" in component
        else {"seed": seed}
    )
    constraints = Constraints(end=END, special=(START,), min_length=2, max_length=6)
    runtime: dict[str, Any] = {"load_reverse": lambda folder: no_preference, "empty_source": [0]}
    return build(SEARCHES, component, constraints=constraints, **runtime)


def no_preference(sources: list[list[int]], candidates: list[list[list[int]]]) -> list[list[float]]:
    """Equal scores of a reverse model."""
    return [[0.0] * len(rows) for rows in candidates]


def test_candidates_are_sorted_by_likelihood() -> None:
    """Responses that have not ended at max_length come last: the probability of their end is not in
    the score.
    """
    chain = Chain.draw(7, 3)
    (found,) = chain.search(sampler(4, candidates=16))
    assert len(found) == 16
    assert all(reply in found for reply in chain.search(sampler(4, candidates=5))[0])
    assert len({tuple(reply.tokens) for reply in found}) > 2
    assert {reply.finished for reply in found} == {True, False}
    assert found == sorted(found, key=lambda reply: (not reply.finished, -reply.score))
    for reply in found:
        assert reply.token_scores == pytest.approx(
            chain.scores(reply.tokens, finished=reply.finished), abs=1e-6
        )


def test_a_temperature_near_zero_is_greedy_search() -> None:
    for seed in range(10):
        chain = Chain.draw(7, seed)
        constraints = Constraints(end=END, special=(START,), max_length=9)
        assert chain.search(Sampling(constraints=constraints, temperature=1e-4)) == chain.search(
            Greedy(constraints=constraints)
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": 1.0},
        {"typical_p": 0.0},
        {"candidates": 0},
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        sampler(**settings)


def test_a_probability_of_zero_is_never_drawn() -> None:
    probabilities = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]])

    def drawn(uniform: list[float]) -> Tensor:
        return draw(
            probabilities.expand(len(uniform), -1), torch.tensor(uniform, dtype=torch.double)
        )

    assert drawn([0.0, 0.25, 0.5, 1 - 2**-53]).tolist() == [1, 1, 3, 3]
