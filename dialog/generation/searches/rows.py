"""Searches whose rows are independent of each other: greedy search and sampling.

`RowLoop` decodes rows of several such searches together.

Shapes: N rows of the batch, n rows that have not been removed, V vocabulary, L = max_length.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from dialog.generation.constraints import Constraints
from dialog.generation.search import Hypothesis, Search, Step, reads_ends
from dialog.models.contracts import Memory, State


class RowSearch(Search):
    """Search that chooses each token from the preferences of its row alone.

    A response is the best of `candidates` independent rows.
    """

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints

    @abstractmethod
    def choose(self, preferences: Tensor, numbers: Tensor | None) -> Tensor:
        """Choose tokens [n] by preferences [n, V] and the numbers of `uniform` for these tokens
        [n].
        """

    def uniform(self, source: Tensor, ids: Sequence[str], times: int) -> Tensor | None:
        """Return numbers in [0, 1) for each token of each candidate [N * times, max_length + 1];
        None for a search that does not draw.
        """
        return None


def decode_rows(
    search: RowSearch,
    step: Step,
    first: Tensor,
    memory: Memory,
    state: State,
    source: Tensor,
    numbers: Tensor | None = None,
) -> list[Hypothesis | None]:
    """Extend every row by the chosen token until its end token; None where the scores are not
    numbers. The ``numbers`` [N, L + 1] are those of `RowSearch.uniform`.

    Finished rows are removed from the batch once they make up half of it. The host waits for the
    device where it reads their number, see `reads_ends`.
    """
    constraints = search.constraints
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
        own = None if numbers is None else numbers[rows, length]
        chosen = search.choose(preferences, own)  # [n]
        score = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
        tokens[rows, length] = chosen.masked_fill(ended, constraints.end)
        scores[rows, length] = score.masked_fill(ended, 0.0)
        ended = ended | (chosen == constraints.end)
        last = chosen.unsqueeze(1)
        progress = constraints.advance(progress, chosen)
        if not reads_ends(step, length, device):
            continue
        open_rows = len(rows) - int(ended.sum())
        if not open_rows:
            break
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
