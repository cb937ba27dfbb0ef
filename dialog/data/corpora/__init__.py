"""A file per corpus format, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable

from dialog.data.corpora.builtin import Builtin
from dialog.data.corpora.contract import Corpus
from dialog.data.corpora.crosswoz import CrossWOZ
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.empathetic import Empathetic
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.corpora.kdconv import KdConv
from dialog.data.corpora.mixture import Mixture
from dialog.data.corpora.multiwoz import MultiWOZ
from dialog.data.corpora.parallel import Parallel, multi30k
from dialog.data.corpora.selfdialogue import SelfDialogue
from dialog.data.corpora.sgd import SGD
from dialog.data.corpora.switchboard import Switchboard
from dialog.data.corpora.switchboard_ms98 import SwitchboardMS98
from dialog.data.corpora.synthetic import Synthetic
from dialog.data.corpora.taskmaster import Taskmaster
from dialog.data.corpora.topical_chat import TopicalChat

__all__ = ["CORPORA", "Corpus"]

CORPORA: dict[str, Callable[..., Corpus]] = {
    "builtin": Builtin,
    "crosswoz": CrossWOZ,
    "dailydialog": DailyDialog,
    "empathetic": Empathetic,
    "jsonl": JsonLines,
    "kdconv": KdConv,
    "mixture": Mixture,
    "multi30k": multi30k,
    "multiwoz": MultiWOZ,
    "parallel": Parallel,
    "selfdialogue": SelfDialogue,
    "sgd": SGD,
    "switchboard": Switchboard,
    "switchboard_ms98": SwitchboardMS98,
    "synthetic": Synthetic,
    "taskmaster": Taskmaster,
    "topical_chat": TopicalChat,
}
