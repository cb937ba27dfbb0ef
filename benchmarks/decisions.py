"""Wrong decisions and power of a comparison, on simulated systems with known truth.

    python benchmarks/decisions.py [--simulations 1000] [--parts unequal,power,reports,looks,procedures]

Print Markdown tables, each part in about a minute on one core. A run of a system has, in each
metric, the mean of the system over 300 dialogues, whose difference between two systems has standard
deviation 0.08 / sqrt(300), and a deviation between seeds of 0.004 unless a table has others.
Metrics are correlated with 0.5. `before` is what `compare` did until November 2026: t with
Satterthwaite's degrees of freedom for the sum of all variances, Holm's correction over the metrics
of a pair and over the pairs in a metric, no limit on looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from printed_parts import print_parts
from scipy.special import stdtrit
from scipy.stats import t

from dialog.comparison.decisions.family import NullHypothesis, adjusted
from dialog.comparison.decisions.looks import Look, spend

Floats = NDArray[np.float64]
DIALOGUES = 300
DIFFERENCE = 0.08 / np.sqrt(DIALOGUES)
SEEDS = 0.004
LEVEL = 0.05
TEST = NullHypothesis("a", "b", "bits_per_byte")


def draw(
    generator: np.random.Generator, shape: tuple[int, int, int, int], seeds: Sequence[float] = ()
) -> tuple[Floats, Floats]:
    """Return values of runs [simulations, systems, runs, metrics] without a true difference, and
    estimates of the variance over dialogues of a difference [simulations, 1, metrics].
    """
    simulations, systems, _, metrics = shape
    deviations = np.array(seeds or [SEEDS] * systems)[:, None, None]

    def correlated(*size: int) -> Floats:
        shared = generator.normal(size=(*size[:-1], 1))
        return np.sqrt(0.5) * (shared + generator.normal(size=size))

    systems_part = DIFFERENCE / np.sqrt(2) * correlated(simulations, systems, 1, metrics)
    freedom = DIALOGUES - 1
    over_dialogues = generator.chisquare(freedom, (simulations, 1, metrics)) / freedom
    return systems_part + deviations * correlated(*shape), DIFFERENCE**2 * over_dialogues


def parts_of(values: Floats, a: int, b: int) -> tuple[Floats, Floats, Floats]:
    """Return the difference of means of two systems, S, and its degrees of freedom [simulations,
    metrics].
    """
    number = values.shape[2]
    one, other = (values[:, place].var(1, ddof=1) / number for place in (a, b))
    freedom = (number - 1) * (one + other) ** 2 / (one**2 + other**2)
    return values[:, a].mean(1) - values[:, b].mean(1), one + other, freedom


def p_values(values: Floats, dialogues: Floats, *, before: bool = False) -> Floats:
    """Return the p-value of each pair and metric [simulations, pairs, metrics]."""
    return np.stack(
        [
            _p(*parts_of(values, a, b), dialogues[:, 0], before=before)
            for a, b in combinations(range(values.shape[1]), 2)
        ],
        axis=1,
    )


def _p(
    difference: Floats, seeds: Floats, freedom: Floats, dialogues: Floats, *, before: bool
) -> Floats:
    last = DIALOGUES - 1
    if before:
        total = seeds + dialogues
        satterthwaite = total**2 / (seeds**2 / freedom + dialogues**2 / last)
        return np.asarray(2 * t.sf(np.abs(difference) / np.sqrt(total), satterthwaite))
    low = np.full(difference.shape, -40.0)  # of the logarithm of p
    high = np.zeros(difference.shape)
    for _ in range(30):
        middle = (low + high) / 2
        half = np.exp(middle) / 2
        limit = stdtrit(freedom, half) ** 2 * seeds + stdtrit(last, half) ** 2 * dialogues
        outside = difference**2 > limit
        low, high = np.where(outside, low, middle), np.where(outside, middle, high)
    return np.exp(high)


def holm(ordered: Floats) -> Floats:
    """Return Holm's adjusted p-values along the last axis."""
    order = np.argsort(ordered, axis=-1)
    number = ordered.shape[-1]
    factors = np.take_along_axis(ordered, order, -1) * np.arange(number, 0, -1)
    found = np.empty_like(ordered)
    np.put_along_axis(found, order, np.minimum(1, np.maximum.accumulate(factors, -1)), -1)
    return found


