"""Bahdanau's energies one query at a time against the formula."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dialog.models.attention import additive as kernel
from dialog.models.attention import masked_softmax
from dialog.models.attention.additive import AdditiveSteps, additive_energies

MASK = torch.arange(4) < torch.tensor([[4], [2], [1]])


@pytest.mark.parametrize("scale", [1, 300], ids=["small", "large"])
@pytest.mark.parametrize("block", [1, 50, 2**19])
def test_steps_are_the_formula(
    scale: float, block: int, draw: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "BLOCK", block)
    query, keys, energy = (
        (scale * draw(3, 6)).requires_grad_(),
        draw(3, 4, 6).requires_grad_(),
        draw(6).requires_grad_(),
    )
    energies = additive_energies(query.unsqueeze(1), keys, energy.unsqueeze(0)).squeeze(1)  # [B, S]
    weights = masked_softmax(energies, MASK)
    steps = AdditiveSteps(keys.detach(), energy.detach(), MASK)
    torch.testing.assert_close(steps.weights(query.detach()), weights, rtol=0, atol=1e-12)

    (gradient,) = torch.autograd.grad(weights, energies, draw(3, 4), retain_graph=True)
    expected = torch.autograd.grad(energies, (query, keys, energy), gradient)
    of_keys, of_energy = torch.zeros_like(keys), torch.zeros_like(energy)
    of_query = steps.backward(query.detach(), gradient, of_keys, of_energy)
    torch.testing.assert_close(
        (of_query, 4 * energy * of_keys, 2 * of_energy), expected, rtol=0, atol=1e-12
    )


def test_a_row_without_real_tokens_has_uniform_weights() -> None:
    keys, energy = torch.randn(1, 4, 2), torch.ones(2)
    weights = AdditiveSteps(keys, energy, torch.zeros(1, 4, dtype=torch.bool)).weights(
        torch.zeros(1, 2)
    )
    torch.testing.assert_close(weights, torch.full((1, 4), 0.25))
