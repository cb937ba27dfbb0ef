"""Evaluate a run on one split of its corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dialog.analysis.measured import RESPONSES, STATISTICS, write_statistics
from dialog.atomic import naming, partial_folder, rename, sync, write_json
from dialog.build import build_job
from dialog.config.trust import FULL_TRUST
from dialog.errors import UserError, section
from dialog.escaping import json_copy
from dialog.paths import check_links
from dialog.ranks import rank, world_size
from dialog.runs.evaluation.evaluated import (
    ABLATED,
    COST,
    EXACT,
    KEPT,
    Evaluated,
    check_name,
    corpus_hash,
    replacing_evaluation,
    settings_of,
    suffix_of,
)
from dialog.runs.folder import hash_of, read_summary
from dialog.runs.load import with_precision
from dialog.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dialog.data.dialogue import Example
    from dialog.runs.evaluator import Evaluator


def evaluate(
    run: Run, split: str, *, name: str | None = None, precision: str = EXACT, quiet: bool = False
) -> Evaluated:
    """Score and answer a split of the run's corpus; write metrics, responses, their statistics,
    cost and manifest.

    ``evaluation/<split>/`` is for the settings and the data of the run's own recipe. With others,
    and with a name, the folder is ``evaluation/<split>-<hash or name>/``. Distributed ranks share
    the examples; only rank 0 writes and returns. Responses are generated in ``precision`` (see
    `load`), a setting; everything else is computed in float32.

    Raises:
        UserError: the name is invalid, or taken by an evaluation with other settings; the run was
            not loaded in float32; or an unknown or unsupported precision.
        SystemExit: at the end of every rank but 0.
    """
    from collections import Counter
    from itertools import chain, islice

    from dialog.analysis.attention.alignment import AlignmentCounts
    from dialog.analysis.baselines.kept import find_baselines
    from dialog.analysis.candidates import candidate_ranks, joined
    from dialog.analysis.training_responses import read_training_responses
    from dialog.data.examples import examples
    from dialog.metrics import build_metrics, detect_language
    from dialog.metrics.scores.family import components_of
    from dialog.report.progress import ProgressBars
    from dialog.runs.evaluation.metrics import Evaluation
    from dialog.runs.evaluator import BLOCK
    from dialog.training.distributed.collectives import gather_to_first
    from dialog.training.optimization.allocator import tune_process

    if run.precision != EXACT:
        raise UserError(
            f"{run.folder}: loaded in {run.precision}; load it in {EXACT} and evaluate with a"
            " precision"
        )
    tune_process()
    job = build_job(run.recipe)
    settings = settings_of(run.recipe, corpus_hash(job.corpus), run.others, precision, run.ablated)
    if name is not None:
        check_name(name, run.folder / "evaluation" / f"{split}-{name}", settings)
    evaluator = build_evaluator(run, precision)  # before all else, so that an error costs no time

    def read() -> Iterator[Example]:
        return examples(job.corpus.dialogues(split), job.rules, Counter())

    stream = read()
    first = list(islice(stream, BLOCK))
    with section("metrics"):
        language = detect_language(example.response.text for example in first)
        components = components_of(run.recipe.metrics)
        built = build_metrics(run.recipe.metrics, language=language)
    # before decoding, so that nothing is lost if it fails; one rank computes, the others wait
    baselines = find_baselines(job, split, run.recipe.metrics, language=language, quiet=quiet)
    ranks = candidate_ranks(
        run.model,
        run.tokenizer,
        read,
        max_source=run.responder.max_source,
        layout=run.responder.layout,
        rank=rank(),
        world=world_size(),
    )
    shards = gather_to_first(ranks)
    aligned = AlignmentCounts()
    evaluations = run.folder / "evaluation"
    if run.trust != FULL_TRUST:
        check_links(run.folder, evaluations.name)
    evaluations.mkdir(exist_ok=True)
    responses = evaluations / RESPONSES
    with (
        ProgressBars(quiet=quiet or bool(rank())) as bars,
        naming(responses),
        # removes what a killed evaluation has left
        partial_folder(responses) as work,
    ):
        partial = work / RESPONSES
        answers = evaluator.answers(
            chain(first, stream),
            aligned,
            lambda done: bars.show(f"evaluating {split}", done, None),
        )
        if rank():
            # yields nothing on these ranks, but must run: every block is gathered
            for _ in answers:
                pass
            gather_to_first((aligned, evaluator.decoding.total))
            raise SystemExit(0)
        evaluation = Evaluation(built, training=read_training_responses(job), ranks=joined(shards))
        evaluation.write(answers, partial)
        alignments, seconds = zip(
            *gather_to_first((aligned, evaluator.decoding.total)), strict=True
        )
        metrics = evaluation.metrics(split, AlignmentCounts.total(alignments))
        kept = {key: settings[key] for key in (*KEPT, ABLATED) if key in settings}
        metrics |= {**kept, "weights": run.weights}
        if baselines is not None:
            metrics |= baselines.metrics(evaluation.measurement, evaluation.dialogue_ids)
        leaked = None if baselines is None else baselines.is_leaked(evaluation.dialogue_ids)
        metrics = json_copy(metrics)
        suffix = name or suffix_of(run.folder, settings, metrics["fingerprint"])
        folder = evaluations / (f"{split}-{suffix}" if suffix else split)
        inputs = {"weights": run.weights, "settings": hash_of(kept), "data": metrics["fingerprint"]}
        sync(partial)
        with replacing_evaluation(folder, metrics, inputs):
            rename(partial, folder / RESPONSES)
            write_statistics(
                folder / STATISTICS, evaluation.measurement, components, language, leaked
            )
            write_json(
                folder / COST, {"responses": metrics["examples"], "decoding_seconds": sum(seconds)}
            )
    if run.recipe.logger.get("name") != "none":
        from dialog.training.loggers import log_evaluation

        summary = read_summary(run.folder)
        logged = {key: value for key, value in metrics.items() if key not in settings}
        log_evaluation(
            run.recipe.logger,
            run.folder,
            folder,
            logged,
            step=summary.steps if summary is not None else 0,
        )
    return Evaluated(folder, metrics)


def build_evaluator(run: Run, precision: str) -> Evaluator:
    """Build the evaluator of this rank: the run scores, a copy of it in ``precision`` generates.

    Raises:
        UserError: an unknown or unsupported precision, or an invalid search.
    """
    from dialog.runs.evaluator import Evaluator
    from dialog.training.distributed.collectives import gather_to_first

    search = run.recipe.generation.search
    generator = run if precision == EXACT else with_precision(run, precision)
    generator.responder.search(search)
    return Evaluator(
        run.responder,
        search,
        run.recipe.data.batch_tokens,
        rank=rank(),
        world=world_size(),
        gather=gather_to_first,
        generator=generator.responder,
    )
