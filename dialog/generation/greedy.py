"""The likeliest token at each step.

Shapes: N rows still speaking, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dialog.config.components import Family
from dialog.generation.contract import Replies, Search, Step
from dialog.models.contracts import Memory, State


class Greedy(Search):
    """Say the likeliest token until the end token: argmax_v p(v | what was said, source).

    ``min_length`` and ``max_length`` count tokens without the end; before ``min_length`` the end is not allowed, at
    ``max_length`` the search stops. ``banned`` tokens are never said, but keep their share of the probability, so that
    the score is the model's own log-probability. Rows that are done leave the batch when they are the half of it.
    """

    def __init__(self, *, end: int, banned: Sequence[int] = (), min_length: int = 1, max_length: int = 60) -> None:
        if not 0 <= min_length <= max_length or max_length < 1:
            raise ValueError(f"needs 0 <= min_length <= max_length, not {min_length} and {max_length}")
        self.end = end
        self.banned = list(banned)
        self.min_length = min_length
        self.max_length = max_length

    @torch.no_grad()
    def __call__(self, step: Step, first: Tensor, memory: Memory, state: State) -> Replies:
        """One response a row."""
        rows = len(first)
        said: list[list[int]] = [[] for _ in range(rows)]
        scores, finished = [0.0] * rows, [False] * rows
        who, tokens = torch.arange(rows), first
        for length in range(self.max_length + 1):
            logits, state = step(tokens, memory, state)
            log_probabilities = logits[:, -1].float().log_softmax(-1)  # [N, V]
            scored, chosen = self._allowed(log_probabilities, length).max(-1)  # [N]
            going = []
            for place, (row, token, score) in enumerate(
                zip(who.tolist(), chosen.tolist(), scored.tolist(), strict=True)
            ):
                if finished[row] or (length == self.max_length and token != self.end):
                    continue
                scores[row] += score
                if token == self.end:
                    finished[row] = True
                else:
                    said[row].append(token)
                    going.append(place)
            if not going:
                break
            tokens = chosen.unsqueeze(1)  # [N, 1]
            if 2 * len(going) <= len(who):
                keep = torch.tensor(going, device=first.device)
                tokens, memory, state, who = tokens[keep], memory.select(keep), state.select(keep), who[keep.cpu()]
        return Replies(said, scores, finished)

    def _allowed(self, log_probabilities: Tensor, length: int) -> Tensor:
        """Log-probabilities [N, V] with -inf where a token may not be said."""
        forbidden = self.banned + ([self.end] if length < self.min_length else [])
        if not forbidden:
            return log_probabilities
        return log_probabilities.index_fill(-1, torch.tensor(forbidden, device=log_probabilities.device), -torch.inf)


SEARCHES: Family[Search] = Family("search", {"greedy": Greedy}, runtime=("end", "banned"))
