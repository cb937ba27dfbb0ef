"""PersonaChat (Zhang et al. 2018, https://aclanthology.org/P18-1205) and ConvAI2, as ParlAI hands them out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import Block, block_records, decoded, digests, numbered, require_path
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

PARTS = {"train": "train", "validation": "valid", "test": "test"}
PERSONAS = {"your persona: ": "B", "partner's persona: ": "A"}
SILENCE = "__SILENCE__"
"""Stands where the other should speak first, but does not: no turn."""


class PersonaChat:
    r"""Reads `<path>/<part>_<persona>.txt` of the parts train, valid and test: numbered lines, from 1 in each dialogue.

    A line is `<number> your persona: <text>`, or `<number> partner's persona: <text>`, or what "A" and "B" say,
    `<number> <A>\t<B>`, with a reward and candidates after two more tabs, which are left out. "Your" persona is a fact
    that B knows, the partner's one that A knows. Ids are `<split>-<number of the first line in the file>`. Where a part
    tells a dialogue from both sides, as train does, it is there twice, with the sides changed.

    ConvAI2 has no test part: with `halves`, the dialogues of valid whose first two turns, joined by a line feed, have
    an even SHA-256 are validation, the others test. Both sides of a dialogue begin alike, so no dialogue is in both.

    Args:
        path: The unpacked archive.
        persona: Whose persona the files tell, and in which words: `self_original`, `both_revised`, `none_original`, ...
        halves: Whether valid is halved into validation and test.
    """

    def __init__(self, path: Path | None, *, persona: str = "self_original", halves: bool = False) -> None:
        self.path = require_path(path, "personachat", f"the unpacked archive (train_{persona}.txt, ...)")
        self.persona = persona
        self.halves = halves

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        found = block_records(
            numbered(self._file(split)),
            lambda _, raw: raw.startswith(b"1 "),
            lambda block, place: _dialogue(block, place, split),
        )
        if not self.halves or split == "train":
            return found
        return (entry for entry in found if _half(entry) == split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, map(self._file, SPLITS))

    def _file(self, split: str) -> Path:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        if split == "test":
            hint += ", or for ConvAI2, which has no test, data.corpus.halves=true"
        part = PARTS["validation" if self.halves and split == "test" else split]
        return find_file(self.path, f"{part}_{self.persona}.txt", hint)


def _dialogue(block: Block[bytes], place: str, split: str) -> Dialogue:
    facts: list[Turn] = []
    turns: list[Turn] = []
    for number, (where, raw) in enumerate(block, start=1):
        found = re.fullmatch(r"(\d+) (.*)", decoded(raw, where), re.DOTALL)
        if not found or int(found[1]) != number:
            raise UserError(f"{where}: not line {number} of its dialogue; number the lines from 1")
        persona = next((start for start in PERSONAS if found[2].startswith(start)), "")
        said = [each.strip(" ") for each in found[2].split("\t")]
        if persona:
            facts.append(Turn(PERSONAS[persona], said[0].removeprefix(persona)))
        elif len(said) > 1:
            turns += [Turn(speaker, text) for speaker, text in zip("AB", said[:2], strict=True) if text != SILENCE]
        else:
            raise UserError(f"{where}: no tab between what is said and the answer to it")
    return Dialogue(f"{split}-{place.rpartition(':')[2]}", tuple(turns), facts=tuple(facts), place=place)


def _half(entry: Entry) -> str:
    """What is malformed is counted with validation."""
    if isinstance(entry, Malformed):
        return "validation"
    begin = "\n".join(turn.text for turn in entry.turns[:2])
    return "test" if int(hashlib.sha256(begin.encode()).hexdigest(), 16) % 2 else "validation"
