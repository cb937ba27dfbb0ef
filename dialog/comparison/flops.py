"""FLOPs per target token of the models of a comparison."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from statistics import fmean

from dialog.analysis.flops import training_flops
from dialog.data.dialogue import Example
from dialog.runs.run import Run


def flops_per_target_token(run: Run, sample: Sequence[Example]) -> float:
    """Return the FLOPs of training, forward and backward, per real target token.

    They are those of an example with the mean lengths, in tokens of the run's tokenizer, of a
    sample of the test set; encoding the context is included.
    """
    responder = run.responder
    pairs = responder.encode_batch(sample)
    sources, targets = (round(fmean(map(len, side))) for side in zip(*pairs, strict=True))
    tokens = targets - 1  # without the begin token
    return training_flops(copy.deepcopy(run.model).cpu().eval(), sources, tokens) / tokens
