"""Tables of several records in README.md and recipes/dailydialog/README.md, between markers.

    python benchmarks/results/page_tables.py

writes them anew; a test checks that the pages have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from record_table import with_table

from dialog.atomic import write_text
from dialog.comparison.statistics.verdict import lowered
from dialog.json_files import read_json
from dialog.report.formats.metrics import metric_at, metric_display

ROOT = Path(__file__).parents[2]
RECORDS = Path(__file__).parent / "records"
PAIR = ("lstm_bahdanau", "transformer")


class Headline(NamedTuple):
    """Row of README.md: the pair of a record in one metric, and in a further one within a text."""

    record: str
    corpus: str
    budget: str
    anchor: str = ""
    metric: str = "bits_per_byte"
    further: str = ""
    further_text: str = ""


HEADLINES = (
    Headline(
        *("dailydialog/dailydialog-tuned", "DailyDialog", "10 epochs", "#the-tuned-pair"),
        further="subsets.clean.bits_per_byte",
        further_text="on clean dialogues",
    ),
    Headline("selfdialogue/selfdialogue", "Self-dialogues", "1 epoch"),
    Headline(
        "crosswoz/crosswoz-forty-epochs", "CrossWOZ (Chinese)", "to the end", "#trained-to-the-end"
    ),
    Headline(
        *("multi30k/multi30k", "Multi30k German to English", "12 epochs"),
        further="sacrebleu",
        further_text="sacreBLEU is",
    ),
)

CHANGES = {
    "only_last": ("only the last turn", 1.70, 4.76, 3.28),
    "shuffle": ("turns shuffled", 3.35, 2.54, 0.82),
    "reverse": ("turns reversed", 4.04, 3.31, 1.25),
    "drop_first": ("first turn dropped", 0.13, 0.32, 0.27),
    "drop_last": ("last turn dropped", 5.08, 4.84, 2.43),
    "word_drop": ("words dropped", 1.58, 2.03, 1.20),
    "word_shuffle": ("words shuffled within turns", 3.37, 2.82, 0.15),
    "word_reverse": ("words reversed within turns", 3.10, 3.29, 0.26),
}
"""Changes of the context: words, and rises of the perplexities `PUBLISHED` (Sankar et al. 2019)."""
PUBLISHED = (32.90, 29.65, 28.73)
"""Perplexities per token on S1: LSTM without attention, with attention, Transformer."""
TOKENS_PER_BYTE = 15_621 / 60_602
"""Of the references of S1."""
LABELS = ("LSTM", "LSTM with attention", "Transformer")


def headlines() -> str:
    """Return the table of README.md."""
    lines = [
        "| corpus, metric (bits per byte: lower is better) | LSTM + Bahdanau | Transformer"
        " | trained for | page |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for row in HEADLINES:
        record = read_json(RECORDS / f"{row.record}.json")
        corpus = row.record.partition("/")[0]
        recipes = {recipe["name"]: recipe["runs"] for recipe in record["recipes"]}
        pair = [recipes[f"{corpus}/{name}"] for name in PAIR]
        text = f"{row.corpus}, {lowered(metric_display(row.metric).label)}"
        if not is_decided(record, corpus, row.metric):
            text += ", undecided"
        if row.further:
            text += f"; {row.further_text} {' and '.join(means(pair, row.further))}"
        cells = [f"{text} ({len(pair[0])} seeds)", *means(pair, row.metric), row.budget]
        cells.append(f"[{corpus}](recipes/{corpus}/README.md{row.anchor})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def is_decided(record: Mapping[str, Any], corpus: str, metric: str) -> bool:
    """Return whether the pair of a record is decided in a metric on the whole test set."""
    names = {f"{corpus}/{name}" for name in PAIR}
    (difference,) = (
        entry
        for entry in record["differences"]
        if (entry["subset"], entry["metric"]) == ("all", metric)
        and {entry["a"], entry["b"]} == names
    )
    return bool(difference["decided"])


def means(recipes: Sequence[Sequence[Mapping[str, Any]]], metric: str) -> list[str]:
    """Return the mean of a metric over the runs of each recipe."""
    display = metric_display(metric.rpartition(".")[2])
    return [
        display.format(fmean(metric_at(run["metrics"], metric) or 0.0 for run in runs))
        for runs in recipes
    ]


def context_costs(record: str, recipes: Mapping[str, int]) -> str:
    """Return a table of bits per byte lost by changes of the context, beside published ones.

    Args:
        record: Name of a record of DailyDialog.
        recipes: Place in `PUBLISHED` of the system that each recipe corresponds to.
    """
    rows = read_json(RECORDS / "dailydialog" / f"{record}.json")["recipes"]
    runs = {row["name"]: row["runs"] for row in rows}
    head = ["change of the context"]
    for place in recipes.values():
        head += [LABELS[place], f"{LABELS[place]}, published"]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for change, (words, *rises) in CHANGES.items():
        cells = [words]
        for name, place in recipes.items():
            own = fmean(run["metrics"]["context_use"][change] for run in runs[name])
            rise = log2(1 + rises[place] / PUBLISHED[place]) * TOKENS_PER_BYTE
            cells += [f"{own:.3f}", f"{rise:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> Iterator[tuple[str, str, str]]:
    """Yield page, name and text of each table."""
    yield "README.md", "headlines", headlines()
    page = "recipes/dailydialog/README.md"
    pair = {f"dailydialog/{name}": place for place, name in enumerate(PAIR, start=1)}
    yield page, "five-epochs-context", context_costs("dailydialog-five-epochs", pair)
    published = {
        f"dailydialog/sankar2019/{name}": place
        for place, name in enumerate(("lstm", "lstm_attention", "transformer"))
    }
    yield page, "sankar2019-context", context_costs("sankar2019-twelve-epochs", published)


def main() -> None:
    """Write the tables into their pages."""
    for page, name, table in tables():
        text = (ROOT / page).read_text(encoding="utf-8")
        write_text(ROOT / page, with_table(text, name, table))


if __name__ == "__main__":
    main()
