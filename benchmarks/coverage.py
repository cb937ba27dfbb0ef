"""Coverage of the intervals of a comparison, and false positives of its tests, on simulated data
with known truth. Decisions on top of them: `decisions.py`.

    python benchmarks/coverage.py [--simulations 1000] [--parts architectures,runs,few,ratings]

Print Markdown tables. A run of architecture x with seed s scores dialogue d as u_d + v_xd + seed_xs
+ noise_xsd: 300 dialogues, in the table `few` fewer; v_a - v_b has standard deviation 0.08;
noise_xsd has `noise`; seed_xs has `seeds`. Both architectures are equally good, so an interval that
excludes 0 is a false positive.

Metrics: `mean`, over dialogues; `ratio`, such as bits per byte, weighted by bytes that vary from
dialogue to dialogue (log-normal, sigma 0.6); `distinct-1` and `entropy-1`, of responses of two
systems with vocabularies of different concentration, whose true difference is the mean over all
simulations.

Methods: `counted once` is that of `dialog compare`; `sum` adds the variance between runs and the
jackknife variance over dialogues and does not subtract r, so the interaction of run and dialogue
counts twice; `seeds only` is Welch's t test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from printed_parts import print_parts
from scipy.special import expit
from scipy.stats import t

from dialog.comparison.preference.estimation import RatedSample, limits, share
from dialog.comparison.statistics.interval import (
    Runs,
    Variances,
    interval,
    jackknife_variance,
    variances,
)
from dialog.comparison.statistics.measured import Counts, RunMetric, Sums
from dialog.comparison.statistics.subset import bootstrap, bootstrap_interval, randomization

Floats = NDArray[np.float64]
DIALOGUES = 300
DIFFERENCE = 0.08
LEVEL = 0.95
RESAMPLES = 2000


def ratio(total: Floats, weight: Floats) -> Floats:
    """Return total / weight."""
    return total / weight


def scores(
    generator: np.random.Generator,
    runs: Sequence[int],
    seeds: float,
    noise: float,
    dialogues: int = DIALOGUES,
) -> tuple[list[Floats], list[Floats]]:
    """Return the scores of the runs of each architecture [runs, dialogues], and the seed effects in
    them [runs, 1].
    """
    shared = 1.2 + generator.normal(0, 0.3, dialogues)
    effects = [generator.normal(0, seeds, (number, 1)) for number in runs]
    systems = [
        shared
        + generator.normal(0, DIFFERENCE / np.sqrt(2), dialogues)
        + effect
        + generator.normal(0, noise, (len(effect), dialogues))
        for effect in effects
    ]
    return systems, effects


def measure(generator: np.random.Generator, metric: str, systems: list[Floats]) -> list[list[Sums]]:
    """Return the metric of each run."""
    dialogues = systems[0].shape[1]
    weights = generator.lognormal(5, 0.6, dialogues) if metric == "ratio" else np.ones(dialogues)
    labels = np.arange(dialogues)
    return [
        [Sums(np.stack([run * weights, weights], 1), labels, ratio) for run in system]
        for system in systems
    ]


def architecture_rows(simulations: int) -> None:
    """Print the coverage of the intervals for two architectures: counted once / sum / seeds
    only.
    """
    print("| metric | noise | sd between seeds | 3 seeds | 5 seeds | 10 seeds | 3 and 10 seeds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for metric in ("mean", "ratio"):
        for noise in (0.04, 0.08):
            for seeds in (0.001, 0.004, 0.012):
                shares = [
                    architecture_coverage(metric, noise, seeds, runs, simulations)
                    for runs in ((3, 3), (5, 5), (10, 10), (3, 10))
                ]
                cells = " | ".join(
                    " / ".join(f"{100 * share:.1f}" for share in methods) for methods in shares
                )
                print(f"| {metric} | {noise} | {seeds} | {cells} |", flush=True)


def architecture_coverage(
    metric: str, noise: float, seeds: float, runs: tuple[int, int], simulations: int
) -> Floats:
    """Return the share of intervals with 0 inside, by method."""
    generator = np.random.default_rng([simulations, *runs, round(1e6 * noise), round(1e6 * seeds)])
    covered = np.zeros(3)
    for _ in range(simulations):
        systems = measure(generator, metric, scores(generator, runs, seeds, noise)[0])
        a, b = (summary(system) for system in systems)
        parts = variances(a, b)
        jackknife = jackknife_variance(a.left_out.mean(0) - b.left_out.mean(0))
        both = Variances(parts.seeds, parts.freedom, jackknife, DIALOGUES)
        covered += [contains(a, b, variant) for variant in (parts, both)] + [
            welch_contains(a.values, b.values)
        ]
    return covered / simulations


def contains(a: Runs, b: Runs, parts: Variances) -> bool:
    """Return whether the interval contains 0."""
    estimate = interval(a, b, parts, LEVEL)
    return estimate.low <= 0 <= estimate.high


def welch_contains(a: Floats, b: Floats) -> bool:
    """Return whether Welch's interval over seeds contains 0."""
    terms = np.array([values.var(ddof=1) / len(values) for values in (a, b)])
    freedom = terms.sum() ** 2 / (terms[0] ** 2 / (len(a) - 1) + terms[1] ** 2 / (len(b) - 1))
    return bool(abs(a.mean() - b.mean()) <= t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(terms.sum()))


