"""Build the objects of a recipe: corpus, model, data module, LightningModule and Trainer.

This is the only module that imports every part; heavy packages are imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.components import accepts, build, name_and_arguments
from dialog.config.schema import ModelConfig, Recipe
from dialog.data.corpora import CORPORA, Corpus
from dialog.data.corpora.corpus import ReadableCorpus, read_errors_as_user_errors
from dialog.data.reading.downloads import corpus_folder, ensure_downloaded
from dialog.errors import UserError, section
from dialog.paths import cache

if TYPE_CHECKING:
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.examples import ExampleRules
    from dialog.data.preparation.job import Job
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.module import DialogModule
    from dialog.training.trainer import Callback, Logger, Trainer

# ------------------------------------------------------------------ data


def build_corpus(recipe: Recipe, *, read: bool = True) -> Corpus:
    """Build the corpus from ``data.path``, else ``$DIALOG_DATA/<corpus>``, else its official
    source.

    With ``read``, a missing corpus is downloaded; without, nothing is read or downloaded.
    """
    with read_errors_as_user_errors(), section("data.corpus"):
        return _build_member(recipe.data.corpus, recipe.data.path, read=read)


def _build_member(component: Mapping[str, Any], path: str | None = None, *, read: bool) -> Corpus:
    """Build a corpus, or a member of a mixture; a member has its own ``path`` among its
    arguments.
    """
    name, arguments = name_and_arguments(component)
    downloads = cache() / "downloads"
    path = arguments.pop("path", path)
    if path and not accepts(CORPORA, component, "path"):
        raise UserError(
            f"{name} reads no folder; remove the path {path}, or choose a corpus that reads one"
        )
    if path and "\0" in str(path):
        raise UserError(f"the path {str(path)!r} contains a NUL character; remove it")
    folder = corpus_folder(name, path, downloads)
    member = partial(_build_member, read=read)
    corpus = build(CORPORA, {"name": name, **arguments}, path=folder, member=member)
    if read:
        ensure_downloaded(name, folder, downloads)
    return ReadableCorpus(corpus)


def build_rules(recipe: Recipe) -> ExampleRules:
    """Build the rules by which dialogues become examples."""
    from dialog.data.examples import ExampleRules

    return ExampleRules(
        **{rule.name: getattr(recipe.data, rule.name) for rule in fields(ExampleRules)}
    )


def build_job(recipe: Recipe) -> Job:
    """Build the preparation job: all that determines the tokenizer and the token stores."""
    from dialog.data.preparation.job import Job, Limits

    data = recipe.data
    limits = Limits(data.max_source, data.max_target)
    rules = build_rules(recipe)
    corpus = build_corpus(recipe)
    return Job(
        corpus,
        data.corpus,
        data.tokenizer,
        rules,
        limits,
        data.max_dropped,
        tuple(data.filters),
        data.layout,
    )


def build_data(recipe: Recipe, data: Path, tokenizer: Tokenizer) -> DialogDataModule:
    """Build the LightningDataModule over a folder of prepared data."""
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.tokenizers.bpe_dropout import BpeDropout

    with section("data.bpe_dropout"):
        retokenise = (
            BpeDropout(tokenizer, recipe.data.bpe_dropout) if recipe.data.bpe_dropout else None
        )
    with section("data.grouping"):
        return DialogDataModule(
            data,
            batch_tokens=recipe.data.batch_tokens,
            batch_examples=recipe.data.batch_examples,
            grouping=recipe.data.grouping,
            seed=recipe.seed,
            retokenise=retokenise,
            # a run that is older than the key has none
            static_shapes=recipe.data.static_shapes is True,
        )


# ------------------------------------------------------------------ model


def build_model(model: ModelConfig, vocabulary: int) -> Seq2Seq:
    """Build the network for a vocabulary of ``vocabulary`` tokens."""
    from dialog.data.tokenizers.tokenizer import OTHER, PAD, SELF
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
        scale_embeddings=model.scale_embeddings,
        dropout=model.dropout,
        activation_checkpointing=model.activation_checkpointing,
    )


def build_module(
    recipe: Recipe, vocabulary: int, tokenizer: Tokenizer | None = None
) -> DialogModule:
    """Build the LightningModule, with weights initialised from the recipe's seed.

    Objectives that read text need the tokenizer to train; without it the module can only be
    inspected.
    """
    from dialog.data.tokenizers.tokenizer import PAD
    from dialog.training.checkpoints.initial_weights import freeze
    from dialog.training.module import DialogModule
    from dialog.training.trainer import seed

    seed(recipe.seed)
    model = build_model(recipe.model, vocabulary)
    freeze(model, recipe.model.frozen)
    objective = {
        key: getattr(recipe.model, key) for key in ("loss", "teacher_forcing", "objectives")
    }
    constraints = {
        name: value for name, value in asdict(recipe.generation).items() if name != "search"
    }
    search = {**constraints, **recipe.generation.search}
    return DialogModule(
        model,
        padding=PAD,
        optimizer=recipe.optimizer,
        search=search,
        tokenizer=tokenizer,
        graphs=recipe.data.static_shapes is True
        if recipe.trainer.graphs == "auto"
        else recipe.trainer.graphs is True,
        compiled=recipe.trainer.compile,
        **objective,
    )


# ------------------------------------------------------------------ training


def build_trainer(
    recipe: Recipe,
    folder: Path,
    loggers: list[Logger],
    callbacks: Sequence[Callback] = (),
    on_best: Callable[[dict[str, Any]], None] | None = None,
) -> Trainer:
    """Build the ``lightning.Trainer`` that writes to a run folder; ``on_best`` gets the content of
    each best.ckpt.
    """
    from dialog.training import trainer
    from dialog.training.callbacks.averaging import build_averaging
    from dialog.training.checkpoints.best_and_last import monitor_named

    with section("checkpoint.monitor"):
        monitored = monitor_named(recipe.checkpoint.monitor)
    if recipe.checkpoint.averaging is not None:
        with section("checkpoint.averaging"):
            # last: other callbacks see the weights that were validated
            callbacks = [*callbacks, build_averaging(recipe.checkpoint.averaging)]
    with section("trainer"):
        return trainer.build_trainer(
            asdict(recipe.trainer),
            folder=folder,
            loggers=loggers,
            seed=recipe.seed,
            every_n_steps=recipe.checkpoint.every_n_steps,
            patience=recipe.checkpoint.patience,
            monitor=monitored,
            callbacks=callbacks,
            on_best=on_best,
        )


def for_this_hardware(recipe: Recipe) -> Recipe:
    """Return the recipe with what fits this hardware in place of ``auto`` in ``trainer.precision``
    and ``data.static_shapes``: both change results, so a run records them.

    Raises:
        UserError: an unknown value of either.
    """
    from dialog.training.optimization.precision import device_of, fitting

    precision = fitting(recipe.trainer.precision, recipe.trainer.accelerator)
    static_shapes = recipe.data.static_shapes
    if static_shapes == "auto":
        static_shapes = device_of(recipe.trainer.accelerator) == "cuda"
    if not isinstance(static_shapes, bool):
        raise UserError(f"data.static_shapes: must be auto, true or false, not {static_shapes!r}")
    if recipe.trainer.graphs not in ("auto", True, False):
        raise UserError(
            f"trainer.graphs: must be auto, true or false, not {recipe.trainer.graphs!r}"
        )
    if recipe.trainer.compile and recipe.trainer.graphs is True:
        raise UserError("trainer.compile replaces trainer.graphs; set one of the two to false")
    return replace(
        recipe,
        data=replace(recipe.data, static_shapes=static_shapes),
        trainer=replace(recipe.trainer, precision=precision),
    )
