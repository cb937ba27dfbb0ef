"""Lightning's loop over batches, made to go on exactly where it was.

Lightning 2.6 lets checkpoints be written at many points of a step and guesses at loading which one it was; from several
it repeats a batch, skips a validation or loses a line of the record. Here they are written at two: when a step and all
that it brings about are done, and, when a signal comes, before the step's validation, which is then still to come.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from dialog.training.checkpoints.best_and_last import Checkpoints
from dialog.training.distributed.signals import Signals, Stopped
from dialog.training.lightning_internals import DataFetcher, EpochLoop, EpochsLoop


class StepLoop(EpochLoop):
    """An epoch's batches; between two optimizer steps it saves what is due, and stops when a signal has come."""

    def __init__(self, trainer: Trainer, *, max_steps: int, checkpoints: Checkpoints, signals: Signals) -> None:
        super().__init__(trainer, max_steps=max_steps)
        self.checkpoints = checkpoints
        self.signals = signals
        self.pending = False  # a step is done, but not what it brings about
        self.resumed = False

    def reset(self) -> None:
        """Begin an epoch; one that is gone on with keeps its counters, which were exact when they were saved."""
        if self.resumed:
            self.resumed = self.restarting = False
        else:
            super().reset()

    def on_advance_end(self, data_fetcher: DataFetcher) -> None:
        """Validate if it is time; save if it is time.

        A signal that comes while a validation interrupts an accumulation stops at once, too: then nothing is saved, and
        one goes on from the checkpoint before.

        Raises:
            Stopped: after the state was saved.
        """
        between = not self.is_accumulating()
        self.pending = True
        try:
            if between:
                self.stop_if_asked()
            super().on_advance_end(data_fetcher)
        except Stopped:
            if between:
                self.checkpoints.save(self.trainer)
            raise
        self.pending = False
        if between:
            self.checkpoints.on_step(self.trainer)

    def stop_if_asked(self) -> None:
        """Leave the training where a signal has come to any process.

        Raises:
            Stopped: it has.
        """
        if number := self.signals.asked():
            raise Stopped(number)

    def on_save_checkpoint(self) -> dict[str, Any]:
        """Whether there is something still to come."""
        return {**super().on_save_checkpoint(), "pending": self.pending}

    def on_load_checkpoint(self, state_dict: dict[str, Any]) -> None:
        """Go on there."""
        super().on_load_checkpoint(state_dict)
        self.pending = state_dict["pending"]
        self.resumed = True

    def is_last_step(self) -> bool:
        """Return whether training ends here, wherever the limits or the clock put the end."""
        trainer = self.trainer
        last = self.batch_progress.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        return bool(last or trainer.should_stop or self.global_step == trainer.max_steps)


class ExactFitLoop(EpochsLoop):
    """The epochs; what was still to come when a training was stopped comes before all else."""

    def __init__(self, trainer: Trainer, *, checkpoints: Checkpoints, signals: Signals) -> None:
        made = trainer.fit_loop
        super().__init__(trainer, made.min_epochs, made.max_epochs)
        self.epoch_loop: StepLoop = StepLoop(
            trainer, max_steps=made.max_steps, checkpoints=checkpoints, signals=signals
        )

    def setup_data(self) -> None:
        """Lightning forgets a loader's state where a schedule has asked for the number of steps before it was known."""
        super().setup_data()
        self.restore_loader_states()

    @property
    def skip(self) -> bool:
        """Whether there is nothing to do."""
        return super().skip and not self.epoch_loop.pending

    def on_run_start(self) -> None:
        """Begin."""
        super().on_run_start()
        if self.epoch_loop.pending:
            self.epoch_loop.restarting = False
            self.epoch_loop.on_advance_end(self.fetcher)


class StopInValidation(Callback):
    """A signal does not wait for the end of a validation, which may be far."""

    def on_validation_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        """Leave it; it begins again when the run is gone on with."""
        if isinstance(trainer.fit_loop, ExactFitLoop) and not trainer.sanity_checking:
            trainer.fit_loop.epoch_loop.stop_if_asked()
