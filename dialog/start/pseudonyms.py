"""A copy of a corpus with pseudonyms for its speakers, and without numbers and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dialog.atomic import replacing
from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue
from dialog.errors import UserError
from dialog.escaping import to_json

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
LINK = re.compile(r"(?:https?://|www\.)\S+")
NUMBER = re.compile(r"\d(?:[\d \-/.()]*\d)?")
FEWEST_DIGITS = 3
"""Digits from which a number may be that of a telephone, account or order."""
SHORTEST_NAME = 3
"""Letters of a speaker's name below which it is also a common word, such as `Jo` or `An`."""

ROLES = {"a", "b", "user", "assistant", "agent", "customer", "bot", "system", "client", "support"}
"""Speakers that are no persons."""


def write_pseudonymous(corpus: Corpus, file: Path) -> tuple[int, dict[str, str]]:
    """Write the dialogues of a corpus as JSON lines, with pseudonyms; return their number and the
    pseudonyms by speaker.

    Speakers become `Person 1`, ...; their names in texts too, each word of a name alone as well.
    Addresses of e-mail become `name@example.org`, links `https://example.org`, and the digits of
    numbers with at least `FEWEST_DIGITS` become 0. Other names are not recognised.

    Raises:
        UserError: the file exists.
    """
    if file.exists():
        raise UserError(f"{file} exists; remove it, or choose another --name")
    names = pseudonyms(turn.speaker for dialogue in _dialogues(corpus) for turn in dialogue.turns)
    replaced = Replacement(names)
    count = 0
    with replacing(file) as new, new.open("w", encoding="utf-8") as lines:
        for count, dialogue in enumerate(_dialogues(corpus), start=1):
            turns = [
                {"speaker": names[turn.speaker], "text": replaced.text(turn.text)}
                for turn in dialogue.turns
            ]
            lines.write(to_json({"id": f"d{count}", "turns": turns}) + "\n")
    return count, names


def pseudonyms(speakers: Iterable[str]) -> dict[str, str]:
    """Map speakers to pseudonyms, numbered in the order of their first turns; roles stay."""
    names: dict[str, str] = {}
    persons = 0
    for speaker in speakers:
        if speaker in names:
            continue
        if speaker.casefold() in ROLES:
            names[speaker] = speaker
        else:
            persons += 1
            names[speaker] = f"Person {persons}"
    return names


class Replacement:
    """Replaces names, addresses, links and numbers in texts.

    Args:
        names: Pseudonyms by speaker.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        words: dict[str, str] = {}
        for speaker, pseudonym in names.items():
            if speaker != pseudonym:
                for name in (speaker, *re.findall(r"[^\W\d_]+", speaker)):
                    if len(name) >= SHORTEST_NAME:
                        words.setdefault(name, pseudonym)
                        words.setdefault(name.casefold(), pseudonym)  # STRASSE for Straße
        longest_first = sorted(words, key=len, reverse=True)
        self.pseudonyms = [words[name] for name in longest_first]
        """Pseudonym of each group of the pattern."""
        groups = "|".join(f"({re.escape(name)})" for name in longest_first)
        self.pattern = re.compile(rf"\b(?:{groups})\b", re.IGNORECASE) if groups else None

    def text(self, text: str) -> str:
        """Return a text without names, addresses, links and numbers."""
        text = LINK.sub("https://example.org", ADDRESS.sub("name@example.org", text))
        parts: list[str] = []
        end = 0
        for match in self.pattern.finditer(text) if self.pattern is not None else ():
            assert match.lastindex is not None
            # a pseudonym keeps its own number
            parts.append(NUMBER.sub(_without_digits, text[end : match.start()]))
            parts.append(self.pseudonyms[match.lastindex - 1])
            end = match.end()
        return "".join(parts) + NUMBER.sub(_without_digits, text[end:])


def _without_digits(match: re.Match[str]) -> str:
    if sum(char.isdigit() for char in match[0]) < FEWEST_DIGITS:
        return match[0]
    return re.sub(r"\d", "0", match[0])


def _dialogues(corpus: Corpus) -> Iterator[Dialogue]:
    for split in SPLITS:
        for entry in corpus.dialogues(split):
            if isinstance(entry, Dialogue):
                yield entry
