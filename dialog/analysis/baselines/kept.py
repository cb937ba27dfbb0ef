"""Reference rows in the cache folder: computed once for all runs of a corpus, its rules and a
split.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dialog.analysis.baselines.rows import ROWS, Baselines, compute_baselines
from dialog.atomic import lock, write_text
from dialog.config.components import Component
from dialog.data.preparation.job import Job, without_paths
from dialog.errors import UserError
from dialog.escaping import json_copy
from dialog.metrics.family import build_metrics
from dialog.metrics.measurement import Measurement
from dialog.metrics.scores.additive import AdditiveScore
from dialog.metrics.scores.counts import CountScore
from dialog.paths import cache
from dialog.ranks import rank

CODE = ("analysis/baselines", "data", "metrics")
"""Folders of the package whose code determines the rows."""

log = logging.getLogger("dialog")


def find_baselines(
    job: Job, split: str, components: Sequence[Component], *, language: str, quiet: bool = False
) -> Baselines | None:
    """Return leaks and reference rows of a split; None, with a warning, without a training split to
    compare it with.

    They depend on the corpus, the rules, the filters, the split and the metrics, not on a model.
    The file in the cache is used if all of these, the code and its own hash agree; otherwise it is
    computed again.

    Args:
        job: Corpus, rules and filters.
        split: The evaluated split.
        components: Metrics that a recipe adds.
        language: Language of the references.
        quiet: Whether to show no progress bar.
    """
    try:
        if split == "train":
            raise UserError("the training split itself is evaluated")
        settings = {
            "corpus": without_paths(job.component),
            "sources": dict(job.corpus.fingerprint()),
            "rules": asdict(job.rules),
            "filters": [without_paths(component) for component in job.filters],
            "split": split,
            "metrics": [dict(component) for component in components],
            "language": language,
            "code": hash_code(build_metrics(components, language=language).values()),
        }

        def build() -> Measurement:
            metrics = build_metrics(components, language=language)
            kinds = AdditiveScore | CountScore
            return Measurement(
                {key: metric for key, metric in metrics.items() if isinstance(metric, kinds)}
            )

        def compute() -> Baselines:
            hidden = True if quiet or rank() else None
            with tqdm(
                desc="reference rows", unit="row", total=ROWS, disable=hidden, leave=False
            ) as bar:
                return compute_baselines(job, split, build, bar.update)

        file = (
            cache() / "baselines" / f"{job.component['name']}-{split}-{_hash(settings)[:16]}.json"
        )
        return read_or_compute(file, settings, compute)
    except UserError as error:
        if not rank():
            log.warning(
                "no reference rows, and no subsets of clean and leaked dialogues: %s", error
            )
        return None


def hash_code(metrics: Iterable[object]) -> str:
    """Return the SHA-256 of the package's code for the rows, and of the files that define the
    metrics.
    """
    package = Path(__file__).parents[2]
    files = {file for folder in CODE for file in (package / folder).rglob("*.py")}
    files |= {Path(inspect.getfile(type(metric))) for metric in metrics}
    digests = (hashlib.sha256(file.read_bytes()).digest() for file in sorted(files))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def read_or_compute(
    file: Path, settings: dict[str, Any], compute: Callable[[], Baselines]
) -> Baselines:
    """Return the content of a cache file; if it is missing, damaged or of other settings, compute
    and write it.

    Of several processes, one computes and the others wait. Without a writable folder, every call
    computes.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock(file.with_suffix(".lock"), wait=True))
        baselines = read(file, settings)
        if baselines is None:
            content = json_copy({"settings": settings, **compute()._asdict()})
            baselines = Baselines(content["leaked"], content["subsets"])
            try:
                write_text(file, json.dumps({**content, "sha256": _hash(content)}, indent=1) + "\n")
            except OSError as error:
                log.warning(
                    "%s: not written (%s); reference rows are computed every time",
                    file,
                    error.strerror,
                )
        return baselines


def read(file: Path, settings: dict[str, Any]) -> Baselines | None:
    """Return the content of a cache file; None if it is missing, damaged or of other settings."""
    try:
        content = json.loads(file.read_bytes())
        stated = content.pop("sha256")
        intact = stated == _hash(content) and content["settings"] == json_copy(settings)
        return Baselines(content["leaked"], content["subsets"]) if intact else None
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return None


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
