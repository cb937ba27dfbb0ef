"""Near repeats of training text in validation and test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dialog.data.dialogue import Dialogue
from dialog.data.fingerprints import words
from dialog.inspection.findings import Finding, Quote, Quoted, Table, share
from dialog.inspection.minhash import THRESHOLD, Index, Probe
from dialog.report.measures import count, percent

EVALUATED = ("validation", "test")
RUNS = {"dialogues": 3, "responses": 2}
"""Words that are compared as one."""
FEWEST = {"dialogues": 8, "responses": 5}
"""Words that a text needs to be compared: shorter ones are like many others by chance."""
SHOWN = 3


class NearDuplicates:
    """Holds the dialogues and responses of train against those of validation and test, which alone are kept."""

    def __init__(self) -> None:
        self.indices = {kind: {split: Index() for split in EVALUATED} for kind in RUNS}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Index what is evaluated; look for what is trained on."""
        for kind, probe in _probes(dialogue):
            if split in EVALUATED:
                self.indices[kind][split].add(probe)
            else:
                for index in self.indices[kind].values():
                    index.meet(probe)

    def finding(self, quote: Quote) -> Finding:
        """How many have a near repeat in train, and those that are just alike enough."""
        found = {
            kind: {split: len(each.near) for split, each in splits.items()} for kind, splits in self.indices.items()
        }
        sizes = {
            kind: {split: len(each.kept) for split, each in splits.items()} for kind, splits in self.indices.items()
        }
        near, whole = found["dialogues"]["test"], sizes["dialogues"]["test"]
        rows = tuple((kind, *(share(found[kind][s], sizes[kind][s]) for s in EVALUATED)) for kind in RUNS)
        return Finding(
            "Near repeats",
            "bad" if near > 0.01 * whole else "look" if near or found["responses"]["test"] else "good",
            f"{share(near, whole)} test dialogues have a near repeat in train",
            f"{share(near, whole)} of the test dialogues have one in train with which they share {percent(THRESHOLD)} "
            "or more of all runs of three words. Exact repeats count too.",
            "data.filters=[{name: drop_leaking_dialogues}] takes out those that share a pair of turns word for word."
            if near
            else "",
            (Table(f"With a near repeat in train ({_compared()})", ("", *EVALUATED), rows), *self._examples()),
            {"threshold": THRESHOLD, **{kind: self._data(kind) for kind in RUNS}},
        )

    def _examples(self) -> Iterator[Quoted]:
        """The least alike of test: what is alike word for word needs no example."""
        for kind in RUNS:
            found = sorted(self.indices[kind]["test"].near.values())[:SHOWN]
            lines = (((near.id, near.text), (near.other_id, near.other_text)) for near in found)
            if found:
                caption = f"{kind.capitalize()} of test, and of train, that are only just alike"
                yield Quoted(caption, tuple(line for pair in lines for line in pair))

    def _data(self, kind: str) -> dict[str, Any]:
        return {
            split: {
                "compared": len(index.kept),
                "near": [
                    {"id": near.id, "train": near.other_id, "similarity": round(near.similarity, 4)}
                    for near in index.near.values()
                ],
            }
            for split, index in self.indices[kind].items()
        }


def _probes(dialogue: Dialogue) -> Iterator[tuple[str, Probe]]:
    """What of a dialogue is long enough: all of it, and each of its responses."""
    said = [words(turn.text).split() for turn in dialogue.turns]
    whole = [word for turn in said for word in turn]
    if len(whole) >= FEWEST["dialogues"]:
        text = " / ".join(turn.text for turn in dialogue.turns)
        yield "dialogues", Probe(dialogue.id, text, whole, RUNS["dialogues"])
    for number in range(1, len(said)):
        if len(said[number]) >= FEWEST["responses"]:
            probe = Probe(f"{dialogue.id}#{number}", dialogue.turns[number].text, said[number], RUNS["responses"])
            yield "responses", probe


def _compared() -> str:
    return ", ".join(f"{kind} of {count(least)} words or more" for kind, least in FEWEST.items())
