"""Exact duplicates of dialogues, examples, pairs and responses, and leaks, by the rule of
`dialog.data.text_matching.leaks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    DialogueHashes,
    Hashes,
    Integers,
    contained_in,
    hash_pairs,
    is_unspaced_script,
    repeats_earlier,
)
from dialog.data.text_matching.leaks import MINIMUM_WORDS, LeakDetector, LeakReport, hash_long_pairs
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

UnitHashes = dict[str, dict[str, Hashes]]
"""Hashes by split and unit."""


class ResponseIndices:
    """Collects which turns are responses, in one byte per turn.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self._flags = bytearray()

    def add(self, dialogue: Dialogue) -> None:
        """Append a dialogue."""
        flags = bytearray(len(dialogue.turns))
        for _, response in example_windows(dialogue, self.rules):
            flags[response] = True
        self._flags += flags

    def array(self) -> Integers:
        """Return the indices, with first turns if the rules make them responses [responses]."""
        return np.flatnonzero(np.frombuffer(bytes(self._flags), dtype=np.bool_))


class DuplicateSection:
    """Counts texts that occur twice.

    The responses are those of the rules, except first turns: these have no previous turn.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.responses = {split: ResponseIndices(rules) for split in SPLITS}
        self.hashes = {
            name: {split: DialogueHashes(NORMALISATIONS[name]) for split in SPLITS}
            for name in COMPARED
        }

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add the hashes of a dialogue."""
        self.responses[split].add(dialogue)
        for name in COMPARED:
            self.hashes[name][split].add(dialogue)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return duplicates within each split, of validation and test in train, and of test in
        validation.
        """
        responses = {split: indices.array() for split, indices in self.responses.items()}
        hashes = {
            name: {
                split: _unit_hashes(self.hashes[name][split], responses[split]) for split in SPLITS
            }
            for name in COMPARED
        }
        data = {name: _counts(hashes[name]) for name in COMPARED}
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
                    hashes["verbatim"],
                    "train" if in_train["test"] else "validation",
                    read_dialogues,
                ),
            ),
            {
                "normalisations": data,
                "distinct_dialogues": {
                    name: _distinct_dialogues(hashes[name]) for name in COMPARED
                },
            },
        )


def _examples(hashes: UnitHashes, other: str, read_dialogues: ReadDialogues) -> list[Quotation]:
    """Quote test dialogues that are also in `other`, those that occur earliest there first."""
    test = hashes["test"]["dialogues"]
    others = hashes[other]["dialogues"]
    duplicates = np.flatnonzero(contained_in(test, np.unique(others)))
    order = np.argsort(others, kind="stable")
    originals = order[np.searchsorted(others[order], test[duplicates])]
    earliest = np.argsort(originals, kind="stable")[:EXAMPLES]
    pairs = list(zip(duplicates[earliest].tolist(), originals[earliest].tolist(), strict=True))
    test_dialogues = read_dialogues("test", [duplicate for duplicate, _ in pairs])
    other_dialogues = read_dialogues(other, [original for _, original in pairs])
    return [
        Quotation(
            f"{location(test_dialogues[duplicate])} equals {location(other_dialogues[original])}",
            tuple((turn.speaker, turn.text) for turn in test_dialogues[duplicate].turns),
        )
        for duplicate, original in pairs
    ]


def _unit_hashes(hashes: DialogueHashes, responses: Integers) -> dict[str, Hashes]:
    turns = hashes.turns
    contexts = hashes.contexts()
    offsets = hashes.offsets
    replies = np.intersect1d(responses, hashes.reply_positions)
    ends = offsets[1:][np.diff(offsets) > 0] - 1
    return {
        "dialogues": contexts[ends],
        "contexts": contexts[replies],
        "pairs": hash_pairs(turns[replies - 1], turns[replies]),
        "responses": turns[replies],
    }


def _counts(hashes: UnitHashes) -> dict[str, Any]:
    def overlaps(split: str, *others: str) -> dict[str, int]:
        return {unit: _overlap(hashes, unit, split, *others) for unit in UNITS}

    return {
        "in_train": {split: overlaps(split, "train") for split in EVALUATED},
        "in_validation": {"test": overlaps("test", "validation")},
        "in_train_or_validation": {"test": overlaps("test", "train", "validation")},
        "repeated": {
            split: {unit: int(repeats_earlier(hashes[split][unit]).sum()) for unit in UNITS}
            for split in SPLITS
        },
        "totals": {split: {unit: len(hashes[split][unit]) for unit in UNITS} for split in SPLITS},
    }


def _overlap(hashes: UnitHashes, unit: str, split: str, *others: str) -> int:
    """Return the number of units of a split that occur in any of the others."""
    other_hashes = np.unique(np.concatenate([hashes[other][unit] for other in others]))
    return int(contained_in(hashes[split][unit], other_hashes).sum())


def _distinct_dialogues(hashes: UnitHashes) -> int:
    return len(np.unique(np.concatenate([hashes[split]["dialogues"] for split in SPLITS])))


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
