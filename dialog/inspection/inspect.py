"""A corpus goes once past all sections; an inspection comes out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dialog.data.corpora import Corpus
from dialog.data.dialogue import Dialogue
from dialog.data.examples import DROP, ExampleRules, usable_dialogue
from dialog.inspection.findings import Finding, Section
from dialog.inspection.sections.characters import Characters
from dialog.inspection.sections.duplicates import Duplicates
from dialog.inspection.sections.generic import Generic
from dialog.inspection.sections.languages import Languages
from dialog.inspection.sections.leak import Leak
from dialog.inspection.sections.lengths import Lengths
from dialog.inspection.sections.near_duplicates import NearDuplicates
from dialog.inspection.sections.records import Records
from dialog.inspection.sections.reserved import Reserved
from dialog.inspection.sections.speakers import Speakers
from dialog.report.progress import ProgressBars

FORMAT = 1
ORDER = ("validation", "test", "train")
"""What is evaluated first, so that what is trained on can be held against it as it passes."""

AS_IT_IS = ExampleRules(None, first_turns=True, max_turn_characters=sys.maxsize)
"""Rules that leave out nothing in which something is said, and change no word."""

SECTIONS: Mapping[str, Callable[[ExampleRules], Section]] = {
    "leak": lambda rules: Leak(),
    "duplicates": Duplicates,
    "near_duplicates": NearDuplicates,
    "generic": Generic,
    "lengths": lambda rules: Lengths(),
    "speakers": lambda rules: Speakers(),
    "characters": lambda rules: Characters(),
    "languages": lambda rules: Languages(),
    "reserved": lambda rules: Reserved(),
}
"""The sections that every inspection has, as JSON names them, made by the rules for examples."""


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


def inspect(
    corpus: Corpus, tokens: Section | None = None, *, rules: ExampleRules = AS_IT_IS, quiet: bool = False
) -> Inspection:
    """Look through a corpus once, and again as far as examples of it are shown.

    The memory needed is about 100 bytes a turn, 8 a word, 1.4 KB a dialogue, and the texts of validation and test.

    Args:
        corpus: Where the dialogues come from.
        tokens: The section of the tokenizer, where there is one; its rules are these.
        rules: What is looked through are the dialogues that are usable by them, as they make them; what is malformed
            is counted.
        quiet: Whether to show no progress on standard error.
    """
    rules = replace(rules, malformed=DROP)
    records = Records()
    sections: dict[str, Section] = {name: make(rules) for name, make in SECTIONS.items()}
    if tokens is not None:
        sections["tokens"] = tokens

    def quote(split: str, numbers: Collection[int]) -> dict[int, Dialogue]:
        return _again(corpus, rules, split, set(numbers))

    with ProgressBars(quiet=quiet) as bars:
        for split in ORDER:
            bars.show(f"looking through {split}", 0, None)
            for number, dialogue in enumerate(_dialogues(corpus, rules, split, records), start=1):
                for section in sections.values():
                    section.see(split, dialogue)
                bars.show(f"looking through {split}", number, None)
        findings = {"records": records.finding()}
        for number, (name, section) in enumerate(sections.items()):
            bars.show("summing up", number, len(sections))
            findings[name] = section.finding(quote)
        bars.show("summing up", len(sections), len(sections))
    return Inspection(records.sizes(), findings)


def _dialogues(corpus: Corpus, rules: ExampleRules, split: str, records: Records | None = None) -> Iterator[Dialogue]:
    """The dialogues of a split that give examples."""
    for entry in corpus.dialogues(split):
        dialogue = usable_dialogue(entry, rules, Counter())
        if records is not None:
            records.see(split, entry, dialogue)
        if dialogue is not None:
            yield dialogue


def _again(corpus: Corpus, rules: ExampleRules, split: str, numbers: set[int]) -> dict[int, Dialogue]:
    """The dialogues of these numbers, read up to the last."""
    found: dict[int, Dialogue] = {}
    if numbers:
        for number, dialogue in enumerate(_dialogues(corpus, rules, split)):
            if number in numbers:
                found[number] = dialogue
            if len(found) == len(numbers):
                break
    return found
