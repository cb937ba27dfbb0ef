"""Dialogues that solve a task: CrossWOZ, MultiWOZ, Schema-Guided Dialogue and Taskmaster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dialog.config.components import lookup
from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.json_records import json_files_records, json_records
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import alternating
from dialog.data.corpora.parsing.splits import split_by_hash, split_by_lists
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_file, find_files, find_names, stem
from dialog.data.reading.json_text import Json

SGD_FOLDERS = {"train": "train", "validation": "dev", "test": "test"}
MULTIWOZ_DATA = "data.json"
MULTIWOZ_LISTS = {"validation": "valListFile", "test": "testListFile"}
TASKMASTER_LISTS = {"train": "train.csv", "validation": "dev.csv", "test": "test.csv"}
TASKMASTER_LABELS = ("vertical", "scenario", "instruction_id")
NOT_DIALOGUES = ("ontology", "sample")
"""Files of Taskmaster's TM-1 without dialogues of their own."""


class CrossWOZ(FileCorpus):
    """Read CrossWOZ: `train.json`, `val.json` and `test.json`, each an object from dialogue ids to
    `messages`.

    Chinese dialogues about a day in Beijing (Zhu et al. 2020, https://arxiv.org/abs/2002.11893).
    Speakers are "usr" and "sys". Ids are the corpus's own. `meta["type"]` is the dialogue's type,
    `meta["acts"]` lists the dialogue acts of each turn.

    A file that is set for several splits is divided by `parsing.splits.split_by_hash`: a tenth each
    to validation and test, if they use it, and the rest to the first split that does. So
    `train: val` trains on nine tenths of `val.json` and validates on the remaining tenth; no
    dialogue is in two splits.

    Args:
        path: The folder of the unpacked files.
        train: File for training, without .json.
        validation: File for validation, without .json.
        test: File for the test, without .json.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        train: str = "train",
        validation: str = "val",
        test: str = "test",
    ) -> None:
        super().__init__(path, "crosswoz", "the unpacked files (train.json, val.json, test.json)")
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        users = [other for other in SPLITS if self.names[other] == self.names[split]]
        unused = [other for other in SPLITS if other not in users] if split == users[0] else []
        for entry in json_records(self._file(split), self._dialogue):
            for part in (split, *unused):
                yield from split_by_hash([entry], part)

    def files(self) -> Iterable[Path]:
        """Return the files of the splits."""
        return map(self._file, SPLITS)

    def fingerprint(self) -> dict[str, str]:
        """Map the splits to their files, and the files to their SHA-256."""
        return {**self.names, **super().fingerprint()}

    def _file(self, split: str) -> Path:
        name = f"{self.names[split]}.json"
        return find_file(
            self.path, name, f"unpack {name}.zip, or set data.corpus.{split} to another file"
        )

    @staticmethod
    def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
        messages = fields["messages"]
        turns = tuple(Turn(message["role"], message["content"]) for message in messages)
        acts = [message.get("dialog_act") for message in messages]
        return Dialogue(key, turns, {"type": fields.get("type"), "acts": acts}, place=place)


class SGD(FileCorpus):
    """Read the official repository of Schema-Guided Dialogue:
    `{train,dev,test}/dialogues_001.json`, ...

    Tasks over many services (Rastogi et al. 2020, https://arxiv.org/abs/1909.05855). Speakers are
    "user" and "system". Ids are the corpus's own, unique within a split. `meta["services"]` lists
    the services of a dialogue. Frames, states and calls are not read.

    Args:
        path: A clone of the repository.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "sgd", "the clone of its repository (train/dialogues_001.json, ...)")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file."""
        return json_files_records(self._files(split), self._dialogue)

    def files(self) -> Iterable[Path]:
        """Return the files of all splits."""
        return (file for split in SPLITS for file in self._files(split))

    def _files(self, split: str) -> list[Path]:
        folder = self.path / SGD_FOLDERS[split]
        return find_files(folder, "dialogues_*.json", "it should hold dialogues_001.json, ...")

    @staticmethod
    def _dialogue(_: str, fields: Json, place: str) -> Dialogue:
        turns = tuple(Turn(turn["speaker"].lower(), turn["utterance"]) for turn in fields["turns"])
        return Dialogue(fields["dialogue_id"], turns, {"services": fields["services"]}, place=place)


class MultiWOZ(FileCorpus):
    """Read MultiWOZ 2.0 to 2.4: `data.json` with its two lists, or the folders of version 2.2.

    Tourist information about Cambridge (Budzianowski et al. 2018, https://arxiv.org/abs/1810.00278).
    In all versions but 2.2, `data.json` maps ids (`PMUL4372.json`) to dialogues, whose `log` holds
    the alternating turns of user and system. `valListFile` and `testListFile`, as .json or .txt,
    hold an id a line; all other dialogues are for training. Version 2.2 has the format of `sgd`.
    Speakers are "user" and "system", texts are unchanged, ids are the corpus's own.

    Args:
        path: The unpacked folder with `data.json`, or the folder `MultiWOZ_2.2`.
    """

    def __init__(self, path: Path | None) -> None:
        content = "the folder with data.json, or with train/dialogues_001.json"
        super().__init__(path, "multiwoz", content)

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file; malformed
        logs in train.
        """
        if not self._has(MULTIWOZ_DATA):
            yield from SGD(self.path).dialogues(split)
            return
        lists: dict[str, str] = {}
        for name in MULTIWOZ_LISTS:
            lists |= {line.strip(): name for _, line in text_lines(self._list(name))}
        yield from split_by_lists(json_records(self._data(), self._dialogue), split, lists, "train")

    def files(self) -> Iterable[Path]:
        """Return the files, including the lists."""
        if self._has(MULTIWOZ_DATA):
            return [self._data(), *map(self._list, MULTIWOZ_LISTS)]
        return SGD(self.path).files()

    def _has(self, name: str) -> bool:
        return bool(find_names(self.path, name))

    def _data(self) -> Path:
        return find_file(self.path, MULTIWOZ_DATA, "set data.path=DIR")

    def _list(self, split: str) -> Path:
        name = MULTIWOZ_LISTS[split]
        suffix = ".txt" if self._has(f"{name}.txt") else ".json"
        hint = f"it should name the dialogues of {split}, one a line"
        return find_file(self.path, name + suffix, hint)

    @staticmethod
    def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
        texts = (entry["text"] for entry in fields["log"])
        return Dialogue(key, alternating(texts, ("user", "system")), place=place)


class Taskmaster(FileCorpus):
    """Read a Taskmaster release (TM-1-2019, TM-2-2020, ...): the JSON arrays of its folder, or of
    the folder's `data`.

    Tasks solved with an assistant (Byrne et al. 2019, https://arxiv.org/abs/1909.05358). Speakers
    are "user" and "assistant", in lower case in all releases; in dialogues between two people, one
    may have several turns in a row. Ids are the corpus's own.

    Dialogues in the lists of TM-1 (`train-dev-test/train.csv`, ...), which name its self-dialogs,
    are in the split of their list; all others are divided by `parsing.splits.split_by_hash`. In the
    self-dialogs, TM-3 and TM-4, one person wrote both speakers; the files do not identify that
    person.

    Args:
        path: The folder of a release.
        files: Names of files to read, without .json: [self-dialogs], or [movies, music]; null reads
            all.
    """

    def __init__(self, path: Path | None, *, files: Sequence[str] | None = None) -> None:
        content = "the folder of a release (self-dialogs.json, data/data_00.json, ...)"
        super().__init__(path, "taskmaster", content)
        self.names = files

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file."""
        lists: dict[str, str] = {}
        for name, file in zip(TASKMASTER_LISTS, self._lists(), strict=False):
            # a line is an id and a comma
            lists |= {line.strip(" ,"): name for _, line in text_lines(file)}
        return split_by_lists(json_files_records(self._arrays(), self._dialogue), split, lists)

    def files(self) -> Iterable[Path]:
        """Return the files, including the lists."""
        return [*self._arrays(), *self._lists()]

    def _arrays(self) -> list[Path]:
        data = self.path / "data"
        folder = data if data.is_dir() else self.path
        files = find_files(folder, "*.json", "give the folder of a release as data.path=DIR")
        dialogues = {stem(file): file for file in files if stem(file) not in NOT_DIALOGUES}
        names = dialogues if self.names is None else self.names
        return [lookup(dialogues, name, "file") for name in names]

    def _lists(self) -> list[Path]:
        """Return the lists of the splits, if present."""
        lists = self.path / "train-dev-test"
        return all_or_none(lists if lists.is_dir() else self.path, [*TASKMASTER_LISTS.values()])

    @staticmethod
    def _dialogue(_: str, fields: Json, place: str) -> Dialogue:
        turns = tuple(
            Turn(entry["speaker"].lower(), entry["text"]) for entry in fields["utterances"]
        )
        meta = {label: fields[label] for label in TASKMASTER_LABELS if label in fields}
        return Dialogue(fields["conversation_id"], turns, meta, place=place)
