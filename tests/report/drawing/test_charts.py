"""Learning curves of several seeds."""

from __future__ import annotations

from xml.etree import ElementTree

from dialog.report.drawing.charts import bands_svg, seed_band


def test_seeds_without_a_common_range_keep_their_lines() -> None:
    slow, fast = [(8.0, 3.0), (12.0, 2.0)], [(1.0, 2.9), (3.0, 2.1)]
    assert seed_band([slow, fast]) == ([], [], [], [])
    image = ElementTree.fromstring(bands_svg({0: [slow, fast]}, x="seconds", y="bits per byte"))
    lines = [element for element in image.iter() if element.get("stroke-width") == "0.8"]
    assert len(lines) == 2, "a thin line per seed"
