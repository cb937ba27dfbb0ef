"""Verdict of a comparison in sentences: better, by how much, or undecided and the number of seeds that would decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby

from dialog.comparison.statistics.differences import (
    NOT_TESTED,
    ONE_RUN_OF_A,
    ONE_RUN_OF_B,
    TWO_RUNS,
    TWO_RUNS_JACKKNIFE,
    Better,
    Difference,
)
from dialog.report.formats.metrics import METRIC_DISPLAYS, metric_display
from dialog.report.formats.numbers import decimals, general, percent

MANY_SEEDS = 100
"""A larger number of seeds is not given exactly."""
UNIT = {"bits_per_byte": "bits per byte"}
HEADLINE = {"bits_per_byte", "token_accuracy", "hits_1_of_20", "f1", "sacrebleu", "chrf", "rouge_l"}
"""Metrics that a verdict names, beside those that users add; the others are counted if they are decided."""


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
    for (subset, a, b), records in groupby(differences, lambda record: (record.subset, record.a, record.b)):
        entries = [*records]
        sentences = [*_sentences(entries, better, level)]
        if subset == "all":
            sentences = [*_scope(entries, files), *sentences, *_diverged(a, b, diverged or {})]
        verdicts.append({"a": a, "b": b, "subset": subset, "text": " ".join(sentences)})
    return verdicts


def _sentences(records: Sequence[Difference], better: Mapping[str, Better], level: float) -> Iterator[str]:
    """Yield the sentences of one pair on one subset."""
    tested = [record for record in records if not record.method.startswith(NOT_TESTED)]
    judged = [record for record in tested if better[record.metric] is not None]
    headline = [record for record in judged if record.metric in HEADLINE or record.metric not in METRIC_DISPLAYS]
    further = [record for record in judged if record not in headline]
    yield from _better([record for record in headline if record.decided], further, better, level)
    yield from _undecided([record for record in headline if not record.decided])
    for reason, untested in _grouped(records, lambda record: record.method):
        if reason.startswith(NOT_TESTED):
            all_metrics = len(untested) == len(records) > 1
            why = reason.removeprefix(NOT_TESTED)
            yield f"No metric is tested: {why}." if all_metrics else f"{_labels(untested)}: {reason}."


def _scope(records: Sequence[Difference], files: Collection[str]) -> Iterator[str]:
    """Yield to which systems the verdict applies if a contender has a single run or is a file of responses."""
    tested = next((record for record in records if not record.method.startswith(NOT_TESTED)), None)
    if tested is None:
        return
    a, b, method = tested.a, tested.b, tested.method
    of_file = [name in files for name in (a, b)]
    if method in (TWO_RUNS, TWO_RUNS_JACKKNIFE) and any(of_file):
        systems = " and ".join(
            f"{'' if file else 'this run of '}{name}" for name, file in zip((a, b), of_file, strict=True)
        )
        yield f"This is about two systems, {systems}, and not about architectures."
    elif method in (TWO_RUNS, TWO_RUNS_JACKKNIFE):
        yield "One run each: this is about two runs, not about two architectures."
    elif method in (ONE_RUN_OF_A, ONE_RUN_OF_B):
        single, other = (a, b) if method == ONE_RUN_OF_A else (b, a)
        if single in files:
            yield f"This is about the architecture {other} and the system {single}, whose other runs are not known."
        else:
            yield f"{single} has one run, so this is about that run and the architecture {other}."


def _better(
    decided: Sequence[Difference], further: Sequence[Difference], better: Mapping[str, Better], level: float
) -> Iterator[str]:
    """Yield for each winner "A is better by 0.021 to 0.034 bits per byte (95 % interval), and in F1 and chrF.".

    The first metric has its interval, which the tables have of all; metrics of `further` are counted.
    """
    counts = {winner: len(records) for winner, records in _grouped(further, lambda record: _winner(record, better))}
    for winner, (first, *others) in _grouped(decided, lambda record: _winner(record, better)):
        amount = _amount(first.metric, *sorted(abs(limit) for limit in first.interval))
        unit = UNIT.get(first.metric)
        what = f"by {amount} {unit}" if unit else f"in {_lowered(_label(first))} by {amount}"
        names = [_lowered(_label(record)) for record in others]
        if count := counts.pop(winner, 0):
            names.append(f"{count} of {len(further)} further metrics")
        also = f", and in {_listed(names)}" if names else ""
        yield f"{winner} is better {what} ({100 * level:g} % interval){also}."
    for winner, count in counts.items():
        if winner:
            yield f"{winner} is better in {count} of {len(further)} further metrics."


def _winner(record: Difference, better: Mapping[str, Better]) -> str:
    """Return the better contender of a decided difference; empty if it is undecided."""
    if not record.decided:
        return ""
    positive = (record.difference or 0) > 0
    return record.a if positive == (better[record.metric] == "higher") else record.b


def _undecided(records: Sequence[Difference]) -> Iterator[str]:
    """Yield sentences such as "F1: undecided; about 7 seeds would decide."."""
    for reason, group in _grouped(records, _reason):
        if reason == "seeds":
            seeds = sorted({record.seeds_needed for record in group if record.seeds_needed is not None})
            number = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
            yield f"{_labels(group)}: undecided; about {number} seeds would decide."
        else:
            yield f"{_labels(group)}: {reason}."


def _reason(record: Difference) -> str:
    if record.standard_error == record.difference == 0:
        return "no difference"
    if record.method in (TWO_RUNS, TWO_RUNS_JACKKNIFE, ONE_RUN_OF_A, ONE_RUN_OF_B):
        return "undecided"
    if record.seeds_needed is None:
        return "undecided; more seeds cannot decide, only more dialogues could"
    return "seeds" if record.seeds_needed <= MANY_SEEDS else f"undecided; more than {MANY_SEEDS} seeds would be needed"


def _diverged(a: str, b: str, diverged: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name in (a, b):
        number, runs = diverged.get(name, (0, 0))
        if number:
            yield f"{number} of {runs} runs of {name} diverged."


def _amount(metric: str, low: float, high: float) -> str:
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


def _label(record: Difference) -> str:
    return metric_display(record.metric).label


def _lowered(label: str) -> str:
    """Return a label within a sentence: token accuracy, F1."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def _labels(records: Sequence[Difference]) -> str:
    """Return labels for the start of a sentence: Token accuracy, perplexity per word, F1."""
    first, *others = map(_label, records)
    return ", ".join([first, *map(_lowered, others)])


def _listed(texts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _grouped(records: Sequence[Difference], key: Callable[[Difference], str]) -> Iterator[tuple[str, list[Difference]]]:
    """Yield groups in the order of their first record."""
    groups: dict[str, list[Difference]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    yield from groups.items()
