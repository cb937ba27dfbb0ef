from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics import F1

texts = st.lists(st.text(st.sampled_from("ab ,.\n")), min_size=1, max_size=6)


def f1(responses: Sequence[str], references: Sequence[str]) -> float:
    metric = F1()
    metric.update(responses, references)
    return metric.compute().item()


def score(response: str, reference: str) -> float:
    return f1([response], [reference])


def test_f1_worked_by_hand() -> None:
    # 2 shared of 3 and of 4 words
    assert score("see you there", "you will see him") == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_f1_counts_repetitions() -> None:
    assert score("no no no", "no no yes") == pytest.approx(100 * 2 / 3)


def test_f1_ignores_case_articles_and_punctuation() -> None:
    assert score("The cat, AN owl!", "cat owl a") == 100
    assert score("don't", "don t") == 100  # punctuation becomes a space; SQuAD's F1 deletes it
    assert score("theatre", "atre") == 0  # articles are whole words


def test_f1_of_chinese_is_of_characters() -> None:
    assert score("我想去北京。", "我想去上海！") == pytest.approx(60)


def test_f1_without_shared_words() -> None:
    assert score("", "hello") == score("hello", "") == score("", "") == score("the !", "a ?") == 0
    assert f1([], []) == 0


@given(texts)
def test_f1_is_symmetric_bounded_and_full_for_a_copy(responses: list[str]) -> None:
    backwards = responses[::-1]
    assert f1(responses, backwards) == f1(backwards, responses)
    assert 0 <= f1(responses, backwards) <= 100
    nonempty = [text for text in responses if "b" in text]
    assert not nonempty or f1(nonempty, nonempty) == 100


def test_f1_is_a_mean_over_responses() -> None:
    assert f1(["yes", "no"], ["yes", "maybe not"]) == 50


def test_each_response_needs_its_reference() -> None:
    with pytest.raises(ValueError, match="shorter"):
        f1(["a", "b"], ["a"])
