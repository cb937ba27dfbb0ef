"""Generic responses, by the entropy of the turns that they answer (Csáky et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules
from dialog.data.text_matching.entropy import SIDES, TARGET, corpus_entropies
from dialog.data.text_matching.fingerprints import collapse_whitespace
from dialog.data.text_matching.spilled import SpilledHashes
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
from dialog.inspection.sections.duplicates import response_flags

THRESHOLD = 1.0
"""Bits."""
EXAMPLES = 15
Examples = list[tuple[str, float, int]]
"""Text, bits and number of occurrences."""


class TopUtterance(NamedTuple):
    """An utterance of the corpus, and its entropy."""

    hash: int
    bits: float
    times: int


class GenericSection:
    """Computes the entropy of each training utterance over the turns that it answers, and over its
    responses.

    As in the `entropy` filter, entropies are computed from all turns; only responses of the rules
    count as dropped.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self.hashes = SpilledHashes(collapse_whitespace)

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add a training dialogue; other splits are ignored."""
        if split == "train":
            self.hashes.add(dialogue, response_flags(dialogue, self.rules))

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the number of responses that the filter drops, and the utterances of highest
        entropy.
        """
        responses = self.hashes.responses
        sides = {side: self._side(side) for side in SIDES}
        dropped = {side: number for side, (number, _) in sides.items()}
        top = {side: self._texts(side, best, read_dialogues) for side, (_, best) in sides.items()}
        generic = dropped["target"] / max(responses, 1)
        texts = {side: part_of(dropped[side], responses) for side in SIDES}
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
                "pairs": responses,
                **{side: {"pairs_above": dropped[side], "top": _json(top[side])} for side in SIDES},
            },
        )

    def _side(self, side: str) -> tuple[int, list[TopUtterance]]:
        """Return the number of responses that the filter drops on a side, and the utterances of
        highest entropy.
        """
        number = 0
        best: list[TopUtterance] = []
        for found in corpus_entropies(self.hashes, side):
            number += int(found.responses[found.above(THRESHOLD)].sum())
            highest = np.argsort(-found.bits, kind="stable")[:EXAMPLES]
            columns = (found.utterances, found.bits, found.counts)
            best += map(TopUtterance, *(column[highest].tolist() for column in columns))
            best = sorted(best, key=lambda utterance: -utterance.bits)[:EXAMPLES]
        return number, [utterance for utterance in best if utterance.bits > 0]

    def _texts(
        self, side: str, best: list[TopUtterance], read_dialogues: ReadDialogues
    ) -> Examples:
        """Return the texts of utterances, from the first pair of each."""
        places: dict[int, tuple[int, int]] = {}
        for chunk in self.hashes.chunks():
            positions = chunk.replies if side == TARGET else chunk.replies - 1
            wanted = np.array([one.hash for one in best if one.hash not in places], np.uint64)
            for position in positions[np.isin(chunk.turns[positions], wanted)].tolist():
                number = int(np.searchsorted(chunk.offsets, position, side="right")) - 1
                place = (chunk.first + number, position - int(chunk.offsets[number]))
                places.setdefault(int(chunk.turns[position]), place)
        dialogues = read_dialogues("train", [number for number, _ in places.values()])
        return [
            (dialogues[number].turns[turn].text, one.bits, one.times)
            for one in best
            for number, turn in [places[one.hash]]
        ]


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
