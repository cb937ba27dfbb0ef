"""Train, understand and fairly compare sequence-to-sequence dialogue models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dialog.build import build_model
    from dialog.config.compose import compose
    from dialog.config.schema import Recipe
    from dialog.config.trust import trusted
    from dialog.data.batching import Batch, collate
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.dialogue import Dialogue, Example, Turn
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.errors import UserError
    from dialog.models.seq2seq import Seq2Seq
    from dialog.runs.load import load
    from dialog.runs.run import Reply, Run
    from dialog.runs.train import train
    from dialog.training.module import DialogModule
    from dialog.version import __version__

PUBLIC = {
    "Batch": "dialog.data.batching",
    "DialogDataModule": "dialog.data.datamodule",
    "DialogModule": "dialog.training.module",
    "Dialogue": "dialog.data.dialogue",
    "Example": "dialog.data.dialogue",
    "Recipe": "dialog.config.schema",
    "Reply": "dialog.runs.run",
    "Run": "dialog.runs.run",
    "Seq2Seq": "dialog.models.seq2seq",
    "Tokenizer": "dialog.data.tokenizers.tokenizer",
    "Turn": "dialog.data.dialogue",
    "UserError": "dialog.errors",
    "__version__": "dialog.version",
    "build_model": "dialog.build",
    "collate": "dialog.data.batching",
    "compose": "dialog.config.compose",
    "load": "dialog.runs.load",
    "train": "dialog.runs.train",
    "trusted": "dialog.config.trust",
}

__all__ = [
    "Batch",
    "DialogDataModule",
    "DialogModule",
    "Dialogue",
    "Example",
    "Recipe",
    "Reply",
    "Run",
    "Seq2Seq",
    "Tokenizer",
    "Turn",
    "UserError",
    "__version__",
    "build_model",
    "collate",
    "compose",
    "load",
    "train",
    "trusted",
]


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return [*globals(), *PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import dialog`` stays light."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'dialog' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
