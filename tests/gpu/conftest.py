"""Tests that need a CUDA device."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def device() -> None:
    """Skip the test on a machine without CUDA."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Compute float32 products without TF32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
