"""Settings that an evaluation depends on, the folder of a run that belongs to them, and its files.

    metrics.json             the metrics; a folder without it is no evaluation
    responses.jsonl          one line per example
    statistics.safetensors   what each response contributes to the metrics
    cost.json                measured times; the files above depend on weights, settings and data
    context_use.json         added by a comparison, as attention.json is; measured again if changed
    manifest.json            SHA-256 of all of these, and of weights, settings and data

Older versions wrote no manifest; their files are used with a warning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dialog.analysis.measured import RESPONSES, STATISTICS
from dialog.atomic import beside, rename, sync, write_json
from dialog.config.components import Component
from dialog.config.schema import Recipe, to_dict
from dialog.data.corpora import Corpus
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.runs.folder import ENVIRONMENT, WEIGHTS, hash_of, read_recipe
from dialog.training.checkpoints.manifest import (
    INPUTS,
    MANIFEST,
    check_intact,
    is_intact,
    read_manifest,
    replacing_listed,
    write_manifest,
)

# ------------------------------------------------------------------ files of an evaluation


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


USED = ("model", "data", "generation", "metrics")
"""Sections of a recipe on which an evaluation depends."""
UNUSED = ("path", "batch_tokens", "static_shapes")
"""Keys of the section ``data`` that change no result."""
KEPT = ("generation", "data")
"""Sections that metrics.json records."""
ABLATED = "ablated"
"""Key of metrics.json and of the settings: the attention heads that were removed, if any."""
EXACT = "float32"
"""The precision of everything but generation."""

log = logging.getLogger("dialog")


class Evaluated(NamedTuple):
    """Folder of an evaluation, and the content of its metrics.json."""

    folder: Path
    metrics: dict[str, Any]


def current_evaluation(
    folder: Path, recipe: Recipe, split: str, corpus: str | None
) -> Evaluated | None:
    """Return a complete evaluation of a run's present weights, with a recipe's settings and data,
    or None.

    ``corpus`` is the hash of the corpus; None if its files are missing, and any is then accepted.
    An evaluation without a manifest is returned with a warning.

    Raises:
        UserError: a file of the evaluation has changed since it was written.
    """
    for metrics_file in sorted((folder / "evaluation").glob(f"{split}*/{METRICS}")):
        try:
            metrics = read_json(metrics_file, *KEPT, "weights")
        except UserError:  # damaged, or of an older version
            continue
        data = metrics["data"] if isinstance(metrics["data"], dict) else {}
        settings = settings_of(recipe, data.get("fingerprint") if corpus is None else corpus)
        same = has_settings(metrics, settings)
        complete = all((metrics_file.parent / name).is_file() for name in (RESPONSES, STATISTICS))
        if same and complete and metrics["weights"] == sha256(folder / WEIGHTS):
            if not check_evaluation(metrics_file.parent):
                log.warning(
                    "WARNING: %s: not verified, it has no %s", metrics_file.parent, MANIFEST
                )
            return Evaluated(metrics_file.parent, metrics)
    return None


def settings_of(
    recipe: Recipe,
    corpus: str | None,
    others: Sequence[Path] = (),
    precision: str = EXACT,
    ablated: Sequence[str] = (),
) -> dict[str, Any]:
    """Return everything that an evaluation depends on but the run's own weights.

    ``corpus`` is the hash of the corpus; ``others`` are the other runs of an ensemble, recorded by
    their weights. The precision of generation is recorded unless it is float32, and the removed
    attention heads if there are any.
    """
    from dialog.data.preparation.job import without_paths

    values = to_dict(recipe)
    settings = {key: value for key, value in values.items() if key in USED}
    data = {key: without_paths(value) for key, value in values["data"].items() if key not in UNUSED}
    search = with_reverse_weights(values["generation"]["search"])
    generation = {**values["generation"], "search": search}
    if others:
        generation["ensemble"] = [sha256(folder / WEIGHTS) for folder in others]
    if precision != EXACT:
        generation["precision"] = precision
    removed = {ABLATED: list(ablated)} if ablated else {}
    return {
        **settings,
        "generation": generation,
        "data": {**data, "fingerprint": corpus},
        **removed,
    }


def with_reverse_weights(search: Component) -> Component:
    """Return the search ``mmi`` with the SHA-256 of its reverse model's weights for its folder,
    others as they are.
    """
    weights = Path(search.get("reverse", "")) / WEIGHTS
    return (
        {**search, "reverse": sha256(weights)}
        if "reverse" in search and weights.is_file()
        else search
    )


def has_settings(metrics: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether a metrics.json records these settings."""
    return all(metrics.get(key) == settings.get(key) for key in (*KEPT, ABLATED))


def corpus_hash(corpus: Corpus) -> str | None:
    """Return the SHA-256 of a corpus's fingerprint; None if it lacks files that training needs."""
    try:
        return hash_of(dict(corpus.fingerprint()))
    except UserError:
        return None


def suffix_of(folder: Path, settings: dict[str, Any], text: str) -> str:
    """Return the hash of settings and text that are not those of the run's own recipe; empty if
    they are.
    """
    environment = {}
    if (folder / ENVIRONMENT).is_file():
        check_intact(folder / ENVIRONMENT)
        environment = read_json(folder / ENVIRONMENT)
    # older versions did not record it
    corpus = environment.get("corpus", settings["data"]["fingerprint"])
    own = settings_of(read_recipe(folder), corpus)
    return "" if settings == own else hash_of([settings, text])[:8]


def check_name(name: str, folder: Path, settings: dict[str, Any]) -> None:
    """Check that a name is valid, and not taken by an evaluation with other settings."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(f"--name {name!r}: use letters, digits, '.', '_' and '-' only")
    if (folder / METRICS).is_file():
        before = read_json(folder / METRICS)
        if not has_settings(before, settings):
            raise UserError(
                f"--name {name}: {folder} has an evaluation with other settings or data; use"
                " another name"
            )
