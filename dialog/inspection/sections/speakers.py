"""Who speaks: dialogues of one voice, and turns that say what was just said."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.text_matching.fingerprints import collapse_whitespace
from dialog.inspection.findings import Finding, Quote, Quoted, Table, place
from dialog.report.measures import count

KINDS = {
    "one_sided": "dialogues of two turns or more with one speaker",
    "same_speaker": "turns by the speaker of the turn before",
    "echoes": "turns that equal the turn before",
    "many_voices": "dialogues with more than two speakers",
}
SHOWN = 5


class Speakers:
    """Counts one-sided dialogues, runs of one speaker and echoes."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.examples: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Count what is odd in a dialogue."""
        voices = {turn.speaker for turn in dialogue.turns}
        pairs = list(pairwise(dialogue.turns))
        echoes = [one for one, other in pairs if collapse_whitespace(one.text) == collapse_whitespace(other.text)]
        found = {
            "one_sided": int(len(voices) == 1 and len(dialogue.turns) > 1),
            "same_speaker": sum(one.speaker == other.speaker for one, other in pairs),
            "echoes": len(echoes),
            "many_voices": int(len(voices) > 2),
        }
        self.counts[split].update(found, dialogues=1, turns=len(dialogue.turns))
        for kind, times in found.items():
            if times and len(self.examples[kind]) < SHOWN:
                shown = echoes[:1] * 2 if kind == "echoes" else dialogue.turns
                self.examples[kind].append((place(dialogue), " / ".join(turn.text for turn in shown)))

    def finding(self, quote: Quote) -> Finding:
        """Counts by split, with a few dialogues of each kind that is there."""
        total = {kind: sum(self.counts[split][kind] for split in SPLITS) for kind in KINDS}
        rows = tuple((label, *(count(self.counts[split][kind]) for split in SPLITS)) for kind, label in KINDS.items())
        one_sided = total["one_sided"] > 0
        return Finding(
            "Speakers",
            "bad" if one_sided else "look" if total["same_speaker"] or total["echoes"] else "good",
            f"{count(total['one_sided'])} one-sided dialogues, {count(total['echoes'])} turns repeat the one before",
            f"{count(total['one_sided'])} dialogues have one speaker only, {count(total['same_speaker'])} turns follow "
            f"one of their own speaker, {count(total['echoes'])} repeat the turn before them.",
            "Look at how the corpus names its speakers: what one speaker says to himself teaches no response."
            if one_sided
            else "",
            (
                Table("By split", ("", *SPLITS), rows),
                *(
                    Quoted(f"First {KINDS[kind]}", tuple(self.examples[kind]))
                    for kind in ("one_sided", "echoes")
                    if self.examples[kind]
                ),
            ),
            {split: {kind: self.counts[split][kind] for kind in KINDS} for split in SPLITS},
        )
