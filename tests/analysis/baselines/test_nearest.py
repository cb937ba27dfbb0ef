"""Nearest text by TF-IDF: values by hand, and those of all pairs computed densely."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.analysis.baselines.nearest import NearestText, terms

texts = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "."]), max_size=6).map(" ".join),
    min_size=1,
    max_size=8,
)


def test_rare_words_decide() -> None:
    index = NearestText(
        ["you know the red car", "you know the park", "you know the park well", "the the the"]
    )
    assert index.nearest("you know the car") == 0
    assert index.nearest("The PARK , you know") == 1
    assert index.nearest("the") == 3


def test_ties_are_the_first_and_strangers_too() -> None:
    index = NearestText(["x y", "b a", "a b", ""])
    assert index.nearest("a b") == 1
    assert index.nearest("q") == 0
    assert index.nearest("") == 0
    assert NearestText([""]).nearest("a") == 0


def cosine(training: list[str], one: str, other: str) -> float:
    """Return the similarity as scikit-learn defines it, with dictionaries."""

    def vector(text: str) -> dict[str, float]:
        counts = Counter(text.split())
        weights = {}
        for term, frequency in counts.items():
            documents = sum(term in text.split() for text in training)
            weights[term] = (1 + math.log(frequency)) * (
                1 + math.log((1 + len(training)) / (1 + documents))
            )
        return weights

    left, right = vector(one), vector(other)
    length = math.hypot(*left.values()) * math.hypot(*right.values())
    return sum(left[term] * right.get(term, 0) for term in left) / length if length else 0.0


@given(texts, texts)
def test_the_similarity_is_the_largest(training: list[str], evaluated: list[str]) -> None:
    index = NearestText(training)
    for text in evaluated:
        similarities = [cosine(training, text, other) for other in training]
        assert similarities[index.nearest(text)] == pytest.approx(max(similarities))


def test_agrees_with_scikit_learn() -> None:
    library = pytest.importorskip("sklearn.feature_extraction.text", reason="needs scikit-learn")
    training = [
        f"so {'very ' * (number % 3)}{chr(97 + number)} , {number % 5} !" for number in range(20)
    ]
    evaluated = ["so very , 3 f", "! very very", "A B a"]
    vectorizer = library.TfidfVectorizer(token_pattern=r"[^\s]+", sublinear_tf=True)
    similarities = (
        vectorizer.fit_transform(training) @ vectorizer.transform(evaluated).T
    ).toarray()
    index = NearestText(training)
    for column, text in enumerate(evaluated):
        assert similarities[index.nearest(text), column] == pytest.approx(
            similarities[:, column].max()
        )


def test_letters_and_pairs_of_scripts_without_spaces() -> None:
    assert list(terms("OK 你好吗 ?")) == ["ok", "你", "好", "吗", "你好", "好吗", "?"]
