"""Agreement of attention with what the output depends on: erased source tokens, and gradients.

Shapes: S source tokens, T target tokens, H heads, R rows of a pass, E embedding size.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn

from dialog.analysis.attention.batch_maps import BatchMaps, Examples
from dialog.analysis.attention.sums import Sum
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.seq2seq import Seq2Seq

LEAST_TOKENS = 3
"""Shorter sources are left out: their ranks are nearly arbitrary."""


def agreement_sums(
    model: Seq2Seq, maps: BatchMaps, example: Examples, *, budget: int
) -> dict[str, dict[str, Sum]]:
    """Sum, over the response tokens of one example, the rank correlation over source tokens of each
    head's weights.

    ``erasure`` is Spearman's correlation with `erasure`, ``gradient`` that with `gradient`; Jain &
    Wallace 2019, 4.1. Under the name "" is ``erasure_and_gradient``, the correlation of these two
    with each other. Response tokens for which either side is constant are left out.
    """
    source, target = (tokens[tokens != PAD] for tokens in (example.source[0], example.target[0]))
    weights = maps.crosses()
    if not weights or len(source) < LEAST_TOKENS:
        return {}
    device = next(model.parameters()).device
    source = source.to(device)
    target = target.to(device)
    rows = max(1, budget // (len(source) + len(target)))
    erased = _ranks(erasure(model, source, target, rows=rows))
    steepest = _ranks(gradient(model, source, target, rows=rows))
    sums: dict[str, dict[str, Sum]] = {
        "": {"erasure_and_gradient": _correlation(erased[None], steepest)}
    }
    for name, heads in weights.items():
        ranks = _ranks(heads[0, :, : len(target) - 1, : len(source)])
        sums[name] = {
            "erasure": _correlation(ranks, erased),
            "gradient": _correlation(ranks, steepest),
        }
    return sums


@torch.no_grad()
def erasure(model: Seq2Seq, source: Tensor, target: Tensor, *, rows: int) -> Tensor:
    """Return |log p(y_t | x) - log p(y_t | x without token s)| [T, S]; source [S], target
    [T + 1].
    """
    whole = _log_probabilities(model, source.unsqueeze(0), target)  # [1, T]
    every = torch.arange(len(source), device=source.device)
    # [S, S - 1]
    kept = every.expand(len(source), -1)[every != every.unsqueeze(1)].view(len(source), -1)
    without = [_log_probabilities(model, source[part], target) for part in torch.split(kept, rows)]
    return (whole - torch.cat(without)).abs().T  # [T, S]


@torch.enable_grad()
def gradient(model: Seq2Seq, source: Tensor, target: Tensor, *, rows: int) -> Tensor:
    """Return |x_s . d log p(y_t | x) / d x_s| [T, S] with the embeddings x_s as the model reads
    them.

    x_s of an ensemble are the embeddings of all its networks.
    """
    steps = torch.arange(len(target) - 1, device=source.device)
    # its recurrent layers have no backward pass in eval mode
    with torch.backends.cudnn.flags(enabled=False):
        # [T, S]
        return torch.cat(
            [_gradient_of(model, source, target, part) for part in torch.split(steps, rows)]
        )


def _gradient_of(model: Seq2Seq, source: Tensor, target: Tensor, steps: Tensor) -> Tensor:
    """Return gradient x input of the target tokens at these steps [R]: [R, S]."""
    inputs: list[Tensor] = []

    def as_input(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
        inputs.append(output.detach().requires_grad_())
        return inputs[-1]

    sources = source.expand(len(steps), -1)
    hooks = [network.source_embedding.register_forward_hook(as_input) for network in model.members]
    try:
        memory, state = model.start(sources, sources != PAD)
    finally:
        for hook in hooks:
            hook.remove()  # before the decoder reads the same table
    logits, _ = model.step(target[:-1].expand(len(steps), -1), memory, state)
    chosen = logits[torch.arange(len(steps), device=steps.device), steps].log_softmax(-1)  # [R, V]
    log_p = chosen.gather(-1, target[1:][steps].unsqueeze(-1)).sum()
    gradients = torch.autograd.grad(log_p, inputs)  # [R, S, E] of each network
    products = [
        (derivative * states).sum(-1) for derivative, states in zip(gradients, inputs, strict=True)
    ]
    return torch.stack(products).sum(0).abs().detach()


def _log_probabilities(model: Seq2Seq, sources: Tensor, target: Tensor) -> Tensor:
    """Return log p of each target token [R, T] for sources [R, S]."""
    logits = model(sources, sources != PAD, target[:-1].expand(len(sources), -1))  # [R, T, V]
    chosen = logits.gather(-1, target[1:].expand(len(sources), -1).unsqueeze(-1)).squeeze(-1)
    log_p: Tensor = chosen - logits.logsumexp(-1)
    return log_p  # [R, T]


def _ranks(values: Tensor) -> NDArray[np.float64]:
    """Return the ranks along the last dimension, ties averaged, with mean 0 and length 1 (0 where
    all are equal).
    """
    ranks = rankdata(values.float().cpu().numpy(), axis=-1)
    centred = ranks - ranks.mean(-1, keepdims=True)
    unit: NDArray[np.float64] = centred / np.maximum(
        np.sqrt(np.square(centred).sum(-1, keepdims=True)), 1e-12
    )
    return unit


def _correlation(heads: NDArray[np.float64], other: NDArray[np.float64]) -> Sum:
    """Sum the correlation of ranks [H, T, S] with ranks [T, S] over the tokens for which no side is
    constant.
    """
    defined = heads.any(-1) & other.any(-1)  # [H, T]
    return Sum(torch.from_numpy((heads * other).sum((1, 2))), torch.from_numpy(defined.sum(1)))
