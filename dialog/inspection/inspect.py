"""A corpus goes once past all sections; an inspection comes out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from tqdm import tqdm

from dialog.data.corpora import Corpus
from dialog.data.dialogue import Dialogue
from dialog.data.examples import without_empty_turns
from dialog.inspection.characters import Characters
from dialog.inspection.duplicates import Duplicates
from dialog.inspection.findings import Finding, Section
from dialog.inspection.generic import Generic
from dialog.inspection.languages import Languages
from dialog.inspection.leak import Leak
from dialog.inspection.lengths import Lengths
from dialog.inspection.near_duplicates import NearDuplicates
from dialog.inspection.records import Records, of_text
from dialog.inspection.reserved import Reserved
from dialog.inspection.speakers import Speakers
from dialog.inspection.tokens import Tokens

FORMAT = 1
ORDER = ("validation", "test", "train")
"""What is evaluated first, so that what is trained on can be held against it as it passes."""

SECTIONS: Mapping[str, Callable[[], Section]] = {
    "leak": Leak,
    "duplicates": Duplicates,
    "near_duplicates": NearDuplicates,
    "generic": Generic,
    "lengths": Lengths,
    "speakers": Speakers,
    "characters": Characters,
    "languages": Languages,
    "reserved": Reserved,
}
"""The sections that every inspection has, as JSON names them."""


class Inspection(NamedTuple):
    """What the doctor found: dialogues and turns of each split, and a finding a section."""

    sizes: dict[str, dict[str, int]]
    findings: dict[str, Finding]

    def data(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "format": FORMAT,
            "splits": self.sizes,
            "findings": {
                name: {
                    "state": each.state,
                    "headline": each.headline,
                    "summary": each.summary,
                    "advice": each.advice,
                    **each.data,
                }
                for name, each in self.findings.items()
            },
        }


def inspect(corpus: Corpus, tokens: Tokens | None = None, *, quiet: bool = False) -> Inspection:
    """Look through a corpus once, and again as far as examples of it are shown.

    The memory needed is about 80 bytes a turn, and the texts of validation and test.

    Args:
        corpus: Where the dialogues come from.
        tokens: The section of the tokenizer, where there is one.
        quiet: Whether to show no progress on standard error.
    """
    records = Records()
    sections: dict[str, Section] = {name: make() for name, make in SECTIONS.items()}
    if tokens is not None:
        sections["tokens"] = tokens
    with tqdm(unit=" dialogues", disable=True if quiet else None, leave=False, mininterval=0.5) as bar:
        for split in ORDER:
            bar.set_description(split)
            for dialogue in _dialogues(corpus, split, records):
                for section in sections.values():
                    section.see(split, dialogue)
                bar.update()

    def quote(split: str, numbers: Collection[int]) -> dict[int, Dialogue]:
        return _again(corpus, split, set(numbers))

    return Inspection(
        records.sizes(),
        {"records": records.finding(), **{name: section.finding(quote) for name, section in sections.items()}},
    )


def _dialogues(corpus: Corpus, split: str, records: Records | None = None) -> Iterator[Dialogue]:
    """The dialogues of a split in which something is said, without their empty turns."""
    for entry in corpus.dialogues(split):
        if records is not None:
            records.see(split, entry)
        if isinstance(entry, Dialogue) and of_text(entry):
            yield without_empty_turns(entry)


def _again(corpus: Corpus, split: str, numbers: set[int]) -> dict[int, Dialogue]:
    """The dialogues of these numbers, read up to the last."""
    found: dict[int, Dialogue] = {}
    if numbers:
        for number, dialogue in enumerate(_dialogues(corpus, split)):
            if number in numbers:
                found[number] = dialogue
            if len(found) == len(numbers):
                break
    return found
