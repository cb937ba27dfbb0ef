"""Responses that fit anywhere, by the entropy of what they answer (Csáky et al. 2019)."""

from __future__ import annotations

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules
from dialog.data.text_matching.entropy import Entropies, entropies
from dialog.data.text_matching.fingerprints import DialogueHashes, Hashes, Integers, collapse_whitespace, contained_in
from dialog.inspection.findings import Bars, Finding, Quote, Table, share
from dialog.inspection.responses import Responses

THRESHOLD = 1.0
SHOWN = 15
SIDES = {"target": "responses by what they answer", "source": "turns by what answers them"}


class Generic:
    """The entropy of each training utterance over the turns that it answers, and over those that answer it.

    As in the filter, all turns tell how open an utterance is, and responses by the rules are what goes.

    Args:
        rules: How dialogues become examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.said, self.responses = DialogueHashes(collapse_whitespace), Responses(rules)

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Take in a training dialogue."""
        if split == "train":
            self.said.add(dialogue)
            self.responses.add(dialogue)

    def finding(self, quote: Quote) -> Finding:
        """What the filter would drop, and the most open utterances."""
        turns, answers = self.said.turns, self.said.reply_positions
        places = {"target": answers, "source": answers - 1}
        found = {
            "target": entropies(turns[answers], turns[answers - 1]),
            "source": entropies(turns[answers - 1], turns[answers]),
        }
        open_ = {side: each.utterances[each.above(THRESHOLD)] for side, each in found.items()}
        responses = self.responses.places
        said = {"target": turns[responses], "source": turns[np.intersect1d(responses, answers) - 1]}
        drops = {side: int(contained_in(said[side], open_[side]).sum()) for side in SIDES}
        top = {side: self._top(found[side], turns, places[side], quote) for side in SIDES}
        part = drops["target"] / max(len(responses), 1)
        return Finding(
            "Generic responses",
            "bad" if part > 0.2 else "look" if part > 0.02 else "good",
            f"{share(drops['target'], len(responses))} training responses fit anywhere",
            f"{share(drops['target'], len(responses))} of the training responses answer such different turns that "
            f"their entropy is above {THRESHOLD:g} bit; {share(drops['source'], len(responses))} answer a turn that "
            "open.",
            f"If the model's replies are dull: data.filters=[{{name: entropy, threshold: {THRESHOLD:g}}}]"
            if part > 0.02
            else "",
            (
                Bars("The most generic training responses, by the entropy of what they answer", _bars(top["target"])),
                Table(
                    "The most open training turns, by the entropy of what answers them",
                    ("", "bits", "times"),
                    tuple((text, f"{bits:.2f}", f"{times:,}") for text, bits, times in top["source"][: SHOWN // 2]),
                ),
            ),
            {
                "threshold": THRESHOLD,
                "pairs": len(responses),
                **{
                    side: {
                        "pairs_above": drops[side],
                        "top": [
                            {"text": text, "bits": round(bits, 4), "count": times} for text, bits, times in top[side]
                        ],
                    }
                    for side in SIDES
                },
            },
        )

    def _top(self, found: Entropies, turns: Hashes, places: Integers, quote: Quote) -> list[tuple[str, float, int]]:
        """Text, bits and times of the most open utterances."""
        best = np.argsort(-found.bits, kind="stable")[:SHOWN]
        firsts = [int(places[np.argmax(turns[places] == found.utterances[each])]) for each in best]
        offsets = self.said.offsets
        numbers = [int(np.searchsorted(offsets, first, side="right")) - 1 for first in firsts]
        dialogues = quote("train", numbers)
        texts = [
            dialogues[number].turns[first - int(offsets[number])].text
            for number, first in zip(numbers, firsts, strict=True)
        ]
        rows = zip(texts, found.bits[best].tolist(), found.counts[best].tolist(), strict=True)
        return [(text, bits, times) for text, bits, times in rows if bits > 0]


def _bars(top: list[tuple[str, float, int]]) -> tuple[tuple[str, float, str], ...]:
    return tuple((text, bits, f"{bits:.2f} bits, {times:,} times") for text, bits, times in top)
