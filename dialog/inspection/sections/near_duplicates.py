"""Near duplicates: of validation and test in train, of test in validation, and of dialogues within
a split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import normalise_words
from dialog.data.text_matching.minhash import (
    MAX_FIRSTS,
    THRESHOLD,
    NearDuplicateIndex,
    RepeatDetector,
    ShingledText,
)
from dialog.inspection.findings import (
    EVALUATED,
    WORST_FIRST,
    Finding,
    Quotation,
    ReadDialogues,
    Severity,
    Table,
    part_of,
    severity,
    worst_split,
)
from dialog.report.formats.numbers import count, counted, percent

SHINGLE_WORDS = {"dialogues": 3, "pairs": 2, "responses": 2}
"""Consecutive words in a shingle, by unit."""
MINIMUM_WORDS = {"dialogues": 8, "pairs": 8, "responses": 5}
"""Words from which a text is compared: shorter texts resemble many others by chance."""
EXAMPLES = 3


class NearDuplicateSection:
    """Compares dialogues, pairs and responses of validation and test with train, and of test with
    validation.

    Within a split only whole dialogues are compared: keeping every training response would need
    more memory than the text.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self.within = {split: RepeatDetector() for split in SPLITS}
        self.indices = {
            unit: {split: NearDuplicateIndex() for split in EVALUATED} for unit in SHINGLE_WORDS
        }

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Index the texts of an evaluated dialogue; look up those of a training dialogue."""
        for unit, text in _shingled_texts(dialogue, self.rules):
            if unit == "dialogues":
                self.within[split].compare(text)
            if split in EVALUATED:
                self.indices[unit][split].add(text)
            else:
                for index in self.indices[unit].values():
                    index.compare(text)

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the number of near duplicates, with examples that barely reach the threshold."""
        in_validation = {
            unit: index["test"].compared_with(index["validation"])
            for unit, index in self.indices.items()
        }
        dialogues = self.indices["dialogues"]
        in_train = {
            split: part_of(len(dialogues[split].near), len(dialogues[split].kept))
            for split in EVALUATED
        }
        worst = worst_split(
            {
                split: (len(dialogues[split].near), len(dialogues[split].kept))
                for split in WORST_FIRST
            }
        )
        within_train = len(self.within["train"].near)
        numbers = {
            f"{in_train[worst]} of {worst} dialogues in train": len(dialogues[worst].near),
            f"{counted(within_train, 'dialogue')} within train": within_train,
            **self._other_numbers(in_validation["dialogues"]),
        }
        texts = [text for text, number in numbers.items() if number]
        return Finding(
            "Near duplicates",
            self._severity(in_validation["dialogues"]),
            "; ".join(texts or [*numbers][:2]),
            f"{in_train['test']} of the test dialogues and {in_train['validation']} of the"
            " validation dialogues are nearly the same as a training dialogue;"
            f" {counted(len(in_validation['dialogues'].near), 'test dialogue')} as one of"
            f" validation, {counted(within_train, 'training dialogue')} as an earlier one. Nearly"
            f" the same: {percent(THRESHOLD)} or more of all sequences of three words are in both."
            " Exact duplicates count too.",
            " ".join(self._advice(in_validation["dialogues"])),
            (*self._tables(in_validation), *self._examples()),
            {
                "threshold": THRESHOLD,
                **{unit: self._data(unit, in_validation[unit]) for unit in SHINGLE_WORDS},
                "repeated": {
                    split: {
                        "compared": repeats.compared,
                        "near": [
                            {"id": id, "earlier": earlier, "similarity": round(similarity, 4)}
                            for id, earlier, similarity in repeats.near
                        ],
                    }
                    for split, repeats in self.within.items()
                },
            },
        )

    def _other_numbers(self, in_validation: NearDuplicateIndex) -> dict[str, int]:
        """Return the other numbers that make a finding worth a look, by their text."""
        in_splits = sum(len(self.within[split].near) for split in EVALUATED)
        responses = sum(len(index.near) for index in self.indices["responses"].values())
        return {
            f"{counted(len(in_validation.near), 'test dialogue')} in validation": len(
                in_validation.near
            ),
            f"{count(in_splits)} within validation or test": in_splits,
            f"{counted(responses, 'response')} in train": responses,
        }

    def _advice(self, in_validation: NearDuplicateIndex) -> Iterator[str]:
        if any(index.near for indices in self.indices.values() for index in indices.values()):
            yield (
                "data.filters=[{name: drop_leaking_dialogues}] drops training dialogues that share"
                " a pair of turns, word for word, with validation or test."
            )
        if in_validation.near:
            yield (
                "Remove test dialogues from validation: otherwise checkpoints are selected on test"
                " data."
            )
        if self.within["train"].near:
            yield (
                "data.filters=[{name: drop_duplicates, normalisation: letters}] drops those within"
                " train that differ only in case, spaces or punctuation."
            )
        if any(self.within[split].near for split in EVALUATED):
            yield (
                "Remove near duplicates within validation and test from the corpus (--json lists"
                " their ids)."
            )

    def _severity(self, in_validation: NearDuplicateIndex) -> Severity:
        indices = self.indices["dialogues"]
        compared = [*indices.values(), *self.indices["responses"].values(), in_validation]
        within = any(repeats.near for repeats in self.within.values())
        many = [
            index
            for index in (*indices.values(), in_validation)
            if len(index.near) > 0.01 * len(index.kept)
        ]
        return severity(bad=many, look=within or any(index.near for index in compared))

    def _tables(self, in_validation: dict[str, NearDuplicateIndex]) -> Iterator[Table]:
        rows = tuple(
            (
                unit,
                *(part_of(len(index.near), len(index.kept)) for index in indices.values()),
                part_of(len(in_validation[unit].near), len(indices["test"].kept)),
            )
            for unit, indices in self.indices.items()
        )
        minimum = ", ".join(f"{unit} of {least}+ words" for unit, least in MINIMUM_WORDS.items())
        header = ("", "validation in train", "test in train", "test in validation")
        yield Table(f"Near duplicates across splits ({minimum})", header, rows)
        within = [part_of(len(repeats.near), repeats.compared) for repeats in self.within.values()]
        yield Table(
            f"Near duplicates of an earlier one in the split (of the first {count(MAX_FIRSTS)}"
            " distinct ones)",
            ("", *SPLITS),
            (("dialogues", *within),),
        )

    def _examples(self) -> Iterator[Quotation]:
        """Quote the least similar near duplicates; exact ones need no example."""
        for unit, indices in self.indices.items():
            examples = sorted(indices["test"].near.values())[:EXAMPLES]
            pairs = (((near.id, near.text), (near.other_id, near.other_text)) for near in examples)
            if examples:
                caption = f"{unit.capitalize()} of test and train that barely reach the threshold"
                yield Quotation(caption, tuple(line for pair in pairs for line in pair))

    def _data(self, unit: str, in_validation: NearDuplicateIndex) -> dict[str, Any]:
        return {
            "in_validation": {"test": _near(in_validation, "validation")},
            **{
                split: {"compared": len(index.kept), "near": _near(index, "train")}
                for split, index in self.indices[unit].items()
            },
        }


def _near(index: NearDuplicateIndex, other: str) -> list[dict[str, str | float]]:
    return [
        {"id": near.id, other: near.other_id, "similarity": round(near.similarity, 4)}
        for near in index.near.values()
    ]


def _shingled_texts(dialogue: Dialogue, rules: ExampleRules) -> Iterator[tuple[str, ShingledText]]:
    """Yield the texts that are long enough: the dialogue, its (previous turn, response) pairs and
    its responses.
    """
    turns = [normalise_words(turn.text).split() for turn in dialogue.turns]
    texts = [("dialogues", dialogue.id, 0, len(turns))]
    for _, response in example_windows(dialogue, rules):
        if response > 0:  # a first turn has no previous turn
            id = f"{dialogue.id}#{response}"
            texts += [
                ("pairs", id, response - 1, response + 1),
                ("responses", id, response, response + 1),
            ]
    for unit, id, start, end in texts:
        text_words = [word for turn in turns[start:end] for word in turn]
        if len(text_words) >= MINIMUM_WORDS[unit]:
            text = " / ".join(turn.text for turn in dialogue.turns[start:end])
            yield unit, ShingledText(id, text, text_words, SHINGLE_WORDS[unit])
