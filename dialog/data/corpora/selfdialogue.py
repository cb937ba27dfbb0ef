"""The Self-dialogue Corpus (Fainberg et al. 2018, https://arxiv.org/abs/1809.06641): chat on 23 topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from dialog.config.components import lookup
from dialog.data.corpora.parsing.records import digests, numbered_lines, records, require_path, share
from dialog.data.corpora.parsing.tables import Row, cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files, stem

SENTENCES = [f"Answer.sentence{number}" for number in range(1, 21)]
"""The columns in the order of the turns; in the files they are in that of the alphabet."""
COLUMNS = ("AssignmentId", SENTENCES[0])
EMPTY = ("", "{}")
BLOCKED = "blocked_workers.txt"
HINT = "clone https://github.com/jfainberg/self_dialogue_corpus, or set data.path=DIR"


class SelfDialogue:
    """Reads the official repository (`corpus/<topic>/*.csv`), or a folder with a `<topic>.csv` each.

    A row is a dialogue of up to 20 turns, which one person wrote for both speakers, "A" and "B"; empty sentences and
    `{}` are no turns. Ids are those of the assignments, `meta["topic"]` the topic and `meta["author"]` the worker, by
    whom the dialogues are split: see `parsing.records.share`. As in the corpus's own script, rows that were
    rejected, and those of the workers whom `blocked_workers.txt` names, are no dialogues.

    Args:
        path: The clone, or the folder.
        topics: Those that are read, all by default.
    """

    def __init__(self, path: Path | None, *, topics: Sequence[str] | None = None) -> None:
        self.path = require_path(path, "selfdialogue", "the clone of its repository, or a folder with <topic>.csv")
        self.topics = topics

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, topics and their files in the order of their names."""
        blocked = {line.strip() for file in all_or_none(self.path, [BLOCKED]) for _, line in numbered_lines(file)}
        for topic, files in self._files().items():
            for file in files:
                yield from share(records(table(file, COLUMNS), partial(_dialogue, topic, blocked)), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(
            self.path,
            [*all_or_none(self.path, [BLOCKED]), *(file for files in self._files().values() for file in files)],
        )

    def _files(self) -> dict[str, list[Path]]:
        """The files of each topic."""
        corpus = self.path / "corpus"
        if not corpus.is_dir():
            found = {stem(file): [file] for file in find_files(self.path, "*.csv", HINT)}
        else:
            found = {}
            for file in find_files(corpus, "*/*.csv", HINT):
                found.setdefault(file.parent.name, []).append(file)
        return {topic: lookup(found, topic, "topic") for topic in (found if self.topics is None else self.topics)}


def _dialogue(topic: str, blocked: set[str], row: Row, place: str) -> Dialogue | None:
    fields = cells(row)
    worker = fields["worker"] if "worker" in fields else fields["WorkerId"]
    if fields.get("Reject") or worker in blocked:
        return None
    texts = (fields.get(name, "") for name in SENTENCES)
    turns = tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts) if text not in EMPTY)
    return Dialogue(fields["AssignmentId"], turns, {"topic": topic, "author": worker}, place=place)
