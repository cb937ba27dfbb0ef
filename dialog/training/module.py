"""The LightningModule: network, training step and optimizer as Lightning hooks, for any ``lightning.Trainer``."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torchmetrics import Metric, MetricCollection

from dialog.config.components import Component, build
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import RunError
from dialog.metrics import BitsPerByte, NegativeLogLikelihood, PerplexityToken, TokenAccuracy
from dialog.models.seq2seq import Seq2Seq
from dialog.training.callbacks.guard import Guard
from dialog.training.distributed.fsdp import full_tensor, scale_gradients, shard
from dialog.training.lightning_internals import has_trainer, is_logging_step
from dialog.training.optimization.optimizers import OPTIMIZERS, decay_groups
from dialog.training.optimization.schedules import SCHEDULES
from dialog.training.step import build_step
from dialog.training.sums import StepSums


class DialogModule(LightningModule):
    """Train a :class:`Seq2Seq` on batches of dialogue examples; `TrainingStep` computes the step.

    The objective of an optimizer step is a sum over all its micro-batches and ranks, divided by the number of their
    response tokens, </s> included: the recipe's loss, plus the head's coverage loss, plus each auxiliary objective
    times its weight. So a token of an auxiliary objective counts as its weight in response tokens.

    Logged in training, all of the whole optimizer step: ``train/objective``; ``train/loss``, -log p per response token;
    for each auxiliary objective -log p per token of its own. In validation, over the whole split for any batching and
    any number of processes: the metrics of `validation_metrics`.

    Args:
        model: The network.
        padding: The padding token.
        optimizer: With its schedule inside: ``{name: adamw, lr: ..., schedule: {name: inverse_sqrt}}``.
        loss: The loss over real target tokens.
        teacher_forcing: Schedule of the ratio of gold tokens; with ``sampled: true`` predictions are samples.
        objectives: Auxiliary objectives, each with ``weight`` and ``schedule``; they are fed gold tokens only.
        tokenizer: The run's tokenizer, for objectives that read text.
    """

    def __init__(
        self,
        model: Seq2Seq,
        *,
        padding: int,
        optimizer: Component | None = None,
        loss: Component | None = None,
        teacher_forcing: Component | None = None,
        objectives: Sequence[Component] = (),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.padding = padding
        self.optimizer_component = optimizer or {"name": "adamw"}
        self.step = build_step(
            padding=padding,
            loss=loss or {"name": "cross_entropy"},
            teacher_forcing=teacher_forcing or {"name": "constant"},
            objectives=objectives,
            tokenizer=tokenizer,
        )
        self.loss = self.step.loss  # registers a loss that is an nn.Module
        self.step_sums = StepSums()
        self.validation_metrics = validation_metrics()
        self.target_tokens = 0
        """Real target tokens that this rank has trained on; after training, all ranks together."""
        self.guard = Guard()

    def configure_callbacks(self) -> list[Callback]:
        """Return the guard that stops training at a value that is not finite."""
        return [self.guard]

    def configure_model(self) -> None:
        """Shard the parameters if the strategy has a device mesh."""
        if self.device_mesh is not None:
            shard(self, self.device_mesh)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Build optimizer and schedule; the schedule advances every optimizer step (plateau: every validation)."""
        arguments = dict(self.optimizer_component)
        schedule = arguments.pop("schedule", {"name": "constant"})
        optimizer = build(OPTIMIZERS, arguments, params=decay_groups(self.model.named_parameters()))
        steps = (lambda: self.trainer.estimated_stepping_batches) if has_trainer(self) else None
        scheduler: Any = build(SCHEDULES, schedule, optimizer=optimizer, training_steps=steps)
        if isinstance(scheduler, ReduceLROnPlateau):  # stepped by `_step_plateau`: Lightning would do so once an epoch
            plateau: Any = {"scheduler": scheduler, "monitor": "validation/loss", "frequency": sys.maxsize}
            return {"optimizer": optimizer, "lr_scheduler": plateau}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, T, V] under teacher forcing."""
        logits: Tensor = self.model(batch.source, batch.source != self.padding, batch.target[:, :-1])
        return logits

    def on_train_start(self) -> None:
        """Reset the sums of a step that an earlier training left unfinished."""
        self.step_sums = StepSums()

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """Return the loss of a micro-batch."""
        objective, terms = self.step(self.model, batch, self.global_step)
        self.target_tokens += batch.target_tokens
        return self.step_sums.add(objective, terms, batch.target_tokens)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Scale the gradient to that of the whole step (see `StepSums`), clip it, check it, and log the step.

        The logged norm is that before clipping, by norm or by value. This includes a fused optimizer under mixed
        precision.
        """
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(optimizer)  # Lightning leaves this to the fused step, which runs after clipping
        micro_batches = self.trainer.accumulate_grad_batches
        means, factor = self.step_sums.finish(micro_batches)
        self.step_sums = StepSums()
        if micro_batches > 1:
            scale_gradients(self.model.parameters(), factor)
        limit, by_value = gradient_clip_val or math.inf, gradient_clip_algorithm == "value"
        norm = full_tensor(nn.utils.clip_grad_norm_(self.model.parameters(), math.inf if by_value else limit))
        if by_value:
            nn.utils.clip_grad_value_(self.model.parameters(), limit)
        self.guard.check_step(self, optimizer, means, norm, scaled=scaler is not None)
        if is_logging_step(self.trainer):  # at every step it would take a tenth of a small one
            self._log_step({**means, "gradient_norm": norm}, optimizer.param_groups[0]["lr"])

    def on_train_end(self) -> None:
        """Add the target tokens of the other ranks."""
        self.target_tokens = self._all_target_tokens()

    def on_validation_epoch_start(self) -> None:
        """Reset the metrics of a validation that was interrupted."""
        self.validation_metrics.reset()

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the metrics of the split."""
        nll, correct = self.step.validate(self.model, batch)
        counts = {"tokens": batch.target_tokens, "bytes": batch.target_bytes}
        self.validation_metrics.update(nll=nll, correct=correct, unknown_bytes=batch.target_unknown_bytes, **counts)

    def on_validation_epoch_end(self) -> None:
        """Log the split's loss, perplexity, bits per byte and token accuracy.

        Raises:
            RunError: in training, the loss is not finite; it must not be compared with the best.
        """
        values = {name: float(value) for name, value in self.validation_metrics.compute().items()}
        loss = values["validation/loss"]
        if self.trainer.state.fn == "fit" and not math.isfinite(loss):
            raise RunError(f"step {self.global_step}: the validation loss is {loss}; lower optimizer.lr")
        for name, value in values.items():
            self.log(name, value, prog_bar=name == "validation/loss")
        self.validation_metrics.reset()
        self._step_plateau(loss)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the target tokens of all ranks."""
        checkpoint["target_tokens"] = self._all_target_tokens()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the target tokens of all ranks in the first one."""
        self.target_tokens = checkpoint["target_tokens"] if self.trainer.is_global_zero else 0

    def _all_target_tokens(self) -> int:
        tokens = torch.tensor(self.target_tokens, device=self.device)
        return int(self.trainer.strategy.reduce(tokens, reduce_op="sum"))

    def _log_step(self, means: Mapping[str, Tensor], lr: float) -> None:
        for name, value in means.items():
            self.log(f"train/{name}", value, prog_bar=name in ("loss", "objective"), batch_size=1)
        if not self.step.forced:
            self.log("train/teacher_forcing", _on_host(self.step.ratio(self.global_step)), batch_size=1)
        self.log("train/learning_rate", _on_host(lr), batch_size=1)

    def _step_plateau(self, loss: float) -> None:
        """Step a plateau schedule at each validation of a training, of which an epoch may have several."""
        scheduler = self.lr_schedulers()
        if (
            isinstance(scheduler, ReduceLROnPlateau)
            and self.trainer.state.fn == "fit"
            and not self.trainer.sanity_checking
        ):
            scheduler.step(loss)


def validation_metrics() -> MetricCollection:
    """Build the metrics of a validation, as defined in `dialog.metrics`; ``loss`` is -log p per response token."""
    metrics: dict[str, Metric | MetricCollection] = {
        "loss": NegativeLogLikelihood("mean"),
        "perplexity": PerplexityToken(),
        "bits_per_byte": BitsPerByte(),
        "token_accuracy": TokenAccuracy(),
    }
    return MetricCollection(metrics, prefix="validation/", compute_groups=False)


def _on_host(value: float) -> Tensor:
    """Return a CPU tensor to log: Lightning would copy a float to the device, and wait."""
    return torch.tensor(value, dtype=torch.float64, device="cpu")
