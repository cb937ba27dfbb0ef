"""One row for each shipped recipe, read from its YAML and that of its groups without
composing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dialog.config.compose import shipped_folder, shipped_recipes
from dialog.config.yaml_layers import read_yaml


def summaries() -> list[dict[str, Any]]:
    """Return name, description, corpus, model, cost and expected results of each shipped recipe."""
    return [summary(name, path) for name, path in shipped_recipes().items()]


def summary(name: str, path: Path) -> dict[str, Any]:
    """Return the row of a recipe."""
    values = read(path)
    about = values.get("about", {})
    return {
        "name": name,
        "summary": about.get("summary", ""),
        "corpus": part(values, "data", "corpus"),
        "encoder": part(values, "model", "encoder"),
        "decoder": part(values, "model", "decoder"),
        "parameters": about.get("parameters"),
        "cost": about.get("cost", ""),
        "expect": values.get("expect", []),
    }


def part(values: Mapping[str, Any], section: str, key: str) -> str:
    """Return the name of a component: that in the recipe's own lines, else that in the group which
    it chooses.
    """
    own = values.get(section, {}).get(key, {})
    if "name" in own:
        return str(own["name"])
    group = shipped_folder("configs") / section / f"{values['defaults'][section]}.yaml"
    return str(read(group)[key]["name"])


@cache
def read(path: Path) -> dict[str, Any]:
    """Read a file of the package."""
    return read_yaml(path).values
