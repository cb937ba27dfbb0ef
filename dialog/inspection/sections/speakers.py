"""Speakers: dialogues with a single speaker, and turns that repeat the previous turn."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.text_matching.fingerprints import collapse_whitespace
from dialog.inspection.findings import Finding, Quotation, ReadDialogues, Table, location
from dialog.report.formats.numbers import count, counted

LABELS = {
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
        self.examples: dict[str, list[tuple[str, str]]] = {name: [] for name in LABELS}

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
        total = {name: sum(self.counts[split][name] for split in SPLITS) for name in LABELS}
        rows = tuple(
            (label, *(count(self.counts[split][name]) for split in SPLITS))
            for name, label in LABELS.items()
        )
        one_sided = counted(total["one_sided"], "one-sided dialogue")
        echoes = counted(total["echoes"], "repeated turn")
        same_speaker = f"{counted(total['same_speaker'], 'turn')} by the previous speaker"
        figures = f"{one_sided}; {same_speaker}; {echoes}"
        return Finding(
            "Speakers",
            (
                "bad"
                if total["one_sided"]
                else "look"
                if total["same_speaker"] or total["echoes"]
                else "good"
            ),
            figures,
            f"{figures}. All turns of a one-sided dialogue are by one speaker.",
            " ".join(advice for name, advice in ADVICE.items() if total[name]),
            (
                Table("By split", ("", *SPLITS), rows),
                *(
                    Quotation(f"First {LABELS[name]}", tuple(self.examples[name]))
                    for name in ("one_sided", "echoes")
                    if self.examples[name]
                ),
            ),
            {split: {name: self.counts[split][name] for name in LABELS} for split in SPLITS},
        )
