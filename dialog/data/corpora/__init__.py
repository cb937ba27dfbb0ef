"""Corpus readers, one file per format or family of corpora, and the table that names them.

Read first: `corpus.py`, then `jsonl.py`.
"""

from __future__ import annotations

from dialog.config.components import Family
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.builtin.synthetic_tasks import SyntheticTasks
from dialog.data.corpora.convokit import ConvoKit
from dialog.data.corpora.corpus import Corpus
from dialog.data.corpora.csv import Csv
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.empathetic import Empathetic
from dialog.data.corpora.films import Cornell, OpenSubtitles
from dialog.data.corpora.huggingface import HuggingFace
from dialog.data.corpora.jsonl import JsonLines, Messages
from dialog.data.corpora.knowledge_grounded import KdConv, TopicalChat
from dialog.data.corpora.mixture import Mixture
from dialog.data.corpora.parallel import Parallel, multi30k
from dialog.data.corpora.parlai import ParlAI, PersonaChat
from dialog.data.corpora.selfdialogue import SelfDialogue
from dialog.data.corpora.slack import Slack
from dialog.data.corpora.switchboard import Switchboard, SwitchboardMS98
from dialog.data.corpora.task_oriented import SGD, CrossWOZ, MultiWOZ, Taskmaster
from dialog.data.corpora.telegram import Telegram
from dialog.data.corpora.text import PlainText
from dialog.data.corpora.ubuntu import Ubuntu
from dialog.data.corpora.whatsapp import WhatsApp

__all__ = ["CORPORA", "Corpus"]

CORPORA: Family[Corpus] = Family(
    "corpus",
    {
        "builtin": BuiltinDialogues,
        "convokit": ConvoKit,
        "cornell": Cornell,
        "crosswoz": CrossWOZ,
        "csv": Csv,
        "dailydialog": DailyDialog,
        "empathetic": Empathetic,
        "huggingface": HuggingFace,
        "jsonl": JsonLines,
        "kdconv": KdConv,
        "messages": Messages,
        "mixture": Mixture,
        "multi30k": multi30k,
        "multiwoz": MultiWOZ,
        "opensubtitles": OpenSubtitles,
        "parallel": Parallel,
        "parlai": ParlAI,
        "personachat": PersonaChat,
        "selfdialogue": SelfDialogue,
        "sgd": SGD,
        "slack": Slack,
        "switchboard": Switchboard,
        "switchboard_ms98": SwitchboardMS98,
        "synthetic": SyntheticTasks,
        "taskmaster": Taskmaster,
        "telegram": Telegram,
        "text": PlainText,
        "topical_chat": TopicalChat,
        "ubuntu": Ubuntu,
        "whatsapp": WhatsApp,
    },
    runtime=("member", "path"),
)
