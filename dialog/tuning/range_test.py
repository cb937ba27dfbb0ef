"""A learning rate and a size of batches for a recipe, found in a scratch folder that is gone afterwards."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
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
    from dialog.training.module import DialogModule
    from dialog.training.optimization.tuner import BatchTrial, RangeTest
    from dialog.training.trainer import Trainer


class Workbench(NamedTuple):
    """The parts of a training that is only tried."""

    trainer: Trainer
    module: DialogModule
    data: DialogDataModule


@contextmanager
def workbench(recipe: Recipe, **changes: Any) -> Iterator[Workbench]:  # noqa: ANN401 - the trainer's settings
    """A recipe's parts, without loggers and validations.

    Raises:
        UserError: the recipe cannot be trained, or not in one process.
    """
    quiet: dict[str, Any] = {"enable_progress_bar": False, "check_val_every_n_epoch": None, "val_check_interval": 10**9}
    settings = replace(recipe.trainer, max_epochs=-1, strategy="auto", **quiet, **changes)
    recipe = with_precision(replace(recipe, trainer=settings))
    if check_recipe(recipe) > 1:
        raise UserError("trainer.devices: one process is enough to try; set it to 1")
    from dialog.data.store.store import Store
    from dialog.training.checkpoints.initial_weights import check_initial, initialise

    check_initial(recipe.model)
    prepared = prepare_data(recipe, quiet=False)
    tokenizer = Store(prepared, "train").tokenizer
    module = build_module(recipe, len(tokenizer), tokenizer)
    initialise(recipe.model, module.model, build_model, tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = build_trainer(recipe, Path(scratch), [])
        yield Workbench(trainer, module, build_data(recipe, prepared, tokenizer))


def range_test(recipe: Recipe, *, lowest: float, highest: float, steps: int) -> RangeTest:
    """The loss of a recipe while its learning rate rises; its schedule and its limits are left out."""
    from dialog.training.optimization.tuner import try_rates

    with workbench(recipe, max_steps=steps) as bench:
        return try_rates(*bench, lowest=lowest, highest=highest, steps=steps)


def steepest(test: RangeTest) -> float | None:
    """The learning rate at which the loss falls fastest by log lr, before its lowest point; none where it never falls.

    The loss is a mean over the neighbours within a twentieth of the steps. A slope by lr itself, as Lightning's
    suggestion has it, is steepest where rates are tiny and close.
    """
    size = max(1, len(test.losses) // 20)
    near = [test.losses[max(0, at - size) : at + size + 1] for at in range(len(test.losses))]
    smooth = [sum(losses) / len(losses) for losses in near]
    bottom = min(range(len(smooth)), key=lambda at: smooth[at] if math.isfinite(smooth[at]) else math.inf)
    rise = [math.log(rate) for rate in test.rates]
    falls = [(smooth[at] - smooth[at - 1]) / (rise[at] - rise[at - 1]) for at in range(1, bottom + 1)]
    if not falls or min(falls) >= 0:
        return None
    return test.rates[1 + falls.index(min(falls))]


def sizes_test(recipe: Recipe, *, first: int, most: int) -> Sequence[BatchTrial]:
    """Sizes of batches that a recipe's training has memory for, and how fast it is with each."""
    from dialog.training.optimization.tuner import try_batch_tokens

    with workbench(recipe, max_steps=-1, accumulate_grad_batches=1) as bench:
        return try_batch_tokens(*bench, first=first, most=most)
