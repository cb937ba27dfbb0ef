"""Lengths of dialogues and turns."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.text_matching.fingerprints import Integers
from dialog.inspection.findings import BarChart, Finding, ReadDialogues, Table, part_of
from dialog.inspection.percentiles import LABELS, percentiles
from dialog.report.formats.numbers import count, counted

UNITS = {
    "turns_a_dialogue": "turns per dialogue",
    "words_a_turn": "words per turn",
    "characters_a_turn": "characters per turn",
}
"""Names in JSON and in tables."""
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LONG = 512
"""Words from which a turn is suspicious: a pasted page, or a dialogue that was not split into
turns.
"""


class LengthSection:
    """Counts turns, words between white space, and characters."""

    def __init__(self) -> None:
        self.sizes = {split: {unit: array("I") for unit in UNITS} for split in SPLITS}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Measure a dialogue."""
        turns, words, characters = self.sizes[split].values()
        turns.append(len(dialogue.turns))
        words.extend(len(turn.text.split()) for turn in dialogue.turns)
        characters.extend(len(turn.text) for turn in dialogue.turns)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return percentiles of each split, and a histogram of the training turns."""
        sizes = {
            split: {unit: np.array(values, dtype=np.int64) for unit, values in units.items()}
            for split, units in self.sizes.items()
        }
        words = sizes["train"]["words_a_turn"]
        longest = counted(int(words.max(initial=0)), "word")
        long = int((words >= LONG).sum())
        short = {
            split: int((units["turns_a_dialogue"] < 2).sum()) for split, units in sizes.items()
        }
        summary = (
            f"A training dialogue has {_mean(sizes['train']['turns_a_dialogue']):.2f} turns on"
            f" average, a turn {_mean(words):.2f} words; the longest turn has {longest}."
        )
        if long:
            summary += f" {part_of(long, len(words))} of the turns have {LONG} words or more."
        headline = f"{_mean(words):.1f} words per turn; the longest turn has {longest}"
        if any(short.values()):
            headline += f"; {counted(sum(short.values()), 'dialogue')} with fewer than two turns"
            summary += f" Dialogues with fewer than two turns: {count(sum(short.values()))}."
        return Finding(
            "Lengths",
            "look" if long or any(short.values()) else "good",
            headline,
            summary,
            " ".join(_advice(long, sum(short.values()))),
            (BarChart("Training turns by number of words", _histogram(words)), _table(sizes)),
            {
                split: {
                    "dialogues_under_two_turns": short[split],
                    **{
                        unit: {
                            "mean": _mean(values),
                            **dict(zip(LABELS, percentiles(values), strict=True)),
                        }
                        for unit, values in sizes[split].items()
                    },
                }
                for split in SPLITS
            },
        )


def _advice(long: int, short: int) -> Iterator[str]:
    if long:
        yield (
            f"Check the longest turns; data.filters=[{{name: length, max_words: {LONG - 1}}}] drops"
            " them."
        )
    if short:
        yield "Dialogues of one turn give no example unless data.first_turns=true."


def _mean(values: Integers) -> float:
    return float(values.mean()) if len(values) else 0.0


def _histogram(words: Integers) -> tuple[tuple[str, float, str], ...]:
    bins = Counter(np.searchsorted(STEPS, words, side="right").tolist())
    bars = []
    for step in range(1, max(bins, default=0) + 1):
        low = STEPS[step - 1]
        label = (
            f"{low}"
            if step == 1
            else f"{low}+"
            if step == len(STEPS)
            else f"{low} to {STEPS[step] - 1}"
        )
        bars.append((label, bins[step], part_of(bins[step], len(words))))
    return tuple(bars)


def _table(sizes: dict[str, dict[str, Integers]]) -> Table:
    rows = []
    for unit, label in UNITS.items():
        for split in SPLITS:
            values = sizes[split][unit]
            rows.append(
                (f"{label}, {split}", f"{_mean(values):.2f}", *map(count, percentiles(values)))
            )
    return Table("Percentiles", ("", "mean", *LABELS), tuple(rows))
