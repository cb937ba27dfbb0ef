"""Files of the folder `sweeps` by their names."""

from __future__ import annotations

from pathlib import Path

from dialog.config.components import hint
from dialog.config.compose import is_path, shipped_folder
from dialog.errors import UserError


def sweep_file(folder: str, name: str, *, option: str) -> Path:
    """Return a path to YAML as it is, or the shipped file of a name in ``sweeps/<folder>``.

    Raises:
        UserError: unknown name; names the ``option`` of the command line.
    """
    if is_path(name):
        return Path(name)
    root = shipped_folder("sweeps")
    shipped = {path.stem: path for path in sorted((root / folder).glob("*.yaml"))}
    if name not in shipped:
        raise UserError(f"{option}: unknown name {name!r}{hint(name, shipped)}")
    return shipped[name]
