"""Switchboard: telephone conversations, in two transcriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash, split_by_lists
from dialog.data.corpora.parsing.tables import cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_file, find_files
from dialog.errors import UserError

COLUMNS = ("conversation_no", "caller", "act_tag", "text")
LISTS = {"train": "ws97-train-convs.list", "test": "ws97-test-convs.list"}
ASIDES = re.compile(r"<+[^<>]*>+|\*\[\[.*?\]\]|\*")
"""<laughter>, <<a dog>>, and the annotators' remarks, *[[listen]]."""
MARKS = re.compile(r"\{[A-Z]\b ?|[}\[\]+#]|\( ?\(|\) ?\)|-?/(?=\s|$)")
"""{F fillers, }, [ restarts, + restarts ], overlap#, (( uncertain words )), and ends of utterances,
/ or -/.
"""

MS98_NAME = "sw*A-ms98-a-trans.text"
SOUNDS = re.compile(r"\[(silence|noise|laughter|vocalized-noise)\]|<[be]_aside>")
WORDS = (
    (re.compile(r"\[laughter-(\S+)\]"), r"\1"),  # spoken with laughter
    (re.compile(r"\[[^/\s]+/(\S+)\]"), r"\1"),  # [mispronounced/intended]
    (re.compile(r"\[[^\]\s]+\]"), ""),  # the unspoken part of a word: ab[solute]-
    (re.compile(r"\{(\S+)\}"), r"\1"),  # a coinage
    (re.compile(r"_\d\b"), ""),  # a pronunciation variant: them_1
)


class Switchboard(FileCorpus):
    """Read the Switchboard Dialog Act Corpus as in https://github.com/cgpotts/swda:
    `sw00utt/sw_0001_4325.utt.csv`, ...

    See Jurafsky et al. 1997 and Stolcke et al. 2000. A file is a conversation. Consecutive
    utterances of a caller, "A" or "B", are one turn, joined by a space. Ids are the conversations'
    numbers, and `meta["acts"]` lists the dialogue acts of each turn's utterances.

    If the annotators' lists `ws97-train-convs.list` and `ws97-test-convs.list` lie beside the
    folders, they name train and test, and validation is the rest: 1,115, 19 and 21 conversations.
    Without the lists, `parsing.splits.split_by_hash` divides the conversations. Callers occur in
    several conversations.

    Args:
        path: The unpacked folder `swda`, or its parent.
        cleaned: Remove sounds, remarks, and the marks of fillers, restarts and ends of utterances;
            all words stay.
    """

    def __init__(self, path: Path | None, *, cleaned: bool = True) -> None:
        content = "the unpacked folder swda (sw00utt/sw_0001_4325.utt.csv, ...)"
        super().__init__(path, "switchboard", content)
        self.cleaned = cleaned

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names; malformed ones in
        train.
        """
        entries = records(((str(file), file) for file in self._tables()), self._dialogue)
        lists: dict[str, str] = {}
        for name, file in zip(LISTS, self._lists(), strict=False):
            for _, line in text_lines(file):
                lists |= dict.fromkeys(re.findall(r"\d{4}", line), name)
        return split_by_lists(entries, split, lists, "validation" if lists else None)

    def files(self) -> Iterable[Path]:
        """Return the files, including the lists."""
        return [*self._tables(), *self._lists()]

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `cleaned` to its value."""
        return {"cleaned": str(self.cleaned), **super().fingerprint()}

    def _folder(self) -> Path:
        swda = self.path / "swda"
        return swda if swda.is_dir() else self.path

    def _tables(self) -> list[Path]:
        hint = "unpack swda.zip, or set data.path=DIR"
        return find_files(self._folder(), "sw*utt/*.utt.csv", hint)

    def _lists(self) -> list[Path]:
        return all_or_none(self._folder(), [*LISTS.values()])

    def _dialogue(self, file: Path, place: str) -> Dialogue:
        rows = [cells(row) for _, row in table(file, COLUMNS)]
        turns: list[Turn] = []
        acts: list[list[str]] = []
        for caller, group in groupby(rows, key=lambda row: row["caller"].lstrip("@")):
            utterances = list(group)
            turns.append(Turn(caller, self._text(" ".join(row["text"] for row in utterances))))
            acts.append([row["act_tag"] for row in utterances])
        return Dialogue(rows[0]["conversation_no"], tuple(turns), {"acts": acts}, place=place)

    def _text(self, text: str) -> str:
        if self.cleaned:
            text = MARKS.sub("", ASIDES.sub(" ", text))
        return " ".join(text.split())


class SwitchboardMS98(FileCorpus):
    """Read Mississippi State's transcripts of Switchboard: `**/sw2001A-ms98-a-trans.text` and its B
    side.

    See Deshmukh et al. 1998. A line is a segment with its start and end in seconds. Segments of
    both sides are sorted by start; consecutive segments of "A" or "B" are one turn, joined by a
    space. Segments without a word are skipped. Words are lower-case without punctuation;
    [laughter-so] is read as so, [splain/explain] as explain, ab[solute]- as ab-, them_1 as them.
    Ids are the conversations' numbers. `parsing.splits.split_by_hash` divides the conversations.

    Args:
        path: The unpacked folder `swb_ms98_transcriptions`, or its parent.
    """

    def __init__(self, path: Path | None) -> None:
        content = "the unpacked folder swb_ms98_transcriptions"
        super().__init__(path, "switchboard_ms98", content)

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' paths."""
        items = ((str(first), (first, second)) for first, second in self._pairs())
        return split_by_hash(records(items, _conversation), split)

    def files(self) -> Iterable[Path]:
        """Return the files of both sides."""
        return (file for pair in self._pairs() for file in pair)

    def _pairs(self) -> Iterator[tuple[Path, Path]]:
        """Yield the files of A and B of each conversation."""
        hint = "unpack switchboard_word_alignments.tar.gz, or set data.path=DIR"
        for first in find_files(self.path, f"**/{MS98_NAME}", hint):
            name = first.name.partition(".text")[0].replace("A-", "B-", 1)
            reason = f"it is the other side of {first.name}"
            yield first, find_file(first.parent, f"{name}.text", reason)


def _conversation(sides: tuple[Path, Path], place: str) -> Dialogue:
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
