"""Verdict on each pair of contenders: better, by how much, or undecided and the number of seeds
that would decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

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


UNIT = {"bits_per_byte": "bits per byte"}


def verdicts(
    differences: Sequence[Difference],
    better: Mapping[str, Better],
    *,
    diverged: Mapping[str, tuple[int, int]] | None = None,
    files: Collection[str] = (),
    level: float = 0.95,
) -> list[dict[str, str]]:
    """Return "verdicts" of results.json: a, b, subset and text for each pair and subset.

    Args:
        differences: Records of `differences`, the primary metric first.
        better: Better direction of each metric; without one, no contender is called better.
        diverged: Number of diverged runs and of all runs, by contender.
        files: Contenders that are files of responses.
        level: Level of the intervals.
    """
    verdicts = []
    for (subset, a, b), records in groupby(
        differences, lambda record: (record.subset, record.a, record.b)
    ):
        entries = [*records]
        sentences = [*_sentences(entries, better, level)]
        if subset == "all":
            sentences = [
                *_scope(entries, files),
                *sentences,
                *diverged_runs((a, b), diverged or {}),
            ]
        verdicts.append({"a": a, "b": b, "subset": subset, "text": " ".join(sentences)})
    return verdicts


def _sentences(
    records: Sequence[Difference], better: Mapping[str, Better], level: float
) -> Iterator[str]:
    """Yield the sentences of one pair on one subset."""
    tested = [record for record in records if record.tested]
    judged = [record for record in tested if better[record.metric] is not None]
    headline = [record for record in judged if is_headline(record.metric)]
    further = [record for record in judged if not is_headline(record.metric)]
    yield from _better([record for record in headline if record.decided], further, better, level)
    yield from _undecided([record for record in headline if not record.decided])
    without_test = [record for record in records if not record.tested]
    for reason, untested in _grouped(without_test, lambda record: record.why_untested):
        all_metrics = len(untested) == len(records) > 1
        yield (
            f"No metric is tested: {reason}."
            if all_metrics
            else f"{labels_of(untested)}: not tested: {reason}."
        )


def _scope(records: Sequence[Difference], files: Collection[str]) -> Iterator[str]:
    """Yield to which systems the verdict applies if a contender has a single run or is a file of
    responses.
    """
    tested = next((record for record in records if record.tested), None)
    if tested is None:
        return
    a = tested.a
    b = tested.b
    single_runs = tested.single_runs
    of_file = [name in files for name in (a, b)]
    if len(single_runs) == 2 and any(of_file):
        systems = " and ".join(
            f"{'' if file else 'this run of '}{name}"
            for name, file in zip((a, b), of_file, strict=True)
        )
        yield f"This is about two systems, {systems}, and not about architectures."
    elif len(single_runs) == 2:
        yield "One run each: this is about two runs, not about two architectures."
    elif single_runs:
        (single,) = single_runs
        other = b if single == a else a
        if single in files:
            yield (
                f"This is about the architecture {other} and the system {single}, whose other runs"
                " are not known."
            )
        else:
            yield f"{single} has one run, so this is about that run and the architecture {other}."


def _better(
    decided: Sequence[Difference],
    further: Sequence[Difference],
    better: Mapping[str, Better],
    level: float,
) -> Iterator[str]:
    """Yield for each winner "A is better by 0.021 to 0.034 bits per byte (95 % interval), and in F1
    and chrF.".

    The first metric has its interval, which the tables have of all; metrics of `further` are
    counted.
    """
    counts = {
        winner: len(records)
        for winner, records in _grouped(further, lambda record: winner_of(record, better))
    }
    for winner, (first, *others) in _grouped(decided, lambda record: winner_of(record, better)):
        amount = amount_text(first.metric, *sorted(abs(limit) for limit in first.interval))
        unit = UNIT.get(first.metric)
        what = f"by {amount} {unit}" if unit else f"in {lowered(label_of(first))} by {amount}"
        names = [lowered(label_of(record)) for record in others]
        if count := counts.pop(winner, 0):
            names.append(f"{count} of {len(further)} further metrics")
        also = f", and in {listed(names)}" if names else ""
        yield f"{winner} is better {what} ({100 * level:g} % interval){also}."
    for winner, count in counts.items():
        if winner:
            yield f"{winner} is better in {count} of {len(further)} further metrics."


def _undecided(records: Sequence[Difference]) -> Iterator[str]:
    """Yield sentences such as "F1: undecided; about 7 seeds would decide."."""
    for reason, group in _grouped(records, outcome):
        if reason == "seeds":
            seeds = sorted(
                {record.seeds_needed for record in group if record.seeds_needed is not None}
            )
            number = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
            yield f"{labels_of(group)}: undecided; about {number} seeds would decide."
        else:
            yield f"{labels_of(group)}: {reason}."


def _grouped(
    records: Sequence[Difference], key: Callable[[Difference], str]
) -> Iterator[tuple[str, list[Difference]]]:
    """Yield groups in the order of their first record."""
    groups: dict[str, list[Difference]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    yield from groups.items()
