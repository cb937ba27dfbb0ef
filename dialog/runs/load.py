"""Load a run folder as a `Run`, without running any code of the folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.build import build_model
from dialog.config.components import lookup
from dialog.config.compose import group_files
from dialog.config.schema import SECTIONS, Recipe
from dialog.config.trust import NO_TRUST, Trust, check_importable, trust_of
from dialog.data.reading.files import sha256
from dialog.errors import UserError, section
from dialog.paths import recipe_name
from dialog.runs.check import check_search
from dialog.runs.folder import RECIPE, TOKENIZER, WEIGHTS, read_recipe, weights_remedy
from dialog.runs.run import Run
from dialog.training.checkpoints.manifest import MANIFEST, check_intact, read_manifest

if TYPE_CHECKING:
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.generation.responder import Likelihoods
    from dialog.models.seq2seq import Seq2Seq

log = logging.getLogger("dialog")
PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16", "int8": "float32"}
"""Type of the parameters for each precision."""


SAME_INPUT = ("context_turns", "silence", "normalise", "layout", "max_source", "reverse")
"""Keys of the section ``data`` in which the runs of an ensemble agree."""


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "float32",
    trust: bool | Trust = False,
    ablate: Sequence[str] = (),
) -> Run:
    """Load the recipe (with overrides), the tokenizer and the best weights of a run folder.

    Sets the process's malloc as training does, see `tune_process`.

    Args:
        folder: A run with at least one validation; it may still be training. Several runs of one
            tokenizer are an ensemble, whose probabilities are averaged; its recipe is that of the
            first.
        overrides: ``key=value`` lines over the run's recipe; those of ``generation`` are for the
            first run only. Its search may be chosen without the section: ``search=beam5``,
            ``temperature=0.7``.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        precision: "float32", "bfloat16" or "float16"; or "int8": float32, but generation multiplies
            by matrices of int8 with a scale for each row. Only on a CPU with VNNI.
        trust: Whether the recipe may import parts by dotted names, that is, run code.
        ablate: Attention heads to remove, such as ``decoder.layers.0.cross_attention.3``; see
            `remove_heads`.

    Raises:
        UserError: not a run folder, not validated yet, changed files, an unknown head, or a recipe
            that imports parts without ``trust``; no run, or several that read different input.
    """
    folders = [folder] if isinstance(folder, str | Path) else folder
    if not folders:
        raise UserError("no run folder; give one, or several for an ensemble")
    short, overrides = short_settings(overrides)
    reading = [
        override for override in overrides if not override.lstrip("~+").startswith("generation")
    ]
    runs = [
        load_one(
            Path(one),
            # a choice such as generation=tuned is that of the first run
            overrides if number == 0 else reading,
            short if number == 0 else {},
            device=device,
            precision=precision,
            trust=trust_of(trust),
            ablate=ablate,
        )
        for number, one in enumerate(folders)
    ]
    return ensemble(runs) if len(runs) > 1 else runs[0]


def ensemble(runs: Sequence[Run]) -> Run:
    """Return the ensemble of several runs.

    Raises:
        UserError: their tokenizers differ, or the input of their models.
    """
    from dialog.models.inference.ensemble import Ensemble

    first, *others = runs
    for run in others:
        if run.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise UserError(
                f"{run.folder}: its tokenizer is not that of {first.folder}; an ensemble needs one"
                " for all"
            )
        for key in SAME_INPUT:
            own, other = (getattr(one.recipe.data, key) for one in (run, first))
            if own != other:
                raise UserError(
                    f"{run.folder}: data.{key} is {own}, not {other} as in {first.folder}"
                )
    model = Ensemble([run.model for run in runs]).eval()
    return replace(first, model=model, others=tuple(run.folder for run in others))


def load_one(
    folder: Path,
    overrides: Sequence[str],
    short: Mapping[str, Any],
    *,
    device: str,
    precision: str,
    trust: Trust,
    ablate: Sequence[str],
) -> Run:
    """Load one run folder with short settings of its search; see `load`."""
    recipe = read_recipe(folder, overrides, trust=trust)
    if short:
        recipe = with_search(recipe, folder, short, trust)
    check_importable(recipe, str(folder))
    check_files(folder)

    import torch
    from safetensors.torch import load_model

    from dialog.models.attention.heads import remove_heads
    from dialog.training.optimization.allocator import tune_process

    check_search(recipe)
    tune_process()
    tokenizer, model = initial_model(folder, recipe)
    weights = sha256(folder / WEIGHTS)  # a run in training may replace them at any time
    try:
        load_model(model, str(folder / WEIGHTS))
    except Exception as error:  # safetensors raises its own type, torch RuntimeError
        raise UserError(
            f"{folder / WEIGHTS}: does not fit the recipe: {_one_line(error)}"
        ) from error
    lookup(PRECISIONS, precision, "precision")
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        model = model.to(device)
    except (AssertionError, RuntimeError) as error:  # torch raises either
        raise UserError(f"device {device}: {_one_line(error)}") from error
    remove_heads(model, ablate)
    return Run(
        folder,
        recipe_name(folder.resolve()),
        recipe,
        in_precision(model, precision),
        tokenizer,
        cache(partial(reverse_likelihoods, device=device, precision=precision, trust=trust)),
        weights=weights,
        precision=precision,
        ablated=tuple(sorted(set(ablate))),
        trust=trust,
    )


def short_settings(overrides: Sequence[str]) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Split overrides into short settings of the search and all others; see `split_short`."""
    keys = {override.partition("=")[0] for override in overrides}
    if not any(key.isidentifier() for key in keys - set(SECTIONS)):
        # the searches, and with them torch, are not needed
        return {}, overrides
    from dialog.generation.search_shorthand import split_short

    return split_short(overrides)


