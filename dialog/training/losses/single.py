"""Losses of a single pass.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.config.components import Family
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.heads import at_least_float
from dialog.training.losses.loss import Loss, LossSums


class CrossEntropy:
    """(1 - e) (-log p(y)) + (e / V) sum_v -log p(v), with label smoothing e over the whole
    vocabulary.

    As in ``torch.nn.functional.cross_entropy``; Szegedy et al. 2016, section 7. Computed in float32
    or better.
    """

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        self.label_smoothing = label_smoothing

    def __call__(self, logits: Tensor, targets: Tensor) -> LossSums:
        """Sums over N tokens."""
        log_p = at_least_float(logits).log_softmax(-1)  # [N, V]
        nll = F.nll_loss(log_p, targets, reduction="sum")
        if not self.label_smoothing:
            return LossSums(nll, nll)
        uniform = -log_p.mean(-1).sum()
        return LossSums((1 - self.label_smoothing) * nll + self.label_smoothing * uniform, nll)


class Unlikelihood:
    """-log p(y) - alpha sum_c log(1 - p(c)) over the distinct tokens c before y in the response,
    without y itself.

    The token-level objective of Welleck et al. 2020, equation 4, with the candidates of equation 5.
    1 - p(c) is clamped to at least 1e-6.
    """

    needs = frozenset({"previous"})

    def __init__(self, *, alpha: float = 1.0, padding: int = PAD) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, not {alpha}")
        self.alpha = alpha
        self.padding = padding

    def __call__(self, logits: Tensor, targets: Tensor, previous: Tensor) -> LossSums:
        """Sums over N tokens."""
        scores = at_least_float(logits)  # [N, V]
        total = scores.logsumexp(-1, keepdim=True)  # [N, 1]
        nll = (total.squeeze(-1) - chosen(scores, targets)).sum()
        candidates = previous.sort(-1).values  # [N, T], duplicates adjacent
        counted = (candidates != targets.unsqueeze(-1)) & (candidates != self.padding)  # [N, T]
        counted[:, 1:] &= candidates[:, 1:] != candidates[:, :-1]
        rest = 1 - (scores.gather(-1, candidates) - total).exp()  # [N, T], 1 - p(c)
        unlike = -rest.clamp(min=1e-6).log().masked_fill(~counted, 0).sum()
        return LossSums(nll + self.alpha * unlike, nll)


class Focal:
    """(1 - p(y))^gamma (-log p(y)): down-weights confident predictions; Lin et al. 2017,
    equation 4.
    """

    def __init__(self, *, gamma: float = 1.0) -> None:
        if not gamma >= 0:
            raise ValueError(f"gamma must be at least 0, not {gamma}")
        self.gamma = gamma

    def __call__(self, logits: Tensor, targets: Tensor) -> LossSums:
        """Sums over N tokens."""
        scores = at_least_float(logits)  # [N, V]
        nll = scores.logsumexp(-1) - chosen(scores, targets)  # [N]
        rest = (-torch.expm1(-nll)).clamp(min=torch.finfo(nll.dtype).tiny)  # [N], 1 - p(y)
        return LossSums((rest**self.gamma * nll).sum(), nll.sum())


SINGLE: Family[Loss] = Family(
    "loss",
    {"cross_entropy": CrossEntropy, "unlikelihood": Unlikelihood, "focal": Focal},
    runtime=("padding",),
)
"""The losses that R-drop can use as its inner loss."""


def chosen(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the score of each target [N] among scores [N, V]."""
    return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # [N]
