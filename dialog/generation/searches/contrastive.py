"""Contrastive search.

Shapes: N rows of the batch, n rows that have not been removed, k choices of a row, T tokens so far,
D width of the decoder, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.generation.constraints import Constraints
from dialog.generation.search import Replies, RepresentingStep, Search, Step, reads_ends
from dialog.generation.searches.largest import largest
from dialog.generation.searches.rows import hypothesis
from dialog.models.contracts import Memory, State


class Contrastive(Search):
    """Choose among the k most probable tokens v the one that differs most from the response (Su
    et al. 2022).

    argmax_v (1 - alpha) p(v) - alpha max_j cos(h_v, h_j), with h the vectors that the decoder makes
    of the tokens; j are the tokens so far, begin token included. Every choice is read by the
    decoder: k times the cost of greedy search.

    Args:
        top_k: Number of choices.
        alpha: Weight of the difference, in [0, 1]; 0 is greedy search.
    """

    def __init__(self, *, constraints: Constraints, top_k: int = 4, alpha: float = 0.6) -> None:
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; give at least 1")
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}; give a number from 0 to 1")
        self.constraints = constraints
        self.top_k = top_k
        self.alpha = alpha

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
        """Decode one response for each row of `first` [N, 1]; the step must be a
        `RepresentingStep`.
        """
        count = len(first)
        device = first.device
        longest = self.constraints.max_length
        represent = cast("RepresentingStep", step).represent
        tokens = torch.full((count, longest + 1), self.constraints.end, device=device)
        scores = torch.zeros(count, longest + 1, device=device)
        rows = torch.arange(count, device=device)
        ended = torch.zeros(count, dtype=torch.bool, device=device)
        progress = self.constraints.start(count, device)
        logits, vectors, state = represent(first, memory, state)  # [n, 1, V], [n, 1, D]
        seen = F.normalize(vectors.float(), dim=-1)  # [n, T + 1, D]
        for length in range(longest + 1):
            log_probabilities, preferences = self.constraints(
                logits[:, -1], tokens[rows, :length], source, progress
            )
            choices = min(self.top_k, preferences.shape[-1])
            best, options = largest(preferences, choices)  # [n, k]
            expanded = memory.repeat(choices), state.repeat(choices)
            logits, vectors, state = represent(options.view(-1, 1), *expanded)
            own = F.normalize(vectors.float(), dim=-1).view(len(rows), choices, -1)  # [n, k, D]
            similar = (own @ seen.transpose(1, 2)).amax(-1)  # [n, k]
            value = ((1 - self.alpha) * best.exp() - self.alpha * similar).masked_fill(
                best == -torch.inf, -torch.inf
            )
            place = value.argmax(-1, keepdim=True)  # [n, 1]
            chosen = options.gather(1, place).squeeze(1)
            score = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
            tokens[rows, length] = chosen.masked_fill(ended, self.constraints.end)
            scores[rows, length] = score.masked_fill(ended, 0.0)
            ended = ended | (chosen == self.constraints.end)
            reads = reads_ends(step, length, device)
            open_rows = len(rows) - int(ended.sum()) if reads else len(rows)
            if not open_rows:
                break
            progress = self.constraints.advance(progress, chosen)
            seen = torch.cat(
                [seen, own.gather(1, place.unsqueeze(-1).expand(-1, -1, own.shape[-1]))], 1
            )
            # rows of the choices
            taken = place.squeeze(1) + torch.arange(len(rows), device=device) * choices
            if 2 * open_rows <= len(rows):
                keep = (~ended).nonzero().squeeze(1)
                taken, rows, source, seen, ended = (
                    part[keep] for part in (taken, rows, source, seen, ended)
                )
                memory = memory.select(keep)
                progress = progress.select(keep)
            logits = logits[taken]
            state = state.select(taken)
        replies = (
            hypothesis(*row, end=self.constraints.end, rank=None)
            for row in zip(tokens.tolist(), scores.tolist(), strict=True)
        )
        return [[] if reply is None else [reply] for reply in replies]
