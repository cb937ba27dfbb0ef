"""Measured numbers in the prose of README, docs/results.md and recipes/ are those of the records."""

from __future__ import annotations

import json
import re
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
GENERATED = re.compile(r"<!-- results: .*?<!-- end of results -->", re.DOTALL)
SPREAD = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
INTERVAL = re.compile(r"\bby (0\.\d{3,}) to (0\.\d{3,})")
HEADLINE = re.compile(
    r"^\| [^|]*?(?:\((\d) seeds\) )?\| ([\d.]+)[ %]*\| ([\d.]+)[ %]*\|.*\((recipes/\w+)/README", re.MULTILINE
)


def prose(page: str) -> str:
    return GENERATED.sub("", PAGES[page])


def places(number: str) -> int:
    return len(number.partition(".")[2])


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


@pytest.mark.parametrize(("low", "high"), sorted(set(INTERVAL.findall(PAGES["docs/results.md"]))))
def test_intervals_are_recorded(low: str, high: str) -> None:
    intervals = (
        sorted(abs(end) for end in pair["interval"])
        for record in RECORDS.values()
        for pair in record["differences"] or []
        if pair["interval"]
    )
    assert any(f"{a:.{places(low)}f}" == low and f"{b:.{places(high)}f}" == high for a, b in intervals)


@pytest.mark.parametrize(
    ("record", "transformer", "epoch", "lead"),
    [
        ("taskmaster/results/taskmaster-fifteen-epochs.json", "transformer", 1, "0.185"),
        ("taskmaster/results/taskmaster-fifteen-epochs.json", "transformer", 5, "0.077"),
        ("taskmaster/results/taskmaster-fifteen-epochs.json", "transformer", 15, "0.000"),
        ("crosswoz/results/crosswoz-eighteen-epochs.json", "transformer", 16, "-0.009"),
        ("multi30k/results/multi30k.json", "transformer", 1, "0.088"),
        ("multi30k/results/multi30k.json", "transformer", 12, "-0.004"),
        ("dailydialog/results/dailydialog-five-epochs.json", "transformer", 2, "0.114"),
        ("dailydialog/results/dailydialog-five-epochs.json", "transformer", 5, "0.099"),
        ("dailydialog/results/dailydialog-five-epochs-clean.json", "transformer", 2, "0.105"),
        ("dailydialog/results/dailydialog-five-epochs-clean.json", "transformer", 5, "0.076"),
        ("dailydialog/results/dailydialog-five-epochs-modern.json", "transformer_modern", 2, "0.059"),
        ("dailydialog/results/dailydialog-five-epochs-modern.json", "transformer_modern", 5, "0.030"),
        ("crosswoz/results/crosswoz.json", "transformer", 1, "0.121"),
        ("crosswoz/results/crosswoz.json", "transformer", 6, "0.108"),
    ],
)
def test_leads_on_the_validation_split_are_recorded(record: str, transformer: str, epoch: int, lead: str) -> None:
    rows = {Path(row["name"]).name: row for row in RECORDS[ROOT / "recipes" / record]["recipes"]}
    lstm, other = (
        fmean(run["curve"]["validation/bits_per_byte"][epoch - 1] for run in rows[name]["runs"])
        for name in ("lstm_bahdanau", transformer)
    )
    assert f"{other - lstm:.3f}" == lead
    assert lead.lstrip("-") in PAGES["docs/results.md"]


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
