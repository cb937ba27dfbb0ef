"""Responses of a trained run in bfloat16 and int8, compared with float32.

    python benchmarks/generation_precision.py RUN [KEY=VALUE ...] [--examples 200] [--split test]

Columns: share of responses equal to those of float32; mean log-probability per response, in nats, that the float32
network gives to both; mean difference between a response's own score and the one that float32 gives to it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from statistics import fmean

from dialog.build import build_job
from dialog.config.components import Component
from dialog.data.batching import collate
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.data.tokenizers.tokenizer import BOS
from dialog.runs.evaluation.evaluator import Evaluator
from dialog.runs.load import load
from dialog.runs.run import Run

SEARCHES: Sequence[Component] = ({"name": "greedy"}, {"name": "beam", "width": 5})
PRECISIONS = ("float32", "bfloat16", "int8")
BATCH = 32


def answers(run: Run, chosen: Sequence[Example], search: Component) -> list[tuple[tuple[int, ...], float]]:
    """Return the ids of the response to each example, and its score."""
    replies = []
    for start in range(0, len(chosen), BATCH):
        pairs = [run.responder.encode(example) for example in chosen[start : start + BATCH]]
        replies += run.responder.generate(collate(pairs, range(len(pairs))).source, search)
    return [(best.ids, best.score) for best, *_ in replies]


def likelihoods(run: Run, chosen: Sequence[Example], responses: Sequence[tuple[int, ...]]) -> list[float]:
    """Return the log-probability in nats of the ids of a response to each example."""
    evaluator = Evaluator(run.responder, run.recipe.generation.search, run.recipe.data.batch_tokens)
    pairs = [(run.responder.encode(one)[0], [BOS, *ids]) for one, ids in zip(chosen, responses, strict=True)]
    return [-evaluator.score(collate([pair], range(1)))[0].nll for pair in pairs]


def main() -> None:
    """Print a row for each search and precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--split", default="test")
    parser.add_argument("--examples", type=int, default=200)
    options = parser.parse_args()
    runs = {name: load(options.run, overrides=options.overrides, precision=name) for name in PRECISIONS}
    exact = runs["float32"]
    job = build_job(exact.recipe)
    stream = examples(job.corpus.dialogues(options.split), job.rules, Counter())
    chosen = list(islice(stream, options.examples))
    print("| search | precision | equal | log-probability | score error |\n| --- | --- | ---: | ---: | ---: |")
    for search in SEARCHES:
        expected = answers(exact, chosen, search)
        for name, run in runs.items():
            replies = answers(run, chosen, search)
            responses = [ids for ids, _ in replies]
            scores = likelihoods(exact, chosen, responses)
            equal = fmean(ids == other for ids, (other, _) in zip(responses, expected, strict=True))
            error = fmean(abs(own - score) for (_, own), score in zip(replies, scores, strict=True))
            print(f"| {search['name']} | {name} | {equal:.1%} | {fmean(scores):.3f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
