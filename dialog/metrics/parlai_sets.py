"""Perplexity on the examples that ParlAI's evaluation scores, for comparison with published
figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from dialog.metrics.likelihood import PerplexityToken

SETS = ("S1", "S2", "S3")


def scored_by_parlai(turns: Iterable[int]) -> Iterator[int]:
    """Yield the rows that `eval_model` with `-sft True` scores, in its order, given the turns of
    each dialogue.

    Every turn of every dialogue is a row. A dialogue has two episodes: the first speaker's
    responses (turns 1, 3, ...), then the second's (turns 2, 4, ...). The evaluation passes over one
    example at the beginning, and over one more whenever it has scored the last of an episode; the
    passed ones are usually, but not always, the first of an episode.
    """
    start = 0
    passes = True
    for count in turns:
        for first in range(min(count, 2)):
            episode = range(start + first, start + count, 2)
            for row in episode:
                if not passes:
                    yield row
                passes = not passes and row == episode[-1]
        start += count


class ParlaiSets(Metric):
    """Perplexity per token of ParlAI's scored examples: the first `limit` (S1), all of them (S2),
    and all turns (S3).

    The numbers of responses, target tokens and bytes are given with each. The data need every turn
    as a response, in the order of the split (`first_turns: true`). Sankar et al. 2019,
    https://aclanthology.org/P19-1004, used S1 with a limit of 1,000 of DailyDialog's test split.

    Args:
        limit: Responses of S1.
    """

    full_state_update = False
    higher_is_better = False
    numbers: list[Tensor]
    begins: list[Tensor]

    def __init__(self, limit: int = 1000, **options: Any) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; give at least 1")
        super().__init__(**options)
        self.limit = limit
        self.dialogue: str | None = None
        self.add_state("numbers", [], dist_reduce_fx=None)
        self.add_state("begins", [], dist_reduce_fx=None)

    def update(self, nll: Tensor, tokens: Tensor, bytes: Tensor, dialogues: Sequence[str]) -> None:
        """Add references, each with the id of its dialogue."""
        before = [self.dialogue, *dialogues[:-1]]
        self.begins.append(
            torch.tensor([a != b for a, b in zip(before, dialogues, strict=True)], dtype=torch.bool)
        )
        self.numbers.append(torch.stack([nll, tokens, bytes], 1).double())
        self.dialogue = dialogues[-1] if dialogues else self.dialogue

    def compute(self) -> dict[str, float]:
        """Return the perplexity and the counts of each set."""
        numbers = torch.cat(self.numbers)
        begins = torch.cat(self.begins)
        turns = torch.bincount(begins.long().cumsum(0) - 1).tolist()
        scored = torch.tensor(list(scored_by_parlai(turns)), dtype=torch.int64)
        values: dict[str, float] = {}
        for name, rows in zip(
            SETS, (scored[: self.limit], scored, torch.arange(len(numbers))), strict=True
        ):
            nll, *counts = numbers[rows].sum(0).tolist()
            values[name] = PerplexityToken().value(nll, counts[0])
            sizes = {"responses": len(rows), "tokens": int(counts[0]), "bytes": int(counts[1])}
            values |= {f"{name}_{unit}": size for unit, size in sizes.items()}
        return values

    def reset(self) -> None:
        """Forget all references."""
        super().reset()
        self.dialogue = None
