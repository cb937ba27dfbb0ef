"""Learning curves of several seeds."""

from __future__ import annotations

from xml.etree import ElementTree

from dialog.report.drawing.charts import Spread, bands_svg, categories_svg, seed_band, thinned


def test_seeds_without_a_common_range_keep_their_lines() -> None:
    slow, fast = [(8.0, 3.0), (12.0, 2.0)], [(1.0, 2.9), (3.0, 2.1)]
    assert seed_band([slow, fast]) == ([], [], [], [])
    image = ElementTree.fromstring(bands_svg({0: [slow, fast]}, x="seconds", y="bits per byte"))
    lines = [element for element in image.iter() if element.get("stroke-width") == "0.8"]
    assert len(lines) == 2, "a thin line per seed"


def test_a_thinned_line_has_both_ends() -> None:
    line = [(float(x), 0.0) for x in range(250)]
    assert [thinned(line)[0], thinned(line)[-1]] == [line[0], line[-1]]
    assert 100 <= len(thinned(line)) < 250
    assert thinned(line[:3]) == line[:3]
    assert thinned(line[:1]) == line[:1]
    assert thinned([]) == []


def test_labels_of_categories_do_not_overlap() -> None:
    labels = ["commissive statement", "directive", "inform", "question", "x", "y"]
    image = ElementTree.fromstring(
        categories_svg(labels, {0: [Spread(1.0)] * 6}, x="act", y="bits")
    )
    texts = [element for element in image.iter() if element.get("y") == "200.0"]
    assert "".join(texts[0].itertext()) == "commissive statementcommi…", (
        "the full label is the tooltip"
    )
    shown = [(element[0].tail if len(element) else element.text) or "" for element in texts]
    middles = [float(element.get("x", 0)) for element in texts]
    edges = [
        edge
        for x, text in zip(middles, shown, strict=True)
        for edge in (x - 3.3 * len(text), x + 3.3 * len(text))
    ]
    assert len(edges) == 12
    assert edges == sorted(edges)


def test_a_curve_of_one_validation_is_a_dot() -> None:
    svg = bands_svg({0: [[(10.0, 1.5)]], 1: [[(12.0, 1.2)]]}, x="steps", y="bits")
    assert svg.count("<circle") == 2
    assert bands_svg({0: [[(10.0, 1.5), (20.0, 1.0)]]}, x="steps", y="bits").count("<circle") == 0
