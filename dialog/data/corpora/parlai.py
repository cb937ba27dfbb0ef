"""ParlAI's text formats (Miller et al. 2017, https://aclanthology.org/D17-2014)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.blocks import Block, block_records
from dialog.data.corpora.parsing.corpus_files import SplitFiles, require_path
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.silence import without_silence
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError

FORMAT = "`text:Hi !<tab>labels:Hello .<tab>episode_done:True`"
DONE = b"episode_done:"


class ParlAI:
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
        path = require_path(
            path, "parlai", f"a folder with {train}.txt, {validation}.txt and {test}.txt, or a file"
        )
        hint = f"it should hold lines like {FORMAT}; set data.path"
        self.files = SplitFiles(path, (".txt",), hint, (train, validation, test))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""

        def parse(block: Block[bytes], place: str) -> Dialogue:
            return _dialogue(block, place, split)

        def read(file: Path) -> Iterator[Entry]:
            lines = (line for line in byte_lines(file) if line[1].strip())
            return block_records(lines, _begins, parse)

        return self.files.entries(split, read)

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()


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
            turns += without_silence([Turn("A", "\n".join(texts)), Turn("B", answers[0])])
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
