"""Chance that depends on the place in the training alone."""

from __future__ import annotations

import random

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class Reseed(Callback):
    """Starts all random generators anew at each batch, from the seed and the number of the batch.

    So dropout, noise and drawn words are the same wherever a training was stopped and gone on with, and checkpoints
    hold no generator's state. Batches are counted over all processes: a step is the same however its batches are shared
    (see `Plan`).
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int) -> None:
        """Start them."""
        reseed(self.seed, trainer.fit_loop.total_batch_idx * trainer.world_size + trainer.global_rank)


def reseed(*numbers: int) -> None:
    """Start the random generators of Python, NumPy and torch from several numbers."""
    low, high = np.random.SeedSequence(numbers).generate_state(2).tolist()
    random.seed(low)
    np.random.seed(low)
    torch.manual_seed(high << 32 | low)
