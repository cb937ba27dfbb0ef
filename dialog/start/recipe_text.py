"""The recipe of a user's data: an ordinary YAML file named after them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dialog.config.compose import parse_overrides
from dialog.config.yaml_layers import Layer, merge_layer, nest
from dialog.errors import UserError
from dialog.runs.folder import SUMMARY
from dialog.start.sizes import PATIENCE, Sizes
from dialog.start.survey import RULES, Survey

SWAPPED = ("model", "optimizer", "logger", "generation")
"""Groups whose choice the command line may change."""

UNSAFE = re.compile(r"[^\w-]+")
"""Characters of a file's name that do not belong in the name of a recipe."""
LONGEST_NAME = 60


def data_name(path: Path) -> str:
    """Return the name of a recipe for data: that of the file without suffixes."""
    stem = path.resolve().name.partition(".")[0]
    return UNSAFE.sub("_", stem).strip("_-")[:LONGEST_NAME] or "chats"


def recipe_values(
    component: Mapping[str, Any],
    path: Path,
    found: Survey,
    vocabulary: int,
    responder: str | None,
) -> dict[str, Any]:
    """Return a recipe before its sizes are chosen: corpus, examples and tokenizer."""
    data: dict[str, Any] = {
        "corpus": dict(component),
        "path": str(path.resolve()),
        "tokenizer": {"name": "byte_bpe", "vocabulary": vocabulary},
        "context_turns": RULES.context_turns,
    }
    if responder is not None:
        data["responder"] = responder
    if found.merges:
        data["merge_turns"] = True
    if found.counts["dropped dialogues: malformed"]:
        data["malformed"] = "drop"
    if found.max_dropped != 0.01:
        data["max_dropped"] = found.max_dropped
    return {
        "defaults": {
            "model": "lstm_bahdanau", "optimizer": "adamw_inverse_sqrt", "logger": "none",
        },
        "data": data,
    }  # fmt: skip


def with_sizes(values: Mapping[str, Any], sizes: Sizes, minutes: float) -> dict[str, Any]:
    """Return the recipe with sizes, epochs and time limit."""
    return {
        **values,
        "data": {**values["data"], "batch_tokens": sizes.batch_tokens},
        **sizes.sections(),
        "trainer": {"max_epochs": sizes.epochs, "max_time": {"minutes": minutes}},
        "checkpoint": {"patience": PATIENCE},
        "preflight": False,
    }


def with_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the recipe with the settings of the command line, as `compose` applies them.

    Raises:
        UserError: not key=value.
    """
    swaps, settings = parse_overrides(overrides, SWAPPED)
    kept = {key: value for key, value in deepcopy(dict(values)).items() if key not in swaps}
    merged = {**kept, "defaults": {**values["defaults"], **swaps}}
    for key, value in settings:
        if key.startswith("~"):
            raise UserError(f"override {key}: start removes no keys; edit the recipe")
        merge_layer(merged, {}, Layer(nest(key, value), {}))
    return merged


def of_the_data(override: str) -> bool:
    """Return whether an override says how the data are read: as what, and whose replies."""
    key = override.partition("=")[0]
    return key in ("data.corpus", "data.responder") or key.startswith("data.corpus.")


def given_arguments(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of the corpus among the settings of the command line."""
    _, settings = parse_overrides(overrides, SWAPPED)
    prefix = "data.corpus."
    given = {key.removeprefix(prefix): value for key, value in settings if key.startswith(prefix)}
    whole: object = next((value for key, value in settings if key == "data.corpus"), {})
    return {**(whole if isinstance(whole, dict) else {}), **given}


def given_responder(overrides: Sequence[str]) -> tuple[bool, str | None]:
    """Return whether the command line sets whose replies are learned, and the speaker (None: all
    speakers).
    """
    _, settings = parse_overrides(overrides, SWAPPED)
    given = dict(settings).get("data.responder")
    return "data.responder" in dict(settings), None if given is None else str(given)


def recipe_yaml(values: Mapping[str, Any], command: str, reasons: Sequence[str]) -> str:
    """Return the text of a recipe: how it was made, why it has these sizes, and its values."""
    comments = [f"# Written by: {command}", "# Sizes:", *(f"#   {reason}" for reason in reasons)]
    return "\n".join([*comments, OmegaConf.to_yaml(OmegaConf.create(dict(values)))])


def check_texts(component: Mapping[str, Any], path: Path) -> None:
    """Check that the names of columns and of the data can be written into a recipe.

    Raises:
        UserError: one contains `${`, which a recipe would resolve.
    """
    for text in (str(path.resolve()), *component.values()):
        if isinstance(text, str) and "${" in text:
            raise UserError(f"{path}: a recipe cannot name {text!r}, which contains ${{; rename it")


def check_free(file: Path) -> None:
    """Check that no recipe has this name.

    Raises:
        UserError: the file exists; names its latest finished run.
    """
    if not file.exists():
        return
    quoted = shlex.quote(str(file))
    advice = f"train it with python -m dialog train {quoted}"
    finished = sorted(Path("runs", file.stem).glob(f"*/{SUMMARY}"))
    if finished:
        run = shlex.quote(str(finished[-1].parent))
        advice = f"talk to its run with python -m dialog chat {run}, {advice}"
    raise UserError(f"{file} exists; {advice}, choose another --name, or remove it")
