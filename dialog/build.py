"""Build the objects of a recipe: corpus, network, data module, LightningModule and Trainer.

This is the only module that imports every part; heavy packages are imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.components import accepts, build, name_and_arguments, resolve
from dialog.config.schema import ModelConfig, Recipe
from dialog.data.corpora import CORPORA, Corpus
from dialog.data.corpora.readable import ReadableCorpus, read_errors_as_user_errors
from dialog.data.filters import FILTERS
from dialog.data.reading.downloads import corpus_folder, provide
from dialog.errors import UserError, section
from dialog.paths import cache

if TYPE_CHECKING:
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.examples import Rules
    from dialog.data.preparation.shards import Job
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.module import DialogModule
    from dialog.training.trainer import Callback, Logger, Trainer

# ------------------------------------------------------------------ network


def build_model(model: ModelConfig, vocabulary: int) -> Seq2Seq:
    """The network of a recipe's ``model`` section, for a vocabulary of so many tokens."""
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
        dropout=model.dropout,
        activation_checkpointing=model.activation_checkpointing,
    )


def build_module(recipe: Recipe, vocabulary: int, tokenizer: Tokenizer | None = None) -> DialogModule:
    """The LightningModule of a recipe, its weights drawn from the recipe's seed.

    Without the run's tokenizer it can be looked at, but an objective that reads text cannot be trained.
    """
    from dialog.data.tokenizers.tokenizer import PAD
    from dialog.training.checkpoints.initial_weights import freeze
    from dialog.training.module import DialogModule
    from dialog.training.trainer import seed

    seed(recipe.seed)
    model = build_model(recipe.model, vocabulary)
    freeze(model, recipe.model.frozen)
    taught = {key: getattr(recipe.model, key) for key in ("loss", "teacher_forcing", "objectives")}
    return DialogModule(model, padding=PAD, optimizer=recipe.optimizer, tokenizer=tokenizer, **taught)


# ------------------------------------------------------------------ training


def check_recipe(recipe: Recipe) -> int:
    """Refuse a recipe of which no run can be made, before anything is read or written: its network has no storage.

    Returns:
        How many processes would train it.

    Raises:
        UserError: with the section that cannot be built.
    """
    import torch

    from dialog.data.tokenizers.tokenizer import SMALLEST_VOCABULARY
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
    return build_trainer(with_precision(recipe), Path(), []).world_size


def with_precision(recipe: Recipe) -> Recipe:
    """The recipe with the precision that fits this hardware in place of auto."""
    from dialog.training.optimization.precision import fitting

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
    from dialog.training.checkpoints.monitors import monitor

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


def build_data(recipe: Recipe, data: Path, tokenizer: Tokenizer) -> DialogDataModule:
    """The LightningDataModule of a recipe, over its prepared data."""
    from dialog.data.datamodule import DialogDataModule
    from dialog.data.tokenizers.dropout import BpeDropout

    with section("data.bpe_dropout"):
        retokenise = BpeDropout(tokenizer, recipe.data.bpe_dropout) if recipe.data.bpe_dropout else None
    return DialogDataModule(data, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed, retokenise=retokenise)


# ------------------------------------------------------------------ runs


# ------------------------------------------------------------------ evaluation


def build_corpus(recipe: Recipe, *, read: bool = True) -> Corpus:
    """The corpus of a recipe, from ``data.path``, else ``$DIALOG_DATA/<corpus>``, else its official source.

    The source is downloaded, where it has not been yet, if the corpus is to be read.
    """
    with read_errors_as_user_errors(), section("data.corpus"):
        return ReadableCorpus(_member(recipe.data.corpus, recipe.data.path, read=read))


def _member(component: Mapping[str, Any], path: str | None = None, *, read: bool) -> Corpus:
    """A corpus, or one of a mixture's, which has its own ``path``."""
    name, arguments = name_and_arguments(component)
    downloads = cache() / "downloads"
    given = arguments.pop("path", path)
    if given and not accepts(CORPORA, component, "path"):
        raise UserError(f"{name} reads no folder: leave the path {given} out, or give it to a corpus that does")
    if given and "\0" in str(given):
        raise UserError(f"the path {str(given)!r} holds a NUL, which no file's name does")
    folder = corpus_folder(name, given, downloads)
    member = partial(_member, read=read)
    corpus = build(CORPORA, {"name": name, **arguments}, path=folder, member=member)
    if read:
        provide(name, folder, downloads)
    return corpus


def check_data(recipe: Recipe) -> None:
    """Refuse a corpus, a tokenizer or a filter that there is not, or that takes other arguments."""
    from dialog.data.tokenizers import TOKENIZERS

    with section("data.corpus"):
        resolve(CORPORA, recipe.data.corpus, path=None, member=None)
    build_rules(recipe)
    with section("data.tokenizer"):
        resolve(TOKENIZERS, recipe.data.tokenizer, texts=())
    with section("data.filters"):
        for component in recipe.data.filters:
            resolve(FILTERS, component)


def build_rules(recipe: Recipe) -> Rules:
    """How the dialogues of a recipe's corpus become examples."""
    from dialog.data.examples import Rules

    return Rules(**{each.name: getattr(recipe.data, each.name) for each in fields(Rules)})


def build_job(recipe: Recipe) -> Job:
    """What is prepared for a recipe."""
    from dialog.data.preparation.shards import Job
    from dialog.data.preparation.writer import Limits

    data = recipe.data
    check_data(recipe)
    limits = Limits(data.max_source, data.max_target)
    rules, corpus = build_rules(recipe), build_corpus(recipe)
    return Job(corpus, data.corpus, data.tokenizer, rules, limits, data.max_dropped, tuple(data.filters))
