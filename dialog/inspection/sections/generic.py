"""Generic responses, by the entropy of the turns that they answer (Csáky et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules
from dialog.data.text_matching.entropy import Entropies, entropies
from dialog.data.text_matching.fingerprints import (
    DialogueHashes,
    Hashes,
    Integers,
    collapse_whitespace,
    contained_in,
)
from dialog.inspection.findings import (
    BarChart,
    Detail,
    Finding,
    ReadDialogues,
    Table,
    filled,
    part_of,
    severity,
)
from dialog.inspection.sections.duplicates import ResponseIndices

THRESHOLD = 1.0
"""Bits."""
EXAMPLES = 15
SIDES = ("target", "source")
"""Entropy of a response over the turns that it answers; of a turn over its responses."""

Examples = list[tuple[str, float, int]]
"""Text, bits and number of occurrences."""


class GenericSection:
    """Computes the entropy of each training utterance over the turns that it answers, and over its
    responses.

    As in the `entropy` filter, entropies are computed from all turns; only responses of the rules
    count as dropped.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.hashes = DialogueHashes(collapse_whitespace)
        self.responses = ResponseIndices(rules)

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add a training dialogue; other splits are ignored."""
        if split == "train":
            self.hashes.add(dialogue)
            self.responses.add(dialogue)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the number of responses that the filter drops, and the utterances of highest
        entropy.
        """
        turns = self.hashes.turns
        replies = self.hashes.reply_positions
        indices = {"target": replies, "source": replies - 1}
        by_side = {
            "target": entropies(turns[replies], turns[replies - 1]),
            "source": entropies(turns[replies - 1], turns[replies]),
        }
        responses = self.responses.array()
        utterances = {
            "target": turns[responses],
            "source": turns[np.intersect1d(responses, replies) - 1],
        }
        dropped = {side: _number_above(by_side[side], utterances[side]) for side in SIDES}
        top = {
            side: self._top(by_side[side], turns, indices[side], read_dialogues) for side in SIDES
        }
        generic = dropped["target"] / max(len(responses), 1)
        texts = {side: part_of(dropped[side], len(responses)) for side in SIDES}
        summary = (
            f"{texts['target']} of the training responses are generic: each answers many different"
            f" turns, with an entropy above {THRESHOLD:g} bit (two turns equally often have"
            f" {THRESHOLD:g} bit). {texts['source']} answer a turn that has many different"
            f" responses, also above {THRESHOLD:g} bit."
        )
        if any(dropped.values()):
            summary += " A model that is trained on them can give dull replies."
        advice = (
            f"If replies are dull, data.filters=[{{name: entropy, threshold: {THRESHOLD:g}}}]"
            " drops generic responses."
        )
        return Finding(
            "Generic responses",
            severity(bad=generic > 0.2, look=generic > 0.02),
            f"{texts['target']} of training responses are generic: they fit many turns",
            summary,
            advice if generic > 0.02 else "",
            _details(top),
            {
                "threshold": THRESHOLD,
                "pairs": len(responses),
                **{side: {"pairs_above": dropped[side], "top": _json(top[side])} for side in SIDES},
            },
        )

    def _top(
        self,
        by_utterance: Entropies,
        turns: Hashes,
        indices: Integers,
        read_dialogues: ReadDialogues,
    ) -> Examples:
        """Return the utterances of highest entropy, above 0."""
        best = np.argsort(-by_utterance.bits, kind="stable")[:EXAMPLES]
        first_turns = [
            int(indices[np.argmax(turns[indices] == by_utterance.utterances[rank])])
            for rank in best
        ]
        offsets = self.hashes.offsets
        numbers = [int(np.searchsorted(offsets, turn, side="right")) - 1 for turn in first_turns]
        dialogues = read_dialogues("train", numbers)
        texts = [
            dialogues[number].turns[turn - int(offsets[number])].text
            for number, turn in zip(numbers, first_turns, strict=True)
        ]
        rows = zip(
            texts, by_utterance.bits[best].tolist(), by_utterance.counts[best].tolist(), strict=True
        )
        return [(text, bits, times) for text, bits, times in rows if bits > 0]


def _number_above(by_utterance: Entropies, utterances: Hashes) -> int:
    return int(
        contained_in(utterances, by_utterance.utterances[by_utterance.above(THRESHOLD)]).sum()
    )


def _details(top: Mapping[str, Examples]) -> tuple[Detail, ...]:
    bars = [
        (text, bits, f"{bits:.2f} bits, {times:,} times") for text, bits, times in top["target"]
    ]
    rows = [(text, f"{bits:.2f}", f"{times:,}") for text, bits, times in top["source"]]
    return filled(
        BarChart(
            "Most generic training responses, by the entropy of the turns that they answer",
            tuple(bars),
        ),
        Table(
            "Training turns with the highest entropy of responses",
            ("", "bits", "count"),
            tuple(rows[: EXAMPLES // 2]),
        ),
    )


def _json(top: Examples) -> list[dict[str, str | float]]:
    return [{"text": text, "bits": round(bits, 4), "count": times} for text, bits, times in top]
