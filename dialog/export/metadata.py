"""Metadata of a card, as Hugging Face reads it: library, task, licence, languages, data sets and
results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from dialog.data.reading.download_sources import DOWNLOADS, DownloadSource
from dialog.export.format import Format
from dialog.paths import display_name
from dialog.report.formats.metrics import metric_display, metric_value
from dialog.runs.evaluation.evaluated import current_evaluation
from dialog.runs.run import Run

METRICS = ("bits_per_byte", "perplexity_word", "f1", "distinct_2", "length_mean")
"""Metrics of the test split that the card shows."""
TASK = "text-generation"
LICENCES = {
    "Apache 2.0": "apache-2.0",
    "BSD 3-Clause": "bsd-3-clause",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-NC 4.0": "cc-by-nc-4.0",
    "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CDLA-Sharing 1.0": "cdla-sharing-1.0",
    "MIT": "mit",
}
"""Hugging Face's names of the licences in `DOWNLOADS`."""
GENERATED = ("builtin", "synthetic")
"""Corpora of this package, in English and under its licence."""
OWN_LICENCE = "apache-2.0"


def front_matter(run: Run, chosen: Format, results: Mapping[str, float]) -> str:
    """Return the metadata as YAML between two lines ``---``; ``results`` are those of
    `test_results`.
    """
    values = {
        "library_name": chosen.library(run),
        "pipeline_tag": TASK,
        **corpus_values(corpus_names(run)),
        "tags": ["dialogue", "dialog-seq2seq"],
        **model_index(run, results),
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False)}---"


def corpus_names(run: Run) -> list[str]:
    """Return the names of the corpora, without those that a recipe imports."""
    corpus = run.recipe.data.corpus
    names = [str(part.get("name")) for part in corpus.get("corpora", [corpus])]
    return [name for name in names if re.fullmatch(r"\w+", name)]


def corpus_values(names: list[str]) -> dict[str, Any]:
    """Return data sets, languages and licence of corpora; nothing about a user's own data."""
    published = [name for name in names if name in DOWNLOADS]
    values: dict[str, Any] = {"datasets": published} if published else {}
    if not names or not all(name in DOWNLOADS or name in GENERATED for name in names):
        return values
    sources = [DOWNLOADS[name] for name in published]
    languages = {language for source in sources for language in source.languages}
    values["language"] = sorted(languages | ({"en"} if len(sources) < len(names) else set()))
    licences = {source.licence: source for source in sources}
    if len(licences) == 1:
        [source] = licences.values()
        return values | licence_values(source)
    return values | ({"license": OWN_LICENCE} if not licences else {})


def licence_values(source: DownloadSource) -> dict[str, str]:
    """Return the licence of a corpus, with a link if Hugging Face has no name for it."""
    name = LICENCES.get(source.licence.partition(":")[0])
    if name is not None:
        return {"license": name}
    slug = re.sub(r"[^a-z0-9]+", "-", source.licence.lower()).strip("-")
    return {"license": "other", "license_name": slug, "license_link": source.page.partition(" ")[0]}


def model_index(run: Run, results: Mapping[str, float]) -> dict[str, Any]:
    """Return the results of the test split for `model-index`; empty without results."""
    names = corpus_names(run)
    if not results or not names:
        return {}
    result = {
        "task": {"type": TASK, "name": "Dialogue response generation"},
        "dataset": {"type": names[0], "name": " + ".join(names), "split": "test"},
        "metrics": [
            {"type": name, "name": metric_display(name).label, "value": round(value, 6)}
            for name, value in results.items()
        ],
    }
    return {"model-index": [{"name": display_name(run.folder), "results": [result]}]}


def test_results(run: Run) -> dict[str, float]:
    """Return the metrics of the test split; empty if the exported weights and search have none."""
    evaluated = current_evaluation(run.folder, run.recipe, "test", None)
    if evaluated is None:
        return {}
    values = {name: metric_value(evaluated.metrics.get(name)) for name in METRICS}
    return {name: value for name, value in values.items() if value is not None}
