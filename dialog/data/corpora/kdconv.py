"""KdConv (Zhou et al. 2020, https://arxiv.org/abs/2004.04100): Chinese talk about films, music and
travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.json_records import json_records
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json

NAMES = {"train": "train", "validation": "dev", "test": "test"}
DOMAINS = ("film", "music", "travel")


class KdConv:
    """Read KdConv's official repository: `data/<domain>/{train,dev,test}.json`, arrays of
    dialogues.

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
        self.path = require_path(
            path, "kdconv", "the clone of its repository (data/film/train.json, ...)"
        )
        self.domains = domains
        self.knowledge = knowledge

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, domain after domain, in the order of the files."""
        for domain in self.domains:
            yield from json_records(self._file(domain, split), partial(self._dialogue, domain))

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `domains` and `knowledge` to their values."""
        settings = {"domains": " ".join(self.domains), "knowledge": str(self.knowledge)}
        return settings | digests(
            self.path, (self._file(domain, split) for domain in self.domains for split in SPLITS)
        )

    def _file(self, domain: str, split: str) -> Path:
        data = self.path / "data"
        hint = f"the repository's folder data holds {', '.join(DOMAINS)}; set data.path=DIR"
        return find_file(
            data if data.is_dir() else self.path, f"{domain}/{NAMES[split]}.json", hint
        )

    def _dialogue(self, domain: str, key: str, fields: Json, place: str) -> Dialogue:
        messages = fields["messages"]
        turns = tuple(
            Turn("AB"[index % 2], message["message"]) for index, message in enumerate(messages)
        )
        attrs = [[_triple(attr) for attr in message.get("attrs", [])] for message in messages]
        meta = {"domain": domain, "name": fields.get("name"), "attrs": attrs}
        used = (
            dict.fromkeys(" ".join(triple) for triples in attrs for triple in triples)
            if self.knowledge
            else ()
        )
        return Dialogue(
            f"{domain}-{key}", turns, meta, tuple(Turn("", text) for text in used), place
        )


def _triple(attr: Json) -> tuple[str, str, str]:
    return attr["name"], attr["attrname"], attr["attrvalue"]
