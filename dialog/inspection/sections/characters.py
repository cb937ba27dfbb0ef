"""Which characters the text is of: scripts, and what has no business in it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.inspection.findings import Bars, Finding, Quote, Quoted, Table, place, share
from dialog.report.measures import count

KINDS = {
    "replacement": "U+FFFD, where a byte could not be read",
    "control": "control characters",
    "format": "invisible: zero width, direction, soft hyphen",
    "space": "white space other than a space",
    "private": "private or unassigned",
}
HARMFUL = ("replacement", "control", "private")
MOJIBAKE = re.compile("[ÃÂ][\x80-\xbf]|â€|ï¿½")
"""UTF-8 that was read as Latin-1 or Windows-1252."""
SHOWN = 12
EXAMPLES = 5


class Characters:
    """Counts every character, and keeps where the odd ones are first."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.turns = 0
        self.mojibake: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.garbled: list[tuple[str, str]] = []

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Count the characters of a dialogue."""
        self.turns += len(dialogue.turns)
        for turn in dialogue.turns:
            self.counts[split].update(turn.text)
            if turn.text.isascii() and turn.text.isprintable():
                continue
            for char in set(turn.text):
                if char not in self.first and kind(char):
                    self.first[char] = place(dialogue)
            if MOJIBAKE.search(turn.text):
                self.mojibake[split] += 1
                self.garbled += [(place(dialogue), turn.text)][: EXAMPLES - len(self.garbled)]

    def finding(self, quote: Quote) -> Finding:
        """Scripts, odd characters with the place of the first, and what is not ASCII."""
        every: Counter[str] = Counter()
        for counts in self.counts.values():
            every.update(counts)
        odd = {char: times for char, times in every.most_common() if kind(char)}
        kinds = {each: sum(times for char, times in odd.items() if kind(char) == each) for each in KINDS}
        scripts = _scripts(every)
        letters = sum(scripts.values())
        other = [(char, times) for char, times in every.most_common() if not char.isascii() and not kind(char)]
        harmful, garbled = sum(kinds[each] for each in HARMFUL), self.mojibake.total()
        return Finding(
            "Characters",
            "bad" if harmful + garbled > 0.001 * self.turns else "look" if odd or garbled else "good",
            f"{count(harmful)} damaged or controlling, {count(sum(kinds.values()) - harmful)} odd, "
            f"{count(garbled)} garbled turns",
            f"{count(len(every))} different characters; {count(harmful)} that are damaged or control something, "
            f"{count(sum(kinds.values()) - harmful)} that are invisible or odd spaces; {count(garbled)} turns look "
            "like UTF-8 that was read as another encoding.",
            "Mend the corpus at these places; the tokenizer takes them as they are." if harmful or garbled else "",
            (
                Bars(
                    "Letters by script",
                    tuple((name, times, share(times, letters)) for name, times in scripts.most_common(8)),
                ),
                *([Table("Odd characters", ("", "times", "first in"), _rows(odd, self.first))] if odd else []),
                *([_spoken(other)] if other else []),
                *([Quoted("Turns that look garbled", tuple(self.garbled))] if self.garbled else []),
            ),
            {
                "different": len(every),
                "scripts": dict(scripts.most_common()),
                "odd": {
                    code(char): {"name": name_of(char), "kind": kind(char), "count": times, "first": self.first[char]}
                    for char, times in odd.items()
                },
                "mojibake_turns": {split: self.mojibake[split] for split in SPLITS},
                "not_ascii": {
                    split: sum(times for char, times in counts.items() if not char.isascii())
                    for split, counts in self.counts.items()
                },
            },
        )


def kind(char: str) -> str:
    """The kind of `KINDS` that a character is of, "" for one like any other."""
    if char == "\ufffd":
        return "replacement"
    category = unicodedata.category(char)
    if category in ("Zs", "Zl", "Zp") or char in "\t\n\r":
        return "" if char == " " else "space"
    return {"Cc": "control", "Cf": "format", "Co": "private", "Cn": "private", "Cs": "private"}.get(category, "")


def code(char: str) -> str:
    """U+00A0."""
    return f"U+{ord(char):04X}"


def name_of(char: str) -> str:
    """What Unicode calls a character."""
    return unicodedata.name(char, unicodedata.category(char))


def _scripts(every: Counter[str]) -> Counter[str]:
    """Letters by the first word of their Unicode name: LATIN, CJK, CYRILLIC."""
    scripts: Counter[str] = Counter()
    for char, times in every.items():
        if char.isalpha():
            scripts[name_of(char).partition(" ")[0].capitalize()] += times
    return scripts


def _rows(odd: dict[str, int], first: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    shown = list(odd.items())[:SHOWN]
    return tuple((f"{code(char)} {name_of(char)}", count(times), first[char]) for char, times in shown)


def _spoken(other: list[tuple[str, int]]) -> Table:
    rows = tuple((f"{char}  {code(char)} {name_of(char)}", count(times)) for char, times in other[:SHOWN])
    return Table("The most frequent characters outside ASCII", ("", "times"), rows)
