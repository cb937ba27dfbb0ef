"""Near repeats: of training text in validation and test, of validation in test, and of dialogues inside a split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import normalise_words
from dialog.data.text_matching.minhash import MAX_FIRSTS, THRESHOLD, NearDuplicateIndex, RepeatDetector, ShingledText
from dialog.inspection.findings import Finding, Quote, Quoted, Table, share
from dialog.report.measures import count, percent

EVALUATED = ("validation", "test")
RUNS = {"dialogues": 3, "pairs": 2, "responses": 2}
"""Words that are compared as one."""
FEWEST = {"dialogues": 8, "pairs": 8, "responses": 5}
"""Words that a text needs to be compared: shorter ones are like many others by chance."""
SHOWN = 3


class NearDuplicates:
    """Holds dialogues, pairs and responses of train against those of validation and test, and those against each other.

    Inside a split only whole dialogues are compared: to keep each response of train would take more memory than the
    text.

    Args:
        rules: How dialogues become examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self.repeats = {split: RepeatDetector() for split in SPLITS}
        self.indices = {kind: {split: NearDuplicateIndex() for split in EVALUATED} for kind in RUNS}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Index what is evaluated; look for what is trained on."""
        for kind, probe in _probes(dialogue, self.rules):
            if kind == "dialogues":
                self.repeats[split].compare(probe)
            if split in EVALUATED:
                self.indices[kind][split].add(probe)
            else:
                for index in self.indices[kind].values():
                    index.compare(probe)

    def finding(self, quote: Quote) -> Finding:
        """How many have a near repeat in train, and those that are just alike enough."""
        found = {
            kind: {split: len(each.near) for split, each in splits.items()} for kind, splits in self.indices.items()
        }
        sizes = {
            kind: {split: len(each.kept) for split, each in splits.items()} for kind, splits in self.indices.items()
        }
        tuned = {kind: each["test"].compared_with(each["validation"]) for kind, each in self.indices.items()}
        near, whole = found["dialogues"]["test"], sizes["dialogues"]["test"]
        near_tuned, inside = len(tuned["dialogues"].near), len(self.repeats["train"].near)
        rows = tuple(
            (
                kind,
                *(share(found[kind][s], sizes[kind][s]) for s in EVALUATED),
                share(len(tuned[kind].near), sizes[kind]["test"]),
            )
            for kind in RUNS
        )
        within = tuple(share(len(each.near), each.compared) for each in self.repeats.values())
        return Finding(
            "Near repeats",
            "bad"
            if max(near, near_tuned) > 0.01 * whole
            else "look"
            if near or near_tuned or found["responses"]["test"] or any(each.near for each in self.repeats.values())
            else "good",
            f"{share(near, whole)} test dialogues are near ones of train; {count(inside)} inside train",
            f"{share(near, whole)} of the test dialogues have one in train with which they share {percent(THRESHOLD)} "
            f"or more of all runs of three words, {count(near_tuned)} one in validation; {count(inside)} training "
            "dialogues have an earlier one. Exact repeats count too.",
            "data.filters=[{name: drop_leaking_dialogues}] takes out those that share a pair of turns word for word."
            if near
            else "",
            (
                Table(
                    f"With a near repeat ({_compared()})",
                    ("", "validation in train", "test in train", "test in validation"),
                    rows,
                ),
                Table(
                    f"Near an earlier one of their split (of the first {count(MAX_FIRSTS)} that are near none)",
                    ("", *SPLITS),
                    (("dialogues", *within),),
                ),
                *self._examples(),
            ),
            {
                "threshold": THRESHOLD,
                **{kind: self._data(kind, tuned[kind]) for kind in RUNS},
                "repeated": {
                    split: {
                        "compared": each.compared,
                        "near": [
                            {"id": id, "earlier": earlier, "similarity": round(similarity, 4)}
                            for id, earlier, similarity in each.near
                        ],
                    }
                    for split, each in self.repeats.items()
                },
            },
        )

    def _examples(self) -> Iterator[Quoted]:
        """The least alike of test: what is alike word for word needs no example."""
        for kind in RUNS:
            found = sorted(self.indices[kind]["test"].near.values())[:SHOWN]
            lines = (((near.id, near.text), (near.other_id, near.other_text)) for near in found)
            if found:
                caption = f"{kind.capitalize()} of test, and of train, that are only just alike"
                yield Quoted(caption, tuple(line for pair in lines for line in pair))

    def _data(self, kind: str, tuned: NearDuplicateIndex) -> dict[str, Any]:
        return {
            "in_validation": {
                "test": [
                    {"id": near.id, "validation": near.other_id, "similarity": round(near.similarity, 4)}
                    for near in tuned.near.values()
                ]
            },
            **{
                split: {
                    "compared": len(index.kept),
                    "near": [
                        {"id": near.id, "train": near.other_id, "similarity": round(near.similarity, 4)}
                        for near in index.near.values()
                    ],
                }
                for split, index in self.indices[kind].items()
            },
        }


def _probes(dialogue: Dialogue, rules: ExampleRules) -> Iterator[tuple[str, ShingledText]]:
    """What of a dialogue is long enough: all of it, each of its responses, and with the turns that they answer."""
    said = [normalise_words(turn.text).split() for turn in dialogue.turns]
    whole = [word for turn in said for word in turn]
    if len(whole) >= FEWEST["dialogues"]:
        text = " / ".join(turn.text for turn in dialogue.turns)
        yield "dialogues", ShingledText(dialogue.id, text, whole, RUNS["dialogues"])
    for _, number in example_windows(dialogue, rules):
        if number == 0:  # it answers nothing
            continue
        pair = said[number - 1] + said[number]
        if len(pair) >= FEWEST["pairs"]:
            text = f"{dialogue.turns[number - 1].text} / {dialogue.turns[number].text}"
            yield "pairs", ShingledText(f"{dialogue.id}#{number}", text, pair, RUNS["pairs"])
        if len(said[number]) >= FEWEST["responses"]:
            probe = ShingledText(
                f"{dialogue.id}#{number}", dialogue.turns[number].text, said[number], RUNS["responses"]
            )
            yield "responses", probe


def _compared() -> str:
    return ", ".join(f"{kind} of {count(least)} words or more" for kind, least in FEWEST.items())
