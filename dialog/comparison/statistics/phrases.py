"""Phrases of verdicts: amounts, labels, outcomes and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dialog.comparison.statistics.differences import Difference
from dialog.report.formats.metrics import METRIC_DISPLAYS, Better, better_of, metric_display
from dialog.report.formats.numbers import decimals, general, percent

MANY_SEEDS = 100
"""A larger number of seeds is not given exactly."""
HEADLINE = {
    "bits_per_byte",
    "token_accuracy",
    "answer_accuracy",
    "hits_1_of_20",
    "f1",
    "sacrebleu",
    "chrf",
    "rouge_l",
}
"""Metrics that a verdict names, beside those that users add."""


def is_headline(metric: str) -> bool:
    """Return whether a verdict names a metric."""
    return metric in HEADLINE or metric not in METRIC_DISPLAYS


def winner_of(record: Difference, better: Mapping[str, Better]) -> str:
    """Return the better contender of a decided difference; empty if it is undecided."""
    best = better_of((record.a, record.b), record.difference, better[record.metric])
    return best if record.decided and best is not None else ""


def outcome(record: Difference) -> str:
    """Return why a difference is undecided; "seeds" if `seeds_needed` would decide it."""
    if record.standard_error == record.difference == 0:
        return "no difference"
    if record.single_runs:
        return "undecided"
    if record.seeds_needed is None:
        return "undecided; more seeds cannot decide, only more dialogues could"
    return (
        "seeds"
        if record.seeds_needed <= MANY_SEEDS
        else f"undecided; more than {MANY_SEEDS} seeds would be needed"
    )


def diverged_runs(names: Iterable[str], diverged: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield "1 of 3 runs of lstm diverged." for each contender with a diverged run."""
    for name in names:
        number, runs = diverged.get(name, (0, 0))
        if number:
            yield f"{number} of {runs} runs of {name} diverged."


def amount_text(metric: str, low: float, high: float) -> str:
    """Format an interval like the metric, with more digits where those would hide a difference."""
    display = metric_display(metric)
    if display.format is percent:
        return f"{_digits(decimals(1), 100 * low, 100 * high)} percentage points"
    return _digits(display.format, low, high)


def _digits(formatted: Callable[[float], str], low: float, high: float) -> str:
    texts = [formatted(low), formatted(high)]
    if texts[0] == texts[1] or texts[0] == formatted(0.0):
        texts = [general(low), general(high)]
    return " to ".join(texts)


def label_of(record: Difference) -> str:
    """Return the label of the metric."""
    return metric_display(record.metric).label


def lowered(label: str) -> str:
    """Return a label within a sentence: token accuracy, F1."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def labels_of(records: Sequence[Difference]) -> str:
    """Return labels for the start of a sentence: Token accuracy, perplexity per word, F1."""
    first, *others = map(label_of, records)
    return ", ".join([first, *map(lowered, others)])


def listed(texts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([separated(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def separated(texts: Sequence[str]) -> str:
    """Return "a, b, c"; with semicolons if a text has a comma, like the names of --vary with two
    keys.
    """
    return ("; " if any("," in text for text in texts) else ", ").join(texts)
