"""Figures of docs/results.md are drawn from the recorded results."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_figures_show_the_recorded_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["results.py", "--output", str(tmp_path)])
    runpy.run_path(str(IMAGES / "results.py"), run_name="__main__")
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in IMAGES.glob("results_*.svg")}
    assert drawn.keys() == kept.keys()
    for name, figure in drawn.items():
        assert figure == kept[name], (
            f"{name} is older than the records: run python docs/images/results.py"
        )
