"""Exact repeats of dialogues, examples, pairs and responses, inside splits and of training text in the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.fingerprints import NORMALISATIONS, Hashes, Said, among, joined, repeats
from dialog.inspection.findings import Finding, Quote, Quoted, Table, place, share
from dialog.report.measures import count

COMPARED = ("verbatim", "letters")
KINDS = {
    "dialogues": "dialogues",
    "histories": "(whole history, response)",
    "pairs": "(previous turn, response)",
    "responses": "responses",
}
SHOWN = 3


class Duplicates:
    """Counts what is said twice: verbatim but for white space, and by letters and digits alone."""

    def __init__(self) -> None:
        self.said = {name: {split: Said(NORMALISATIONS[name]) for split in SPLITS} for name in COMPARED}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Take in the numbers of a dialogue."""
        for name in COMPARED:
            self.said[name][split].add(dialogue)

    def finding(self, quote: Quote) -> Finding:
        """Repeats inside each split, and what of validation and test is in train."""
        found = {name: {split: _kinds(said) for split, said in self.said[name].items()} for name in COMPARED}
        data = {name: _counts(found[name]) for name in COMPARED}
        verbatim, inside = data["verbatim"]["in_train"], data["verbatim"]["repeated"]["train"]["dialogues"]
        known = {split: verbatim[split]["dialogues"] for split in ("validation", "test")}
        return Finding(
            "Exact repeats",
            "bad" if sum(known.values()) else "look" if inside else "good",
            f"{count(known['test'])} test dialogues stand in train; {count(inside)} repeats inside train",
            f"{count(inside)} training dialogues repeat an earlier one. In train are, word for word, "
            f"{count(known['test'])} dialogues of test and {count(known['validation'])} of validation.",
            "Train on each dialogue once: data.filters=[{name: drop_duplicates}]" if inside else "",
            (
                _table("Of validation and test in train: verbatim / by letters and digits", data, "in_train"),
                _table("That repeat an earlier one of their split: verbatim / by letters and digits", data, "repeated"),
                *self._examples(found["verbatim"], quote),
            ),
            {"normalisations": data, "distinct_dialogues": {name: _distinct(found[name]) for name in COMPARED}},
        )

    def _examples(self, found: dict[str, dict[str, Hashes]], quote: Quote) -> list[Quoted]:
        """Test dialogues that stand in train too, those first that stand early there."""
        train = found["train"]["dialogues"]
        hits = np.flatnonzero(among(found["test"]["dialogues"], np.unique(train)))
        order = np.argsort(train, kind="stable")
        partners = order[np.searchsorted(train[order], found["test"]["dialogues"][hits])]
        first = np.argsort(partners, kind="stable")[:SHOWN]
        pairs = list(zip(hits[first].tolist(), partners[first].tolist(), strict=True))
        asked = quote("test", [one for one, _ in pairs])
        learnt = quote("train", [other for _, other in pairs])
        return [
            Quoted(
                f"{place(asked[one])} is {place(learnt[other])}",
                tuple((turn.speaker, turn.text) for turn in asked[one].turns),
            )
            for one, other in pairs
        ]


def _kinds(said: Said) -> dict[str, Hashes]:
    turns, offsets, answers = said.turns, said.offsets, said.answers
    histories = said.histories()
    ends = offsets[1:][np.diff(offsets) > 0] - 1
    return {
        "dialogues": histories[ends],
        "histories": histories[answers],
        "pairs": joined(turns[answers - 1], turns[answers]),
        "responses": turns[answers],
    }


def _counts(found: dict[str, dict[str, Hashes]]) -> dict[str, Any]:
    in_train = {
        split: {kind: int(among(found[split][kind], np.unique(found["train"][kind])).sum()) for kind in KINDS}
        for split in ("validation", "test")
    }
    repeated = {split: {kind: int(repeats(found[split][kind]).sum()) for kind in KINDS} for split in SPLITS}
    totals = {split: {kind: len(found[split][kind]) for kind in KINDS} for split in SPLITS}
    return {"in_train": in_train, "repeated": repeated, "totals": totals}


def _distinct(found: dict[str, dict[str, Hashes]]) -> int:
    return len(np.unique(np.concatenate([found[split]["dialogues"] for split in SPLITS])))


def _table(caption: str, data: dict[str, Any], what: str) -> Table:
    splits = tuple(data["verbatim"][what])
    totals = data["verbatim"]["totals"]
    rows = tuple(
        (label, *(_cell([data[name][what][split][kind] for name in COMPARED], totals[split][kind]) for split in splits))
        for kind, label in KINDS.items()
    )
    return Table(caption, ("", *splits), rows)


def _cell(counts: list[int], whole: int) -> str:
    return " / ".join([count(counts[0]), share(counts[1], whole)])
