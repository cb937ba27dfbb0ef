"""One source for all tests of recurrent decoders."""

import pytest
import torch
from recurrent_by_hand import MEMORY, Draw

from dialog.models.contracts import Encoded


@pytest.fixture
def source(draw: Draw) -> Encoded:
    """States at padding are not 0, so that reading them changes the result."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]).bool()
    return Encoded(draw(3, 4, MEMORY).requires_grad_(), mask, draw(3, MEMORY).requires_grad_())
