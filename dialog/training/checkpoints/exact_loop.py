"""Training loops that resume exactly at the step of a checkpoint.

Lightning 2.6 writes checkpoints at many points of a step and guesses the point when it loads; from
several it repeats a batch, skips a validation or loses a line of the record. Here there are two
points: after a step and its validation, and on a signal before the step's validation, which is then
pending.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from dialog.signals import Stopped
from dialog.training.checkpoints.best_and_last import BestAndLast
from dialog.training.distributed.signals import StopSignals
from dialog.training.lightning_internals import DataFetcher, EpochLoop, EpochsLoop


class ExactEpochLoop(EpochLoop):
    """Loop over the batches of an epoch that saves and handles signals between two optimizer
    steps.
    """

    def __init__(
        self, trainer: Trainer, *, max_steps: int, checkpoints: BestAndLast, signals: StopSignals
    ) -> None:
        super().__init__(trainer, max_steps=max_steps)
        self.checkpoints = checkpoints
        self.signals = signals
        self.pending = False  # a step is done, its validation is not
        self.resumed = False

    def reset(self) -> None:
        """Start an epoch; a resumed one keeps its counters, which were exact when they were
        saved.
        """
        if self.resumed:
            self.resumed = self.restarting = False
        else:
            super().reset()

    def on_advance_end(self, data_fetcher: DataFetcher) -> None:
        """Validate and save if they are due.

        A signal during a validation in the middle of an accumulation also stops at once, without
        saving: the run then resumes from the previous checkpoint.

        Raises:
            Stopped: after saving.
        """
        between_steps = not self.is_accumulating()
        self.pending = True
        try:
            if between_steps:
                self.stop_on_signal()
            super().on_advance_end(data_fetcher)
        except Stopped:
            if between_steps:
                self.checkpoints.save(self.trainer)
            raise
        self.pending = False
        if between_steps:
            self.checkpoints.on_step(self.trainer)

    def stop_on_signal(self) -> None:
        """Stop if any rank has received a signal.

        Raises:
            Stopped: it has.
        """
        if number := self.signals.received_by_any():
            raise Stopped(number)

    def on_save_checkpoint(self) -> dict[str, Any]:
        """Return the loop's state, with whether a validation is pending."""
        return {**super().on_save_checkpoint(), "pending": self.pending}

    def on_load_checkpoint(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        super().on_load_checkpoint(state_dict)
        self.pending = state_dict["pending"]
        self.resumed = True

    def split_again(self, before: int, processes: int) -> None:
        """Count the batches of a process as if another number of processes had trained before."""
        for progress in (self.batch_progress.total, self.batch_progress.current):
            vars(progress).update(
                {name: count * before // processes for name, count in vars(progress).items()}
            )

    def is_last_step(self) -> bool:
        """Return whether training ends here, wherever the limits or the clock put the end."""
        trainer = self.trainer
        last = self.batch_progress.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        return bool(last or trainer.should_stop or self.global_step == trainer.max_steps)


class ExactFitLoop(EpochsLoop):
    """Loop over epochs that starts with a validation that was pending when training was stopped."""

    def __init__(self, trainer: Trainer, *, checkpoints: BestAndLast, signals: StopSignals) -> None:
        old = trainer.fit_loop
        super().__init__(trainer, old.min_epochs, old.max_epochs)
        self.epoch_loop: ExactEpochLoop = ExactEpochLoop(
            trainer, max_steps=old.max_steps, checkpoints=checkpoints, signals=signals
        )

    def setup_data(self) -> None:
        """Restore the loaders' states, which Lightning loses if a schedule has read the number of
        steps before; validate between two steps.

        A fraction of an epoch is rounded to whole steps, so that it is the same step for any number
        of processes.
        """
        super().setup_data()
        self.restore_loader_states()
        trainer = self.trainer
        micro_batches = trainer.accumulate_grad_batches
        interval = trainer.val_check_interval
        if isinstance(interval, float) and self.max_batches % micro_batches == 0:
            steps = int(self.max_batches // micro_batches * interval)
            trainer.val_check_batch = max(1, steps) * micro_batches

    def load_state_dict(self, state_dict: dict[str, Any], prefix: str = "") -> None:
        """Restore the state, which may be that of another number of processes."""
        super().load_state_dict(state_dict, prefix)
        for loader in state_dict[f"{prefix}state_dict"].get("combined_loader", []):
            if isinstance(loader, dict) and "processes" in loader:  # not one of another library
                self.epoch_loop.split_again(loader["processes"], self.trainer.world_size)

    @property
    def skip(self) -> bool:
        """True if nothing is left to train or validate."""
        return super().skip and not self.epoch_loop.pending

    def on_run_start(self) -> None:
        """Run a pending validation first."""
        super().on_run_start()
        if self.epoch_loop.pending:
            self.epoch_loop.restarting = False
            self.epoch_loop.on_advance_end(self.fetcher)


class StopInValidation(Callback):
    """Stops on a signal within a validation, which may be long."""

    def on_validation_batch_end(
        self, trainer: Trainer, module: LightningModule, *_: object
    ) -> None:
        """Stop; a resumed run repeats the validation."""
        if isinstance(trainer.fit_loop, ExactFitLoop) and not trainer.sanity_checking:
            trainer.fit_loop.epoch_loop.stop_on_signal()
