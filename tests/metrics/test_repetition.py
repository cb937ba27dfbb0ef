from __future__ import annotations

import random

import pytest

from dialog.metrics.repetition import Repetition, SelfBLEU
from dialog.metrics.scores.repetition import bleu_with_others

RESPONSES = [
    "I like it .",
    "i like it very much .",
    "no",
    "where is it ?",
    "where is the station ?",
    "no",
]
NLTK = [
    0.427287006396,
    0.217118520811,
    0.177827941004,
    0.202051550468,
    0.125743342968,
    0.177827941004,
]
"""sentence_bleu with SmoothingFunction().method1 of nltk 3.10.4, of each response with the others
as references.
"""


def repetition(responses: list[str], **options: int) -> float:
    metric = Repetition(**options)
    metric.update(responses)
    return metric.compute().item()


def self_bleu(responses: list[str], **options: int) -> float:
    metric = SelfBLEU(**options)
    for response in responses:
        metric.update([response])
    return metric.compute().item()


def test_repetition_counts_responses_that_repeat_three_words() -> None:
    assert repetition(["a b c d A b c", "a b c d", "no no no", "ha ha ha ha", ""]) == 2 / 5
    assert repetition(["no no"], n=1) == 1
    assert repetition(["我想去我想去"]) == 1
    assert repetition([]) == 0
    with pytest.raises(ValueError, match="n is 0; give at least 1"):
        Repetition(0)


def test_self_bleu_agrees_with_nltk() -> None:
    assert bleu_with_others([response.lower().split() for response in RESPONSES]) == pytest.approx(
        NLTK, abs=1e-12
    )
    assert self_bleu(RESPONSES) == pytest.approx(100 * sum(NLTK) / len(NLTK), abs=1e-9)


def test_self_bleu_of_equal_and_of_unlike_responses() -> None:
    assert self_bleu(["how are you today ?"] * 3) == pytest.approx(100)
    assert self_bleu(["a b c d", "e f g h", ""]) == 0
    assert self_bleu(["alone"]) == 0
    with pytest.raises(ValueError, match="sample is 1; give at least 2"):
        SelfBLEU(1)


def test_the_sample_depends_on_the_responses_only() -> None:
    """A large sample is measured as a whole; a small one is near it, and equal in any order."""
    draw = random.Random(0)
    responses = [
        " ".join(draw.choices("abcdefgh", weights=range(1, 9), k=draw.randint(3, 9)))
        for _ in range(400)
    ]
    sampled = self_bleu(responses, sample=100)
    assert sampled == self_bleu(draw.sample(responses, 400), sample=100)
    assert sampled == pytest.approx(self_bleu(responses[:100]), abs=5)
    assert self_bleu(responses, sample=400) == self_bleu(responses, sample=1000) > sampled
