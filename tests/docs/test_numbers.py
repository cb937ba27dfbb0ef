"""Measured numbers in the prose of README, docs/results.md and recipes/ are those of the records."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator, Sequence
from math import log2
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from dialog.recipes.measured import metric_at

ROOT = Path(__file__).parents[2]
RECORDS = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("recipes/*/results/*.json"))}
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "results.md", ROOT / "README.md", *sorted(ROOT.glob("recipes/*/README.md")))
}
FIGURES = runpy.run_path(str(ROOT / "docs" / "images" / "results.py"))
GENERATED = re.compile(r"<!-- results: .*?<!-- end of results -->", re.DOTALL)
SPREAD = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
BOUND = r"([-−]?0\.\d{3,})"
INTERVAL = re.compile(rf"(?:\bby|\|)\s+{BOUND}\s+to\s+{BOUND}")
"""Of a difference between two recipes, in prose or in a cell. Other ranges have no "by"."""
HEADLINE = re.compile(
    r"^\| [^|]*?(?:\((\d) seeds\) )?\| ([\d.]+)[ %]*\| ([\d.]+)[ %]*\|.*\((recipes/\w+)/README", re.MULTILINE
)


def prose(page: str) -> str:
    return GENERATED.sub("", PAGES[page])


def places(number: str) -> int:
    return len(number.partition(".")[2])


def page_of(record: str) -> str:
    """Return the page of the corpus of a record, on one line."""
    return " ".join(PAGES[f"recipes/{record.partition('/')[0]}/README.md"].split())


def names(metrics: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in metrics.items():
        if isinstance(value, dict):
            yield from names(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield prefix + key


def values(row: dict[str, Any], metric: str) -> list[float]:
    return [float(value) for run in row["runs"] if (value := metric_at(run["metrics"], metric)) is not None]


def is_recorded(mean: str, deviation: str) -> bool:
    """Return whether a recipe has these of some metric, as it is or in percent."""
    return any(
        len(found := values(row, metric)) > 1
        and any(
            f"{fmean(found) * scale:.{places(mean)}f}" == mean
            and f"{stdev(found) * scale:.{places(deviation)}f}" == deviation
            for scale in (1, 100)
        )
        for record in RECORDS.values()
        for row in record["recipes"]
        for metric in names(row["runs"][0]["metrics"])
    )


@pytest.mark.parametrize(
    ("page", "mean", "deviation"), [(page, *m) for page in PAGES for m in SPREAD.findall(prose(page))]
)
def test_means_and_deviations_are_recorded(page: str, mean: str, deviation: str) -> None:
    assert is_recorded(mean, deviation)


@pytest.mark.parametrize(
    ("page", "low", "high"), [(page, *m) for page in PAGES for m in sorted(set(INTERVAL.findall(prose(page))))]
)
def test_intervals_are_recorded(page: str, low: str, high: str) -> None:
    """Of bits per byte, of either sign: a record has A minus B, the page may have B minus A."""
    stated = [low.replace("−", "-"), high.replace("−", "-")]
    folder = (ROOT / page).parent
    intervals = (
        [f"{sign * end:.{places(low)}f}" for end in pair["interval"][::sign]]
        for path, record in RECORDS.items()
        if page == "docs/results.md" or path.is_relative_to(folder)
        for pair in record["differences"] or []
        if pair["interval"] and pair["metric"] == "bits_per_byte"
        for sign in (1, -1)
    )
    assert stated in intervals


@pytest.mark.parametrize(
    ("row", "epoch", "expected"),
    [
        ("Taskmaster-4, to the end", 1, "0.182"),
        ("Taskmaster-4, to the end", 5, "0.076"),
        ("Taskmaster-4, to the end", 15, "0.012"),
        ("Taskmaster-4, to the end", 20, "-0.000"),
        ("Taskmaster-4, to the end", 28, "-0.004"),
        ("CrossWOZ, to the end", 1, "0.121"),
        ("CrossWOZ, to the end", 6, "0.108"),
        ("CrossWOZ, to the end", 16, "-0.003"),
        ("CrossWOZ, to the end", 37, "-0.025"),
        ("Multi30k, 12 epochs", 1, "0.087"),
        ("Multi30k, 12 epochs", 12, "-0.004"),
        ("DailyDialog, 5 epochs", 2, "0.114"),
        ("DailyDialog, 5 epochs", 5, "0.099"),
        ("DailyDialog, 10 epochs, tuned", 1, "0.098"),
        ("DailyDialog, 10 epochs, tuned", 5, "0.071"),
        ("DailyDialog, 10 epochs, tuned", 10, "0.044"),
        ("DailyDialog, 5 epochs, no leak", 2, "0.105"),
        ("DailyDialog, 5 epochs, no leak", 5, "0.076"),
        ("no leak, modern Transformer", 2, "0.059"),
        ("no leak, modern Transformer", 5, "0.030"),
    ],
)
def test_leads_on_the_validation_split_are_recorded(row: str, epoch: int, expected: str) -> None:
    name, lstm, transformer = FIGURES["PAIRS"][row]
    leads = FIGURES["lead"](name, lstm, transformer)
    assert f"{leads[epoch - 1]:.3f}" == expected
    assert expected.lstrip("-") in page_of(name)


def test_the_results_state_the_recorded_leads() -> None:
    page = " ".join(PAGES["docs/results.md"].split())
    taskmaster, crosswoz = (
        FIGURES["lead"](*FIGURES["PAIRS"][f"{corpus}, to the end"]) for corpus in ("Taskmaster-4", "CrossWOZ")
    )
    assert f"by {taskmaster[0]:.3f} after the first epoch and by {taskmaster[14]:.3f} after the fifteenth" in page
    assert f"by {-taskmaster[-1]:.3f} on Taskmaster and by {-crosswoz[-1]:.3f} on CrossWOZ" in page
    tuned = FIGURES["lead"](*FIGURES["PAIRS"]["DailyDialog, 10 epochs, tuned"])
    assert f"from {tuned[0]:.3f} after the first epoch to {tuned[9]:.3f} after the tenth" in page


@pytest.mark.parametrize(
    ("row", "percent", "text"),
    [
        ("Taskmaster-4, 5 epochs", "91", "after five on {} %"),
        ("CrossWOZ, 6 epochs", "99.8", "after six epochs on {} %"),
        ("Taskmaster-4, 15 epochs", "57", "after fifteen epochs on {} "),
        ("Taskmaster-4, to the end", "40", "fewer bits per byte on {} % of the dialogues"),
        ("CrossWOZ, to the end", "23", "fewer bits per byte on {} % of the dialogues"),
    ],
)
def test_shares_of_dialogues_with_a_better_lstm(row: str, percent: str, text: str) -> None:
    name, lstm, transformer = FIGURES["PAIRS"][row]
    nll = {Path(row["name"]).name: losses(row["runs"]) for row in RECORDS[ROOT / "recipes" / name]["recipes"]}
    share = 100 * fmean(a < b for a, b in zip(nll[lstm], nll[transformer], strict=True))
    assert f"{share:.{places(percent)}f}" == percent
    assert text.format(percent) in page_of(name)


def losses(runs: Sequence[dict[str, Any]]) -> list[float]:
    """Return the negative log-likelihood of each dialogue, mean over runs."""
    return [fmean(values) for values in zip(*(run["dialogue_sums"][0] for run in runs), strict=True)]


def test_what_the_leak_adds_to_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lead with the leak minus lead without it: T + L' minus L + T' for each dialogue, whose bytes are the same."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "results"))
    from pooled import pooled_verdict

    with_leak, without = (
        {Path(row["name"]).name: row["runs"] for row in RECORDS[ROOT / "recipes" / FIGURES[name]]["recipes"]}
        for name in ("FIVE_EPOCHS", "FIVE_EPOCHS_CLEAN")
    )
    pairs = [("transformer", "lstm_bahdanau"), ("lstm_bahdanau", "transformer")]
    rows = [{"name": a, "runs": added(with_leak[a], without[b])} for a, b in pairs]
    changes = {record["subset"]: record for record in pooled_verdict(rows)["differences"]}
    clean, leaked = (" to ".join(f"{end:.3f}" for end in changes[subset]["interval"]) for subset in ("clean", "leaked"))
    page = " ".join(PAGES["docs/results.md"].split())
    assert f"a change of {changes['leaked']['difference']:.3f} (95 % interval {leaked})" in page
    assert f"(change {clean.replace('-', '−')})" in page


def added(runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs whose losses are the sums of two runs, for dialogues with the same bytes."""
    totals = []
    for run, other in zip(runs, others, strict=True):
        (nll, *sizes), (more, *same) = run["dialogue_sums"], other["dialogue_sums"]
        assert sizes == same
        totals.append({**run, "dialogue_sums": [[a + b for a, b in zip(nll, more, strict=True)], *sizes]})
    return totals


