"""Exact repeats of dialogues, examples, pairs and responses, inside splits and across them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import ExampleRules
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    DialogueHashes,
    Hashes,
    Integers,
    contained_in,
    hash_pairs,
    repeats_earlier,
)
from dialog.inspection.findings import Finding, Quote, Quoted, Table, place, share
from dialog.inspection.responses import Responses
from dialog.report.measures import count

COMPARED = ("verbatim", "letters")
KINDS = {
    "dialogues": "dialogues",
    "histories": "(whole history, response)",
    "pairs": "(previous turn, response)",
    "responses": "responses",
}
ACROSS = {
    "validation in train": ("in_train", "validation"),
    "test in train": ("in_train", "test"),
    "test in validation": ("in_validation", "test"),
}
INSIDE = {split: ("repeated", split) for split in SPLITS}
SHOWN = 3


class Duplicates:
    """Counts what is said twice: verbatim but for white space, and by letters and digits alone.

    Its responses are those of the rules that answer a turn: a first turn answers none.

    Args:
        rules: How dialogues become examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.responses = {split: Responses(rules) for split in SPLITS}
        self.said = {name: {split: DialogueHashes(NORMALISATIONS[name]) for split in SPLITS} for name in COMPARED}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Take in the numbers of a dialogue."""
        self.responses[split].add(dialogue)
        for name in COMPARED:
            self.said[name][split].add(dialogue)

    def finding(self, quote: Quote) -> Finding:
        """Repeats inside each split, what of validation and test is in train, and what of test in validation."""
        places = {split: responses.places for split, responses in self.responses.items()}
        found = {
            name: {split: _kinds(said, places[split]) for split, said in self.said[name].items()} for name in COMPARED
        }
        data = {name: _counts(found[name]) for name in COMPARED}
        verbatim, inside = data["verbatim"], data["verbatim"]["repeated"]["train"]["dialogues"]
        known = {split: verbatim["in_train"][split]["dialogues"] for split in ("validation", "test")}
        tuned, either = (verbatim[what]["test"]["dialogues"] for what in ("in_validation", "in_train_or_validation"))
        return Finding(
            "Exact repeats",
            "bad" if known["validation"] or either else "look" if inside else "good",
            f"{count(either)} test dialogues in train or validation; {count(inside)} repeats inside train",
            f"{count(inside)} training dialogues repeat an earlier one. In train are, word for word, "
            f"{count(known['test'])} dialogues of test and {count(known['validation'])} of validation; "
            f"{count(tuned)} of test are in validation.",
            "; ".join(_advice(inside, tuned)),
            (
                _table("Across splits: verbatim / by letters and digits", data, ACROSS),
                _table("That repeat an earlier one of their split: verbatim / by letters and digits", data, INSIDE),
                *(self._examples(found["verbatim"], "train", quote) if known["test"] else ()),
                *(self._examples(found["verbatim"], "validation", quote) if tuned and not known["test"] else ()),
            ),
            {"normalisations": data, "distinct_dialogues": {name: _distinct(found[name]) for name in COMPARED}},
        )

    def _examples(self, found: dict[str, dict[str, Hashes]], other: str, quote: Quote) -> list[Quoted]:
        """Test dialogues that stand in another split too, those first that stand early there."""
        known = found[other]["dialogues"]
        hits = np.flatnonzero(contained_in(found["test"]["dialogues"], np.unique(known)))
        order = np.argsort(known, kind="stable")
        partners = order[np.searchsorted(known[order], found["test"]["dialogues"][hits])]
        first = np.argsort(partners, kind="stable")[:SHOWN]
        pairs = list(zip(hits[first].tolist(), partners[first].tolist(), strict=True))
        asked = quote("test", [one for one, _ in pairs])
        there = quote(other, [two for _, two in pairs])
        return [
            Quoted(
                f"{place(asked[one])} is {place(there[two])}",
                tuple((turn.speaker, turn.text) for turn in asked[one].turns),
            )
            for one, two in pairs
        ]


def _kinds(said: DialogueHashes, responses: Integers) -> dict[str, Hashes]:
    turns, offsets, answers = said.turns, said.offsets, np.intersect1d(responses, said.reply_positions)
    histories = said.histories()
    ends = offsets[1:][np.diff(offsets) > 0] - 1
    return {
        "dialogues": histories[ends],
        "histories": histories[answers],
        "pairs": hash_pairs(turns[answers - 1], turns[answers]),
        "responses": turns[answers],
    }


def _counts(found: dict[str, dict[str, Hashes]]) -> dict[str, Any]:
    in_train = {
        split: {kind: _standing(found, kind, split, "train") for kind in KINDS} for split in ("validation", "test")
    }
    in_validation = {"test": {kind: _standing(found, kind, "test", "validation") for kind in KINDS}}
    in_either = {"test": {kind: _standing(found, kind, "test", "train", "validation") for kind in KINDS}}
    repeated = {split: {kind: int(repeats_earlier(found[split][kind]).sum()) for kind in KINDS} for split in SPLITS}
    totals = {split: {kind: len(found[split][kind]) for kind in KINDS} for split in SPLITS}
    return {
        "in_train": in_train,
        "in_validation": in_validation,
        "in_train_or_validation": in_either,
        "repeated": repeated,
        "totals": totals,
    }


def _standing(found: dict[str, dict[str, Hashes]], kind: str, split: str, *others: str) -> int:
    """How many of a split are in any of the others."""
    known = np.unique(np.concatenate([found[other][kind] for other in others]))
    return int(contained_in(found[split][kind], known).sum())


def _distinct(found: dict[str, dict[str, Hashes]]) -> int:
    return len(np.unique(np.concatenate([found[split]["dialogues"] for split in SPLITS])))


def _advice(inside: int, tuned: int) -> Iterator[str]:
    if inside:
        yield "Train on each dialogue once: data.filters=[{name: drop_duplicates}]"
    if tuned:
        yield "Take out of validation what is in test: what is chosen by validation is chosen by test there"


def _table(caption: str, data: dict[str, Any], columns: dict[str, tuple[str, str]]) -> Table:
    totals = data["verbatim"]["totals"]
    rows = tuple(
        (
            label,
            *(
                _cell([data[name][what][split][kind] for name in COMPARED], totals[split][kind])
                for what, split in columns.values()
            ),
        )
        for kind, label in KINDS.items()
    )
    return Table(caption, ("", *columns), rows)


def _cell(counts: list[int], whole: int) -> str:
    return " / ".join([count(counts[0]), share(counts[1], whole)])
