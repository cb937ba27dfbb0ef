"""Load a run folder as a `Run`, without running any code of the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dialog.build import build_model, check_search
from dialog.config.components import lookup
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.errors import UserError, section
from dialog.paths import name_of
from dialog.runs.run import Run


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

    from dialog.data.tokenizers.tokenizer import Tokenizer

    check_search(recipe)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    with section("model"):
        model = build_model(recipe.model, len(tokenizer))
    try:
        load_model(model, str(folder / "model.safetensors"))
    except Exception as error:  # safetensors raises its own type, torch RuntimeError
        raise UserError(f"{folder / 'model.safetensors'}: does not fit the recipe: {_line(error)}") from error
    precisions = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    dtype = lookup(precisions, precision, "precision")
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        model = model.to(device, dtype)
    except (AssertionError, RuntimeError) as error:  # torch raises either
        raise UserError(f"device {device}: {_line(error)}") from error
    return Run(folder, name_of(folder.parent), recipe, model.eval(), tokenizer)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def refuse_imports(recipe: Recipe, folder: Path) -> None:
    """A recipe that comes with a run folder names no code to import."""
    for dotted in imported_names(asdict(recipe)):
        raise UserError(f"{folder}: its recipe imports {dotted!r}; load it with --trust if you trust its author")


def imported_names(tree: object) -> list[str]:
    """Every component's name that has a dot in it."""
    if isinstance(tree, dict):
        own = [tree["name"]] if isinstance(tree.get("name"), str) and "." in tree["name"] else []
        return own + [found for value in tree.values() for found in imported_names(value)]
    if isinstance(tree, list):
        return [found for value in tree for found in imported_names(value)]
    return []
