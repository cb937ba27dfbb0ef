"""The frame that every recipe fills, and how one is composed: defaults < groups < the recipe < the command line."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from dialog.components import Component, hint
from dialog.errors import UserError
from dialog.layers import COMMAND_LINE, Layer, first_line, lay, leaves, nearest, nest, read, remove, scalar, shown

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

    The keys of ``dialog.data.examples.Rules`` are explained there. ``filters`` are for the training split.
    ``max_source`` and ``max_target`` count tokens: a longer context loses its beginning, a longer training response its
    end. ``max_dropped`` is the share of a split that may be malformed or empty. ``batch_tokens`` bounds the padded
    tokens of a batch, source and target together; ``bpe_dropout`` is the chance that a merge of byte_bpe is left out
    in training (Provilkov et al. 2020), where batches then grow.
    """

    corpus: Component = MISSING
    path: str | None = None
    tokenizer: Component = MISSING
    filters: list[Component] = field(default_factory=list)
    context_turns: int | None = 3
    first_turns: bool = False
    responder: str | None = None
    merge_turns: bool = False
    reverse: bool = False
    max_turn_characters: int = 10_000
    malformed: str = "refuse"
    max_dropped: float = 0.01
    max_source: int = 128
    max_target: int = 64
    batch_tokens: int = 8192
    bpe_dropout: float = 0.0


@dataclass
class Model:
    """The network, and how it is taught.

    ``teacher_forcing`` is the share of gold tokens that the decoder reads in training, by the optimizer step; the rest
    are its own words, drawn if ``sampled`` is set. ``objectives`` are learnt besides to respond, each with a ``weight``
    and a ``schedule`` of it. Training begins with the weights of the run folder ``init_from``, as far as names, shapes
    and tokens agree, or with embeddings from the text ``vectors`` (word2vec's or GloVe's); a run folder does not need
    these again. What is inside the modules ``frozen``, such as encoder or decoder.layers.0, stays as it is.
    ``activation_checkpointing`` lets a Transformer train in less memory and more time: each layer is computed twice.
    """

    embedding_size: int = MISSING
    encoder: Component = MISSING
    decoder: Component = MISSING
    head: Component = field(default_factory=lambda: {"name": "vocabulary"})
    tie_embeddings: bool | str = True
    dropout: float = 0.1
    activation_checkpointing: bool = False
    loss: Component = field(default_factory=lambda: {"name": "cross_entropy"})
    teacher_forcing: Component = field(default_factory=lambda: {"name": "constant"})
    objectives: list[Component] = field(default_factory=list)
    init_from: str | None = None
    vectors: str | None = None
    frozen: list[str] = field(default_factory=list)


@dataclass
class Trainer:
    """Arguments of ``lightning.Trainer``, under its own names.

    ``precision`` may also be auto: bf16-mixed where the hardware computes in bfloat16, else 32-true; the run's own
    recipe says which it was. ``profiler`` (simple, advanced or pytorch) writes to the run's folder ``profile``.
    ``max_time`` is DD:HH:MM:SS, or {hours: 8, minutes: 30}; a run that it ends is validated like any other. To validate
    every n batches across epochs, ``val_check_interval`` is n and ``check_val_every_n_epoch`` null. ``deterministic``
    may also be warn.
    """

    accelerator: str = "auto"
    devices: Any = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    max_epochs: int | None = None
    max_steps: int = -1
    max_time: Any = None
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
    deterministic: bool | str = False
    detect_anomaly: bool = False
    profiler: str | None = None


@dataclass
class Checkpoint:
    """When weights are saved, and when training stops for want of progress.

    The best weights are those of the validation at which ``monitor`` (validation/loss, perplexity, bits_per_byte or
    token_accuracy) was best; ``patience`` counts validations in which it is not better, null never stops early. With
    ``averaging``, what is validated, and so what best.ckpt and model.safetensors hold, is an average of the weights:
    {name: ema} of all steps, {name: last} of the last validations.
    """

    every_n_steps: int | None = None
    monitor: str = "validation/loss"
    patience: int | None = 5
    averaging: Component | None = None


@dataclass
class Generation:
    """How a response is searched for; lengths in tokens, without the end token."""

    search: Component = field(default_factory=lambda: {"name": "greedy"})
    min_length: int = 1
    max_length: int = 60


@dataclass
class Recipe:
    """A run, whole: what is in it decides every number that comes out.

    ``preflight`` runs the heaviest batches before the first epoch and says what they take.
    """

    about: About = field(default_factory=About)
    seed: int = 1
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    optimizer: Component = MISSING
    trainer: Trainer = field(default_factory=Trainer)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    preflight: bool = True
    generation: Generation = field(default_factory=Generation)
    logger: Component = field(default_factory=lambda: {"name": "none"})
    expect: list[dict[str, Any]] = field(default_factory=list)
    smoke: list[str] = field(default_factory=list)


SECTIONS = tuple(section.name for section in fields(Recipe))
"""The groups whose choices fill one section each."""

LEAST = {
    "data.batch_tokens": 1,
    "data.bpe_dropout": 0,
    "trainer.log_every_n_steps": 1,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0,
    "checkpoint.every_n_steps": 1,
    "checkpoint.patience": 0,
}
"""The smallest numbers that mean something."""

NOT_ZERO = ("trainer.max_steps", "trainer.max_epochs", "trainer.limit_train_batches", "trainer.limit_val_batches")
"""Without any, nothing would be trained, or no weights would be the best."""


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
