from __future__ import annotations

import math

import pytest
import torch

from dialog.analysis.calibration import SIZE, bin_sums, calibration, pooled


def test_error_by_hand() -> None:
    """Bin (.9, 1]: 2 tokens, confidence .95, accuracy .5; bin (.2, .3]: 1 token, .25 and 1. (2 x
    .45 + .75) / 3.
    """
    confidence = torch.tensor([[0.92, 0.25, 0.99], [0.98, 0.5, 0.5]], dtype=torch.float64)
    correct = torch.tensor([[True, True, False], [False, True, True]])
    real = torch.tensor([[True, True, False], [True, False, False]])
    sums = bin_sums(confidence, correct, real)
    assert sums.shape == (2, SIZE)
    result = calibration(sums.sum(0).tolist())
    assert result["error"] == pytest.approx((2 * 0.45 + 0.75) / 3)
    assert result["bins"] == [
        {"confidence": 0.25, "accuracy": 1.0, "tokens": 1},
        {"confidence": pytest.approx(0.95), "accuracy": 0.5, "tokens": 2},
    ]


def test_bins_are_closed_above() -> None:
    """A probability of 1 is in the last bin, one of 1/2 in (.4, .5]."""
    confidence = torch.tensor([[1.0, 0.5, 0.0, 0.51]])
    ones = torch.ones(1, 4, dtype=torch.bool)
    assert bin_sums(confidence, ones, ones)[0, :10].tolist() == [1, 0, 0, 0, 1, 1, 0, 0, 0, 1]


def test_no_tokens() -> None:
    result = calibration([0.0] * SIZE)
    assert math.isnan(result["error"])
    assert result["bins"] == []


def test_pooled_runs() -> None:
    """Bins (.2, .3] of 1 and 3 tokens are one; the error is the mean of .5 and .1."""
    low, high = (
        {"confidence": 0.25, "accuracy": 1.0, "tokens": 1},
        {"confidence": 1.0, "accuracy": 0.5, "tokens": 2},
    )
    other = {"confidence": 0.29, "accuracy": 0.0, "tokens": 3}
    result = pooled([{"error": 0.5, "bins": [low, high]}, {"error": 0.1, "bins": [other]}])
    assert result["error"] == pytest.approx(0.3)
    assert result["bins"] == [
        {"confidence": pytest.approx(0.28), "accuracy": pytest.approx(0.25), "tokens": 4},
        high,
    ]
