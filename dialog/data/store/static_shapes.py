"""Static shapes: batches padded to the lengths of `static_classes`, so that shapes repeat.

A CUDA graph serves one shape. On DailyDialog (context of 3 turns, 3,072 tokens a batch) an epoch
has 59 shapes in 1,823 batches in place of 665 in 1,554; 18.1 % of the tokens are padding in place
of 3.4 %.
"""

from __future__ import annotations

import torch.nn.functional as F

from dialog.data.batching import Batch
from dialog.data.store.length_classes import STATIC_SOURCE, STATIC_TARGET, static_length
from dialog.data.tokenizers.tokenizer import PAD


def with_static_shape(batch: Batch) -> Batch:
    """Return the batch with sources and targets padded to static lengths."""
    source = batch.source.shape[1]
    target = batch.target.shape[1] - 1
    shape = batch.turn_shape
    return batch._replace(
        source=F.pad(batch.source, (0, static_length(source, STATIC_SOURCE) - source), value=PAD),
        target=F.pad(batch.target, (0, static_length(target, STATIC_TARGET) - target), value=PAD),
        turn_shape=shape and (static_length(shape[0], 1), static_length(shape[1], STATIC_SOURCE)),
    )
