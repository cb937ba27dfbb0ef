"""Greedy search.

Shapes: N rows of the batch, S source tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dialog.generation.constraints import Constraints
from dialog.generation.search import Replies, Step
from dialog.generation.searches.largest import largest
from dialog.generation.searches.rows import RowSearch, decode_rows
from dialog.models.contracts import Memory, State


class Greedy(RowSearch):
    """Emit the most probable token at each step until the end token: argmax_v p(v | previous
    tokens, source).
    """

    streams = True

    def __init__(self, *, constraints: Constraints) -> None:
        super().__init__(constraints)

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode one response for each row of `first` [N, 1]."""
        best = decode_rows(self, step, first, memory, state, source)
        return [[] if reply is None else [reply] for reply in best]

    def choose(self, preferences: Tensor, numbers: Tensor | None) -> Tensor:
        """Choose the preferred token of each row."""
        return largest(preferences, 1)[1].squeeze(-1)
