"""Prediction of the context from the response.

Shapes: B rows, S source tokens, T target tokens.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import EOS, OTHER, PAD, SELF
from dialog.training.objectives.objective import Task, task


class Reverse:
    """Predict the last turn of the context from the response: ``<s> <self> response </s>`` to
    ``<s> turn </s>``.

    Of a truncated turn, the part in the source is predicted. An example without a context turn has
    no loss. On a GPU, each step waits once for the device, to read the length of the longest turn.
    """

    def __call__(self, batch: Batch) -> Task:
        """Return a task with as many rows as the batch."""
        return task(SELF, batch.target[:, 1:], last_turns(batch.source, batch.facts))


def last_turns(source: Tensor, facts: Tensor) -> Tensor:
    """Return the last turn of each ``<self> ids <other> ids ... </s>`` [B, S] as ``ids </s>``
    [B, T], or only padding.

    Its ids begin behind the last role token, and never before the end of the ``facts`` [B] leading
    tokens: a source may have no turn, or only the end of one.
    """
    ends = torch.arange(1, source.shape[1] + 1, device=source.device)  # [S]
    starts = (((source == SELF) | (source == OTHER)) * ends).amax(1).maximum(facts)  # [B]
    longest = int(((source != PAD).sum(1) - 1 - starts).max())
    columns = starts.unsqueeze(1) + torch.arange(longest + 1, device=source.device)  # [B, T]
    turns = F.pad(source, (0, longest + 1), value=PAD).gather(1, columns)  # [B, T]
    return turns.masked_fill(turns[:, :1] == EOS, PAD)
