"""Lightning data module of prepared data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lightning
import numpy as np
from numpy.typing import NDArray

from dialog.config.components import hint
from dialog.data.batching import Batch
from dialog.data.store.length_classes import GROUPINGS, grouped, static_classes
from dialog.data.store.plan import Plan
from dialog.data.store.static_shapes import with_static_shape
from dialog.data.store.store import Retokenise, Store
from dialog.errors import UserError
from dialog.ranks import rank, world_size

SPLIT = ("processes", "accumulate_grad_batches")
"""Keys of a loader's state of which only the product must stay the same: a step's batches depend on
nothing else.
"""


class EpochCounter:
    """The number of the epoch; Lightning sets it before each epoch, as a sampler's."""

    def __init__(self) -> None:
        self.number = 0

    def set_epoch(self, number: int) -> None:
        """Set the epoch of the next iteration."""
        self.number = number


class BatchLoader:
    """The batches of a store's `Plan` for this rank of `torch.distributed`.

    The length is equal on all ranks and in all epochs, and a multiple of `accumulate`. With
    `shuffle` the batches change with the epoch, unless `repeat` makes every epoch the first. The
    state, equal on all ranks, is the number of batches of an epoch that were yielded; a loader with
    a loaded state skips them once, when that epoch comes. With `retokenise` every epoch has other
    ids of the same texts; a batch may then exceed `batch_tokens`. With `static_shapes` batches have
    few shapes (see `dialog.data.store.static_shapes`).
    """

    batch_sampler = None  # Lightning reads it if there is a sampler

    def __init__(
        self,
        store: Store,
        *,
        batch_tokens: int,
        seed: int,
        shuffle: bool,
        batch_examples: int | None = None,
        grouping: str = "both",
        repeat: bool = False,
        retokenise: Retokenise | None = None,
        accumulate: int = 1,
        static_shapes: bool = False,
    ) -> None:
        self.store = store
        self.batch_tokens = batch_tokens
        self.batch_examples = batch_examples
        self.grouping = grouping if batch_examples is not None else "both"
        self.seed = seed
        self.shuffle = shuffle
        self.repeat = repeat
        self.retokenise = retokenise
        self.accumulate = accumulate
        self.static_shapes = static_shapes
        self.sampler = EpochCounter()
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
        """Return this rank's batches with the most tokens and the most target tokens; see
        `Plan.heaviest`.
        """
        plan = self._plan()
        most_tokens, most_target_tokens, relative_cost = plan.heaviest()
        return (
            self._batch(plan.rows(most_tokens)),
            self._batch(plan.rows(most_target_tokens)),
            relative_cost,
        )

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        batch = (
            self.store.batch(rows)
            if self.retokenise is None
            else self.store.retokenised(rows, self.retokenise, seed=self.seed, epoch=self._epoch)
        )
        return with_static_shape(batch) if self.static_shapes else batch

    def state_dict(self) -> dict[str, int | str | None]:
        """Return the epoch, the position and what identifies the plan, for checkpoints."""
        return {"epoch": self._epoch, "position": self._position, **self._identity()}

    def load_state_dict(self, state: dict[str, int | str | None]) -> None:
        """Continue after the steps of a loader of the same plan, also with another number of
        processes if it accumulates as many times more or fewer batches.

        Raises:
            UserError: the state belongs to another plan, so its position does not apply.
        """
        state = {"static_shapes": False, **state}  # older checkpoints have no such key
        here = self._identity()
        for key in here.keys() - SPLIT:
            if state.get(key) != here[key]:
                old = state.get(key)
                raise UserError(
                    f"the checkpoint's {key} is {old}, here it is {here[key]}; resume with {old}"
                )
        processes, accumulated = (int(state[key] or 1) for key in SPLIT)
        if processes * accumulated != world_size() * self.accumulate:
            raise UserError(
                f"the checkpoint's steps have {processes * accumulated} batches ({processes}"
                f" processes x trainer.accumulate_grad_batches={accumulated}), here they have"
                f" {world_size()} x {self.accumulate}; resume with an equal product"
            )
        epoch = state["epoch"]
        position = state["position"]
        assert epoch is not None
        assert position is not None
        self._start = int(epoch), int(position) * processes // world_size()

    def _identity(self) -> dict[str, int | str | bool | None]:
        data = f"{self.store.manifest['fingerprint']}/{self.store.split}"
        plan = {
            "batch_tokens": self.batch_tokens,
            "batch_examples": self.batch_examples
            and f"{self.batch_examples}, grouping {self.grouping}",
            "accumulate_grad_batches": self.accumulate,
            "static_shapes": self.static_shapes,
            "processes": world_size(),
        }
        return {"data": data, "seed": self.seed, **plan}

    def _plan(self) -> Plan:
        classes = self.store.classes
        if self.static_shapes:
            classes = static_classes(classes)
        return Plan(
            grouped(classes, self.grouping),
            budget=self.batch_tokens,
            examples=self.batch_examples,
            seed=self.seed,
            epoch=0 if self.repeat else self.sampler.number,
            shuffle=self.shuffle,
            rank=rank(),
            world=world_size(),
            accumulate=self.accumulate,
        )


