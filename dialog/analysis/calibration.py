"""Calibration of token probabilities under teacher forcing.

Shapes: B rows, T target tokens, M bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

BINS = 10
"""M; bin m holds the confidences in (m / M, (m + 1) / M]."""
SIZE = 3 * BINS


def bin_sums(confidence: Tensor, correct: Tensor, real: Tensor) -> Tensor:
    """Return tokens, correct tokens and sum of confidences of each bin, for each row [B, 3 M], in
    float64.

    Args:
        confidence: Largest probability of each target position [B, T].
        correct: Whether the most probable token is the target [B, T].
        real: Whether the position is not padding [B, T].
    """
    bins = (confidence.double() * BINS).ceil().long().clamp(1, BINS) - 1  # [B, T]
    # [B,3,T]
    values = torch.stack(
        [torch.ones_like(confidence), correct, confidence], 1
    ).double() * real.unsqueeze(1)
    return (
        values.new_zeros(len(bins), 3, BINS)
        .scatter_add(-1, bins.unsqueeze(1).expand_as(values), values)
        .flatten(1)
    )


def calibration(sums: Sequence[float]) -> dict[str, Any]:
    """Return expected calibration error and reliability diagram of summed `bin_sums` [3 M].

    error = sum_m tokens_m / tokens |accuracy_m - confidence_m| (Guo et al. 2017,
    https://arxiv.org/abs/1706.04599), in [0, 1], with the mean accuracy and the mean confidence of
    each bin. Empty bins are left out.
    """
    bins = [
        {"confidence": confidence / tokens, "accuracy": correct / tokens, "tokens": round(tokens)}
        for tokens, correct, confidence in zip(
            *(sums[start : start + BINS] for start in range(0, SIZE, BINS)), strict=True
        )
        if tokens
    ]
    total = sum(row["tokens"] for row in bins)
    gaps = (row["tokens"] * abs(row["accuracy"] - row["confidence"]) for row in bins)
    return {"error": sum(gaps) / total if total else float("nan"), "bins": bins}


def pooled(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the results of `calibration` of several runs: mean error, and bins over the tokens of
    all runs.
    """
    sums = [[0.0] * BINS for _ in range(3)]
    for row in (row for run in runs for row in run["bins"]):
        place = min(max(math.ceil(row["confidence"] * BINS), 1), BINS) - 1
        for total, share in zip(sums, (1, row["accuracy"], row["confidence"]), strict=True):
            total[place] += share * row["tokens"]
    bins = calibration([value for total in sums for value in total])["bins"]
    return {"error": fmean(run["error"] for run in runs), "bins": bins}
