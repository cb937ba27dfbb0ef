"""Shell completion of recipes, runs and keys of settings.

It runs at each press of the tab key: imports are light.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem

from dialog.config.compose import compose, is_override, shipped_recipes
from dialog.config.schema import Recipe, to_dict
from dialog.config.yaml_layers import leaves
from dialog.errors import UserError
from dialog.runs.folder import RECIPE


class SettingsBashComplete(BashComplete):
    """Completion in bash that puts a space after a word, but none after ``key=``."""

    source_template = BashComplete.source_template.replace("-o nosort", "-o nosort -o nospace")

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line that the script reads."""
        space = "" if item.type != "plain" or item.value.endswith("=") else " "
        return super().format_completion(item) + space


def recipes(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the shipped recipes and, by the shell, files."""
    names = [name for name in shipped_recipes() if name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]


def settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the keys of the schema, and of the components of the recipe or run before them, as
    ``key=``.
    """
    return [CompletionItem(f"{key}=") for key in keys(context) if key.startswith(incomplete)]


def recipes_and_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return recipes and files; after the first one, or for a word that has begun, keys of settings
    too.
    """
    return recipes(context, parameter, incomplete) + later_settings(context, parameter, incomplete)


def runs_and_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return files; after the first run, or for a word that has begun, keys of settings too."""
    return [
        CompletionItem(incomplete, type="file"),
        *later_settings(context, parameter, incomplete),
    ]


def later_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the keys of settings, unless nothing is written yet."""
    return settings(context, parameter, incomplete) if incomplete or any(named(context)) else []


def keys(context: click.Context) -> Iterable[str]:
    """Return the dotted keys that can be set."""
    for name in named(context):
        folder = Path(name)
        try:
            composed = compose(str(folder / RECIPE) if (folder / RECIPE).is_file() else name)
        except (UserError, OSError):
            continue
        return [key for key, _ in leaves(to_dict(composed.recipe))]
    return [key for key, _ in leaves(to_dict(Recipe()))]


def named(context: click.Context) -> Iterator[str]:
    """Yield the arguments so far that may name recipes or runs."""
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            value = context.params.get(parameter.name or "")
            words = value if isinstance(value, tuple) else (value,)
            yield from (str(word) for word in words if word and not is_override(str(word)))
