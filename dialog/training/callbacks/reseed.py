"""Random numbers that depend only on the seed and the batch number."""

from __future__ import annotations

import random

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class Reseed(Callback):
    """Seeds all random generators at each batch, from the seed and the number of the batch.

    Dropout, noise and sampled tokens are then the same in a resumed run, and checkpoints hold no
    generator's state. Batches are counted over all ranks: a step is the same for any split of its
    batches (see `Plan`).
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int
    ) -> None:
        """Seed the generators."""
        reseed(
            self.seed, trainer.fit_loop.total_batch_idx * trainer.world_size + trainer.global_rank
        )


def reseed(*numbers: int) -> None:
    """Seed the random generators of Python, NumPy and torch from several numbers."""
    low, high = np.random.SeedSequence(numbers).generate_state(2).tolist()
    random.seed(low)
    np.random.seed(low)
    torch.manual_seed(high << 32 | low)
