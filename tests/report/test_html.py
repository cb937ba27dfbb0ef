from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dialog.report.formats.results import results_of_json
from dialog.report.html import PRINTED, printed_parts, shares, write_html
from dialog.report.sections.context_use import context_use

VOID = {"meta", "link", "img", "br", "input", "wbr"}


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
    write_html(results_of_json(results), path)
    return path.read_text(encoding="utf-8")


def test_hostile_text_adds_no_element_and_no_attribute(
    results: dict[str, Any], hostile: dict[str, Any], tmp_path: Path
) -> None:
    # long names make tables that continue below on paper
    harmless, evil = (
        Page(
            re.sub(
                '<div class="printed">.*?</div>', "", written(content, tmp_path), flags=re.DOTALL
            )
        )
        for content in (results, hostile)
    )
    # a truncated label adds a <title> with its full text, a slash in a name a <wbr>; nothing else
    # may differ
    extra = ("title", "wbr")
    assert [tag for tag in evil.tags if tag not in extra] == [
        tag for tag in harmless.tags if tag not in extra
    ]
    assert not {"img", "link", "iframe", "object"} & set(evil.tags)
    assert evil.tags.count("script") == 2, (
        "the script of the page itself and the data of attention maps"
    )
    assert {(tag, name) for tag, name, _ in evil.attributes} == {
        (tag, name) for tag, name, _ in harmless.attributes
    }


def test_no_handlers_and_no_addresses(hostile: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(hostile, tmp_path))
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "action", "data", "xlink:href")
        assert name != "href" or value.startswith("#"), "links to sections of the page"
        if name in ("style", "http-equiv", "class", "id"):
            assert "evil" not in value
            assert "url(" not in value


def test_hostile_text_stays_readable(hostile: dict[str, Any], tmp_path: Path) -> None:
    text = "".join(Page(written(hostile, tmp_path)).texts)
    assert "</script></title></svg><img src=//evil.example onerror=alert(1)>" in text
    assert "\\x1b[2J" in text
    assert not set(text) & set("\x1b\u202e\x00")


def test_the_page_loads_nothing_and_allows_one_script(
    results: dict[str, Any], tmp_path: Path
) -> None:
    html = written(results, tmp_path)
    (script,) = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
        in unescape(html)
    )
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {"http://www.w3.org/2000/svg"}, (
        "SVG namespace"
    )
    assert "url(" not in html
    assert "@import" not in html
    assert "innerHTML" not in script


def test_the_page_shows_the_results_in_order(three: dict[str, Any], tmp_path: Path) -> None:
    page = Page(re.sub("<nav.*?</nav>", "", written(three, tmp_path), flags=re.DOTALL))
    text = " ".join("".join(page.texts).split())
    places = [
        text.index(shown)
        for shown in (
            *(
                "lstm: seed 2 diverged",
                "lstm is better than transformer",
                "Filled: decided",
            ),
            *(
                "test, 7,740 responses in 1,000 dialogues",
                "1 h 07 min",
                "Brackets and bars: 95 % intervals",
                "dialog compare hello",
            ),
            *("Parity contract", "✗ must be equal", "2 equal settings", "Likelihood", "5-gram"),
            *(
                "Generated responses",
                "human",
                "Cost",
                "Learning curves",
                "Use of the context",
                "Breakdown",
            ),
            *(
                "Calibration",
                "Examples on which the contenders differ most",
                "Random examples",
                "decoder.attention",
            ),
            *("Power and method of every test", "All runs", "UTF-8 bytes", "2.13.0"),
        )
    ]
    assert places == sorted(places)
    assert page.tags.count("svg") == 1 + 3 + 2 + 5 + 1 + 3
    assert "color-scheme" in text


def test_every_section_is_linked_at_the_top(three: dict[str, Any], tmp_path: Path) -> None:
    html = written(three, tmp_path)
    links = re.findall('<a href="#(.*?)">(.*?)</a>', html)
    titles = re.findall(r'<(?:section id="(\S+)">\s*<h2|h2 id="(\S+)")>(.*?)</h2>', html)
    assert links == [(one or other, title) for one, other, title in titles]
    assert len(links) == html.count("<h2") == len({anchor for anchor, _ in links}) > 10


def test_attention_maps_share_the_weights_of_a_page() -> None:
    """A small map leaves what it does not need to a large one."""
    assert shares([1_000, 18_000, 18_000], 40_000) == [1_000, 18_000, 18_000]
    assert shares([1_000, 18_000, 90_000], 40_000) == [1_000, 18_000, 21_000]
    assert shares([90_000, 90_000], 40_000) == [20_000, 20_000]


