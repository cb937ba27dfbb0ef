from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics import F1
from dialog.metrics.overlap import PlatoBLEU, RougeL
from dialog.metrics.scores.overlap import longest_common_subsequence

texts = st.lists(st.text(st.sampled_from("ab ,.\n")), min_size=1, max_size=6)


def f1(responses: Sequence[str], references: Sequence[str]) -> float:
    metric = F1()
    metric.update(responses, references)
    return metric.compute().item()


def score(response: str, reference: str) -> float:
    return f1([response], [reference])


def test_f1_worked_by_hand() -> None:
    # 2 shared of 3 and of 4 words
    assert score("see you there", "you will see him") == pytest.approx(
        100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)
    )


def test_f1_counts_repetitions() -> None:
    # 2 shared of 3 and of 4 words; of sets it would be 1 of 1 and of 2
    assert score("no no no", "no yes no yes") == pytest.approx(
        100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)
    )


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


# ------------------------------------------------------------------ ROUGE-L


def rouge(response: str, reference: str) -> float:
    metric = RougeL()
    metric.update([response], [reference])
    return metric.compute().item()


def test_rouge_l_worked_by_hand() -> None:
    # police ... the gunman: 3 words in order, of 4 and of 4
    assert rouge("police kill the gunman", "police killed the gunman") == pytest.approx(75)
    assert rouge("the gunman kill police", "police killed the gunman") == pytest.approx(50)
    assert rouge("The GUNMAN, don't_kill!", "the gunman don t kill") == 100
    assert rouge("", "a") == rouge("a", "") == rouge("!", "!") == rouge("a", "b") == 0


def test_rouge_l_of_chinese_is_of_characters() -> None:
    assert rouge("我想去北京。", "我想去上海！") == pytest.approx(60)


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_longest_common_subsequence(first: list[str], second: list[str]) -> None:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first):
        for j, other in enumerate(second):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if word == other else max(table[i][j + 1], table[i + 1][j])
            )
    assert longest_common_subsequence(first, second) == table[-1][-1]


# ------------------------------------------------------------------ sentence BLEU of PLATO


NLTK_METHOD_7 = [
    ("how may i help you ?", "i would like a room , please .",
     [0.327017371993, 0.200487091041, 0.126101474739, 0.079772373969]),
    ("yes", "yes , i do .", [0.018315638889, 0.010574539043, 0.006105212963, 0.003524846348]),
    ("i like it .", "i like it .", [1.333333333333, 1.2171612389, 1.153887578189, 1.010629663399]),
    ("no no no", "no , thank you", [0.411192785369, 0.259132010017, 0.170731989638, 0.111686273184]),
    ("hello", "goodbye", [0.0, 0.0, 0.0, 0.0]),
]  # fmt: skip
"""sentence_bleu with SmoothingFunction().method7 of nltk 3.10.4; of 4 weights, the first n are 1/n
and the others 0.
"""


@pytest.mark.parametrize(("response", "reference", "expected"), NLTK_METHOD_7)
def test_plato_bleu_agrees_with_nltk(response: str, reference: str, expected: list[float]) -> None:
    for n, value in enumerate(expected, start=1):
        assert PlatoBLEU(n).score(response.upper(), reference) == pytest.approx(value, abs=1e-11)


def test_plato_bleu_is_a_mean_over_responses() -> None:
    metric = PlatoBLEU(2)
    metric.update(["yes", "hello"], ["yes , i do .", "goodbye"])
    assert metric.compute().item() == pytest.approx(50 * NLTK_METHOD_7[1][2][1])
    with pytest.raises(ValueError, match="n is 5; give 1 to 4"):
        PlatoBLEU(5)
