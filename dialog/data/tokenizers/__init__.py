"""Tokenizers: three kinds that are trained on text, and tokenizer files of the user.

Read first: `tokenizer.py`. `trained.py` has the trained kinds (byte-level BPE, words, characters),
`tokenizer_file.py` adapts a user's file, `bpe_dropout.py` regularises BPE in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dialog.config.components import Family
from dialog.data.reading.files import require_file, sha256
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.data.tokenizers.tokenizer_file import WANTED, file
from dialog.data.tokenizers.trained import byte_bpe, characters, word

__all__ = ["TOKENIZERS", "byte_bpe", "characters", "file", "tokenizer_identity", "word"]

TOKENIZERS: Family[Tokenizer] = Family(
    "tokenizer",
    {
        "byte_bpe": byte_bpe,
        "word": word,
        "characters": characters,
        "file": file,
    },
    runtime=("texts",),
)


def tokenizer_identity(component: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments that determine a tokenizer: for a file its content, not its path.

    Raises:
        UserError: the file does not exist.
    """
    if component.get("name") != "file":
        return dict(component)
    path = Path(str(component.get("path")))
    require_file(path, WANTED)
    return {"name": "file", "sha256": sha256(path)}
