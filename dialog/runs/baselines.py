"""Reference rows of an evaluated split, computed once and kept in the cache folder for all runs."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import lock, write_text
from dialog.build import build_job
from dialog.config.schema import Recipe, to_dict
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.paths import cache
from dialog.runs.folder import hash_of

if TYPE_CHECKING:
    from torchmetrics import Metric

    from dialog.analysis.baselines.rows import Baselines
    from dialog.data.preparation.job import Job

CODE = ("analysis/baselines", "data", "metrics")
"""Folders of the package whose code determines the rows."""

log = logging.getLogger("dialog")


def find_baselines(recipe: Recipe, split: str, corpus: str | None, language: str) -> Baselines | None:
    """Return leaks and reference rows of a split; None, with a warning, without a training split to compare it with.

    They depend on the corpus, the rules, the filters, the split and the metrics, not on a model. The file in the cache
    is used if all of these, the code and its own hash agree, and computed again otherwise.

    Args:
        recipe: Recipe of a run.
        split: The evaluated split.
        corpus: Hash of the corpus; None if files are missing.
        language: Language of the references.
    """
    from dialog.data.preparation.job import without_paths
    from dialog.metrics import build_metrics

    try:
        if split == "train":
            raise UserError("the training split itself is evaluated")
        job = build_job(recipe)
        if corpus is None:
            job.corpus.fingerprint()  # raises the error that names the missing file
        values = to_dict(recipe)
        settings = {
            **{key: without_paths(values["data"][key]) for key in ("corpus", "filters")},
            **vars(job.rules),
            "metrics": values["metrics"],
            "fingerprint": corpus,
            "split": split,
            "language": language,
            "code": hash_code(build_metrics(recipe.metrics, language=language).values()),
        }
        file = cache() / "baselines" / f"{job.component['name']}-{split}-{hash_of(settings)[:16]}.json"
        return kept(file, settings, lambda: _computed(job, split, recipe, language))
    except UserError as error:
        log.warning("no reference rows, and no subsets of clean and leaked dialogues: %s", error)
        return None


def _computed(job: Job, split: str, recipe: Recipe, language: str) -> Baselines:
    from dialog.analysis.baselines.rows import compute_baselines
    from dialog.metrics import Measurement, build_metrics

    return compute_baselines(job, split, lambda: Measurement(build_metrics(recipe.metrics, language=language)))


def hash_code(metrics: Iterable[Metric]) -> str:
    """Return the SHA-256 of the package's code for the rows, and of the files that define the metrics."""
    package = Path(__file__).parents[1]
    files = {file for folder in CODE for file in (package / folder).rglob("*.py")}
    files |= {Path(inspect.getfile(type(metric))) for metric in metrics}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def kept(file: Path, settings: dict[str, Any], compute: Callable[[], Baselines]) -> Baselines:
    """Return the baselines of a cache file; if it is missing, damaged or of other settings, compute and write it.

    Of several processes, one computes and the others wait. Without a writable folder they are computed every time.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock(file.with_suffix(".lock"), wait=True))
        if (baselines := _read(file, settings)) is not None:
            return baselines
        content = {"settings": settings, **compute()._asdict()}
        text = to_json({"sha256": hash_of(json.loads(to_json(content))), **content}, indent=1)
        try:
            write_text(file, text + "\n")
        except OSError as error:
            log.warning("%s: cannot be written (%s); the next evaluation computes it again", file, error.strerror)
        return _baselines(json.loads(text))


def _read(file: Path, settings: dict[str, Any]) -> Baselines | None:
    """Return the content of a cache file; None if it is missing, damaged or of other settings."""
    try:
        content = json.loads(file.read_bytes())
        stated = content.pop("sha256")
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    intact = stated == hash_of(content) and content["settings"] == json.loads(json.dumps(settings))
    return _baselines(content) if intact else None


def _baselines(content: dict[str, Any]) -> Baselines:
    from dialog.analysis.baselines.rows import Baselines

    return Baselines(content["leaked"], content["subsets"])
