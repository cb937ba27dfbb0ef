"""Data sets of the Hugging Face Hub, and Parquet files as it keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, records, refuse_calls, require_path, share, tells
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.downloads import is_offline
from dialog.data.reading.files import find_names, require_file
from dialog.data.reading.parquet import INSTALL, Row, RowOrError, read_rows
from dialog.errors import UserError

SPEAKERS = ("role", "speaker", "from")
TEXTS = ("content", "text", "value")
SHARDS = ("{}.parquet", "{}-*.parquet", "data/{}-*.parquet", "{}/*.parquet")
"""Where the files of a split are: one file, the shards of a repository, those of the Hub's own conversion."""


class HuggingFace:
    """Reads Parquet files, a folder of them or one, or, with `dataset`, a data set of the Hub as a stream.

    A row is a dialogue. Its column `turns` is a list of texts ("A" and "B" alternate) or of messages with a `role`,
    `speaker` or `from` and a `content`, `text` or `value`; what `system` or `developer` say before the first turn are
    facts for everybody; malformed are such messages further on, those of tools, and calls of them. With `context` and
    `response`, those two columns are two turns. Ids are `<split>-<number of the row>`, or what a column says. One file,
    or a data set with the same name for all splits, is split by `parsing.records.share`. Of a data set no
    code is run, and its commit is named, so that it cannot change. Needs the extra `hf`.

    Args:
        path: The folder (`train.parquet`, `train-00000-of-00002.parquet`, `data/...`) or the file; not with `dataset`.
        dataset: The name on the Hub, like `owner/name`.
        config: Its configuration, where it has several.
        revision: Its commit, 40 hexadecimal digits, as the Hub's history of the data set shows.
        turns: The column of the turns.
        context: The column of what is said first, where a row is a pair.
        response: The column of the answer to it.
        id: The column of the id.
        train: What the training split is called there.
        validation: What the validation split is called there.
        test: What the test split is called there.
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
            raise UserError("corpus huggingface: two splits have the same name; give three, or one for all to be split")
        if (context is None) != (response is None):
            raise UserError("corpus huggingface: context or response is not set; give both columns, or neither")
        if dataset is None:
            path = require_path(path, "huggingface", "a folder of Parquet files (or set data.corpus.dataset)")
        elif Path(dataset).exists():
            raise UserError(f"corpus huggingface: {dataset} is here, not on the Hub; give it as data.path")
        elif not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
            raise UserError(f"corpus huggingface: set revision to a commit of {dataset}, all 40 digits of it")
        self.path = Path(path) if path else Path()
        self.dataset, self.config, self.revision = dataset, config, revision
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))
        self.said = (context, response) if context and response else (turns,)
        self.id = id

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its rows."""
        numbered = enumerate(self._rows(split), start=1)
        items = ((place, (f"{split}-{number}", row)) for number, (place, row) in numbered)
        found = records(items, lambda item, place: self._dialogue(*item, place))
        whole = len(set(self.names.values())) == 1 or (not self.dataset and self.path.is_file())
        return share(found, split) if whole else found

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256; or the data set's name, configuration and commit, which settle its rows."""
        if self.dataset:
            return {"dataset": self.dataset, "config": str(self.config), "revision": str(self.revision)}
        files = {file for split in SPLITS for file in self._files(split)}
        return digests(self.path.parent if self.path.is_file() else self.path, files)

    def _rows(self, split: str) -> Iterator[tuple[str, RowOrError]]:
        if self.dataset:
            return _from_hub(self.dataset, self.config, self.revision, self.names[split])
        columns = [*self.said, *([self.id] if self.id else [])]
        return (row for file in self._files(split) for row in read_rows(file, columns))

    def _files(self, split: str) -> list[Path]:
        folder, name, hint = self.path, self.names[split], "it should hold dialogues as Parquet; set data.path"
        there = [[folder]]
        if folder.is_dir():
            found = (find_names(folder, shard.format(name)) for shard in SHARDS)
            there = [[folder / shard for shard in shards] for shards in found if shards]
            for shards in there:
                _require_all(shards)
        if len(there) > 1:
            raise UserError(f"{there[0][0]} and {there[1][0]} are both there; keep those that count")
        for file in there[0] if there else [folder / f"{name}.parquet"]:
            require_file(file, hint)
        return there[0]

    def _dialogue(self, id: str, row: RowOrError, place: str) -> Dialogue:
        if isinstance(row, UnicodeDecodeError):
            raise UserError(f"{place}: a text is not UTF-8 ({row.reason}); mend or remove the row") from row
        for column in (*self.said, self.id or self.said[0]):
            if column not in row:
                raise UserError(f"{place}: no column {column!r} among {', '.join(row)}; name it in data.corpus")
        if self.id and row[self.id] is None:
            raise UserError(f"{place}: no {self.id!r}; give each row an id, or leave data.corpus.id out")
        said = row[self.said[0]] if len(self.said) == 1 else [row[column] for column in self.said]
        if not isinstance(said, list):
            raise UserError(f"{place}: {self.said[0]!r} is {type(said).__name__}, no list; name it in data.corpus")
        facts: list[Turn] = []
        turns: list[Turn] = []
        for number, message in enumerate(said, start=1):
            where = f"{place}: message {number}"
            speaker, text = _message(message, where) if isinstance(message, dict) else ("AB"[len(turns) % 2], message)
            if tells(speaker, where, first=not turns):
                facts.append(Turn("", text))
            else:
                turns.append(Turn(speaker, text))
        return Dialogue(str(row[self.id]) if self.id else id, tuple(turns), facts=tuple(facts), place=place)


def _require_all(files: list[Path]) -> None:
    """Raise a UserError where shards, which say of how many they are, are not all there or not of one count."""
    fits = (re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.parquet", str(file)) for file in files)
    pairs = [(fit[1], fit[2]) for fit in fits if fit]
    counts, known = dict(pairs), set(files)
    for start, count in pairs:
        if count != counts[start]:
            raise UserError(f"{start}-*: shards of {int(count)} and of {int(counts[start])}; keep those that count")
    for start, count in counts.items():
        for number in range(int(count)):
            if (file := Path(f"{start}-{number:05}-of-{count}.parquet")) not in known:
                raise UserError(f"{file} is missing, one of {int(count)} shards; get it again")


def _message(message: Row, where: str) -> tuple[str, str]:
    refuse_calls(message, where)
    speaker, text = ([message[key] for key in keys if message.get(key) is not None] for keys in (SPEAKERS, TEXTS))
    if not speaker or not text:
        raise UserError(f"{where} is without {' or '.join(TEXTS if speaker else SPEAKERS)}; take it out")
    return speaker[0], text[0]


def _from_hub(dataset: str, config: str | None, revision: str | None, name: str) -> Iterator[tuple[str, Row]]:
    """(data set:split:number of the row, row), as a stream, which no cache keeps."""
    if is_offline():
        raise UserError(
            f"{dataset} is on the Hub and DIALOG_OFFLINE forbids to read it; get its files, set data.path=DIR"
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f"corpus huggingface needs datasets to read {dataset}; {INSTALL}") from error
    try:
        stream = load_dataset(dataset, config, split=name, revision=revision, streaming=True)
        for number, row in enumerate(stream, start=1):
            yield f"{dataset}:{name}:{number}", row
    except Exception as error:  # the library's errors have nothing narrower in common
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{dataset} cannot be read from the Hub ({reason}); are its name and split right?") from error
