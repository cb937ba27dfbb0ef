"""Data sets of the Hugging Face Hub, and Parquet files as the Hub stores them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from dialog.data.corpora.parsing.chat_messages import check_text_only, parse_chat
from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Dialogue, Entry
from dialog.data.reading.downloads import is_offline
from dialog.data.reading.files import find_names, require_file
from dialog.data.reading.json_text import Json
from dialog.data.reading.parquet import INSTALL, Row, RowOrError, read_rows, row_groups
from dialog.data.reading.parts import Part, grouped
from dialog.errors import UserError

SPEAKERS = ("role", "speaker", "from")
TEXTS = ("content", "text", "value")

PATTERNS = ("{}.parquet", "{}-*.parquet", "data/{}-*.parquet", "{}/*.parquet")
"""File names for a split: one file, the shards of a repository, the shards of the Hub's own
conversion.
"""


class HuggingFace:
    """Read Parquet files, or with `dataset` a data set of the Hugging Face Hub.

    A row is a dialogue. Its column `turns` lists texts (speakers "A" and "B" alternate) or messages
    with a `role`, `speaker` or `from` and a `content`, `text` or `value`. System and developer
    messages before the first turn become facts known to both. Later ones, tool messages and tool
    calls are malformed. With `context` and `response`, these two columns are the two turns. Ids are
    `<split>-<row number>` unless `id` names a column.

    A single file, or a data set with one name for all splits, is divided by
    `parsing.splits.split_by_hash`. A data set is streamed, runs no code and is pinned to a commit,
    so that it cannot change. Needs the extra `hf`.

    Args:
        path: Folder (`train.parquet`, `train-00000-of-00002.parquet`, `data/...`) or file; not with
            `dataset`.
        dataset: Name on the Hub, `owner/name`.
        config: Configuration of a data set that has several.
        revision: Commit of the data set, 40 hexadecimal digits, from its history on the Hub.
        turns: Column of the turns.
        context: Column of the first turn, if a row is a pair.
        response: Column of the second turn.
        id: Column of the id.
        train: Name of the training split.
        validation: Name of the validation split.
        test: Name of the test split.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        dataset: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        turns: str = "messages",
        context: str | None = None,
        response: str | None = None,
        id: str | None = None,
        train: str = "train",
        validation: str = "validation",
        test: str = "test",
    ) -> None:
        if len({train, validation, test}) == 2:
            raise UserError(
                "corpus huggingface: two splits have the same name; give three names, or one"
                " for all"
            )
        if (context is None) != (response is None):
            raise UserError(
                "corpus huggingface: only one of context and response is set; set both or neither"
            )
        if dataset is None:
            path = require_path(
                path, "huggingface", "a folder of Parquet files (or set data.corpus.dataset)"
            )
        elif Path(dataset).exists():
            raise UserError(
                f"corpus huggingface: dataset {dataset} is a local path; set it as data.path"
            )
        elif not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
            raise UserError(
                f"corpus huggingface: set revision to a commit of {dataset}, all 40 digits"
            )
        self.path = Path(path) if path else Path()
        self.dataset = dataset
        self.config = config
        self.revision = revision
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))
        self.columns = (context, response) if context and response else (turns,)
        self.id = id

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its rows."""
        return self._dialogues(self._rows(split), split, 1)

    def parts(self, split: str) -> Sequence[Part]:
        """Return runs of row groups of a split's files; a data set of the Hub has none."""
        if self.dataset:
            return ()
        groups = [row_groups(file) for file in _split_shards(self.path, self.names[split])]
        total = sum(group.bytes for groups_of_file in groups for group in groups_of_file)
        parts = []
        before = 0
        for file, groups_of_file in enumerate(groups):
            for start, end in grouped([group.bytes for group in groups_of_file], total):
                parts.append(Part(file, start, end, before))
                before += sum(group.rows for group in groups_of_file[start:end])
        return parts

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        """Yield the dialogues of a part; see `DivisibleCorpus`."""
        file = _split_shards(self.path, self.names[split])[part.file]
        rows = read_rows(file, self._columns, (part.start, part.end))
        return self._dialogues(rows, split, part.before + 1)

    def _dialogues(
        self, rows: Iterable[tuple[str, RowOrError]], split: str, first: int
    ) -> Iterator[Entry]:
        """Yield the dialogues of rows that are numbered from `first`."""
        numbered = enumerate(rows, start=first)
        items = ((place, (f"{split}-{number}", row)) for number, (place, row) in numbered)
        entries = records(items, lambda item, place: self._dialogue(*item, place))
        unsplit = len(set(self.names.values())) == 1 or (not self.dataset and self.path.is_file())
        return split_by_hash(entries, split) if unsplit else entries

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, or return the data set's name, configuration and
        commit.
        """
        if self.dataset:
            return {
                "dataset": self.dataset,
                "config": str(self.config),
                "revision": str(self.revision),
            }
        files = {file for name in self.names.values() for file in _split_shards(self.path, name)}
        return digests(self.path, files)

    def _rows(self, split: str) -> Iterator[tuple[str, RowOrError]]:
        if self.dataset:
            return _hub_rows(self.dataset, self.config, self.revision, self.names[split])
        files = _split_shards(self.path, self.names[split])
        return chain.from_iterable(read_rows(file, self._columns) for file in files)

    @property
    def _columns(self) -> list[str]:
        return [*self.columns, *([self.id] if self.id else [])]

    def _dialogue(self, id: str, row: RowOrError, place: str) -> Dialogue:
        if isinstance(row, UnicodeDecodeError):
            raise UserError(
                f"{place}: a text is not UTF-8 ({row.reason}); correct or remove the row"
            ) from row
        for column in (*self.columns, self.id or self.columns[0]):
            if column not in row:
                raise UserError(
                    f"{place}: no column {column!r} among {', '.join(row)}; name it in data.corpus"
                )
        if self.id and row[self.id] is None:
            raise UserError(
                f"{place}: no {self.id!r}; give each row an id, or leave data.corpus.id out"
            )
        messages = [row[column] for column in self.columns]
        if len(self.columns) == 1:
            (messages,) = messages
        if not isinstance(messages, list):
            problem = f"{self.columns[0]!r} is {type(messages).__name__}, not a list"
            raise UserError(f"{place}: {problem}; name the column of the turns in data.corpus")
        turns, facts = parse_chat(messages, place, _message)
        return Dialogue(str(row[self.id]) if self.id else id, turns, facts=facts, place=place)


def _message(message: Json, where: str) -> tuple[str | None, str]:
    if not isinstance(message, dict):
        return None, message
    check_text_only(message, where)
    speakers, texts = (
        [message[key] for key in keys if message.get(key) is not None] for keys in (SPEAKERS, TEXTS)
    )
    if not speakers or not texts:
        raise UserError(
            f"{where} has no {' or '.join(TEXTS if speakers else SPEAKERS)}; add it or remove the"
            " message"
        )
    return speakers[0], texts[0]


def _split_shards(path: Path, name: str) -> list[Path]:
    """Return the Parquet files of the split `name`, in order; if `path` is a file, only that.

    Raises:
        UserError: no file, files of two patterns, a missing shard, or shards of two counts.
    """
    candidates = [[path]]
    if path.is_dir():
        matches = (find_names(path, pattern.format(name)) for pattern in PATTERNS)
        candidates = [[path / shard for shard in shards] for shards in matches if shards]
        for shards in candidates:
            _check_complete(shards)
    if len(candidates) > 1:
        raise UserError(
            f"{candidates[0][0]} and {candidates[1][0]} are both there; keep one set of files"
        )
    files = candidates[0] if candidates else [path / f"{name}.parquet"]
    for file in files:
        require_file(file, "it should hold dialogues as Parquet; set data.path")
    return files


def _check_complete(files: list[Path]) -> None:
    """Raise UserError unless shards named `NAME-00000-of-00002.parquet` are complete and of one
    count per NAME.
    """
    matches = (re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.parquet", str(file)) for file in files)
    pairs = [(match[1], match[2]) for match in matches if match]
    counts = dict(pairs)
    present = set(files)
    for start, count in pairs:
        if count != counts[start]:
            raise UserError(
                f"{start}-*: shards of {int(count)} and of {int(counts[start])}; keep one set of"
                " files"
            )
    for start, count in counts.items():
        for number in range(int(count)):
            if (file := Path(f"{start}-{number:05}-of-{count}.parquet")) not in present:
                raise UserError(f"{file} is missing, one of {int(count)} shards; download it again")


def _hub_rows(
    dataset: str, config: str | None, revision: str | None, split: str
) -> Iterator[tuple[str, Row]]:
    """Yield (dataset:split:row number, row); rows are streamed, not cached.

    Raises:
        UserError: DIALOG_OFFLINE is set, the package `datasets` is missing, or the Hub returns an
            error.
    """
    if is_offline():
        raise UserError(
            f"{dataset} is on the Hub and DIALOG_OFFLINE forbids downloads; get its files and set"
            " data.path=DIR"
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(
            f"corpus huggingface needs datasets to read {dataset}; {INSTALL}"
        ) from error
    try:
        stream = load_dataset(dataset, config, split=split, revision=revision, streaming=True)
        for number, row in enumerate(stream, start=1):
            yield f"{dataset}:{split}:{number}", row
    except Exception as error:  # the library's errors share no narrower class
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(
            f"{dataset} cannot be read from the Hub ({reason}); check its name and split"
        ) from error
