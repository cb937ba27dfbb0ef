"""Leaks between the splits, by the rule of `dialog.data.text_matching.leaks`."""

from __future__ import annotations

from collections import Counter

from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.fingerprints import is_unspaced_script
from dialog.data.text_matching.leaks import MINIMUM_WORDS, LeakDetector, LeakReport, hash_long_pairs
from dialog.inspection.findings import (
    EVALUATED,
    WORST_FIRST,
    BarChart,
    Finding,
    ReadDialogues,
    Table,
    part_of,
    worst_split,
)
from dialog.report.formats.numbers import count, percent

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
            "bad" if leaking else "good",
            f"{leaked[worst]} of {worst} dialogues share a pair of turns with train",
            f"{leaked['test']} of the test dialogues and {leaked['validation']} of the validation"
            " dialogues share a pair of consecutive turns with train: the same words, at least"
            f" {MINIMUM_WORDS} in the second turn."
            + (" A model that memorises these pairs scores too well." if leaking else ""),
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
