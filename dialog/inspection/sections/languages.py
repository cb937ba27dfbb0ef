"""Languages of a sample of the dialogues."""

from __future__ import annotations

import random
from collections import Counter

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.inspection.findings import BarChart, Finding, Quotation, ReadDialogues, part_of
from dialog.report.formats.numbers import count

SAMPLE = 1000
"""Dialogues per split, drawn uniformly by reservoir sampling (Vitter 1985, algorithm R)."""
CHARACTERS = 600
MINORITY = 0.02
EXAMPLES = 5


class LanguageSection:
    """Classifies dialogues with py3langid (Lui and Baldwin 2012, langid.py), if it is installed.

    The classifier often confuses languages of one script and misjudges short dialogues, so
    languages below `MINORITY` of the sample do not raise the severity.
    """

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.sizes: Counter[str] = Counter()
        self.sample: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Draw a dialogue into the sample, or skip it."""
        self.sizes[split] += 1
        sample = self.sample[split]
        index = len(sample) if len(sample) < SAMPLE else self.random.randrange(self.sizes[split])
        if index < SAMPLE:
            text = " ".join(turn.text for turn in dialogue.turns)[:CHARACTERS]
            sample[index : index + 1] = [(dialogue.id, text)]

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the languages of the sample, with dialogues of the rare ones."""
        try:
            from py3langid import classify
        except ImportError:
            return Finding(
                "Languages",
                "good",
                "not checked",
                "Only scripts were checked (see Characters): py3langid is not installed.",
                "Install it: pip install 'dialog-seq2seq[inspect]'.",
                data={"sample": 0},
            )
        languages = {
            split: [str(classify(text)[0]) for _, text in self.sample[split]] for split in SPLITS
        }
        counts = Counter(language for split in SPLITS for language in languages[split])
        total = counts.total()
        main = [language for language, number in counts.items() if number >= MINORITY * total]
        rare = self._dialogues_outside(main, languages)
        names = " and ".join(sorted(main))
        return Finding(
            "Languages",
            "look" if len(main) > 1 else "good",
            names,
            (
                f"{part_of(total - len(rare), total)} of {count(total)} dialogues sampled from all"
                f" splits are in {names}."
                if total
                else "No dialogues to sample."
            ),
            "",
            (
                BarChart(
                    "Sampled dialogues by language (ISO 639-1)",
                    tuple(
                        (language, number, part_of(number, total))
                        for language, number in counts.most_common(8)
                    ),
                ),
                *(
                    [Quotation("Classified as another language", tuple(rare[:EXAMPLES]))]
                    if rare
                    else []
                ),
            ),
            {
                "sample": total,
                **{split: dict(Counter(languages[split]).most_common()) for split in SPLITS},
            },
        )

    def _dialogues_outside(
        self, main: list[str], languages: dict[str, list[str]]
    ) -> list[tuple[str, str]]:
        """Return (id with language, text) of the dialogues in none of the main languages."""
        return [
            (f"{id} ({language})", text)
            for split in SPLITS
            for (id, text), language in zip(self.sample[split], languages[split], strict=True)
            if language not in main
        ]
