"""Train a recipe into a new run folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.atomic import write_json
from dialog.build import build_data, build_model, build_module, build_trainer, check_recipe, with_precision
from dialog.config.compose import Composed
from dialog.config.schema import Recipe
from dialog.paths import fresh_folder
from dialog.runs.folder import Trained, finish, opened
from dialog.runs.prepare import example_ids, prepare_data

if TYPE_CHECKING:
    from dialog.training.trainer import Callback


def train(
    composed: Composed, output: Path | None = None, *, quiet: bool = False, callbacks: Sequence[Callback] = ()
) -> Trained:
    """Train a recipe into a new run folder that is complete in itself, watched by callbacks.

    Where several processes train, the first one writes and the others end here.

    Raises:
        UserError: before the folder is made, when the recipe, its corpus or a component cannot be served.
        SystemExit: at the end of every process but the first.
    """
    from dialog.training.checkpoints.initial_weights import check_initial_weights
    from dialog.training.optimization.precision import warn_emulated

    recipe = with_precision(composed.recipe)
    warn_emulated(recipe.trainer.precision, recipe.trainer.accelerator)
    check_recipe(recipe)
    check_initial_weights(recipe.model)
    data = prepare_data(recipe, quiet=quiet)
    return run_training(recipe, data, output or fresh_folder("runs", composed.name), callbacks)


def run_training(
    recipe: Recipe, data: Path, folder: Path, callbacks: Sequence[Callback] = (), *, resumed: bool = False
) -> Trained:
    """Put the parts of a training together, run it, and leave what it has found."""
    from dialog.data.store.store import Store
    from dialog.training import loggers, trainer
    from dialog.training.callbacks.attention import AttentionRecorder
    from dialog.training.callbacks.guard import with_example_ids
    from dialog.training.callbacks.memory import Memory
    from dialog.training.checkpoints.checkpoint_io import newest
    from dialog.training.checkpoints.initial_weights import load_initial_weights

    store = Store(data, "validation")
    module = build_module(recipe, len(store.tokenizer), store.tokenizer)
    start = newest(folder / "checkpoints") if resumed else None
    found = {} if start else load_initial_weights(recipe.model, module.model, build_model, store.tokenizer)
    batches = build_data(recipe, data, store.tokenizer)
    own = loggers.build_loggers(recipe.logger, folder)
    memory, names = Memory(preflight=recipe.preflight), partial(example_ids, recipe)
    lightning = build_trainer(recipe, folder, own, [AttentionRecorder(folder, store), memory, *callbacks])
    with opened(folder, recipe, store, first=lightning.is_global_zero, resumed=resumed):
        if found and lightning.is_global_zero:
            write_json(folder / "initial.json", found)
        loggers.describe(own, asdict(recipe))
        with (
            trainer.removed_on_error(folder, lightning) if not resumed else nullcontext(),
            memory.explained(names, remedy=less_memory(recipe)),
            with_example_ids(names),
        ):
            try:
                trainer.fit(lightning, module, batches, start)
            finally:
                loggers.close(own)
        if not lightning.is_global_zero:
            raise SystemExit(0)
        model = build_model(recipe.model, len(store.tokenizer))
        return finish(folder, lightning, model, seconds=loggers.seconds(own), target_tokens=module.target_tokens)


def less_memory(recipe: Recipe) -> str:
    """What a run that lacks memory can set."""
    now, times = recipe.data.batch_tokens, recipe.trainer.accumulate_grad_batches
    smaller = f"lower data.batch_tokens ({now}) and raise trainer.accumulate_grad_batches ({times}) by as much"
    parts = (recipe.model.encoder, recipe.model.decoder)
    if recipe.model.activation_checkpointing or all(part.get("name") != "transformer" for part in parts):
        return smaller
    return f"set model.activation_checkpointing=true, or {smaller}"
