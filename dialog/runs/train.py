"""Train a recipe into a new run folder, or resume a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import write_json
from dialog.build import build_data, build_model, build_module, build_trainer, for_this_hardware
from dialog.config.compose import Composed
from dialog.config.schema import Recipe, to_dict
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust, check_importable
from dialog.errors import DivergedError, UserError
from dialog.paths import check_links, fresh_folder
from dialog.ranks import is_first_process
from dialog.runs.check import check_recipe
from dialog.runs.folder import (
    CHANGEABLE,
    CHECKPOINTS,
    END_KEYS,
    INITIAL,
    Trained,
    finish,
    model_files,
    opened,
    read_recipe,
    read_summary,
)
from dialog.runs.prepare import example_ids, gold_alignments, prepare_data
from dialog.runs.weights import complete_finished, rebuild_weights, weights_writer

if TYPE_CHECKING:
    from dialog.training.trainer import Callback


@dataclass(frozen=True)
class PartOf:
    """The place of a run in a comparison or sweep: its name there, the group of runs, and what to
    do after a signal.
    """

    run_name: str
    group: str | None = None
    advice: str | None = None


def train(
    composed: Composed,
    output: Path | None = None,
    *,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    part_of: PartOf | None = None,
) -> Trained:
    """Train a recipe into a new, self-contained run folder: ``output``, or
    runs/<recipe>/<time>-<random>.

    In distributed training only rank 0 writes and returns. `part_of` is set for a run of a
    comparison or sweep.

    Raises:
        UserError: before the folder is created: an invalid recipe, or a corpus that cannot be read.
        SystemExit: at the end of every rank but 0.
    """
    from dialog.training.checkpoints.initial_weights import check_initial_weights
    from dialog.training.optimization.precision import warn_emulated

    recipe = for_this_hardware(composed.recipe)
    warn_emulated(recipe.trainer.precision, recipe.trainer.accelerator)
    check_recipe(recipe)
    check_initial_weights(recipe.model)
    part_of = part_of or PartOf(composed.name)
    recipe = with_labels(recipe, part_of)
    data = prepare_data(recipe, quiet=quiet)
    folder = output or fresh_folder("runs", composed.name)
    return run_training(recipe, data, folder, callbacks, advice=part_of.advice)


def with_labels(recipe: Recipe, part_of: PartOf) -> Recipe:
    """Return the recipe whose logger has the name and group of its run, and decoder and corpus as
    tags.
    """
    from dialog.training.loggers import labelled

    tags = [
        component["name"]
        for component in (recipe.model.decoder, recipe.data.corpus)
        if "name" in component
    ]
    return replace(
        recipe,
        logger=labelled(recipe.logger, run_name=part_of.run_name, group=part_of.group, tags=tags),
    )


def run_training(
    recipe: Recipe,
    data: Path,
    folder: Path,
    callbacks: Sequence[Callback] = (),
    *,
    resumed: bool = False,
    advice: str | None = None,
) -> Trained:
    """Build the objects of a recipe, fit, and write the results; shared by `train` and `resume`."""
    from dialog.data.store.store import Store
    from dialog.training import loggers, trainer
    from dialog.training.callbacks.attention_recorder import AttentionRecorder
    from dialog.training.callbacks.memory import Memory, reset_peak
    from dialog.training.callbacks.replies import Replies
    from dialog.training.checkpoints.checkpoint_io import newest
    from dialog.training.checkpoints.initial_weights import load_initial_weights
    from dialog.training.guard import with_example_ids

    reset_peak()
    store = Store(data, "validation")
    module = build_module(recipe, len(store.tokenizer), store.tokenizer)
    if recipe.trainer.precision == "64-true":
        module.double()  # Lightning does so after it has loaded a checkpoint, rounded to float32
    checkpoint = newest(folder / CHECKPOINTS) if resumed else None
    initial = (
        {}
        if checkpoint
        else load_initial_weights(recipe.model, module.model, build_model, store.tokenizer)
    )
    batches = build_data(recipe, data, store.tokenizer)
    run_loggers = loggers.build_loggers(recipe.logger, folder)
    memory = Memory(preflight=recipe.preflight)
    names = partial(example_ids, recipe)
    recorder = AttentionRecorder(
        folder,
        store,
        self_attention=bool(recipe.logger.get("self_attention")),
        gold=partial(gold_alignments, recipe, store),
    )
    write = weights_writer(folder, recipe, store.tokenizer, module.model)
    own = [recorder, Replies(store, recipe.generation), memory]
    lightning = build_trainer(recipe, folder, run_loggers, [*own, *callbacks], write)
    with opened(folder, recipe, store, first=lightning.is_global_zero, resumed=resumed):
        if resumed and lightning.is_global_zero:
            rebuild_weights(folder, recipe, store.tokenizer)
        if initial and lightning.is_global_zero:
            write_json(folder / INITIAL, initial)
        loggers.describe(run_loggers, asdict(recipe))
        with (
            trainer.removed_on_error(folder, lightning) if not resumed else nullcontext(),
            memory.explained(names, remedy=memory_advice(recipe)),
            with_example_ids(names),
            trainer.ready_to_fit(lightning, advice=advice),
        ):
            try:
                lightning.fit(module, batches, ckpt_path=checkpoint, weights_only=True)
                loggers.log_model(run_loggers, model_files(folder))
            except DivergedError as error:
                loggers.alert(run_loggers, f"{folder.name} diverged", str(error))
                raise
            finally:
                loggers.close(run_loggers)
        if not lightning.is_global_zero:
            raise SystemExit(0)
        return finish(
            folder,
            lightning,
            seconds=loggers.seconds(run_loggers),
            target_tokens=module.target_tokens,
        )


def memory_advice(recipe: Recipe) -> str:
    """Return the settings that an out-of-memory error suggests."""
    tokens = recipe.data.batch_tokens
    batches = recipe.trainer.accumulate_grad_batches
    smaller = (
        f"lower data.batch_tokens ({tokens}) and raise trainer.accumulate_grad_batches ({batches})"
        " by as much"
    )
    parts = (recipe.model.encoder, recipe.model.decoder)
    if recipe.model.activation_checkpointing or all(
        part.get("name") != "transformer" for part in parts
    ):
        return smaller
    return f"set model.activation_checkpointing=true, or {smaller}"


log = logging.getLogger("dialog")

ACCUMULATE = "trainer.accumulate_grad_batches"
"""Key that may change within a run only as the number of processes does, inversely."""


def resume(
    folder: Path,
    overrides: Sequence[str] = (),
    *,
    trust: Trust = NO_TRUST,
    quiet: bool = False,
    advice: str | None = None,
) -> Trained:
    """Resume a run at its newest complete checkpoint, or from the beginning if it has none.

    Only `CHANGEABLE` keys may be overridden. Prepared data that are missing are prepared again;
    missing or damaged weights are rebuilt from best.ckpt. `advice` tells what to do after a signal,
    by default how to resume.

    Raises:
        UserError: not a run folder, locked by another process, or its corpus has changed.
        SystemExit: at the end of every rank but 0.
    """
    recipe, extended = resumed_recipe(folder, overrides, trust)
    check_importable(recipe, str(folder))
    if trust != FULL_TRUST:
        check_links(folder)
    trained = None if extended else read_summary(folder)
    if trained is not None:
        if not is_first_process():
            raise SystemExit(0)
        complete_finished(folder, recipe)
        log.info(
            "%s has finished at step %s; to train longer, raise trainer.max_steps or max_epochs",
            folder,
            trained.steps,
        )
        return trained
    check_recipe(recipe)
    data = prepare_data(recipe, quiet=quiet)
    return run_training(recipe, data, folder, resumed=True, advice=advice)


def check_same_checkpoints(before: Recipe, after: Recipe) -> None:
    """Check that checkpoints keep their meaning: what best.ckpt is best in, and which weights they
    hold.
    """
    for name in ("monitor", "averaging"):
        if getattr(before.checkpoint, name) != getattr(after.checkpoint, name):
            raise UserError(
                f"--resume: checkpoint.{name} cannot change within a run; start a new run for it"
            )


def with_same_steps(before: Recipe, after: Recipe) -> Recipe:
    """Return the recipe to resume with; settings that count batches of a process count the same
    steps as before.

    A step has N = devices x num_nodes x accumulate_grad_batches batches. If devices is ``auto``,
    the data loader checks N.

    Raises:
        UserError: N changes, or a setting counts batches that depend on the number of processes.
    """
    old = before.trainer
    new = after.trainer
    if all(isinstance(trainer.devices, int) and trainer.devices > 0 for trainer in (old, new)):
        processes = new.devices * new.num_nodes
        size = old.devices * old.num_nodes * old.accumulate_grad_batches
        if processes * new.accumulate_grad_batches != size:
            raise UserError(
                f"--resume: {ACCUMULATE} cannot change within a run, nor the number of processes,"
                f" unless their product stays {size}; here it is {new.accumulate_grad_batches} x"
                f" {processes}"
            )
    if old.accumulate_grad_batches == new.accumulate_grad_batches:
        return after
    counts: dict[str, Any] = {}
    for name in ("val_check_interval", "limit_train_batches"):
        count = getattr(old, name)
        if isinstance(count, int):
            counts[name], rest = divmod(
                count * new.accumulate_grad_batches, old.accumulate_grad_batches
            )
            if rest:
                raise UserError(
                    f"--resume: trainer.{name}={count} batches of {old.accumulate_grad_batches} per"
                    f" step cannot be counted with {ACCUMULATE}={new.accumulate_grad_batches}"
                )
    for name in ("limit_train_batches", "limit_val_batches", "overfit_batches"):
        limit = getattr(old, name)
        if name not in counts and limit and not (isinstance(limit, float) and limit == 1):
            raise UserError(
                f"--resume: trainer.{name}={limit} selects other examples with another number of"
                f" processes; resume with {ACCUMULATE}={old.accumulate_grad_batches}"
            )
    return replace(after, trainer=replace(new, **counts))


def resumed_recipe(folder: Path, overrides: Sequence[str], trust: Trust) -> tuple[Recipe, bool]:
    """Return the recipe of the run to resume, and whether overrides change when its training ends.

    Raises:
        UserError: not a run folder, or an override of a key that must not change within a run.
    """
    keys = [override.partition("=")[0].removeprefix("~") for override in overrides]
    for key in keys:
        if key != ACCUMULATE and not any(
            key == free or key.startswith(f"{free}.") for free in CHANGEABLE
        ):
            raise UserError(
                f"--resume: {key} cannot change within a run, only {', '.join(CHANGEABLE)}; start a"
                " new run for it"
            )
    before = read_recipe(folder)
    recipe = read_recipe(folder, overrides, trust=trust)
    check_same_checkpoints(before, recipe)
    recipe = with_same_steps(before, recipe)
    old = to_dict(before)
    new = to_dict(recipe)
    ends = [key.split(".") for key in END_KEYS]
    return recipe, any(old[section][name] != new[section][name] for section, name in ends)
