"""The only room that knows everyone: a recipe goes in, objects come out; a run folder is loaded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.components import lookup, resolve
from dialog.corpus import build_corpus, build_rules, check_data, example_ids, prepare_data
from dialog.errors import UserError, section
from dialog.folders import fresh_folder, is_first_process, name_of, write_json
from dialog.recipe import Composed, Model, Recipe, compose
from dialog.run import Run
from dialog.run_folder import Trained, continued, finish, opened, outcome, refuse_imports

if TYPE_CHECKING:
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.tokenizer import Tokenizer
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.module import DialogModule
    from dialog.training.trainer import Callback, Logger, Trainer

log = logging.getLogger("dialog")

# ------------------------------------------------------------------ network


def build_model(model: Model, vocabulary: int) -> Seq2Seq:
    """The network of a recipe's ``model`` section, for a vocabulary of so many tokens."""
    from dialog.data.tokenizer import OTHER, PAD, SELF
    from dialog.models.seq2seq import Seq2Seq

    return Seq2Seq(
        vocabulary,
        padding=PAD,
        embedding_size=model.embedding_size,
        encoder=model.encoder,
        decoder=model.decoder,
        head=model.head,
        turn_tokens=(OTHER, SELF),
        tie_embeddings=model.tie_embeddings,
        dropout=model.dropout,
        activation_checkpointing=model.activation_checkpointing,
    )


def build_module(recipe: Recipe, vocabulary: int, tokenizer: Tokenizer | None = None) -> DialogModule:
    """The LightningModule of a recipe, its weights drawn from the recipe's seed.

    Without the run's tokenizer it can be looked at, but an objective that reads text cannot be trained.
    """
    from dialog.data.tokenizer import PAD
    from dialog.training.initial import freeze
    from dialog.training.module import DialogModule
    from dialog.training.trainer import seed

    seed(recipe.seed)
    model = build_model(recipe.model, vocabulary)
    freeze(model, recipe.model.frozen)
    taught = {key: getattr(recipe.model, key) for key in ("loss", "teacher_forcing", "objectives")}
    return DialogModule(model, padding=PAD, optimizer=recipe.optimizer, tokenizer=tokenizer, **taught)


# ------------------------------------------------------------------ training


def check(recipe: Recipe) -> int:
    """Refuse a recipe of which no run can be made, before anything is read or written: its network has no storage.

    Returns:
        How many processes would train it.

    Raises:
        UserError: with the section that cannot be built.
    """
    import torch

    from dialog.data.tokenizer import SMALLEST_VOCABULARY
    from dialog.training.loggers import LOGGERS
    from dialog.training.trainer import quiet, seed

    quiet()
    build_corpus(recipe, read=False)
    check_data(recipe)
    check_search(recipe)
    with section("logger"):
        resolve(LOGGERS, recipe.logger, folder=Path())
    with section("seed"):
        seed(recipe.seed)
    with section("model"), torch.device("meta"):
        module = build_module(recipe, SMALLEST_VOCABULARY)
    with section("optimizer"):
        module.configure_optimizers()
    return build_trainer(fitted(recipe), Path(), []).world_size


def fitted(recipe: Recipe) -> Recipe:
    """The recipe with the precision that fits this hardware in place of auto."""
    from dialog.training.precision import fitting

    precision = fitting(recipe.trainer.precision, recipe.trainer.accelerator)
    return replace(recipe, trainer=replace(recipe.trainer, precision=precision))


def check_search(recipe: Recipe) -> None:
    """Refuse a search that cannot be built."""
    from dialog.generation.responder import build_search

    limits = recipe.generation
    with section("generation"):
        build_search(limits.search, min_length=limits.min_length, max_length=limits.max_length)


