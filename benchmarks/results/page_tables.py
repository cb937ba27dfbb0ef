"""Tables of records in the pages: between markers, and the appendices of the recipes.

    python benchmarks/results/page_tables.py

writes them anew; a test checks that the pages have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from appendix import NAME as APPENDIX
from appendix import Folders, write_appendices
from entries import read_queue
from figures import PRIMARY, spread
from record_table import reference_rows, to_markdown, with_table, write_table

from dialog.atomic import write_text
from dialog.comparison.statistics.ranking import ranking
from dialog.comparison.statistics.verdict import lowered
from dialog.json_files import read_json
from dialog.report.formats.metrics import metric_at, metric_display
from dialog.report.formats.numbers import duration
from dialog.report.formats.results import Difference

ROOT = Path(__file__).parents[2]
RECORDS = Path(__file__).parent / "records"
FOLDERS = Folders(RECORDS, RECORDS.with_name("sweeps"))
PAIR = ("lstm_bahdanau", "transformer")
MODERN = ("lstm_bahdanau", "transformer_modern")
LEADS = {
    "dailydialog": {
        "1 epoch": ("dailydialog-seeds", *PAIR),
        "5 epochs": ("dailydialog-five-epochs", *PAIR),
        "5 epochs, no leak": ("dailydialog-five-epochs-clean", *PAIR),
        "5 epochs, no leak, modern Transformer": ("dailydialog-five-epochs-modern", *MODERN),
        "10 epochs, tuned": ("dailydialog-tuned", *PAIR),
        "10 epochs, tuned, no leak": ("dailydialog-clean", *PAIR),
        "published protocol, 12 epochs": (
            "sankar2019-twelve-epochs",
            "sankar2019/lstm_attention",
            "sankar2019/transformer",
        ),
        "small track, 1 epoch, rate 0.002": (
            "dailydialog-small",
            "small[lstm_bahdanau]",
            "small[transformer]",
        ),
        "small track, 1 epoch, rate 0.004": (
            "dailydialog-small-rates",
            "small[lstm_bahdanau,lr=0.004]",
            "small[transformer,lr=0.004]",
        ),
        "small track, 1 epoch, rate 0.008": (
            "dailydialog-small-rates",
            "small[lstm_bahdanau,lr=0.008]",
            "small[transformer,lr=0.008]",
        ),
        "small track, 5 epochs, best rates": (
            "dailydialog-small-five-epochs",
            "small[lstm_bahdanau,lr=0.008]",
            "small[transformer,lr=0.004]",
        ),
    },
    "taskmaster": {
        "5 epochs": ("taskmaster", *PAIR),
        "15 epochs": ("taskmaster-fifteen-epochs", *PAIR),
        "to the end": ("taskmaster-forty-epochs", *PAIR),
    },
    "crosswoz": {
        "6 epochs": ("crosswoz", *PAIR),
        "18 epochs": ("crosswoz-eighteen-epochs", *PAIR),
        "to the end": ("crosswoz-forty-epochs", *PAIR),
    },
}
"""By corpus: trainings, with their record, LSTM and Transformer; those that are not recorded yet are
left out.
"""
SMALL = "dailydialog/dailydialog-small"
FAMILIES = {
    "lstm_bahdanau": ("LSTM, Bahdanau attention", "vector"),
    "lstm_no_attention": ("LSTM, no attention", "vector"),
    "slstm": ("sLSTM", "vector"),
    "min_gru": ("minGRU", "vector"),
    "min_lstm": ("minLSTM", "vector"),
    "mamba2": ("Mamba-2", "matrix"),
    "rwkv7": ("RWKV-7", "matrix"),
    "mlstm": ("mLSTM", "matrix"),
    "gla": ("gated linear attention", "matrix"),
    "retnet": ("RetNet", "matrix"),
    "gated_delta": ("gated delta rule", "matrix"),
    "transformer": ("Transformer", "all tokens"),
    "decoder_only": ("Transformer, decoder only", "all tokens"),
}
"""Names of the small track's models, and what each keeps of the tokens that it has read."""
SMALL_COLUMNS = {
    "context_use.random_context": "lost with another context",
    "f1": "F1 ↑",
    "unique_ratio": "different responses",
    "repetition_3": "repeat three words ↓",
}


class Headline(NamedTuple):
    """Row of README.md: the pair of a record in one metric, and in a further one within a text."""

    record: str
    corpus: str
    budget: str
    metric: str = "bits_per_byte"
    further: str = ""
    further_text: str = ""


