"""A file per corpus format, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from dialog.data.corpora.builtin import Builtin
from dialog.data.corpora.crosswoz import CrossWOZ
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.empathetic import Empathetic
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.corpora.kdconv import KdConv
from dialog.data.corpora.multiwoz import MultiWOZ
from dialog.data.corpora.selfdialogue import SelfDialogue
from dialog.data.corpora.sgd import SGD
from dialog.data.corpora.switchboard import Switchboard
from dialog.data.corpora.switchboard_ms98 import SwitchboardMS98
from dialog.data.corpora.synthetic import Synthetic
from dialog.data.corpora.taskmaster import Taskmaster
from dialog.data.corpora.topical_chat import TopicalChat
from dialog.data.dialogue import Entry

__all__ = [
    "CORPORA",
    "SGD",
    "Builtin",
    "Corpus",
    "CrossWOZ",
    "DailyDialog",
    "Empathetic",
    "JsonLines",
    "KdConv",
    "MultiWOZ",
    "SelfDialogue",
    "Switchboard",
    "SwitchboardMS98",
    "Synthetic",
    "Taskmaster",
    "TopicalChat",
]


class Corpus(Protocol):
    """A source of dialogues in the three splits of `dialog.data.dialogue.SPLITS`."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, in the same order at every call."""

    def fingerprint(self) -> Mapping[str, str]:
        """Map each file to its SHA-256, or each setting to its value; equal exactly when the dialogues are."""


CORPORA: dict[str, Callable[..., Corpus]] = {
    "builtin": Builtin,
    "crosswoz": CrossWOZ,
    "dailydialog": DailyDialog,
    "empathetic": Empathetic,
    "jsonl": JsonLines,
    "kdconv": KdConv,
    "multiwoz": MultiWOZ,
    "selfdialogue": SelfDialogue,
    "sgd": SGD,
    "switchboard": Switchboard,
    "switchboard_ms98": SwitchboardMS98,
    "synthetic": Synthetic,
    "taskmaster": Taskmaster,
    "topical_chat": TopicalChat,
}
