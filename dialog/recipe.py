"""The frame that every recipe fills, and how one is composed: defaults < groups < the recipe < the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dialog.components import Component, hint
from dialog.errors import UserError

# ------------------------------------------------------------------ frame


@dataclass
class About:
    """What a reader wants to know before running a recipe."""

    summary: str = ""
    cost: str = ""
    parameters: int | None = None
    measured: str = ""


@dataclass
class Data:
    """Which dialogues, and how they become examples and batches.

    ``max_source`` and ``max_target`` count tokens: a longer context loses its beginning, a longer training response its
    end. ``batch_tokens`` bounds the padded tokens of a batch, source and target together.
    """

    corpus: Component = MISSING
    path: str | None = None
    tokenizer: Component = MISSING
    context_turns: int = 3
    first_turns: bool = False
    max_source: int = 128
    max_target: int = 64
    batch_tokens: int = 8192


@dataclass
class Model:
    """The network, and the loss that it is trained to lower."""

    embedding_size: int = MISSING
    encoder: Component = MISSING
    decoder: Component = MISSING
    tie_embeddings: bool = True
    dropout: float = 0.1
    loss: Component = field(default_factory=lambda: {"name": "cross_entropy"})


@dataclass
class Trainer:
    """Arguments of ``lightning.Trainer``, under its own names.

    ``precision`` may also be auto: bf16-mixed where the hardware computes in bfloat16, else 32-true; the run's own recipe
    says which it was.
    """

    accelerator: str = "auto"
    devices: Any = "auto"
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    max_epochs: int | None = None
    max_steps: int = -1
    max_time: str | None = None
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    overfit_batches: int | float = 0.0
    val_check_interval: int | float | None = None
    check_val_every_n_epoch: int | None = 1
    num_sanity_val_steps: int = 0
    log_every_n_steps: int = 10
    enable_progress_bar: bool = True
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = 1.0
    deterministic: bool = False
    detect_anomaly: bool = False


@dataclass
class Checkpoint:
    """When weights are saved, and when training stops for want of progress.

    ``patience`` counts validations without a lower validation loss; null never stops early.
    """

    every_n_steps: int | None = None
    patience: int | None = 5


@dataclass
class Generation:
    """How a response is searched for; lengths in tokens, without the end token."""

    search: Component = field(default_factory=lambda: {"name": "greedy"})
    min_length: int = 1
    max_length: int = 60


@dataclass
class Recipe:
    """A run, whole: what is in it decides every number that comes out."""

    about: About = field(default_factory=About)
    seed: int = 1
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    optimizer: Component = MISSING
    trainer: Trainer = field(default_factory=Trainer)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    generation: Generation = field(default_factory=Generation)
    logger: Component = field(default_factory=lambda: {"name": "none"})
    expect: list[dict[str, Any]] = field(default_factory=list)
    smoke: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Composed:
    """A recipe with its name and the place that each value came from."""

    name: str
    recipe: Recipe
    origin: Mapping[str, str]

    def yaml(self) -> str:
        """The whole recipe, which runs again as it is."""
        return to_yaml(self.recipe)


def to_yaml(recipe: Recipe) -> str:
    """A recipe as YAML that composes to the same recipe."""
    return OmegaConf.to_yaml(OmegaConf.structured(recipe))


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain containers."""
    plain = OmegaConf.to_container(OmegaConf.structured(recipe), resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


# ------------------------------------------------------------------ where files are


def roots(kind: str, beside: Path | None = None) -> list[Path]:
    """The folders that hold ``configs`` or ``recipes``: above the given file, then the package's own."""
    above = [folder / kind for folder in beside.resolve().parents] if beside else []
    package = Path(str(files("dialog")))
    shipped = [package / "_assets" / kind, package.parent / kind]
    return [folder for folder in [*above, *shipped] if folder.is_dir()]


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


@dataclass(frozen=True)
class Layer:
    """Some values of a recipe, and where each one stands."""

    values: dict[str, Any]
    origin: dict[str, str]


def compose(name: str, overrides: Sequence[str] = ()) -> Composed:
    """Compose a recipe: frame defaults < the groups in its ``defaults`` < its own lines < the command line.

    ``group=choice`` swaps a group, and with it all that the recipe says of that section; ``key=value`` sets a value (split
    at the first ``=``); ``~key`` takes one out. A component that is given another name starts afresh: the old one's
    arguments mean nothing to the new.

    Raises:
        UserError: with the file and line, or the key, and the nearest name.
    """
    path = find(name)
    body = read(path)
    defaults = body.values.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise UserError(f"{body.origin.get('defaults', path)}: defaults must be a mapping of group: choice")
    swaps, settings = parse(overrides, path)
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    recipe_line = {key: body.origin.pop(f"defaults.{key}", str(path)) for key in defaults}
    for group, choice in {**defaults, **swaps}.items():
        layer = read(group_file(path, group, str(choice), recipe_line.get(group, "command line")))
        places = {f"{group}.{key}": place for key, place in layer.origin.items()}
        lay(values, origin, Layer({group: layer.values}, places))
    own = {key: value for key, value in body.values.items() if key not in swaps}
    lay(values, origin, Layer(own, body.origin))
    for key, value in settings:
        if key.startswith("~"):
            remove(values, key[1:])
        else:
            lay(values, origin, Layer(nest(key, value), {key: "command line"}))
    return Composed(label(name, path), typed(values, origin), origin)


def label(name: str, path: Path) -> str:
    """What a recipe is called in folders and tables: its name, or its file's."""
    return path.stem if name.endswith((".yaml", ".yml")) else name


def parse(overrides: Sequence[str], recipe: Path) -> tuple[dict[str, str], list[tuple[str, Any]]]:
    """The command line's overrides: groups that are swapped, and values in their order."""
    swaps: dict[str, str] = {}
    settings: list[tuple[str, Any]] = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if key.startswith("~") and not equals:
            settings.append((key, None))
        elif not equals or not key or key.startswith("~"):
            raise UserError(f"override {override!r} is not of the form key=value or ~key")
        elif any((root / key).is_dir() for root in roots("configs", recipe)):
            swaps[key] = text
        else:
            settings.append((key, scalar(override, text)))
    return swaps, settings


def scalar(override: str, text: str) -> Any:  # noqa: ANN401 - whatever YAML says
    """The value of an override, read as YAML."""
    try:
        value = OmegaConf.create(f"value: {text}" if text else "value: ''")
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"override {override!r}: {first_line(error)}") from error
    return plain(value)["value"]


