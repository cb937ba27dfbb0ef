"""Evaluate a run on one split of its corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dialog.analysis.measured import RESPONSES, STATISTICS, write_statistics
from dialog.atomic import beside, rename, sync, write_json
from dialog.build import build_job
from dialog.config.components import Component
from dialog.config.schema import Recipe, to_dict
from dialog.data.corpora import Corpus
from dialog.data.reading.files import sha256
from dialog.errors import UserError, section
from dialog.json_files import read_json
from dialog.ranks import rank, world_size
from dialog.runs.folder import ENVIRONMENT, WEIGHTS, hash_of, read_recipe, read_summary
from dialog.runs.load import with_precision
from dialog.runs.run import Run
from dialog.training.checkpoints.manifest import check_intact

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
METRICS = "metrics.json"
COST = "cost.json"
"""Measured times, which differ from run to run; metrics.json depends on weights, data and settings only."""


class Evaluated(NamedTuple):
    """Folder of an evaluation, and the content of its metrics.json."""

    folder: Path
    metrics: dict[str, Any]


def evaluate(
    run: Run, split: str, *, name: str | None = None, precision: str = EXACT, quiet: bool = False
) -> Evaluated:
    """Score and answer a split of the run's corpus; write its metrics, responses, their statistics, and the cost.

    ``evaluation/<split>/`` is for the settings and the data of the run's own recipe. With others, and with a name, the
    folder is ``evaluation/<split>-<hash or name>/``. Distributed ranks share the examples; only rank 0 writes and
    returns. Responses are generated in ``precision`` (see `load`), a setting; everything else is computed in float32.

    Raises:
        UserError: the name is invalid, or taken by an evaluation with other settings; the run was not loaded in
            float32; or an unknown or unsupported precision.
        SystemExit: at the end of every rank but 0.
    """
    from collections import Counter
    from itertools import chain, islice

    from tqdm import tqdm

    from dialog.analysis.attention.alignment import AlignmentAccuracy
    from dialog.analysis.baselines.kept import find_baselines
    from dialog.analysis.candidates import candidate_ranks, joined
    from dialog.analysis.training_responses import read_training_responses
    from dialog.data.examples import examples
    from dialog.metrics import build_metrics, detect_language
    from dialog.metrics.family import components_of
    from dialog.runs.evaluator import BLOCK, Evaluation, Evaluator
    from dialog.training.distributed.collectives import gather_to_first
    from dialog.training.optimization.allocator import keep_freed_memory

    if run.precision != EXACT:
        raise UserError(f"{run.folder}: loaded in {run.precision}; load it in {EXACT} and evaluate with a precision")
    keep_freed_memory()
    data = run.recipe.data
    job = build_job(run.recipe)
    settings = settings_of(run.recipe, corpus_hash(job.corpus), run.others, precision)
    if run.ablated:
        settings[ABLATED] = list(run.ablated)
    if name is not None:
        check_name(name, run.folder / "evaluation" / f"{split}-{name}", settings)
    stream = examples(job.corpus.dialogues(split), job.rules, Counter())
    search = run.recipe.generation.search
    generator = run if precision == EXACT else with_precision(run, precision)
    generator.responder.search(search)  # before all else, so that an error costs no time
    evaluator = Evaluator(
        run.responder,
        search,
        data.batch_tokens,
        rank=rank(),
        world=world_size(),
        gather=gather_to_first,
        generator=generator.responder,
    )
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
        lambda: examples(job.corpus.dialogues(split), job.rules, Counter()),
        max_source=run.responder.max_source,
        layout=run.responder.layout,
        rank=rank(),
        world=world_size(),
    )
    shards = gather_to_first(ranks)
    aligned = AlignmentAccuracy()
    evaluations = run.folder / "evaluation"
    evaluations.mkdir(exist_ok=True)
    bar = tqdm(desc=f"evaluating {split}", unit="example", disable=True if quiet or rank() else None, leave=False)
    with bar, beside(evaluations / RESPONSES) as partial:
        answers = evaluator.answers(chain(first, stream), aligned, bar.update)
        if rank():
            for _ in answers:  # yields nothing on these ranks, but must run: every block is gathered
                pass
            gather_to_first((aligned, evaluator.decoding.total))
            raise SystemExit(0)
        evaluation = Evaluation(built, training=read_training_responses(job), ranks=joined(shards))
        evaluation.write(answers, partial)
        metrics = evaluation.metrics(split)
        alignments, seconds = zip(*gather_to_first((aligned, evaluator.decoding.total)), strict=True)
        metrics |= AlignmentAccuracy.total(alignments).metrics()
        metrics |= {key: settings[key] for key in (*KEPT, ABLATED) if key in settings} | {
            "weights": sha256(run.folder / WEIGHTS)
        }
        if baselines is not None:
            metrics |= baselines.metrics(evaluation.measurement, evaluation.dialogue_ids)
        leaked = None if baselines is None else baselines.is_leaked(evaluation.dialogue_ids)
        suffix = name or suffix_of(run.folder, settings, metrics["fingerprint"])
        folder = evaluations / (f"{split}-{suffix}" if suffix else split)
        folder.mkdir(exist_ok=True)
        sync(partial)
        (folder / METRICS).unlink(missing_ok=True)
        rename(partial, folder / RESPONSES)
        write_statistics(folder / STATISTICS, evaluation.measurement, components, language, leaked)
        write_json(folder / COST, {"responses": metrics["examples"], "decoding_seconds": sum(seconds)})
        write_json(folder / METRICS, metrics)  # last: with it the evaluation is complete
    if run.recipe.logger.get("name") != "none":
        from dialog.training.loggers.evaluation import log_evaluation

        summary = read_summary(run.folder)
        logged = {key: value for key, value in metrics.items() if key not in settings}
        log_evaluation(run.recipe.logger, run.folder, folder, logged, step=summary.steps if summary is not None else 0)
    return Evaluated(folder, metrics)


def current_evaluation(folder: Path, recipe: Recipe, split: str, corpus: str | None) -> Evaluated | None:
    """Return a complete evaluation of a run's present weights, with a recipe's settings and data, or None.

    ``corpus`` is the hash of the corpus; None if its files are missing, and any is then accepted.
    """
    for metrics_file in sorted((folder / "evaluation").glob(f"{split}*/{METRICS}")):
        try:
            metrics = read_json(metrics_file, *KEPT, "weights")
        except UserError:  # damaged, or of an older version
            continue
        settings = settings_of(recipe, metrics["data"].get("fingerprint") if corpus is None else corpus)
        same = has_settings(metrics, settings)
        complete = all((metrics_file.parent / name).is_file() for name in (RESPONSES, STATISTICS))
        if same and complete and metrics["weights"] == sha256(folder / WEIGHTS):
            return Evaluated(metrics_file.parent, metrics)
    return None


def settings_of(
    recipe: Recipe, corpus: str | None, others: Sequence[Path] = (), precision: str = EXACT
) -> dict[str, Any]:
    """Return everything that an evaluation depends on but the run's own weights.

    ``corpus`` is the hash of the corpus; ``others`` are the other runs of an ensemble, recorded by their weights. The
    precision of generation is recorded unless it is float32.
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
    return {**settings, "generation": generation, "data": {**data, "fingerprint": corpus}}


def with_reverse_weights(search: Component) -> Component:
    """Return the search ``mmi`` with the SHA-256 of its reverse model's weights for its folder, others as they are."""
    weights = Path(search.get("reverse", "")) / WEIGHTS
    return {**search, "reverse": sha256(weights)} if "reverse" in search and weights.is_file() else search


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
    """Return the hash of settings and text that are not those of the run's own recipe; empty if they are."""
    environment = {}
    if (folder / ENVIRONMENT).is_file():
        check_intact(folder / ENVIRONMENT)
        environment = read_json(folder / ENVIRONMENT)
    corpus = environment.get("corpus", settings["data"]["fingerprint"])  # older versions did not record it
    own = settings_of(read_recipe(folder), corpus)
    return "" if settings == own else hash_of([settings, text])[:8]


def check_name(name: str, folder: Path, settings: dict[str, Any]) -> None:
    """Check that a name is valid, and not taken by an evaluation with other settings."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise UserError(f"--name {name!r}: use letters, digits, '.', '_' and '-' only")
    if (folder / METRICS).is_file():
        before = read_json(folder / METRICS)
        if not has_settings(before, settings):
            raise UserError(f"--name {name}: {folder} has an evaluation with other settings or data; use another name")
