"""A file per corpus format, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable

from dialog.data.corpora.builtin import Builtin
from dialog.data.corpora.contract import Corpus
from dialog.data.corpora.crosswoz import CrossWOZ
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.corpora.mixture import Mixture
from dialog.data.corpora.parallel import Parallel, multi30k
from dialog.data.corpora.selfdialogue import SelfDialogue
from dialog.data.corpora.synthetic import Synthetic
from dialog.data.corpora.taskmaster import Taskmaster

__all__ = ["CORPORA", "Corpus"]

CORPORA: dict[str, Callable[..., Corpus]] = {
    "builtin": Builtin,
    "crosswoz": CrossWOZ,
    "dailydialog": DailyDialog,
    "jsonl": JsonLines,
    "mixture": Mixture,
    "multi30k": multi30k,
    "parallel": Parallel,
    "selfdialogue": SelfDialogue,
    "synthetic": Synthetic,
    "taskmaster": Taskmaster,
}