def build_trainer(recipe: Recipe, folder: Path, loggers: list[Logger], callbacks: Sequence[Callback] = ()) -> Trainer:
    """The ``lightning.Trainer`` of a recipe, for a run folder."""
    from dialog.training import trainer
    from dialog.training.callbacks.averaging import averaging
    from dialog.training.monitors import monitor

    with section("checkpoint.monitor"):
        watched = monitor(recipe.checkpoint.monitor)
    with section("checkpoint.averaging"):
        averages = averaging(recipe.checkpoint.averaging)
    with section("trainer"):
        return trainer.build_trainer(
            asdict(recipe.trainer),
            folder=folder,
            loggers=loggers,
            seed=recipe.seed,
            every_n_steps=recipe.checkpoint.every_n_steps,
            patience=recipe.checkpoint.patience,
            monitor=watched,
            callbacks=[*callbacks, *averages],  # what others see at a validation's end is what was validated
        )


def train(
    composed: Composed, output: Path | None = None, *, quiet: bool = False, callbacks: Sequence[Callback] = ()
) -> Trained:
    """Train a recipe into a new run folder that is complete in itself, watched by callbacks.

    Where several processes train, the first one writes and the others end here.

    Raises:
        UserError: before the folder is made, when the recipe, its corpus or a component cannot be served.
        SystemExit: at the end of every process but the first.
    """
    from dialog.training.initial import check_initial
    from dialog.training.precision import warn_emulated

    recipe = fitted(composed.recipe)
    warn_emulated(recipe.trainer.precision, recipe.trainer.accelerator)
    check(recipe)
    check_initial(recipe.model)
    data = prepare_data(recipe, quiet=quiet)
    return _train(recipe, data, output or fresh_folder("runs", composed.name), callbacks)


def resume(folder: Path, overrides: Sequence[str] = (), *, trust: bool = False, quiet: bool = False) -> Trained:
    """Go on with a run where its newest whole checkpoint is, or from the beginning where there is none yet.

    Of its recipe only what makes it no other run may be overridden. Prepared data that are gone are prepared again.

    Raises:
        UserError: not a run folder, one in which another process trains, or one whose corpus has changed.
        SystemExit: at the end of every process but the first.
    """
    recipe, longer = continued(folder, overrides)
    if not trust:
        refuse_imports(recipe, folder)
    trained = None if longer else outcome(folder)
    if trained is not None:
        if not is_first_process():
            raise SystemExit(0)
        log.info(
            "%s has ended, at step %s; to train longer, raise trainer.max_steps or max_epochs", folder, trained.steps
        )
        return trained
    check(recipe)
    data = prepare_data(recipe, quiet=quiet)
    return _train(recipe, data, folder, resumed=True)


