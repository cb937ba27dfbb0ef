"""An inspection on a terminal and as a page: all of it, in the width there is, and no text of the corpus obeyed."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.inspection.findings import Bars, Finding, Quoted, Table
from dialog.inspection.html import write_html
from dialog.inspection.inspect import Inspection, inspect
from dialog.inspection.text import to_text
from dialog.report.terminal import display_width, one_line

HOSTILE = "\x1b[2J\x07</dd><script>alert(1)</script><img src=x onerror=alert(1)>\u202e&amp; \"'`{{ 7 * 7 }}\r\n\t你好"
texts = st.text(max_size=90) | st.just(HOSTILE) | st.just("w" * 300)


def made(text: str, said: str | None = None) -> Inspection:
    said = text if said is None else said
    shown = (
        Table(text, ("", "a", text[:9]), ((text, "1", "2"), ("x", "3", text[:9]))),
        Bars(text, ((text, 0.0, "none"), (text, 3.0, "3"), ("é", 0.001, "few"))),
        Quoted(text, ((text, text), ("", text))),
    )
    sizes = {"train": {"dialogues": 2, "turns": 5}, "test": {"dialogues": 0, "turns": 0}}
    return Inspection(
        sizes, {"one": Finding("One", "bad", said, said, said, shown), "two": Finding("Two", "good", "", "")}
    )


@given(texts, st.integers(60, 120))
def test_no_line_is_wider_than_the_terminal_and_none_commands_it(text: str, width: int) -> None:
    lines = click.unstyle(to_text(made(text), text, width)).split("\n")
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


def test_hostile_text_is_text(tmp_path: Path) -> None:
    tame, hostile = page(made("x" * display_width(one_line(HOSTILE))), tmp_path), page(made(HOSTILE), tmp_path, HOSTILE)
    assert hostile.tags == tame.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in tame.attributes]
    assert any("<script>alert(1)</script>" in text for text in hostile.texts)
    assert not any(re.search("[\x00-\x08\x0b-\x1f\u202e]", text) for text in hostile.texts)
    assert any("{{ 7 * 7 }}" in text for text in hostile.texts)


def test_a_turn_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    found = made("我" * 10**6, said="ours")
    assert len(to_text(found, "t", 100)) < 5000
    write_html(found, tmp_path / "long.html", title="t", command="t")


def test_a_page_asks_for_nothing(tmp_path: Path) -> None:
    found = page(made(HOSTILE), tmp_path)
    assert not {"script", "img", "link", "iframe", "object"} & set(found.tags)
    assert all(value.startswith("#") for name, value in found.attributes if name in ("href", "src", "action"))
    assert "http" not in "".join(found.texts)


@pytest.mark.parametrize("show", ["text", "html"])
def test_all_of_a_real_inspection_is_shown(told: Callable[..., Any], tmp_path: Path, show: str) -> None:
    shared = ["Where is the hat ?", "On the big table ."]
    found = inspect(told(train=[shared, ["a", "b"], ["a", "b"]], validation=[["c", "d"]], test=[shared]), quiet=True)
    whole = click.unstyle(to_text(found, "told", 100)) if show == "text" else "\n".join(page(found, tmp_path).texts)
    flat = " ".join(whole.split())
    for finding in found.findings.values():
        for text in (finding.title, finding.headline, finding.summary, finding.advice):
            assert " ".join(text.split()) in flat
        for each in finding.shown:
            assert each.caption[:80] in flat
    assert "On the big table ." in flat
