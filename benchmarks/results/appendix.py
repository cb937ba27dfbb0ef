"""Appendix of the recipes of a corpus, written whole: a section for each entry of the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from entries import Entry
from figures import PRIMARY, mean_and_deviation, spread
from pooled import SUMS
from record_table import to_markdown
from tables import COMMAND

from dialog.atomic import write_text
from dialog.comparison.statistics.verdict import TITLES
from dialog.json_files import read_json
from dialog.report.formats.metrics import metric_display
from dialog.report.formats.numbers import duration
from dialog.report.short_names import short_labels
from dialog.report.tables import interval_text, p_text, signed
from dialog.tuning.results import RESULTS
from sweeps import RECORDED, trial_table

Run = Mapping[str, Any]

NAME = "appendix.md"
UNDECIDED = "Verdict and decisions by earlier rules, since the record has no sums per dialogue"
MOST_PAIRED = 6
"""Contenders of which all pairs are listed; of more, the neighbours in the order."""
RESPONSES = {
    "subsets.clean.bits_per_byte": "bits per byte, clean ↓",
    "subsets.leaked.bits_per_byte": "leaked ↓",
    "token_accuracy": "token accuracy ↑",
    "calibration_error": "calibration error ↓",
    "hits_1_of_20": "hits@1 of 20 ↑",
    "sacrebleu": "sacreBLEU ↑",
    "unique_ratio": "unique ratio",
    "train_copy_ratio": "in training split",
    "repetition_3": "repeat three words ↓",
    "length_mean": "words",
}
"""Metrics of the table below the main one, and their labels."""
CHANGES = {
    "random_context": "of another dialogue",
    "only_last": "only the last turn",
    "drop_last": "without the last turn",
    "drop_first": "without the first turn",
    "shuffle": "turns shuffled",
    "reverse": "turns reversed",
    "word_drop": "words dropped",
    "word_shuffle": "words shuffled",
    "word_reverse": "words reversed",
}
"""Changes of the context and their labels."""
ATTENTION = {
    "entropy": "entropy",
    "mass_distance_0": "last turn",
    "mass_distance_1": "turn before",
    "mass_roles": "role tokens",
    "mass_punctuation": "punctuation",
}
"""Statistics of attention and their labels."""


class Folders(NamedTuple):
    """Folders of recorded tables and of recorded sweeps."""

    records: Path
    sweeps: Path


def write_appendices(
    corpora: Collection[str], entries: Sequence[Entry], folders: Folders, recipes: Path
) -> None:
    """Write the appendices of corpora, beside their recipes.

    Args:
        corpora: Folders of recipes.
        entries: All entries of the queue.
        folders: Of the records.
        recipes: Folder of the recipes.
    """
    for corpus in corpora:
        page = recipes / corpus / NAME
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(page, appendix(corpus, entries, folders))


def appendix(corpus: str, entries: Sequence[Entry], folders: Folders) -> str:
    """Return the appendix of a corpus: what is recorded, what is missing and its cost."""
    own = [entry for entry in entries if entry.corpus == corpus]
    parts = {entry.name: section(entry, folders) for entry in own}
    state = "; ".join(
        f"[{name}](#{name})" + ("" if part else " (not recorded)") for name, part in parts.items()
    )
    title = TITLES.get(corpus, corpus.capitalize())
    head = (
        f"# {title}: appendix\n\n"
        "Settings and tables of all entries of [queue.yaml](../../benchmarks/results/queue.yaml),"
        " written from the [records](../../benchmarks/README.md#results-of-the-recipes) by"
        f" `python benchmarks/results/page_tables.py`. Findings: [{title}](README.md).\n\n"
        f"Entries: {state}.\n\n"
        "* ± is the standard deviation over seeds. Brackets are 95 % intervals. *Decided*:"
        " [statistics](../../docs/statistics.md).\n"
        "* Bits per byte are decided by these rules from the sums of each dialogue; secondary"
        " metrics only where the verdict names them.\n"
        "* Context: bits per byte lost when the context is"
        " [changed](../../docs/comparison.md#use-of-the-context). Attention: share of the weight of"
        " the decoder's attention, mean over layers and heads; in brackets with equal weights.\n"
        "* Validation: bits per byte on the validation split; the weights of the lowest are tested."
    )
    sections = ["\n\n".join([heading(entry), parts[entry.name] or missing(entry)]) for entry in own]
    return "\n\n".join([head, *sections]) + "\n"


def heading(entry: Entry) -> str:
    """Return the heading of an entry, its purpose and its settings besides those of the recipes."""
    lines = [f"## {entry.name}", "", f"{entry.purpose[:1].upper()}{entry.purpose[1:]}."]
    settings = [f"`{override}`" for override in entry.overrides]
    if entry.tuned_by:
        settings.insert(0, f"best trial of [{entry.tuned_by}](#{entry.tuned_by})")
    if settings:
        lines += ["", f"Settings: {', '.join(settings)}."]
    own = [
        f"* `{row.name}`: {', '.join(f'`{override}`' for override in row.overrides)}"
        for row in entry.rows
        if row.overrides
    ]
    if own:
        lines += ["", *own]
    return "\n".join(lines)


def missing(entry: Entry) -> str:
    """Return what an entry without a record would cost."""
    return f"Not recorded yet: `{COMMAND.format(entry.name)}`, {cost_text(entry.hours)}."


def cost_text(hours: float) -> str:
    """Return "at most 2 h 06 min of one core"; runs that other entries have are not trained twice."""
    return f"at most {duration(3600 * hours)} of one core"


def section(entry: Entry, folders: Folders) -> str:
    """Return the tables of an entry; empty without a record."""
    if entry.sweep:
        folder = folders.sweeps / entry.name
        if not (folder / RESULTS).is_file():
            return ""
        made = read_json(folder / RECORDED, "git", "cpu", "date")
        return trial_table(entry, read_json(folder / RESULTS, "settings", "recipes"), made)
    path = folders.records / entry.corpus / f"{entry.name}.json"
    if not path.is_file():
        return ""
    record = read_json(path, "recipes", "differences")
    recorded = {(row["name"], run["seed"]) for row in record["recipes"] for run in row["runs"]}
    left = [
        (row, seed)
        for row in entry.rows
        for seed in range(1, entry.seeds + 1)
        if (row.name, seed) not in recorded
    ]
    missing = [f"{row.name} seed {seed}" for row, seed in left]
    if left:
        missing[-1] += f" ({cost_text(sum(row.hours for row, _ in left))})"
    summed = all(SUMS in run for row in record["recipes"] for run in row["runs"])
    notes = [*record["notes"], *([] if summed else [UNDECIDED])]
    return "\n\n".join([*tables_of({**record, "missing": missing, "notes": notes})])


def tables_of(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables of a record: results, responses, context, attention, validation, pairs."""
    rows = {row["name"]: row["runs"] for row in record["recipes"]}
    _, labels = short_labels([*rows])
    runs = dict(zip(labels, rows.values(), strict=True))
    yield to_markdown(record)
    yield from metric_table("Responses and subsets", runs, RESPONSES, spread_of)
    in_context = {f"context_use.{name}": label for name, label in CHANGES.items()}
    yield from metric_table("Context", runs, in_context, bits)
    yield from metric_table("Attention", runs, ATTENTION, attention)
    yield validation_table(runs)
    if len(runs) > 1 and record["differences"]:
        yield pair_table(record, dict(zip(rows, labels, strict=True)))


