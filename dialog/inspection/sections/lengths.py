"""How long dialogues and turns are, and how long the longest are."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.inspection.findings import Bars, Finding, Quote, Table, share
from dialog.report.measures import count

UNITS = ("turns a dialogue", "words a turn", "characters a turn")
SHARES = (50, 90, 95, 99, 100)
LABELS = tuple(f"p{share}" if share < 100 else "max" for share in SHARES)
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LONG = 512
"""Words from which on a turn is suspect: a page that was pasted, or a dialogue that is not cut."""


class Lengths:
    """Counts turns, words between white space, and characters."""

    def __init__(self) -> None:
        self.sizes = {split: {unit: array("I") for unit in UNITS} for split in SPLITS}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Measure a dialogue."""
        turns, words, characters = self.sizes[split].values()
        turns.append(len(dialogue.turns))
        words.extend(len(turn.text.split()) for turn in dialogue.turns)
        characters.extend(len(turn.text) for turn in dialogue.turns)

    def finding(self, quote: Quote) -> Finding:
        """Percentiles of each split, and how the training turns spread."""
        sizes = {split: {unit: _array(found) for unit, found in units.items()} for split, units in self.sizes.items()}
        words = sizes["train"]["words a turn"]
        long = int((words >= LONG).sum())
        single = {split: int((units["turns a dialogue"] < 2).sum()) for split, units in sizes.items()}
        rows = tuple(
            (f"{unit}, {split}", f"{_mean(found):.2f}", *(count(each) for each in percentiles(found)))
            for unit in UNITS
            for split, found in ((split, sizes[split][unit]) for split in SPLITS)
        )
        return Finding(
            "Lengths",
            "look" if long or any(single.values()) else "good",
            f"{_mean(words):.1f} words a turn, the longest has {count(words.max(initial=0))}",
            f"A training dialogue has {_mean(sizes['train']['turns a dialogue']):.2f} turns, a turn {_mean(words):.2f} "
            f"words; the longest has {count(words.max(initial=0))}."
            + (f" {share(long, len(words))} turns have {LONG} words or more." if long else "")
            + (f" {count(sum(single.values()))} dialogues have fewer than two turns." if any(single.values()) else ""),
            f"See whether the longest are turns, or drop them: data.filters=[{{name: length, max_words: {LONG}}}]"
            if long
            else "",
            (
                Bars("Training turns by words", _histogram(words)),
                Table("Percentiles", ("", "mean", *LABELS), rows),
            ),
            {
                split: {
                    "dialogues_under_two_turns": single[split],
                    **{
                        unit.replace(" ", "_"): {
                            "mean": _mean(found),
                            **dict(zip(LABELS, percentiles(found), strict=True)),
                        }
                        for unit, found in sizes[split].items()
                    },
                }
                for split in SPLITS
            },
        )


def percentiles(found: NDArray[np.int64]) -> list[int]:
    """The smallest sizes that so many per cent do not exceed; 0 of nothing."""
    if not len(found):
        return [0] * len(SHARES)
    return [int(each) for each in np.percentile(found, SHARES, method="inverted_cdf")]


def _array(found: array[int]) -> NDArray[np.int64]:
    return np.array(found, dtype=np.int64)


def _mean(found: NDArray[np.int64]) -> float:
    return float(found.mean()) if len(found) else 0.0


def _histogram(words: NDArray[np.int64]) -> tuple[tuple[str, float, str], ...]:
    bins = Counter(np.searchsorted(STEPS, words, side="right").tolist())
    bars = []
    for step in range(1, max(bins, default=0) + 1):
        low = STEPS[step - 1]
        label = f"{low}" if step == 1 else f"{low}+" if step == len(STEPS) else f"{low} to {STEPS[step] - 1}"
        bars.append((label, bins[step], share(bins[step], len(words))))
    return tuple(bars)
