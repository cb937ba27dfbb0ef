"""Characters of the text: scripts, and damaged, invisible or unusual characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Any

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.inspection.findings import (
    BarChart,
    Finding,
    Quotation,
    ReadDialogues,
    Table,
    location,
    part_of,
)
from dialog.report.formats.numbers import count, counted

HARMFUL = ("replacement", "control", "private")
CATEGORIES = {"Cc": "control", "Cf": "format", "Co": "private", "Cn": "private", "Cs": "private"}
"""Format characters are invisible: zero width, direction, soft hyphen. "private" is private use or
unassigned.
"""
MOJIBAKE = re.compile("[ÃÂ][\x80-\xbf]|â€|ï¿½")
"""UTF-8 that was decoded as Latin-1 or Windows-1252."""
ROWS = 12
EXAMPLES = 5


class CharacterSection:
    """Counts all characters, and records the first place of each unusual one."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.turns = 0
        self.padded: Counter[str] = Counter()
        self.mojibake: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.garbled: list[tuple[str, str]] = []

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Count the characters of a dialogue."""
        self.turns += len(dialogue.turns)
        for turn in dialogue.turns:
            self.counts[split].update(turn.text)
            self.padded[split] += turn.text != turn.text.strip()
            if turn.text.isascii() and turn.text.isprintable():
                continue
            for char in set(turn.text):
                if char not in self.first and kind(char):
                    self.first[char] = location(dialogue)
            if MOJIBAKE.search(turn.text):
                self.mojibake[split] += 1
                self.garbled += [(location(dialogue), turn.text)][: EXAMPLES - len(self.garbled)]

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return scripts, unusual characters with their first places, and other characters outside
        ASCII.
        """
        total = sum(self.counts.values(), Counter[str]())
        unusual = {char: number for char, number in total.most_common() if kind(char)}
        harmful = sum(number for char, number in unusual.items() if kind(char) in HARMFUL)
        harmless = sum(unusual.values()) - harmful
        garbled = self.mojibake.total()
        figures = (
            f"{counted(harmful, 'damaged or control character')}, {count(harmless)} invisible or"
            f" unusual, {counted(garbled, 'garbled turn')}"
        )
        padded = self.padded.total()
        advices = (
            (
                harmful or garbled,
                "Fix the corpus at these places: the tokenizer keeps these characters.",
            ),
            (padded, "data.normalise=true removes white space at the edges of turns."),
        )
        return Finding(
            "Characters",
            (
                "bad"
                if harmful + garbled > 0.001 * self.turns
                else "look"
                if unusual or garbled or padded
                else "good"
            ),
            f"{figures}, {count(padded)} with outer white space" if padded else figures,
            f"{count(len(total))} distinct characters. {figures} (UTF-8 that was decoded as another"
            f" encoding). {counted(padded, 'turn')} with white space at an edge.",
            " ".join(advice for number, advice in advices if number),
            self._details(total, unusual),
            self._data(total, unusual),
        )

    def _details(
        self, total: Counter[str], unusual: dict[str, int]
    ) -> tuple[Table | BarChart | Quotation, ...]:
        scripts = _scripts(total)
        bars = [
            (name, number, part_of(number, scripts.total()))
            for name, number in scripts.most_common(8)
        ]
        details: list[Table | BarChart | Quotation] = [BarChart("Letters by script", tuple(bars))]
        if unusual:
            rows = [
                (f"{code(char)} {name_of(char)}", count(number), self.first[char])
                for char, number in unusual.items()
            ]
            details.append(
                Table("Unusual characters", ("", "count", "first in"), tuple(rows[:ROWS]))
            )
        others = [
            (f"{char}  {code(char)} {name_of(char)}", count(number))
            for char, number in total.most_common()
            if not char.isascii() and char not in unusual
        ]
        if others:
            details.append(
                Table("Most frequent characters outside ASCII", ("", "count"), tuple(others[:ROWS]))
            )
        if self.garbled:
            details.append(Quotation("Turns that look garbled", tuple(self.garbled)))
        return tuple(details)

    def _data(self, total: Counter[str], unusual: dict[str, int]) -> dict[str, Any]:
        return {
            "different": len(total),
            "scripts": dict(_scripts(total).most_common()),
            "odd": {
                code(char): {
                    "name": name_of(char),
                    "kind": kind(char),
                    "count": number,
                    "first": self.first[char],
                }
                for char, number in unusual.items()
            },
            "padded_turns": {split: self.padded[split] for split in SPLITS},
            "mojibake_turns": {split: self.mojibake[split] for split in SPLITS},
            "not_ascii": {
                split: sum(number for char, number in counts.items() if not char.isascii())
                for split, counts in self.counts.items()
            },
        }


def kind(char: str) -> str:
    """Return the kind of an unusual character, "" for an ordinary one.

    "replacement" (U+FFFD, bytes that could not be decoded), "space" (white space other than
    U+0020), or that of its category in `CATEGORIES`.
    """
    if char == "\ufffd":
        return "replacement"
    category = unicodedata.category(char)
    if category in ("Zs", "Zl", "Zp") or char in "\t\n\r":
        return "" if char == " " else "space"
    return CATEGORIES.get(category, "")


def code(char: str) -> str:
    """Format a code point: U+00A0."""
    return f"U+{ord(char):04X}"


def name_of(char: str) -> str:
    """Return the Unicode name of a character, or its category if it has no name."""
    return unicodedata.name(char, unicodedata.category(char))


def _scripts(counts: Counter[str]) -> Counter[str]:
    """Count letters by the first word of their Unicode names: Latin, Cjk, Cyrillic."""
    scripts: Counter[str] = Counter()
    for char, number in counts.items():
        if char.isalpha():
            scripts[name_of(char).partition(" ")[0].capitalize()] += number
    return scripts
