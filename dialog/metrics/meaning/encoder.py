"""Token embeddings by a pretrained model in a local folder, in the format of Hugging Face.

Shapes: B texts, T tokens, E embedding size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.errors import install

BATCH = 64
"""Texts that are encoded together."""


class Embedded(NamedTuple):
    """Embeddings of texts, padded on the right."""

    states: Tensor  # [B, T, E], float32
    real: Tensor  # [B, T], True = not padding
    content: Tensor  # [B, T], True = not padding and not a special token


class LocalEncoder:
    """A pretrained model with its tokenizer; it reads no network.

    Args:
        folder: Folder that `save_pretrained` of the model and of its fast tokenizer have written.
        layer: Hidden state that is returned, counted from 0 for the input embeddings; the last by
            default.

    Raises:
        ValueError: transformers, the folder or the layer is missing.
    """

    def __init__(self, folder: str, layer: int | None = None) -> None:
        if not (Path(folder) / "config.json").is_file():
            raise ValueError(
                f"model: {folder} has no config.json; give the folder of a model that is on this"
                " machine"
            )
        try:
            library = import_module("transformers")
        except ImportError as error:
            raise ValueError(f"needs transformers; run {install('meaning')}") from error
        library.utils.logging.disable_progress_bar()
        try:
            self.tokenizer: Any = library.AutoTokenizer.from_pretrained(
                folder, local_files_only=True
            )
            model: Any = library.AutoModel.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"model: {folder} cannot be read ({str(error).splitlines()[0]})"
            ) from error
        self.model: Any = model.float().eval()
        layers = int(self.model.config.num_hidden_layers)
        self.layer = layers if layer is None else layer
        if not 0 <= self.layer <= layers:
            raise ValueError(f"layer is {layer}; the model has 0 to {layers}")
        self.tokenizer.padding_side = "right"
        if self.tokenizer.pad_token is None:  # its embeddings are masked
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.longest = min(
            self.tokenizer.model_max_length,
            getattr(self.model.config, "max_position_embeddings", 512),
        )

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the hidden states of texts, without outer white space; longer ones are truncated
        from the right.
        """
        encoded = self.tokenizer(
            [text.strip() for text in texts],
            padding=True,
            truncation=True,
            max_length=self.longest,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = encoded.pop("special_tokens_mask").bool()
        states: Tensor = self.model(**encoded, output_hidden_states=True).hidden_states[self.layer]
        real = encoded["attention_mask"].bool()
        return Embedded(states, real, real & ~special)


def batches(*columns: Sequence[str]) -> Iterator[tuple[Sequence[str], ...]]:
    """Yield `BATCH` rows of columns at a time."""
    for start in range(0, len(columns[0]), BATCH):
        yield tuple(column[start : start + BATCH] for column in columns)
