"""Which languages the dialogues are in, of a sample."""

from __future__ import annotations

import random
from collections import Counter

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.inspection.findings import Bars, Finding, Quote, Quoted, share
from dialog.report.measures import count

SAMPLE = 1000
"""Dialogues of a split that are looked at, drawn evenly (Vitter 1985, algorithm R)."""
CHARACTERS = 600
MINORITY = 0.02
SHOWN = 5


class Languages:
    """Classifies dialogues with py3langid (Lui and Baldwin 2012, langid.py), where it is installed.

    Languages that share a script and short dialogues are often taken for each other, so a few of another language are
    no finding.
    """

    def __init__(self) -> None:
        self.draw = random.Random(0)
        self.seen: Counter[str] = Counter()
        self.sample: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Draw a dialogue, or not."""
        self.seen[split] += 1
        kept = self.sample[split]
        at = len(kept) if len(kept) < SAMPLE else self.draw.randrange(self.seen[split])
        if at < SAMPLE:
            text = " ".join(turn.text for turn in dialogue.turns)[:CHARACTERS]
            kept[at : at + 1] = [(dialogue.id, text)]

    def finding(self, quote: Quote) -> Finding:
        """Languages of the sample, with dialogues of the rare ones."""
        try:
            from py3langid import classify
        except ImportError:
            return Finding(
                "Languages",
                "good",
                "not looked at",
                "Scripts only, above: the package that tells languages apart is not installed.",
                "For languages: pip install 'dialog-seq2seq[inspect]'",
                data={"sample": 0},
            )
        found = {split: [str(classify(text)[0]) for _, text in self.sample[split]] for split in SPLITS}
        every = Counter(language for languages in found.values() for language in languages)
        rare = [
            (id, text, language)
            for id, text, language in self._each(found)
            if every[language] < MINORITY * every.total()
        ]
        main = [language for language, times in every.items() if times >= MINORITY * every.total()]
        return Finding(
            "Languages",
            "look" if len(main) > 1 else "good",
            " and ".join(sorted(main)),
            f"Of {count(every.total())} dialogues drawn from all splits, "
            f"{share(every.total() - len(rare), every.total())} are in {' and '.join(sorted(main))}.",
            "",
            (
                Bars(
                    "Dialogues of the sample by language (ISO 639-1)",
                    tuple((language, times, share(times, every.total())) for language, times in every.most_common(8)),
                ),
                *(
                    [
                        Quoted(
                            "Taken for another language",
                            tuple((f"{id} ({name})", text) for id, text, name in rare[:SHOWN]),
                        )
                    ]
                    if rare
                    else []
                ),
            ),
            {"sample": every.total(), **{split: dict(Counter(found[split]).most_common()) for split in SPLITS}},
        )

    def _each(self, found: dict[str, list[str]]) -> list[tuple[str, str, str]]:
        return [
            (id, text, language)
            for split in SPLITS
            for (id, text), language in zip(self.sample[split], found[split], strict=True)
        ]
