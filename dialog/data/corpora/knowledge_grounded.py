"""Talk about things that the speakers have read: KdConv and Topical-Chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.json_records import json_files_records, json_records
from dialog.data.corpora.parsing.records import alternating
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json

KDCONV_NAMES = {"train": "train", "validation": "dev", "test": "test"}
DOMAINS = ("film", "music", "travel")
TOPICAL_CHAT_PARTS = ("freq", "rare")
TOPICAL_CHAT_LABELS = ("sentiment", "knowledge_source", "turn_rating")


class KdConv(FileCorpus):
    """Read KdConv's official repository: `data/<domain>/{train,dev,test}.json`, arrays of
    dialogues.

    Chinese talk about films, music and travel (Zhou et al. 2020, https://arxiv.org/abs/2004.04100).
    Speakers "A" and "B" alternate. Ids are `<domain>-<number in its file>`. `meta["domain"]` is the
    domain, `meta["name"]` the first subject, and `meta["attrs"]` lists for each turn the knowledge
    that it uses, as (name, attribute, value).

    Args:
        path: A clone of the repository, or its folder `data`.
        domains: Domains to read, in this order.
        knowledge: Make the knowledge that any turn uses a fact known to both, in the order of first
            use. This reveals the later subjects; unused knowledge on the same subjects is left out.
    """

    def __init__(
        self, path: Path | None, *, domains: Sequence[str] = DOMAINS, knowledge: bool = False
    ) -> None:
        content = "the clone of its repository (data/film/train.json, ...)"
        super().__init__(path, "kdconv", content)
        self.domains = domains
        self.knowledge = knowledge

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, domain after domain, in the order of the files."""
        for domain in self.domains:
            yield from json_records(self._file(domain, split), partial(self._dialogue, domain))

    def files(self) -> Iterable[Path]:
        """Return the files of all domains and splits."""
        return (self._file(domain, split) for domain in self.domains for split in SPLITS)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `domains` and `knowledge` to their values."""
        settings = {"domains": " ".join(self.domains), "knowledge": str(self.knowledge)}
        return settings | super().fingerprint()

    def _file(self, domain: str, split: str) -> Path:
        data = self.path / "data"
        folder = data if data.is_dir() else self.path
        hint = f"the repository's folder data holds {', '.join(DOMAINS)}; set data.path=DIR"
        return find_file(folder, f"{domain}/{KDCONV_NAMES[split]}.json", hint)

    def _dialogue(self, domain: str, key: str, fields: Json, place: str) -> Dialogue:
        messages = fields["messages"]
        turns = alternating(message["message"] for message in messages)
        attrs = [
            [
                (attr["name"], attr["attrname"], attr["attrvalue"])
                for attr in message.get("attrs", [])
            ]
            for message in messages
        ]
        meta = {"domain": domain, "name": fields.get("name"), "attrs": attrs}
        facts: tuple[Turn, ...] = ()
        if self.knowledge:
            used = dict.fromkeys(" ".join(triple) for triples in attrs for triple in triples)
            facts = tuple(Turn("", text) for text in used)
        return Dialogue(f"{domain}-{key}", turns, meta, facts, place)


class TopicalChat(FileCorpus):
    """Read Topical-Chat's repository:
    `conversations/{train,valid_freq,valid_rare,test_freq,test_rare}.json`.

    Talk about texts that both have read (Gopalakrishnan et al. 2019,
    https://arxiv.org/abs/2308.11995). Speakers are "agent_1" and "agent_2". Ids are the corpus's
    own, texts are unchanged (some hold line feeds). `meta["config"]` is the assignment of reading
    sets to the speakers; `meta["sentiment"]`, `meta["knowledge_source"]` and `meta["turn_rating"]`
    list one label a turn. Reading sets are not read: the repository holds only what is needed to
    collect them.

    Args:
        path: A clone of the repository, or its folder `conversations`.
        parts: Parts of validation and test: `freq` has subjects frequent in training, `rare` rare
            ones.
    """

    def __init__(self, path: Path | None, *, parts: Sequence[str] = TOPICAL_CHAT_PARTS) -> None:
        content = "the clone of its repository (conversations/train.json, ...)"
        super().__init__(path, "topical_chat", content)
        self.parts = parts

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, part after part, in the order of the files."""
        return json_files_records(self._files(split), self._dialogue)

    def files(self) -> Iterable[Path]:
        """Return the files of all splits."""
        return (file for split in SPLITS for file in self._files(split))

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `parts` to its value."""
        return {"parts": " ".join(self.parts), **super().fingerprint()}

    def _files(self, split: str) -> list[Path]:
        conversations = self.path / "conversations"
        folder = conversations if conversations.is_dir() else self.path
        prefix = {"validation": "valid"}.get(split, split)
        names = ["train"] if split == "train" else [f"{prefix}_{part}" for part in self.parts]
        parts = " and ".join(TOPICAL_CHAT_PARTS)
        hint = f"set data.path=DIR; validation and test have the parts {parts}"
        return [find_file(folder, f"{name}.json", hint) for name in names]

    @staticmethod
    def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
        content = fields["content"]
        turns = tuple(Turn(entry["agent"], entry["message"]) for entry in content)
        labels = {label: [entry.get(label) for entry in content] for label in TOPICAL_CHAT_LABELS}
        return Dialogue(key, turns, {"config": fields.get("config"), **labels}, place=place)
