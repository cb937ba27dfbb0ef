"""Evaluate a run on one split of its corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dialog.atomic import rename, sync, write_json
from dialog.build import build_corpus, build_rules
from dialog.errors import section
from dialog.ranks import rank, world_size
from dialog.runs.folder import read_summary
from dialog.runs.run import Run

SAMPLES = 20
"""Largest number of responses in the table that is logged."""


def evaluate(run: Run, split: str, *, quiet: bool = False) -> dict[str, Any]:
    """Score and answer a split of the run's corpus into ``evaluation/<split>/``; return the metrics.

    Distributed ranks share the examples; only rank 0 writes and returns.

    Raises:
        SystemExit: at the end of every rank but 0.
    """
    from collections import Counter
    from itertools import chain, islice

    from tqdm import tqdm

    from dialog.analysis.alignment import AlignmentAccuracy
    from dialog.data.examples import examples
    from dialog.metrics import build_metrics, detect_language
    from dialog.runs.evaluator import BLOCK, Evaluation, Evaluator
    from dialog.training.distributed.collectives import gather_to_first

    data = run.recipe.data
    dialogues = build_corpus(run.recipe).dialogues(split)
    stream = examples(dialogues, build_rules(run.recipe), Counter())
    search = run.recipe.generation.search
    evaluator = Evaluator(
        run.responder, search, data.batch_tokens, rank=rank(), world=world_size(), gather=gather_to_first
    )
    first = list(islice(stream, BLOCK))
    with section("metrics"):
        language = detect_language(example.response.text for example in first)
        evaluation = Evaluation(build_metrics(run.recipe.metrics, language=language))
    aligned = AlignmentAccuracy()
    folder = run.folder / "evaluation" / split
    bar = tqdm(desc=f"evaluating {split}", unit="example", disable=True if quiet or rank() else None, leave=False)
    with bar:
        answers = evaluator.answers(chain(first, stream), aligned, bar.update)
        if rank():
            for _ in answers:  # yields nothing on these ranks, but must run: every block is gathered
                pass
            gather_to_first(aligned)
            raise SystemExit(0)
        partial = evaluation.write(answers, folder)
    metrics = {**evaluation.metrics(split), **AlignmentAccuracy.total(gather_to_first(aligned)).metrics()}
    sync(partial)
    rename(partial, folder / "responses.jsonl")
    write_json(folder / "metrics.json", metrics)
    log_evaluation(run, split, metrics, folder / "responses.jsonl")
    return metrics


def log_evaluation(run: Run, split: str, metrics: Mapping[str, Any], responses: Path) -> None:
    """Log the metrics, and a table of responses spread evenly over the split, to the logger of the run's recipe."""
    if run.recipe.logger.get("name") == "none":
        return
    from dialog.training.loggers import MediaLogger, build_tracker

    logger = build_tracker(run.recipe.logger, run.folder)
    summary = read_summary(run.folder)
    if logger is None:
        return
    step = summary.steps if summary is not None else 0
    logger.log_metrics(dict(numbers(metrics, split)), step)
    if isinstance(logger.tracker, MediaLogger):
        lines = responses.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines[:: max(1, -(-len(lines) // SAMPLES))]]
        table = [["\n".join(row["context"]), row["reference"], row["response"]] for row in rows]
        logger.submit(logger.tracker.log_table, f"{split}/responses", ["context", "reference", "response"], table, step)
    logger.close()


def numbers(metrics: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested metrics, with keys joined by slashes."""
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}/{key}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}/{key}", value
