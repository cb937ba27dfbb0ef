"""What Lightning's Trainer and the loggers add to a step of training, against a bare loop over the same DialogModule.

    python benchmarks/overhead.py RECIPE [KEY=VALUE ...] [--steps N] [--rounds N] [--wandb]

In turn, N times over: a bare loop (loader, `training_step`, backward, clipping, fused optimizer), the recipe's Trainer
with its callbacks and the record, and with --wandb the same with Weights & Biases offline; each trains the same batches
from the same weights. Times are of this process on the CPU, of all threads: they hold on a machine that others use too.
Where there is a GPU they are wall-clock times of the machine, and it should have nothing else to do.
Columns: median milliseconds a step; medians (quartiles) over the rounds of the Trainer's ratio to the bare loop, and of
wandb's to the Trainer's.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from dialog import DialogDataModule, DialogModule
from dialog.build import build_module, build_trainer, with_precision
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data
from dialog.training.loggers import build_loggers, close
from dialog.training.sums import StepSums
from dialog.training.trainer import quiet

WARM = 5
"""Steps of each round that are not measured."""


class Clock(Callback):
    """The time of each batch's beginning."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int) -> None:
        """Look at the clock."""
        self.times.append(now())


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wandb", action="store_true")
    given = parser.parse_args()
    quiet()
    for name in ("lightning.pytorch", "dialog"):
        logging.getLogger(name).setLevel(logging.ERROR)
    limits = [f"trainer.max_steps={given.steps}", "trainer.max_epochs=null", "trainer.limit_val_batches=1"]
    limits += [f"trainer.val_check_interval={given.steps}", "trainer.check_val_every_n_epoch=null"]
    recipe = with_precision(compose(given.recipe, [*given.overrides, *limits]).recipe)
    data = prepare_data(recipe, quiet=False)
    kinds = {"bare": bare, "trainer": trained, **({"wandb": logged} if given.wandb else {})}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(given.rounds):
        for name, measure in kinds.items():
            found[name].append(measure(recipe, data, given.steps))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {given.rounds} rounds of {given.steps} steps")
    columns = ["recipe", *(f"{name} ms" for name in kinds), "trainer / bare", *(["wandb / trainer"] * given.wandb)]
    ratios = [ratio(found["trainer"], found["bare"])]
    ratios += [ratio(found["wandb"], found["trainer"])] if given.wandb else []
    values = [given.recipe, *(f"{1000 * statistics.median(each):.2f}" for each in found.values()), *ratios]
    for row in (columns, ["---"] * len(columns), values):
        print(f"| {' | '.join(row)} |")


def ratio(ones: list[float], others: list[float]) -> str:
    """The median of ratios within rounds, and the quartiles around it."""
    each = [one / other for one, other in zip(ones, others, strict=True)]
    low, middle, high = statistics.quantiles(each, n=4) if len(each) > 1 else each * 3
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def bare(recipe: Recipe, data: Path, steps: int) -> float:
    """Seconds of a step of the shortest loop that trains the same."""
    module = built(recipe, data)
    if torch.cuda.is_available() and recipe.trainer.accelerator != "cpu":
        module.cuda()
    parts = module.configure_optimizers()
    optimizer, scheduler = parts["optimizer"], parts["lr_scheduler"]["scheduler"]
    loader = module_data(recipe, data).train_dataloader()
    half = recipe.trainer.precision == "bf16-mixed"
    clip = recipe.trainer.gradient_clip_val or float("inf")
    times = []
    for index, batch in enumerate(islice(loader, steps)):
        times.append(now())
        batch = batch._replace(**{name: getattr(batch, name).to(module.device) for name in ("source", "target")})
        with torch.autocast(module.device.type, torch.bfloat16, enabled=half):
            loss = module.training_step(batch, index)
        optimizer.zero_grad()
        loss.backward()
        module.step_sums = StepSums()
        torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        scheduler.step()
    return mean(times)


def trained(recipe: Recipe, data: Path, steps: int) -> float:
    """Seconds of a step of the recipe's own training."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        loggers = build_loggers(recipe.logger, Path(folder))
        build_trainer(recipe, Path(folder), loggers, [clock]).fit(built(recipe, data), module_data(recipe, data))
        close(loggers)
    return mean(clock.times)


def logged(recipe: Recipe, data: Path, steps: int) -> float:
    """The same with Weights & Biases offline."""
    return trained(replace(recipe, logger={"name": "wandb", "mode": "offline"}), data, steps)


def built(recipe: Recipe, data: Path) -> DialogModule:
    """The same weights each time."""
    tokenizer = Store(data, "train").tokenizer
    return build_module(recipe, len(tokenizer), tokenizer)


def module_data(recipe: Recipe, data: Path) -> DialogDataModule:
    """The same batches each time."""
    return DialogDataModule(data, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed)


def mean(times: list[float]) -> float:
    """Seconds from one batch's beginning to the next."""
    return (times[-1] - times[WARM]) / (len(times) - 1 - WARM)


def now() -> float:
    """The clock: a GPU's work is on no CPU's."""
    if torch.cuda.is_available():
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()
