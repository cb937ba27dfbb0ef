"""DailyDialog (Li et al. 2017, https://aclanthology.org/I17-1099), as its official archive holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, repeat, zip_longest
from pathlib import Path

from dialog.data.corpora.parsing.records import decoded, digests, numbered, records, require_path
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_file, raw_lines
from dialog.errors import UserError

END = "__eou__"
LABELS = {"acts": "act", "emotions": "emotion"}
SPLIT_IN_TWO = "train-7852"
"""Its turns 4 and 5 are one turn, with one label, in other copies in circulation."""
SIGNS = str.maketrans({"’": "'", "‘": "'", "′": "'", "“": '"', "”": '"', "—": "--", "–": "--", "。": ". ", "、": ", "})


class DailyDialog:
    """Reads `<path>/<split>/dialogues_<split>.txt`: a dialogue a line, ` __eou__` after every turn.

    Two speakers, "A" and "B", alternate. Ids are `<split>-<line number>`. The files of acts and emotions, where they
    are there, become `meta["acts"]` and `meta["emotions"]`, a number a turn; a line with another number of labels than
    turns, as the published train has one, is read without them and with a warning. A blank line is a dialogue without
    turns and nothing between two marks is a turn without text, so that whoever drops them can count them.

    Args:
        path: The unpacked archive.
        cleaned: Whether the text is as ParlAI has it, on which Sankar et al. 2019 measured: signs as ASCII, full stops
            set apart, the turn that is split in two in train in one piece.
    """

    def __init__(self, path: Path | None, *, cleaned: bool = False) -> None:
        self.path = require_path(path, "dailydialog", "the unpacked archive (train/dialogues_train.txt, ...)")
        self.cleaned = cleaned

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        text, *labels = self._files(split)
        names = [name for name, kind in LABELS.items() for file in labels if file.name.startswith(_labels(kind, split))]
        columns = zip_longest(*map(raw_lines, labels)) if labels else repeat(())
        labelled = (dict(zip(names, column, strict=True)) for column in chain(columns, repeat((None,) * len(names))))
        items = ((place, (raw, each)) for (place, raw), each in zip(numbered(text), labelled, strict=False))
        return records(items, lambda item, place: self._dialogue(*item, split, place))

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, (file for split in SPLITS for file in self._files(split)))

    def _files(self, split: str) -> list[Path]:
        """The text of a split, and those of its labels that are there."""
        text = find_file(
            self.path, f"{split}/dialogues_{split}.txt", "the unpacked archive should hold it; set data.path=DIR"
        )
        labels = (all_or_none(self.path / split, [_labels(kind, split)]) for kind in LABELS.values())
        return [text, *chain.from_iterable(labels)]

    def _dialogue(self, raw: bytes, labels: dict[str, bytes | None], split: str, place: str) -> Dialogue:
        id = f"{split}-{place.rpartition(':')[2]}"
        *texts, rest = (piece.strip(" ") for piece in decoded(raw, place).split(END))
        if rest:
            raise UserError(f"{place}: text after the last {END}; end every turn with {END}")
        if self.cleaned:
            texts = [_cleaned(text) for text in texts]
            if (id, len(texts)) == (SPLIT_IN_TWO, 12):
                texts[4:6] = [f"{texts[4]} {texts[5]}"]
        turns = tuple(Turn("AB"[position % 2], text) for position, text in enumerate(texts))
        meta = {name: [int(each) for each in (found or b"").split()] for name, found in labels.items()}
        odd = [f"{len(found)} {name}" for name, found in meta.items() if len(found) != len(turns)]
        warning = {WARNING: f"{place}: {len(turns)} turns but {', '.join(odd)}; read without them"}
        return Dialogue(id, turns, warning if odd else meta, place=place)


def _labels(kind: str, split: str) -> str:
    return f"dialogues_{kind}_{split}.txt"


def _cleaned(text: str) -> str:
    return re.sub(r"\.(\w)", r" . \1", text.translate(SIGNS)).strip()
