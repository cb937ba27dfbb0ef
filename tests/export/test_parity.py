"""The parity report finds what differs between an exported model and its network."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache

import pytest
import torch

from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, SELF, SPECIAL_TOKENS
from dialog.export.format import Tokens
from dialog.export.parity import (
    BATCHES,
    SOURCE_LENGTHS,
    TOLERANCE,
    Parity,
    measure_parity,
    random_source,
)
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.run import Run


@cache
def greedy_response(model: Seq2Seq, source: tuple[int, ...], length: int) -> tuple[int, ...]:
    """Compute each step from the beginning."""
    ids = torch.tensor([source])
    response: list[int] = []
    while len(response) < length and EOS not in response:
        logits = model(ids, ids >= 0, torch.tensor([[BOS, *response]]))
        response.append(int(logits[0, -1].argmax()))
    return tuple(response)


class Copy:
    """A network as an exported model, with faults on demand."""

    def __init__(
        self,
        model: Seq2Seq,
        *,
        shift: float = 0.0,
        spoil: Callable[[list[int]], list[int]] | None = None,
    ) -> None:
        self.model, self.shift, self.spoil = model, shift, spoil
        self.batches: list[int] = []

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        self.batches.append(len(sources))
        return [
            self._scores(source, target) for source, target in zip(sources, targets, strict=True)
        ]

    def _scores(self, source: Tokens, target: Tokens) -> list[float]:
        ids, tokens = torch.tensor([source]), torch.tensor([[BOS, *target]])
        scores = self.model(ids, ids >= 0, tokens[:, :-1]).log_softmax(-1)[0]
        values: list[float] = scores[torch.arange(len(target)), tokens[0, 1:]].tolist()
        return [*values[:-1], values[-1] + self.shift]

    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        responses = [self._response(source, length) for source in sources]
        return [self.spoil(response) for response in responses] if self.spoil else responses

    def _response(self, source: Tokens, length: int) -> list[int]:
        return [*greedy_response(self.model, tuple(source), length)]


@pytest.fixture(scope="module")
def run(trained_run: Callable[[str], Run]) -> Run:
    return trained_run("lstm")


def measured(run: Run, exported: Copy, max_source: int = 64) -> Parity:
    with torch.inference_mode():
        return measure_parity(run.model, exported, max_source=max_source)


def test_a_network_equals_itself(run: Run) -> None:
    exported = Copy(run.model)
    parity = measured(run, exported)
    assert parity.holds
    assert parity.largest_difference < 1e-5
    assert parity.greedy_equal == parity.sources == len(BATCHES) * len(SOURCE_LENGTHS)
    assert set(exported.batches) >= set(BATCHES)


@pytest.mark.parametrize("shift", [3 * TOLERANCE, -3 * TOLERANCE, math.nan, math.inf])
def test_one_wrong_probability_is_noticed(run: Run, shift: float) -> None:
    parity = measured(run, Copy(run.model, shift=shift))
    assert not parity.holds
    assert (
        parity.largest_difference == pytest.approx(3 * TOLERANCE, rel=0.2)
        or parity.largest_difference == math.inf
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda response: response[:-1],
        lambda response: [*response, EOS],
        lambda response: [*response[:-1], len(SPECIAL_TOKENS)],
        lambda response: [],
    ],
    ids=["short", "long", "other", "empty"],
)
def test_another_greedy_response_is_noticed(
    run: Run, spoil: Callable[[list[int]], list[int]]
) -> None:
    parity = measured(run, Copy(run.model, spoil=spoil))
    assert parity.largest_difference < TOLERANCE
    assert parity.greedy_different == parity.sources
    assert not parity.holds


def test_a_skipped_empty_context_is_noticed(run: Run) -> None:
    class Skipping(Copy):
        def _response(self, source: Tokens, length: int) -> list[int]:
            return [] if source == [EOS] else super()._response(source, length)

    parity = measured(run, Skipping(run.model))
    assert parity.greedy_different == len(BATCHES)  # one in each size of batches
    assert not parity.holds


def test_another_weight_is_noticed(run: Run) -> None:
    model = deepcopy(run.model)
    with torch.no_grad():
        model.decoder.readout.weight[0, 0] += 0.5
    assert not measured(run, Copy(model)).holds


def test_equally_probable_tokens_are_a_tie(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tokens with equal weights are equally probable: either is a greedy choice."""
    # the responses have no end
    monkeypatch.setattr("dialog.export.parity.GREEDY_LENGTH", 8)
    model = deepcopy(run.model)
    first, second = 20, 21
    with torch.no_grad():
        model.head.weight[first] = 3 * model.head.weight.abs().max()
        model.head.weight[second] = model.head.weight[first]

    def swapped(response: list[int]) -> list[int]:
        return [{first: second, second: first}.get(token, token) for token in response]

    with torch.inference_mode():
        parity = measure_parity(model, Copy(model, spoil=swapped), max_source=64)
    assert parity.greedy_ties > 0
    assert parity.greedy_different == 0


def test_sources_have_the_form_of_training() -> None:
    draw = random.Random(1)
    for length in (1, 2, 9, 40):
        source = random_source(draw, 300, length)
        assert len(source) == length
        assert source[-1] == EOS
        assert all(token in (OTHER, SELF) or token >= len(SPECIAL_TOKENS) for token in source[:-1])
        roles = [token for token in source if token in (OTHER, SELF)]
        assert source[:1] == (roles[:1] or [EOS])
        assert roles == [(OTHER, SELF)[place % 2] for place in range(len(roles))][::-1]


def test_sources_fit_the_recipe(run: Run) -> None:
    assert measured(run, Copy(run.model), max_source=5).longest_source == 5
