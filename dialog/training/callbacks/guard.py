"""Training stops before an update that would not be finite."""

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
from dialog.data.preparation.example_ids import Names
from dialog.errors import RunError
from dialog.training.distributed.fsdp import is_sharded

SKIPS = 30
"""Steps in a row that a gradient scaler may leave out: it begins at 2^16 and halves each time."""
SHOWN = 8
"""Examples that are named."""


class NotFiniteError(RunError):
    """A step whose update would not be finite, and the rows of the training split that it was of."""

    def __init__(self, figures: str, rank: str, rows: Sequence[int]) -> None:
        self.figures, self.rank, self.rows = figures, rank, rows
        super().__init__(self.told(list(map(str, rows[:SHOWN])), "rows of the split, from 0"))

    def told(self, examples: Sequence[str], kind: str) -> str:
        """One line: what happened, with which examples, and what may help."""
        more = f" and {len(self.rows) - SHOWN} more" if len(self.rows) > SHOWN else ""
        return (
            f"{self.figures}; stopped before the update, checkpoints are of good steps; training examples{self.rank} "
            f"({kind}): {', '.join(examples)}{more}; lower optimizer.lr or set trainer.gradient_clip_val, or see what "
            "these examples are"
        )


@contextmanager
def named(names: Names) -> Iterator[None]:
    """Where a training stops so, say its examples by their ids, if they can be found.

    Raises:
        RunError: in place of a `NotFiniteError`.
    """
    try:
        yield
    except NotFiniteError as error:
        shown = error.rows[:SHOWN]
        known: Mapping[int, str] = {}
        with suppress(Exception):  # the message matters more than its ornament
            known = names("train", shown)
        if not known:
            raise
        raise RunError(error.told([known.get(row, f"row {row}") for row in shown], "dialogue#turn")) from error


class Step(NamedTuple):
    """What a step came to, on its way to the host."""

    number: int
    batches: list[Batch]
    values: Tensor  # [3]: loss, objective, norm of the gradient
    arrived: torch.cuda.Event | None
    scaled: bool


class Guard(Callback):
    """Stops a training whose loss or gradient is not finite, and names the examples of that step.

    The law: when it raises, weights and optimizer are those of the step before, and neither a validation nor a
    checkpoint has come after. As loss and norm are those of all processes, all stop together.

    A host that looks at a number of a GPU waits for it. So a fused optimizer on CUDA is told on the device to leave the
    update out (``found_inf``), and the host looks one step later, at what was copied meanwhile; elsewhere, and where
    parameters are shared out, it looks at once. Under a gradient scaler an infinite gradient is how the scale is found:
    the scaler leaves such a step out by itself, it counts as a step, and only `SKIPS` of them in a row are a fault.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.step: Step | None = None
        self.skipped = 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Forget a training that came to no end."""
        self.batches, self.step, self.skipped = [], None, 0

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, batch_index: int) -> None:
        """Remember what the coming update is made of."""
        self.batches.append(batch)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Nothing is validated that is not known to be good."""
        self.settle(module)

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Nothing is saved that is not known to be good."""
        self.settle(module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """The last step is looked at too."""
        self.settle(module)

    def look(
        self, module: LightningModule, optimizer: Optimizer, means: Mapping[str, Tensor], norm: Tensor, *, scaled: bool
    ) -> None:
        """Let an update come, or not.

        Args:
            module: What is trained.
            optimizer: What would make the update.
            means: The step's ``loss`` and ``objective``, of all processes.
            norm: The norm of the step's gradient, before it was clipped.
            scaled: Whether a gradient scaler leaves out what is infinite.

        Raises:
            NotFiniteError: this step or the one before.
        """
        self.settle(module)
        values = torch.stack([means["loss"], means["objective"], norm.to(means["loss"].dtype)]).detach()
        left_out = scaled or (getattr(optimizer, "_step_supports_amp_scaling", False) and not is_sharded(module))
        later = runs_ahead(values) and left_out
        if later and not scaled:
            optimizer.found_inf = (~values.isfinite().all()).float()  # type: ignore[attr-defined]  # as torch's scaler
        self.step = Step(module.global_step + 1, self.batches, *_to_host(values), scaled)
        self.batches = []
        if not later:
            self.settle(module)

    def settle(self, module: LightningModule) -> None:
        """Look at the last step, if nobody has.

        Raises:
            NotFiniteError: it is.
        """
        step, self.step = self.step, None
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
        raise _fault(module, step, values)


def runs_ahead(values: Tensor) -> bool:
    """Whether the host runs ahead of a tensor's device, so that looking at it takes waiting."""
    return values.is_cuda


def _to_host(values: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    if not values.is_cuda:
        return values, None
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return host, arrived


def _fault(module: LightningModule, step: Step, values: list[float]) -> NotFiniteError:
    """What happened, and with which examples."""
    loss, objective, norm = values
    rank = f" of process {module.global_rank}" if module.trainer.world_size > 1 else ""
    skipped = f" (the last of {SKIPS} steps in a row that the gradient scaler left out)" if step.scaled else ""
    figures = f"step {step.number}{skipped}: loss {loss:g}, objective {objective:g}, gradient norm {norm:g}"
    return NotFiniteError(figures, rank, _rows(module, step.batches))


@torch.no_grad()
def _rows(module: LightningModule, batches: list[Batch]) -> list[int]:
    """The examples whose own scores are not finite, or all of them."""
    rows = [row for batch in batches for row in batch.rows.tolist()]
    if module.trainer.world_size > 1:  # the other processes would have to take part
        return rows
    with module.trainer.precision_plugin.forward_context():
        bad = [
            row
            for batch in batches
            for place, row in enumerate(batch.rows.tolist())
            if not module(_one(batch, place)).isfinite().all()
        ]
    return bad or rows


def _one(batch: Batch, place: int) -> Batch:
    """An example of a batch, as the network reads it."""
    return batch._replace(source=batch.source[place : place + 1], target=batch.target[place : place + 1])
