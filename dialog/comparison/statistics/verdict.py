"""Verdict on each pair of contenders: better, by how much, or undecided and the number of seeds
that would decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby

from dialog.comparison.statistics.differences import Difference
from dialog.comparison.statistics.phrases import (
    amount_text,
    diverged_runs,
    is_headline,
    label_of,
    labels_of,
    listed,
    lowered,
    outcome,
    winner_of,
)
from dialog.report.formats.metrics import Better

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
