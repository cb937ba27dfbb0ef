"""What training lowers.

Shapes: N target tokens, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    objective: Tensor  # [], what training lowers
    nll: Tensor  # [], -log p(target): what is compared


class Loss(Protocol):
    """Scores of real target tokens to sums."""

    def __call__(self, logits: Tensor, targets: Tensor) -> LossSums:
        """Logits [N, V] and targets [N], padding already left out."""


class CrossEntropy:
    """(1 - e) (-log p(y)) + (e / V) sum_v -log p(v), with label smoothing e over the whole vocabulary.

    The form of ``torch.nn.functional.cross_entropy``; Szegedy et al. 2016, section 7. Computed in float32 or better.
    """

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        self.label_smoothing = label_smoothing

    def __call__(self, logits: Tensor, targets: Tensor) -> LossSums:
        """Sums over the N tokens."""
        scores = logits if logits.dtype.itemsize >= 4 else logits.float()  # [N, V]
        total = scores.logsumexp(-1)  # [N]
        nll = (total - scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)).sum()
        if not self.label_smoothing:
            return LossSums(nll, nll)
        uniform = (total - scores.mean(-1)).sum()
        return LossSums((1 - self.label_smoothing) * nll + self.label_smoothing * uniform, nll)


LOSSES = {"cross_entropy": CrossEntropy}
