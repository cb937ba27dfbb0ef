"""The leak between the splits, as `dialog.data.text_matching.leaks` has it."""

from __future__ import annotations

from collections import Counter

from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.fingerprints import is_unspaced_script
from dialog.data.text_matching.leaks import MINIMUM_WORDS, LeakDetector, hash_long_pairs
from dialog.inspection.findings import Bars, Finding, Quote, Table, share
from dialog.report.measures import count, percent

EVALUATED = ("validation", "test")
UNSPACED_WORDS = 2 * MINIMUM_WORDS
"""What to ask of a response where each character is a word."""


class Leak:
    """Which dialogues of validation and test share a long pair with train, and how many training ones do with them."""

    def __init__(self) -> None:
        self.detectors = {split: LeakDetector() for split in EVALUATED}
        self.counts: Counter[str] = Counter()

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Take in the long pairs of a dialogue."""
        if split in EVALUATED:
            self.detectors[split].add_evaluated(dialogue)
            self.counts["asked"] += 1
            self.counts["unspaced"] += is_unspaced_script(" ".join(turn.text for turn in dialogue.turns))
            return
        pairs = hash_long_pairs(dialogue)
        met = [name for name in EVALUATED if self.detectors[name].add_training(pairs)]
        self.counts.update(["dialogues"], turns=len(dialogue.turns))
        self.counts.update(met, leaking=bool(met), leaking_turns=len(dialogue.turns) if met else 0)

    def finding(self, quote: Quote) -> Finding:
        """Touched and clean dialogues, and what the filter would drop."""
        counts = self.counts
        reports = {split: detector.report() for split, detector in self.detectors.items()}
        touched = {split: len(reports[split].leaked) for split in EVALUATED}
        sizes = {split: len(self.detectors[split].ids) for split in EVALUATED}
        drop = counts["leaking"]
        return Finding(
            "Leak between splits",
            "bad" if drop else "good",
            f"{share(touched['test'], sizes['test'])} test dialogues share a pair of turns with train",
            f"{share(touched['test'], sizes['test'])} of the test dialogues share a pair of turns with train, and "
            f"{share(touched['validation'], sizes['validation'])} of validation: a pair of the same words, the second "
            f"turn of {MINIMUM_WORDS} or more. A model that learnt those by heart looks good on them.",
            f"Train without them: data.filters=[{{name: drop_leaking_dialogues}}] drops {count(drop)} of "
            f"{count(counts['dialogues'])} training dialogues; and read scores on clean test dialogues apart (--json "
            f"has their ids).{self._unspaced()}"
            if drop
            else "",
            (self._bars(touched, sizes), self._table()) if drop else (),
            {
                "minimum_words": MINIMUM_WORDS,
                "train": {
                    "dialogues": counts["dialogues"],
                    "turns": counts["turns"],
                    "leaking": drop,
                    "leaking_into_test": counts["test"],
                    "leaking_into_validation": counts["validation"],
                    "dialogues_kept": counts["dialogues"] - drop,
                    "turns_kept": counts["turns"] - counts["leaking_turns"],
                },
                **{split: {"clean": report.clean, "leaked": report.leaked} for split, report in reports.items()},
            },
        )

    def _unspaced(self) -> str:
        """What to do besides where most dialogues are of a script without spaces."""
        if 2 * self.counts["unspaced"] <= self.counts["asked"]:
            return ""
        return (
            f" Each character is a word in this script, and formulas have {MINIMUM_WORDS}: to keep them give more, "
            f"as in data.filters=[{{name: drop_leaking_dialogues, minimum_words: {UNSPACED_WORDS}}}]"
        )

    def _bars(self, touched: dict[str, int], sizes: dict[str, int]) -> Bars:
        bars = []
        for split in EVALUATED:
            for label, part in (("leaked", touched[split]), ("clean", sizes[split] - touched[split])):
                bars.append((f"{split}, {label}", part, share(part, sizes[split])))
        return Bars("Dialogues by whether training dialogues give their answers away", tuple(bars))

    def _table(self) -> Table:
        counts = self.counts
        whole = counts["dialogues"]
        rows = (
            ("leak into test", count(counts["test"]), percent(counts["test"] / whole)),
            ("leak into validation", count(counts["validation"]), percent(counts["validation"] / whole)),
            ("leak", count(counts["leaking"]), percent(counts["leaking"] / whole)),
            ("stay", count(whole - counts["leaking"]), percent(1 - counts["leaking"] / whole)),
        )
        return Table("Training dialogues", ("", "dialogues", "share"), rows)