@pytest.mark.parametrize("page", ["docs/results.md", "recipes/dailydialog/README.md"])
def test_wins_of_the_blind_rating_are_recorded(page: str) -> None:
    (pair,) = RECORDS[ROOT / "recipes" / FIGURES["TUNED"]]["ratings"]
    found = re.findall(r"LSTM's\s+was\s+better\s+in\s+(\d+),\s+the\s+Transformer's\s+in\s+(\d+)", prose(page))
    assert found == [(f"{pair['wins_a']}", f"{pair['wins_b']}")]


def test_clean_results_of_the_readme_are_recorded() -> None:
    (found,) = re.findall(r"on clean dialogues ([\d.]+) and ([\d.]+) \(", PAGES["README.md"])
    rows = RECORDS[ROOT / "recipes" / FIGURES["TUNED"]]["recipes"]
    assert found == tuple(f"{fmean(values(row, 'subsets.clean.bits_per_byte')):.3f}" for row in rows)


def test_the_table_of_the_readme_is_recorded() -> None:
    rows = HEADLINE.findall(PAGES["README.md"])
    assert len(rows) == 8
    for seeds, *means, corpus in rows:
        names_of_pair = [f"{Path(corpus).name}/{family}" for family in ("lstm_bahdanau", "transformer")]
        pairs = [
            [row for row in record["recipes"] if row["name"] in names_of_pair]
            for path, record in RECORDS.items()
            if path.is_relative_to(ROOT / corpus)
        ]
        assert any(
            all(is_mean(values(row, metric), mean, seeds) for row, mean in zip(pair, means, strict=True))
            for pair in pairs
            if len(pair) == 2
            for metric in names(pair[0]["runs"][0]["metrics"])
        ), f"{corpus}: {means} with {seeds or 1} seeds"


