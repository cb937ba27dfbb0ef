"""Which states of a training are kept: the best so far, and the newest to go on from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from dialog.training.checkpoints.checkpoint_io import BEST, LAST
from dialog.training.checkpoints.monitors import Monitor


class Checkpoints(Checkpoint):
    """``best.ckpt`` has the best validation, ``last.ckpt`` is what a training goes on from.

    The best weights are saved as they were validated; a value that is not finite is never the best.
    `exact_loop.StepLoop` saves the newest state between steps: after a validation, and every n steps if set. The best
    is written first, so that the newest state never refers to a best checkpoint that does not exist.

    Args:
        folder: Where they lie.
        monitor: By what the best validation is told.
        every_n_steps: How many optimizer steps lie between two saves.
        ends: What says when training ends: a run that had come to its end stays ended unless this is another.
    """

    def __init__(
        self, folder: Path, *, monitor: Monitor, every_n_steps: int | None = None, ends: Sequence[object] = ()
    ) -> None:
        self.folder = folder
        self.monitor = monitor
        self.every_n_steps = every_n_steps
        self.ends = list(ends)
        self.best = monitor.worst
        self.validated = False
        self.stopping = False
        self.step = 0
        """The step of the newest state that is kept."""

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Keep the best."""
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        self.validated = True
        value = float(trainer.callback_metrics[self.monitor.name])
        if self.monitor.better(value, self.best):
            self.best = value
            trainer.save_checkpoint(self.folder / BEST, False)  # all of the state, not the weights alone

    def on_step(self, trainer: Trainer) -> None:
        """Keep the newest, where it is time; to be called where a step and all that it brings about are done."""
        if self.validated or (self.every_n_steps and trainer.global_step % self.every_n_steps == 0):
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Keep the newest."""
        self.validated = False
        self.stopping = trainer.should_stop
        trainer.save_checkpoint(self.folder / LAST, False)
        self.step = trainer.global_step

    def state_dict(self) -> dict[str, Any]:
        """The best value, and whether training is at its end."""
        return {"best": self.best, "stopping": self.stopping, "ends": self.ends}

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Go on with them."""
        state = checkpoint["callbacks"][self.state_key]
        self.best = state["best"]
        self.step = checkpoint["global_step"]
        trainer.should_stop = state["stopping"] and state["ends"] == self.ends
