"""Prepared data for Lightning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lightning
import numpy as np
from numpy.typing import NDArray

from dialog.data.batching import Batch
from dialog.data.store.plan import Plan
from dialog.data.store.store import Retokenise, Store
from dialog.errors import UserError
from dialog.ranks import rank, world_size


class Epoch:
    """The number of the pass over the data; Lightning sets it before each."""

    def __init__(self) -> None:
        self.number = 0

    def set_epoch(self, number: int) -> None:
        """Choose the pass that the next iteration is."""
        self.number = number


class Loader:
    """Batches of a store as `Plan` cuts them, for this process of `torch.distributed` where there is one.

    Its length is the same in every process and every epoch. With `shuffle` the batches change from epoch to epoch,
    unless `repeat` makes every epoch the first. Its state, the same in every process, is how many batches of an epoch
    it has given; a loader that is given that state goes on behind them when that epoch comes, once. With `retokenise`
    every epoch has other ids of the same texts; a batch may then exceed `batch_tokens`. With `accumulate` batches a
    step there are whole steps only.
    """

    batch_sampler = None  # Lightning reads it where there is a sampler

    def __init__(
        self,
        store: Store,
        *,
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        repeat: bool = False,
        retokenise: Retokenise | None = None,
        accumulate: int = 1,
    ) -> None:
        self.store = store
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.shuffle = shuffle
        self.repeat = repeat
        self.retokenise = retokenise
        self.accumulate = accumulate
        self.sampler = Epoch()
        self._epoch = self._position = 0
        self._start: tuple[int, int] | None = None
        self._batches: dict[int, int] = {}

    def __len__(self) -> int:
        world = world_size()
        if world not in self._batches:
            self._batches[world] = len(self._plan())
        return self._batches[world]

    def __iter__(self) -> Iterator[Batch]:
        self._epoch = self.sampler.number
        epoch, position = self._start or (self._epoch, 0)
        self._position = position if epoch == self._epoch and position < len(self) else 0
        self._start = None
        for rows in self._plan().batches(self._position):
            self._position += 1
            yield self._batch(rows)

    def heaviest(self) -> tuple[Batch, Batch, float]:
        """The batches of this process that ask most: by padded tokens, by target tokens; see `Plan.heaviest`."""
        plan = self._plan()
        costly, talkative, share = plan.heaviest()
        return self._batch(plan.rows(costly)), self._batch(plan.rows(talkative)), share

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        if self.retokenise is None:
            return self.store.batch(rows)
        return self.store.retokenised(rows, self.retokenise, seed=self.seed, epoch=self._epoch)

    def state_dict(self) -> dict[str, int | str]:
        """Epoch, position and the plan that they are of, for checkpoints."""
        return {"epoch": self._epoch, "position": self._position, **self._mark()}

    def load_state_dict(self, state: dict[str, int | str]) -> None:
        """Go on where a loader of the same plan was.

        Raises:
            UserError: the state is of another plan, in which its position means nothing.
        """
        for key, value in self._mark().items():
            if state[key] != value:
                raise UserError(f"the checkpoint's {key} is {state[key]}, here it is {value}; resume with the same")
        self._start = int(state["epoch"]), int(state["position"])

    def _mark(self) -> dict[str, int | str]:
        data = f"{self.store.manifest['fingerprint']}/{self.store.split}"
        plan = {
            "batch_tokens": self.batch_tokens,
            "accumulate_grad_batches": self.accumulate,
            "processes": world_size(),
        }
        return {"data": data, "seed": self.seed, **plan}

    def _plan(self) -> Plan:
        return Plan(
            self.store.classes,
            budget=self.batch_tokens,
            seed=self.seed,
            epoch=0 if self.repeat else self.sampler.number,
            shuffle=self.shuffle,
            rank=rank(),
            world=world_size(),
            accumulate=self.accumulate,
        )


class DialogDataModule(lightning.LightningDataModule):
    """The three splits of a folder that `dialog.data.preparation.prepare.prepare` has built.

    The loaders share the examples among processes themselves: give the trainer `use_distributed_sampler=False`.
    Batches are read from memory-mapped arrays in the training process, without workers.

    Args:
        folder: The prepared data.
        batch_tokens: The most tokens of a batch with its padding, source and target together.
        seed: Chooses the order of the training examples, with the epoch.
        retokenise: Gives training turns other ids of the same text, drawn anew in each epoch; without it they stay.
    """

    def __init__(self, folder: Path, *, batch_tokens: int, seed: int = 0, retokenise: Retokenise | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.retokenise = retokenise

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Where the batch goes to a GPU, it goes from pinned memory, and nobody waits for it."""
        if self.trainer is None or self.trainer.strategy.root_device.type != "cuda":
            return batch
        return batch._replace(
            source=batch.source.pin_memory(),
            target=batch.target.pin_memory(),
            rows=batch.rows.pin_memory(),
            last_starts=batch.last_starts.pin_memory(),
        )

    def train_dataloader(self) -> Loader:
        """Training examples, in another order each epoch; in the same with the trainer's `overfit_batches`."""
        repeat = getattr(self.trainer, "overfit_batches", 0) > 0
        accumulate = getattr(self.trainer, "accumulate_grad_batches", 1)
        return self._loader("train", shuffle=True, repeat=repeat, retokenise=self.retokenise, accumulate=accumulate)

    def val_dataloader(self) -> Loader:
        """Validation examples, always in the same batches."""
        return self._loader("validation", shuffle=False)

    def test_dataloader(self) -> Loader:
        """Test examples, always in the same batches."""
        return self._loader("test", shuffle=False)

    def _loader(
        self,
        split: str,
        *,
        shuffle: bool,
        repeat: bool = False,
        retokenise: Retokenise | None = None,
        accumulate: int = 1,
    ) -> Loader:
        return Loader(
            Store(self.folder, split),
            batch_tokens=self.batch_tokens,
            seed=self.seed,
            shuffle=shuffle,
            repeat=repeat,
            retokenise=retokenise,
            accumulate=accumulate,
        )
