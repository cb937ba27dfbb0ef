"""PersonaChat (Zhang et al. 2018, https://aclanthology.org/P18-1205) and ConvAI2, in ParlAI's
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.blocks import Block, block_records
from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.silence import without_silence
from dialog.data.corpora.parsing.splits import sha256_number
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

PARTS = {"train": "train", "validation": "valid", "test": "test"}
PERSONAS = {"your persona: ": "B", "partner's persona: ": "A"}


class PersonaChat:
    r"""Read ParlAI's files of PersonaChat or ConvAI2: `<part>_<persona>.txt` for the parts train,
    valid and test.

    Lines are numbered from 1 in each dialogue: `<number> your persona: <text>`,
    `<number> partner's persona: <text>`, or two turns, `<number> <A>\t<B>`, followed by two tabs, a
    reward and candidates, which are ignored. `__SILENCE__` is a missing turn. "Your" persona is a
    fact that B knows, the partner's a fact that A knows. Ids are
    `<split>-<number of the first line in the file>`.
    Train lists each dialogue twice, once from each side.

    ConvAI2 has no test part: with `halves`, a dialogue of valid is in validation if the SHA-256 of
    its first two turns, joined by a line feed, is even, else in test. Both sides of a dialogue
    begin alike, so they stay together.

    Args:
        path: The unpacked archive.
        persona: Persona in the file names: `self_original`, `both_revised`, `none_original`, ...
        halves: Divide valid into validation and test.
    """

    def __init__(
        self, path: Path | None, *, persona: str = "self_original", halves: bool = False
    ) -> None:
        self.path = require_path(
            path, "personachat", f"the unpacked archive (train_{persona}.txt, ...)"
        )
        self.persona = persona
        self.halves = halves

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        entries = block_records(
            byte_lines(self._file(split)),
            lambda _, raw: raw.startswith(b"1 "),
            lambda block, place: _dialogue(block, place, split),
        )
        if not self.halves or split == "train":
            return entries
        return (entry for entry in entries if _half(entry) == split)

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
        match = re.fullmatch(r"(\d+) (.*)", decode_line(raw, where), re.DOTALL)
        if not match or int(match[1]) != number:
            raise UserError(f"{where}: not line {number} of its dialogue; number the lines from 1")
        persona = next((start for start in PERSONAS if match[2].startswith(start)), "")
        fields = [field.strip(" ") for field in match[2].split("\t")]
        if persona:
            facts.append(Turn(PERSONAS[persona], fields[0].removeprefix(persona)))
        elif len(fields) > 1:
            turns += without_silence(map(Turn, "AB", fields))
        else:
            raise UserError(f"{where}: no tab; separate the two turns by a tab")
    return Dialogue(f"{split}-{line_number(place)}", tuple(turns), facts=tuple(facts), place=place)


def _half(entry: Entry) -> str:
    """Return validation or test; malformed entries count as validation."""
    if isinstance(entry, Malformed):
        return "validation"
    start = "\n".join(turn.text for turn in entry.turns[:2])
    return "test" if sha256_number(start) % 2 else "validation"
