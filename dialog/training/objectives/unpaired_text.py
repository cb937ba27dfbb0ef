"""Unpaired text: utterances that answer nothing, to be drawn at random."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dialog.data.reading.files import require_file
from dialog.data.tokenizers.tokenizer import EOS, PAD, Tokenizer
from dialog.errors import UserError
from dialog.ranks import rank, world_size

Integers = NDArray[np.integer[Any]]
LINES = 10_000
"""Lines that are tokenised at a time."""


class Utterances:
    """A UTF-8 text of one utterance a line, as flat token ids; empty lines do not count.

    Args:
        path: The text.
        tokenizer: The run's.
        max_tokens: The most tokens of an utterance, its end token included; a longer one loses its end.

    Raises:
        UserError: with the path, when the text cannot be read or has no utterance.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        require_file(path, "it should hold an utterance a line")
        try:
            with path.open(encoding="utf-8") as file:
                parts, lengths = _encoded((line.strip() for line in file), tokenizer, max_tokens - 1)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the text cannot be read: {error}") from error
        if not lengths:
            raise UserError(f"{path}: no line of the text has an utterance")
        self.ids = torch.from_numpy(np.concatenate(parts))  # [all tokens]
        self.lengths = torch.from_numpy(np.concatenate(lengths))  # [utterances]
        self.starts = self.lengths.cumsum(0) - self.lengths  # [utterances]

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(self, count: int) -> Tensor:
        """So many utterances ``ids </s>``, padded on the right [count, T], each as likely as any other."""
        chosen = (torch.randint(len(self), (count,)) + self._share()) % len(self)
        lengths = self.lengths[chosen]
        places = self.starts[chosen].unsqueeze(1) + torch.arange(int(lengths.max()) + 1)  # [count, T]
        return ended(self.ids[places.clamp(max=len(self.ids) - 1)].long(), lengths)

    def _share(self) -> int:
        """Where the lines of this process begin: processes of one seed draw the same numbers."""
        return rank() * len(self) // world_size()


def _encoded(lines: Iterable[str], tokenizer: Tokenizer, most: int) -> tuple[list[Integers], list[Integers]]:
    """Ids of all lines that are not empty, a block at a time, each line cut to so many; and their lengths."""
    parts: list[Integers] = []
    lengths: list[Integers] = []
    rest = filter(None, lines)
    while block := list(islice(rest, LINES)):
        encoded = [ids[:most] for ids in tokenizer.encode_batch(block)]
        parts.append(np.fromiter(chain.from_iterable(encoded), np.int32))
        lengths.append(np.fromiter(map(len, encoded), np.int64))
    return parts, lengths


def ended(tokens: Tensor, lengths: Tensor) -> Tensor:
    """The first ids of each row [B, T], as many as ``lengths`` [B] says and fewer than T, then </s> and padding."""
    places = torch.arange(tokens.shape[1], device=tokens.device)  # [T]
    cut = tokens.masked_fill(places > lengths.unsqueeze(1), PAD)
    return cut.masked_fill(places == lengths.unsqueeze(1), EOS)
