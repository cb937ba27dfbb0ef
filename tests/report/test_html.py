from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dialog.report.html import write_html

VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; raises for unbalanced tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def written(results: dict[str, Any], folder: Path) -> str:
    path = folder / "report.html"
    write_html(results, path)
    return path.read_text(encoding="utf-8")


def test_hostile_text_adds_no_element_and_no_attribute(
    results: dict[str, Any], hostile: dict[str, Any], tmp_path: Path
) -> None:
    harmless, evil = Page(written(results, tmp_path)), Page(written(hostile, tmp_path))
    # a truncated label adds a <title> with its full text; nothing else may differ
    assert [tag for tag in evil.tags if tag != "title"] == [tag for tag in harmless.tags if tag != "title"]
    assert not {"script", "img", "link", "iframe", "object", "a"} & set(evil.tags)
    assert {(tag, name) for tag, name, _ in evil.attributes} == {(tag, name) for tag, name, _ in harmless.attributes}


def test_no_handlers_and_no_addresses(hostile: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(hostile, tmp_path))
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "src", "srcset", "action", "data", "xlink:href")
        if name in ("style", "http-equiv", "class", "id"):
            assert "evil" not in value
            assert "url(" not in value


def test_hostile_text_stays_readable(hostile: dict[str, Any], tmp_path: Path) -> None:
    text = "".join(Page(written(hostile, tmp_path)).texts)
    assert "</script></title></svg><img src=//evil.example onerror=alert(1)>" in text
    assert "\\x1b[2J" in text
    assert not set(text) & set("\x1b\u202e\x00")


def test_the_page_loads_nothing(results: dict[str, Any], tmp_path: Path) -> None:
    html = written(results, tmp_path)
    assert "default-src 'none'; style-src 'unsafe-inline'" in html
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {"http://www.w3.org/2000/svg"}, "SVG namespace"
    assert "url(" not in html
    assert "@import" not in html
    assert "<script" not in html


def test_the_page_shows_the_results(results: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(results, tmp_path))
    text = " ".join("".join(page.texts).split())
    for shown in (
        *("lstm and transformer", "dialog compare hello", "test, 1,234 examples", "0, 1, 2", "1 h 07 min"),
        *("1.510 ± 0.010", "1,234,567", "✓ equal", "✗ must be equal", "differs", "decoder.attention", "(empty)"),
        *("(first turn of its dialogue)", "2.13.0", "UTF-8 bytes"),
    ):
        assert shown in text, shown
    assert page.tags.count("svg") == 4
    assert "color-scheme" in text
    assert [value for tag, name, value in page.attributes if (tag, name) == ("td", "class")].count("best") == 1


def test_the_signature_of_sacrebleu(results: dict[str, Any], tmp_path: Path) -> None:
    for model in results["models"]:
        model["summary"]["sacrebleu"] = {"mean": 1.25, "std": None, "n": 1}
    assert "nrefs:1|tok:13a" in written(results, tmp_path)


def test_missing_parts_have_no_heading(bare: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(bare, tmp_path))
    text = "".join(page.texts)
    assert "svg" not in page.tags
    for heading in ("Parity", "Learning curves", "Attention", "Responses"):
        assert heading not in text


@pytest.mark.parametrize("count", [1, 8])
def test_any_number_of_models(results: dict[str, Any], tmp_path: Path, count: int) -> None:
    first = results["models"][0]
    results["models"] = [first | {"name": f"model {index}"} for index in range(count)]
    results |= {"parity": [], "samples": [], "attention": []}
    text = "".join(Page(written(results, tmp_path)).texts)
    assert all(f"model {index}" in text for index in range(count))


def test_equal_results_give_equal_files(results: dict[str, Any], tmp_path: Path) -> None:
    assert written(results, tmp_path) == written(results, tmp_path)
