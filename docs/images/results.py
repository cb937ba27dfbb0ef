"""Draw the figures of docs/results.md from the records of the queue.

python docs/images/results.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dialog.config.compose import compose
from dialog.report.drawing.axes import with_legend
from dialog.report.drawing.canvas import write_svg
from dialog.report.drawing.charts import Spread, changes_svg, curves_svg
from dialog.report.formats.metrics import metric_at

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "results" / "records"
PRIMARY = "bits_per_byte"
LSTM, TRANSFORMER, MODERN, NO_ATTENTION = (
    "lstm_bahdanau",
    "transformer",
    "transformer_modern",
    "lstm_no_attention",
)
LSTM_ATTENTION = "lstm_attention"
"""The LSTM with attention of the published protocol."""
FAMILY = "dailydialog/dailydialog-family.json"
ONE_EPOCH = "dailydialog/dailydialog-seeds.json"
RATES = "dailydialog/dailydialog-learning-rates.json"
FIVE_EPOCHS = "dailydialog/dailydialog-five-epochs.json"
FIVE_EPOCHS_CLEAN = "dailydialog/dailydialog-five-epochs-clean.json"
FIVE_EPOCHS_MODERN = "dailydialog/dailydialog-five-epochs-modern.json"
PROTOCOL = "dailydialog/sankar2019-twelve-epochs.json"
TUNED = "dailydialog/dailydialog-tuned.json"
TUNED_CLEAN = "dailydialog/dailydialog-clean.json"
TUNED_ATTENTION = "dailydialog/dailydialog-attention.json"
PAIRS = {
    "DailyDialog, 1 epoch": (ONE_EPOCH, LSTM, TRANSFORMER),
    "DailyDialog, 5 epochs": (FIVE_EPOCHS, LSTM, TRANSFORMER),
    "DailyDialog, 10 epochs, tuned": (TUNED, LSTM, TRANSFORMER),
    "DailyDialog, 5 epochs, no leak": (FIVE_EPOCHS_CLEAN, LSTM, TRANSFORMER),
    "no leak, modern Transformer": (FIVE_EPOCHS_MODERN, LSTM, MODERN),
    "tuned, no leak (one run)": (TUNED_CLEAN, LSTM, TRANSFORMER),
    "DailyDialog, published protocol": (PROTOCOL, LSTM_ATTENTION, TRANSFORMER),
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
LEAD = (
    "DailyDialog, 5 epochs",
    "DailyDialog, 10 epochs, tuned",
    "DailyDialog, 5 epochs, no leak",
    "no leak, modern Transformer",
    "Taskmaster-4, to the end",
    "CrossWOZ, to the end",
    "Multi30k, 12 epochs",
)
"""The rows of `PAIRS` whose lead the text describes by epoch."""
LEAK = {
    "5 epochs": (FIVE_EPOCHS, LSTM, TRANSFORMER),
    "10 epochs, tuned": (TUNED, LSTM, TRANSFORMER),
    "5 epochs, no leak": (FIVE_EPOCHS_CLEAN, LSTM, TRANSFORMER),
    "tuned, no leak (one run)": (TUNED_CLEAN, LSTM, TRANSFORMER),
    "no leak, modern Transformer": (FIVE_EPOCHS_MODERN, LSTM, MODERN),
    "published protocol, 12 epochs": (PROTOCOL, LSTM_ATTENTION, TRANSFORMER),
}
"""Records of DailyDialog, their LSTM with attention and their Transformer."""
WORTH = {
    "Bahdanau, 5 epochs, no leak": (FIVE_EPOCHS_CLEAN, LSTM, NO_ATTENTION),
    "dot, 5 epochs, no leak": (FIVE_EPOCHS_CLEAN, f"{LSTM}[attention=dot]", NO_ATTENTION),
    "Bahdanau, 10 epochs, tuned": (TUNED_ATTENTION, LSTM, f"{LSTM}[attention=none]"),
    "dot, 10 epochs, tuned (one run)": (
        TUNED_ATTENTION,
        f"{LSTM}[attention=dot]",
        f"{LSTM}[attention=none]",
    ),
    "published protocol, 12 epochs": (PROTOCOL, LSTM_ATTENTION, "lstm"),
}
"""Records of DailyDialog, their LSTM with attention and the one without."""
CHANGES = {
    "random_context": "of another dialogue",
    "drop_last": "last turn dropped",
    "only_last": "only the last turn",
    "reverse": "turns reversed",
    "shuffle": "turns shuffled",
    "drop_first": "first turn dropped",
    "word_drop": "words dropped",
    "word_reverse": "words reversed",
    "word_shuffle": "words shuffled",
}
"""Changes of the context and their labels."""
ALL, SINGLE, CLEAN, LEAKED = range(4)
"""Colours of differences: over all dialogues, between single runs, and on the two subsets."""


def main() -> None:
    """Write the figures beside this file, or into --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, metavar="DIR")
    folder = parser.parse_args().output
    all_and_clean = {ALL: "all", CLEAN: "clean"}
    pairs = subsets_svg(PAIRS, all_and_clean, x="bits per byte, LSTM minus Transformer")
    write_svg(folder / "results_pairs.svg", pairs)
    both = {CLEAN: "clean", LEAKED: "leaked"}
    attention = "bits per byte, LSTM with attention minus {}"
    write_svg(
        folder / "results_attention.svg", subsets_svg(WORTH, both, x=attention.format("without"))
    )
    write_svg(folder / "results_one_epoch.svg", one_epoch_svg())
    write_svg(folder / "results_rates.svg", rates_svg())
    write_svg(folder / "results_epochs.svg", epochs_svg())
    write_svg(folder / "results_lead.svg", lead_svg())
    write_svg(folder / "results_context.svg", context_svg())
    write_svg(
        folder / "results_leak.svg", subsets_svg(LEAK, both, x=attention.format("Transformer"))
    )


