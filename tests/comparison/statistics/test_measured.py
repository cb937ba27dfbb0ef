"""Values of a metric over dialogues against a direct computation from the responses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dialog.comparison.statistics.measured import Counts, Sums
from dialog.comparison.statistics.subset import draw_swaps, draw_weights

DIALOGUES = np.array([7, 7, 3, 3, 3, 5, 9, 9])
RESPONSES = ["a b", "a", "b c b", "a d", "e", "a a b", "f", "c d a"]
OTHERS = ["a b", "b", "b g b", "h", "e e", "a", "f", "c d"]
LABELS = np.unique(DIALOGUES)


def distinct(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.count_nonzero(counts, axis=-1) / counts.sum(-1)


def entropy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = counts / counts.sum(-1, keepdims=True)
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(-1)


def plain_distinct(words: list[str]) -> float:
    return len(set(words)) / len(words)


def plain_entropy(words: list[str]) -> float:
    return -sum(n / len(words) * math.log2(n / len(words)) for n in Counter(words).values())


def bits_per_byte(nats: float, size: float) -> float:
    return nats / math.log(2) / size


def measure(metric: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> tuple[Counts, Counts]:
    return count_words(RESPONSES, metric), count_words(OTHERS, metric)


def count_words(
    responses: list[str], metric: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Counts:
    words = [ord(word) for text in responses for word in text.split()]
    return Counts(
        np.array(words), np.array([len(text.split()) for text in responses]), DIALOGUES, metric
    )


def sums(responses: list[str], dialogues: NDArray[np.int64] = DIALOGUES) -> Sums:
    """Bits per byte of responses that cost 1.7 nats per word."""
    return Sums(
        np.array([[1.7 * len(text.split()), len(text)] for text in responses]),
        dialogues,
        bits_per_byte,
    )


def swap(
    run: Counts | Sums, other: Counts | Sums, swapped: NDArray[np.float64]
) -> NDArray[np.float64]:
    return run.swaps([(run, other)])(swapped)[0]


def words_of(times: NDArray[np.float64], responses: list[str] = RESPONSES) -> list[str]:
    """Return the words of dialogues, each repeated some number of times."""
    repeat = dict(zip(LABELS, times.astype(int), strict=True))
    return [
        word
        for text, label in zip(responses, DIALOGUES, strict=True)
        for word in text.split() * repeat[label]
    ]


@pytest.mark.parametrize(
    ("metric", "plain"), [(distinct, plain_distinct), (entropy, plain_entropy)]
)
def test_counts_against_responses(
    metric: Callable[..., object], plain: Callable[[list[str]], float]
) -> None:
    run, other = measure(metric)
    assert run.value() == pytest.approx(plain(words_of(np.ones(4))))
    assert run.leave_one_out() == pytest.approx([plain(words_of(1 - row)) for row in np.eye(4)])
    swapped = np.concatenate([*draw_swaps(4, 300, 0)])
    exchanged = [
        plain(words_of(1 - row) + words_of(row, OTHERS))
        - plain(words_of(row) + words_of(1 - row, OTHERS))
        for row in swapped
    ]
    assert swap(run, other, swapped) == pytest.approx(exchanged)
    assert swap(other, run, swapped) == pytest.approx([-difference for difference in exchanged])


def test_counts_do_not_depend_on_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = measure(entropy)
    swapped = np.concatenate([*draw_swaps(4, 50, 0)])
    whole = [run.leave_one_out(), swap(run, other, swapped)]
    monkeypatch.setattr("dialog.comparison.statistics.measured.CELLS", 20)
    blocks = [run.leave_one_out(), swap(run, other, swapped)]
    assert all(np.array_equal(a, b) for a, b in zip(whole, blocks, strict=True))


def test_sums_against_responses() -> None:
    run, other = sums(RESPONSES), sums(OTHERS)

    def direct(times: NDArray[np.float64], responses: list[str] = RESPONSES) -> NDArray[np.float64]:
        repeat = dict(zip(LABELS, times, strict=True))
        rows = [(1.7 * len(text.split()), len(text)) for text in responses]
        return sum(
            repeat[label] * np.array(row) for label, row in zip(DIALOGUES, rows, strict=True)
        )

    weights, swapped = (
        np.concatenate([*draw_weights(4, 100, 0)]),
        np.concatenate([*draw_swaps(4, 100, 0)]),
    )
    assert run.value() == pytest.approx(bits_per_byte(*direct(np.ones(4))))
    assert run.leave_one_out() == pytest.approx(
        [bits_per_byte(*direct(1 - row)) for row in np.eye(4)]
    )
    assert Sums.resamples([run])(weights)[0] == pytest.approx(
        [bits_per_byte(*direct(row)) for row in weights]
    )
    assert swap(run, other, swapped) == pytest.approx(
        [
            bits_per_byte(*direct(1 - row) + direct(row, OTHERS))
            - bits_per_byte(*direct(row) + direct(1 - row, OTHERS))
            for row in swapped
        ]
    )


def test_a_subset_is_a_run_over_fewer_dialogues() -> None:
    examples = np.isin(np.arange(8), [0, 2, 4, 6])
    run, (counts, _) = sums(RESPONSES).restrict(examples), measure(distinct)
    assert run.dialogues == counts.restrict(examples).dialogues == 3
    assert run.value() == sums(RESPONSES[::2][:4], DIALOGUES[::2]).value()
    assert counts.restrict(examples).value() == plain_distinct(["a", "b", "b", "c", "b", "e", "f"])
