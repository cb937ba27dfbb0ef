"""The ways to a tokenizer, and the table that names them: four that learn from text, and a file that is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dialog.config.components import Family
from dialog.data.reading.files import require_file, sha256
from dialog.data.tokenizers.given import WANTED, file
from dialog.data.tokenizers.subwords import byte_bpe, unigram
from dialog.data.tokenizers.symbols import characters, word
from dialog.data.tokenizers.tokenizer import Tokenizer

__all__ = ["TOKENIZERS", "byte_bpe", "characters", "file", "identity", "unigram", "word"]

TOKENIZERS: Family[Tokenizer] = Family(
    "tokenizer",
    {
        "byte_bpe": byte_bpe,
        "unigram": unigram,
        "word": word,
        "characters": characters,
        "file": file,
    },
    runtime=("texts",),
)


def identity(component: Mapping[str, object]) -> dict[str, object]:
    """What of a tokenizer's component decides what it does: of a given file the content, and not the place.

    Raises:
        UserError: a given file that is not there.
    """
    if component.get("name") != "file":
        return dict(component)
    path = Path(str(component.get("path")))
    require_file(path, WANTED)
    return {"name": "file", "sha256": sha256(path)}
