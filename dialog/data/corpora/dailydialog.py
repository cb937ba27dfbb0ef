"""DailyDialog (Li et al. 2017, https://aclanthology.org/I17-1099)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat, zip_longest
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.records import alternating, records
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry
from dialog.data.reading.files import all_or_none, find_file, raw_lines
from dialog.errors import UserError

END = "__eou__"
LABELS = {"acts": "act", "emotions": "emotion"}
NAMES = {
    "acts": dict(enumerate(("inform", "question", "directive", "commissive"), start=1)),
    "emotions": dict(
        enumerate(("none", "anger", "disgust", "fear", "happiness", "sadness", "surprise"))
    ),
}
"""Names of the numbers in the label files."""
SPLIT_TURN = "train-7852"
"""In other copies its turns 4 and 5 are one turn with one label."""
PUNCTUATION = str.maketrans(
    {"’": "'", "‘": "'", "′": "'", "“": '"', "”": '"', "—": "--", "–": "--", "。": ". ", "、": ", "}
)


class DailyDialog(FileCorpus):
    """Read DailyDialog's official archive.

    `<split>/dialogues_<split>.txt` holds a dialogue a line, with ` __eou__` after every turn.
    Speakers "A" and "B" alternate. Ids are `<split>-<line number>`. The files of acts and emotions,
    if present, give `meta["acts"]` and `meta["emotions"]`, one name a turn (`NAMES`); a line whose
    numbers of labels and turns differ, such as one in the published train, is read without labels
    and with a warning. A blank line is a dialogue without turns, and two marks in a row enclose a
    turn without text, so that filters can count them.

    Args:
        path: The unpacked archive.
        cleaned: Normalise the text as ParlAI does, for the data of Sankar et al. 2019: ASCII
            punctuation, full stops set apart, and the one turn of train that the archive splits in
            two joined.
    """

    def __init__(self, path: Path | None, *, cleaned: bool = False) -> None:
        content = "the unpacked archive (train/dialogues_train.txt, ...)"
        super().__init__(path, "dailydialog", content)
        self.cleaned = cleaned

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        text = self._text_file(split)
        labels = self._label_files(split)
        rows = chain(zip_longest(*map(raw_lines, labels.values())), repeat((None,) * len(labels)))
        lines = zip(byte_lines(text), rows, strict=False)
        items = ((place, (raw, dict(zip(labels, row, strict=True)))) for (place, raw), row in lines)
        return records(items, lambda item, place: self._dialogue(*item, split, place))

    def files(self) -> Iterable[Path]:
        """Return the files of all splits, including the label files."""
        for split in SPLITS:
            yield self._text_file(split)
            yield from self._label_files(split).values()

    def _text_file(self, split: str) -> Path:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        return find_file(self.path, f"{split}/dialogues_{split}.txt", hint)

    def _label_files(self, split: str) -> dict[str, Path]:
        """Map the keys of `meta` to the label files that exist."""
        files: dict[str, Path] = {}
        for key, kind in LABELS.items():
            for file in all_or_none(self.path / split, [f"dialogues_{kind}_{split}.txt"]):
                files[key] = file
        return files

    def _dialogue(
        self, raw: bytes, labels: dict[str, bytes | None], split: str, place: str
    ) -> Dialogue:
        id = f"{split}-{line_number(place)}"
        *texts, rest = (piece.strip(" ") for piece in decode_line(raw, place).split(END))
        if rest:
            raise UserError(f"{place}: text after the last {END}; end every turn with {END}")
        if self.cleaned:
            texts = [_cleaned(text) for text in texts]
            if (id, len(texts)) == (SPLIT_TURN, 12):
                texts[4:6] = [f"{texts[4]} {texts[5]}"]
        turns = alternating(texts)
        meta = {
            key: [NAMES[key].get(number, str(number)) for number in map(int, (line or b"").split())]
            for key, line in labels.items()
        }
        differing = [
            f"{len(values)} {key}" for key, values in meta.items() if len(values) != len(turns)
        ]
        if differing:
            warning = f"{len(turns)} turns but {', '.join(differing)}; read without them"
            return Dialogue(id, turns, {WARNING: f"{place}: {warning}"}, place=place)
        return Dialogue(id, turns, meta, place=place)


def _cleaned(text: str) -> str:
    return re.sub(r"\.(\w)", r" . \1", text.translate(PUNCTUATION)).strip()
