"""Learning-rate range test and batch-size test of a recipe, in a temporary folder."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dialog.build import build_data, build_model, build_module, build_trainer, with_precision
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.runs.check import check_recipe
from dialog.runs.prepare import prepare_data

if TYPE_CHECKING:
    from dialog.data.datamodule import DialogDataModule
    from dialog.training.callbacks.tuner import BatchTrial, RangeTest
    from dialog.training.module import DialogModule
    from dialog.training.trainer import Trainer


class Workbench(NamedTuple):
    """Objects of a short trial training."""

    trainer: Trainer
    module: DialogModule
    data: DialogDataModule


@contextmanager
def workbench(recipe: Recipe, **changes: Any) -> Iterator[Workbench]:
    """Build the objects of a recipe, without loggers and validations.

    Raises:
        UserError: the recipe cannot be trained, or not in one process.
        KeyboardInterrupt, SystemExit: after a signal, see `stopping`.
    """
    from dialog.signals import stopping

    with stopping("tuning has no result, run it again"):
        yield from _workbench(recipe, changes)


def _workbench(recipe: Recipe, changes: Mapping[str, Any]) -> Iterator[Workbench]:
    quiet: dict[str, Any] = {
        "enable_progress_bar": False,
        "check_val_every_n_epoch": None,
        "val_check_interval": 10**9,
    }
    settings = replace(recipe.trainer, max_epochs=-1, strategy="auto", **quiet, **changes)
    recipe = with_precision(replace(recipe, trainer=settings))
    if check_recipe(recipe) > 1:
        raise UserError("trainer.devices: tuning runs in one process; set it to 1")
    from dialog.data.store.store import Store
    from dialog.training.checkpoints.initial_weights import (
        check_initial_weights,
        load_initial_weights,
    )

    check_initial_weights(recipe.model)
    prepared = prepare_data(recipe, quiet=False)
    tokenizer = Store(prepared, "train").tokenizer
    module = build_module(recipe, len(tokenizer), tokenizer)
    load_initial_weights(recipe.model, module.model, build_model, tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build_trainer(recipe, Path(scratch), [])
        try:
            yield Workbench(trainer, module, build_data(recipe, prepared, tokenizer))
        except SystemExit as error:
            if trainer.interrupted:  # SIGINT, on which Lightning's Tuner exits with 1
                raise KeyboardInterrupt from error
            raise


def range_test(recipe: Recipe, *, lowest: float, highest: float, steps: int) -> RangeTest:
    """Record the loss while the learning rate rises with every step; the recipe's schedule is not
    used.
    """
    from dialog.training.callbacks.tuner import try_rates

    with workbench(recipe, max_steps=steps) as bench:
        return try_rates(*bench, lowest=lowest, highest=highest, steps=steps)


def steepest(test: RangeTest) -> float | None:
    """Return the learning rate at which d loss / d log lr is lowest, before the loss minimum; None
    if it never falls.

    The loss is averaged over neighbours within a twentieth of the steps. The derivative by lr
    itself, as in Lightning's suggestion, is always steepest at the smallest rates.
    """
    radius = max(1, len(test.losses) // 20)
    near = [test.losses[max(0, at - radius) : at + radius + 1] for at in range(len(test.losses))]
    smooth = [sum(losses) / len(losses) for losses in near]
    bottom = min(
        range(len(smooth)), key=lambda at: smooth[at] if math.isfinite(smooth[at]) else math.inf
    )
    logs = [math.log(rate) for rate in test.rates]
    gradients = [
        (smooth[at] - smooth[at - 1]) / (logs[at] - logs[at - 1]) for at in range(1, bottom + 1)
    ]
    if not gradients or min(gradients) >= 0:
        return None
    return test.rates[1 + gradients.index(min(gradients))]


def sizes_test(recipe: Recipe, *, first: int, most: int) -> Sequence[BatchTrial]:
    """Try batch sizes from ``first`` up to ``most`` tokens until memory runs out; return speed and
    memory of each.
    """
    from dialog.training.callbacks.tuner import try_batch_tokens

    with workbench(recipe, max_steps=-1, accumulate_grad_batches=1) as bench:
        return try_batch_tokens(*bench, first=first, most=most)
