"""Exact duplicates of dialogues, examples, pairs and responses, and leaks, by the rule of
`dialog.data.text_matching.leaks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    Flags,
    Hashes,
    Integers,
    contained_in,
    hash_pairs,
    is_unspaced_script,
    repeats_earlier,
)
from dialog.data.text_matching.leaks import MINIMUM_WORDS, LeakDetector, LeakReport, hash_long_pairs
from dialog.data.text_matching.spilled import SpilledHashes, number_of_distinct
from dialog.inspection.findings import (
    EVALUATED,
    WORST_FIRST,
    BarChart,
    Finding,
    Quotation,
    ReadDialogues,
    Table,
    location,
    part_of,
    severity,
    worst_split,
)
from dialog.report.formats.numbers import count, counted, percent

COMPARED = {name: NORMALISATIONS[name] for name in ("verbatim", "letters")}
"""Normalisations: verbatim except for white space; letters and digits only."""
UNITS = {
    "dialogues": "dialogues",
    "contexts": "context and response",
    "pairs": "last turn and response",
    "responses": "responses",
}
ACROSS = {
    "validation in train": ("in_train", "validation"),
    "test in train": ("in_train", "test"),
    "test in validation": ("in_validation", "test"),
}
WITHIN = {split: ("repeated", split) for split in SPLITS}
EXAMPLES = 3


def response_flags(dialogue: Dialogue, rules: ExampleRules) -> Flags:
    """Return which turns are responses, with first turns if the rules make them responses
    [turns].
    """
    flags = np.zeros(len(dialogue.turns), dtype=bool)
    flags[[response for _, response in example_windows(dialogue, rules)]] = True
    return flags


class DuplicateSection:
    """Counts texts that occur twice.

    The responses are those of the rules, except first turns: these have no previous turn.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self.hashes = {
            name: {split: SpilledHashes(NORMALISATIONS[name]) for split in SPLITS}
            for name in COMPARED
        }

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add the hashes of a dialogue."""
        responses = response_flags(dialogue, self.rules)
        for name in COMPARED:
            self.hashes[name][split].add(dialogue, responses)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return duplicates within each split, of validation and test in train, and of test in
        validation.
        """
        compared = {
            name: {unit: _compare(self.hashes[name], unit) for unit in UNITS} for name in COMPARED
        }
        data = {name: _counts(compared[name]) for name in COMPARED}
        verbatim = data["verbatim"]
        within_train = data["verbatim"]["repeated"]["train"]["dialogues"]
        in_train = {split: verbatim["in_train"][split]["dialogues"] for split in EVALUATED}
        in_validation, in_either = (
            verbatim[key]["test"]["dialogues"]
            for key in ("in_validation", "in_train_or_validation")
        )
        duplicated = {"test": in_either, "validation": in_train["validation"]}
        totals = {split: verbatim["totals"][split]["dialogues"] for split in duplicated}
        worst = worst_split({split: (duplicated[split], totals[split]) for split in WORST_FIRST})
        others = "train or validation" if worst == "test" else "train"
        return Finding(
            "Exact duplicates",
            severity(bad=in_train["validation"] or in_either, look=within_train),
            f"{counted(duplicated[worst], f'{worst} dialogue')} in {others}; "
            f"{counted(within_train, 'duplicate')} within train",
            "Dialogues that another one repeats word for word:"
            f" {count(within_train)} within train, {counted(in_train['test'], 'test dialogue')}"
            f" and {counted(in_train['validation'], 'validation dialogue')} in train,"
            f" {counted(in_validation, 'test dialogue')} in validation."
            + (
                " On these, a score shows what the model has memorised."
                if in_train["validation"] or in_either
                else ""
            ),
            " ".join(_advice(sum(in_train.values()), within_train, in_validation)),
            (
                _table(
                    "In another split: word for word / by letters and digits only", data, ACROSS
                ),
                _table(
                    "Like an earlier one of the split: word for word / by letters and digits only",
                    data,
                    WITHIN,
                ),
                *_examples(
                    compared["verbatim"]["dialogues"].originals(
                        "train" if in_train["test"] else "validation"
                    ),
                    "train" if in_train["test"] else "validation",
                    read_dialogues,
                ),
            ),
            {
                "normalisations": data,
                "distinct_dialogues": {
                    name: compared[name]["dialogues"].distinct() for name in COMPARED
                },
            },
        )


def _examples(
    pairs: list[tuple[int, int]], other: str, read_dialogues: ReadDialogues
) -> list[Quotation]:
    """Quote test dialogues that are also in `other`."""
    test_dialogues = read_dialogues("test", [duplicate for duplicate, _ in pairs])
    other_dialogues = read_dialogues(other, [original for _, original in pairs])
    return [
        Quotation(
            f"{location(test_dialogues[duplicate])} equals {location(other_dialogues[original])}",
            tuple((turn.speaker, turn.text) for turn in test_dialogues[duplicate].turns),
        )
        for duplicate, original in pairs
    ]


