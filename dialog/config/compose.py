"""The frame that every recipe fills, and how one is composed: defaults < groups < the recipe < the command line."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from dialog.config.components import hint
from dialog.config.schema import LEAST, NOT_ZERO, SECTIONS, Recipe, to_dict, to_yaml
from dialog.config.yaml_layers import (
    COMMAND_LINE,
    Layer,
    first_line,
    lay,
    leaves,
    nearest,
    nest,
    read,
    remove,
    scalar,
    shown,
)
from dialog.errors import UserError

# ------------------------------------------------------------------ frame


@dataclass(frozen=True)
class Composed:
    """A recipe with its name and the place that each value came from."""

    name: str
    recipe: Recipe
    origin: Mapping[str, str]

    def yaml(self) -> str:
        """The whole recipe, which runs again as it is."""
        return to_yaml(self.recipe)


# ------------------------------------------------------------------ where files are


def roots(kind: str, beside: Path | None = None) -> list[Path]:
    """The folders that hold ``configs`` or ``recipes``: above the given file, then the package's own."""
    above = [folder / kind for folder in beside.resolve().parents] if beside else []
    package = Path(str(files("dialog")))
    installed = package / "_assets" / kind
    own = installed if installed.is_dir() else package.parent / kind
    return [folder for folder in [*above, own] if folder.is_dir()]


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    root = roots("recipes")[-1]
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.yaml"))}


def find(name: str) -> Path:
    """The file of a recipe: a path to YAML, or a name as ``dialog recipes`` prints it."""
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise UserError(f"no recipe file {name}")
        return path
    known = shipped()
    if name not in known:
        raise UserError(f"no recipe {name!r}{hint(name, known)}")
    return known[name]


# ------------------------------------------------------------------ composing


def compose(name: str, overrides: Sequence[str] = ()) -> Composed:
    """Compose a recipe: frame defaults < the groups in its ``defaults`` < its own lines < the command line.

    ``group=choice`` swaps a group, and with it all that the recipe says of that section; ``key=value`` sets a value
    (split at the first ``=``); ``~key`` takes one out. A group that is no section (``debug``) holds lines of any, and
    is laid over the recipe's own. A component that is given another name starts afresh: the old one's arguments mean
    nothing to the new.

    Raises:
        UserError: with the file and line, or the key, and the nearest name.
    """
    path = find(name)
    body = read(path)
    defaults = body.values.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise UserError(f"{body.origin['defaults']}: defaults must be a mapping of group: choice")
    known = groups(path)
    swaps, settings = parse(overrides, known)
    places = {group: nearest(body.origin, f"defaults.{group}", shown(path)) for group in defaults}
    places |= dict.fromkeys(swaps, COMMAND_LINE)
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    over: list[Layer] = []
    for group, choice in {**defaults, **swaps}.items():
        if group not in known:
            raise UserError(f"{places[group]}: no group {group!r}{hint(group, known)}")
        if str(choice) not in known[group]:
            raise UserError(f"{places[group]}: no {group}={choice}{hint(str(choice), known[group])}")
        layer = read(known[group][str(choice)])
        if group not in SECTIONS:
            over.append(layer)
            continue
        inside = {f"{group}.{key}": place for key, place in layer.origin.items()}
        lay(values, origin, Layer({group: layer.values}, inside))
    own = {key: value for key, value in body.values.items() if key not in swaps}
    for layer in (Layer(own, body.origin), *over):
        lay(values, origin, layer)
    for key, value in settings:
        if key.startswith("~"):
            remove(values, origin, key[1:])
        else:
            lay(values, origin, Layer(nest(key, value), {key: COMMAND_LINE}))
    recipe = typed(values, origin, shown(path))
    check_numbers(recipe, origin)
    return Composed(label(name, path), recipe, origin)


def label(name: str, path: Path) -> str:
    """What a recipe is called in folders and tables: its name, or its file's."""
    return path.stem if name.endswith((".yaml", ".yml")) else name


def parse(overrides: Sequence[str], groups: Container[str]) -> tuple[dict[str, str], list[tuple[str, Any]]]:
    """The command line's overrides: groups that are swapped, and values in their order."""
    swaps: dict[str, str] = {}
    settings: list[tuple[str, Any]] = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if len(key) > 1 and key.startswith("~") and not equals:
            settings.append((key, None))
        elif not equals or not key or key.startswith("~"):
            raise UserError(f"override {override!r} is not of the form key=value or ~key")
        elif key in groups:
            swaps[key] = text
        else:
            settings.append((key, scalar(override, text)))
    return swaps, settings


def groups(recipe: Path) -> dict[str, dict[str, Path]]:
    """The file of every choice of every group; the configs folder nearest to the recipe wins."""
    found: dict[str, dict[str, Path]] = {}
    for root in reversed(roots("configs", recipe)):
        for path in sorted(root.glob("*/*.yaml")):
            found.setdefault(path.parent.name, {})[path.stem] = path
    return found


def typed(values: Mapping[str, Any], origin: Mapping[str, str], recipe: str) -> Recipe:
    """The frame filled with values: unknown keys, wrong types and missing values are refused."""
    frame = OmegaConf.structured(Recipe)
    try:
        merged = OmegaConf.merge(frame, OmegaConf.create(dict(values)))
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise UserError(f"{recipe}: the recipe must set {', '.join(missing)}")
        filled = OmegaConf.to_object(merged)
    except (OmegaConfBaseException, TypeError) as error:  # TypeError: a list where a mapping belongs, or vice versa
        raise UserError(refusal(values, origin) or f"{recipe}: {first_line(error)}") from error
    assert isinstance(filled, Recipe)
    return filled


def check_numbers(recipe: Recipe, origin: Mapping[str, str]) -> None:
    """Refuse numbers of the right type that mean nothing."""
    values = dict(leaves(to_dict(recipe)))
    for key, least in LEAST.items():
        if values[key] is not None and values[key] < least:
            raise UserError(f"{nearest(origin, key)}: {key} is {values[key]}; give at least {least}")
    for key in NOT_ZERO:
        if values[key] == 0:
            raise UserError(f"{nearest(origin, key)}: {key} is 0, but a run needs training and validation; give more")


def refusal(values: Mapping[str, Any], origin: Mapping[str, str]) -> str | None:
    """Which value the frame does not take, where it stands and why."""
    frame = OmegaConf.structured(Recipe)
    for key, value in leaves(values):
        place = nearest(origin, key)
        try:
            OmegaConf.merge(frame, nest(key, value))
        except ConfigKeyError as error:
            unknown = str(error.full_key)
            section, _, last = unknown.rpartition(".")
            known = OmegaConf.select(frame, section) if section else frame
            return f"{place}: there is no key {unknown!r}{hint(last, map(str, known))}"
        except (OmegaConfBaseException, TypeError) as error:
            return f"{place}: {key}: {first_line(error)}"
    return None


def with_seed(composed: Composed, seed: int) -> Composed:
    """The same recipe with another seed."""
    return replace(composed, recipe=replace(composed.recipe, seed=seed))
