"""Stop training before an update that is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer

from dialog.data.batching import Batch
from dialog.data.preparation.filtering import Names
from dialog.errors import DivergedError
from dialog.training.distributed.fsdp import is_sharded

SKIPS = 30
"""Steps in a row that a gradient scaler may skip: it starts at 2^16 and halves each time."""
SHOWN = 8
"""Examples named in a message."""


class NotFiniteError(DivergedError):
    """Loss or gradient of a step is not finite; ``rows`` of the training split were in it."""

    def __init__(self, figures: str, rank: str, rows: Sequence[int]) -> None:
        self.figures = figures
        self.rank = rank
        self.rows = rows
        super().__init__(self.describe(list(map(str, rows[:SHOWN])), "rows of the split, from 0"))

    def describe(self, examples: Sequence[str], kind: str) -> str:
        """Return one line with the figures, the examples and possible remedies."""
        more = f" and {len(self.rows) - SHOWN} more" if len(self.rows) > SHOWN else ""
        return (
            f"{self.figures}; stopped before the update, checkpoints are of good steps; training"
            f" examples{self.rank} ({kind}): {', '.join(examples)}{more}; lower optimizer.lr, set"
            " trainer.gradient_clip_val, or check these examples"
        )


@contextmanager
def with_example_ids(names: Names) -> Iterator[None]:
    """Name the examples of a `NotFiniteError` by their ids, if they can be looked up.

    Raises:
        DivergedError: in place of a `NotFiniteError`.
    """
    try:
        yield
    except NotFiniteError as error:
        shown = error.rows[:SHOWN]
        ids: Mapping[int, str] = {}
        with suppress(Exception):  # the message is useful without ids
            ids = names("train", shown)
        if not ids:
            raise
        raise DivergedError(
            error.describe([ids.get(row, f"row {row}") for row in shown], "dialogue#turn")
        ) from error


class PendingStep(NamedTuple):
    """Figures of a step, on their way to the host."""

    number: int
    batches: list[Batch]
    values: Tensor  # [3]: loss, objective, norm of the gradient
    arrived: torch.cuda.Event | None
    scaled: bool


class Guard(Callback):
    """Stops a training whose loss or gradient is not finite, and names the examples of that step.

    The law: when it raises, weights and optimizer are those of the previous step, and no validation
    or checkpoint has followed. Loss and norm are those of all ranks, so all stop together.

    Reading a number from a GPU blocks the host. So a fused optimizer on CUDA skips the update on
    the device (``found_inf``), and the host checks one step later what was copied meanwhile;
    otherwise, and with sharded parameters, it checks at once. A gradient scaler finds its scale by
    infinite gradients: it skips such steps itself, they count as steps, and only `SKIPS` of them in
    a row raise.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.pending: PendingStep | None = None
        self.skipped = 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Forget an interrupted training."""
        self.batches = []
        self.pending = None
        self.skipped = 0

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Batch, batch_index: int
    ) -> None:
        """Remember the batches of the coming update."""
        self.batches.append(batch)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Check the last step before its weights are validated."""
        self.check_pending(module)

    def on_save_checkpoint(
        self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Check the last step before it is saved."""
        self.check_pending(module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Check the last step."""
        self.check_pending(module)

    def check_step(
        self,
        module: LightningModule,
        optimizer: Optimizer,
        means: Mapping[str, Tensor],
        norm: Tensor,
        *,
        scaled: bool,
    ) -> None:
        """Check a step before its update.

        Args:
            module: The module that is trained.
            optimizer: Its optimizer, about to update.
            means: ``loss`` and ``objective`` of the step, over all ranks.
            norm: Norm of the step's gradient before clipping.
            scaled: A gradient scaler skips infinite gradients.

        Raises:
            NotFiniteError: this step or the previous one is not finite.
        """
        self.check_pending(module)
        values = torch.stack(
            [means["loss"], means["objective"], norm.to(means["loss"].dtype)]
        ).detach()
        skippable = scaled or (
            getattr(optimizer, "_step_supports_amp_scaling", False) and not is_sharded(module)
        )
        later = runs_ahead(values) and skippable
        if later and not scaled:
            optimizer.found_inf = (~values.isfinite().all()).float()  # type: ignore[attr-defined]  # as torch's scaler
        self.pending = PendingStep(module.global_step + 1, self.batches, *_to_host(values), scaled)
        self.batches = []
        if not later:
            self.check_pending(module)

    def check_pending(self, module: LightningModule) -> None:
        """Check the last step, unless that is done.

        Raises:
            NotFiniteError: the step is not finite.
        """
        step = self.pending
        self.pending = None
        if step is None:
            return
        if step.arrived is not None:
            step.arrived.synchronize()
        if all(map(math.isfinite, values := step.values.tolist())):
            self.skipped = 0
            return
        self.skipped += 1
        if step.scaled and self.skipped < SKIPS:
            return
        raise _not_finite(module, step, values)


def runs_ahead(values: Tensor) -> bool:
    """Return whether the host runs ahead of a tensor's device, so that reading the tensor
    blocks.
    """
    return values.is_cuda


def _to_host(values: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    if not values.is_cuda:
        return values, None
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return host, arrived


def _not_finite(module: LightningModule, step: PendingStep, values: list[float]) -> NotFiniteError:
    loss, objective, norm = values
    rank = f" of process {module.global_rank}" if module.trainer.world_size > 1 else ""
    skipped = (
        f" (the last of {SKIPS} steps in a row that the gradient scaler skipped)"
        if step.scaled
        else ""
    )
    figures = (
        f"step {step.number}{skipped}: loss {loss:g}, objective {objective:g}, gradient norm"
        f" {norm:g}"
    )
    return NotFiniteError(figures, rank, _rows(module, step.batches))


@torch.no_grad()
def _rows(module: LightningModule, batches: list[Batch]) -> list[int]:
    """Return the examples whose logits are not finite, or all of them."""
    rows = [row for batch in batches for row in batch.rows.tolist()]
    if module.trainer.world_size > 1:  # the forward pass would need the other ranks
        return rows
    with module.trainer.precision_plugin.forward_context():
        bad = []
        for batch in batches:
            for place, row in enumerate(batch.rows.tolist()):
                if not module(_one(batch, place)).isfinite().all():
                    bad.append(row)
    return bad or rows


def _one(batch: Batch, place: int) -> Batch:
    """Return one example of a batch, padded as in the batch."""
    return batch._replace(
        source=batch.source[place : place + 1], target=batch.target[place : place + 1]
    )
