"""The LightningModule: a network, a loss and an optimizer, for anyone's ``lightning.Trainer``."""

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

from dialog.config.components import Component, build
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import RunError, UserError
from dialog.models.heads import Decoded
from dialog.models.seq2seq import Seq2Seq
from dialog.training.callbacks.guard import Guard
from dialog.training.distributed.fsdp import multiply, shard, whole
from dialog.training.lightning_internals import has_trainer, is_logging_step
from dialog.training.losses import LOSSES, asks, build_loss
from dialog.training.losses.coverage import coverage_loss
from dialog.training.losses.projection import Positions, likelihood_sums, loss_sums, positions
from dialog.training.objectives.objectives import build_objectives
from dialog.training.optimization.optimizers import OPTIMIZERS, decay_groups
from dialog.training.optimization.schedules import SCHEDULES
from dialog.training.sums import SplitSums
from dialog.training.teacher_forcing import TEACHER_FORCINGS, decode
from dialog.training.window import Window


class DialogModule(LightningModule):
    """Teacher forcing of a :class:`Seq2Seq` on batches of dialogue examples.

    ``train/loss`` is -log p per real target token (the end token is one), ``train/objective`` what is lowered: the sum
    of the recipe's loss over these tokens, a head's coverage loss of them, and by its weight each auxiliary objective's
    sum over its own tokens, divided by the number of response tokens. So a token of an auxiliary objective counts as
    its weight in response tokens. Sums and number are of a whole optimizer step: all its micro-batches, all processes
    (see :class:`Window`), and so is what is logged; of an auxiliary objective that is the mean of its own tokens.
    ``validation/loss`` is sum nll / sum tokens over the whole split, exact for any batching;
    ``validation/bits_per_byte`` is sum nll / (ln 2 x bytes of the raw responses).

    Args:
        model: The network.
        padding: The token that fills rows up.
        optimizer: With its schedule inside: ``{name: adamw, lr: ..., schedule: {name: inverse_sqrt}}``.
        loss: What is lowered of real target tokens.
        teacher_forcing: How often gold tokens are read, with ``sampled: true`` if the model's own words are drawn.
        objectives: Auxiliary objectives, each with its ``weight`` and ``schedule``; their targets are always forced.
        tokenizer: The run's, for objectives that read text.
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
        self.loss = build_loss(LOSSES, loss or {"name": "cross_entropy"}, padding=padding)
        self.passes = 2 if asks(self.loss, "again") else 1
        forcing = dict(teacher_forcing or {"name": "constant"})
        self.sampled = forcing.pop("sampled", False)
        if not isinstance(self.sampled, bool):
            raise UserError(f"teacher_forcing: sampled must be bool, not {self.sampled!r}")
        self.forced = forcing == {"name": "constant"}
        self.ratio = build(TEACHER_FORCINGS, forcing)
        self.objectives = build_objectives(objectives, tokenizer=tokenizer)
        self.window = Window()
        self.target_tokens = 0
        """Real target tokens that this process has trained on; when training has ended, all processes."""
        self.sums = SplitSums()
        self.guard = Guard()

    def configure_callbacks(self) -> list[Callback]:
        """What stops a training that is not finite, in anyone's Trainer."""
        return [self.guard]

    def configure_model(self) -> None:
        """Share out the parameters among processes, where the trainer's strategy asks for it."""
        if self.device_mesh is not None:
            shard(self, self.device_mesh)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, T, V] under teacher forcing."""
        logits: Tensor = self.model(batch.source, batch.source != self.padding, batch.target[:, :-1])
        return logits

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """What is lowered."""
        passes = [self._decode(batch.source, batch.target, self._ratio) for _ in range(self.passes)]
        real = self._real(passes, batch.target, batch.target_tokens)
        sums = loss_sums(self.model.head, self.loss, real)
        self.target_tokens += batch.target_tokens
        self.window.add({"loss": sums.nll, **self._measures(real)}, batch.target_tokens)
        objective = sums.objective + self._coverage(passes, batch) + self._auxiliary(batch)
        return self.window.lower(objective, batch.target_tokens)

    def on_train_start(self) -> None:
        """Begin with a new window, whatever ended the training before."""
        self.window = Window()

    def on_train_end(self) -> None:
        """Add what the other processes have trained on."""
        self.target_tokens = self._all_target_tokens()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what all processes have trained on."""
        checkpoint["target_tokens"] = self._all_target_tokens()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there: the first process has trained on all of it."""
        self.target_tokens = checkpoint["target_tokens"] if self.trainer.is_global_zero else 0

    def _all_target_tokens(self) -> int:
        tokens = torch.tensor(self.target_tokens, device=self.device)
        return int(self.trainer.strategy.reduce(tokens, reduce_op="sum"))

    def on_validation_epoch_start(self) -> None:
        """Begin anew, also after a validation that came to no end."""
        self.sums = SplitSums()

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add the batch to the split's sums."""
        real = self._real([self._decode(batch.source, batch.target)], batch.target, batch.target_tokens)
        nll, correct = likelihood_sums(self.model.head, real)
        self.sums.add(nll, correct, batch.target_tokens, batch.target_bytes)

    def on_validation_epoch_end(self) -> None:
        """Log what the whole split says.

        Raises:
            RunError: in training, where it is not finite: it could only be the best by mistake.
        """
        nll, correct, tokens, size = self.sums.take(self.trainer.strategy)
        if self.trainer.state.fn == "fit" and not math.isfinite(nll):
            raise RunError(f"step {self.global_step}: the validation loss is {nll / tokens}; lower optimizer.lr")
        self.log("validation/loss", nll / tokens, prog_bar=True)
        self.log("validation/perplexity", math.exp(min(nll / tokens, 700.0)))
        self.log("validation/bits_per_byte", nll / (math.log(2) * size))
        self.log("validation/token_accuracy", correct / tokens)
        self._watch_for_plateau(nll / tokens)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The recipe's optimizer, with its schedule stepped every optimizer step (plateau: every validation)."""
        arguments = dict(self.optimizer_component)
        schedule = arguments.pop("schedule", {"name": "constant"})
        optimizer = build(OPTIMIZERS, arguments, params=decay_groups(self.model.named_parameters()))
        steps = (lambda: self.trainer.estimated_stepping_batches) if has_trainer(self) else None
        scheduler: Any = build(SCHEDULES, schedule, optimizer=optimizer, training_steps=steps)
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
        """Make the gradient the step's (see `Window`), clip it by norm, and log what the step was, of all processes.

        Also with a fused optimizer under mixed precision.
        """
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            scaler.unscale_(optimizer)  # Lightning leaves this to the fused step, which comes after clipping
        micro_batches = self.trainer.accumulate_grad_batches
        means, lacks = self.window.whole(micro_batches)
        self.window = Window()
        if micro_batches > 1:
            multiply(self.model.parameters(), lacks)
        norm = whole(nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val or math.inf))
        self.guard.look(self, optimizer, means, norm, scaled=scaler is not None)
        if is_logging_step(self.trainer):  # at every step it would take a tenth of a small one
            self._log_step({**means, "gradient_norm": norm}, optimizer.param_groups[0]["lr"])

    def _log_step(self, measured: Mapping[str, Tensor], lr: float) -> None:
        """Log what a step was."""
        for name, value in measured.items():
            self.log(f"train/{name}", value, prog_bar=name in ("loss", "objective"), batch_size=1)
        if not self.forced:
            self.log("train/teacher_forcing", _at_home(self._ratio), batch_size=1)
        self.log("train/learning_rate", _at_home(lr), batch_size=1)

    def _decode(self, source: Tensor, target: Tensor, ratio: float = 1.0) -> Decoded:
        """Positions [B, T] of targets [B, T + 1], as far as the head."""
        memory, state = self.model.start(source, source != self.padding)
        return decode(self.model, target[:, :-1], memory, state, ratio=ratio, sampled=self.sampled)

    @property
    def _ratio(self) -> float:
        """The share of gold tokens that are read in this step."""
        return self.ratio(self.global_step)

    @torch.no_grad()
    def _measures(self, real: Positions) -> dict[str, Tensor]:
        """What the head has to say of real positions, as sums."""
        return {name: mean * len(real.targets) for name, mean in self.model.head.measures(real.passes[0]).items()}

    def _real(self, passes: Sequence[Decoded], target: Tensor, count: int | None = None) -> Positions:
        """The real positions of targets [B, T + 1], which may be counted already."""
        return positions(self.loss, passes, target[:, 1:], padding=self.padding, count=count)

    def _coverage(self, passes: Sequence[Decoded], batch: Batch) -> Tensor | float:
        """The coverage loss summed over target tokens, by the head's weight of it."""
        if not self.model.head.coverage:
            return 0.0
        real = batch.target[:, 1:] != self.padding  # [B, T]
        whole = torch.stack([coverage_loss(each.weights, real) for each in passes]).mean()
        self.window.add({"coverage": whole}, batch.target_tokens)
        return self.model.head.coverage * whole

    def _auxiliary(self, batch: Batch) -> Tensor | float:
        """The auxiliary objectives' sums by their weights."""
        added: Tensor | float = 0.0
        for each in self.objectives:
            source, target = each.objective(batch)
            real = self._real([self._decode(source, target) for _ in range(self.passes)], target)
            sums = loss_sums(self.model.head, self.loss, real)
            self.window.add({each.name: sums.nll}, (target[:, 1:] != self.padding).sum())
            added = added + each.weight * each.schedule(self.global_step) * sums.objective
        return added

    def _watch_for_plateau(self, loss: float) -> None:
        """Step a schedule that waits for a plateau at each validation, however many an epoch has."""
        scheduler = self.lr_schedulers()
        if (
            isinstance(scheduler, ReduceLROnPlateau)
            and self.trainer.state.fn == "fit"
            and not self.trainer.sanity_checking
        ):
            scheduler.step(loss)


def _at_home(value: float) -> Tensor:
    """A number to log that stays on the host: Lightning would send a float to the device, and wait."""
    return torch.tensor(value, dtype=torch.float64, device="cpu")