def pair_and_metric(p: Floats) -> Floats:
    """Return the larger of Holm's p-values over the metrics of a pair and over the pairs in a
    metric.
    """
    return np.maximum(holm(p), np.swapaxes(holm(np.swapaxes(p, -1, -2)), -1, -2))


def graph(share: float) -> Callable[[Floats], Floats]:
    """Return the graphical procedure with this share; metric 0 is the primary one."""

    def adjust(p: Floats) -> Floats:
        found = []
        for report in p:
            primary, others = adjusted(report[:, 0].tolist(), report[:, 1:].tolist(), share)
            found.append(np.column_stack([primary, others]))
        return np.array(found)

    return adjust


def flat(p: Floats) -> Floats:
    """Return Holm's p-values over all pairs and metrics."""
    return holm(p.reshape(len(p), -1)).reshape(p.shape)


def serial(p: Floats) -> Floats:
    """Return Holm's p-values over the primary hypotheses, and once all are rejected over all
    others.
    """
    primary = holm(p[:, :, 0])
    others = holm(p[:, :, 1:].reshape(len(p), -1)).reshape(len(p), p.shape[1], -1)
    gate = primary.max(1)[:, None, None]
    return np.concatenate([primary[:, :, None], np.maximum(others, gate)], axis=2)


def unequal_rows(simulations: int) -> None:
    """Print the coverage of intervals if seeds of two systems vary differently: before / now."""
    print("| sd between seeds | 2 seeds | 3 seeds | 5 seeds | 10 seeds |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for seeds in (
        *((0.001, 0.001), (0.012, 0.012), (0.004, 0.012), (0.002, 0.01), (0.001, 0.02)),
        *((0.002, 0.06), (0.0, 0.05)),
    ):
        cells = []
        for runs in (2, 3, 5, 10):
            generator = np.random.default_rng([simulations, runs])
            values, dialogues = draw(generator, (10 * simulations, 2, runs, 1), seeds)
            shares = [
                (p_values(values, dialogues, before=before) > LEVEL).mean()
                for before in (True, False)
            ]
            cells.append(" / ".join(f"{100 * share:.1f}" for share in shares))
        print(f"| {seeds[0]:g} and {seeds[1]:g} | {' | '.join(cells)} |", flush=True)


def power_rows(simulations: int) -> None:
    """Print the power in the primary metric: tested alone, with 21 others and Holm, and now."""
    print("| true difference | alone | Holm over 22 metrics | now |")
    print("| ---: | ---: | ---: | ---: |")
    generator = np.random.default_rng(simulations)
    for true in (0.013, 0.017, 0.021):
        values, dialogues = draw(generator, (simulations, 2, 3, 22))
        values[:, 0, :, 0] += true
        old = p_values(values, dialogues, before=True)
        new = graph(0.5)(p_values(values, dialogues))
        shares = [(p[:, 0, 0] <= LEVEL).mean() for p in (old, pair_and_metric(old), new)]
        print(f"| {true} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |", flush=True)


def report_rows(simulations: int) -> None:
    """Print how many reports without true differences decide something: before, and now."""
    print("| systems x metrics | before | now |")
    print("| --- | ---: | ---: |")
    generator = np.random.default_rng(simulations)
    for systems, metrics in ((2, 22), (5, 10), (8, 10)):
        values, dialogues = draw(generator, (simulations, systems, 3, metrics))
        old = pair_and_metric(p_values(values, dialogues, before=True))
        new = graph(0.5)(p_values(values, dialogues))
        shares = [(p.min((1, 2)) <= LEVEL).mean() for p in (old, new)]
        cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
        print(f"| {systems} x {metrics} | {cells} |", flush=True)


