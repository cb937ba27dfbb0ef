"""Settings that an evaluation depends on, and the folder of a run that belongs to them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dialog.analysis.measured import RESPONSES, STATISTICS
from dialog.config.components import Component
from dialog.config.schema import Recipe, to_dict
from dialog.data.corpora import Corpus
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.runs.evaluation.files import METRICS, check_evaluation
from dialog.runs.folder import ENVIRONMENT, WEIGHTS, hash_of, read_recipe
from dialog.training.checkpoints.manifest import MANIFEST, check_intact

USED = ("model", "data", "generation", "metrics")
"""Sections of a recipe on which an evaluation depends."""
UNUSED = ("path", "batch_tokens")
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
