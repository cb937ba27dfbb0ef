"""Malformed records, and dialogues with missing turns, warnings or duplicate ids."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed
from dialog.data.text_matching.fingerprints import hash_texts, repeats_earlier
from dialog.inspection.findings import Finding, Quotation, by_split, filled, part_of, severity
from dialog.report.formats.numbers import count

LABELS = {
    "malformed": "malformed records",
    "dialogues": "dialogues",
    "empty_dialogues": "dialogues without text",
    "unused_dialogues": "dialogues with text but without examples",
    "empty_turns": "turns without text",
    "warnings": "dialogues read with a warning",
    "repeated_ids": "duplicate ids within a split",
}
BAD = {
    "malformed": "Fix or remove the malformed records; each message states how.",
    "repeated_ids": "Give each dialogue of a split a unique id.",
}
"""Advice for problems that harm a model or its evaluation."""
LOOK = {
    "unused_dialogues": (
        "Check whether the dialogues without examples should have some: data.responder and "
        "data.first_turns select the responses."
    ),
    "empty_turns": "Turns without text are dropped; check whether their text is missing.",
    "warnings": "Check whether the dialogues with a warning were read correctly.",
}
"""Advice for problems that are worth a look."""
EXAMPLES = 10


class RecordSection:
    """Counts the records of a corpus before any is dropped."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.ids = {split: array("Q") for split in SPLITS}
        self.malformed: list[str] = []
        self.warnings: list[str] = []

    def add(self, split: str, entry: Entry, used: Dialogue | None) -> None:
        """Add a record, and the dialogue that the rules make from it; None if it gives no
        example.
        """
        counts = self.counts[split]
        if isinstance(entry, Malformed):
            counts["malformed"] += 1
            self.malformed += [entry.message][: EXAMPLES - len(self.malformed)]
            return
        empty = sum(not turn.text.strip() for turn in entry.turns)
        counts.update(dialogues=1, empty_turns=empty)
        if used is not None:
            counts.update(used_dialogues=1, used_turns=len(used.turns))
        elif empty < len(entry.turns):
            counts["unused_dialogues"] += 1
        else:
            counts["empty_dialogues"] += 1
        self.ids[split].frombytes(hash_texts([entry.id]).tobytes())
        if WARNING in entry.meta:
            counts["warnings"] += 1
            self.warnings += [str(entry.meta[WARNING])][: EXAMPLES - len(self.warnings)]

    def finding(self) -> Finding:
        """Return counts by split, with the first messages."""
        for split in SPLITS:
            self.counts[split]["repeated_ids"] = int(
                repeats_earlier(np.array(self.ids[split], dtype=np.uint64)).sum()
            )
        total = sum(self.counts.values(), Counter[str]())
        records = total["malformed"] + total["dialogues"]
        empty_splits = " and ".join(
            split for split, size in self.sizes().items() if not size["dialogues"]
        )
        bad = _problems(total, BAD)
        if empty_splits:
            advice = f"Give {empty_splits} dialogues of at least two turns."
            bad.append((f"no examples in {empty_splits}", advice))
        problems = bad or _problems(total, LOOK)
        summary = (
            f"Malformed records: {part_of(total['malformed'], records)} of {count(records)}; turns"
            f" without text: {count(total['empty_turns'])}; dialogues read with a warning:"
            f" {count(total['warnings'])}."
        )
        if empty_splits:
            summary += f" No examples in {empty_splits}: this corpus cannot be prepared."
        return Finding(
            "Records",
            severity(bad=bad, look=problems),
            "; ".join(problem for problem, _ in problems)
            or f"malformed records: 0 of {count(records)}",
            summary,
            " ".join(advice for _, advice in problems),
            filled(
                by_split("By split", LABELS, lambda key, split: count(self.counts[split][key])),
                _quotation("First malformed records", self.malformed),
                _quotation("First warnings", self.warnings),
            ),
            {
                **{split: {key: self.counts[split][key] for key in LABELS} for split in SPLITS},
                "first_malformed": self.malformed,
                "first_warnings": self.warnings,
            },
        )

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return the number of dialogues that give examples, and of their turns, by split."""
        return {
            split: {"dialogues": counts["used_dialogues"], "turns": counts["used_turns"]}
            for split, counts in self.counts.items()
        }


def _problems(total: Counter[str], advices: dict[str, str]) -> list[tuple[str, str]]:
    """Return (problem, advice) of each kind that occurs."""
    return [
        (f"{LABELS[key]}: {count(total[key])}", advice)
        for key, advice in advices.items()
        if total[key]
    ]


def _quotation(caption: str, messages: list[str]) -> Quotation:
    return Quotation(caption, tuple(("", message) for message in messages))
