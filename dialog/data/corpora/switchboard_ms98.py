"""Switchboard as Mississippi State University transcribed it anew (Deshmukh et al. 1998): talk over the telephone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, numbered_lines, records, require_path, share
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, find_files
from dialog.errors import UserError

NAME = "sw*A-ms98-a-trans.text"
SOUNDS = re.compile(r"\[(silence|noise|laughter|vocalized-noise)\]|<[be]_aside>")
WORDS = (
    (re.compile(r"\[laughter-(\S+)\]"), r"\1"),  # said with laughter
    (re.compile(r"\[[^/\s]+/(\S+)\]"), r"\1"),  # [mispronounced/meant]
    (re.compile(r"\[[^\]\s]+\]"), ""),  # the part of a word that is not heard: ab[solute]-
    (re.compile(r"\{(\S+)\}"), r"\1"),  # a coinage
    (re.compile(r"_\d\b"), ""),  # another pronunciation: them_1
)


class SwitchboardMS98:
    """Reads `<path>/**/sw2001A-ms98-a-trans.text` and its like for B: segments with their begin and end in seconds.

    The segments of both sides stand in the order in which they begin; what "A" or "B" says before the other begins is
    one turn, its segments joined by a space, and segments without a word are none. Words are in small letters without
    punctuation; [laughter-so] is so, [splain/explain] explain, ab[solute]- ab-, them_1 them. Ids are the numbers of the
    conversations, split by the rule of `parsing.records.share`.

    Args:
        path: The unpacked folder `swb_ms98_transcriptions`, or what holds it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(path, "switchboard_ms98", "the unpacked folder swb_ms98_transcriptions")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' paths."""
        return share(records(((str(first), (first, second)) for first, second in self._pairs()), _dialogue), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, (file for pair in self._pairs() for file in pair))

    def _pairs(self) -> Iterator[tuple[Path, Path]]:
        """The files of A and B of each conversation."""
        for first in find_files(
            self.path, f"**/{NAME}", "unpack switchboard_word_alignments.tar.gz, or set data.path=DIR"
        ):
            name = first.name.partition(".text")[0].replace("A-", "B-", 1)
            yield first, find_file(first.parent, f"{name}.text", f"it is the other side of {first.name}")


def _dialogue(sides: tuple[Path, Path], place: str) -> Dialogue:
    segments = sorted(
        segment for speaker, file in zip("AB", sides, strict=True) for segment in _segments(file, speaker)
    )
    groups = groupby(segments, key=lambda segment: segment[1])
    turns = tuple(Turn(speaker, " ".join(text for _, _, text in group)) for speaker, group in groups)
    return Dialogue(sides[0].name[2:6], turns, place=place)


def _segments(file: Path, speaker: str) -> Iterator[tuple[float, str, str]]:
    """(begin, speaker, words) of the segments that hold a word."""
    for place, line in numbered_lines(file):
        _, begin, _, *words = line.split()
        if text := " ".join(spoken for word in words if (spoken := _spoken(word))):
            yield _seconds(begin, place), speaker, text


def _spoken(word: str) -> str:
    word = SOUNDS.sub("", word)
    for pattern, heard in WORDS:
        word = pattern.sub(heard, word)
    return word


def _seconds(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"{place}: {text!r} is no time in seconds; mend or remove it") from error
