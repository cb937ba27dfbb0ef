"""Time of an epoch on this machine, measured on a training batch."""

from __future__ import annotations

import time
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from dialog.build import build_data, build_model
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.report.formats.numbers import counted

if TYPE_CHECKING:
    from dialog.data.batching import Batch

UPDATE = 1.15
"""Time of a step per time of its forward and backward pass: optimizer, gradient norm, loading."""
MEASURED = 6
"""Batches that are measured, drawn at random; one more before them allocates memory."""


class EpochTime(NamedTuple):
    """Seconds and steps of an epoch, without validation, and number of parameters."""

    seconds: float
    steps: int
    parameters: int


def epoch_time(recipe: Recipe, prepared: Path) -> EpochTime:
    """Measure some batches of a recipe, forward and backward, and extrapolate to an epoch."""
    import torch
    from torch.nn.functional import cross_entropy

    from dialog.data.store.store import Store
    from dialog.data.tokenizers.tokenizer import PAD

    tokenizer = Store(prepared, "train").tokenizer
    data = build_data(recipe, prepared, tokenizer)
    loader = data.train_dataloader()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build_model(recipe.model, len(tokenizer)).to(device).train()

    def run(batch: Batch) -> float:
        started = time.perf_counter()
        source = batch.source.to(device)
        target = batch.target.to(device)
        logits = model(source, source != PAD, target[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        torch.autograd.backward(loss)
        # waits for a GPU
        loss.item()
        return time.perf_counter() - started

    first, *others = islice(cycle(loader), 1 + MEASURED)
    run(first)  # allocates memory
    seconds = fmean(map(run, others))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    steps = len(loader)
    return EpochTime(steps * seconds * UPDATE, steps, parameters)


def check_limit(epoch: EpochTime, minutes: float) -> None:
    """Check that the time limit allows an epoch.

    Raises:
        UserError: with the shortest limit that does.
    """
    if epoch.seconds > 60 * minutes:
        needed = int(epoch.seconds / 60) + 1
        raise UserError(
            f"--minutes {minutes:g}: one pass over the data takes about"
            f" {counted(needed, 'minute')} on this machine; give at least --minutes"
            f" {needed}, several times that for a good model"
        )
