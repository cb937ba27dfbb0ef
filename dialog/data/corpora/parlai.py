"""ParlAI's text formats (Miller et al. 2017, https://aclanthology.org/D17-2014), and PersonaChat in
ParlAI's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus, SplitFileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.records import Block, block_records
from dialog.data.corpora.parsing.splits import sha256_number
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

FORMAT = "`text:Hi !<tab>labels:Hello .<tab>episode_done:True`"
DONE = b"episode_done:"
SILENCE = ("__SILENCE__", "<SILENCE>")
"""Marks of a missing turn."""
PARTS = {"train": "train", "validation": "valid", "test": "test"}
PERSONAS = {"your persona: ": "B", "partner's persona: ": "A"}


class ParlAI(SplitFileCorpus):
    r"""Read ParlAI's text formats: `train.txt`, `valid.txt` and `test.txt`, or one file.

    A line holds fields `<key>:<value>` separated by tabs. `text`, by "A", and `labels`, by "B", are
    two turns. `episode_done:` with any value, even `False`, ends a dialogue, as in ParlAI.
    `__SILENCE__` and `<SILENCE>` stand for a missing turn. Of several labels, separated by `|`, the
    first is the turn; `meta["labels"]` then lists all labels of each answer. In values, `\n` is a
    line feed, `\t` a tab, `__PIPE__` a `|`.

    In the older format, `<number> <text>\t<labels>`, numbers start at 1 in each dialogue. A text
    without a label becomes part of the next turn, as a line of its own.

    Other fields and empty lines are ignored. Ids are `<split>-<number of the first line>`. One file
    is divided by `parsing.splits.split_by_hash`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        train: Name of the training file, without `.txt`.
        validation: Name of the validation file, without `.txt`.
        test: Name of the test file, without `.txt`.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        train: str = "train",
        validation: str = "valid",
        test: str = "test",
    ) -> None:
        hint = f"it should hold lines like {FORMAT}; set data.path"
        super().__init__(path, "parlai", (".txt",), hint, (train, validation, test))

    def read(self, file: Path, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a file."""
        lines = (line for line in byte_lines(file) if line[1].strip())
        return block_records(lines, _begins, lambda block, place: _dialogue(block, place, split))


def _begins(block: Block[bytes], line: bytes) -> bool:
    fields = block[-1][1].rstrip(b"\r\n").split(b"\t")
    return line.startswith(b"1 ") or any(
        field.startswith(DONE) and field != DONE for field in fields
    )


def _dialogue(block: Block[bytes], place: str, split: str) -> Dialogue:
    texts: list[str] = []
    turns: list[Turn] = []
    labels: list[list[str]] = []
    for where, raw in block:
        text, answers = _exchange(decode_line(raw, where), where)
        texts.append(text)
        if answers:
            labels.append(answers)
            turns += _without_silence([Turn("A", "\n".join(texts)), Turn("B", answers[0])])
            texts = []
    if texts:
        turns.append(Turn("A", "\n".join(texts)))
    meta = {"labels": labels} if any(len(answers) > 1 for answers in labels) else {}
    return Dialogue(f"{split}-{line_number(place)}", tuple(turns), meta, place=place)


def _exchange(line: str, place: str) -> tuple[str, list[str]]:
    """Return the text and its labels."""
    if number := re.match(r"\d+ ", line):
        text, labels = [*line[number.end() :].split("\t"), ""][:2]
        return _unescaped(text), [_unescaped(label) for label in labels.split("|") if label]
    fields = dict(field.partition(":")[::2] for field in line.split("\t"))
    if "text" not in fields or "labels" not in fields:
        raise UserError(f"{place}: no text or no labels; write {FORMAT}")
    return _unescaped(fields["text"]), [_unescaped(label) for label in fields["labels"].split("|")]


def _unescaped(value: str) -> str:
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("__PIPE__", "|")


class PersonaChat(FileCorpus):
    r"""Read ParlAI's files of PersonaChat or ConvAI2: `<part>_<persona>.txt` for the parts train,
    valid and test.

    See Zhang et al. 2018, https://aclanthology.org/P18-1205. Lines are numbered from 1 in each
    dialogue: `<number> your persona: <text>`, `<number> partner's persona: <text>`, or two turns,
    `<number> <A>\t<B>`, followed by two tabs, a reward and candidates, which are ignored.
    `__SILENCE__` is a missing turn. "Your" persona is a fact that B knows, the partner's a fact
    that A knows. Ids are `<split>-<number of the first line in the file>`. Train lists each
    dialogue twice, once from each side.

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
        super().__init__(path, "personachat", f"the unpacked archive (train_{persona}.txt, ...)")
        self.persona = persona
        self.halves = halves

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        entries = block_records(
            byte_lines(self._file(split)),
            lambda _, raw: raw.startswith(b"1 "),
            lambda block, place: _exchanges(block, place, split),
        )
        if not self.halves or split == "train":
            return entries
        return (entry for entry in entries if _half(entry) == split)

    def files(self) -> Iterable[Path]:
        """Return the files of the splits."""
        return map(self._file, SPLITS)

    def _file(self, split: str) -> Path:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        if split == "test":
            hint += ", or for ConvAI2, which has no test, data.corpus.halves=true"
        part = PARTS["validation" if self.halves and split == "test" else split]
        return find_file(self.path, f"{part}_{self.persona}.txt", hint)


def _exchanges(block: Block[bytes], place: str, split: str) -> Dialogue:
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
            turns += _without_silence(map(Turn, "AB", fields))
        else:
            raise UserError(f"{where}: no tab; separate the two turns by a tab")
    return Dialogue(f"{split}-{line_number(place)}", tuple(turns), facts=tuple(facts), place=place)


def _half(entry: Entry) -> str:
    """Return validation or test; malformed entries count as validation."""
    if isinstance(entry, Malformed):
        return "validation"
    start = "\n".join(turn.text for turn in entry.turns[:2])
    return "test" if sha256_number(start) % 2 else "validation"


def _without_silence(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns whose text is not a mark of `SILENCE`."""
    return (turn for turn in turns if turn.text.strip() not in SILENCE)
