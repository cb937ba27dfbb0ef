"""Lengths of dialogues and turns; speakers: monologues, consecutive turns, repeated turns."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.text_matching.fingerprints import collapse_whitespace
from dialog.inspection.findings import (
    PERCENTILE_LABELS,
    BarChart,
    Finding,
    Quotation,
    ReadDialogues,
    SizeDistribution,
    Table,
    by_split,
    filled,
    location,
    part_of,
    severity,
)
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
        self.sizes = {split: {unit: SizeDistribution() for unit in UNITS} for split in SPLITS}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Measure a dialogue."""
        turns, words, characters = self.sizes[split].values()
        turns.add([len(dialogue.turns)])
        words.add(len(turn.text.split()) for turn in dialogue.turns)
        characters.add(len(turn.text) for turn in dialogue.turns)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return percentiles of each split, and a histogram of the training turns."""
        sizes = self.sizes
        words = sizes["train"]["words_a_turn"]
        longest = counted(words.longest, "word")
        long = words.above(LONG - 1)
        short = {
            split: len(units["turns_a_dialogue"]) - units["turns_a_dialogue"].above(1)
            for split, units in sizes.items()
        }
        all_short = sum(short.values())
        summary = (
            f"A training dialogue has {sizes['train']['turns_a_dialogue'].mean:.2f} turns on"
            f" average, a turn {words.mean:.2f} words; the longest turn has {longest}."
        )
        if long:
            summary += f" {part_of(long, len(words))} of the turns have {LONG} words or more."
        headline = f"{words.mean:.1f} words per turn; the longest turn has {longest}"
        if all_short:
            headline += f"; {counted(all_short, 'dialogue')} with fewer than two turns"
            summary += f" Dialogues with fewer than two turns: {count(all_short)}."
        return Finding(
            "Lengths",
            severity(bad=False, look=long or all_short),
            headline,
            summary,
            " ".join(_advice(long, all_short)),
            (BarChart("Training turns by number of words", _histogram(words)), _table(sizes)),
            {
                split: {
                    "dialogues_under_two_turns": short[split],
                    **{
                        unit: {
                            "mean": values.mean,
                            **dict(zip(PERCENTILE_LABELS, values.percentiles(), strict=True)),
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


def _histogram(words: SizeDistribution) -> tuple[tuple[str, float, str], ...]:
    bins: Counter[int] = Counter()
    for size, number in words.counts.items():
        bins[bisect_right(STEPS, size)] += number
    bars = []
    for step in range(1, max(bins, default=0) + 1):
        low = STEPS[step - 1]
        if step == 1:
            label = f"{low}"
        elif step == len(STEPS):
            label = f"{low}+"
        else:
            label = f"{low} to {STEPS[step] - 1}"
        bars.append((label, bins[step], part_of(bins[step], len(words))))
    return tuple(bars)


def _table(sizes: dict[str, dict[str, SizeDistribution]]) -> Table:
    rows = []
    for unit, label in UNITS.items():
        for split in SPLITS:
            values = sizes[split][unit]
            rows.append(
                (f"{label}, {split}", f"{values.mean:.2f}", *map(count, values.percentiles()))
            )
    return Table("Percentiles", ("", "mean", *PERCENTILE_LABELS), tuple(rows))


# ------------------------------------------------------------------ speakers

IRREGULARITIES = {
    "one_sided": "dialogues of several turns by one speaker",
    "same_speaker": "turns by the speaker of the previous turn",
    "echoes": "turns equal to the previous turn",
    "many_voices": "dialogues with more than two speakers",
}
ADVICE = {
    "one_sided": "Check how the corpus names its speakers: a monologue teaches no responses.",
    "same_speaker": "data.merge_turns=true joins consecutive turns of one speaker.",
    "echoes": (
        "Remove the turns that repeat the previous turn from the corpus, if it lists them twice."
    ),
}
EXAMPLES = 5


class SpeakerSection:
    """Counts one-sided dialogues, consecutive turns of one speaker, and echoes."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.examples: dict[str, list[tuple[str, str]]] = {name: [] for name in IRREGULARITIES}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Count the irregularities of a dialogue."""
        speakers = {turn.speaker for turn in dialogue.turns}
        pairs = list(pairwise(dialogue.turns))
        echoes = [
            turn
            for turn, following in pairs
            if collapse_whitespace(turn.text) == collapse_whitespace(following.text)
        ]
        counts = {
            "one_sided": int(len(speakers) == 1 and len(dialogue.turns) > 1),
            "same_speaker": sum(turn.speaker == following.speaker for turn, following in pairs),
            "echoes": len(echoes),
            "many_voices": int(len(speakers) > 2),
        }
        self.counts[split].update(counts, dialogues=1, turns=len(dialogue.turns))
        for name, number in counts.items():
            if number and len(self.examples[name]) < EXAMPLES:
                turns = echoes[:1] * 2 if name == "echoes" else dialogue.turns
                self.examples[name].append(
                    (location(dialogue), " / ".join(turn.text for turn in turns))
                )

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return counts by split, with a few dialogues of each irregularity."""
        total = {name: sum(self.counts[split][name] for split in SPLITS) for name in IRREGULARITIES}
        one_sided = f"{counted(total['one_sided'], 'dialogue')} with one speaker"
        echoes = counted(total["echoes"], "repeated turn")
        same_speaker = f"{counted(total['same_speaker'], 'turn')} after the same speaker"
        figures = f"{one_sided}; {same_speaker}; {echoes}"
        return Finding(
            "Speakers",
            severity(bad=total["one_sided"], look=total["same_speaker"] or total["echoes"]),
            figures,
            f"{figures} (equal to the turn before it).",
            " ".join(advice for name, advice in ADVICE.items() if total[name]),
            filled(
                by_split(
                    "By split", IRREGULARITIES, lambda name, split: count(self.counts[split][name])
                ),
                *(
                    Quotation(f"First {IRREGULARITIES[name]}", tuple(self.examples[name]))
                    for name in ("one_sided", "echoes")
                ),
            ),
            {
                split: {name: self.counts[split][name] for name in IRREGULARITIES}
                for split in SPLITS
            },
        )