def test_bold_cells_are_decided_and_nothing_else_is_bold(
    results: dict[str, Any], tmp_path: Path
) -> None:
    html = written(results, tmp_path)
    page = Page(html)
    marked = [
        value
        for tag, name, value in page.attributes
        if (tag, name) == ("td", "class") and "decided" in value
    ]
    assert len(marked) == 3 * 4 * 3, (
        "winner, difference and interval of four metrics on three subsets"
    )
    assert not {"b", "strong"} & set(page.tags)
    style = html[html.index("<style>") : html.index("</style>")]
    rules = re.findall(r"^(.*?) \{.*font-weight: (?:[6-9]00|bold)", style, re.MULTILINE)
    assert rules == [".decided"]


def test_every_table_has_its_source(three: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(three, tmp_path))
    # those of attention maps: weights and strongest tokens of two models
    tables = page.tags.count("table") - 2 * 2
    assert tables > 10
    sources = [text for text in page.texts if text.startswith("Evaluation 0123456789ab")]
    assert len(sources) == tables
    assert sum("nrefs:1|case:lc" in text for text in sources) == 2, (
        "values and pairs of generation metrics"
    )


def test_a_page_of_the_longest_texts_is_below_2_mb(results: dict[str, Any], tmp_path: Path) -> None:
    long = "长" * 5_000
    for key in ("samples", "disagreements"):
        results[key] = [
            {
                "id": f"{key}{n}",
                "context": [long] * 40,
                "reference": long,
                "responses": [long, long],
            }
            for n in range(12)
        ]
    tokens = {
        "context_tokens": ["long"] * 500,
        "response_tokens": ["b"] * 60,
        "context_lines": [n // 50 for n in range(500)],
    }
    for example in results["attention"]["examples"]:
        for entry in example["models"]:
            weights = [[[0.1] * 500] * 60] * 4  # already three times what a page holds
            entry |= tokens | {
                "context_kinds": ["word"] * 500,
                "maps": [entry["maps"][0] | {"weights": weights}],
            }
    run = results["models"][0]["runs"][0]
    run["curve"] = [run["curve"][1] | {"target_tokens": n, "seconds": n} for n in range(2000)]
    for model in results["models"]:
        model["runs"] = [run] * 5
    assert len(written(results, tmp_path).encode()) < 2_000_000


def test_missing_parts_have_no_heading(bare: dict[str, Any], tmp_path: Path) -> None:
    page = Page(written(bare, tmp_path))
    text = "".join(page.texts)
    assert "svg" not in page.tags
    for heading in (
        "parity",
        "Learning curves",
        "Attention",
        "Responses",
        "Ratings of people",
        "Judge",
    ):
        assert heading not in text


@pytest.mark.parametrize("count", [1, 8])
def test_any_number_of_models(results: dict[str, Any], tmp_path: Path, count: int) -> None:
    first = results["models"][0]
    results["models"] = [first | {"name": f"model {index}"} for index in range(count)]
    results |= {
        "parity": [],
        "samples": [],
        "attention": {},
        "disagreements": [],
        "differences": [],
    }
    text = "".join(Page(written(results, tmp_path)).texts)
    assert all(f"model {index}" in text for index in range(count))


def test_tables_wider_than_a_printed_page_continue_below(
    results_of: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """A part has at most `PRINTED` characters, each column is in one part, and each part names its
    rows.
    """
    results = results_of([f"model_{n}" for n in range(9)])
    (table,) = context_use(results_of_json(results)).tables
    parts = printed_parts(table)
    assert len(parts) > 1
    assert {part[0] for part in parts} == {0}
    assert [column for part in parts for column in part[1:]] == [*range(1, 10)]
    for part in parts:
        assert all(
            sum(len(row[column].text) + 2 for column in part) <= PRINTED for row in table.rows
        )
    page = written(results, tmp_path)
    assert page.count('<div class="scroll wide"') == page.count('<div class="printed">') > 1
    assert ".wide { display: none; }" in page[page.index("@media print") :]
    assert not printed_parts(table.select([0, 1, 2]))


def test_equal_results_give_equal_files(results: dict[str, Any], tmp_path: Path) -> None:
    assert written(results, tmp_path) == written(results, tmp_path)


def test_a_page_of_many_contenders_is_small(
    results_of: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    page = written(results_of([f"task/model_{n}" for n in range(11)]), tmp_path)
    assert len(page.encode()) < 2_000_000
    assert "<h1>11 contenders</h1>" in page
    assert "Every pair, 3 of " in page