def with_search(recipe: Recipe, folder: Path, short: Mapping[str, Any], trust: Trust) -> Recipe:
    """Return the recipe of a run with short settings of its search."""
    from dialog.generation.search_shorthand import with_short_settings

    files = group_files(folder / RECIPE)["generation"]
    generation = with_short_settings(recipe.generation, files, short)
    return trust.allow(replace(recipe, generation=generation))


def load_initial(folder: Path, *, trust: Trust = NO_TRUST) -> Run:
    """Return a run with random weights, of a folder without trained ones: for what does not depend
    on the weights.
    """
    recipe = read_recipe(folder, trust=trust)
    check_importable(recipe, str(folder))
    tokenizer, model = initial_model(folder, recipe)
    return Run(
        folder,
        recipe_name(folder.resolve()),
        recipe,
        model,
        tokenizer,
        partial(reverse_likelihoods, device="cpu"),
    )


def initial_model(folder: Path, recipe: Recipe) -> tuple[Tokenizer, Seq2Seq]:
    """Return the tokenizer of a run folder, and the model of its recipe with random weights."""
    from dialog.data.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder / TOKENIZER)
    with section("model"):
        return tokenizer, build_model(recipe.model, len(tokenizer))


def reverse_likelihoods(folder: str, **options: Any) -> Likelihoods:
    """Load a run that predicts a turn from the next one; return its scores.

    Raises:
        UserError: the folder cannot be loaded, or its run predicts something else.
    """
    run = load(folder, **options)
    data = run.recipe.data
    if not data.reverse or data.context_turns != 1:
        raise UserError(
            f"{folder}: not a reverse model; train one with data.reverse=true data.context_turns=1"
        )
    return lambda pairs: [-nll for nll, _ in run.likelihoods(pairs)]


def with_precision(run: Run, precision: str) -> Run:
    """Return a run loaded in float32 with a copy of its model in another precision."""
    return replace(run, model=in_precision(deepcopy(run.model), precision), precision=precision)


def in_precision(model: Seq2Seq, precision: str) -> Seq2Seq:
    """Convert a model to a precision of `load`, in place; return it in evaluation mode.

    Raises:
        UserError: unknown precision, or int8 where it is not supported.
    """
    import torch

    model = model.to(getattr(torch, lookup(PRECISIONS, precision, "precision"))).eval()
    if precision == "int8":
        for member in model.members:
            check_int8(member)
    return model


def check_int8(model: Seq2Seq) -> None:
    """Check that a model generates in int8 on its device.

    Raises:
        UserError: another device than a CPU with VNNI, or a decoder or head without int8 products.
    """
    from dialog.models.inference import can_prepare, has_int8

    if not has_int8(next(model.parameters()).device.type):
        raise UserError("precision int8: needs a CPU with VNNI; choose float32 or bfloat16")
    if not can_prepare(model):
        raise UserError(
            "precision int8: supported for head vocabulary with decoder transformer, or a recurrent"
            " one with attention none, additive, dot, scaled_dot or bilinear; choose float32 or"
            " bfloat16"
        )


def check_files(folder: Path) -> None:
    """Check that tokenizer and weights exist and have not changed; log if the folder has no
    manifest.

    Raises:
        UserError: a file is missing or has changed.
    """
    if not (folder / TOKENIZER).is_file():
        raise UserError(f"{folder}: {TOKENIZER} is missing; restore it from a copy")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder}: {WEIGHTS} is missing; {weights_remedy(folder)}")
    if read_manifest(folder) is None:
        log.warning(
            "WARNING: %s: not verified, it has no %s (older versions wrote none)", folder, MANIFEST
        )
    check_intact(folder / TOKENIZER)
    check_intact(folder / WEIGHTS, weights_remedy(folder))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