def one_epoch_svg() -> str:
    """Draw the difference of each DailyDialog architecture from the LSTM without attention, the
    best first.
    """
    record = recorded(FAMILY)
    names = [short(row["name"]) for row in record["recipes"]]
    spreads = {
        name: difference(record, name, NO_ATTENTION) for name in names if name != NO_ATTENTION
    }
    ranked = sorted(spreads, key=lambda name: spreads[name].mean)
    rows = [(name, {SINGLE: spreads[name]}) for name in ranked]
    return changes_svg(rows, x="bits per byte, minus those of the LSTM without attention")


def rates_svg() -> str:
    """Draw the test bits per byte of LSTM and Transformer on DailyDialog after one epoch against
    the learning rate.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for row in [*recorded(ONE_EPOCH)["recipes"], *recorded(RATES)["recipes"]]:
        rate = compose(row["recipe"], row["overrides"]).recipe.optimizer["lr"]
        points.setdefault(short(row["recipe"]), []).append(
            (1000 * rate, row["runs"][0]["metrics"][PRIMARY])
        )
    curves = {name: sorted(values) for name, values in points.items()}
    return curves_svg(curves, x="learning rate x 1,000", y="bits per byte")


def epochs_svg() -> str:
    """Draw the validation curves of seed 1 of LSTM and Transformer on DailyDialog, for one, five
    and ten epochs.
    """
    curves = {}
    for length, name in (
        ("10 epochs, tuned", TUNED),
        ("5 epochs", FIVE_EPOCHS),
        ("1 epoch", ONE_EPOCH),
    ):
        for row in recorded(name)["recipes"]:
            curve = row["runs"][0]["curve"]
            epoch = curve["step"][-1] / (curve["epoch"][-1] + 1)
            points = [
                (step / epoch, value)
                for step, value in zip(
                    curve["step"], curve["validation/bits_per_byte"], strict=True
                )
            ]
            curves[f"{short(row['name'])}, {length}"] = points
    return curves_svg(curves, x="epochs", y="validation bits per byte")


def lead_svg() -> str:
    """Draw how the lead of an LSTM over a Transformer changes in training, by corpus."""
    curves = {}
    for label in LEAD:
        leads = lead(*PAIRS[label])
        points = [(100 * epoch / len(leads), -value) for epoch, value in enumerate(leads, start=1)]
        label_with_length = label.replace("to the end", f"to the end ({len(leads)} epochs)")
        curves[label_with_length] = points
    return curves_svg(curves, x="% of the training", y="bits per byte, LSTM minus Transformer")


def lead(name: str, lstm: str, transformer: str) -> list[float]:
    """Return, after each epoch, by how much the LSTM's lowest validation bits per byte so far are
    below the others.

    Means over seeds. A run that has ended keeps its lowest value, that of the weights that are
    measured.
    """
    runs = {short(row["name"]): row["runs"] for row in recorded(name)["recipes"]}
    lowest = {
        model: [
            list(accumulate(run["curve"]["validation/bits_per_byte"], min)) for run in runs[model]
        ]
        for model in (lstm, transformer)
    }
    epochs = max(len(curve) for curves in lowest.values() for curve in curves)
    means = {
        model: [
            fmean(curve[min(epoch, len(curve) - 1)] for curve in curves) for epoch in range(epochs)
        ]
        for model, curves in lowest.items()
    }
    return [other - own for own, other in zip(means[lstm], means[transformer], strict=True)]


def context_svg() -> str:
    """Draw what each change of the context costs LSTM and Transformer on DailyDialog after five
    epochs.
    """
    runs = {short(row["name"]): row["runs"] for row in recorded(FIVE_EPOCHS)["recipes"]}
    rows = [
        (
            label,
            {
                model: over_seeds(runs[name], change)
                for model, name in enumerate((LSTM, TRANSFORMER))
            },
        )
        for change, label in CHANGES.items()
    ]
    return with_legend(
        changes_svg(rows, x="bits per byte lost with a changed context"),
        {0: "LSTM", 1: "Transformer"},
    )


def subsets_svg(
    pairs: Mapping[str, tuple[str, str, str]], subsets: Mapping[int, str], *, x: str
) -> str:
    """Draw the differences a - b on subsets of dialogues.

    Args:
        pairs: A record, a and b for each label.
        subsets: Their names by their colours.
        x: Label of the axis.
    """
    rows = [
        (
            label,
            {
                colour: difference(recorded(name), a, b, subset)
                for colour, subset in subsets.items()
            },
        )
        for label, (name, a, b) in pairs.items()
    ]
    return with_legend(
        changes_svg(rows, x=x),
        {colour: f"{subset} dialogues" for colour, subset in subsets.items()},
    )


def over_seeds(runs: Sequence[Mapping[str, Any]], change: str) -> Spread:
    """Return mean and sample standard deviation, over the compared runs, of the bits per byte that
    a change costs.
    """
    values = [
        value
        for run in runs
        if (value := metric_at(run["metrics"], f"context_use.{change}")) is not None
    ]
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None)


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
