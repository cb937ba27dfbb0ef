"""The blind rating of a report in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browser import needs_chromium, run_in_chromium

from dialog.report.formats.results import results_of_json
from dialog.report.html import write_html

STEPS = """
  const state = () => one("#rating output").textContent;
  const shown_pair = () => all(".pair").findIndex((pair) => !pair.hidden);
  const questions = [];
  let answer = false;
  window.confirm = (question) => questions.push(question) && answer;
  const seen = [];
  const note = () => seen.push([state(), shown_pair(), shown(one("[data-do=discard]"))]);
  note();
  one("[data-do=start]").click();
  for (const key of ["1", "2", "0", "S", "x", "ArrowLeft"]) press(document.body, key);
  note();
  for (const key of Array(60).fill("1")) press(document.body, key);
  press(document.body, "Escape");
  note();
  one("[data-do=discard]").click();
  note();
  answer = true;
  one("[data-do=discard]").click();
  note();
  one("[data-do=start]").click();
  note();
  return [seen, questions.length, JSON.parse(localStorage.getItem(Object.keys(localStorage)[0])).ratings];
"""


@needs_chromium
def test_keys_rate_pairs_and_a_new_rater_starts_blind(
    results: dict[str, Any], tmp_path: Path
) -> None:
    """Other keys do nothing; ratings that were not downloaded are discarded after a question
    only.
    """
    write_html(results_of_json(results), tmp_path / "report.html")
    seen, questions, stored = run_in_chromium(
        (tmp_path / "report.html").read_text(encoding="utf-8"), STEPS, tmp_path
    )
    complete = "50 of 50 rated; complete: download the ratings"
    assert seen == [
        ["0 of 50 rated", 0, False],
        ["Pair 4; 4 of 50 rated", 3, False],
        [complete, 0, True],
        [complete, 0, True],
        ["0 of 50 rated", 0, False],
        ["Pair 1; 0 of 50 rated", 0, False],
    ]
    assert (questions, stored) == (2, [])