class DialogDataModule(lightning.LightningDataModule):
    """The three splits of a folder built by `dialog.data.preparation.prepare.prepare`.

    The loaders shard the examples across ranks: set `use_distributed_sampler=False` in the trainer.
    Batches are read from memory-mapped arrays in the training process, without workers.

    Args:
        folder: The prepared data.
        batch_tokens: Maximal tokens of a batch, source and target together, with padding.
        batch_examples: Examples of a training batch, in place of `batch_tokens`.
        grouping: With `batch_examples`, the lengths that examples of a batch share, one of
            `GROUPINGS`.
        seed: Seeds the order of the training examples, together with the epoch.
        retokenise: Draws other ids of the same text for training turns in each epoch; None keeps
            the ids.
        static_shapes: Training batches have few shapes, with more padding.

    Raises:
        UserError: unknown grouping.
    """

    def __init__(
        self,
        folder: Path,
        *,
        batch_tokens: int,
        batch_examples: int | None = None,
        grouping: str = "both",
        seed: int = 0,
        retokenise: Retokenise | None = None,
        static_shapes: bool = False,
    ) -> None:
        super().__init__()
        if grouping not in GROUPINGS:
            raise UserError(f"unknown grouping {grouping!r}{hint(grouping, GROUPINGS)}")
        self.folder = folder
        self.batch_tokens = batch_tokens
        self.batch_examples = batch_examples
        self.grouping = grouping
        self.seed = seed
        self.retokenise = retokenise
        self.static_shapes = static_shapes

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Pin the memory of a batch for an asynchronous copy to a GPU."""
        if self.trainer is None or self.trainer.strategy.root_device.type != "cuda":
            return batch
        return batch._replace(
            source=batch.source.pin_memory(),
            target=batch.target.pin_memory(),
            rows=batch.rows.pin_memory(),
            facts=batch.facts.pin_memory(),
        )

    def train_dataloader(self) -> BatchLoader:
        """Return training batches, shuffled in each epoch; with `overfit_batches` every epoch is
        the same.
        """
        repeat = getattr(self.trainer, "overfit_batches", 0) > 0
        accumulate = getattr(self.trainer, "accumulate_grad_batches", 1)
        return BatchLoader(
            Store(self.folder, "train"),
            batch_tokens=self.batch_tokens,
            batch_examples=self.batch_examples,
            grouping=self.grouping,
            seed=self.seed,
            shuffle=True,
            repeat=repeat,
            retokenise=self.retokenise,
            accumulate=accumulate,
            static_shapes=self.static_shapes,
        )

    def val_dataloader(self) -> BatchLoader:
        """Return validation batches, the same in every epoch."""
        return self._evaluated("validation")

    def test_dataloader(self) -> BatchLoader:
        """Return test batches, the same in every epoch."""
        return self._evaluated("test")

    def predict_dataloader(self) -> BatchLoader:
        """Return the test batches, to be answered."""
        return self.test_dataloader()

    def _evaluated(self, split: str) -> BatchLoader:
        return BatchLoader(
            Store(self.folder, split), batch_tokens=self.batch_tokens, seed=self.seed, shuffle=False
        )
