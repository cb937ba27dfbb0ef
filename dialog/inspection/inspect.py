"""Run all sections over a corpus in one pass."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dialog.data.corpora import Corpus
from dialog.data.dialogue import Dialogue
from dialog.data.examples import DROP, ExampleRules, usable_dialogue
from dialog.inspection.findings import EVALUATED, Finding, Section
from dialog.inspection.sections.duplicates import DuplicateSection, LeakSection
from dialog.inspection.sections.generic import GenericSection
from dialog.inspection.sections.near_duplicates import NearDuplicateSection
from dialog.inspection.sections.records import RecordSection
from dialog.inspection.sections.shape import LengthSection, SpeakerSection
from dialog.inspection.sections.text import CharacterSection, LanguageSection, ReservedSection
from dialog.report.progress import ProgressBars

FORMAT = 1
SPLIT_ORDER = (*EVALUATED, "train")
"""Evaluated splits come first, so that training dialogues can be compared with them as they are
read.
"""

KEEP_ALL = ExampleRules(None, first_turns=True, normalise=False, max_turn_characters=sys.maxsize)
"""Rules that keep every dialogue with text, and change no text."""

SECTIONS: Mapping[str, Callable[[ExampleRules], Section]] = {
    "leak": lambda rules: LeakSection(),
    "duplicates": DuplicateSection,
    "near_duplicates": NearDuplicateSection,
    "generic": GenericSection,
    "lengths": lambda rules: LengthSection(),
    "speakers": lambda rules: SpeakerSection(),
    "characters": lambda rules: CharacterSection(),
    "languages": lambda rules: LanguageSection(),
    "reserved": lambda rules: ReservedSection(),
}
"""Sections of every inspection, by their names in JSON."""


class Inspection(NamedTuple):
    """Number of dialogues and turns of each split, and the finding of each section."""

    sizes: dict[str, dict[str, int]]
    findings: dict[str, Finding]

    def data(self) -> dict[str, Any]:
        """Return all figures for JSON."""
        return {
            "format": FORMAT,
            "splits": self.sizes,
            "findings": {
                name: {
                    "state": finding.severity,
                    "headline": finding.headline,
                    "summary": finding.summary,
                    "advice": finding.advice,
                    **finding.data,
                }
                for name, finding in self.findings.items()
            },
        }


def inspect(
    corpus: Corpus,
    tokens: Section | None = None,
    *,
    rules: ExampleRules = KEEP_ALL,
    quiet: bool = False,
) -> Inspection:
    """Inspect a corpus in one pass, and read the dialogues that findings quote again.

    Memory does not grow with the training split, except for 200 bytes per near duplicate in it: it
    holds the texts of validation and test, and at most 250 MB for the texts that near duplicates
    are searched among. Temporary files take 27 bytes per turn, and up to 32 more while it sorts.

    Args:
        corpus: Corpus to inspect.
        tokens: Tokenizer section, made with the same rules; None leaves it out.
        rules: Rules that select and change the inspected dialogues; malformed records are counted,
            never raised.
        quiet: Show no progress on standard error.
    """
    rules = replace(rules, malformed=DROP)
    records = RecordSection()
    sections: dict[str, Section] = {
        name: make_section(rules) for name, make_section in SECTIONS.items()
    }
    if tokens is not None:
        sections["tokens"] = tokens

    def read_dialogues(split: str, numbers: Collection[int]) -> dict[int, Dialogue]:
        return _read_numbered(corpus, rules, split, set(numbers))

    with ProgressBars(quiet=quiet) as bars:
        for split in SPLIT_ORDER:
            task = f"inspecting {split}"
            bars.show(task, 0, None)
            for number, dialogue in enumerate(
                _usable_dialogues(corpus, rules, split, records), start=1
            ):
                for section in sections.values():
                    section.add(split, dialogue)
                bars.show(task, number, None)
        findings = {"records": records.finding()}
        for number, (name, section) in enumerate(sections.items()):
            bars.show("computing findings", number, len(sections))
            findings[name] = section.finding(read_dialogues)
        bars.show("computing findings", len(sections), len(sections))
    return Inspection(records.sizes(), findings)


def _usable_dialogues(
    corpus: Corpus, rules: ExampleRules, split: str, records: RecordSection | None = None
) -> Iterator[Dialogue]:
    """Yield the dialogues that give examples."""
    for entry in corpus.dialogues(split):
        dialogue = usable_dialogue(entry, rules, Counter())
        if records is not None:
            records.add(split, entry, dialogue)
        if dialogue is not None:
            yield dialogue


def _read_numbered(
    corpus: Corpus, rules: ExampleRules, split: str, numbers: set[int]
) -> dict[int, Dialogue]:
    """Read a split again, up to the last of the numbered dialogues."""
    dialogues: dict[int, Dialogue] = {}
    if numbers:
        for number, dialogue in enumerate(_usable_dialogues(corpus, rules, split)):
            if number in numbers:
                dialogues[number] = dialogue
            if len(dialogues) == len(numbers):
                break
    return dialogues
