"""Searches whose rows are independent of each other: greedy search and sampling.

Shapes: N rows of the batch, n rows that have not been removed, V vocabulary, L = max_length.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dialog.generation.constraints import Constraints
from dialog.generation.search import Hypothesis, Step
from dialog.models.contracts import Memory, State

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From preferences [n, V], the row of the batch that each belongs to [n], and the length so far, to
tokens [n].
"""


def decode_rows(
    step: Step,
    first: Tensor,
    memory: Memory,
    state: State,
    source: Tensor,
    constraints: Constraints,
    choose: Choose,
) -> list[Hypothesis | None]:
    """Extend every row by the chosen token until its end token; None where the scores are not
    numbers.

    Finished rows are removed from the batch once they make up half of it. The host waits for the
    device once a token.
    """
    count = len(first)
    device = first.device
    longest = constraints.max_length
    tokens = torch.full((count, longest + 1), constraints.end, device=device)  # [N, L + 1]
    scores = torch.zeros(count, longest + 1, device=device)
    rows = torch.arange(count, device=device)
    last = first
    progress = constraints.start(count, device)
    ended = torch.zeros(count, dtype=torch.bool, device=device)  # [n]
    for length in range(longest + 1):
        logits, state = step(last, memory, state)
        prefix = tokens[rows, :length]  # [n, length]
        log_probabilities, preferences = constraints(logits[:, -1], prefix, source, progress)
        chosen = choose(preferences, rows, length)  # [n]
        score = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
        tokens[rows, length] = chosen.masked_fill(ended, constraints.end)
        scores[rows, length] = score.masked_fill(ended, 0.0)
        ended = ended | (chosen == constraints.end)
        open_rows = len(rows) - int(ended.sum())
        if not open_rows:
            break
        last = chosen.unsqueeze(1)
        progress = constraints.advance(progress, chosen)
        if 2 * open_rows <= len(rows):
            keep = (~ended).nonzero().squeeze(1)
            last, rows, source, ended = (part[keep] for part in (last, rows, source, ended))
            memory = memory.select(keep)
            state = state.select(keep)
            progress = progress.select(keep)
    return [
        hypothesis(*row, end=constraints.end, rank=None)
        for row in zip(tokens.tolist(), scores.tolist(), strict=True)
    ]


def hypothesis(
    tokens: list[int], scores: list[float], *, end: int, rank: float | None
) -> Hypothesis | None:
    """Build a hypothesis of the tokens before the first end token; None if a score is not a number.

    Without an end token, the last token is beyond max_length and is dropped. The default rank is
    the score.
    """
    finished = end in tokens
    length = tokens.index(end) if finished else len(tokens) - 1
    kept = scores[: length + finished]
    total = sum(kept)
    if total != total:  # not a number
        return None
    return Hypothesis(tokens[:length], kept, finished, total if rank is None else rank)
