"""Text: scripts and unusual characters, reserved strings, languages."""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from typing import Any

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS
from dialog.errors import install
from dialog.inspection.findings import (
    BarChart,
    Detail,
    Finding,
    Quotation,
    ReadDialogues,
    Table,
    by_split,
    filled,
    location,
    part_of,
    severity,
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
            severity(bad=harmful + garbled > 0.001 * self.turns, look=unusual or garbled or padded),
            f"{figures}, {count(padded)} with outer white space" if padded else figures,
            f"The text has {count(len(total))} different characters: {figures}. A garbled turn was"
            " decoded in a wrong encoding, such as Ã© for é. White space begins or ends"
            f" {counted(padded, 'turn')}.",
            " ".join(advice for number, advice in advices if number),
            self._details(total, unusual),
            self._data(total, unusual),
        )

    def _details(self, total: Counter[str], unusual: dict[str, int]) -> tuple[Detail, ...]:
        scripts = _scripts(total)
        bars = [
            (name, number, part_of(number, scripts.total()))
            for name, number in scripts.most_common(8)
        ]
        rows = [
            (f"{code(char)} {name_of(char)}", count(number), self.first[char])
            for char, number in unusual.items()
        ]
        others = [
            (f"{char}  {code(char)} {name_of(char)}", count(number))
            for char, number in total.most_common()
            if not char.isascii() and char not in unusual
        ]
        return (
            BarChart("Letters by script", tuple(bars)),
            *filled(
                Table("Unusual characters", ("", "count", "first in"), tuple(rows[:ROWS])),
                Table(
                    "Most frequent characters outside ASCII", ("", "count"), tuple(others[:ROWS])
                ),
                Quotation("Turns that look garbled", tuple(self.garbled)),
            ),
        )

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


# ------------------------------------------------------------------ reserved strings

RESERVED = re.compile(
    "|".join(
        [
            *map(re.escape, SPECIAL_TOKENS),
            r"__(?:SILENCE|eou|eot|start|end|null|unk|url|p1|p2)__",
            r"<(?:sos|eos|bos|go|eou|eot|sep|url|number|person|u|/u|br)>",
            r"\[(?:CLS|SEP|PAD|MASK|UNK|deleted|removed)\]",
            r"(?<!\w)_(?:UNK|EOS|GO|PAD)(?!\w)",
            r"\+\+\+\$\+\+\+",
            r"<\|(?:endoftext|im_start|im_end)\|>",
            r"&(?:amp|quot|lt|gt|nbsp|#39);",
        ]
    )
)
RESERVED_EXAMPLES = 8


class ReservedSection:
    """Counts our special tokens, those of other systems, and HTML entities.

    Text never becomes a special token, so the tokenizer learns these strings as words and models
    generate them.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.examples: dict[str, tuple[str, str]] = {}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Count the reserved strings of a dialogue."""
        for turn in dialogue.turns:
            strings = RESERVED.findall(turn.text)
            self.counts[split].update(strings)
            for string in strings:
                self.examples.setdefault(string, (location(dialogue), turn.text))

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return each string with its counts and its first turn."""
        total = sum(self.counts.values(), Counter[str]())
        strings = [string for string, _ in total.most_common()]
        labels = dict(zip(strings, strings, strict=True))
        examples = tuple(self.examples[string] for string in strings[:RESERVED_EXAMPLES])
        occurrences = counted(total.total(), "occurrence")
        summary = "The text contains no turn markers, special tokens or HTML entities."
        advice = ""
        if total:
            summary = f"{occurrences} of turn markers, special tokens or HTML entities."
            advice = (
                "Remove them from the corpus: the tokenizer learns them as words, and the model"
                " generates them."
            )
        return Finding(
            "Reserved strings",
            severity(bad=total),
            occurrences,
            summary,
            advice,
            filled(
                by_split(
                    "Strings", labels, lambda string, split: count(self.counts[split][string])
                ),
                Quotation("First turn with each string", examples),
            ),
            {
                string: {
                    "first": self.examples[string][0],
                    **{split: self.counts[split][string] for split in SPLITS},
                }
                for string in strings
            },
        )


# ------------------------------------------------------------------ languages

SAMPLE = 1000
"""Dialogues per split, drawn uniformly by reservoir sampling (Vitter 1985, algorithm R)."""
CHARACTERS = 600
MINORITY = 0.02


class LanguageSection:
    """Classifies dialogues with py3langid (Lui and Baldwin 2012, langid.py), if it is installed.

    The classifier often confuses languages of one script and misjudges short dialogues, so
    languages below `MINORITY` of the sample do not raise the severity.
    """

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.sizes: Counter[str] = Counter()
        self.sample: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Draw a dialogue into the sample, or skip it."""
        self.sizes[split] += 1
        sample = self.sample[split]
        index = len(sample) if len(sample) < SAMPLE else self.random.randrange(self.sizes[split])
        if index < SAMPLE:
            text = " ".join(turn.text for turn in dialogue.turns)[:CHARACTERS]
            sample[index : index + 1] = [(dialogue.id, text)]

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the languages of the sample, with dialogues of the rare ones."""
        try:
            from py3langid import classify
        except ImportError:
            return Finding(
                "Languages",
                "good",
                "not checked",
                "Only scripts were checked (see Characters): py3langid is not installed.",
                f"Install it: {install('inspect')}.",
                data={"sample": 0},
            )
        languages = {
            split: [str(classify(text)[0]) for _, text in self.sample[split]] for split in SPLITS
        }
        counts = Counter(language for split in SPLITS for language in languages[split])
        total = counts.total()
        main = [language for language, number in counts.items() if number >= MINORITY * total]
        rare: list[tuple[str, str]] = []
        for split in SPLITS:
            for (id, text), language in zip(self.sample[split], languages[split], strict=True):
                if language not in main:
                    rare.append((f"{id} ({language})", text))
        names = " and ".join(sorted(main))
        summary = "No dialogues to sample."
        if total:
            summary = (
                f"{part_of(total - len(rare), total)} of {count(total)} dialogues sampled from all"
                f" splits are in {names}."
            )
        bars = [
            (language, number, part_of(number, total)) for language, number in counts.most_common(8)
        ]
        return Finding(
            "Languages",
            severity(bad=False, look=len(main) > 1),
            names,
            summary,
            "",
            (
                BarChart("Sampled dialogues by language (ISO 639-1)", tuple(bars)),
                *filled(Quotation("Classified as another language", tuple(rare[:EXAMPLES]))),
            ),
            {
                "sample": total,
                **{split: dict(Counter(languages[split]).most_common()) for split in SPLITS},
            },
        )