def is_mean(found: Sequence[float], mean: str, seeds: str) -> bool:
    return len(found) == int(seeds or 1) and any(
        f"{fmean(found) * scale:.{places(mean)}f}" == mean for scale in (1, 100)
    )


PUBLISHED_RISES = {
    "only the last turn": ("only_last", 1.70, 4.76, 3.28),
    "turns shuffled": ("shuffle", 3.35, 2.54, 0.82),
    "turns reversed": ("reverse", 4.04, 3.31, 1.25),
    "first turn dropped": ("drop_first", 0.13, 0.32, 0.27),
    "last turn dropped": ("drop_last", 5.08, 4.84, 2.43),
    "words dropped": ("word_drop", 1.58, 2.03, 1.20),
    "words shuffled within turns": ("word_shuffle", 3.37, 2.82, 0.15),
    "words reversed within turns": ("word_reverse", 3.10, 3.29, 0.26),
}
"""Rises of `PUBLISHED` perplexities in Sankar et al. 2019, DailyDialog."""
PUBLISHED = (32.90, 29.65, 28.73)
"""LSTM without attention, with attention, Transformer."""


@pytest.mark.parametrize("change", PUBLISHED_RISES)
@pytest.mark.parametrize(
    ("table", "columns"), [("dailydialog-five-epochs", slice(1, 3)), ("sankar2019-twelve-epochs", slice(0, 3))]
)
def test_costs_of_changed_contexts_are_recorded_and_converted(table: str, columns: slice, change: str) -> None:
    key, *rises = PUBLISHED_RISES[change]
    record = RECORDS[ROOT / "recipes/dailydialog/results" / f"{table}.json"]
    ours = [fmean(values(row, f"history.{key}")) for row in record["recipes"]]
    published = [
        log2((perplexity + rise) / perplexity) * 15_621 / 60_602
        for perplexity, rise in zip(PUBLISHED[columns], rises[columns], strict=True)
    ]
    cells = " | ".join(f"{bits:.3f}" for pair in zip(ours, published, strict=True) for bits in pair)
    assert f"| {change} | {cells} |" in PAGES["recipes/dailydialog/README.md"]
