"""CPU seconds of the parts of an evaluation, beside decoding.

    OMP_NUM_THREADS=1 python benchmarks/evaluation.py RUN [RUN ...] [data.path=DIR] [--examples 400] [--split test]

One thread, one process, so that another process costs little; a stage of several threads takes less. References are
scored and decoded for N examples spread over the split; these figures and those of text metrics are scaled to the whole
split (column "scaled"). The other stages are measured as they are. "once" is paid once for a corpus or a comparison,
the others for each run. The last rows are for 10 runs: everything but decoding, and the statistics of two contenders
with five runs each, which are copies of the first evaluation with other likelihoods.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

RUNS = 10
ONCE, EACH, DECODING = "once", "each run", "decoding"


class Stages:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, float, float]] = []

    @contextmanager
    def measured(self, name: str, paid: str, scale: float = 1.0) -> Iterator[None]:
        """Add a stage; ``scale`` is from the measured examples to the split."""
        began = time.process_time()
        yield
        seconds = time.process_time() - began
        self.rows.append((name, paid, seconds, seconds * scale))

    def total(self, paid: str) -> float:
        """Return the scaled seconds of all stages that are ``paid`` once, or for each run."""
        return sum(scaled for _, kind, _, scaled in self.rows if kind == paid)


def measure(folder: Path, overrides: list[str], split: str, count: int) -> Stages:
    """Measure one run."""
    import torch

    from dialog.analysis.baselines.kept import find_baselines
    from dialog.analysis.candidates import candidate_ranks
    from dialog.analysis.measured import read_measured, write_statistics
    from dialog.analysis.training_responses import read_training_responses
    from dialog.build import build_job
    from dialog.comparison.breakdown import breakdown, example_properties
    from dialog.comparison.history import measure_history, sample_of
    from dialog.comparison.statistics.section import statistics_section
    from dialog.data.batching import collate
    from dialog.data.examples import examples
    from dialog.data.store.pair_batches import pair_batches
    from dialog.metrics import build_metrics, detect_language
    from dialog.metrics.family import components_of
    from dialog.runs.evaluation.evaluator import Answered, Evaluator
    from dialog.runs.evaluation.metrics import Evaluation
    from dialog.runs.load import load
    from dialog.training.optimization.allocator import tune_process

    torch.set_num_threads(1)
    tune_process()
    run = load(folder, overrides=overrides)
    stages = Stages()
    job, responder = build_job(run.recipe), run.responder
    with stages.measured("read the split", EACH):
        whole = list(examples(job.corpus.dialogues(split), job.rules, Counter()))
    spread = whole[:: max(1, len(whole) // count)][:count]
    scale = len(whole) / len(spread)
    evaluator = Evaluator(responder, run.recipe.generation.search, run.recipe.data.batch_tokens)
    evaluator.scores(spread[:8])  # warm-up
    with stages.measured("likelihood of references", EACH, scale):
        scored = evaluator.scores(spread)
    pairs = responder.encode_batch(spread)
    replies: dict[int, Any] = {}
    with stages.measured("decoding", DECODING, scale):
        for rows in pair_batches(pairs, evaluator.batch_tokens):
            generated = responder.generate(collate([pairs[row] for row in rows]).source, evaluator.search)
            replies |= dict(zip(rows.tolist(), generated, strict=True))
    with stages.measured("hits@1 of 20", EACH):
        candidate_ranks(
            run.model,
            run.tokenizer,
            lambda: iter(whole),
            max_source=responder.max_source,
            layout=responder.layout,
        )
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / str(number) for number in range(RUNS)]
        for evaluation_folder in folders:
            evaluation_folder.mkdir()
        sample = sample_of(run, split)
        with stages.measured(f"history ({len(sample)} examples)", EACH):
            measure_history(run, folders[0], sample)
        with stages.measured("training responses", ONCE):
            training = read_training_responses(job)
        language = detect_language(example.response.text for example in whole)
        answers = [
            Answered(example, score, replies[row][0])
            for row, (example, score) in enumerate(zip(spread, scored, strict=True))
        ]
        answers = [answers[number % len(answers)] for number in range(len(whole))]
        for number, evaluation_folder in enumerate(folders):
            evaluation = Evaluation(build_metrics([], language=language), training=training, ranks={})
            own = [
                answered._replace(
                    example=replace(answered.example, id=f"{row}", dialogue_id=whole[row].dialogue_id),
                    scored=answered.scored._replace(nll=answered.scored.nll * (1 + 0.001 * number)),
                )
                for row, answered in enumerate(answers)
            ]
            write = stages.measured("text metrics", EACH) if number == 0 else stages.measured("", "not counted")
            with write:
                evaluation.write(own, evaluation_folder / "responses.jsonl")
                evaluation.metrics(split)
                target = evaluation_folder / "statistics.safetensors"
                write_statistics(target, evaluation.measurement, components_of([]), language)
        os.environ["DIALOG_CACHE"] = temporary
        with stages.measured("reference rows", ONCE):
            find_baselines(job, split, [], language=language, quiet=True)
        with stages.measured("comparison: read evaluations", ONCE):
            measured = [read_measured(evaluation_folder) for evaluation_folder in folders]
        with stages.measured("comparison: statistics", ONCE):
            statistics_section({"A": measured[: RUNS // 2], "B": measured[RUNS // 2 :]})
        with stages.measured("comparison: breakdown", ONCE):
            breakdown({"A": folders[: RUNS // 2], "B": folders[RUNS // 2 :]}, *example_properties(run.recipe, split))
    return stages


def main() -> None:
    """Print a table for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arguments", nargs="+", metavar="RUN or KEY=VALUE")
    parser.add_argument("--examples", type=int, default=400, help="examples that are scored and decoded")
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    overrides = [argument for argument in options.arguments if "=" in argument]
    for folder in (Path(argument) for argument in options.arguments if "=" not in argument):
        stages = measure(folder, overrides, options.split, options.examples)
        print(f"\n{folder.name}\n\n| stage | paid | CPU s | scaled |\n| --- | --- | ---: | ---: |")
        for name, paid, seconds, scaled in stages.rows:
            if name:
                print(f"| {name} | {paid} | {seconds:.1f} | {scaled:.1f} |")
        every, once = stages.total(EACH), stages.total(ONCE)
        print(f"| {RUNS} runs, without decoding | | | {RUNS * every + once:.0f} |")
        print(f"| the same on two cores, at best | | | {(RUNS * every + once) / 2:.0f} |", flush=True)


if __name__ == "__main__":
    main()
