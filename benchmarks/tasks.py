"""Train each mechanism on the synthetic task that it was designed for, as the command line would.

    python benchmarks/tasks.py [--only PATTERN] [key=value ...]

Print a Markdown table. Columns: `answer_accuracy` (exact) and `alignment_accuracy` of the test
split, in-distribution (rare: of the validation split; recall: sources of 196 words only); unseen:
`answer_accuracy` out of distribution, on longer sources or, for rare, on words that no training
response contains. Steps and seconds are those of training, with OMP_NUM_THREADS threads.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dialog.config.compose import compose
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.load import load
from dialog.runs.train import train

RECURRENT = "reverse/lstm_bahdanau"
TRANSFORMER = "reverse/transformer"
SCORERS = {
    "additive": "{name: additive, size: 64}",
    "dot": "{name: dot}",
    "scaled_dot": "{name: scaled_dot}",
    "bilinear": "{name: bilinear}",
    "multi_head": "{name: multi_head, heads: 4}",
    "location": "{name: location, size: 64}",
    "local": "{name: local, size: 64}",
    "interactive": "{name: interactive, scorer: {name: additive, size: 64}}",
    "none": "{name: none}",
}
LUONG = ("bilinear", "dot")
LONGER = {"reverse": "[10,12]", "copy": "[10,12]", "sort": "[10,12]"}
EQUAL = ["model.encoder.size=64", "model.decoder.size=64"]
RARE = [
    "data.corpus.task=rare",
    "data.corpus.values=1500",
    "data.tokenizer.vocabulary=4000",
]
RECALL = [
    (
        "data.corpus={task: recall, size: 20000, lengths: [1,190], test_lengths: [190,190],"
        " symbols: 6, values: 20}"
    ),
    "data.max_source=256",
    "data.batch_tokens=8192",
    "trainer.max_steps=2000",
    "trainer.val_check_interval=500",
    *EQUAL,
]


class Row(NamedTuple):
    """One training."""

    task: str
    mechanism: str
    recipe: str
    overrides: list[str]


def rows() -> Iterator[Row]:
    """Yield the rows of the table."""
    for task in ("reverse", "copy"):
        chosen = [f"data.corpus.task={task}"]
        for name in SCORERS:
            yield Row(task, f"LSTM, Bahdanau, {name}", RECURRENT, [*chosen, *attention(name)])
        for name in LUONG:
            yield Row(
                task, f"LSTM, Luong, {name}", "reverse/lstm_luong", [*chosen, *attention(name)]
            )
        yield Row(task, "Transformer", TRANSFORMER, chosen)
    for head in ("pointer", "vocabulary"):
        for family, recipe in (
            ("LSTM, Luong, bilinear", "reverse/lstm_luong"),
            ("Transformer", TRANSFORMER),
        ):
            yield Row(
                "sort",
                f"{family}, head {head}",
                recipe,
                ["data.corpus.task=sort", f"model.head={{name: {head}}}"],
            )
    for head in ("pointer_generator", "vocabulary"):
        for family, recipe in (
            ("LSTM, Bahdanau, additive", RECURRENT),
            ("Transformer", TRANSFORMER),
        ):
            yield Row(
                "rare", f"{family}, head {head}", recipe, [*RARE, f"model.head={{name: {head}}}"]
            )
    for name in ("bilinear", "none"):
        yield Row("recall", f"LSTM, Bahdanau, {name}", RECURRENT, [*RECALL, *attention(name)])


def attention(name: str) -> list[str]:
    """Return the overrides that select a scorer, with sizes that fit it."""
    return [f"model.decoder.attention={SCORERS[name]}", *(EQUAL if "dot" in name else [])]


def measure(row: Row, overrides: Sequence[str], folder: Path) -> dict[str, Any]:
    """Train and evaluate one row."""
    quiet = ["trainer.enable_progress_bar=false"]
    trained = train(compose(row.recipe, [*row.overrides, *quiet, *overrides]), folder, quiet=True)
    run = load(folder)
    seen = evaluate(run, "validation" if row.task == "rare" else "test", quiet=True).metrics
    unseen: dict[str, Any] = {}
    if row.task == "rare":
        unseen = evaluate(run, "test", quiet=True).metrics
    elif longer := LONGER.get(row.task):
        unseen = evaluate(
            load(folder, overrides=[f"data.corpus.test_lengths={longer}"]), "test", quiet=True
        ).metrics
    return {
        "exact": seen["answer_accuracy"],
        "alignment": seen.get("alignment_accuracy"),
        "unseen": unseen.get("answer_accuracy"),
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "steps": trained.steps,
        "seconds": trained.seconds,
    }


def main() -> None:
    """Print the table, each row as soon as it is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="rows whose task and mechanism match"
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for every row")
    options = parser.parse_args()
    print("| task | mechanism | exact | alignment | unseen | parameters | steps | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows():
        if not re.search(options.only, f"{row.task}: {row.mechanism}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = measure(row, options.overrides, Path(folder) / "run")
        shares = (
            f"{result[key]:.1%}" if result[key] is not None else ""
            for key in ("exact", "alignment", "unseen")
        )
        numbers = f"{result['parameters']:,} | {result['steps']:,} | {result['seconds']:.0f}"
        print(f"| {row.task} | {row.mechanism} | {' | '.join(shares)} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
