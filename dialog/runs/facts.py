"""Facts about a run that pages show: parts, size, corpus and results; openings of its corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.runs.folder import read_summary
from dialog.runs.run import Run

FACTS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "parameters": "parameters",
    "corpus": "trained on",
    "weights": "weights stored as",
}
"""Labels of the facts that have one."""
RESULTS = ("f1", "sacrebleu", "perplexity_word", "distinct_2")
"""Metrics of the test split that a page shows."""
READ_EXAMPLES = 20_000
"""Examples among which openings are drawn: a page should not wait for a large corpus."""
MOST_CHARACTERS = 160
"""Characters of an opening; longer ones are left out."""


def run_facts(run: Run) -> dict[str, Any]:
    """Return what a run is: its parts, number of parameters and corpus."""
    from dialog.models.seq2seq import count_parameters

    return {
        "encoder": run.recipe.model.encoder["name"],
        "decoder": run.recipe.model.decoder["name"],
        "parameters": count_parameters(run.model)["total"],
        "corpus": data_label(run.recipe),
    }


def data_label(recipe: Recipe) -> str:
    """Return the name of the user's file or folder, if there is one, and of the corpus."""
    corpus = str(recipe.data.corpus["name"])
    return f"{Path(recipe.data.path).name} ({corpus})" if recipe.data.path else corpus


def labelled_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return labels and texts of the facts that have a label."""
    return [
        (label, f"{value:,}" if isinstance(value := facts[key], int) else str(value))
        for key, label in FACTS.items()
        if key in facts
    ]


def labelled_results(run: Run) -> list[tuple[str, str]]:
    """Return labels and texts of the training time and of results on the test split, as far as
    they are known.
    """
    from dialog.report.formats.metrics import METRIC_DISPLAYS, metric_at
    from dialog.report.formats.numbers import duration

    labelled = []
    metrics: Mapping[str, Any] = {}
    with suppress(UserError, OSError):
        if summary := read_summary(run.folder):
            labelled.append(("trained for", duration(summary.seconds)))
    with suppress(UserError, OSError):
        metrics = read_json(run.folder / "evaluation" / "test" / "metrics.json", "examples")
        labelled.append(("test examples", f"{metrics['examples']:,}"))
    for name in RESULTS:
        if (value := metric_at(metrics, name)) is not None:
            display = METRIC_DISPLAYS[name]
            labelled.append((display.label, display.format(value)))
    return labelled


def openings(run: Run, count: int) -> list[str]:
    """Return first turns of dialogues in the validation split of a run's corpus, drawn uniformly
    from its beginning; equal ones once.

    Raises:
        UserError: the corpus cannot be read.
    """
    from dialog.analysis.reservoir import Reservoir
    from dialog.build import build_job
    from dialog.data.examples import examples

    job = build_job(run.recipe)
    stream = examples(job.corpus.dialogues("validation"), job.rules, Counter())
    turns = (
        example.context[0].text
        for example in islice(stream, READ_EXAMPLES)
        if len(example.context) == 1
    )
    reservoir = Reservoir[str](count)
    for text in dict.fromkeys(turns):
        if len(text) <= MOST_CHARACTERS:
            reservoir.add(text)
    return reservoir.items