def run_rows(simulations: int) -> None:
    """Print coverage and false positives for two single runs, and for a single run of b."""
    print("| metric | runs of a and b | interval covers | randomization p <= 0.05 |")
    print("| --- | ---: | ---: | ---: |")
    for metric in ("mean", "ratio"):
        covered, rejected = two_runs(metric, simulations)
        print(f"| {metric} | 1 | {100 * covered:.1f} % | {100 * rejected:.1f} % |", flush=True)
    for name, metric in (("distinct-1", distinct), ("entropy-1", entropy)):
        covered, rejected = two_vocabularies(metric, simulations)
        print(f"| {name} | 1 | {100 * covered:.1f} % | {100 * rejected:.1f} % |", flush=True)
    for seeds in (0.001, 0.012):
        covered = one_run_of_b(seeds, simulations)
        print(f"| mean, sd between seeds {seeds} | 5, 1 | {100 * covered:.1f} % | – |", flush=True)


def two_runs(metric: str, simulations: int) -> tuple[float, float]:
    """Return coverage and false positives for two runs that are equally good over all possible
    dialogues.
    """
    generator = np.random.default_rng(simulations)
    covered = rejected = 0
    for seed in range(simulations):
        (a,), (b,) = measure(generator, metric, scores(generator, (1, 1), 0.0, 0.04)[0])
        resampled = bootstrap([a, b], RESAMPLES, seed)
        estimate = bootstrap_interval(
            a.value() - b.value(), resampled[0] - resampled[1], DIALOGUES, LEVEL
        )
        covered += estimate.low <= 0 <= estimate.high
        rejected += randomization([(a, b)], RESAMPLES, seed)[0] <= 1 - LEVEL
    return covered / simulations, rejected / simulations


def few_rows(simulations: int) -> None:
    """Print the coverage for few dialogues: two runs by bootstrap / jackknife, and two
    architectures with few seeds.
    """
    print("| dialogues | two runs | 2 seeds | 3 seeds |")
    print("| ---: | ---: | ---: | ---: |")
    for dialogues in (6, 10, 20, 50):
        generator = np.random.default_rng([simulations, dialogues])
        covered = np.zeros(4)
        for seed in range(simulations):
            (a,), (b,) = measure(
                generator, "mean", scores(generator, (1, 1), 0.0, 0.04, dialogues)[0]
            )
            resampled = bootstrap([a, b], RESAMPLES, seed)
            estimate = bootstrap_interval(
                a.value() - b.value(), resampled[0] - resampled[1], dialogues, LEVEL
            )
            pairs = [(summary([a]), summary([b]))]
            for number in (2, 3):
                systems = scores(generator, (number, number), 0.012, 0.08, dialogues)[0]
                first, second = measure(generator, "mean", systems)
                pairs.append((summary(first), summary(second)))
            covered[0] += estimate.low <= 0 <= estimate.high
            covered[1:] += [contains(*pair, variances(*pair)) for pair in pairs]
        first, second, *others = (f"{100 * share:.1f}" for share in covered / simulations)
        print(f"| {dialogues} | {first} / {second} | {' | '.join(others)} |", flush=True)


def two_vocabularies(metric: Callable[[Floats], Floats], simulations: int) -> tuple[float, float]:
    """Return coverage for two systems with different vocabularies, and false positives for two
    equal ones.
    """
    generator = np.random.default_rng(simulations)
    estimates = []
    rejected = 0
    for seed in range(simulations):
        a, same, b = (item_counts(generator, exponent, metric) for exponent in (1.0, 1.0, 1.1))
        runs = summary([a]), summary([b])
        estimates.append(interval(*runs, variances(*runs), LEVEL))
        rejected += randomization([(a, same)], RESAMPLES * a.cost, seed)[0] <= 1 - LEVEL
    truth = np.mean([estimate.difference for estimate in estimates])
    return (
        float(np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])),
        rejected / simulations,
    )


