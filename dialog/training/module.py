"""The LightningModule: network, training step and optimizer as Lightning hooks, for any
``lightning.Trainer``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dialog.config.components import Component, build, plain
from dialog.config.schema import GenerationConfig
from dialog.config.trust import Trust, check_importable, trust_of, without_trust
from dialog.data.batching import Batch, check_batch
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import DivergedError, UserError
from dialog.generation.responder import Responder, check_answered
from dialog.metrics.likelihood import likelihood_metrics
from dialog.models.seq2seq import Seq2Seq
from dialog.ranks import rank
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.distributed.fsdp import full_tensor, scale_gradients, shard
from dialog.training.guard import Guard
from dialog.training.lightning_internals import has_trainer, is_logging_step
from dialog.training.optimization.compilation import CompiledStep
from dialog.training.optimization.graphs import RecordedSteps, recorder_of
from dialog.training.optimization.optimizers import OPTIMIZERS, decay_groups
from dialog.training.optimization.schedules import SCHEDULES, set_base, use_scheduled
from dialog.training.step import StepSums, build_step


class Prediction(NamedTuple):
    """Generated response to one example."""

    row: int  # index of the example in its split
    text: str
    score: float  # log-probability in nats, end token included
    tokens: int  # number of tokens; counts the end token if it was generated


class DialogModule(LightningModule):
    """Train a :class:`Seq2Seq` on batches of dialogue examples; `TrainingStep` computes the step.

    The objective of an optimizer step is a sum over all its micro-batches and ranks, divided by the
    number of their response tokens, </s> included: the recipe's loss, plus the head's coverage
    loss, plus each auxiliary objective times its weight. So a token of an auxiliary objective
    counts as much as ``weight`` response tokens.

    Logged in training, over the whole optimizer step: ``train/objective``; ``train/loss``, -log p
    per response token; for each auxiliary objective, -log p per token of that objective. In
    validation and test, over the whole split for any batching and any number of processes: the
    `likelihood_metrics`, without bits per byte if a batch has no bytes.

    Args:
        model: The network.
        padding: The padding token.
        optimizer: With its schedule inside:
            ``{name: adamw, lr: ..., schedule: {name: inverse_sqrt}}``.
        loss: The loss over real target tokens.
        teacher_forcing: Schedule of the ratio of gold tokens; with ``sampled: true`` predictions
            are samples.
        objectives: Auxiliary objectives, each with ``weight`` and ``schedule``; they are fed gold
            tokens only.
        search: The search of `predict_step`, with its length limits.
        tokenizer: The run's tokenizer, for objectives that read text and for the text of
            predictions.
        graphs: On CUDA, record the step of each shape of a batch and replay it; batches should
            repeat their shapes.
        compiled: Compile the step with ``torch.compile`` in place of recording it.
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
        search: Component | None = None,
        tokenizer: Tokenizer | None = None,
        graphs: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.padding = padding
        self.tokenizer = tokenizer
        components: dict[str, Any] = {
            "optimizer": optimizer or {"name": "adamw"},
            "loss": loss or {"name": "cross_entropy"},
            "teacher_forcing": teacher_forcing or {"name": "constant"},
            "objectives": objectives,
            "search": search or {"name": "greedy"},
        }
        components = {key: plain(value, key) for key, value in components.items()}
        network = model.arguments if type(model) is Seq2Seq else None
        self.save_hyperparameters(
            without_trust({"model": network, "padding": padding, **components}), logger=False
        )
        self.optimizer_component = components.pop("optimizer")
        self.search = components.pop("search")
        self.step = build_step(padding=padding, tokenizer=tokenizer, **components)
        self.loss = self.step.loss  # registers a loss that is an nn.Module
        self.graphs = graphs
        self.compiled = compiled
        self.recorded: RecordedSteps | CompiledStep | None = None
        self.step_sums = StepSums()
        self.split_metrics = likelihood_metrics()
        self.target_tokens = 0
        """Real target tokens that this rank has trained on; after training, all ranks together."""
        self.guard = Guard()
        self._responder: Responder | None = None

    def configure_callbacks(self) -> list[Callback]:
        """Return the guard that stops training at a value that is not finite."""
        return [self.guard]

    def configure_model(self) -> None:
        """Shard the parameters if the strategy has a device mesh."""
        if self.device_mesh is not None:
            shard(self, self.device_mesh)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Build optimizer and schedule; the schedule advances every optimizer step (plateau: every
        validation).
        """
        arguments = dict(self.optimizer_component)
        schedule = arguments.pop("schedule", {"name": "constant"})
        optimizer = build(OPTIMIZERS, arguments, params=decay_groups(self.model.named_parameters()))
        steps = (lambda: self.trainer.estimated_stepping_batches) if has_trainer(self) else None
        scheduler: Any = build(SCHEDULES, schedule, optimizer=optimizer, training_steps=steps)
        # stepped by `_step_plateau`: Lightning would do so once an epoch
        if isinstance(scheduler, ReduceLROnPlateau):
            plateau: Any = {
                "scheduler": scheduler,
                "monitor": "validation/loss",
                "frequency": sys.maxsize,
            }
            return {"optimizer": optimizer, "lr_scheduler": plateau}
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    @property
    def lr(self) -> float | None:
        """Learning rate of the optimizer, which its schedule multiplies; None if it is the
        optimizer's own.

        Lightning's `LearningRateFinder` sets it before the first step. The present optimizer and
        its schedule follow.
        """
        rate: float | None = self.optimizer_component.get("lr")
        return rate

    @lr.setter
    def lr(self, value: float) -> None:
        self.optimizer_component = {**self.optimizer_component, "lr": value}
        self.hparams["optimizer"] = self.optimizer_component
        if has_trainer(self):
            for config in self.trainer.lr_scheduler_configs:
                set_base(config.scheduler, value)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [B, T, V] under teacher forcing."""
        logits: Tensor = self.model(
            batch.source, batch.source != self.padding, batch.target[:, :-1]
        )
        return logits

    def on_train_start(self) -> None:
        """Reset the sums of a step that an earlier training left unfinished; prepare to record
        steps.
        """
        self.step_sums = StepSums()
        # gradients of a sharded parameter, and anomalies, are found while autograd runs
        watched = self.device_mesh is not None or torch.is_anomaly_enabled()
        recorder = recorder_of(self.device) if self.graphs and not watched else None
        self.recorded = None
        if self.compiled:
            self.recorded = CompiledStep(self.step)
        elif recorder is not None:
            self.recorded = RecordedSteps(self.step, recorder)
        # a finder of the learning rate has set that of the first step too, in place of the warm-up
        if has_trainer(self):
            for config in self.trainer.lr_scheduler_configs:
                use_scheduled(config.scheduler)

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """Return the loss of a micro-batch."""
        check_batch(batch, self.padding, first=batch_index == 0)
        step = self.recorded or self.step
        objective, terms = step(self.model, batch, self.global_step)
        self.target_tokens += batch.target_tokens
        return self.step_sums.add(objective, terms, batch.target_tokens)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Scale the gradient to that of the whole step (see `StepSums`), clip it, check it, and log
        the step.

        The logged norm is that before clipping, by norm or by value. This includes a fused
        optimizer under mixed precision.
        """
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
            # Lightning leaves this to the fused step, which runs after clipping
            scaler.unscale_(optimizer)
        micro_batches = self.trainer.accumulate_grad_batches
        means, factor = self.step_sums.finish(micro_batches)
        self.step_sums = StepSums()
        if micro_batches > 1:
            scale_gradients(self.model.parameters(), factor)
        parameters = [
            parameter for parameter in self.model.parameters() if parameter.grad is not None
        ]
        norm = nn.utils.get_total_norm(
            [parameter.grad for parameter in parameters if parameter.grad is not None]
        )
        if gradient_clip_val and gradient_clip_algorithm == "value":
            nn.utils.clip_grad_value_(parameters, gradient_clip_val)
        elif gradient_clip_val:
            nn.utils.clip_grads_with_norm_(parameters, gradient_clip_val, norm)
        norm = full_tensor(norm)
        self.guard.check_step(self, optimizer, means, norm, scaled=scaler is not None)
        if is_logging_step(self.trainer):  # at every step it would take a tenth of a small one
            self._log_step({**means, "gradient_norm": norm}, optimizer.param_groups[0]["lr"])

    def on_train_end(self) -> None:
        """Add the target tokens of the other ranks; free recorded steps."""
        self.recorded = None
        self.target_tokens = self._all_target_tokens()

    def on_validation_epoch_start(self) -> None:
        """Reset the metrics of a validation that was interrupted."""
        self.split_metrics.reset()

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the metrics of the split."""
        check_batch(batch, self.padding, first=batch_index == 0)
        nll, correct = self.step.validate(self.model, batch)
        # one batch without bytes leaves those of the split unknown
        size = batch.target_bytes or math.nan
        counts = {"tokens": batch.target_tokens, "bytes": size}
        self.split_metrics.update(
            nll=nll, correct=correct, unknown_bytes=batch.target_unknown_bytes, **counts
        )

    def on_validation_epoch_end(self) -> None:
        """Log the split's loss, perplexity, bits per byte and token accuracy.

        Raises:
            DivergedError: in training, the loss is not finite; it must not be compared with the
                best.
        """
        self._step_plateau(self._log_split("validation"))

    def on_test_epoch_start(self) -> None:
        """Reset the metrics of a test that was interrupted."""
        self.split_metrics.reset()

    def test_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the metrics of the split."""
        self.validation_step(batch, batch_index)

    def on_test_epoch_end(self) -> None:
        """Log the same metrics as a validation, as ``test/...``."""
        self._log_split("test")

    def on_predict_start(self) -> None:
        """Build the responder, which prepares the network's weights once for all batches."""
        self._responder = self._build_responder()

    def on_predict_end(self) -> None:
        """Free the prepared weights."""
        self._responder = None

    def predict_step(self, batch: Batch, batch_index: int) -> list[Prediction]:
        """Return a response to each source of a batch.

        Raises:
            UserError: the module has no tokenizer to decode text with, or the scores of the model
                are not numbers.
        """
        check_batch(batch, self.padding, first=batch_index == 0)
        responder = self._build_responder() if self._responder is None else self._responder
        responses = responder.generate(
            batch.source, self.search, ids=list(map(str, batch.rows.tolist()))
        )
        check_answered(responses, "predict")
        return [
            Prediction(row, best.text, best.score, best.tokens)
            for row, (best, *_) in zip(batch.rows.tolist(), responses, strict=True)
        ]

    def _build_responder(self) -> Responder:
        if self.tokenizer is None:
            raise UserError(
                "predict: the module has no tokenizer; pass DialogModule(..., tokenizer=...)"
            )
        # sources are truncated already
        return Responder(self.model, self.tokenizer, sys.maxsize, GenerationConfig())

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the target tokens of all ranks, the tokenizer and the names of frozen parameters."""
        checkpoint["target_tokens"] = self._all_target_tokens()
        checkpoint["tokenizer"] = self.tokenizer.json if self.tokenizer is not None else None
        checkpoint["frozen"] = [
            name for name, value in self.named_parameters() if not value.requires_grad
        ]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the target tokens of all ranks in the first one."""
        self.target_tokens = checkpoint["target_tokens"] if rank() == 0 else 0

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # a path, not an open file
        cls,
        checkpoint_path: str | Path,
        map_location: Any = "cpu",
        hparams_file: None = None,
        strict: bool | None = None,
        weights_only: bool | None = True,
        *,
        trust: bool | Trust = False,
        **arguments: Any,
    ) -> Self:
        """Load network, hyperparameters and tokenizer from a checkpoint alone, of any Trainer.

        Args:
            checkpoint_path: The file, which is read with ``weights_only=True`` in any case.
            map_location: Device of the weights, as in ``torch.load``.
            hparams_file: Not supported; pass ``arguments``.
            strict: Whether names of parameters must match; default true.
            weights_only: Ignored.
            trust: Whether hyperparameters may import parts by dotted names, that is, run code.
            arguments: Arguments of the constructor that replace those of the checkpoint.

        Raises:
            UserError: a damaged checkpoint, one without hyperparameters, or one that imports parts
                without ``trust``.
        """
        if hparams_file is not None:
            raise UserError(
                "hparams_file is not supported; pass arguments of DialogModule, such as"
                " optimizer=..."
            )
        checkpoint = SafeCheckpointIO().load_checkpoint(checkpoint_path, map_location)
        module = cls(
            **constructor_arguments(
                checkpoint, arguments, str(checkpoint_path), trust=trust_of(trust)
            )
        )
        load_weights(module, module.model, checkpoint, strict=strict is not False)
        module.on_load_checkpoint(checkpoint)
        return module

    def _log_split(self, split: str) -> float:
        """Log the metrics of a split, without bits per byte if its bytes are unknown; return its
        loss.
        """
        values = {name: float(value) for name, value in self.split_metrics.compute().items()}
        loss = values["loss"]
        if self.trainer.state.fn == "fit" and not math.isfinite(loss):
            raise DivergedError(
                f"step {self.global_step}: the validation loss is {loss}; lower optimizer.lr"
            )
        if math.isnan(values["bits_per_byte"]) and not math.isnan(loss):
            del values["bits_per_byte"]
        for name, value in values.items():
            self.log(f"{split}/{name}", value, prog_bar=name == "loss")
        self.split_metrics.reset()
        return loss

    def _all_target_tokens(self) -> int:
        tokens = torch.tensor(self.target_tokens, device=self.device)
        return int(self.trainer.strategy.reduce(tokens, reduce_op="sum"))

    def _log_step(self, means: Mapping[str, Tensor], lr: float) -> None:
        for name, value in means.items():
            self.log(f"train/{name}", value, prog_bar=name in ("loss", "objective"), batch_size=1)
        if not self.step.forced:
            self.log(
                "train/teacher_forcing", _on_host(self.step.ratio(self.global_step)), batch_size=1
            )
        self.log("train/learning_rate", _on_host(lr), batch_size=1)

    def _step_plateau(self, loss: float) -> None:
        """Step a plateau schedule at each validation of a training, of which an epoch may have
        several.
        """
        scheduler = self.lr_schedulers()
        if (
            isinstance(scheduler, ReduceLROnPlateau)
            and self.trainer.state.fn == "fit"
            and not self.trainer.sanity_checking
        ):
            scheduler.step(loss)


