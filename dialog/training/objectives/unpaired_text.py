"""Unpaired text: a corpus of utterances without replies, drawn at random."""

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
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.ranks import rank, world_size
from dialog.training.objectives.objective import end_rows

Integers = NDArray[np.integer[Any]]
LINES = 10_000
"""Lines per tokenizer call."""


class Utterances:
    """Token ids of a UTF-8 text of one utterance a line, in one flat array; empty lines are
    skipped.

    Args:
        path: The text.
        tokenizer: The run's tokenizer.
        max_tokens: The most tokens of an utterance, </s> included; longer ones are truncated at the
            end.

    Raises:
        UserError: the text cannot be read or has no utterance.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        require_file(path, "it should hold an utterance a line")
        try:
            with path.open(encoding="utf-8") as file:
                parts, lengths = _encoded(
                    (line.strip() for line in file), tokenizer, max_tokens - 1
                )
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the text cannot be read: {error}") from error
        if not lengths:
            raise UserError(f"{path}: the text is empty; write one utterance a line")
        self.ids = torch.from_numpy(np.concatenate(parts))  # [all tokens]
        self.lengths = torch.from_numpy(np.concatenate(lengths))  # [utterances]
        self.starts = self.lengths.cumsum(0) - self.lengths  # [utterances]

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(self, count: int) -> Tensor:
        """Draw ``count`` utterances uniformly: rows ``ids </s>`` padded on the right [count, T]."""
        chosen = (torch.randint(len(self), (count,)) + self._first_of_rank()) % len(self)
        lengths = self.lengths[chosen]
        # [count, T]
        columns = self.starts[chosen].unsqueeze(1) + torch.arange(int(lengths.max()) + 1)
        return end_rows(self.ids[columns.clamp(max=len(self.ids) - 1)].long(), lengths)

    def _first_of_rank(self) -> int:
        """Return an offset of this rank: ranks with the same seed draw the same random numbers."""
        return rank() * len(self) // world_size()


def _encoded(
    lines: Iterable[str], tokenizer: Tokenizer, most: int
) -> tuple[list[Integers], list[Integers]]:
    """Encode the lines that are not empty, truncated to ``most`` ids; return blocks of ids and of
    lengths.
    """
    parts: list[Integers] = []
    lengths: list[Integers] = []
    rest = filter(None, lines)
    while block := list(islice(rest, LINES)):
        encoded = [ids[:most] for ids in tokenizer.encode_batch(block)]
        parts.append(np.fromiter(chain.from_iterable(encoded), np.int32))
        lengths.append(np.fromiter(map(len, encoded), np.int64))
    return parts, lengths
