"""Verdict on more than two contenders: their order in the primary metric, and the best in the
others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from dialog.comparison.statistics.differences import Difference
from dialog.comparison.statistics.verdict import (
    amount_text,
    diverged_runs,
    is_headline,
    listed,
    lowered,
    outcome,
    separated,
    winner_of,
)
from dialog.report.formats.metrics import Better, best_first, metric_display

MOST_PAIRS = 6
"""Undecided pairs that are named; of more, the number is given."""

Means = Mapping[str, Mapping[str, float]]
"""Mean over the runs by contender and metric."""


def rankings(
    differences: Sequence[Difference],
    means: Mapping[str, Means],
    better: Mapping[str, Better],
    *,
    diverged: Mapping[str, tuple[int, int]] | None = None,
    files: Collection[str] = (),
    level: float = 0.95,
) -> list[dict[str, str]]:
    """Return "rankings" of results.json: subset and text, for each subset.

    Args:
        differences: Records of `differences`.
        means: Means by subset.
        better: Better direction of each metric; the first that has one and is tested is the primary
            metric.
        diverged: Number of diverged runs and of all runs, by contender.
        files: Contenders that are files of responses.
        level: Level of the intervals.
    """
    rankings = []
    for subset, records in groupby(differences, lambda record: record.subset):
        judged = [record for record in records if better[record.metric] is not None]
        tested = [record for record in judged if record.tested]
        if not tested:
            reason = next((record.why_untested for record in judged), "not measured")
            rankings.append({"subset": subset, "text": f"No metric is tested: {reason}."})
            continue
        metrics = [metric for metric in better if any(record.metric == metric for record in tested)]
        sentences = [*_order(metrics[0], tested, means[subset], level)]
        if subset == "all":
            best = _best_in_others(metrics, tested, means[subset], better)
            sentences = [
                *_scope(tested, files),
                *sentences,
                *best,
                *diverged_runs(means[subset], diverged or {}),
            ]
        rankings.append({"subset": subset, "text": " ".join(sentences)})
    return rankings


def _scope(tested: Sequence[Difference], files: Collection[str]) -> Iterator[str]:
    """Yield to which systems the verdict applies if contenders have a single run or are files of
    responses.
    """
    single = {name for record in tested for name in record.single_runs}
    if single == {name for record in tested for name in (record.a, record.b)}:
        yield (
            f"One run each: this is about {'systems' if files else 'runs'}, not about"
            " architectures."
        )
    elif single:
        yield (
            "Some contenders have one run: this is about these runs, not about their architectures."
        )


def _order(metric: str, tested: Sequence[Difference], means: Means, level: float) -> Iterator[str]:
    """Yield the contenders by the primary metric, the lead of the first, and the pairs that are
    undecided.
    """
    ordered = best_first(metric, values_of(metric, means))
    pairs = {
        frozenset((record.a, record.b)): record for record in tested if record.metric == metric
    }
    display = metric_display(metric)
    values = [f"{name} {display.format(means[name][metric])}" for name in ordered]
    yield f"{display.label}, best first: {separated(values)}."
    lead = pairs.get(frozenset(ordered[:2]))
    if lead is not None and lead.decided:
        amount = amount_text(metric, *sorted(abs(limit) for limit in lead.interval))
        yield f"{ordered[0]} is better than {ordered[1]} by {amount} ({100 * level:g} % interval)."
    undecided = [record for record in pairs.values() if not record.decided]
    if not undecided:
        if len(pairs) > 1:
            yield f"All {len(pairs)} differences are decided."
    elif len(undecided) > MOST_PAIRS:
        yield f"{len(undecided)} of {len(pairs)} differences are undecided."
    else:
        names = (
            listed(sorted((record.a, record.b), key=ordered.index)) + _reason(record)
            for record in undecided
        )
        yield f"Undecided: {'; '.join(names)}." + (
            " The other pairs are decided." * (len(undecided) < len(pairs))
        )


def _reason(record: Difference) -> str:
    """Return what would decide a difference, in brackets."""
    reason = outcome(record)
    if reason == "seeds":
        return f" (about {record.seeds_needed} seeds would decide)"
    text = reason.removeprefix("undecided").removeprefix("; ")
    return f" ({text})" if text else ""


def _best_in_others(
    metrics: Sequence[str], tested: Sequence[Difference], means: Means, better: Mapping[str, Better]
) -> Iterator[str]:
    """Yield the named metrics after the first by their leaders: contenders whom no other one beats
    decidedly.
    """
    order = best_first(metrics[0], values_of(metrics[0], means))
    names = [*order, *(name for name in means if name not in order)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for metric in metrics[1:]:
        if is_headline(metric):
            records = [record for record in tested if record.metric == metric]
            beaten = {
                ({record.a, record.b} - {winner_of(record, better)}).pop()
                for record in records
                if record.decided
            }
            compared = {name for record in records for name in (record.a, record.b)}
            leaders = tuple(name for name in names if name in compared - beaten)
            if leaders:  # none if each contender is beaten by another
                groups.setdefault(leaders, []).append(lowered(metric_display(metric).label))
    for best, labels in groups.items():
        if len(best) == len(means):
            yield f"Undecided between all in {listed(labels)}."
        elif 2 * (len(means) - len(best)) < len(best):
            others = [name for name in names if name not in best]
            yield f"Undecided in {listed(labels)} between all but {listed(others)}."
        else:
            yield (
                f"Best in {listed(labels)}:"
                f" {listed(best)}{', undecided between them' * (len(best) > 1)}."
            )


def values_of(metric: str, means: Means) -> dict[str, float]:
    """Return the mean of a metric of each contender that has one."""
    return {name: values[metric] for name, values in means.items() if metric in values}
