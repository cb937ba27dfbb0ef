"""What the parity tests share: weights that are nowhere 0 or 1, and one way to compare two computations."""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture
def stir() -> Callable[[nn.Module], nn.Module]:
    """A module in float64 with all parameters drawn anew, so that no bias is 0 and no norm's gain is 1."""

    def redraw(module: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for parameter in module.double().parameters():
                parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        return module

    return redraw


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    """Numbers from N(0, 1) in float64, new ones at each call."""
    generator = torch.Generator().manual_seed(7)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return numbers


@pytest.fixture
def agree() -> Callable[..., None]:
    """Two computations from the same leaves have the same outputs, and the same gradients of a random sum of these."""

    def compare(ours: list[Tensor], theirs: list[Tensor], leaves: Iterable[Tensor], atol: float = 1e-10) -> None:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
        generator = torch.Generator().manual_seed(13)
        mixture = [torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in ours]
        wanted = list(leaves)
        found, expected = (
            torch.autograd.grad(outputs, wanted, grad_outputs=mixture, retain_graph=True) for outputs in (ours, theirs)
        )
        assert any(gradient.any() for gradient in expected)
        torch.testing.assert_close(found, expected, rtol=0, atol=atol)

    return compare
