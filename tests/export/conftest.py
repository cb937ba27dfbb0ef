"""Runs with random weights, of any network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dialog.build import build_model
from dialog.config.trust import trusted
from dialog.runs.load import load
from dialog.runs.run import Run


@pytest.fixture(scope="session")
def trained_run(trained: Callable[[str], Path]) -> Callable[[str], Run]:
    """``trained_run("lstm")``: a tiny run."""
    return lambda family: load(trained(family), device="cpu")


@pytest.fixture(scope="session")
def random_run(trained_run: Callable[[str], Run]) -> Callable[..., Run]:
    """``random_run(encoder={...}, ...)``: a run whose network has these values of the section
    ``model``.
    """

    def build(seed: int = 0, **model: object) -> Run:
        run = trained_run("lstm")
        config = trusted(replace(run.recipe.model, embedding_size=24, **model))
        torch.manual_seed(seed)
        network = build_model(config, len(run.tokenizer)).eval()
        with torch.no_grad():
            # no bias is 0 and no norm is 1, so that each one matters
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        return replace(run, recipe=replace(run.recipe, model=config), model=network)

    return build
