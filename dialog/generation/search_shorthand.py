"""Short ways to choose a search: `search="beam5"`, `temperature=0.7`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dialog.config.components import hint
from dialog.config.schema import GenerationConfig
from dialog.config.trust import without_trust
from dialog.config.yaml_layers import invalid_value, parse_value, read_yaml
from dialog.errors import UserError
from dialog.generation.searches.family import SEARCHES

SEARCH = "search"
CONSTRAINTS = tuple(item.name for item in fields(GenerationConfig) if item.name != SEARCH)
FIRST = "sampling"
"""Search that an argument of several searches selects, such as `temperature`."""

RECIPE_KEYS = {"seed"}
"""Arguments of searches that are keys of a recipe too, and mean these on the command line."""


def short_names() -> set[str]:
    """Return the names that may stand without their section: `search`, arguments of searches, and
    constraints.
    """
    arguments = {key for search in SEARCHES for key in SEARCHES.arguments(search)}
    return {SEARCH, *CONSTRAINTS, *arguments} - RECIPE_KEYS


def split_short(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Split overrides of the command line into short settings of the search and all others."""
    names = short_names()
    short: dict[str, Any] = {}
    others: list[str] = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if equals and key in names:
            short[key] = parse_value(override, text)
        else:
            others.append(override)
    return short, others


def with_short_settings(
    generation: GenerationConfig, files: Mapping[str, Path], settings: Mapping[str, Any]
) -> GenerationConfig:
    """Return a section `generation` with short settings.

    `search` is the name of a file of configs/generation or of a search, or a mapping with its
    arguments; a name keeps the section's constraints, except those that the file sets. An argument
    that the search lacks selects one that has it: `temperature` selects sampling.

    Args:
        generation: The section of a recipe.
        files: Files of configs/generation by name.
        settings: Values by name.

    Raises:
        UserError: unknown name, with the nearest, or a value of another type.
    """
    section = asdict(generation)
    search = settings.get(SEARCH)
    if isinstance(search, str):
        section |= _named(search, files)
    elif isinstance(search, Mapping):
        section |= {key: search[key] for key in CONSTRAINTS if key in search}
        section[SEARCH] = {key: search[key] for key in search if key not in CONSTRAINTS}
    for key, value in settings.items():
        if key == SEARCH:
            continue
        if key in CONSTRAINTS:
            section[key] = value
        elif key in SEARCHES.arguments(section[SEARCH]["name"]):
            section[SEARCH] = {**section[SEARCH], key: value}
        else:
            section[SEARCH] = {"name": _owner(key), key: value}
    return filled_section(without_trust(section))


def filled_section(values: Mapping[str, Any]) -> GenerationConfig:
    """Return a section `generation` with these values.

    Raises:
        UserError: unknown key, or a value of another type.
    """
    try:
        filled = OmegaConf.to_object(
            OmegaConf.merge(OmegaConf.structured(GenerationConfig), values)
        )
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {invalid_value(error)}") from error
    assert isinstance(filled, GenerationConfig)
    return filled


def component_of(generation: GenerationConfig) -> dict[str, Any]:
    """Return the search of a section with its constraints, as `Responder.respond` takes it."""
    section = asdict(generation)
    return {**section.pop(SEARCH), **section}


def _named(name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    if name in files:
        return {SEARCH: {"name": "greedy"}, **read_yaml(files[name]).values}
    if name in SEARCHES:
        return {SEARCH: {"name": name}}
    raise UserError(f"unknown search {name!r}{hint(name, sorted({*files, *SEARCHES}))}")


def _owner(key: str) -> str:
    owners = [name for name in SEARCHES if key in SEARCHES.arguments(name)]
    if not owners:
        raise UserError(f"unknown setting {key!r}{hint(key, sorted(short_names()))}")
    return FIRST if FIRST in owners else owners[0]
