"""Terminal and HTML output: complete, within the width, and safe from hostile text of the
corpus.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.escaping import one_line
from dialog.inspection.findings import BarChart, Finding, Quotation, Table
from dialog.inspection.inspect import Inspection, inspect
from dialog.inspection.output import to_text, write_html
from dialog.report.terminal import display_width

HOSTILE = (
    "\x1b[2J\x07</dd><script>alert(1)</script><img src=x onerror=alert(1)>\u202e&amp; \"'`{{ 7 * 7"
    " }}\r\n\t你好"
)
texts = st.text(max_size=90) | st.just(HOSTILE) | st.just("w" * 300)


def make_inspection(text: str, summary: str | None = None) -> Inspection:
    summary = text if summary is None else summary
    details = (
        Table(text, ("", "a", text[:9]), ((text, "1", "2"), ("x", "3", text[:9]))),
        BarChart(text, ((text, 0.0, "none"), (text, 3.0, "3"), ("é", 0.001, "few"))),
        Quotation(text, ((text, text), ("", text))),
    )
    sizes = {"train": {"dialogues": 2, "turns": 5}, "test": {"dialogues": 0, "turns": 0}}
    return Inspection(
        sizes,
        {
            "one": Finding("One", "bad", summary, summary, summary, details),
            "two": Finding("Two", "good", "", ""),
        },
    )


@settings(max_examples=50)
@given(texts, st.integers(60, 120))
def test_lines_fit_the_width_without_control_characters(text: str, width: int) -> None:
    lines = click.unstyle(to_text(make_inspection(text), text, width)).split("\n")
    for line in lines:
        assert display_width(line) <= width
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", line)


class Page(HTMLParser):
    """Elements, attributes and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(inspection: Inspection, folder: Path, title: str = "t") -> Page:
    write_html(inspection, folder / "page.html", title=title, command=title)
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    tame = page(make_inspection("x" * display_width(one_line(HOSTILE))), tmp_path)
    hostile = page(make_inspection(HOSTILE), tmp_path, HOSTILE)
    assert hostile.tags == tame.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in tame.attributes]
    assert any("<script>alert(1)</script>" in text for text in hostile.texts)
    assert not any(re.search("[\x00-\x08\x0b-\x1f\u202e]", text) for text in hostile.texts)
    assert any("{{ 7 * 7 }}" in text for text in hostile.texts)


def test_a_very_long_turn_is_truncated(tmp_path: Path) -> None:
    inspection = make_inspection("我" * 10**5, summary="short")
    assert len(to_text(inspection, "t", 100)) < 5000
    assert "我" * 499 + "…" in page(inspection, tmp_path).texts


def test_a_page_loads_nothing(tmp_path: Path) -> None:
    html = page(make_inspection(HOSTILE), tmp_path)
    assert not {"script", "img", "link", "iframe", "object"} & set(html.tags)
    assert all(
        value.startswith("#")
        for name, value in html.attributes
        if name in ("href", "src", "action")
    )
    assert "http" not in "".join(html.texts)


@pytest.mark.parametrize("output", ["text", "html"])
def test_a_real_inspection_is_complete(
    make_corpus: Callable[..., Any], tmp_path: Path, output: str
) -> None:
    shared = ["Where is the hat ?", "On the big table ."]
    corpus = make_corpus(
        train=[shared, ["a", "b"], ["a", "b"]], validation=[["c", "d"]], test=[shared]
    )
    inspection = inspect(corpus, quiet=True)
    pages = page(inspection, tmp_path).texts
    whole = (
        click.unstyle(to_text(inspection, "memory", 100)) if output == "text" else "\n".join(pages)
    )
    words = " ".join(whole.split())
    for finding in inspection.findings.values():
        for text in (finding.title, finding.headline, finding.summary, finding.advice):
            assert " ".join(text.split()) in words
        for detail in finding.details:
            assert detail.caption[:80] in words
    assert "On the big table ." in words
