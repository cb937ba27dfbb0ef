"""Compose a recipe: schema defaults < groups < the recipe's own lines < the command line.

Files are those of the package, and those of the project that a recipe belongs to.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from dialog.config.components import hint
from dialog.config.schema import MINIMUM, NONZERO, SECTIONS, Recipe, to_yaml
from dialog.config.trust import Trust, trust_of
from dialog.config.yaml_layers import (
    COMMAND_LINE,
    Layer,
    display_path,
    first_line,
    invalid_value,
    leaves,
    merge_layer,
    nest,
    parse_value,
    place_of,
    read_yaml,
    remove_key,
)
from dialog.errors import UserError

log = logging.getLogger("dialog")

PROJECT_MARKS = (".git", "pyproject.toml")
"""Entries of a project's top folder."""


def shipped_folder(kind: str) -> Path:
    """Return the folder of the package named ``kind`` ("configs", "recipes", "sweeps")."""
    package = Path(str(files("dialog")))
    installed = package / "_assets" / kind
    return installed if installed.is_dir() else package.parent / kind


def config_folders(recipe: Path) -> list[Path]:
    """Return the folders ``configs`` that complete a recipe: those of its project, nearest first,
    then the package's.

    The project ends at the nearest folder with an entry of `PROJECT_MARKS`; without one, at the
    folder that contains ``recipes``, or at the working folder, if the recipe is below it. Folders
    of other owners than the user and the recipe's owner are left out: what somebody has put into a
    shared temporary folder is no part of the recipe.
    """
    recipe = recipe.resolve()
    owners = {os.geteuid(), recipe.stat().st_uid} if recipe.exists() else {os.geteuid()}
    above = [folder / "configs" for folder in project_folders(recipe)]
    own = [folder for folder in above if folder.is_dir() and folder.stat().st_uid in owners]
    return [*own, shipped_folder("configs")]


def project_folders(recipe: Path) -> list[Path]:
    """Return the folder of a recipe and those above it, up to the top folder of its project."""
    parents = list(recipe.parents)
    marked = [
        folder for folder in parents if any((folder / mark).exists() for mark in PROJECT_MARKS)
    ]
    above_recipes = [folder.parent for folder in parents if folder.name == "recipes"]
    working = [folder for folder in parents if folder == Path.cwd()]
    top = next(iter([*marked, *above_recipes, *working]), parents[0])
    return parents[: parents.index(top) + 1]


@dataclass(frozen=True)
class Composed:
    """A recipe with its name, and the place that each value came from by dotted key.

    ``dropped`` has the recipe's own settings that went with a group that the command line swapped,
    and that have another value now: they are easily missed.
    """

    name: str
    recipe: Recipe
    origin: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    def yaml(self) -> str:
        """Return the whole recipe as YAML that can be run unchanged."""
        return to_yaml(self.recipe)

    def warn_of_dropped(self) -> None:
        """Name the recipe's own settings that a swapped group dropped."""
        if self.dropped:
            log.warning(
                "%s: the swapped group drops the recipe's own %s; repeat on the command line what"
                " is to stay",
                self.name,
                ", ".join(self.dropped),
            )


# ------------------------------------------------------------------ files


def shipped_recipes() -> dict[str, Path]:
    """Map the names of the recipes that ship with the package to their files."""
    root = shipped_folder("recipes")
    return {
        path.relative_to(root).with_suffix("").as_posix(): path
        for path in sorted(root.rglob("*.yaml"))
    }


CORPUS = "data.corpus.name"
UNSAFE = re.compile(r"[^\w,=+-]+")
"""Characters of a file's name that do not belong in the name of a recipe."""
DATA_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".parquet", ".zip")
"""Suffixes of files of dialogues."""


def find_recipe(name: str) -> Path:
    """Return the file of a recipe: a path to YAML, or a name as ``dialog recipes`` prints it."""
    path = Path(name)
    shipped = {} if is_path(name) else shipped_recipes()
    start = f"python -m dialog start {shlex.quote(name)}"
    if path.is_dir() and name not in shipped:
        inside = ", ".join(str(file) for file in sorted(path.glob("*.yaml")))
        advice = f"recipes in it: {inside}" if inside else f"if it holds chats: {start}"
        raise UserError(f"{name} is a folder, not a recipe; {advice}")
    if is_path(name):
        if not path.is_file():
            raise UserError(f"recipe file {name} does not exist")
        return path
    if name not in shipped and set(path.suffixes) & set(DATA_SUFFIXES):
        raise UserError(f"{name} is a data file, not a recipe; write a recipe for it: {start}")
    if name not in shipped and path.is_file():
        raise UserError(
            f"{name} is not a recipe, whose name would end in .yaml or .yml; if it holds chats:"
            f" {start}"
        )
    if name not in shipped and path.parent != Path() and path.parent.is_dir():
        raise UserError(f"{name} does not exist, and no recipe has this name")
    if name not in shipped:
        raise UserError(f"unknown recipe {name!r}{hint(name, shipped)}")
    return shipped[name]


