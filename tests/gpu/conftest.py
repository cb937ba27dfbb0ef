"""Tests that need a CUDA device."""

import pytest
import torch


@pytest.fixture(autouse=True)
def device() -> None:
    """Skip without one."""
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