def look_rows(simulations: int) -> None:
    """Print how often equal systems are decided if seeds are added one at a time, from 3 to 12,
    until they are.
    """
    generator = np.random.default_rng(simulations)
    values, dialogues = draw(generator, (simulations, 2, 12, 1), [0.012, 0.012])
    numbers = range(3, 13)
    old, new = (
        {n: p_values(values[:, :, :n], dialogues, before=before)[:, 0, 0] for n in numbers}
        for before in (True, False)
    )
    print("| looks | decided wrongly |")
    print("| --- | ---: |")
    for name, shares in (
        ("one, with 3 seeds", old[3] <= LEVEL),
        ("before: after each seed, any p <= 0.05", np.min([*old.values()], axis=0) <= LEVEL),
        ("now: after each seed, 1 planned", _spent(new, 1)),
        ("now: after each seed, 4 planned", _spent(new, 4)),
        ("now: after each seed, 10 planned", _spent(new, 10)),
    ):
        print(f"| {name} | {100 * np.mean(shares):.1f} % |", flush=True)
    # one run each, a report, then more seeds: the first report is about two runs
    after_one = [_decided([(1, 0.5), (3, float(new[3][place]))], 1) for place in range(simulations)]
    print(f"| now: 1 seed, then 3, 1 planned | {100 * np.mean(after_one):.1f} % |", flush=True)


def _spent(p: dict[int, Floats], planned: int) -> list[bool]:
    return [
        _decided([(n, float(values[place])) for n, values in p.items()], planned)
        for place in range(len(p[3]))
    ]


def _decided(series: Sequence[tuple[int, float]], planned: int) -> bool:
    """Return whether any report of a series decides."""
    looks: list[Look] = []
    for number, p in series:
        seeds = {"a": range(number), "b": range(number)}
        spent = spend(Look("", seeds, {TEST: p}), looks, planned)
        looks = spent.looks
        if spent.p_values[TEST] <= LEVEL:
            return True
    return False


def procedure_rows(simulations: int) -> None:
    """Print the power in primary / secondary hypotheses and the wrong decisions of procedures over
    pairs and metrics.
    """
    procedures = {
        "Holm over all": flat,
        "serial": serial,
        **{f"graph {share}": graph(share) for share in (0.0, 0.5, 0.8, 1.0)},
    }
    print(f"| truth | {' | '.join(procedures)} |")
    print(f"| --- |{' ---: |' * len(procedures)}")
    step = 0.018
    for systems, metrics in ((3, 12), (5, 10)):
        best = np.zeros((systems, metrics))
        best[0] = step
        ladder = np.outer(np.arange(systems), np.full(metrics, step))
        half = ladder * (np.arange(metrics) % 2 == 0)
        for name, effects in (
            ("no difference", 0 * best),
            ("one better in all metrics", best),
            ("all different in all metrics", ladder),
            ("all different in half of them", half),
        ):
            generator = np.random.default_rng([simulations, systems])
            values, dialogues = draw(generator, (simulations, systems, 5, metrics))
            p = p_values(values + effects[:, None], dialogues)
            pairs = [*combinations(range(systems), 2)]
            true = np.array([effects[a] == effects[b] for a, b in pairs])
            cells = []
            for procedure in procedures.values():
                rejected = procedure(p) <= LEVEL
                wrong = (rejected & true).any((1, 2)).mean()
                cells.append(f"{_power(rejected, true)} ({100 * wrong:.1f})")
            print(f"| {systems} systems x {metrics}: {name} | {' | '.join(cells)} |", flush=True)


def _power(rejected: NDArray[np.bool_], true: NDArray[np.bool_]) -> str:
    shares = []
    for columns in (slice(0, 1), slice(1, None)):
        false = ~true[:, columns]
        found = rejected[:, :, columns][:, false]
        shares.append(f"{100 * found.mean():.0f}" if false.any() else "–")
    return " / ".join(shares)


if __name__ == "__main__":
    print_parts(
        __doc__,
        {
            "unequal": unequal_rows,
            "power": power_rows,
            "reports": report_rows,
            "looks": look_rows,
            "procedures": procedure_rows,
        },
    )
