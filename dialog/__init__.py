"""Train, understand and fairly compare sequence-to-sequence dialogue models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dialog.assemble import build_model, load, train
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.tokenizer import Tokenizer
    from dialog.errors import UserError
    from dialog.models.seq2seq import Seq2Seq
    from dialog.recipe import Recipe, compose
    from dialog.run import Reply, Run
    from dialog.training.module import DialogModule

PUBLIC = {
    "DialogDataModule": "dialog.data.datamodule",
    "DialogModule": "dialog.training.module",
    "Recipe": "dialog.recipe",
    "Reply": "dialog.run",
    "Run": "dialog.run",
    "Seq2Seq": "dialog.models.seq2seq",
    "Tokenizer": "dialog.data.tokenizer",
    "UserError": "dialog.errors",
    "build_model": "dialog.assemble",
    "compose": "dialog.recipe",
    "load": "dialog.assemble",
    "train": "dialog.assemble",
}

__all__ = [
    "DialogDataModule",
    "DialogModule",
    "Recipe",
    "Reply",
    "Run",
    "Seq2Seq",
    "Tokenizer",
    "UserError",
    "__version__",
    "build_model",
    "compose",
    "load",
    "train",
]


def __dir__() -> list[str]:
    """What is public, also before it is imported."""
    return [*globals(), *PUBLIC]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is public
    """Import a public name when it is first used, so that ``import dialog`` stays light."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'dialog' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)
