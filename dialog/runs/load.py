"""Load a run folder as a `Run`, without running any code of the folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.build import build_model
from dialog.config.components import imported_names, lookup
from dialog.config.schema import Recipe
from dialog.errors import UserError, section
from dialog.paths import name_of
from dialog.runs.check import check_search
from dialog.runs.folder import TOKENIZER, WEIGHTS, read_recipe, weights_remedy
from dialog.runs.run import Run
from dialog.training.checkpoints.manifest import MANIFEST, check_intact, read_manifest

if TYPE_CHECKING:
    from dialog.models.seq2seq import Seq2Seq

log = logging.getLogger("dialog")
PRECISIONS = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16", "int8": "float32"}
"""Type of the parameters for each precision."""


def load(
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "float32",
    trust: bool = False,
    ablate: Sequence[str] = (),
) -> Run:
    """Load the recipe (with overrides), the tokenizer and the best weights of a run folder.

    Args:
        folder: A run with at least one validation; it may still be training.
        overrides: ``key=value`` lines over the run's recipe.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        precision: "float32", "bfloat16" or "float16"; or "int8": float32, but generation multiplies large matrices of
            decoder and head in int8, with a scale for each row of both factors. Only on a CPU with VNNI.
        trust: Whether the recipe may import parts by dotted names, that is, run code.
        ablate: Attention heads to remove, such as ``decoder.layers.0.cross_attention.3``; see `remove_heads`.

    Raises:
        UserError: not a run folder, not validated yet, changed files, an unknown head, or a recipe that imports parts
            without ``trust``.
    """
    folder = Path(folder)
    recipe = read_recipe(folder, overrides)
    if not trust:
        check_no_imports(recipe, folder)
    check_files(folder)

    import torch
    from safetensors.torch import load_model

    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.models.attention.heads import remove_heads

    check_search(recipe)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    with section("model"):
        model = build_model(recipe.model, len(tokenizer))
    try:
        load_model(model, str(folder / WEIGHTS))
    except Exception as error:  # safetensors raises its own type, torch RuntimeError
        raise UserError(f"{folder / WEIGHTS}: does not fit the recipe: {_one_line(error)}") from error
    dtype = getattr(torch, lookup(PRECISIONS, precision, "precision"))
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        model = model.to(device, dtype)
    except (AssertionError, RuntimeError) as error:  # torch raises either
        raise UserError(f"device {device}: {_one_line(error)}") from error
    remove_heads(model, ablate)
    if precision == "int8":
        check_int8(model.eval())
    return Run(
        folder, name_of(folder.parent), recipe, model.eval(), tokenizer, precision == "int8", tuple(sorted(set(ablate)))
    )


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
            "precision int8: supported for head vocabulary with decoder transformer, or lstm and gru with attention "
            "additive; choose float32 or bfloat16"
        )


def check_files(folder: Path) -> None:
    """Check that tokenizer and weights exist and have not changed; log if the folder has no manifest.

    Raises:
        UserError: a file is missing or has changed.
    """
    if not (folder / TOKENIZER).is_file():
        raise UserError(f"{folder}: {TOKENIZER} is missing; restore it from a copy")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder}: {WEIGHTS} is missing; {weights_remedy(folder)}")
    if read_manifest(folder) is None:
        log.warning("WARNING: %s: not verified, it has no %s (older versions wrote none)", folder, MANIFEST)
    check_intact(folder / TOKENIZER)
    check_intact(folder / WEIGHTS, weights_remedy(folder))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def check_no_imports(recipe: Recipe, folder: Path) -> None:
    """Check that the recipe of a run folder names no code to import."""
    for dotted in imported_names(asdict(recipe)):
        raise UserError(f"{folder}: its recipe imports {dotted!r}; load it with --trust if you trust its author")
