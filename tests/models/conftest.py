"""Fixtures of the parity tests: weights that are never 0 or 1, random inputs, and one
comparison.
"""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture
def stir() -> Callable[[nn.Module], nn.Module]:
    """Return a module in float64 with random parameters, so that no bias is 0 and no norm's gain is
    1.
    """

    def redraw(module: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for parameter in module.double().parameters():
                parameter.copy_(
                    0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                )
        return module

    return redraw


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    """Draw from N(0, 1) in float64, different at each call."""
    generator = torch.Generator().manual_seed(7)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return numbers


@pytest.fixture
def agree() -> Callable[..., None]:
    """Check that two computations from the same leaves have equal outputs and equal gradients of a
    random sum.
    """

    def compare(
        ours: list[Tensor], theirs: list[Tensor], leaves: Iterable[Tensor], atol: float = 1e-10
    ) -> None:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
        generator = torch.Generator().manual_seed(13)
        mixture = [
            torch.randn(each.shape, generator=generator, dtype=each.dtype).to(each.device)
            for each in ours
        ]
        inputs = list(leaves)
        gradients, expected = (
            torch.autograd.grad(outputs, inputs, grad_outputs=mixture, retain_graph=True)
            for outputs in (ours, theirs)
        )
        assert any(gradient.any() for gradient in expected)
        torch.testing.assert_close(gradients, expected, rtol=0, atol=atol)

    return compare
