"""Validate a recipe before anything is read, downloaded or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dialog.build import build_corpus, build_module, build_rules, build_trainer, for_this_hardware
from dialog.config.components import ArgumentError, resolve
from dialog.config.schema import Recipe
from dialog.data.corpora import CORPORA
from dialog.data.filters import FILTERS
from dialog.errors import UserError, section

READ_ROLES = ("hierarchical", "reverse")
"""Encoders and objectives that find the turns of a source by their roles."""


def check_recipe(recipe: Recipe) -> int:
    """Validate a recipe without touching the disk; the network is built on the meta device.

    Returns:
        Number of processes that would train it.

    Raises:
        UserError: with the section or the key that is invalid.
    """
    import torch

    from dialog.data.tokenizers.tokenizer import SMALLEST_VOCABULARY
    from dialog.metrics.family import check_metrics
    from dialog.training.loggers import LOGGERS
    from dialog.training.trainer import quiet, seed

    quiet()
    with argument_keys(recipe):
        build_corpus(recipe, read=False)
        check_data(recipe)
        check_layout(recipe)
        check_search(recipe)
        with section("metrics"):
            check_metrics(recipe.metrics)
        with section("logger"):
            resolve(LOGGERS, recipe.logger, folder=Path())
        with section("seed"):
            seed(recipe.seed)
        with section("model"), torch.device("meta"):
            module = build_module(recipe, SMALLEST_VOCABULARY)
        with section("optimizer"):
            module.configure_optimizers()
        return build_trainer(for_this_hardware(recipe), Path(), []).world_size


def check_data(recipe: Recipe) -> None:
    """Check names and arguments of corpus, tokenizer and filters, and the rules for examples."""
    from dialog.data.tokenizers import TOKENIZERS

    with argument_keys(recipe):
        with section("data.corpus"):
            resolve(CORPORA, recipe.data.corpus, path=None, member=None)
        build_rules(recipe)
        with section("data.tokenizer"):
            resolve(TOKENIZERS, recipe.data.tokenizer, texts=())
        with section("data.filters"):
            for component in recipe.data.filters:
                resolve(FILTERS, component)


def check_layout(recipe: Recipe) -> None:
    """Check that no part reads the roles of turns that ``data.layout`` leaves out."""
    if recipe.data.layout == "roles":
        return
    used = [
        recipe.model.encoder.get("name"),
        *(objective.get("name") for objective in recipe.model.objectives),
    ]
    for name in used:
        if name in READ_ROLES:
            raise UserError(f"data.layout: {name} needs the roles of turns; set data.layout=roles")


def check_search(recipe: Recipe) -> None:
    """Check that the recipe's search can be built with its constraints."""
    from dialog.generation.build import build_search

    with section("generation"):
        build_search(recipe.generation.search, recipe.generation)


@contextmanager
def argument_keys(recipe: Recipe) -> Iterator[None]:
    """Prefix the error of an argument with its key in the recipe, such as
    ``model.encoder.layers``.
    """
    try:
        yield
    except UserError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ArgumentError):
            cause = cause.__cause__
        key = cause and next(places_of(asdict(recipe), cause), None)
        if key is None:
            raise
        raise UserError(f"{key}: {cause}") from error


def places_of(tree: object, error: ArgumentError, key: str = "") -> Iterator[str]:
    """Yield the keys of a recipe at which an argument with this error stands."""
    if isinstance(tree, Mapping):
        value = tree.get(error.argument, error)  # the error is no value of a recipe
        if tree.get("name") == error.part and (type(value), value) == (
            type(error.value),
            error.value,
        ):
            yield f"{key}.{error.argument}"
        for name, inner in tree.items():
            yield from places_of(inner, error, f"{key}.{name}" if key else name)
    elif isinstance(tree, list | tuple):
        for place, inner in enumerate(tree):
            yield from places_of(inner, error, f"{key}[{place}]")
