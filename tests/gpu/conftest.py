"""Tests that need a CUDA device."""

import pytest
import torch


@pytest.fixture(autouse=True)
def device() -> None:
    """Skip the test on a machine without CUDA."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
