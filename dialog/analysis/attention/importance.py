"""Importance of attention heads, and the likelihood of a model as heads are removed.

Shapes: B rows, T target tokens, S source tokens, H heads, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dialog.analysis.attention.batch_maps import Examples
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.attention.heads import HeadSlices, heads_of, without_heads
from dialog.models.seq2seq import Seq2Seq

POINTS = 24
"""Largest number of steps of an ablation curve."""


class Importance(NamedTuple):
    """Importance of one head."""

    module: str
    head: int
    importance: float  # nats per example
    normalised: float  # divided by the length of its module's vector of importances

    @property
    def name(self) -> str:
        """Return ``module.head``."""
        return f"{self.module}.{self.head}"


def negative_log_likelihoods(model: Seq2Seq, batch: Examples) -> Tensor:
    """Return -log p(response | context) of each example [B], in nats, end token included."""
    device = next(model.parameters()).device
    source = batch.source.to(device)
    target = batch.target.to(device)
    logits = model(source, source != PAD, target[:, :-1])  # [B, T, V]
    scores = logits if logits.dtype.itemsize >= 4 else logits.float()
    chosen = scores.gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)  # [B, T]
    nll: Tensor = (scores.logsumexp(-1) - chosen) * (target[:, 1:] != PAD)  # [B, T]
    return nll.sum(1)


def head_importance(model: Seq2Seq, batches: Iterable[Examples]) -> list[Importance]:
    """Return the importance of every head that can be removed: E_x |d L(x) / d m_h|; Michel
    et al. 2019, 3.1.

    L(x) is the negative log-likelihood of an example and m_h = 1 a mask that multiplies the output
    of head h. The normalisation by the L2 norm over the heads of a module is that of their
    section 3.1 (after Molchanov et al. 2017). The masks exist in hooks during this call only.
    """
    slices = heads_of(model)
    sums = {name: torch.zeros(module.heads, dtype=torch.float64) for name, module in slices.items()}
    number = 0
    for batch in batches:
        number += len(batch.source)
        first = next(model.parameters())
        masks = {
            name: torch.ones(
                len(batch.source),
                module.heads,
                device=first.device,
                dtype=first.dtype,
                requires_grad=True,
            )
            for name, module in slices.items()
        }
        with masked(slices, masks), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            loss = negative_log_likelihoods(model, batch).sum()
            gradients = torch.autograd.grad(loss, list(masks.values()))  # [B, H] each
        for name, gradient in zip(masks, gradients, strict=True):
            sums[name] += gradient.double().abs().sum(0).cpu()
    means = {name: (total / max(1, number)).tolist() for name, total in sums.items()}
    return [
        Importance(name, head, value, value / (math.hypot(*values) or 1.0))
        for name, values in means.items()
        for head, value in enumerate(values)
    ]


def ablation_curve(
    model: Seq2Seq, order: Sequence[str], score: Callable[[], float]
) -> list[dict[str, Any]]:
    """Return the score as heads are removed in this order, from none to all, in at most `POINTS`
    steps.
    """
    steps = min(POINTS, len(order))
    numbers = [round(step * len(order) / steps) for step in range(steps + 1)] if steps else [0]
    curve = []
    for number in numbers:
        with without_heads(model, order[:number]):
            curve.append(
                {"removed": number, "heads_left": len(order) - number, "bits_per_byte": score()}
            )
    return curve


@contextmanager
def masked(slices: dict[str, HeadSlices], masks: dict[str, Tensor]) -> Iterator[None]:
    """Multiply the output of each head by its mask [B, H] within the block."""

    def before(
        module: HeadSlices, mask: Tensor
    ) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
        return lambda _, inputs: (module.scaled(inputs[0], mask),)

    def after(
        module: HeadSlices, mask: Tensor
    ) -> Callable[[nn.Module, tuple[Tensor], Tensor], Tensor]:
        return lambda _, __, output: module.scaled(output, mask)

    hooks = [
        module.linear.register_forward_pre_hook(before(module, masks[name]))
        if module.inputs
        else module.linear.register_forward_hook(after(module, masks[name]))
        for name, module in slices.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
