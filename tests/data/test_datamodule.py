"""A trainer reads every example once an epoch, in a different order each time."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dialog.data.batching import Batch
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.datamodule import BatchLoader, DialogDataModule
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.data.preparation.prepare import prepare
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError

BATCHES = 19
"""Batches of an epoch with 1000 tokens a batch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = Job(
        BuiltinDialogues(size=60),
        {"name": "builtin", "size": 60},
        {"name": "byte_bpe", "vocabulary": 500},
        ExampleRules(3, first_turns=True),
        Limits(128, 64),
    )
    return prepare(job, tmp_path_factory.mktemp("prepared"))


class Toy(lightning.LightningModule):
    """Records the rows of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(500, 1)
        self.seen: dict[tuple[str, int], list[int]] = {}

    def training_step(self, batch: Batch) -> Tensor:
        assert isinstance(batch, Batch)
        self._record("train", batch)
        loss: Tensor = self.embedding(batch.source).mean()
        return loss

    def validation_step(self, batch: Batch) -> None:
        self._record("validation", batch)

    def test_step(self, batch: Batch) -> None:
        self._record("test", batch)

    def _record(self, split: str, batch: Batch) -> None:
        self.seen.setdefault((split, self.current_epoch), []).extend(batch.rows.tolist())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Saving(lightning.Callback):
    """Saves a checkpoint after some batch."""

    def __init__(self, step: int, path: Path) -> None:
        self.step = step
        self.path = path

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def trainer(**options: Any) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **options,
    )


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")
def test_an_epoch_reads_every_example_once(folder: Path) -> None:
    module = Toy()
    data = DialogDataModule(folder, batch_tokens=300, seed=3)
    lightning_trainer = trainer(max_epochs=2, num_sanity_val_steps=0)
    lightning_trainer.fit(module, datamodule=data)
    lightning_trainer.test(module, datamodule=data, verbose=False)
    everything = {
        split: list(range(len(Store(folder, split)))) for split in ("train", "validation", "test")
    }
    for (split, _), rows in module.seen.items():
        assert sorted(rows) == everything[split]
    assert {split for split, _ in module.seen} == set(everything)
    assert module.seen["train", 0] != module.seen["train", 1]
    assert module.seen["validation", 0] == module.seen["validation", 1]


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.filterwarnings("ignore:You requested to overfit")
def test_overfitting_repeats_the_same_batches(folder: Path) -> None:
    module = Toy()
    data = DialogDataModule(folder, batch_tokens=300)
    trainer(max_epochs=2, num_sanity_val_steps=0, overfit_batches=2).fit(module, datamodule=data)
    assert module.seen["train", 0] == module.seen["train", 1]
    assert 0 < len(module.seen["train", 0]) < len(Store(folder, "train"))


def test_the_length_is_the_same_in_every_epoch(folder: Path) -> None:
    loader = DialogDataModule(folder, batch_tokens=300).train_dataloader()
    orders = []
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        batches = list(loader)
        assert len(batches) == len(loader) > 1
        assert all(batch.source.numel() + batch.target[:, 1:].numel() <= 300 for batch in batches)
        orders.append([batch.rows.tolist() for batch in batches])
    assert orders[0] != orders[1] != orders[2]
    loader.sampler.set_epoch(1)
    assert [batch.rows.tolist() for batch in loader] == orders[1]


@pytest.mark.parametrize("position", [0, 1, 5])
def test_a_loader_continues_where_another_stopped(folder: Path, position: int) -> None:
    first, second = (
        DialogDataModule(folder, batch_tokens=300).train_dataloader() for _ in range(2)
    )
    first.sampler.set_epoch(2)
    whole = [batch.rows.tolist() for batch in first]
    batches = iter(first)
    for _ in range(position):
        next(batches)
    second.load_state_dict(first.state_dict())
    second.sampler.set_epoch(2)
    assert [batch.rows.tolist() for batch in second] == whole[position:]
    assert [batch.rows.tolist() for batch in second] == whole, "only once"


def test_the_state_of_another_plan_is_an_error(folder: Path) -> None:
    state = DialogDataModule(folder, batch_tokens=300).train_dataloader().state_dict()
    with pytest.raises(UserError, match=r"batch_tokens is 300, here it is 301"):
        DialogDataModule(folder, batch_tokens=301).train_dataloader().load_state_dict(state)
    static = DialogDataModule(folder, batch_tokens=300, static_shapes=True).train_dataloader()
    with pytest.raises(UserError, match=r"static_shapes is False, here it is True"):
        static.load_state_dict(state)


def test_another_number_of_processes_continues_the_same_steps(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaders(world: int, accumulate: int) -> Iterator[BatchLoader]:
        monkeypatch.setattr("dialog.data.datamodule.world_size", lambda: world)
        for rank in range(world):
            monkeypatch.setattr("dialog.data.datamodule.rank", lambda rank=rank: rank)
            loader = DialogDataModule(folder, batch_tokens=300).train_dataloader()
            loader.accumulate = accumulate
            yield loader

    def steps(world: int, accumulate: int, state: dict[str, Any] | None) -> list[list[list[int]]]:
        ranks = []
        for loader in loaders(world, accumulate):
            if state is not None:
                loader.load_state_dict(state)
            ranks.append([batch.rows.tolist() for batch in loader])
        batches = [batch for together in zip(*ranks, strict=True) for batch in together]
        return [batches[at : at + 4] for at in range(0, len(batches), 4)]

    def state(world: int, accumulate: int) -> dict[str, Any]:
        first = next(loaders(world, accumulate))
        batches = iter(first)
        for _ in range(3 * accumulate):
            next(batches)
        return first.state_dict()

    whole = steps(4, 1, None)
    assert len(whole) > 4
    for before in ((4, 1), (2, 2), (1, 4)):
        for after in ((4, 1), (2, 2), (1, 4)):
            assert steps(*after, state(*before)) == whole[3:], (before, after)
    with pytest.raises(UserError, match=r"4 batches \(2 processes x .*=2\), here .* 1 x 2"):
        steps(1, 2, state(2, 2))


def test_static_batches_are_padded_for_training_only(folder: Path) -> None:
    data = DialogDataModule(folder, batch_tokens=1000, static_shapes=True)
    plain = DialogDataModule(folder, batch_tokens=1000)
    rows = []
    for batch in data.train_dataloader():
        rows += batch.rows.tolist()
        alone = Store(folder, "train").batch(batch.rows.tolist())
        shape = batch.source.shape[1], batch.target.shape[1] - 1
        assert (shape[0] % 16, shape[1] % 8) == (0, 0)
        assert batch.turn_shape is not None
        assert alone.turn_shape is not None
        assert batch.turn_shape[0] >= alone.turn_shape[0]
        assert batch.turn_shape[1] - alone.turn_shape[1] in range(16)
        for padded, real in ((batch.source, alone.source), (batch.target, alone.target)):
            assert torch.equal(padded[:, : real.shape[1]], real)
            assert (padded[:, real.shape[1] :] == PAD).all()
        assert batch.target_tokens == alone.target_tokens
    assert sorted(rows) == list(range(len(Store(folder, "train"))))
    for one, other in zip(data.val_dataloader(), plain.val_dataloader(), strict=True):
        assert torch.equal(one.source, other.source)


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.parametrize("steps", [1, 7, BATCHES, BATCHES + 11])
def test_a_resumed_run_reads_the_same_rows(folder: Path, tmp_path: Path, steps: int) -> None:
    def seen(max_steps: int, *, save: bool = False, resume: bool = False) -> list[int]:
        module = Toy()
        lightning_trainer = trainer(
            max_steps=max_steps,
            max_epochs=-1,
            val_check_interval=5,
            num_sanity_val_steps=0,
            callbacks=[Saving(steps, checkpoint)] if save else [],
        )
        data = DialogDataModule(folder, batch_tokens=1000)
        lightning_trainer.fit(
            module, datamodule=data, ckpt_path=checkpoint if resume else None, weights_only=True
        )
        return [row for (split, _), rows in module.seen.items() if split == "train" for row in rows]

    checkpoint = tmp_path / "saved.ckpt"
    assert len(DialogDataModule(folder, batch_tokens=1000).train_dataloader()) == BATCHES, (
        "a checkpoint at an epoch's end"
    )
    whole, before = seen(40, save=True), seen(steps)
    assert before + seen(40, resume=True) == whole


def test_seeds_shuffle_differently(folder: Path) -> None:
    one, two, again = (
        next(
            iter(DialogDataModule(folder, batch_tokens=300, seed=seed).train_dataloader())
        ).rows.tolist()
        for seed in (1, 2, 1)
    )
    assert one == again != two


def test_ranks_shard_the_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DialogDataModule(folder, batch_tokens=300).train_dataloader()
    rows: list[int] = []
    batches = set()
    for rank in range(3):
        monkeypatch.setattr("dialog.data.datamodule.rank", lambda rank=rank: rank)
        monkeypatch.setattr("dialog.data.datamodule.world_size", lambda: 3)
        assert len(list(loader)) == len(loader)
        batches.add(len(loader))
        rows += [row for batch in loader for row in batch.rows.tolist()]
    assert sorted(rows) == list(range(len(loader.store)))
    assert len(batches) == 1


def repeated(ids: list[int], random: np.random.Generator) -> list[int]:
    """Repeat random ids."""
    return [id for token in ids for id in [token] * int(random.integers(1, 3))]


def test_training_turns_are_retokenised_each_epoch(folder: Path) -> None:
    plain, loader, other = (
        DialogDataModule(
            folder, batch_tokens=300, seed=seed, retokenise=retokenise
        ).train_dataloader()
        for seed, retokenise in ((0, None), (0, repeated), (1, repeated))
    )

    def sources(loader: BatchLoader, epoch: int) -> dict[int, list[int]]:
        loader.sampler.set_epoch(epoch)
        pairs = [
            pair
            for batch in loader
            for pair in zip(batch.rows.tolist(), batch.source.tolist(), strict=True)
        ]
        return {row: [token for token in source if token != PAD] for row, source in pairs}

    once = sources(loader, 0)
    assert once == sources(loader, 0)
    for different in (sources(loader, 1), sources(other, 0)):
        assert sum(different[row] != once[row] for row in once) > len(once) / 2
    for row, source in sources(plain, 0).items():
        assert [token for token, _ in groupby(once[row])] == [token for token, _ in groupby(source)]


def test_retokenised_rows_keep_the_limits(folder: Path) -> None:
    store = Store(folder, "train")
    rows = np.argsort(-store.lengths[:, 0].astype(int))[:20]
    same = store.retokenised(rows, lambda ids, _: ids, seed=0, epoch=0)
    for one, two in zip(same, store.batch(rows), strict=True):
        assert torch.equal(one, two) if isinstance(one, Tensor) else one == two
    long = store.retokenised(rows, lambda ids, _: ids * 20, seed=0, epoch=0)
    assert long.source.shape[1] == store.max_source
    assert long.target.shape[1] == (store.max_target or 0) + 1


def test_references_are_not_retokenised(folder: Path) -> None:
    plain, noisy = (
        DialogDataModule(folder, batch_tokens=300, retokenise=noise) for noise in (None, repeated)
    )
    for one, two in zip(plain.val_dataloader(), noisy.val_dataloader(), strict=True):
        assert torch.equal(one.target, two.target)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_a_data_module_can_be_copied_and_pickled(
    folder: Path, copied: Callable[[DialogDataModule], DialogDataModule]
) -> None:
    data = DialogDataModule(folder, batch_tokens=300)
    again = copied(data)
    assert (
        next(iter(again.train_dataloader())).rows.tolist()
        == next(iter(data.train_dataloader())).rows.tolist()
    )
