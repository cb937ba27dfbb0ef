"""Switchboard in Mississippi State University's transcription (Deshmukh et al. 1998): telephone
conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, find_files
from dialog.errors import UserError

NAME = "sw*A-ms98-a-trans.text"
SOUNDS = re.compile(r"\[(silence|noise|laughter|vocalized-noise)\]|<[be]_aside>")
WORDS = (
    (re.compile(r"\[laughter-(\S+)\]"), r"\1"),  # spoken with laughter
    (re.compile(r"\[[^/\s]+/(\S+)\]"), r"\1"),  # [mispronounced/intended]
    (re.compile(r"\[[^\]\s]+\]"), ""),  # the unspoken part of a word: ab[solute]-
    (re.compile(r"\{(\S+)\}"), r"\1"),  # a coinage
    (re.compile(r"_\d\b"), ""),  # a pronunciation variant: them_1
)


class SwitchboardMS98:
    """Read Mississippi State's transcripts of Switchboard: `**/sw2001A-ms98-a-trans.text` and its B
    side.

    A line is a segment with its start and end in seconds. Segments of both sides are sorted by
    start; consecutive segments of "A" or "B" are one turn, joined by a space. Segments without a
    word are skipped. Words are lower-case without punctuation; [laughter-so] is read as so,
    [splain/explain] as explain, ab[solute]- as ab-, them_1 as them. Ids are the conversations'
    numbers. `parsing.splits.split_by_hash` divides the conversations.

    Args:
        path: The unpacked folder `swb_ms98_transcriptions`, or its parent.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(
            path, "switchboard_ms98", "the unpacked folder swb_ms98_transcriptions"
        )

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' paths."""
        items = ((str(first), (first, second)) for first, second in self._pairs())
        return split_by_hash(records(items, _dialogue), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, (file for pair in self._pairs() for file in pair))

    def _pairs(self) -> Iterator[tuple[Path, Path]]:
        """Yield the files of A and B of each conversation."""
        hint = "unpack switchboard_word_alignments.tar.gz, or set data.path=DIR"
        for first in find_files(self.path, f"**/{NAME}", hint):
            name = first.name.partition(".text")[0].replace("A-", "B-", 1)
            yield (
                first,
                find_file(first.parent, f"{name}.text", f"it is the other side of {first.name}"),
            )


def _dialogue(sides: tuple[Path, Path], place: str) -> Dialogue:
    speakers = zip("AB", sides, strict=True)
    segments = sorted(segment for speaker, file in speakers for segment in _segments(file, speaker))
    groups = groupby(segments, key=lambda segment: segment[1])
    turns = tuple(
        Turn(speaker, " ".join(text for _, _, text in group)) for speaker, group in groups
    )
    return Dialogue(sides[0].name[2:6], turns, place=place)


def _segments(file: Path, speaker: str) -> Iterator[tuple[float, str, str]]:
    """Yield (start, speaker, words) of the segments with at least one word."""
    for place, line in text_lines(file):
        _, start, _, *words = line.split()
        if text := " ".join(spoken for word in words if (spoken := _spoken(word))):
            yield _seconds(start, place), speaker, text


def _spoken(word: str) -> str:
    word = SOUNDS.sub("", word)
    for pattern, replacement in WORDS:
        word = pattern.sub(replacement, word)
    return word


def _seconds(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(
            f"{place}: {text!r} is not a time in seconds; correct or remove it"
        ) from error