def group_file(recipe: Path, group: str, choice: str, place: str) -> Path:
    """configs/<group>/<choice>.yaml, from the nearest configs folder that has it."""
    folders = [root / group for root in roots("configs", recipe) if (root / group).is_dir()]
    if not folders:
        groups = {path.name for root in roots("configs", recipe) for path in root.iterdir() if path.is_dir()}
        raise UserError(f"{place}: no group {group!r}{hint(group, sorted(groups))}")
    for folder in folders:
        if (folder / f"{choice}.yaml").is_file():
            return folder / f"{choice}.yaml"
    offered = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    raise UserError(f"{place}: no {group}={choice}{hint(choice, offered)}")


def read(path: Path) -> Layer:
    """One YAML file, with the line of each key."""
    shown = os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)
    try:
        text = path.read_text(encoding="utf-8")
        values = plain(OmegaConf.create(text))
        root = yaml.compose(text, yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise UserError(f"{shown}: not UTF-8 at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{shown}:{line}: {error.problem}") from error
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise UserError(f"{shown}: {first_line(error)}") from error
    lines = {key: f"{shown}:{line}" for key, line in key_lines(root)}
    for key, value in leaves(values):
        if isinstance(value, str) and "${" in value:
            raise UserError(f"{lines.get(key, shown)}: {key}: interpolations (${{...}}) are not used in recipes")
    return Layer(values, lines)


def key_lines(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Each key of a YAML mapping, dotted, with its line."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            dotted = f"{prefix}{key.value}"
            yield dotted, key.start_mark.line + 1
            yield from key_lines(value, f"{dotted}.")


def plain(config: object) -> dict[str, Any]:
    """An OmegaConf mapping as plain containers."""
    values = OmegaConf.to_container(config, resolve=False) if OmegaConf.is_config(config) else config
    if not isinstance(values, dict):
        raise UserError("a recipe must be a mapping of keys to values")
    return {str(key): value for key, value in values.items()}


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is not a mapping, with its dotted key."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nest(dotted: str, value: object) -> dict[str, Any]:
    """``a.b`` and 1 as {a: {b: 1}}."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def lay(values: dict[str, Any], origin: dict[str, str], layer: Layer, prefix: str = "") -> None:
    """Lay one layer over what is there; a component that is renamed starts afresh."""
    for key, value in layer.values.items():
        dotted = f"{prefix}{key}"
        old = values.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if "name" in value and value["name"] != old.get("name"):
                values[key] = {}
                forget(origin, dotted)
            lay(values[key], origin, Layer(value, layer.origin), f"{dotted}.")
        elif isinstance(value, dict):
            values[key] = {}
            lay(values[key], origin, Layer(value, layer.origin), f"{dotted}.")
        else:
            values[key] = value
            origin[dotted] = nearest(layer.origin, dotted)


def nearest(origin: Mapping[str, str], dotted: str) -> str:
    """The place of a key, or of the nearest key above it."""
    while dotted not in origin and "." in dotted:
        dotted = dotted.rpartition(".")[0]
    return origin.get(dotted, "?")


def forget(origin: dict[str, str], dotted: str) -> None:
    """Drop the places of all that stands under a key."""
    for key in [key for key in origin if key == dotted or key.startswith(f"{dotted}.")]:
        del origin[key]


def remove(values: dict[str, Any], dotted: str) -> None:
    """Take a key out, so that the default of its part holds."""
    *path, last = dotted.split(".")
    for key in path:
        values = values.get(key, {})
    if last not in values:
        raise UserError(f"~{dotted}: the recipe sets no {dotted}{hint(last, values)}")
    del values[last]


def typed(values: Mapping[str, Any], origin: Mapping[str, str]) -> Recipe:
    """The frame filled with values: unknown keys, wrong types and missing values are refused."""
    frame = OmegaConf.structured(Recipe)
    try:
        recipe = OmegaConf.merge(frame, OmegaConf.create(dict(values)))
        missing = sorted(OmegaConf.missing_keys(recipe))
        if missing:
            raise UserError(f"the recipe must set {', '.join(missing)}")
        filled = OmegaConf.to_object(recipe)
    except OmegaConfBaseException as error:
        key = str(getattr(error, "full_key", None) or "")
        place = nearest(origin, key) if key else "?"
        raise UserError(f"{place if place != '?' else 'recipe'}: {key}: {first_line(error)}") from error
    assert isinstance(filled, Recipe)
    return filled


def first_line(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
