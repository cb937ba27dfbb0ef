"""Programs that judge pairs of responses: preference, both orders, bad answers, resumption."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dialog.comparison.preference.endpoint import choice_of, messages
from dialog.comparison.preference.judge import judge
from dialog.comparison.preference.pairs import (
    ResponsePair,
    draw_pairs,
    kept_sections,
    preference,
    read_contenders,
)
from dialog.errors import UserError
from dialog.escaping import json_copy
from dialog.report.formats.results import RESULTS, read_results

Compare = Callable[..., tuple[int, str]]
Program = Callable[[str], str]
LONGER = """
    a = len(row['a'].split()); b = len(row['b'].split())
    choice = 'tie' if a == b else 'a' if a > b else 'b'"""


def answers(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "judges").glob("*/answers.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_judge_adds_its_preferences_to_the_report(
    folder: Path, program: Program, compare: Compare
) -> None:
    command = program(LONGER)
    assert compare("out", "--judge", command)[0] == 0
    (entry,) = read_results(folder).judges
    (pair,) = entry.pairs
    # 36 examples of two pairs of runs; the longer response is a's in 4 of 5, equal in one of 12
    drawn = draw_pairs(read_contenders(folder, read_results(folder)), 200)["long", "short"]
    sizes = [[len(text.split()) for text in one.responses] for one in drawn]
    signs = np.sign([a - b for a, b in sizes])
    assert pair.share == pytest.approx((signs.mean() + 1) / 2)
    assert pair.interval[0] < pair.share < pair.interval[1] < 1
    counts = (pair.items, pair.runs, pair.dialogues, pair.equal)
    assert counts == (72, 2, 12, sum(one.is_equal for one in drawn))
    assert pair.equal > 0
    assert (pair.consistency, pair.first) == (1.0, 0.5)
    assert entry.command == command
    assert len(answers(folder)) == 2 * (72 - pair.equal)
    for file in ("report.html", "report.md", "report.tex"):
        assert "Consistent" in (folder / file).read_text(encoding="utf-8")
    assert kept_sections(folder / "results.json", read_results(folder))["judges"] == (entry,)
    assert compare("out")[0] == 0, "the next report keeps the judgements"
    assert read_results(folder).judges == (entry,)


@pytest.mark.parametrize(("body", "first"), [("    choice = 'a'", 1.0), ("    choice = 'b'", 0.0)])
def test_a_judge_that_contradicts_itself_prefers_nobody(
    folder: Path, program: Program, body: str, first: float, caplog: pytest.LogCaptureFixture
) -> None:
    (pair,) = judge(folder, program(body), items=10).judges[0].pairs
    assert (pair.share, pair.consistency, pair.first) == (0.5, 0.0, first)
    assert pair.interval == (0.5, 0.5)
    assert "contradicts itself in 100 %" in caplog.text
    assert "contradicts itself" in (folder / "report.html").read_text(encoding="utf-8")


def test_an_interrupted_judge_is_asked_for_the_rest_only(folder: Path, program: Program) -> None:
    """And a changed program is not mixed with the first one's answers."""
    count = "    open('asked', 'a').write('x')"
    command = program(f"{count}\n    if os.path.getsize('asked') == 7: os._exit(3){LONGER}")
    judge(folder, command, items=20)
    asked = Path("asked").stat().st_size
    assert asked == len(answers(folder)) + 1
    (path,) = (folder / "judges").glob("*/answers.jsonl")
    path.write_bytes(path.read_bytes() + b'{"id": "half a l')
    judge(folder, command, items=30)
    assert Path("asked").stat().st_size == len(answers(folder)) + 1 > asked
    program("    choice = 'tie'")
    with pytest.raises(UserError, match=r"judge\.py has changed since"):
        judge(folder, command, items=40)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    sys.exit('no \x1b[31m model')", r"ended with exit code 1 \(no \\x1b\[31m model\)"),
        ("    row['id'] = 'invented'; choice = 'a'", 'answered id "invented", which is not'),
        ("    row['id'] = row.get('x', 'y')[:0]; choice = 'a'", 'answered id "", which'),
        ("    choice = 'left\x1b'", r'is "left\\u001b"; give a, b or tie'),
        ("    choice = ['a']", "give a, b or tie"),
        ("    choice = 'x' * 10**7", "a line of more than 1,000,000 bytes"),
        ("    print(json.dumps({'id': row['id'], 'choice': 'a'})); choice = 'a'", "twice"),
        ("    if len(row['a'].split()) > 3: continue\n    choice = 'a'", r"of \d+ questions are"),
    ],
)
def test_bad_judges_give_one_line(folder: Path, program: Program, body: str, message: str) -> None:
    before = (folder / "results.json").read_bytes()
    with pytest.raises(UserError, match=message) as failed:
        judge(folder, program(body), items=10, seconds=20)
    assert "\n" not in str(failed.value)
    assert "\x1b" not in str(failed.value)
    assert (folder / "results.json").read_bytes() == before


def test_unfinished_or_changed_comparisons(folder: Path) -> None:
    (file,) = folder.glob("runs/short/**/responses.jsonl")
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"responses\.jsonl: has changed since the report"):
        judge(folder, "true")
    with pytest.raises(UserError, match="is not a finished comparison"):
        judge(folder / "runs", "true")
    with pytest.raises(UserError, match="--judge: no command"):
        judge(folder, " ")


def test_results_are_read_as_they_were_written(folder: Path) -> None:
    written = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    assert json_copy(read_results(folder)) == written


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 4}, "version 4"),
        ({"version": 99}, "version 99"),
        ({"models": [{"name": 3}]}, r"models\[0\].name"),
        ({"samples": [{"id": "1"}]}, r"samples\[0\]: no context"),
    ],
)
def test_unusable_results_are_one_line(
    folder: Path, changes: dict[str, object], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the file, what is wrong, and the command that writes it again."""
    file = folder / RESULTS
    results = read_results(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | changes), encoding="utf-8")
    with pytest.raises(UserError, match=rf"results\.json: .*{what}.*compare {folder}"):
        read_results(folder)
    assert kept_sections(file, results) == {}
    assert "--ratings" in caplog.text


def test_the_interval_of_one_run_is_that_of_a_paired_t_test() -> None:
    """With one pair in each dialogue, the jackknife variance is that of a mean."""
    scores = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 50)
    pairs = [ResponsePair("a", "b", 0, str(n), str(n), (), (), ("x", "y")) for n in range(50)]
    share, limits = preference(pairs, scores.tolist())
    expected = stats.ttest_1samp(scores, 0.5).confidence_interval()
    assert share == pytest.approx(scores.mean())
    assert limits == pytest.approx([expected.low, expected.high])
    assert preference(pairs[:1], [1.0]) == (1.0, None)


def test_an_endpoint_is_asked_and_understood() -> None:
    (text,) = messages({"context": ["hi {a}"], "a": "one", "b": "{context}"})
    assert "Response A:\none\n\nResponse B:\n{context}\n" in text
    replies = {"A": "a", " B.": "b", "tie": "tie", "A is worse, so: B": "b", "Neither": "tie"}
    assert {reply: choice_of(reply)["choice"] for reply in replies} == replies
