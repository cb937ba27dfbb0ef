"""Speed of training, step by step, with the recipe's own data, model and trainer."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import truediv
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from dialog.analysis.flops import training_flops
from dialog.benchmark.bound import gemm_peak
from dialog.build import build_data, build_module, build_trainer, for_this_hardware
from dialog.config.schema import Recipe
from dialog.data.store.store import Store
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq, count_parameters
from dialog.runs.prepare import prepare_data
from dialog.training import loggers, trainer
from dialog.training.callbacks import memory
from dialog.training.callbacks.stopwatch import Stopwatch, TimedStep
from dialog.training.module import DialogModule
from dialog.training.optimization.precision import device_of


@dataclass(frozen=True)
class MeasuredTraining:
    """Figures of a training, with the module and the data that were used."""

    figures: dict[str, Any]
    module: DialogModule
    store: Store
    device: str


def measure_training(
    recipe: Recipe, *, steps: int, warm_up: int, imported: float
) -> MeasuredTraining:
    """Train for `warm_up` steps and measure the next `steps`, without validation, checkpoints and
    loggers.

    Args:
        recipe: Trained in one process.
        steps: Measured optimizer steps.
        warm_up: Steps that are not measured.
        imported: `time.perf_counter` after the imports.

    Raises:
        UserError: the recipe is for several processes.
    """
    prepared = time.perf_counter()
    folder = prepare_data(recipe, quiet=False)
    preparing = time.perf_counter() - prepared
    memory.reset_peak()
    recipe = shortened(recipe, warm_up + steps)
    device = device_of(recipe.trainer.accelerator)
    store = Store(folder, "train")
    module = build_module(recipe, len(store.tokenizer), store.tokenizer)
    watch = Stopwatch()
    with TemporaryDirectory() as runs:
        run = Path(runs) / "run"
        run.mkdir()
        lightning = build_trainer(recipe, run, loggers.build_loggers(recipe.logger, run), [watch])
        if lightning.world_size > 1:
            raise UserError(
                "benchmark runs in one process; set trainer.devices=1 trainer.num_nodes=1"
            )
        advice = "nothing is kept, run it again"
        with warnings.catch_warnings(), trainer.ready_to_fit(lightning, advice=advice):
            # because validation is off
            warnings.filterwarnings("ignore", message=".*could not find the monitored key")
            lightning.fit(module, build_data(recipe, folder, store.tokenizer))
    peaks = {
        "memory_bytes": memory.process_peak(),
        "cuda_memory_bytes": memory.cuda_peak() if device == "cuda" else None,
    }
    taken = watch.steps()
    if len(taken) <= warm_up:
        raise UserError(
            f"training ended after {len(taken)} steps, within the warm-up; give a smaller --warm-up"
        )
    bound = gemm_peak(recipe.trainer.precision, device)
    figures = {
        "precision": recipe.trainer.precision,
        "device": device,
        "parameters": count_parameters(module.model)["total"],
        "warm_up": warm_up,
        **rates(taken[warm_up:], copy.deepcopy(module.model).cpu().eval()),
        **peaks,
        "gemm_flops_per_second": bound,
        "first_step_seconds": watch.first - imported - preparing,
    }
    figures["share_of_bound"] = figures["flops_per_second"] / bound
    return MeasuredTraining(figures, module, store, device)


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe for `steps` steps of training in one process, without anything else."""
    whole = for_this_hardware(recipe)
    settings = replace(
        whole.trainer,
        max_steps=steps,
        max_epochs=-1,
        max_time=None,
        strategy="auto",
        limit_val_batches=0,
        val_check_interval=None,
        check_val_every_n_epoch=1,
        enable_progress_bar=False,
    )
    checkpoint = replace(whole.checkpoint, every_n_steps=None, patience=None)
    return replace(whole, trainer=settings, checkpoint=checkpoint, logger={"name": "none"})


def rates(steps: Sequence[TimedStep], model: Seq2Seq) -> dict[str, Any]:
    """Return tokens, seconds and FLOPs: medians over steps, fractions of the whole, and every
    step.
    """
    flops = cache(lambda source, target: training_flops(model, source, target))
    rows = [described(step, flops) for step in steps]
    seconds = [row["seconds"] for row in rows]
    targets = [row["target_tokens"] for row in rows]
    sums = {key: sum(row[key] for row in rows) for key in rows[0]}
    return {
        "steps": len(steps),
        "target_tokens_per_second": median(map(truediv, targets, seconds)),
        "tokens_per_second": median(
            (row["source_tokens"] + row["target_tokens"]) / row["seconds"] for row in rows
        ),
        "target_tokens_per_second_overall": sums["target_tokens"] / sums["seconds"],
        "target_tokens_per_step": sums["target_tokens"] / len(steps),
        "rows_per_step": sums["rows"] / len(steps),
        "step_seconds": median(seconds),
        "step_quartiles": quantiles(seconds, n=4, method="inclusive")[::2]
        if len(steps) > 1
        else seconds * 2,
        "padding": 1 - (sums["source_tokens"] + sums["target_tokens"]) / sums["places"],
        "loading": sum(step.loading for step in steps) / sums["seconds"],
        "flops_per_second": median(row["flops"] / row["seconds"] for row in rows),
        "each_step": rows,
    }


def described(step: TimedStep, flops: Callable[[int, int], int]) -> dict[str, float]:
    """Return the figures of a step; the FLOPs of a batch are estimated at the mean lengths of its
    examples.
    """
    works = [
        batch.rows
        * flops(round(batch.source_tokens / batch.rows), round(batch.target_tokens / batch.rows))
        for batch in step.batches
    ]
    return {
        "seconds": step.seconds,
        "rows": sum(batch.rows for batch in step.batches),
        "source_tokens": step.source_tokens,
        "target_tokens": step.target_tokens,
        "places": sum(batch.positions for batch in step.batches),
        "flops": sum(works),
    }
