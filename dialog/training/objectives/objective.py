"""The contract of an auxiliary objective.

Shapes: B rows, S source tokens, T target tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD


class Task(NamedTuple):
    """The examples of an auxiliary objective for one batch."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>; a row of only <s> has no loss


Objective = Callable[[Batch], Task]
"""Make a task from a batch of dialogue examples, on the batch's device."""


def task(role: int, source: Tensor, target: Tensor) -> Task:
    """Return ``<s> role source`` and ``<s> target`` for rows ``ids </s>`` padded on the right,
    [B, S] and [B, T].
    """
    marked = F.pad(F.pad(source, (1, 0), value=role), (1, 0), value=BOS)  # [B, S + 2]
    return Task(marked, F.pad(target, (1, 0), value=BOS))  # [B, T + 1]


def end_rows(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Keep the first ``lengths`` [B] ids of each row [B, T], with lengths below T; append </s> and
    padding.
    """
    columns = torch.arange(tokens.shape[1], device=tokens.device)  # [T]
    kept = tokens.masked_fill(columns > lengths.unsqueeze(1), PAD)
    return kept.masked_fill(columns == lengths.unsqueeze(1), EOS)