class UnitComparison(NamedTuple):
    """The hashes of one unit in the evaluated splits, compared with those of train."""

    evaluated: dict[str, Hashes]
    known: Hashes  # distinct ones of both evaluated splits, sorted
    first_in_train: Integers  # of each known hash: the position of the first in train, or -1
    total: int  # of train
    distinct_in_train: int

    def overlap(self, split: str, *others: str) -> int:
        """Return the number of units of an evaluated split that occur in any of the others."""
        found = np.zeros(len(self.evaluated[split]), dtype=bool)
        for other in others:
            hashes = (
                self.known[self.first_in_train >= 0]
                if other == "train"
                else np.unique(self.evaluated[other])
            )
            found |= contained_in(self.evaluated[split], hashes)
        return int(found.sum())

    def repeated(self, split: str) -> int:
        """Return the number of units that repeat an earlier one of the split."""
        if split == "train":
            return self.total - self.distinct_in_train
        return int(repeats_earlier(self.evaluated[split]).sum())

    def distinct(self) -> int:
        """Return the number of distinct units of all splits."""
        return self.distinct_in_train + int((self.first_in_train < 0).sum())

    def originals(self, other: str) -> list[tuple[int, int]]:
        """Return positions of a few test units that are also in `other`, and of the first equal one
        there; those that occur earliest there come first.
        """
        test = self.evaluated["test"]
        if other == "train":
            places = self.first_in_train[np.searchsorted(self.known, test)]
        else:
            hashes, firsts = np.unique(self.evaluated[other], return_index=True)
            places = np.full(len(test), -1)
            shared = contained_in(test, hashes)
            places[shared] = firsts[np.searchsorted(hashes, test[shared])]
        duplicates = np.flatnonzero(places >= 0)
        earliest = duplicates[np.argsort(places[duplicates], kind="stable")[:EXAMPLES]]
        return list(zip(earliest.tolist(), places[earliest].tolist(), strict=True))


def _compare(hashes: dict[str, SpilledHashes], unit: str) -> UnitComparison:
    """Compare one unit of all splits; train is read in chunks, and its distinct hashes are counted
    on disk.
    """
    evaluated = {
        split: np.concatenate([np.empty(0, np.uint64), *_units(hashes[split], unit)])
        for split in EVALUATED
    }
    known = np.unique(np.concatenate([*evaluated.values()]))
    first_in_train = np.full(len(known), -1)
    total = 0

    def training_units() -> Iterator[Hashes]:
        nonlocal total
        for values in _units(hashes["train"], unit):
            places = np.flatnonzero(contained_in(values, known))[::-1]
            new = np.searchsorted(known, values[places])
            free = first_in_train[new] < 0
            first_in_train[new[free]] = total + places[free]  # of equal ones, the first is last
            total += len(values)
            yield values

    distinct = number_of_distinct(training_units())
    return UnitComparison(evaluated, known, first_in_train, total, distinct)


def _units(hashes: SpilledHashes, unit: str) -> Iterator[Hashes]:
    """Yield the hashes of a unit, chunk by chunk."""
    for chunk in hashes.chunks():
        replies = np.intersect1d(np.flatnonzero(chunk.responses), chunk.replies)
        if unit == "pairs":
            yield hash_pairs(chunk.turns[replies - 1], chunk.turns[replies])
        elif unit == "responses":
            yield chunk.turns[replies]
        elif unit == "contexts":
            yield chunk.contexts()[replies]
        else:
            yield chunk.contexts()[chunk.offsets[1:][np.diff(chunk.offsets) > 0] - 1]


def _counts(units: dict[str, UnitComparison]) -> dict[str, Any]:
    def overlaps(split: str, *others: str) -> dict[str, int]:
        return {unit: compared.overlap(split, *others) for unit, compared in units.items()}

    def totals(split: str) -> dict[str, int]:
        return {
            unit: compared.total if split == "train" else len(compared.evaluated[split])
            for unit, compared in units.items()
        }

    return {
        "in_train": {split: overlaps(split, "train") for split in EVALUATED},
        "in_validation": {"test": overlaps("test", "validation")},
        "in_train_or_validation": {"test": overlaps("test", "train", "validation")},
        "repeated": {
            split: {unit: compared.repeated(split) for unit, compared in units.items()}
            for split in SPLITS
        },
        "totals": {split: totals(split) for split in SPLITS},
    }


def _advice(in_train: int, within_train: int, in_validation: int) -> Iterator[str]:
    if in_train:
        yield (
            "data.filters=[{name: drop_leaking_dialogues}] drops them from train, except for very"
            " short ones."
        )
    if within_train:
        yield "data.filters=[{name: drop_duplicates}] trains on each dialogue once."
    if in_validation:
        yield (
            "Remove test dialogues from validation: otherwise checkpoints are selected on test"
            " data."
        )


