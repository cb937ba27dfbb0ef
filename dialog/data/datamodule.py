"""Prepared data for Lightning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lightning
import numpy as np
from numpy.typing import NDArray
from torch import distributed

from dialog.data.batching import Batch, plan
from dialog.data.store import Store


class Epoch:
    """The number of the pass over the data; Lightning sets it before each."""

    def __init__(self) -> None:
        self.number = 0

    def set_epoch(self, number: int) -> None:
        """Choose the pass that the next iteration is."""
        self.number = number


class Loader:
    """Batches of a store as `plan` cuts them, for this process of `torch.distributed` where there is one.

    Its length is the same in every process and every epoch. With `shuffle` the batches change from epoch to epoch,
    unless `repeat` makes every epoch the first.
    """

    batch_sampler = None  # Lightning reads it where there is a sampler

    def __init__(self, store: Store, *, batch_tokens: int, seed: int, shuffle: bool, repeat: bool = False) -> None:
        self.store = store
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self.repeat = repeat
        self.sampler = Epoch()
        self._batches: dict[int, int] = {}

    def __len__(self) -> int:
        _, world = _place()
        if world not in self._batches:
            self._batches[world] = len(self._rows())
        return self._batches[world]

    def __iter__(self) -> Iterator[Batch]:
        for rows in self._rows():
            yield self.store.batch(rows)

    def _rows(self) -> list[NDArray[np.int64]]:
        rank, world = _place()
        return plan(
            self.store.source_lengths,
            self.store.target_lengths,
            budget=self.batch_tokens,
            seed=self.seed,
            epoch=0 if self.repeat else self.sampler.number,
            shuffle=self.shuffle,
            rank=rank,
            world=world,
        )


class DialogDataModule(lightning.LightningDataModule):
    """The three splits of a folder that `dialog.data.prepare.prepare` has built.

    The loaders share the examples among processes themselves: give the trainer `use_distributed_sampler=False`.
    Batches are read from memory-mapped arrays in the training process, without workers.

    Args:
        folder: The prepared data.
        batch_tokens: The most tokens of a batch with its padding, source and target together.
        seed: Chooses the order of the training examples, with the epoch.
    """

    def __init__(self, folder: Path, *, batch_tokens: int, seed: int = 0) -> None:
        super().__init__()
        self.folder = folder
        self.batch_tokens = batch_tokens
        self.seed = seed

    def train_dataloader(self) -> Loader:
        """Training examples, in another order each epoch; in the same with the trainer's `overfit_batches`."""
        repeat = getattr(self.trainer, "overfit_batches", 0) > 0
        return self._loader("train", shuffle=True, repeat=repeat)

    def val_dataloader(self) -> Loader:
        """Validation examples, always in the same batches."""
        return self._loader("validation", shuffle=False)

    def test_dataloader(self) -> Loader:
        """Test examples, always in the same batches."""
        return self._loader("test", shuffle=False)

    def _loader(self, split: str, *, shuffle: bool, repeat: bool = False) -> Loader:
        store = Store(self.folder, split)
        return Loader(store, batch_tokens=self.batch_tokens, seed=self.seed, shuffle=shuffle, repeat=repeat)


def _place() -> tuple[int, int]:
    """Rank of this process and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
