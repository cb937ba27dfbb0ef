"""Charts of a report as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from dialog.report.drawing.axes import with_legend
from dialog.report.files import write_reports
from dialog.report.formats.results import results_of_json

SVG = "{http://www.w3.org/2000/svg}"


def test_each_chart_is_a_file_with_a_legend(three: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "learning-curves-9.svg").write_text("of an earlier report")
    write_reports(results_of_json(three), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    figures = sorted((tmp_path / "figures").iterdir())
    assert len(figures) == page.count('aria-label="Chart"')
    assert {path.name for path in figures} >= {
        "learning-curves-1.svg",
        "use-of-the-context-1.svg",
        "breakdown-1.svg",
    }
    for path in figures:
        if path.name.startswith("differences-"):  # its texts name the contenders
            continue
        image = Xml.fromstring(path.read_text(encoding="utf-8"))
        *legend, chart = image
        names = [text.text for text in legend if text.tag == f"{SVG}text"]
        assert names[:2] == ["lstm", "transformer"]
        if path.name.startswith(("breakdown-", "learning-curves-")):
            assert names[2:] == [], "a file of responses has no likelihood"
        assert chart.tag == f"{SVG}svg"
        below = [float(text.attrib["y"]) for text in legend if text.tag == f"{SVG}text"]
        assert int(chart.attrib["height"]) < min(below)
        assert max(below) < int(image.attrib["height"])
        assert "light-dark" not in path.read_text(encoding="utf-8")


def test_a_drawing_without_a_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="no size"):
        with_legend("<svg></svg>", {0: "a"})