HEADLINES = (
    Headline(
        *("dailydialog/dailydialog-tuned", "DailyDialog", "10 epochs"),
        further="subsets.clean.bits_per_byte",
        further_text="on clean dialogues",
    ),
    Headline("selfdialogue/selfdialogue", "Self-dialogues", "1 epoch"),
    Headline("crosswoz/crosswoz-forty-epochs", "CrossWOZ (Chinese)", "to the end"),
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
        cells.append(f"[{corpus}](recipes/{corpus}/README.md)")
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


def leads(corpus: str) -> str:
    """Return the table of an LSTM and a Transformer by training: means, and how many bits per byte
    fewer the LSTM needs.
    """
    head = ["training", "seeds", "LSTM", "Transformer", "lead of the LSTM", "clean", "leaked"]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for label, (name, *pair) in LEADS[corpus].items():
        path = RECORDS / corpus / f"{name}.json"
        if not path.is_file():
            continue
        record = read_json(path)
        names = [f"{corpus}/{recipe}" for recipe in pair]
        runs = {row["name"]: row["runs"] for row in record["recipes"]}
        cells = [f"[{label}]({APPENDIX}#{name})", str(min(len(runs[one]) for one in names))]
        cells += [spread(runs[one], PRIMARY, shown_as=PRIMARY) for one in names]
        cells += [lead_text(record, names, subset) for subset in ("all", "clean", "leaked")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def lead_text(record: Mapping[str, Any], pair: Sequence[str], subset: str) -> str:
    """Return the lead of the first of a pair with its interval, "0.095 [0.091, 0.100]", bold if it
    is decided.
    """
    for item in record["differences"]:
        sign = {(pair[1], pair[0]): 1, (pair[0], pair[1]): -1}.get((item["a"], item["b"]))
        if sign and (item["metric"], item["subset"]) == (PRIMARY, subset):
            low, high = sorted(sign * end for end in item["interval"])
            text = f"{sign * item['difference']:.3f} [{low:.3f}, {high:.3f}]".replace("-", "−")
            return f"**{text}**" if item["decided"] else text
    return "–"


def small_track() -> str:
    """Return the table of the small track, the best family first; families that share a letter are
    not distinguished.
    """
    record = read_json(RECORDS / f"{SMALL}.json")
    rows = {row["name"]: row for row in record["recipes"]}
    means = {name: fmean(run["metrics"][PRIMARY] for run in rows[name]["runs"]) for name in rows}
    differences = [
        Difference(item["metric"], item["a"], item["b"], "all", "", decided=item["decided"])
        for item in record["differences"]
        if (item["metric"], item["subset"]) == (PRIMARY, "all")
    ]
    head = ["family", "state", "bits per byte ↓", *SMALL_COLUMNS.values(), "training time"]
    lines = [f"| {' | '.join(head)} |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    for entry in ranking(PRIMARY, means, differences):
        runs = rows[entry.name]["runs"]
        family, state = FAMILIES[entry.name.partition("[")[2].rstrip("]")]
        cells = [family, state, f"{spread(runs, PRIMARY, shown_as=PRIMARY)} ({entry.groups})"]
        cells += [
            spread(runs, metric, shown_as=PRIMARY if "context" in metric else metric)
            for metric in SMALL_COLUMNS
        ]
        cells.append(duration(fmean(run["seconds"] for run in runs)))
        lines.append(f"| {' | '.join(cells)} |")
    for label, texts in reference_rows(
        record["references"]["all"], [PRIMARY, *SMALL_COLUMNS]
    ).items():
        lines.append(f"| {label} ‡ | – | {' | '.join(texts)} | – |")
    return "\n".join(lines)


def tables() -> Iterator[tuple[str, str, str]]:
    """Yield page, name and text of each table."""
    yield "README.md", "headlines", headlines()
    yield "docs/results.md", "small-track", small_track()
    for corpus in LEADS:
        yield f"recipes/{corpus}/README.md", "leads", leads(corpus)
    page = "recipes/dailydialog/sankar2019/README.md"
    pair = {f"dailydialog/{name}": place for place, name in enumerate(PAIR, start=1)}
    yield page, "five-epochs-context", context_costs("dailydialog-five-epochs", pair)
    published = {
        f"dailydialog/sankar2019/{name}": place
        for place, name in enumerate(("lstm", "lstm_attention", "transformer"))
    }
    yield page, "sankar2019-context", context_costs("sankar2019-twelve-epochs", published)


def main() -> None:
    """Write the tables and the appendices."""
    for page, name, table in tables():
        text = (ROOT / page).read_text(encoding="utf-8")
        write_text(ROOT / page, with_table(text, name, table))
    for path in RECORDS.glob("*/*.json"):
        page = ROOT / "recipes" / path.parent.name / "README.md"
        write_table(page, path.stem, to_markdown(read_json(path)))
    queue = read_queue(Path(__file__).with_name("queue.yaml"))
    corpora = {entry.corpus for entry in queue}
    write_appendices(corpora, queue, FOLDERS, ROOT / "recipes")


if __name__ == "__main__":
    main()
