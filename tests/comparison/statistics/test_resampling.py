"""Bootstrap and randomization against enumeration, closed forms and sacrebleu."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from dialog.comparison.statistics.measured import Counts, Sums
from dialog.comparison.statistics.subset import BLOCK, bootstrap, randomization

Floats = NDArray[np.float64]


def ratio(total: Floats, weight: Floats) -> Floats:
    return total / weight


def make_run(generator: np.random.Generator, dialogues: int, shift: float = 0.0) -> Sums:
    """Return a ratio metric of three responses per dialogue."""
    weights = np.random.default_rng(7).integers(1, 9, 3 * dialogues)
    scores = weights * generator.normal(shift, 1, 3 * dialogues)
    return Sums(np.stack([scores, weights], 1), np.repeat(np.arange(dialogues), 3), ratio)


def test_randomization_against_all_swaps() -> None:
    generator = np.random.default_rng(0)
    pairs = [(make_run(generator, 10), make_run(generator, 10, shift)) for shift in (0.1, 0.4, 1.2)]
    swaps = np.array([*itertools.product((0.0, 1.0), repeat=10)])
    exact = [
        np.mean(np.abs(a.swaps([(a, b)])(swaps)[0]) >= abs(a.value() - b.value()) - 1e-12)
        for a, b in pairs
    ]
    assert randomization(pairs, 20_000) == pytest.approx(exact, abs=0.012)
    assert min(exact) < 0.05 < max(exact)


def make_counts(seed: int, types: int, metric: Callable[[Floats], Floats]) -> Counts:
    items = np.random.default_rng(seed).integers(types, size=180)
    return Counts(items, np.full(90, 2), np.repeat(np.arange(30), 3), metric)


def distinct(counts: Floats) -> Floats:
    return np.count_nonzero(counts, axis=-1) / counts.sum(-1)


def largest(counts: Floats) -> Floats:
    return counts.max(-1) / counts.sum(-1)


def test_metrics_together_are_as_each_alone() -> None:
    generator = np.random.default_rng(3)
    sums = [(make_run(generator, 30), make_run(generator, 30, 0.2)) for _ in range(3)]
    counts = [
        (make_counts(seed, types, metric), make_counts(seed + 1, types + 3, metric))
        for seed, types in ((0, 40), (5, 60))
        for metric in (distinct, largest)
    ]
    pairs = [sums[0], counts[0], counts[2], *sums[1:], counts[1], counts[3]]
    with mock.patch.object(Counts, "swaps", side_effect=Counts.swaps) as of_counts:
        together = randomization(pairs, 3000)
    assert of_counts.call_count == 2  # two kinds of items
    assert together == [randomization([pair], 3000)[0] for pair in pairs]
    assert len(set(together)) == len(pairs)
    runs = [run for pair in sums for run in pair]
    alone = [bootstrap([run], 3000)[0] for run in runs]
    # differences near 0, too
    np.testing.assert_allclose(bootstrap(runs, 3000), alone, rtol=1e-12, atol=1e-15)


def test_identical_runs_have_p_1() -> None:
    run, items = (
        make_run(np.random.default_rng(0), 30),
        np.random.default_rng(0).integers(9, size=90),
    )
    counts = Counts(
        items,
        np.ones(90, dtype=int),
        np.repeat(np.arange(30), 3),
        lambda c: (c > 0).sum(-1) / c.sum(-1),
    )
    assert randomization([(run, run), (counts, counts)], 1000) == [1, 1]


def test_swaps_that_leave_a_metric_undefined_are_no_evidence() -> None:
    """Dialogue 0 has the only weight of a, dialogue 1 that of b: if one of them is swapped, a run
    is without weight.
    """
    a, b = np.zeros((8, 2)), np.zeros((8, 2))
    a[0], b[1] = (5, 1), (0, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        (p,) = randomization([(Sums(a, np.arange(8), ratio), Sums(b, np.arange(8), ratio))], 1000)
    assert p == 1


def test_bootstrap_variance_of_a_mean() -> None:
    scores = np.random.default_rng(1).normal(0, 1, 50)
    run = Sums(np.stack([scores, np.ones(50)], 1), np.arange(50), ratio)
    (values,) = bootstrap([run], 20_000)
    assert len(values) >= 20_000
    assert values.var() == pytest.approx(scores.var() / 50, rel=0.03)
    assert values.mean() == pytest.approx(run.value(), abs=0.005)


def test_memory_does_not_grow_with_resamples() -> None:
    a, b = make_run(np.random.default_rng(0), 400), make_run(np.random.default_rng(1), 400)

    def peak(count: int) -> int:
        tracemalloc.start()
        bootstrap([a, b], count)
        randomization([(a, b)], count)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    few, many = 2 * BLOCK, 20 * BLOCK
    # the values; the weights of a resample take 3,200 bytes
    assert peak(many) - peak(few) < 100 * (many - few)


# ------------------------------------------------------------------ sacrebleu, with one line per dialogue


@pytest.fixture(scope="module")
def systems() -> tuple[list[str], list[list[str]]]:
    """References, and two systems that repeat a share of their words."""
    draw = random.Random(5)
    words = [chr(97 + place) * 2 for place in range(20)]
    references = [" ".join(draw.choices(words, k=10)) for _ in range(80)]
    systems = [
        [
            " ".join(word if draw.random() < share else draw.choice(words) for word in line.split())
            for line in references
        ]
        for share in (0.70, 0.74)
    ]
    return references, systems


def bleu_runs(references: list[str], systems: list[list[str]]) -> list[Sums]:
    metric = BLEU()

    def value(*sums: Any) -> Any:
        rows = np.stack(np.broadcast_arrays(*sums), -1).reshape(-1, len(sums))
        scores = [metric._compute_score_from_stats(row.tolist()).score for row in rows]
        return np.array(scores) if np.ndim(sums[0]) else scores[0]

    statistics = [metric._extract_corpus_statistics(lines, [references]) for lines in systems]
    return [
        Sums(np.array(rows, dtype=float), np.arange(len(references)), value) for rows in statistics
    ]


@pytest.mark.parametrize("test", ["ar", "bs"])
def test_against_sacrebleu(test: str, systems: tuple[list[str], list[list[str]]]) -> None:
    references, (first, second) = systems
    named = [("first", first), ("second", second)]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [references], test_type=test, n_samples=2000)()
    theirs = scores["BLEU"][1]
    a, b = bleu_runs(references, [first, second])
    assert b.value() == pytest.approx(theirs.score)
    if test == "ar":
        p = randomization([(a, b)], 2000)[0]
    else:  # its p-value is one-sided: how often the absolute difference exceeds its mean by the observed one
        resampled = bootstrap([a, b], 2000)
        sizes = np.abs(resampled[1] - resampled[0])
        p = float(np.mean(sizes - sizes.mean() > abs(a.value() - b.value())))
        assert resampled[1].mean() == pytest.approx(theirs.mean, rel=0.01)
    assert p == pytest.approx(theirs.p_value, abs=0.03)
    assert 0.02 < p < 0.6
