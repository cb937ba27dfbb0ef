"""The attention section of a report in Chromium, with hostile names and texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browser import needs_chromium, run_in_chromium

from dialog.report.formats.results import results_of_json
from dialog.report.html import write_html


@needs_chromium
def test_readers_choose_example_and_run(hostile: dict[str, Any], tmp_path: Path) -> None:
    write_html(results_of_json(hostile), tmp_path / "report.html")
    steps = """
      const titles = () => all('.explorer .panel').filter(shown).map((panel) => panel.querySelector('h3').textContent);
      const [example, a, , , b] = all('.explorer select');
      const seen = { examples: example.options.length, runs: a.options.length, before: titles() };
      pick(a, '2');
      pick(example, '1');
      labelled('difference').click();
      return { ...seen, after: titles(), still: shown(one('.still')), images: all('img').length };
    """
    seen = run_in_chromium((tmp_path / "report.html").read_text(encoding="utf-8"), steps, tmp_path)
    one, other = (model["name"] for model in hostile["models"])
    assert (seen["examples"], seen["runs"], seen["images"], seen["still"]) == (2, 4, 0, False)
    for title, side, name, seed in zip(seen["before"], "AB", (one, other), (0, 0), strict=True):
        assert title.startswith(f"{side}: {name[:20]}")
        assert title.endswith(f", seed {seed}: decoder.attention")
    assert seen["after"][0].endswith(", seed 1: decoder.attention")
    assert seen["after"][2].startswith("Difference A − B")
