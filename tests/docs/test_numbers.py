"""Measured figures in README, docs/results.md and recipes/ are those of the records."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev
from types import ModuleType
from typing import Any

import pytest

from dialog.report.formats.metrics import metric_at

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "results" / "records"
RECORDS = {
    path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*/*.json"))
}
WITH_SEEDS = [
    path
    for path, record in RECORDS.items()
    if any(len(row["runs"]) > 1 for row in record["recipes"])
]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "docs" / "results.md",
        ROOT / "README.md",
        *sorted(ROOT.glob("recipes/**/*.md")),
    )
}
APPENDICES = {name: text for name, text in PAGES.items() if name.endswith("appendix.md")}
GENERATED = re.compile(r"<!-- results: .*?<!-- end of results -->", re.DOTALL)
SPREAD = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")
BOUND = r"([-−]?0\.\d{3,})"
INTERVAL = re.compile(rf"(?:\bby|\|)\s+{BOUND}\s+to\s+{BOUND}")
"""Of a difference between two recipes, in prose or in a cell. Other ranges have no "by"."""


def prose(page: str) -> str:
    return "" if page in APPENDICES else GENERATED.sub("", PAGES[page])


def places(number: str) -> int:
    return len(number.partition(".")[2])


def names(metrics: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in metrics.items():
        if isinstance(value, dict):
            yield from names(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield prefix + key


def values(row: dict[str, Any], metric: str) -> list[float]:
    return [
        float(value)
        for run in row["runs"]
        if (value := metric_at(run["metrics"], metric)) is not None
    ]


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
    ("page", "mean", "deviation"),
    [(page, *m) for page in PAGES for m in SPREAD.findall(prose(page))],
)
def test_means_and_deviations_are_recorded(page: str, mean: str, deviation: str) -> None:
    assert is_recorded(mean, deviation)


@pytest.mark.parametrize(
    ("page", "low", "high"),
    [(page, *m) for page in PAGES for m in sorted(set(INTERVAL.findall(prose(page))))],
)
def test_intervals_are_recorded(page: str, low: str, high: str) -> None:
    """Of bits per byte, of either sign: a record has A minus B, the page may have B minus A."""
    stated = [low.replace("−", "-"), high.replace("−", "-")]
    corpus = Path(page).parts[1]
    intervals = (
        [f"{sign * end:.{places(low)}f}" for end in pair["interval"][::sign]]
        for path, record in RECORDS.items()
        if page == "docs/results.md" or path.parent.name == corpus
        for pair in record["differences"] or []
        if pair["interval"] and pair["metric"] == "bits_per_byte"
        for sign in (1, -1)
    )
    assert stated in intervals


@pytest.fixture
def page_tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    return importlib.import_module("page_tables")


def test_tables_are_those_of_the_records(page_tables: ModuleType) -> None:
    for page, name, table in page_tables.tables():
        assert table in PAGES[page], name
    named = {
        name for text in PAGES.values() for name in re.findall(r"<!-- results: (.*?) -->", text)
    }
    for path, record in RECORDS.items():
        page = PAGES[f"recipes/{path.parent.name}/README.md"]
        assert path.stem not in named or page_tables.to_markdown(record) in page, path


def test_appendices_are_those_of_the_queue(page_tables: ModuleType) -> None:
    """Of every entry the settings, and what is recorded or missing."""
    appendix = importlib.import_module("appendix").appendix
    queue = page_tables.read_queue(FOLDER.parent / "queue.yaml")
    assert {entry.corpus for entry in queue} == {Path(page).parts[1] for page in APPENDICES}
    for page, text in APPENDICES.items():
        corpus = Path(page).parts[1]
        assert appendix(corpus, queue, page_tables.FOLDERS) == text, (
            f"{page} is older than the records: run python benchmarks/results/page_tables.py"
        )


@pytest.mark.parametrize("path", WITH_SEEDS, ids=lambda path: path.stem)
def test_records_are_decided_by_the_present_rules(path: Path, page_tables: ModuleType) -> None:
    """From the sums per dialogue, in bits per byte; not those of single runs, which take long."""
    record = RECORDS[path]
    pooled = importlib.import_module("pooled").pooled_verdict(record["recipes"])["differences"]
    recorded = [item for item in record["differences"] if item["metric"] == "bits_per_byte"]
    for item, other in zip(pooled, recorded if pooled else [], strict=True):
        assert item["interval"] == pytest.approx(other["interval"], rel=1e-3, abs=1e-6)
        assert item["decided"] == other["decided"]
