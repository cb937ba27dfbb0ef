"""Files of an evaluation folder, and their hashes in its ``manifest.json``.

    metrics.json             the metrics; a folder without it is no evaluation
    responses.jsonl          one line per example
    statistics.safetensors   what each response contributes to the metrics
    cost.json                measured times; the files above depend on weights, settings and data
    context_use.json         added by a comparison, as attention.json is; measured again if changed
    manifest.json            SHA-256 of all of these, and of weights, settings and data

Older versions wrote no manifest; their files are used with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dialog.analysis.measured import RESPONSES, STATISTICS
from dialog.atomic import beside, rename, sync, write_json
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.training.checkpoints.manifest import (
    INPUTS,
    MANIFEST,
    check_intact,
    is_intact,
    read_manifest,
    replacing_listed,
    write_manifest,
)

METRICS = "metrics.json"
COST = "cost.json"
FILES = (METRICS, RESPONSES, STATISTICS, COST)
"""Files that an evaluation writes; a changed one is an error."""


@contextmanager
def replacing_evaluation(
    folder: Path, metrics: Mapping[str, Any], inputs: Mapping[str, str]
) -> Iterator[None]:
    """Write metrics.json and the manifest of an evaluation, after the body has written the other
    `FILES`.

    A folder without metrics.json is no evaluation. It is removed before the body, and written after
    the manifest that lists it, so a process that is killed leaves the old evaluation, the new one
    or none.

    Args:
        folder: Folder of the evaluation, created if it is missing.
        metrics: Content of metrics.json.
        inputs: SHA-256 of what the files are computed from, by the names `INPUTS`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (METRICS, MANIFEST):
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    yield
    with beside(folder / METRICS) as new:
        new.write_text(to_json(metrics, indent=1) + "\n", encoding="utf-8", newline="\n")
        sync(new)
        others = {name: sha256(folder / name) for name in FILES if (folder / name).is_file()}
        write_manifest(folder, {**inputs, **others, METRICS: sha256(new)})
        rename(new, folder / METRICS)


def check_evaluation(folder: Path) -> bool:
    """Check the `FILES` of an evaluation against its manifest; return False if it has none.

    Raises:
        UserError: a file has changed, or the manifest is damaged.
    """
    if read_manifest(folder) is None:
        return False
    for name in FILES:
        if (folder / name).is_file():
            check_intact(
                folder / name, f"restore it from a copy, or remove {folder} and measure again"
            )
    return True


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the `FILES` of an evaluation, and of its `INPUTS` as far as its
    manifest lists them.
    """
    listed = read_manifest(folder) or {}
    inputs = {name: listed[name] for name in INPUTS if name in listed}
    return inputs | {name: sha256(folder / name) for name in FILES if (folder / name).is_file()}


# ------------------------------------------------------------------ files that are added


def read_added(path: Path, *keys: str) -> dict[str, Any] | None:
    """Read a JSON file that was added to an evaluation; None if it is missing, damaged or
    changed.
    """
    try:
        return None if is_intact(path) is False else read_json(path, *keys)
    except UserError:
        return None


def write_added(path: Path, content: Mapping[str, Any]) -> None:
    """Add a JSON file to an evaluation; it is listed in the manifest, if there is one."""
    if read_manifest(path.parent) is None:  # a new one would not list the other files
        write_json(path, content)
        return
    with replacing_listed(path) as new:
        new.write_text(to_json(content, indent=1) + "\n", encoding="utf-8", newline="\n")
