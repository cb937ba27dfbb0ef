"""Measure the time that Lightning's Trainer and the loggers add to a training step, relative to a bare loop.

    python benchmarks/overhead.py RECIPE [KEY=VALUE ...] [--steps N] [--rounds N] [--wandb] [--attention]

N rounds in turn: a bare loop over the same DialogModule (loader, `training_step`, backward, clipping, fused optimizer),
the recipe's Trainer with its callbacks and metrics.jsonl, and with --wandb the same with Weights & Biases offline. Each
trains on the same batches from the same weights. Times are CPU times of all threads of this process, so other load
matters little; with a GPU they are wall-clock times and need an idle machine.
With --attention, the same time for recording attention at a validation (statistics, files; images, table and page in
Weights & Biases offline), and its ratio to the training time between two validations of the recipe.
Columns: median milliseconds per step; median (quartiles) over rounds of the ratios Trainer / bare loop and wandb /
Trainer.
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
from dialog.training.callbacks.attention.recorder import AttentionRecorder
from dialog.training.callbacks.attention.views import log_images, log_panel, log_table
from dialog.training.loggers import build_loggers, close
from dialog.training.loggers.wandb_tracker import WandbTracker
from dialog.training.sums import StepSums
from dialog.training.trainer import quiet

WARM = 5
"""Warm-up steps of each round."""


class Clock(Callback):
    """Record the time at the start of each batch."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int) -> None:
        """Record the time."""
        self.times.append(now())


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wandb", action="store_true")
    parser.add_argument("--attention", action="store_true")
    options = parser.parse_args()
    quiet()
    for name in ("lightning.pytorch", "dialog"):
        logging.getLogger(name).setLevel(logging.ERROR)
    limits = [f"trainer.max_steps={options.steps}", "trainer.max_epochs=null", "trainer.limit_val_batches=1"]
    limits += [f"trainer.val_check_interval={options.steps}", "trainer.check_val_every_n_epoch=null"]
    original = compose(options.recipe, options.overrides).recipe
    recipe = with_precision(compose(options.recipe, [*options.overrides, *limits]).recipe)
    data = prepare_data(recipe, quiet=False)
    kinds = {"bare": bare, "trainer": trained, **({"wandb": logged} if options.wandb else {})}
    results: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, measure in kinds.items():
            results[name].append(measure(recipe, data, options.steps))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {options.rounds} rounds of {options.steps} steps")
    columns = ["recipe", *(f"{name} ms" for name in kinds), "trainer / bare", *(["wandb / trainer"] * options.wandb)]
    ratios = [ratio(results["trainer"], results["bare"])]
    ratios += [ratio(results["wandb"], results["trainer"])] if options.wandb else []
    values = [options.recipe, *(f"{1000 * statistics.median(times):.2f}" for times in results.values()), *ratios]
    if options.attention:
        seconds, steps = attention(recipe, data), steps_between(original, data)
        columns += ["attention ms per validation", "steps between validations", "attention / training"]
        values += [
            f"{1000 * seconds:.0f}",
            f"{steps}",
            f"{seconds / steps / statistics.median(results['trainer']):.4f}",
        ]
    for row in (columns, ["---"] * len(columns), values):
        print(f"| {' | '.join(row)} |")


def ratio(ones: list[float], others: list[float]) -> str:
    """Format the median and quartiles of the ratios within rounds."""
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def bare(recipe: Recipe, data: Path, steps: int) -> float:
    """Return the seconds per step of the shortest loop that trains the same."""
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
    """Return the seconds per step of the recipe's own training."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        loggers = build_loggers(recipe.logger, Path(folder))
        build_trainer(recipe, Path(folder), loggers, [clock]).fit(built(recipe, data), module_data(recipe, data))
        close(loggers)
    return mean(clock.times)


def logged(recipe: Recipe, data: Path, steps: int) -> float:
    """Return the same with Weights & Biases offline."""
    return trained(replace(recipe, logger={"name": "wandb", "mode": "offline"}), data, steps)


def attention(recipe: Recipe, data: Path, validations: int = 8) -> float:
    """Return the mean seconds that maps and statistics of attention take at a validation."""
    module = built(recipe, data)
    if torch.cuda.is_available() and recipe.trainer.accelerator != "cpu":
        module.cuda()
    with tempfile.TemporaryDirectory() as folder:
        recorder = AttentionRecorder(Path(folder), Store(data, "validation"))
        tracker = WandbTracker(Path(folder), mode="offline")
        times = [now()]
        for step in range(validations + 1):
            recorder.curves(module)
            readings = recorder.write(module, step)
            for log in (log_images, log_table):
                log(tracker, readings, step)
            log_panel(tracker, recorder.folder, step)
            times.append(now())
        tracker.finalize("success")
    return (times[-1] - times[1]) / validations  # the first one loads fonts and starts wandb


def steps_between(recipe: Recipe, data: Path) -> int:
    """Return the number of batches between two validations."""
    batches = len(module_data(recipe, data).train_dataloader())
    interval = recipe.trainer.val_check_interval
    if isinstance(interval, int):
        return interval
    return round(batches * (interval or recipe.trainer.check_val_every_n_epoch or 1))


def built(recipe: Recipe, data: Path) -> DialogModule:
    """Build the module with the same weights each time."""
    tokenizer = Store(data, "train").tokenizer
    return build_module(recipe, len(tokenizer), tokenizer)


def module_data(recipe: Recipe, data: Path) -> DialogDataModule:
    """Build the data module, with the same batches each time."""
    return DialogDataModule(data, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed)


def mean(times: list[float]) -> float:
    """Return the mean seconds between batch starts, without the warm-up."""
    return (times[-1] - times[WARM]) / (len(times) - 1 - WARM)


def now() -> float:
    """Return wall-clock time with a GPU, else CPU time."""
    if torch.cuda.is_available():
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()
