"""Parity contract: the settings that must be equal in a fair comparison, and those that readers
need to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from dialog.config.components import Family, name_and_arguments
from dialog.config.schema import GenerationConfig, Recipe
from dialog.errors import UserError
from dialog.report.formats.numbers import hardware
from dialog.report.formats.results import ModelResults, ParitySetting, RunResults
from dialog.report.tables import UNKNOWN

TOLERANCE = 0.1
"""Largest relative difference of two numbers of parameters, or of target tokens, that count as
equal.
"""
UNSTATED = "not stated"
"""Value of a setting of a system of another framework."""
FINGERPRINT = 12
"""Number of characters of a hash that are shown."""


class EvaluatedSystem(NamedTuple):
    """A contender and the results of its runs."""

    recipe: Recipe | None  # None for a system of another framework
    environment: dict[str, Any]  # of the first run; empty for a system of another framework
    model: ModelResults
    test_set: Mapping[str, Any]  # fingerprint and number of examples; empty before training
    stated: Mapping[str, Any] = {}  # of a system of another framework, by `STATED`


Setting = Callable[[Recipe], Any]


# ------------------------------------------------------------------ settings


def lengths(recipe: Recipe) -> str:
    """Return the limits of context and response in training."""
    turns = "all" if recipe.data.context_turns is None else recipe.data.context_turns
    return f"{turns} turns, {recipe.data.max_source} + {recipe.data.max_target} tokens"


def training_budget(recipe: Recipe) -> str:
    """Return the limits of training; steps count with the size of the batches of all processes,
    epochs without.
    """
    trainer = recipe.trainer
    limits = []
    if trainer.max_epochs is not None and trainer.max_epochs > 0:
        limits.append(f"{trainer.max_epochs} epochs")
    if trainer.max_steps > 0:
        limits.append(
            f"{trainer.max_steps} steps of {batch_size(recipe, trainer.accumulate_grad_batches)}"
        )
    if trainer.max_time is not None:
        limits.append(str(trainer.max_time))
    if trainer.limit_train_batches is not None:
        limits.append(f"limit_train_batches {trainer.limit_train_batches}")
    if trainer.overfit_batches:
        limits.append(f"overfit_batches {trainer.overfit_batches}")
    return ", ".join(limits) or "unlimited"


def batch_size(recipe: Recipe, batches: int = 1) -> str:
    """Return the size of a number of training batches: their examples if the recipe counts these,
    else their tokens.

    Of all processes; if the machine decides their number, as with ``devices=auto``, the size is
    that of each.
    """
    data = recipe.data
    trainer = recipe.trainer
    devices = len(trainer.devices) if isinstance(trainer.devices, list | tuple) else trainer.devices
    is_known = isinstance(devices, int) and devices > 0
    batches *= devices * trainer.num_nodes if is_known else 1
    suffix = "" if is_known else f" on each of devices={devices}, num_nodes={trainer.num_nodes}"
    if data.static_shapes is True:
        suffix += ", static shapes"
    if data.batch_examples is not None:
        return f"{batches * data.batch_examples} examples{suffix}"
    return f"{batches * data.batch_tokens} tokens{suffix}"


def validation_interval(recipe: Recipe) -> str:
    """Return how often a run is validated: more validations are more chances of a good one."""
    interval = recipe.trainer.val_check_interval
    epochs = recipe.trainer.check_val_every_n_epoch
    of = (
        "" if epochs is None else " of each epoch" if epochs == 1 else f" of one in {epochs} epochs"
    )
    if isinstance(interval, int):
        return f"every {interval} batches{of}"
    share = 1.0 if interval is None else interval
    epochs = epochs or 1
    return (
        f"every {share * epochs:g} epochs"
        if 1 in (share, epochs)
        else f"every {share:g} epochs{of}"
    )


def early_stopping(recipe: Recipe) -> str:
    """Return the rule that ends training before its budget is spent."""
    patience = recipe.checkpoint.patience
    return "none" if patience is None else f"after {patience} validations without improvement"


def selection(recipe: Recipe) -> str:
    """Return the rule that selects the weights that are evaluated."""
    averaging = recipe.checkpoint.averaging
    averaged = f", averaged by {component_text(averaging)}" if averaging is not None else ""
    return f"best {recipe.checkpoint.monitor}{averaged}"


def response_length(recipe: Recipe) -> str:
    """Return the limits of the length of a response."""
    return f"{recipe.generation.min_length} to {recipe.generation.max_length} tokens"


def search(recipe: Recipe) -> str:
    """Return the search and its arguments."""
    from dialog.generation.searches.family import SEARCHES

    return component_text(recipe.generation.search, SEARCHES)


def constraints(recipe: Recipe) -> str:
    """Return the constraints of a search that differ from their defaults, without the lengths."""
    defaults = GenerationConfig()
    others = [
        item.name
        for item in fields(defaults)
        if item.name not in ("search", "min_length", "max_length")
    ]
    values = {name: getattr(recipe.generation, name) for name in others}
    changed = [
        f"{name} {value}" for name, value in values.items() if value != getattr(defaults, name)
    ]
    return ", ".join(changed) or "none"


def component_text(component: Mapping[str, Any], family: Family[Any] | None = None) -> str:
    """Return a component as ``name (argument value, ...)``, sorted by argument; with its family,
    without defaults.
    """
    name, arguments = name_and_arguments(component)
    defaults = (
        {}
        if family is None
        else {key: item.default for key, item in family.arguments(name).items()}
    )
    values = {
        key: component_text(value, family) if isinstance(value, Mapping) else value
        for key, value in sorted(arguments.items())
        if key not in defaults or value != defaults[key]
    }
    return (
        f"{name} ({', '.join(f'{key} {value}' for key, value in values.items())})"
        if values
        else name
    )


MUST: dict[str, Setting] = {
    "tuning trials": lambda recipe: recipe.about.trials,
    "lengths": lengths,
    "training budget": training_budget,
    "validation interval": validation_interval,
    "early stopping": early_stopping,
    "selection": selection,
    "initial weights": lambda recipe: recipe.model.init_from or recipe.model.vectors or "random",
    "precision": lambda recipe: recipe.trainer.precision,
    "search": search,
    "response length": response_length,
    "constraints": constraints,
}
"""Settings of a recipe that must be equal: tuning, the data that a model sees, its budget, and how
it is selected.
"""

REPORTED: dict[str, Setting] = {
    "batch size": batch_size,
    "accumulated batches": lambda recipe: recipe.trainer.accumulate_grad_batches,
    "optimizer": lambda recipe: component_text(recipe.optimizer),
    "gradient clipping": lambda recipe: str(recipe.trainer.gradient_clip_val),
    "dropout": lambda recipe: recipe.model.dropout,
    "BPE dropout": lambda recipe: recipe.data.bpe_dropout,
    "loss": lambda recipe: component_text(recipe.model.loss),
    "teacher forcing": lambda recipe: component_text(recipe.model.teacher_forcing),
    "auxiliary objectives": lambda recipe: (
        ", ".join(map(component_text, recipe.model.objectives)) or "none"
    ),
    "head": lambda recipe: component_text(recipe.model.head),
    "tied embeddings": lambda recipe: recipe.model.tie_embeddings,
}
"""Settings that may be tuned for each model, with the same number of trials."""


STATED: dict[str, Callable[[EvaluatedSystem], Any]] = {
    "parameters as stated": lambda system: (
        system.stated.get("parameters")
        if system.recipe is None
        else system.model.parameters.get("total")
    ),
    "data as stated": lambda system: (
        system.stated.get("data")
        if system.recipe is None
        else str(system.recipe.data.corpus.get("name"))
    ),
    "budget as stated": lambda system: (
        system.stated.get("budget") if system.recipe is None else training_budget(system.recipe)
    ),
}
"""Rows that a system of another framework states in its system.yaml; a recipe has their values."""


def state_sizes(models: Sequence[ModelResults]) -> dict[str, list[int | None]]:
    """Return the bytes of the states of all models, by the length of the context."""
    lengths = dict.fromkeys(length for model in models for length in model.state_bytes)
    return {length: [model.state_bytes.get(length) for model in models] for length in lengths}


def parity(systems: Sequence[EvaluatedSystem]) -> tuple[ParitySetting, ...]:
    """Return the settings, those that differ first, and of these those that must be equal first;
    none if only one system has a recipe, and none of the others a statement.

    The settings are those of the systems with a recipe. The values of others are `UNSTATED` and
    break nothing. If one of them states its parameters, data and budget, these are added.
    """
    trained = [system for system in systems if system.recipe is not None]
    comparable = len(trained) > 1 or len(trained) == len(systems)
    rows = recipe_rows(trained) if comparable else []
    if len(trained) < len(systems):
        rows = [with_unstated(setting, systems) for setting in rows]
    if any(system.stated for system in systems):
        rows += [row(name, [value(system) for system in systems]) for name, value in STATED.items()]
    return tuple(sorted(rows, key=lambda setting: (setting.equal, not setting.must)))


def with_unstated(setting: ParitySetting, systems: Sequence[EvaluatedSystem]) -> ParitySetting:
    """Return a setting of the systems with a recipe, with `UNSTATED` for the others."""
    values = iter(setting.values)
    every = (UNSTATED if system.recipe is None else next(values) for system in systems)
    return replace(setting, values=tuple(every))


def recipe_rows(systems: Sequence[EvaluatedSystem]) -> list[ParitySetting]:
    """Return the rows of systems with a recipe.

    A value that is unknown for one system only is not equal. Numbers of parameters and of target
    tokens may differ by `TOLERANCE`, and lists of seeds by everything but their length. With a
    budget of time, target tokens are reported only.
    """
    recipes = [system.recipe for system in systems]
    environments = [system.environment for system in systems]
    models = [system.model for system in systems]
    runs = [model.runs for model in models]
    test_sets = [system.test_set for system in systems]
    counts = [model.parameters for model in models]
    flops = [model.flops_per_target_token for model in models]
    return [
        row(
            "tokenizer",
            [shortened(environment.get("tokenizer")) for environment in environments],
            must=True,
        ),
        row(
            "data fingerprint",
            [shortened(environment.get("data")) for environment in environments],
            must=True,
        ),
        row("test set", [shortened(values.get("fingerprint")) for values in test_sets], must=True),
        row("test examples", [values.get("examples") for values in test_sets], must=True),
        number_of_seeds(runs),
        *(row(what, settings(recipes, setting), must=True) for what, setting in MUST.items()),
        close_row(
            "parameters without embeddings", [values.get("rest") for values in counts], must=True
        ),
        close_row("parameters", [values.get("total") for values in counts]),
        row("FLOPs per target token", flops),
        *(
            row(f"bytes of state after {length} tokens", values)
            for length, values in state_sizes(models).items()
        ),
        close_row(
            "target tokens seen",
            [rounded_mean([run.target_tokens for run in own]) for own in runs],
            must=not any(recipe is not None and recipe.trainer.max_time for recipe in recipes),
        ),
        row("optimizer steps", [rounded_mean([run.steps for run in own]) for own in runs]),
        row("validations", [validations(model_runs) for model_runs in runs]),
        row("training seconds", [rounded_mean([run.seconds for run in own]) for own in runs]),
        row(
            "hardware",
            [hardware(environment) if environment else None for environment in environments],
        ),
        row(
            "software",
            [software(environment) if environment else None for environment in environments],
        ),
        *(row(what, settings(recipes, setting)) for what, setting in REPORTED.items()),
    ]


def broken(rows: Sequence[ParitySetting]) -> list[str]:
    """Return a line with the values of each setting that must be equal and is not."""
    return [
        f"{setting.what}: {' / '.join(map(str, setting.values))}"
        for setting in rows
        if setting.must and not setting.equal
    ]


def raise_broken(rows: Sequence[ParitySetting], report: Path | None = None) -> None:
    """Raise UserError for the settings that must be equal and are not: ``--strict``."""
    if settings := broken(rows):
        where = "" if report is None else f"; the report is in {report}"
        raise UserError(f"--strict: the contenders differ in {'; '.join(settings)}{where}")


# ------------------------------------------------------------------ rows


def row(what: str, values: list[Any], *, must: bool = False) -> ParitySetting:
    """Compare one setting, a value per system (None: unknown); `must`: a fair comparison needs
    equal values.
    """
    equal = all(value == values[0] for value in values)
    shown = tuple(UNKNOWN if value is None else value for value in values)
    return ParitySetting(what, equal, must, shown)


def close_row(what: str, values: list[int | None], *, must: bool = False) -> ParitySetting:
    """Compare numbers; they are equal if the largest exceeds the smallest by at most
    `TOLERANCE`.
    """
    counts = [value for value in values if value is not None]
    equal = len(counts) == len(values) and max(counts) <= (1 + TOLERANCE) * min(counts)
    setting = row(f"{what} (within {100 * TOLERANCE:.0f} %)", values, must=must)
    return replace(setting, equal=equal or not counts)


def number_of_seeds(runs: Sequence[Sequence[RunResults]]) -> ParitySetting:
    """Compare numbers of seeds; which seeds they are makes no difference."""
    values = [
        ", ".join(str(run.seed) for run in model_runs if run.seed is not None) or None
        for model_runs in runs
    ]
    equal = len({len(model_runs) for model_runs in runs}) == 1
    return replace(row("seeds", values, must=True), equal=equal)


def settings(recipes: Sequence[Recipe | None], setting: Setting) -> list[Any]:
    """Return a setting of each recipe."""
    return [None if recipe is None else setting(recipe) for recipe in recipes]


# ------------------------------------------------------------------ values of runs


def validations(runs: Sequence[RunResults]) -> int | None:
    """Return the mean number of validations over seeds; None if nothing was trained."""
    return rounded_mean([len(run.validations) for run in runs if run.steps is not None])


def rounded_mean(values: Sequence[float | None]) -> int | None:
    """Return the mean of a number over seeds; None if no run has one."""
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


def software(environment: dict[str, Any]) -> str:
    """Return the versions of this package and of torch."""
    return f"dialog {environment.get('dialog', '?')}, torch {environment.get('torch', '?')}"


def shortened(fingerprint: str | None) -> str | None:
    """Return the beginning of a hash."""
    return None if fingerprint is None else fingerprint[:FINGERPRINT]
