"""Witten-Bell models: values by hand, and the formula with dictionaries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.analysis.baselines.witten_bell import ORDER, WittenBell, tokenize

texts = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "."]), max_size=6).map(" ".join),
    min_size=1,
    max_size=8,
)


def test_values_by_hand() -> None:
    """Training: <s> a b </s> and <s> a </s>; V = 4 (a, b, end, unknown).

    Unigrams: c(a) = 2, c(b) = 1, c(end) = 2, 5 in all, of 3 types. p_1(a) = (2 + 3/4) / 8, p_1(end)
        = (2 + 3/4) / 8.
    Bigrams: after <s> only a, twice: p_2(a | <s>) = (2 + p_1(a)) / 3. After a: b and end: p_2(end |
    a) = (1 + 2 p_1(end)) / 4.
    """
    scores = WittenBell(["a b", "a"], order=2).score(["a", "x"])
    a = end = (2 + 3 / 4) / 8
    unknown = (3 / 4) / 8
    assert scores.nll[0] == pytest.approx([-math.log(a * end), -math.log(unknown * end)])
    # nothing follows the unknown token in training
    bigrams = (2 + a) / 3 * (1 + 2 * end) / 4, unknown / 3 * end
    assert scores.nll[1] == pytest.approx([-math.log(p) for p in bigrams])
    assert scores.tokens.tolist() == [2, 2]
    assert scores.unknown.tolist() == [0, 1]
    assert scores.unknown_bytes.tolist() == [0, 1]


def by_formula(training: list[str], text: str, order: int) -> list[float]:
    """Return the negative log-likelihood of a text for each order, computed with dictionaries."""
    continuations: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    padding = ["<s>"] * (order - 1)
    for line in training:
        tokens = [*padding, *tokenize(line), "</s>"]
        for position in range(order - 1, len(tokens)):
            for length in range(order):
                continuations[tuple(tokens[position - length : position])][tokens[position]] += 1
    vocabulary = set(continuations[()]) | {"</s>", "<unk>"}
    tokens = [
        *padding,
        *(token if token in vocabulary else "<unk>" for token in tokenize(text)),
        "</s>",
    ]
    nll = [0.0] * order
    for position in range(order - 1, len(tokens)):
        probability = 1 / len(vocabulary)
        for length in range(order):
            counts = continuations.get(tuple(tokens[position - length : position]))
            if counts:
                own = counts[tokens[position]] + len(counts) * probability
                probability = own / (counts.total() + len(counts))
            nll[length] -= math.log(probability)
    return nll


@given(texts, texts)
def test_agrees_with_the_formula(training: list[str], evaluated: list[str]) -> None:
    scores = WittenBell(training).score([*evaluated, "d a !"])
    expected = [by_formula(training, text, ORDER) for text in [*evaluated, "d a !"]]
    np.testing.assert_allclose(scores.nll.T, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't know . OK?", ["I", "don", "'", "t", "know", ".", "OK", "?"]),
        ("你好 。ok 3", ["你", "好", "。", "ok", "3"]),
        ("", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_empty_texts_are_one_end_token() -> None:
    scores = WittenBell(["a", ""]).score(["", ""])
    assert scores.tokens.tolist() == [1, 1]
    # a, end, end in training; V = 3
    assert scores.nll[0].tolist() == pytest.approx([-math.log((2 + 2 / 3) / 5)] * 2)
    assert WittenBell(["a"]).score([]).nll.shape == (ORDER, 0)
