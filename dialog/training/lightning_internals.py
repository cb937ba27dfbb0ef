"""Every private name of Lightning (2.6) that the package uses: the reason, and the public hook that
could replace it.

Only this file breaks when a new version of Lightning renames one of them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from types import FrameType

from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loops.fetchers import _DataFetcher
from lightning.pytorch.loops.fit_loop import _FitLoop
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from lightning.pytorch.trainer.connectors.signal_connector import _SignalConnector

DataFetcher = _DataFetcher
"""Type of an argument of :class:`EpochLoop`; public hook: none, the loops pass it on."""


# ------------------------------------------------------------------ module and logging


def has_trainer(module: LightningModule) -> bool:
    """Return whether a Trainer runs the module; public hook: ``module.trainer`` raises RuntimeError
    without one.
    """
    return module._trainer is not None


def is_logging_step(trainer: Trainer) -> bool:
    """Return whether Lightning writes metrics after this step, as decided by ``log_every_n_steps``.

    A value that is read from the device only then costs no synchronisation at the other steps.
    Public hook: none; ``trainer.global_step`` counts otherwise under accumulation.
    """
    return trainer._logger_connector.should_update_logs


# ------------------------------------------------------------------ loops


class EpochLoop(_TrainingEpochLoop):
    """Lightning's loop over the batches of an epoch, with two public methods for subclasses.

    Public hook: none; callbacks run inside a step and cannot save between two steps.
    """

    def is_accumulating(self) -> bool:
        """Return whether the last batch was not the last of an optimizer step."""
        return self._should_accumulate()

    def is_last_step(self) -> bool:
        """Return whether training ends here, so that it is validated in any case."""
        return False

    def _should_check_val_fx(self, data_fetcher: _DataFetcher) -> bool:
        validates = bool(super()._should_check_val_fx(data_fetcher))
        return validates or (self.trainer.enable_validation and self.is_last_step())

    def _broadcast_sigterm_tensor(self) -> None:
        """Do nothing: Lightning would make every step wait for a broadcast (its issue 21487)."""


class EpochsLoop(_FitLoop):
    """Lightning's loop over epochs, in place of a trainer's own; public hook: ``trainer.fit_loop``
    can be set.
    """

    def restore_loader_states(self) -> None:
        """Load the data loaders' states from the checkpoint, unless that is done."""
        self._load_combined_loader_states()

    @property
    def fetcher(self) -> DataFetcher:
        """The fetcher of the running epoch.

        Raises:
            RuntimeError: no data was set up.
        """
        if self._data_fetcher is None:
            raise RuntimeError("the loop has no data yet")
        return self._data_fetcher


# ------------------------------------------------------------------ processes and signals


class FixedDataParallelStrategy(ModelParallelStrategy):
    """ModelParallelStrategy that shards over all processes; ``data_parallel_size="auto"`` shards
    over nodes only.

    Public hook: ``data_parallel_size=N`` of the constructor, where N is not known before the
        processes have met.
    """

    def _setup_distributed(self) -> None:
        super()._setup_distributed()
        self._data_parallel_size = self.world_size


class ScriptLauncher(_SubprocessScriptLauncher):
    """Launcher that starts this script again for each further process; public hook: none."""

    def start_processes(self) -> None:
        """Start the other processes of this node, into ``procs``."""
        self._call_children_scripts()

    def limit_threads(self) -> None:
        """Divide the cores among the processes of this node, unless OMP_NUM_THREADS is set."""
        _set_num_threads_if_needed(num_processes=self.num_processes)


def replace_launcher(trainer: Trainer, launcher: type[ScriptLauncher]) -> None:
    """Replace the launcher of a trainer that starts processes itself; public hook: a Strategy
    subclass for each.
    """
    old = trainer.strategy.launcher
    if isinstance(old, _SubprocessScriptLauncher):
        trainer.strategy._launcher = launcher(
            old.cluster_environment, old.num_processes, old.num_nodes
        )


class SignalConnector(_SignalConnector):
    """Signal handlers of a trainer, in place during a fit; public hook: none, callbacks come after
    the handlers.
    """

    def listen(
        self, numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]
    ) -> None:
        """Set the handler for signals; the trainer restores the old ones at its end."""
        self._original_handlers = {number: signal.getsignal(number) for number in numbers}
        for number in self._original_handlers:
            signal.signal(number, handler)


def replace_signals(trainer: Trainer, signals: SignalConnector) -> None:
    """Replace a trainer's signal handlers; public hook: none."""
    trainer._signal_connector = signals
