"""A loss of two passes.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from dialog.config.components import Component
from dialog.data.tokenizers.tokenizer import PAD
from dialog.training.losses.contract import LossSums, at_least_float, build_loss, given
from dialog.training.losses.single import SINGLE

CROSS_ENTROPY: Component = {"name": "cross_entropy"}


class RDrop:
    """(L(p) + L(q)) / 2 + weight (KL(p || q) + KL(q || p)) / 2, of two passes p and q with different dropout.

    Liang et al. 2021, equations 2 to 4, with ``loss`` as L. The paper adds up L(p) + L(q) where this takes the mean,
    so half the paper's objective with its alpha is this with the weight alpha / 2. The likelihood is the mean of both.
    """

    def __init__(self, *, loss: Component = CROSS_ENTROPY, weight: float = 0.5, padding: int = PAD) -> None:
        if not weight >= 0:
            raise ValueError(f"weight must be at least 0, not {weight}")
        self.loss = build_loss(SINGLE, loss, padding=padding)
        self.weight = weight

    def __call__(self, logits: Tensor, targets: Tensor, previous: Tensor, again: Tensor) -> LossSums:
        """Sums over the N tokens."""
        one, other = (self.loss(each, targets, **given(self.loss, previous=previous)) for each in (logits, again))
        log_p, log_q = (at_least_float(each).log_softmax(-1) for each in (logits, again))  # [N, V]
        apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2  # half of both divergences
        objective = (one.objective + other.objective) / 2 + self.weight * apart
        return LossSums(objective, (one.nll + other.nll) / 2)
