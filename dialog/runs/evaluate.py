"""Evaluate a run on one split of its corpus."""

from __future__ import annotations

from typing import Any

from dialog.atomic import rename, sync, write_json
from dialog.build import build_corpus, build_rules
from dialog.errors import section
from dialog.ranks import rank, world_size
from dialog.runs.run import Run


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
    return metrics