def item_counts(
    generator: np.random.Generator, exponent: float, metric: Callable[[Floats], Floats]
) -> Counts:
    """Return a metric of 3 responses of 8 words per dialogue: Zipf's law, and a topic word per
    dialogue.
    """
    shares = 1 / np.arange(1, 2001) ** exponent
    words = generator.choice(2000, size=(DIALOGUES, 3, 8), p=shares / shares.sum())
    topic = generator.choice(2000, size=(DIALOGUES, 1, 1), p=shares / shares.sum())
    words = np.where(generator.random(words.shape) < 0.1, topic, words)
    sizes = np.full(3 * DIALOGUES, 8)
    return Counts(words.ravel(), sizes, np.repeat(np.arange(DIALOGUES), 3), metric)


def distinct(counts: Floats) -> Floats:
    """Return distinct items / items."""
    return np.count_nonzero(counts, axis=-1) / counts.sum(-1)


def entropy(counts: Floats) -> Floats:
    """Return the entropy of the items in nats."""
    shares = counts / counts.sum(-1, keepdims=True)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1)


def one_run_of_b(seeds: float, simulations: int) -> float:
    """Return the coverage of the difference between an architecture a and one run of b."""
    generator = np.random.default_rng(simulations)
    covered = 0
    for _ in range(simulations):
        systems, effects = scores(generator, (5, 1), seeds, 0.04)
        a, b = (summary(system) for system in measure(generator, "mean", systems))
        estimate = interval(a, b, variances(a, b), LEVEL)
        covered += estimate.low <= -float(effects[1][0, 0]) <= estimate.high
    return covered / simulations


def summary(system: Sequence[RunMetric]) -> Runs:
    """Return values and leave-one-out values of the runs of a system."""
    return Runs(
        np.array([run.value() for run in system]), np.array([run.leave_one_out() for run in system])
    )


def rating_rows(simulations: int) -> None:
    """Print the coverage of preference shares of raters, clustered two ways and by a bootstrap."""
    print("| raters | pairs | raters differ by | clustered | bootstrap |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for raters, pairs in ((3, 50), (3, 150), (5, 60), (10, 60), (10, 200)):
        for spread in (0.0, 0.3, 0.8):
            rates = rated_studies(raters, pairs, spread, simulations)
            cells = " | ".join(f"{100 * covered:.1f} / {width:.3f}" for covered, width in rates)
            print(f"| {raters} | {pairs} | {spread} | {cells} |", flush=True)


def rated_studies(
    raters: int, pairs: int, spread: float, simulations: int
) -> list[tuple[float, float]]:
    """Return coverage and mean half width, clustered and by a bootstrap over raters and pairs.

    Three raters judge each pair, with 20 % ties. Log odds vary by 1 between pairs and by `spread`
    between raters.
    """
    generator = np.random.default_rng(simulations)
    who = (np.arange(pairs)[:, None] + np.arange(3)) % raters
    numbers = np.repeat(np.arange(pairs), 3)
    first = np.zeros(3 * pairs, np.int64)
    odds = generator.normal(0.4, np.hypot(1.0, spread), 1_000_000)
    truth = 0.8 * expit(odds).mean() + 0.1
    bounds: list[list[tuple[float, float]]] = [[], []]
    for _ in range(simulations):
        odds = 0.4 + generator.normal(0, 1.0, (pairs, 1)) + generator.normal(0, spread, raters)[who]
        wins = (generator.random(odds.shape) < expit(odds)).astype(np.float64)
        wins[generator.random(odds.shape) < 0.2] = 0.5
        ratings = RatedSample(first, 1 - first, wins.ravel(), who.ravel(), numbers)
        low, high = limits(*share(ratings, 0), 1 - LEVEL)
        bounds[0].append((low, high))
        by_rater = generator.multinomial(raters, np.full(raters, 1 / raters), 400)
        by_pair = generator.multinomial(pairs, np.full(pairs, 1 / pairs), 400)
        weights = by_pair[:, :, None] * by_rater[:, who]
        means = (weights * wins).sum((1, 2)) / np.maximum(weights.sum((1, 2)), 1)
        bounds[1].append(tuple(np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])))
    return [
        (
            float(np.mean([low <= truth <= high for low, high in one])),
            float(np.mean([(high - low) / 2 for low, high in one])),
        )
        for one in bounds
    ]


if __name__ == "__main__":
    parts = {"architectures": architecture_rows, "runs": run_rows, "few": few_rows}
    print_parts(__doc__, {**parts, "ratings": rating_rows})
