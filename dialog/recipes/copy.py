"""Copy a recipe with the groups that it composes."""

from __future__ import annotations

from pathlib import Path

from dialog.atomic import write_text
from dialog.config.compose import compose, find_recipe, group_files, is_path
from dialog.config.yaml_layers import read_yaml
from dialog.errors import UserError
from dialog.paths import created_folder
from dialog.version import __version__

RUN = "# Run: "
"""Begins the line of a shipped recipe with the command that runs it by its name."""


def copy_recipe(name: str, destination: Path) -> Path:
    """Copy a recipe and its groups into a new folder; return the copy, which composes to the same
    recipe.

        DEST/<recipe>.yaml              stamped with the name and version it was copied from
        DEST/configs/<group>/<choice>   take precedence over the groups of the package

    Raises:
        UserError: an unknown or invalid recipe, or the destination exists or is named like a
            recipe.
    """
    if is_path(destination.name):
        raise UserError(
            f"{destination}: DEST is a new folder for the copy; name it without"
            f" {destination.suffix}"
        )
    compose(name)
    source = find_recipe(name)
    groups = group_files(source)
    files = {source: Path(source.name)}
    for group, choice in read_yaml(source).values.get("defaults", {}).items():
        files[groups[group][str(choice)]] = Path("configs") / group / f"{choice}.yaml"
    label = source.name if is_path(name) else name
    with created_folder(destination, "DEST") as new:
        for path, target in files.items():
            (new / target).parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            if path == source:  # the name of the original would run the original
                stamp = (
                    f"{label} of dialog-seq2seq {__version__}; `expect` is that of the original."
                )
                lines = [line for line in lines if not line.startswith(RUN)]
            else:
                stamp = f"{path.stem} of dialog-seq2seq {__version__}."
            write_text(new / target, f"# Copied from {stamp}\n{''.join(lines)}")
    return destination / source.name
