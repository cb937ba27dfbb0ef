"""The LightningModule: a network, a loss and an optimizer, for anyone's ``lightning.Trainer``."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torchmetrics import SumMetric

from dialog.components import Component, build
from dialog.data.batching import Batch
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import LOSSES, Loss, LossSums
from dialog.training.optimizers import OPTIMIZERS, SCHEDULES


class DialogModule(LightningModule):
    """Teacher forcing of a :class:`Seq2Seq` on batches of dialogue examples.

    The training loss is the mean over the batch's real target tokens (the end token is one). ``validation/loss`` is
    sum nll / sum tokens over the whole split, exact for any batching; ``validation/bits_per_byte`` is
    sum nll / (ln 2 x bytes of the raw responses).

    ``optimizer`` is a component with its schedule inside: ``{name: adamw, lr: ..., schedule: {name: inverse_sqrt}}``.
    """

    def __init__(
        self,
        model: Seq2Seq,
        *,
        padding: int,
        optimizer: Component | None = None,
        loss: Component | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.padding = padding
        self.optimizer_component = optimizer or {"name": "adamw"}
        self.loss: Loss = build(LOSSES, loss or {"name": "cross_entropy"})
        self.target_tokens = 0
        """Real target tokens that this process has trained on; when training has ended, all processes."""
        sums = ("nll", "tokens", "correct", "bytes")
        self.sums = nn.ModuleDict({name: SumMetric(nan_strategy="disable").set_dtype(torch.float64) for name in sums})

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, T, V] under teacher forcing."""
        logits: Tensor = self.model(batch.source, batch.source != self.padding, batch.target[:, :-1])
        return logits

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """Mean loss per real target token."""
        sums = self._loss(batch, self(batch))[0]
        self.target_tokens += batch.target_tokens
        rows = len(batch.source)
        self.log("train/loss", sums.nll.detach() / batch.target_tokens, prog_bar=True, batch_size=rows)
        return sums.objective / batch.target_tokens

    def on_train_end(self) -> None:
        """Add what the other processes have trained on."""
        tokens = torch.tensor(self.target_tokens, device=self.device)
        self.target_tokens = int(self.trainer.strategy.reduce(tokens, reduce_op="sum"))

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add the batch to the split's sums."""
        logits = self(batch)
        sums, correct = self._loss(batch, logits)
        new = {
            "nll": sums.nll.double(),
            "tokens": torch.tensor(batch.target_tokens),
            "correct": correct,
            "bytes": torch.tensor(batch.target_bytes),
        }
        for name, value in new.items():
            self.sums[name](value.to(self.device, torch.float64))

    def on_validation_epoch_end(self) -> None:
        """Log what the whole split says."""
        nll, tokens, correct, size = (metric.compute().item() for metric in self._metrics())
        for metric in self._metrics():
            metric.reset()
        self.log("validation/loss", nll / tokens, prog_bar=True)
        self.log("validation/perplexity", math.exp(min(nll / tokens, 700.0)))
        self.log("validation/bits_per_byte", nll / (math.log(2) * size))
        self.log("validation/token_accuracy", correct / tokens)
        self._watch_for_plateau(nll / tokens)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The recipe's optimizer, with its schedule stepped every optimizer step (plateau: every validation)."""
        arguments = dict(self.optimizer_component)
        schedule = arguments.pop("schedule", {"name": "constant"})
        optimizer = build(OPTIMIZERS, arguments, parameters=self.model.parameters())
        scheduler: Any = build(SCHEDULES, schedule, optimizer=optimizer)
        if isinstance(scheduler, ReduceLROnPlateau):  # Lightning would look once an epoch; see on_validation_epoch_end
            watched: Any = {"scheduler": scheduler, "monitor": "validation/loss", "frequency": sys.maxsize}
            return {"optimizer": optimizer, "lr_scheduler": watched}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by norm and log the norm before it, in one pass; also with a fused optimizer under mixed precision."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(optimizer)  # Lightning leaves this to the fused step, which comes after clipping
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val or math.inf)
        self.log("train/gradient_norm", norm, batch_size=1)
        self.log("train/learning_rate", optimizer.param_groups[0]["lr"], batch_size=1)

    def _loss(self, batch: Batch, logits: Tensor) -> tuple[LossSums, Tensor]:
        """The loss over real target tokens, and how many of them have the highest score."""
        targets = batch.target[:, 1:]  # [B, T]
        real = targets != self.padding
        scores, gold = logits[real], targets[real]  # [N, V], [N]
        with torch.no_grad():
            correct = (scores.argmax(-1) == gold).sum() if not self.training else gold.new_zeros(())
        return self.loss(scores, gold), correct

    def _watch_for_plateau(self, loss: float) -> None:
        """Step a schedule that waits for a plateau at each validation, however many an epoch has."""
        scheduler = self.lr_schedulers()
        if (
            isinstance(scheduler, ReduceLROnPlateau)
            and self.trainer.state.fn == "fit"
            and not self.trainer.sanity_checking
        ):
            scheduler.step(loss)

    def _metrics(self) -> list[Any]:
        return list(self.sums.values())
