"""A loss of two passes.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from dialog.config.components import Component
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.heads import at_least_float
from dialog.training.losses.loss import LossSums, build_loss, needs_of
from dialog.training.losses.single import SINGLE

CROSS_ENTROPY: Component = {"name": "cross_entropy"}


class RDrop:
    """(L(p) + L(q)) / 2 + weight (KL(p || q) + KL(q || p)) / 2, for two passes p and q with
    different dropout.

    Liang et al. 2021, equations 2 to 4, with ``loss`` as L. The paper adds L(p) + L(q) where this
    takes the mean, so weight = alpha / 2 gives half the paper's objective with its alpha. The
    likelihood is the mean of both.
    """

    def __init__(
        self, *, loss: Component = CROSS_ENTROPY, weight: float = 0.5, padding: int = PAD
    ) -> None:
        if not weight >= 0:
            raise ValueError(f"weight must be at least 0, not {weight}")
        self.loss = build_loss(SINGLE, loss, padding=padding)
        self.weight = weight
        self.needs = needs_of(self.loss) | {"second_pass"}

    def __call__(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        second_pass: Tensor,
        previous: Tensor | None = None,
    ) -> LossSums:
        """Sums over N tokens; ``previous`` is passed on to the inner loss."""
        inputs = {} if previous is None else {"previous": previous}
        first, second = (self.loss(scores, targets, **inputs) for scores in (logits, second_pass))
        # [N, V]
        log_p, log_q = (at_least_float(scores).log_softmax(-1) for scores in (logits, second_pass))
        # mean of both directions
        divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
        objective = (first.objective + second.objective) / 2 + self.weight * divergence
        return LossSums(objective, (first.nll + second.nll) / 2)