def is_path(name: str) -> bool:
    """Return whether the name of a recipe is a path to a YAML file."""
    return name.endswith((".yaml", ".yml"))


def group_files(recipe: Path) -> dict[str, dict[str, Path]]:
    """Map each group and each of its choices to a file; the configs folder nearest to the recipe
    takes precedence.

    ``model/small/lstm.yaml`` is the choice ``small/lstm`` of the group ``model``.
    """
    groups: dict[str, dict[str, Path]] = {}
    for root in reversed(config_folders(recipe)):
        for path in sorted(root.glob("*/**/*.yaml")):
            group, _, choice = path.relative_to(root).with_suffix("").as_posix().partition("/")
            groups.setdefault(group, {})[choice] = path
    return groups


# ------------------------------------------------------------------ composing


def compose(name: str, overrides: Sequence[str] = (), *, trust: bool | Trust = False) -> Composed:
    """Compose a recipe: schema defaults < the groups in its ``defaults`` < its own lines < the
    command line.

    ``group=choice`` swaps a group and drops the recipe's own lines for that section; the choice is
    a name or, on the command line, the path of a YAML file. ``key=value`` sets a value (split at
    the first ``=``); ``~key`` removes a key. A group that is not a section (``debug``) may set keys
    of any section and overrides the recipe's own lines. A component whose name changes is
    configured from scratch: the arguments of the old part are dropped.

    With ``trust`` the recipe may import parts by dotted names, that is, run code; without, building
    such a part is an error.

    Raises:
        UserError: with the file and line, or the key, and the nearest name.
    """
    path = find_recipe(name)
    body = read_yaml(path)
    defaults = body.values.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise UserError(f"{body.origin['defaults']}: defaults must be a mapping of group: choice")
    groups = group_files(path)
    swaps, settings = parse_overrides(overrides, groups)
    places = {
        group: place_of(body.origin, f"defaults.{group}", display_path(path)) for group in defaults
    }
    places |= dict.fromkeys(swaps, COMMAND_LINE)
    sections, overlays = read_groups({**defaults, **swaps}, groups, places)
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    own = Layer({key: value for key, value in body.values.items() if key not in swaps}, body.origin)
    for layer in (*sections, own, *overlays):
        merge_layer(values, origin, layer)
    corpus = dict(leaves(values)).get(CORPUS)
    for key, value in settings:
        if key.startswith("~"):
            remove_key(values, origin, key[1:])
        else:
            merge_layer(values, origin, Layer(nest(key, value), {key: COMMAND_LINE}))
    recipe = fill_schema(values, origin, display_path(path))
    check_numbers(recipe, origin)
    swapped = swaps.get("data", defaults.get("data")) != defaults.get("data")
    other = swapped or corpus != recipe.data.corpus.get("name")
    called = path.stem if is_path(name) else named_after_data(name, recipe) if other else name
    lost = dropped_settings(body.values, swaps, values)
    return Composed(called, trust_of(trust).allow(recipe), origin, lost)