def _table(caption: str, data: dict[str, Any], columns: dict[str, tuple[str, str]]) -> Table:
    totals = data["verbatim"]["totals"]
    rows: list[tuple[str, ...]] = []
    for unit, label in UNITS.items():
        cells = []
        for key, split in columns.values():
            verbatim, letters = (data[name][key][split][unit] for name in COMPARED)
            cells.append(f"{count(verbatim)} / {part_of(letters, totals[split][unit])}")
        rows.append((label, *cells))
    return Table(caption, ("", *columns), tuple(rows))


# ------------------------------------------------------------------ leaks

UNSPACED_MINIMUM_WORDS = 2 * MINIMUM_WORDS
"""Recommended `minimum_words` for scripts in which each character counts as a word."""


class LeakSection:
    """Finds validation and test dialogues that share a long pair of turns with train, and the
    training dialogues.
    """

    def __init__(self) -> None:
        self.detectors = {split: LeakDetector() for split in EVALUATED}
        self.counts: Counter[str] = Counter()

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add the long pairs of a dialogue."""
        if split in EVALUATED:
            self.detectors[split].add_evaluated(dialogue)
            self.counts["evaluated"] += 1
            self.counts["unspaced"] += is_unspaced_script(
                " ".join(turn.text for turn in dialogue.turns)
            )
            return
        pairs = hash_long_pairs(dialogue)
        splits = [name for name in EVALUATED if self.detectors[name].add_training(pairs)]
        self.counts.update(["dialogues"], turns=len(dialogue.turns))
        self.counts.update(
            splits, leaking=bool(splits), leaking_turns=len(dialogue.turns) if splits else 0
        )

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return clean and leaked dialogues, and the number of dialogues that the filter drops."""
        counts = self.counts
        ids = {split: detector.report() for split, detector in self.detectors.items()}
        leaked = {
            split: part_of(len(ids[split].leaked), len(self.detectors[split].ids))
            for split in EVALUATED
        }
        worst = worst_split(
            {
                split: (len(ids[split].leaked), len(self.detectors[split].ids))
                for split in WORST_FIRST
            }
        )
        leaking = counts["leaking"]
        return Finding(
            "Leaks between splits",
            severity(bad=leaking),
            f"{leaked[worst]} of {worst} dialogues share two turns in a row with train",
            f"{leaked['test']} of the test dialogues and {leaked['validation']} of the validation"
            " dialogues have two turns in a row that a training dialogue also has: the same words,"
            f" at least {MINIMUM_WORDS} in the second turn."
            + (
                " A model can answer these from memory, so its scores on them are too good."
                if leaking
                else ""
            ),
            self._advice() if leaking else "",
            (_bar_chart(ids), self._table()) if leaking else (),
            {
                "minimum_words": MINIMUM_WORDS,
                "train": {
                    "dialogues": counts["dialogues"],
                    "turns": counts["turns"],
                    "leaking": leaking,
                    "leaking_into_test": counts["test"],
                    "leaking_into_validation": counts["validation"],
                    "dialogues_kept": counts["dialogues"] - leaking,
                    "turns_kept": counts["turns"] - counts["leaking_turns"],
                },
                **{
                    split: {"clean": ids[split].clean, "leaked": ids[split].leaked}
                    for split in EVALUATED
                },
            },
        )

    def _advice(self) -> str:
        leaking = self.counts["leaking"]
        dialogues = self.counts["dialogues"]
        advice = (
            f"data.filters=[{{name: drop_leaking_dialogues}}] drops {count(leaking)} of"
            f" {count(dialogues)} training"
            f" dialogues{'; split the corpus again instead' if leaking == dialogues else ''}."
            " Report scores on clean test dialogues separately (--json lists their ids)."
        )
        if 2 * self.counts["unspaced"] > self.counts["evaluated"]:
            advice += (
                " In this script each character counts as a word, so common phrases reach"
                f" {MINIMUM_WORDS} words; data.filters=[{{name: drop_leaking_dialogues,"
                f" minimum_words: {UNSPACED_MINIMUM_WORDS}}}] keeps them."
            )
        return advice

    def _table(self) -> Table:
        counts = self.counts
        total = counts["dialogues"]
        rows = (
            ("leak into test", counts["test"]),
            ("leak into validation", counts["validation"]),
            ("leak into either", counts["leaking"]),
            ("leak into neither", total - counts["leaking"]),
        )
        return Table(
            "Training dialogues",
            ("", "dialogues", "percent"),
            tuple((label, count(number), percent(number / total)) for label, number in rows),
        )


def _bar_chart(ids: dict[str, LeakReport]) -> BarChart:
    bars = []
    for split, dialogues in ids.items():
        total = len(dialogues.leaked) + len(dialogues.clean)
        for label, size in (("leaked", len(dialogues.leaked)), ("clean", len(dialogues.clean))):
            bars.append((f"{split}, {label}", size, part_of(size, total)))
    return BarChart(
        "Dialogues that share a pair of turns with train (leaked) or do not (clean)", tuple(bars)
    )