def _train(
    recipe: Recipe, data: Path, folder: Path, callbacks: Sequence[Callback] = (), *, resumed: bool = False
) -> Trained:
    """Put the parts of a training together, run it, and leave what it has found."""
    from dialog.data.store import Store
    from dialog.training import loggers, trainer
    from dialog.training.callbacks.attention import AttentionRecorder
    from dialog.training.callbacks.guard import named
    from dialog.training.callbacks.memory import Memory
    from dialog.training.checkpoint_io import newest
    from dialog.training.initial import initialise

    store = Store(data, "validation")
    module = build_module(recipe, len(store.tokenizer), store.tokenizer)
    start = newest(folder / "checkpoints") if resumed else None
    found = {} if start else initialise(recipe.model, module.model, build_model, store.tokenizer)
    batches = build_batches(recipe, data, store.tokenizer)
    own = loggers.build_loggers(recipe.logger, folder)
    memory, names = Memory(preflight=recipe.preflight), partial(example_ids, recipe)
    lightning = build_trainer(recipe, folder, own, [AttentionRecorder(folder, store), memory, *callbacks])
    with opened(folder, recipe, store, first=lightning.is_global_zero, resumed=resumed):
        if found and lightning.is_global_zero:
            write_json(folder / "initial.json", found)
        loggers.describe(own, asdict(recipe))
        with (
            trainer.nothing_left(folder, lightning) if not resumed else nullcontext(),
            memory.explained(names, mend=less_memory(recipe)),
            named(names),
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


def build_batches(recipe: Recipe, data: Path, tokenizer: Tokenizer) -> DialogDataModule:
    """The LightningDataModule of a recipe, over its prepared data."""
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.tokenizers.dropout import BpeDropout

    with section("data.bpe_dropout"):
        retokenise = BpeDropout(tokenizer, recipe.data.bpe_dropout) if recipe.data.bpe_dropout else None
    return DialogDataModule(data, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed, retokenise=retokenise)


# ------------------------------------------------------------------ runs


def load(
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "float32",
    trust: bool = False,
) -> Run:
    """Load a run folder: its recipe (with overrides), tokenizer and best weights; no code of the folder is run.

    Raises:
        UserError: not a run folder, unfinished, damaged, or made of parts that a recipe imports (unless ``trust``).
    """
    folder = Path(folder)
    if not (folder / "recipe.yaml").is_file():
        raise UserError(f"{folder} is not a run folder: it has no recipe.yaml")
    for name in ("tokenizer.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: no {name}; has the training come to its end?")
    recipe = compose(str(folder / "recipe.yaml"), overrides).recipe
    if not trust:
        refuse_imports(recipe, folder)

    import torch
    from safetensors.torch import load_model

    from dialog.data.tokenizer import Tokenizer

    check_search(recipe)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    with section("model"):
        model = build_model(recipe.model, len(tokenizer))
    try:
        load_model(model, str(folder / "model.safetensors"))
    except Exception as error:  # safetensors raises its own type, torch RuntimeError
        raise UserError(f"{folder / 'model.safetensors'}: does not fit the recipe: {_line(error)}") from error
    precisions = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    dtype = lookup(precisions, precision)
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        model = model.to(device, dtype)
    except (AssertionError, RuntimeError) as error:  # torch raises either
        raise UserError(f"device {device}: {_line(error)}") from error
    return Run(folder, name_of(folder.parent), recipe, model.eval(), tokenizer)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


# ------------------------------------------------------------------ evaluation


def evaluate(run: Run, split: str, *, quiet: bool = False) -> dict[str, Any]:
    """Score and answer a split of the run's corpus into ``evaluation/<split>/``; the metrics.

    Where several processes are `joined` they share the examples; the first one writes and the others end here.

    Raises:
        SystemExit: at the end of every process but the first.
    """
    from collections import Counter

    from tqdm import tqdm

    from dialog.analysis.alignment import AlignmentCounts
    from dialog.data.examples import examples
    from dialog.evaluation.evaluate import Evaluation, Evaluator
    from dialog.training.ranks import gathered, rank, ranks

    data = run.recipe.data
    dialogues = build_corpus(run.recipe).dialogues(split)
    stream = examples(dialogues, build_rules(run.recipe), Counter())
    search = run.recipe.generation.search
    evaluator = Evaluator(run.responder, search, data.batch_tokens, rank=rank(), world=ranks(), gather=gathered)
    aligned, evaluation = AlignmentCounts(), Evaluation()
    folder = run.folder / "evaluation" / split
    bar = tqdm(desc=f"evaluating {split}", unit="example", disable=True if quiet or rank() else None, leave=False)
    with bar:
        answers = evaluator.answers(stream, aligned, bar.update)
        if rank():
            assert not list(answers)
            gathered(aligned)
            raise SystemExit(0)
        partial = evaluation.write(answers, folder)
    metrics = {**evaluation.metrics(split), **AlignmentCounts.total(gathered(aligned)).metrics()}
    partial.replace(folder / "responses.jsonl")
    write_json(folder / "metrics.json", metrics)
    return metrics


def with_seed(composed: Composed, seed: int) -> Composed:
    """The same recipe with another seed."""
    return replace(composed, recipe=replace(composed.recipe, seed=seed))
