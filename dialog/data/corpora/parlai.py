"""Dialogues in ParlAI's text formats (Miller et al. 2017, https://aclanthology.org/D17-2014)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import Block, SplitFiles, block_records, decoded, numbered, require_path
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError

FORMAT = "`text:Hi !<tab>labels:Hello .<tab>episode_done:True`"
DONE = b"episode_done:True"


class ParlAI:
    r"""Reads a folder with `train.txt`, `valid.txt` and `test.txt`, or one file that is split by a rule.

    A line holds fields with tabs between them, each `<key>:<value>`: `text`, what "A" says, and `labels`, what "B"
    answers, are two turns; of more labels, with `|` between them, the first, and all of them are in `meta["labels"]`,
    a list an answer. `episode_done:True` ends a dialogue. In values `\n` is a line feed, `\t` a tab, `__PIPE__` a `|`.

    The older format is read too: `<number> <text>\t<labels>`, numbered from 1 in each dialogue. What is said without a
    label is said together with what follows it, on lines of its own.

    Other fields and empty lines are left out. Ids are `<split>-<number of the first line>`. The rule for one file is
    that of `parsing.records.share`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        train: What the training file is called, without `.txt`.
        validation: What the validation file is called.
        test: What the test file is called.
    """

    def __init__(
        self, path: Path | None, *, train: str = "train", validation: str = "valid", test: str = "test"
    ) -> None:
        path = require_path(path, "parlai", f"a folder with {train}.txt, {validation}.txt and {test}.txt, or a file")
        hint = f"it should hold lines like {FORMAT}; set data.path"
        self.files = SplitFiles(path, (".txt",), hint, (train, validation, test))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""

        def parse(block: Block[bytes], place: str) -> Dialogue:
            return _dialogue(block, place, split)

        def read(file: Path) -> Iterator[Entry]:
            lines = (line for line in numbered(file) if line[1].strip())
            return block_records(lines, _begins, parse)

        return self.files.entries(split, read)

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()


def _begins(block: Block[bytes], line: bytes) -> bool:
    return line.startswith(b"1 ") or DONE in block[-1][1].rstrip(b"\r\n").split(b"\t")


def _dialogue(block: Block[bytes], place: str, split: str) -> Dialogue:
    said: list[str] = []
    turns: list[Turn] = []
    labels: list[list[str]] = []
    for where, raw in block:
        text, answers = _exchange(decoded(raw, where), where)
        said.append(text)
        if answers:
            labels.append(answers)
            turns += [Turn("A", "\n".join(said)), Turn("B", answers[0])]
            said = []
    if said:
        turns.append(Turn("A", "\n".join(said)))
    meta = {"labels": labels} if any(len(each) > 1 for each in labels) else {}
    return Dialogue(f"{split}-{place.rpartition(':')[2]}", tuple(turns), meta, place=place)


def _exchange(line: str, place: str) -> tuple[str, list[str]]:
    """What is said, and the answers that are right."""
    if number := re.match(r"\d+ ", line):
        text, labels = [*line[number.end() :].split("\t"), ""][:2]
        return _plain(text), [_plain(label) for label in labels.split("|") if label]
    fields = dict(field.partition(":")[::2] for field in line.split("\t"))
    if "text" not in fields or "labels" not in fields:
        raise UserError(f"{place}: no text or no labels; write {FORMAT}")
    return _plain(fields["text"]), [_plain(label) for label in fields["labels"].split("|")]


def _plain(value: str) -> str:
    return value.replace("\\t", "\t").replace("\\n", "\n").replace("__PIPE__", "|")
