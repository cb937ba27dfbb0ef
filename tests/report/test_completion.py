from __future__ import annotations

from pathlib import Path
from typing import Any

from dialog.report.completion import complete
from dialog.report.html import write_html
from dialog.report.markdown import to_markdown
from dialog.report.verdict import terminal_table


def test_missing_fields_are_empty(results: dict[str, Any], tmp_path: Path) -> None:
    """A results.json of an earlier version has fewer fields, and summaries of all dialogues only."""
    old = {key: results[key] for key in ("format", "command", "environment", "split", "seconds")}
    old["models"] = [
        {"name": model["name"], "summary": model["summary"]["all"], "runs": [{"seed": 1, "metrics": {"examples": 5}}]}
        for model in results["models"]
    ]
    completed = complete(old)
    assert completed["examples"] == 5
    assert completed["models"][0]["summary"] == {"all": results["models"][0]["summary"]["all"]}
    assert completed["differences"] == completed["parity"] == ()
    write_html(old, tmp_path / "report.html")
    for text in ((tmp_path / "report.html").read_text(encoding="utf-8"), to_markdown(old), terminal_table(old)):
        assert "Bits per byte" in text


def test_complete_results_are_unchanged(results: dict[str, Any], three: dict[str, Any]) -> None:
    for variant in (results, three):
        completed = complete(variant)
        assert {key: completed[key] for key in variant} == variant