def _on_host(value: float) -> Tensor:
    """Return a CPU tensor to log: Lightning would copy a float to the device, and wait."""
    return torch.tensor(value, dtype=torch.float64, device="cpu")


# ------------------------------------------------------------------ modules of checkpoints


def constructor_arguments(
    checkpoint: Mapping[str, Any], replacements: Mapping[str, Any], path: str, *, trust: Trust
) -> dict[str, Any]:
    """Return the arguments of a DialogModule: the replacements, and for all others those of a
    checkpoint.

    Raises:
        UserError: with the path; no hyperparameters, or dotted names, which would be imported,
            without ``trust``.
    """
    hyperparameters: Mapping[str, Any] = checkpoint.get("hyper_parameters", {})
    stored = {key: value for key, value in hyperparameters.items() if key not in replacements}
    if (
        {"model", "padding"}
        - replacements.keys()
        - {key for key, value in stored.items() if value is not None}
    ):
        raise UserError(
            f"{path}: has no hyperparameters of its network: an older version wrote it, or the"
            " network is not a Seq2Seq; pass model= and padding=, or load its run folder with"
            " dialog.load"
        )
    stored = trust.allow(stored)
    check_importable(stored, path)
    if "model" in stored:
        stored["model"] = Seq2Seq(**stored["model"])
    if "tokenizer" not in replacements and checkpoint.get("tokenizer") is not None:
        stored["tokenizer"] = Tokenizer(checkpoint["tokenizer"])
    return {**stored, **replacements}


def load_weights(
    module: nn.Module, network: nn.Module, checkpoint: Mapping[str, Any], *, strict: bool
) -> None:
    """Load the weights of a checkpoint in its data type and device, and freeze the parameters that
    it names as frozen.

    Args:
        module: The whole module.
        network: Its part that takes the data type of the weights.
        checkpoint: As `DialogModule.on_save_checkpoint` extends it.
        strict: Whether names of parameters must match.
    """
    weights = checkpoint["state_dict"]
    first = next(value for value in weights.values() if value.is_floating_point())
    network.to(first.dtype)
    module.to(first.device).load_state_dict(weights, strict=strict)
    for name, parameter in module.named_parameters():
        if name in checkpoint.get("frozen", ()):
            parameter.requires_grad_(False)
