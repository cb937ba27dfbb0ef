"""Greedy search.

Shapes: N rows of the batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dialog.config.components import Family
from dialog.generation.contract import Replies, Search, Step
from dialog.models.contracts import Memory, State


class Greedy(Search):
    """Emit the most probable token at each step until the end token: argmax_v p(v | previous tokens, source).

    ``min_length`` and ``max_length`` count tokens without the end token: it is masked before ``min_length``, and
    decoding stops at ``max_length``. ``banned`` tokens are never emitted. Masking does not renormalise: the score stays
    the model's own log-probability. Finished rows are removed from the batch once they make up half of it.
    """

    def __init__(self, *, end: int, banned: Sequence[int] = (), min_length: int = 1, max_length: int = 60) -> None:
        if not 0 <= min_length <= max_length or max_length < 1:
            raise ValueError(f"needs 0 <= min_length <= max_length and max_length >= 1, not {min_length}, {max_length}")
        self.end = end
        self.banned = list(banned)
        self.min_length = min_length
        self.max_length = max_length

    @torch.no_grad()
    def __call__(self, step: Step, first: Tensor, memory: Memory, state: State) -> Replies:
        """Decode one response for each row of `first` [N, 1]."""
        replies = Replies([[] for _ in first], [0.0] * len(first), [False] * len(first))
        rows, tokens = list(range(len(first))), first  # N, the row of `first` behind each row of the batch
        banned, ended = (
            torch.tensor(ids, dtype=torch.long, device=first.device) for ids in (self.banned, [*self.banned, self.end])
        )
        for length in range(self.max_length + 1):
            logits, state = step(tokens, memory, state)
            log_probabilities = logits[:, -1].float().log_softmax(-1)  # [N, V]
            forbidden = ended if length < self.min_length else banned
            best, chosen = log_probabilities.index_fill(-1, forbidden, -torch.inf).max(-1)  # [N]
            scores, ids = torch.stack([best, chosen.float()]).tolist()  # one wait; ids below 2^24 are exact
            unfinished = self._extend(replies, rows, scores, ids, length)
            if not unfinished:
                break
            tokens = chosen.unsqueeze(1)  # [N, 1]
            if 2 * len(unfinished) <= len(rows):
                keep = torch.tensor(unfinished, device=first.device)
                tokens, memory, state = tokens[keep], memory.select(keep), state.select(keep)
                rows = [rows[position] for position in unfinished]
        return replies

    def _extend(
        self, replies: Replies, rows: list[int], scores: list[float], tokens: list[float], length: int
    ) -> list[int]:
        """Append one token to each unfinished reply; return the positions in the batch that continue."""
        unfinished = []
        for position, (row, score, token) in enumerate(zip(rows, scores, map(int, tokens), strict=True)):
            if replies.finished[row] or (length == self.max_length and token != self.end):
                continue
            replies.scores[row] += score
            if token == self.end:
                replies.finished[row] = True
            else:
                replies.tokens[row].append(token)
                unfinished.append(position)
        return unfinished


SEARCHES: Family[Search] = Family("search", {"greedy": Greedy}, runtime=("end", "banned"))
