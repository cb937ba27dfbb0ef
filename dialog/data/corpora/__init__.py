"""A file per corpus format, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from dialog.data.corpora.builtin import Builtin
from dialog.data.corpora.convokit import ConvoKit
from dialog.data.corpora.cornell import Cornell
from dialog.data.corpora.csv import Csv
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.huggingface import HuggingFace
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.corpora.messages import Messages
from dialog.data.corpora.opensubtitles import OpenSubtitles
from dialog.data.corpora.parallel import Parallel, multi30k
from dialog.data.corpora.parlai import ParlAI
from dialog.data.corpora.personachat import PersonaChat
from dialog.data.corpora.synthetic import Synthetic
from dialog.data.corpora.text import PlainText
from dialog.data.corpora.ubuntu import Ubuntu
from dialog.data.dialogue import Entry

__all__ = ["CORPORA", "Builtin", "Corpus", "DailyDialog", "JsonLines", "Synthetic"]


class Corpus(Protocol):
    """A source of dialogues in the three splits of `dialog.data.dialogue.SPLITS`."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, in the same order at every call."""

    def fingerprint(self) -> Mapping[str, str]:
        """Map each file to its SHA-256, or each setting to its value; equal exactly when the dialogues are."""


CORPORA: dict[str, Callable[..., Corpus]] = {
    "builtin": Builtin,
    "convokit": ConvoKit,
    "cornell": Cornell,
    "csv": Csv,
    "dailydialog": DailyDialog,
    "huggingface": HuggingFace,
    "jsonl": JsonLines,
    "messages": Messages,
    "multi30k": multi30k,
    "opensubtitles": OpenSubtitles,
    "parallel": Parallel,
    "parlai": ParlAI,
    "personachat": PersonaChat,
    "synthetic": Synthetic,
    "text": PlainText,
    "ubuntu": Ubuntu,
}