def metric_table(
    title: str,
    recipes: Mapping[str, Sequence[Run]],
    metrics: Mapping[str, str],
    cell: Callable[[Sequence[Run], str], str],
) -> Iterator[str]:
    """Yield a table of metrics, a row for each recipe, without metrics that no run has."""
    cells = {
        label: [cell(runs, metric) for runs in recipes.values()]
        for metric, label in metrics.items()
    }
    columns = {label: texts for label, texts in cells.items() if {*texts} != {"–"}}
    if columns:
        rows = zip(recipes, *columns.values(), strict=True)
        yield table([title, *columns], rows)


def table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns but the first are numbers."""
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def spread_of(runs: Sequence[Run], metric: str) -> str:
    """Return mean ± standard deviation of a metric as it is displayed."""
    return spread(runs, metric, shown_as=metric.rpartition(".")[2])


def bits(runs: Sequence[Run], metric: str) -> str:
    """Return mean ± standard deviation with the digits of bits per byte."""
    return spread(runs, metric, shown_as=PRIMARY)


def attention(runs: Sequence[Run], name: str) -> str:
    """Return the mean of a statistic of attention, and in brackets that of equal weights."""
    mean = mean_and_deviation(runs, f"attention.mean.{name}")
    uniform = mean_and_deviation(runs, f"attention.uniform.{name}")
    if mean is None or uniform is None:
        return "–"
    return f"{mean[0]:.2f} ({uniform[0]:.2f})"


def validation_table(recipes: Mapping[str, Sequence[Run]]) -> str:
    """Return the lowest bits per byte on the validation split, after how many epochs, and those of
    the first and of the last validation.
    """
    rows = []
    for name, runs in recipes.items():
        curves = [run["curve"]["validation/bits_per_byte"] for run in runs]
        epochs = [run["curve"]["epoch"] for run in runs]
        lowest = [curve.index(min(curve)) for curve in curves]
        places = zip(epochs, lowest, strict=True)
        rows.append(
            [
                name,
                number([min(curve) for curve in curves]),
                ", ".join(f"{epoch[place] + 1:.0f}" for epoch, place in places),
                number([curve[0] for curve in curves]),
                number([curve[-1] for curve in curves]),
                ", ".join(f"{epoch[-1] + 1:.0f}" for epoch in epochs),
            ]
        )
    return table(
        ["Validation", "lowest ↓", "in epoch, by seed", "first", "last", "epochs, by seed"], rows
    )


def number(values: Sequence[float]) -> str:
    """Return mean ± standard deviation."""
    deviation = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{deviation}"


def pair_table(record: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the differences in bits per byte, on all, clean and leaked dialogues."""
    found = {
        (item["a"], item["b"], item["subset"]): item
        for item in record["differences"]
        if item["metric"] == PRIMARY
    }
    means = {
        row["name"]: fmean(run["metrics"][PRIMARY] for run in row["runs"])
        for row in record["recipes"]
    }
    ranked = sorted(means, key=lambda name: means[name])
    pairs = list(dict.fromkeys((a, b) for a, b, _ in found))
    if len(ranked) > MOST_PAIRED:
        neighbours = {frozenset(pair) for pair in pairwise(ranked)}
        pairs = [pair for pair in pairs if frozenset(pair) in neighbours]
    rows = [
        [
            f"{labels[a]} minus {labels[b]}",
            *(difference_text(found.get((a, b, subset))) for subset in ("all", "clean", "leaked")),
        ]
        for a, b in pairs
    ]
    title = "Pairs" if len(ranked) <= MOST_PAIRED else "Neighbours in the order"
    return table([title, "all dialogues", "clean", "leaked"], rows)


def difference_text(item: Mapping[str, Any] | None) -> str:
    """Return "−0.042 [−0.047, −0.036], p < 0.001", bold if it is decided."""
    if item is None or not item["interval"]:
        return "–"
    display = metric_display(PRIMARY)
    text = f"{signed(item['difference'], display.format)} {interval_text(item['interval'], display.format)}"
    if item["p_holm"] is not None:
        p = p_text(item["p_holm"])
        text += f", p {p if p.startswith('<') else f'= {p}'}"
    return f"**{text}**" if item["decided"] else text
