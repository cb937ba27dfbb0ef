"""Training of a recipe, step by step, with its own data, network, module and trainer."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from dialog.build import build_data, build_module, build_trainer, with_precision
from dialog.config.schema import Recipe
from dialog.data.store.store import Store
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq, count_parameters
from dialog.profiling import memory
from dialog.profiling.bound import gemm_peak
from dialog.profiling.flops import training_flops
from dialog.runs.prepare import prepare_data
from dialog.training import loggers, trainer
from dialog.training.callbacks.stopwatch import Stopwatch, TimedStep
from dialog.training.module import DialogModule
from dialog.training.optimization.precision import device_of


@dataclass(frozen=True)
class Measured:
    """What training took, and the network and data that it leaves behind."""

    figures: dict[str, Any]
    module: DialogModule
    store: Store
    device: str


def measure_training(recipe: Recipe, *, steps: int, warm_up: int, imported: float) -> Measured:
    """Train for `warm_up` steps and then for `steps` that are measured, without validation, checkpoints or W&B.

    Args:
        recipe: Trained in one process.
        steps: Optimizer steps that count.
        warm_up: Steps before them.
        imported: When the imports were done, by `time.perf_counter`.

    Raises:
        UserError: the recipe is for several processes.
    """
    prepared = time.perf_counter()
    folder = prepare_data(recipe, quiet=False)
    preparing = time.perf_counter() - prepared
    memory.forget_peak()
    recipe = short(recipe, warm_up + steps)
    device = device_of(recipe.trainer.accelerator)
    store = Store(folder, "train")
    module = build_module(recipe, len(store.tokenizer), store.tokenizer)
    watch = Stopwatch()
    with TemporaryDirectory() as runs:
        run = Path(runs) / "run"
        run.mkdir()
        own = loggers.build_loggers(recipe.logger, run)
        lightning = build_trainer(recipe, run, own, [watch])
        if lightning.world_size > 1:
            raise UserError("benchmark measures one process; set trainer.devices=1 trainer.num_nodes=1")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*could not find the monitored key")  # there is no validation
            trainer.fit(lightning, module, build_data(recipe, folder, store.tokenizer))
    peaks = {"memory_bytes": memory.peak(), "cuda_memory_bytes": memory.cuda_peak() if device == "cuda" else None}
    taken = watch.steps()
    if len(taken) <= warm_up:
        raise UserError(f"training ended after {len(taken)} steps, within the warm-up; give a smaller --warm-up")
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
    return Measured(figures, module, store, device)


def short(recipe: Recipe, steps: int) -> Recipe:
    """The recipe for so many steps of training and nothing else."""
    whole = with_precision(recipe)
    alone = replace(
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
    return replace(whole, trainer=alone, checkpoint=checkpoint, logger={"name": "none"})


def rates(steps: Sequence[TimedStep], model: Seq2Seq) -> dict[str, Any]:
    """Tokens, seconds and FLOPs: medians over the steps, whose lengths differ, shares of the whole, and each step."""
    flops = cache(lambda source, target: training_flops(model, source, target))
    each = [described(step, flops) for step in steps]
    seconds = [step["seconds"] for step in each]
    targets = [step["target_tokens"] for step in each]
    sums = {key: sum(step[key] for step in each) for key in each[0]}
    return {
        "steps": len(steps),
        "target_tokens_per_second": median(map(_rate, targets, seconds)),
        "tokens_per_second": median((one["source_tokens"] + one["target_tokens"]) / one["seconds"] for one in each),
        "target_tokens_per_second_overall": sums["target_tokens"] / sums["seconds"],
        "target_tokens_per_step": sums["target_tokens"] / len(steps),
        "rows_per_step": sums["rows"] / len(steps),
        "step_seconds": median(seconds),
        "step_quartiles": quantiles(seconds, n=4, method="inclusive")[::2] if len(steps) > 1 else seconds * 2,
        "padding": 1 - (sums["source_tokens"] + sums["target_tokens"]) / sums["places"],
        "loading": sum(step.loading for step in steps) / sums["seconds"],
        "flops_per_second": median(one["flops"] / one["seconds"] for one in each),
        "each_step": each,
    }


def described(step: TimedStep, flops: Callable[[int, int], int]) -> dict[str, float]:
    """A step in figures; the examples of a batch, of like lengths, cost what one of their mean lengths does."""
    works = [
        each.rows * flops(round(each.source_tokens / each.rows), round(each.target_tokens / each.rows))
        for each in step.batches
    ]
    return {
        "seconds": step.seconds,
        "rows": sum(each.rows for each in step.batches),
        "source_tokens": step.source_tokens,
        "target_tokens": step.target_tokens,
        "places": sum(each.positions for each in step.batches),
        "flops": sum(works),
    }


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds
