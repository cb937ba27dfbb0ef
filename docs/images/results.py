"""Draw the figures of docs/results.md and of the recipes' pages from the records of the queue.

python docs/images/results.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from dialog.report.drawing.axes import with_legend
from dialog.report.drawing.canvas import write_svg
from dialog.report.drawing.charts import Spread, changes_svg, curves_svg

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results" / "records"
PRIMARY = "bits_per_byte"
LSTM, TRANSFORMER, MODERN = ("lstm_bahdanau", "transformer", "transformer_modern")
LSTM_ATTENTION = "lstm_attention"
"""The LSTM with attention of the published protocol."""
SMALL = "dailydialog/dailydialog-small.json"
PAIRS = {
    "DailyDialog, 1 epoch": ("dailydialog/dailydialog-seeds.json", LSTM, TRANSFORMER),
    "DailyDialog, 5 epochs": ("dailydialog/dailydialog-five-epochs.json", LSTM, TRANSFORMER),
    "DailyDialog, 10 epochs, tuned": ("dailydialog/dailydialog-tuned.json", LSTM, TRANSFORMER),
    "DailyDialog, 5 epochs, no leak": (
        *("dailydialog/dailydialog-five-epochs-clean.json", LSTM, TRANSFORMER),
    ),
    "no leak, modern Transformer": (
        *("dailydialog/dailydialog-five-epochs-modern.json", LSTM, MODERN),
    ),
    "tuned, no leak (one run)": ("dailydialog/dailydialog-clean.json", LSTM, TRANSFORMER),
    "DailyDialog, published protocol": (
        *("dailydialog/sankar2019-twelve-epochs.json", LSTM_ATTENTION, TRANSFORMER),
    ),
    "Taskmaster-4, 5 epochs": ("taskmaster/taskmaster.json", LSTM, TRANSFORMER),
    "Taskmaster-4, 15 epochs": ("taskmaster/taskmaster-fifteen-epochs.json", LSTM, TRANSFORMER),
    "Taskmaster-4, to the end": ("taskmaster/taskmaster-forty-epochs.json", LSTM, TRANSFORMER),
    "self-dialogues, 1 epoch": ("selfdialogue/selfdialogue.json", LSTM, TRANSFORMER),
    "CrossWOZ, 6 epochs": ("crosswoz/crosswoz.json", LSTM, TRANSFORMER),
    "CrossWOZ, 18 epochs": ("crosswoz/crosswoz-eighteen-epochs.json", LSTM, TRANSFORMER),
    "CrossWOZ, to the end": ("crosswoz/crosswoz-forty-epochs.json", LSTM, TRANSFORMER),
    "Multi30k, 12 epochs": ("multi30k/multi30k.json", LSTM, TRANSFORMER),
}
"""Records, their LSTM with attention and their Transformer."""
CURVES = {
    "dailydialog": {
        "no leak, tuned, one run": "dailydialog/dailydialog-clean.json",
        "no leak": "dailydialog/dailydialog-five-epochs-clean.json",
        "modern, no leak": "dailydialog/dailydialog-five-epochs-modern.json",
    },
    "taskmaster": {"mean of three runs": "taskmaster/taskmaster-forty-epochs.json"},
    "crosswoz": {"mean of three runs": "crosswoz/crosswoz-forty-epochs.json"},
}
"""By corpus: records whose validation curves are drawn."""
NAMES = {LSTM: "LSTM", TRANSFORMER: "Transformer", MODERN: "Transformer"}
ALL, SINGLE, CLEAN = range(3)
"""Colours of differences: over all dialogues, between single runs, and on clean dialogues."""


def main() -> None:
    """Write the figures beside this file, or into --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
    folder = parser.parse_args().output
    write_svg(folder / "results_small.svg", small_svg())
    write_svg(folder / "results_pairs.svg", pairs_svg())
    for corpus in CURVES:
        write_svg(folder / f"results_{corpus}.svg", validation_svg(corpus))


def small_svg() -> str:
    """Draw the difference of each family of the small track from the LSTM with attention, the best
    first.
    """
    record = recorded(SMALL)
    base = f"small[{LSTM}]"
    names = [short(row["name"]) for row in record["recipes"]]
    spreads = {
        name[len("small[") : -1]: difference(record, name, base) for name in names if name != base
    }
    ranked = sorted(spreads, key=lambda name: spreads[name].mean)
    rows = [(name, {SINGLE: spreads[name]}) for name in ranked]
    return changes_svg(rows, x="bits per byte, minus those of the LSTM with attention")


def pairs_svg() -> str:
    """Draw the differences between LSTM and Transformer on all and on clean dialogues."""
    subsets = {ALL: "all", CLEAN: "clean"}
    rows = [
        (
            label,
            {
                colour: difference(recorded(name), a, b, subset)
                for colour, subset in subsets.items()
            },
        )
        for label, (name, a, b) in PAIRS.items()
    ]
    return with_legend(
        changes_svg(rows, x="bits per byte, LSTM minus Transformer"),
        {colour: f"{subset} dialogues" for colour, subset in subsets.items()},
    )


def validation_svg(corpus: str) -> str:
    """Draw the validation curves of LSTM and Transformer, means over the seeds that still train."""
    curves = {}
    for label, name in CURVES[corpus].items():
        for row in recorded(name)["recipes"]:
            model = short(row["name"])
            if model not in NAMES or ("modern" in label) != (model == MODERN):
                continue
            every = [run["curve"]["validation/bits_per_byte"] for run in row["runs"]]
            shortest = min(map(len, every))
            curves[f"{NAMES[model]}, {label}"] = [
                (float(epoch + 1), fmean(curve[epoch] for curve in every))
                for epoch in range(shortest)
            ]
    return curves_svg(curves, x="epochs", y="validation bits per byte")


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded table."""
    record: dict[str, Any] = json.loads((RECORDS / name).read_text(encoding="utf-8"))
    return record


def difference(record: Mapping[str, Any], a: str, b: str, subset: str = "all") -> Spread:
    """Return the difference a - b in bits per byte over a subset: its interval's centre and half
    its length.
    """
    for entry in record["differences"]:
        sign = {(a, b): 1, (b, a): -1}.get((short(entry["a"]), short(entry["b"])))
        if sign and (entry["metric"], entry["subset"]) == (PRIMARY, subset):
            low, high = entry["interval"]
            return Spread(sign * (low + high) / 2, (high - low) / 2)
    raise ValueError(f"{record['name']}: no difference between {a} and {b} on {subset} dialogues")


def short(recipe: str) -> str:
    """Return the name of a recipe without its corpus."""
    return recipe.rpartition("/")[2]


if __name__ == "__main__":
    main()
