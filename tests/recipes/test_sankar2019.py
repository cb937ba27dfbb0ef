"""The published protocol: sizes of its networks."""

from __future__ import annotations

import pytest
import torch

from dialog.build import build_model
from dialog.config.compose import compose
from dialog.models.seq2seq import count_parameters

PUBLISHED = {"lstm": 8_489_414, "lstm_attention": 8_538_566, "transformer": 9_099_000}
"""With ParlAI's vocabulary of 20,678 tokens."""
ROLES = 2
"""<other> and <self>, which this package's vocabulary has besides."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_have_the_published_size(name: str) -> None:
    recipe = compose(f"dailydialog/sankar2019/{name}").recipe
    tables = 1 if name == "transformer" else 3
    row = tables * recipe.model.embedding_size + (name != "transformer")  # an output bias
    with torch.device("meta"):
        published, own = (build_model(recipe.model, 20_678 + more) for more in (0, ROLES))
    assert count_parameters(published)["total"] == PUBLISHED[name]
    assert (
        count_parameters(own)["total"] == PUBLISHED[name] + ROLES * row == recipe.about.parameters
    )
