"""The Self-dialogue Corpus (Fainberg et al. 2018, https://arxiv.org/abs/1809.06641): chat on 23
topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from dialog.config.components import lookup
from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.corpora.parsing.tables import Row, cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files, stem

SENTENCES = [f"Answer.sentence{number}" for number in range(1, 21)]
"""Columns of the turns in order; the files have them in alphabetical order."""
COLUMNS = ("AssignmentId", SENTENCES[0])
EMPTY = ("", "{}")
BLOCKED = "blocked_workers.txt"
HINT = "clone https://github.com/jfainberg/self_dialogue_corpus, or set data.path=DIR"


class SelfDialogue(FileCorpus):
    """Read the Self-dialogue Corpus: its repository (`corpus/<topic>/*.csv`), or a folder with one
    `<topic>.csv` each.

    A row is a dialogue of up to 20 turns; one person wrote both speakers, "A" and "B". Empty
    sentences and `{}` are not turns. Ids are the assignments' ids, `meta["topic"]` is the topic.
    Rejected rows and rows of the workers in `blocked_workers.txt` are skipped, as in the corpus's
    own script.

    `parsing.splits.split_by_hash` divides the dialogues by worker, `meta["author"]`.

    Args:
        path: A clone of the repository, or the folder.
        topics: Topics to read; null reads all.
    """

    def __init__(self, path: Path | None, *, topics: Sequence[str] | None = None) -> None:
        content = "the clone of its repository, or a folder with <topic>.csv"
        super().__init__(path, "selfdialogue", content)
        self.topics = topics

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, topics and their files in the order of their names."""
        blocked: set[str] = set()
        for file in all_or_none(self.path, [BLOCKED]):
            blocked.update(line.strip() for _, line in text_lines(file))
        for topic, files in self._tables().items():
            parse = partial(_dialogue, topic, blocked)
            for file in files:
                yield from split_by_hash(records(table(file, COLUMNS), parse), split)

    def files(self) -> Iterable[Path]:
        """Return the tables and the list of blocked workers."""
        return chain(all_or_none(self.path, [BLOCKED]), *self._tables().values())

    def _tables(self) -> dict[str, list[Path]]:
        """Map each topic to its files."""
        corpus = self.path / "corpus"
        files: dict[str, list[Path]] = {}
        if corpus.is_dir():
            for file in find_files(corpus, "*/*.csv", HINT):
                files.setdefault(file.parent.name, []).append(file)
        else:
            files = {stem(file): [file] for file in find_files(self.path, "*.csv", HINT)}
        topics = files if self.topics is None else self.topics
        return {topic: lookup(files, topic, "topic") for topic in topics}


def _dialogue(topic: str, blocked: set[str], row: Row, place: str) -> Dialogue | None:
    fields = cells(row)
    worker = fields["worker"] if "worker" in fields else fields["WorkerId"]
    if fields.get("Reject") or worker in blocked:
        return None
    texts = (fields.get(name, "") for name in SENTENCES)
    turns = tuple(
        Turn("AB"[index % 2], text) for index, text in enumerate(texts) if text not in EMPTY
    )
    return Dialogue(fields["AssignmentId"], turns, {"topic": topic, "author": worker}, place=place)
