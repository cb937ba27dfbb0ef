"""Settings that are measured: shipped ones, those of a YAML file, and variations of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from dialog.config.components import Component, hint
from dialog.config.compose import compose
from dialog.config.schema import GenerationConfig
from dialog.config.trust import NO_TRUST, Trust, check_importable
from dialog.config.variations import combinations
from dialog.config.yaml_layers import Layer, read_yaml
from dialog.errors import UserError, section
from dialog.runs.folder import RECIPE
from dialog.runs.run import Run

KEYS = tuple(item.name for item in fields(GenerationConfig))


@dataclass(frozen=True)
class DecodingSetting:
    """A search with its constraints: a complete section ``generation`` under a name."""

    name: str
    generation: Mapping[str, Any]

    @cached_property
    def component(self) -> Component:
        """The search with all constraints, as `Responder.generate` takes it."""
        constraints = {key: value for key, value in self.generation.items() if key != "search"}
        return {**self.generation["search"], **constraints}

    def chosen(self) -> dict[str, Any]:
        """Return the search, and the constraints that differ from the schema's defaults."""
        defaults = asdict(GenerationConfig())
        return {
            key: value
            for key, value in self.generation.items()
            if key == "search" or value != defaults[key]
        }


def read_settings(
    run: Run,
    path: Path | None,
    overrides: Sequence[str] = (),
    variations: Sequence[str] = (),
    *,
    trust: Trust = NO_TRUST,
) -> list[DecodingSetting]:
    """Return each setting of a file, in each combination of the variations ``KEY=A,B`` of the run's
    recipe.

    Without a file the only setting is that of the recipe. Every search is built once, so that
    nothing is decoded if one of them is invalid.

    Raises:
        UserError: with the file and line, or the variation: unknown key, search or argument, or
            without ``trust`` a search that is imported, which a file in the run folder can name.
    """
    named = [("", "", list[str]())] if path is None else _read(path)
    settings: dict[str, DecodingSetting] = {}
    for name, place, own in named:
        for label, varied in combinations(variations):
            title = ", ".join(filter(None, (name, label))) or "recipe"
            with section(place or f"--vary {label}" if place or label else "generation"):
                recipe = compose(
                    str(run.folder / RECIPE), [*overrides, *own, *varied], trust=trust
                ).recipe
                check_importable(recipe, str(run.folder))
                setting = DecodingSetting(title, asdict(recipe.generation))
                run.responder.search(setting.component)
            settings[title] = setting
    return list(settings.values())


def _read(path: Path) -> list[tuple[str, str, list[str]]]:
    """Return the name, the place and the overrides of each setting of a file."""
    layer = read_yaml(path)
    if not layer.values:
        raise UserError(f"{path}: has no setting; write NAME: {{search: {{name: beam, width: 5}}}}")
    return [(name, layer.origin[name], _overrides(layer, name)) for name in layer.values]


def _overrides(layer: Layer, name: str) -> list[str]:
    """Return a setting as overrides of a recipe; its search replaces the recipe's with all
    arguments.
    """
    place = layer.origin[name]
    values = layer.values[name]
    if not isinstance(values, dict) or not values:
        raise UserError(
            f"{place}: {name}: must have keys of the section generation, such as search: {{name:"
            " greedy}"
        )
    for key in values:
        if key not in KEYS:
            raise UserError(
                f"{layer.origin.get(f'{name}.{key}', place)}: {name}: unknown key"
                f" {key!r}{hint(key, KEYS)}"
            )
    dropped = ["~generation.search"] if "search" in values else []
    return [*dropped, *(f"generation.{key}={json.dumps(value)}" for key, value in values.items())]