def dropped_settings(
    own: Mapping[str, Any], swaps: Container[str], values: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the lines of a recipe that its swapped groups dropped and that have another value now,
    as ``key=value``; lines of a component of another name are part of what was swapped.
    """
    now = dict(leaves(values))
    swapped = {section: part for section, part in own.items() if section in swaps}
    return tuple(
        f"{key}={value}" for key, value in leaves(swapped) if key in now and now[key] != value
    )


def named_after_data(name: str, recipe: Recipe) -> str:
    """Return the name of a shipped recipe with other data in place of the corpus that its folder
    names.

    ``dailydialog/transformer`` with ``data.path=my/chats.jsonl`` in another format is
    ``chats/transformer``. Without a path, the data have the name of the corpus.
    """
    corpus = str(recipe.data.corpus.get("name", "")).rpartition(".")[2]
    stem = (
        Path(os.path.abspath(recipe.data.path)).name.partition(".")[0] if recipe.data.path else ""
    )
    data = UNSAFE.sub("_", stem or corpus)
    return f"{data}/{name.partition('/')[2]}"


def read_groups(
    choices: Mapping[str, Any], groups: Mapping[str, Mapping[str, Path]], places: Mapping[str, str]
) -> tuple[list[Layer], list[Layer]]:
    """Return the layers of the chosen group files: those that fill one section, and those that span
    sections.
    """
    sections = []
    overlays = []
    for group, choice in choices.items():
        if group not in groups:
            raise UserError(f"{places[group]}: unknown group {group!r}{hint(group, groups)}")
        layer = read_yaml(choice_file(group, str(choice), groups[group], places[group]))
        if group in SECTIONS:
            origin = {f"{group}.{key}": place for key, place in layer.origin.items()}
            sections.append(Layer({group: layer.values}, origin))
        else:
            overlays.append(layer)
    return sections, overlays


def choice_file(group: str, choice: str, files: Mapping[str, Path], place: str) -> Path:
    """Return the file of a group's choice: a name, or on the command line the path of a YAML file.

    Raises:
        UserError: unknown name.
    """
    if is_path(choice) and place == COMMAND_LINE:
        return Path(choice)
    if choice not in files:
        missing = (
            "; `python -m dialog tune-generation RUN` writes it"
            if choice == "tuned"
            else hint(choice, files)
        )
        raise UserError(f"{place}: unknown {group} {choice!r}{missing}")
    return files[choice]


def parse_overrides(
    overrides: Sequence[str], groups: Container[str]
) -> tuple[dict[str, str], list[tuple[str, Any]]]:
    """Split the overrides of the command line into swapped groups and, in their order, key and
    value (None: ~key).
    """
    swaps: dict[str, str] = {}
    settings: list[tuple[str, Any]] = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if len(key) > 1 and key.startswith("~") and not equals:
            settings.append((key, None))
        elif not equals or not key or key.startswith("~"):
            raise UserError(f"override {override!r} must be key=value or ~key")
        elif key in groups:
            swaps[key] = text
        else:
            settings.append((key, parse_value(override, text)))
    return swaps, settings


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments of the command line into recipes (or runs) and overrides (key=value,
    ~key).
    """
    overrides = [argument for argument in arguments if is_override(argument)]
    return [argument for argument in arguments if argument not in overrides], overrides


def is_override(argument: str) -> bool:
    """Return whether an argument is ``key=value`` or ``~key``.

    The folder of a run may have ``=`` in its name, as in ``runs/reverse[model=mlstm]/seed-1``; no
    key has ``/`` or ``[``.
    """
    key, equals, _ = argument.partition("=")
    return argument.startswith("~") or (bool(equals) and not {"/", "[", "\\"} & set(key))


def with_seed(composed: Composed, seed: int) -> Composed:
    """Return the same recipe with another seed."""
    return replace(composed, recipe=replace(composed.recipe, seed=seed))


# ------------------------------------------------------------------ checks


@cache
def schema() -> Any:
    """Return the schema of a recipe, to be merged with values: `OmegaConf.merge` copies it."""
    return OmegaConf.structured(Recipe)


def fill_schema(values: Mapping[str, Any], origin: Mapping[str, str], recipe: str) -> Recipe:
    """Fill the schema with values.

    Raises:
        UserError: unknown key, wrong type, or a missing required key.
    """
    try:
        merged = OmegaConf.merge(schema(), OmegaConf.create(dict(values)))
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise UserError(f"{recipe}: the recipe must set {', '.join(missing)}")
        filled = OmegaConf.to_object(merged)
    except (
        OmegaConfBaseException,
        TypeError,
    ) as error:  # TypeError: a list in place of a mapping, or vice versa
        raise UserError(
            explain_invalid(values, origin) or f"{recipe}: {first_line(error)}"
        ) from error
    assert isinstance(filled, Recipe)
    return filled


def explain_invalid(values: Mapping[str, Any], origin: Mapping[str, str]) -> str | None:
    """Return place, key and reason of the first value that the schema rejects."""
    for key, value in leaves(values):
        place = place_of(origin, key)
        try:
            OmegaConf.merge(schema(), nest(key, value))
        except ConfigKeyError as error:
            unknown = str(error.full_key)
            section, _, last = unknown.rpartition(".")
            siblings = OmegaConf.select(schema(), section) if section else schema()
            return f"{place}: {unknown}: unknown key{hint(last, map(str, siblings))}"
        except (OmegaConfBaseException, TypeError) as error:
            return f"{place}: {key}: {invalid_value(error)}"
    return None


def check_numbers(recipe: Recipe, origin: Mapping[str, str]) -> None:
    """Check the numbers that have the right type but may be out of range."""
    values = dict(leaves(asdict(recipe)))
    for key, minimum in MINIMUM.items():
        if values[key] is not None and values[key] < minimum:
            raise UserError(
                f"{place_of(origin, key)}: {key}: must be at least {minimum}, not {values[key]}"
            )
    for key in NONZERO:
        if values[key] == 0:
            raise UserError(
                f"{place_of(origin, key)}: {key}: must not be 0; a run needs training and"
                " validation"
            )
