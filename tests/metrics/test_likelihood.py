from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.errors import UserError
from dialog.metrics.likelihood import Likelihood

references = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
parts = st.builds(
    Likelihood.of,
    references,
    st.floats(0, 1e4),
    tokens=st.integers(1, 50),
    correct=st.just(1),
)


def test_worked_by_hand() -> None:
    # uniform over 4 tokens: 2 bits per token, 3 tokens and the end token
    likelihood = Likelihood.of("héllo  you", 4 * math.log(4), tokens=4, correct=1)
    assert likelihood.bytes == 11
    assert likelihood.words == 2
    assert likelihood.bits_per_byte == pytest.approx(8 / 11, rel=1e-15)
    assert likelihood.perplexity_token == pytest.approx(4, rel=1e-15)
    assert likelihood.perplexity_word == pytest.approx(16, rel=1e-14)
    assert likelihood.token_accuracy == 0.25


def test_equals_products_of_probabilities() -> None:
    texts = {"yes .": [0.5, 0.25, 0.9], "a b c": [0.1, 0.2, 0.3, 0.4], "über": [0.01, 0.7]}
    total = Likelihood.total(
        Likelihood.of(text, -sum(map(math.log, p)), tokens=len(p), correct=sum(x > 0.45 for x in p))
        for text, p in texts.items()
    )
    joint = math.prod(math.prod(p) for p in texts.values())
    assert total.perplexity_token == pytest.approx(joint ** (-1 / 9), rel=1e-13)
    assert total.perplexity_word == pytest.approx(joint ** (-1 / 6), rel=1e-13)
    assert 2 ** (-total.bits_per_byte * (5 + 5 + 5)) == pytest.approx(joint, rel=1e-12)
    assert total.token_accuracy == 3 / 9
    assert total.examples == 3


@settings(max_examples=30)
@given(st.lists(parts, min_size=1, max_size=12), st.randoms(use_true_random=False), st.integers(1, 7))
def test_neither_order_nor_grouping_matters(items: list[Likelihood], random: object, size: int) -> None:
    whole = Likelihood.total(items)
    shuffled = sorted(items, key=lambda _: random.random())
    assert Likelihood.total(shuffled) == whole
    groups = [shuffled[i : i + size] for i in range(0, len(shuffled), size)]
    grouped = Likelihood()
    for group in groups:
        grouped += Likelihood.total(group)
    assert grouped.nll == pytest.approx(whole.nll, rel=1e-12)
    assert (grouped.tokens, grouped.words, grouped.bytes) == (whole.tokens, whole.words, whole.bytes)
    assert grouped.bits_per_byte == pytest.approx(whole.bits_per_byte, rel=1e-12)


def test_ratios_are_of_sums_not_means_of_ratios() -> None:
    short, long = (
        Likelihood.of("a", 1.0, tokens=1, correct=1),
        Likelihood.of("b" * 99, 999.0, tokens=99, correct=0),
    )
    assert (short + long).bits_per_byte == pytest.approx(10 / math.log(2))
    assert (short + long).token_accuracy == 0.01


def test_the_empty_likelihood_is_the_zero_of_the_sum() -> None:
    one = Likelihood.of("hello", 3.5, tokens=2, correct=2)
    assert one + Likelihood() == one == Likelihood() + one


@pytest.mark.parametrize("ratio", ["bits_per_byte", "perplexity_token", "perplexity_word", "token_accuracy"])
def test_ratios_of_an_empty_sum_are_errors(ratio: str) -> None:
    with pytest.raises(UserError, match="empty"):
        getattr(Likelihood(), ratio)


def test_blank_text_has_bytes_but_no_words() -> None:
    blank = Likelihood.of("  ", 2.0, tokens=2, correct=0)
    assert blank.bits_per_byte == pytest.approx(1 / math.log(2))
    with pytest.raises(UserError, match="word"):
        _ = blank.perplexity_word
    assert Likelihood.of("你好 吗", 1.0, tokens=3, correct=0).words == 2


def test_perplexity_overflows_to_infinity() -> None:
    assert Likelihood.of("no", 1e6, tokens=1, correct=0).perplexity_token == math.inf


def test_names_of_metrics_json() -> None:
    metrics = Likelihood.of("hi you", 2.0, tokens=3, correct=1).metrics()
    assert set(metrics) == {
        *("bits_per_byte", "perplexity_token", "perplexity_word"),
        *("nll_nats", "tokens", "words", "bytes", "token_accuracy"),
    }
    assert metrics["nll_nats"] == 2.0
