"""Studies: pages and CSV for raters, and reading their ratings back."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import needs_chromium, run_in_chromium

from dialog.comparison.preference.judge import judge
from dialog.comparison.preference.pairs import kept_sections
from dialog.comparison.preference.ratings import add_ratings
from dialog.comparison.preference.study import write_study
from dialog.errors import UserError
from dialog.report.formats.results import read_results

Compare = Callable[..., tuple[int, str]]
RATERS = 3


@pytest.fixture
def study(folder: Path) -> Path:
    """Return the folder of a study with 3 raters and about 20 pairs."""
    write_study(folder, folder.parent / "study", raters=RATERS, items=20)
    return folder.parent / "study"


def key_of(folder: Path) -> tuple[str, dict[str, Any]]:
    (path,) = (folder / "studies").glob("*.json")
    return path.stem, json.loads(path.read_text(encoding="utf-8"))["questions"]


def rate(folder: Path, rater: int, prefer: str = "long", **changes: str) -> Path:
    """Write the ratings of a rater who prefers one contender; `changes` has other choices."""
    study, questions = key_of(folder)
    lines = []
    for name, key in questions.items():
        if name.startswith(f"{rater}-"):
            right = key["check"] if "check" in key else "ba"[key["first"] == prefer]
            choice = changes.get("check" if "check" in key else "pair", right)
            line = {"study": study, "rater": f"rater-{rater}", "id": name, "choice": choice}
            lines.append(json.dumps(line) + "\n")
    path = folder.parent / f"ratings-{rater}.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


# ------------------------------------------------------------------ writing


def test_a_study_is_balanced_and_blind(folder: Path, study: Path) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in study.iterdir()}
    assert sorted(files) == [
        *("label-studio.xml", "pairs.csv"),
        *(f"rater-{number}.html" for number in range(1, RATERS + 1)),
    ]
    _, questions = key_of(folder)
    pairs = [tuple(key["pair"]) for key in questions.values() if "pair" in key]
    assert set(Counter(pairs).values()) == {RATERS}, "each pair has three raters"
    for rater in range(1, RATERS + 1):
        own = [key for name, key in questions.items() if name.startswith(f"{rater}-")]
        firsts = Counter(key["first"] for key in own if "first" in key)
        assert abs(firsts["long"] - firsts["short"]) <= len(own) // 2
        assert sum("check" in key for key in own) == 5
    shown = "".join(files.values())
    assert not re.search(r"\b(long|short)\b", shown)
    for number in range(1, RATERS + 1):
        html = files[f"rater-{number}.html"]
        assert "<img" not in html
        assert "\x1b" not in html
        assert not re.search(r'(src|href)="', html)
    with (study / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == list(questions)
    assert all(re.match("Speaker 1: .*\nSpeaker 2: ", row["context"]) for row in rows)
    assert not any(row[column].startswith(tuple("=+-@")) for row in rows for column in "ab")


def test_a_study_prints_its_power(folder: Path, compare: Compare) -> None:
    assert compare("out", "--study", "new", "--raters", "2", "--items", "4")[0] == 0
    assert compare("out", "--study", "new")[0] == 2, "an existing folder is not overwritten"
    assert "new: exists" in compare("out", "--study", "new")[1]
    text = write_study(folder, folder.parent / "other", raters=10, items=30)
    assert re.search(r"10 raters: 80 % with \d+ pairs", text)
    line = compare("out", "--raters", "3")[1]
    assert "--raters: only with --study" in line


def test_pairs_of_equal_responses_make_no_study(folder: Path, compare: Compare) -> None:
    write = folder.parent / "same.jsonl"
    write.write_bytes((folder.parent / "a0.jsonl").read_bytes() + b"\n")
    write.write_text(
        "".join(line + "\n" for line in reversed(write.read_text("utf-8").split("\n")) if line),
        encoding="utf-8",
    )
    assert compare("a0.jsonl", "same.jsonl", "--output", "equal")[0] == 0
    with pytest.raises(UserError, match="all responses of the contenders are equal"):
        write_study(folder.parent / "equal", folder.parent / "none", raters=2)


STEPS = """
  const state = () => one("output").textContent;
  const pair = () => all(".pair").findIndex(shown);
  const blobs = [];
  URL.createObjectURL = (blob) => { blobs.push(blob); return "#"; };
  const seen = [[state(), pair()]];
  for (const key of ["1", "b", "0", "x", "ArrowLeft"]) press(document.body, key);
  seen.push([state(), pair()]);
  one(".pair:not([hidden]) [data-choice=b]").click();
  for (const other of Array(40).fill("2")) press(document.body, other);
  one("#save").click();
  const key = Object.keys(localStorage)[0];
  const wide = document.documentElement.scrollWidth > innerWidth;
  return [seen, state(), JSON.parse(localStorage.getItem(key)), blobs.length, all("img").length, wide];
"""


@needs_chromium
def test_a_page_keeps_answers_and_saves_them(folder: Path, study: Path, tmp_path: Path) -> None:
    page = (study / "rater-1.html").read_text(encoding="utf-8")
    number = sum(name.startswith("1-") for name in key_of(folder)[1])
    seen, state, kept, saved, images, wide = run_in_chromium(
        page, STEPS, tmp_path, "--window-size=390,844"
    )
    assert seen == [
        [f"Pair 1 of {number}, 0 answered.", 0],
        [f"Pair 3 of {number}, 3 answered.", 2],
    ]
    assert f"{number} answered. All answered" in state
    assert [choice for _, choice in kept[:4]] == ["a", "b", "b", "b"]
    assert sorted(name for name, _ in kept) == sorted(
        name for name in key_of(folder)[1] if name.startswith("1-")
    )
    assert (saved, images, wide) == (1, 0, False)


# ------------------------------------------------------------------ reading


def test_ratings_are_decoded_to_contenders(folder: Path, study: Path, compare: Compare) -> None:
    files = [
        rate(folder, 1),
        rate(folder, 2, prefer="short", check="tie"),
        rate(folder, 3, pair="tie"),
    ]
    assert compare("out", "--ratings", *map(str, files))[0] == 0
    ratings = read_results(folder).ratings
    (pair,) = ratings.pairs
    assert (pair.a, pair.b, pair.pairs, pair.ratings) == ("long", "short", 20, 40)
    assert (pair.chosen_a, pair.chosen_b, pair.share) == (20, 0, 0.75)
    raters = {entry.rater: entry for entry in ratings.raters}
    assert [name for name, entry in raters.items() if entry.excluded] == ["rater-2"]
    assert (raters["rater-2"].wrong, raters["rater-3"].ties) == (5, 20)
    assert [entry.name for entry in ratings.strengths] == ["long", "short"]
    assert ratings.agreement.alpha < 0
    for file in ("report.html", "report.md", "report.tex"):
        assert "Ratings of people" in (folder / file).read_text(encoding="utf-8")
    notes = (folder / "report.html").read_text(encoding="utf-8")
    assert "excluded by attention checks: rater-2" in notes
    assert "these raters only" in notes, "two raters do not show how raters differ"
    assert kept_sections(folder / "results.json", read_results(folder))["ratings"] == ratings


def test_a_judge_is_compared_with_people(
    folder: Path, study: Path, program: Callable[[str], str]
) -> None:
    """The judge prefers the longer response, and people always `long`, which mostly has it."""
    add_ratings(folder, [rate(folder, rater) for rater in range(1, RATERS + 1)])
    command = program("    choice = 'a' if len(row['a']) > len(row['b']) else 'b'")
    agreement = judge(folder, command, items=4).judges[0].agreement
    assert agreement.items == 20
    assert 0.5 < agreement.raw < 1
    opposite = [rate(folder, rater, prefer="short") for rater in range(1, RATERS + 1)]
    (entry,) = add_ratings(folder, opposite).judges
    assert entry.agreement.items == 20
    assert entry.agreement.raw < 0.5, "it is that with the new ratings"


def test_ratings_of_platforms_are_read(folder: Path, study: Path) -> None:
    """The columns of Label Studio, and of a crowd platform with its prefixes."""
    name = key_of(folder)[0]
    rows = [("1-001", "b"), ("1-002", "tie"), ("1-003", "A")]
    plain = [["id", "study", "annotator", "choice"], *([i, name, "ann", c] for i, c in rows)]
    crowd = [
        ["WorkerId", "Input.study", "Input.id", "Answer.choice"],
        *(["bob\n", name, i, c] for i, c in rows),
    ]
    for file, table in (("plain.csv", plain), ("crowd.csv", crowd)):
        with (folder.parent / file).open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows(table)
    files = [folder.parent / "plain.csv", folder.parent / "crowd.csv"]
    raters = add_ratings(folder, files).ratings.raters
    assert [entry.rater for entry in raters] == ["ann", "bob"]
    assert all(entry.ratings + entry.checks == 3 for entry in raters)


def test_a_rater_rates_a_pair_once(folder: Path, study: Path) -> None:
    """One who answers all rows of pairs.csv has the same pair under the ids of several raters."""
    text = "".join(rate(folder, rater).read_text("utf-8") for rater in range(1, RATERS + 1))
    file = folder.parent / "all.jsonl"
    file.write_text(re.sub(r"rater-\d", "ann", text), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"all\.jsonl:\d+: \"ann\" has rated .* in .*all\.jsonl:\d+"
    ):
        add_ratings(folder, [file])
    assert {entry.rater for entry in read_results(folder).ratings.raters} == set()


def test_votes_of_the_service_are_ratings(folder: Path) -> None:
    """The contenders are found by the weights; votes on two seeds of one say nothing."""
    path = folder / "results.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    for model, weights in zip(results["models"], (("w1", "w2"), ("w3",)), strict=True):
        for run, name in zip(model["runs"], weights, strict=True):
            run["hashes"]["weights"] = name
    path.write_text(json.dumps(results), encoding="utf-8")
    names = [("w3", "w1", "b"), ("w2", "w3", "a"), ("w1", "w3", "tie"), ("w1", "w2", "a")]
    votes = [
        {"format": 1, "time": str(n), "rater": "Ann" if n else "", "chat": "c", "models": ["x", "y"],
         "weights": [a, b], "context": ["hi"], "responses": ["1", "2"], "choice": choice}
        for n, (a, b, choice) in enumerate(names)
    ]  # fmt: skip
    file = folder.parent / "votes.jsonl"
    lines = [json.dumps(vote) + "\n" for vote in votes]
    file.write_text("".join(lines), encoding="utf-8")
    ratings = add_ratings(folder, [file]).ratings
    (pair,) = ratings.pairs
    assert (pair.a, pair.chosen_a, pair.chosen_b, pair.ratings) == ("long", 2, 0, 3)
    assert [entry.rater for entry in ratings.raters] == ["chat c", "Ann"]
    assert ratings.choices == ()
    for bad, message in (
        (lines[0], ":5: .* already in .*:1"),
        (
            lines[1].replace('"w3"', '"w9"').replace('"c"', '"d"'),
            ':5: the model with the weights "w9" is no contender',
        ),
        (lines[1].replace('["w2", "w3"]', '"w3"').replace('"c"', '"d"'), ":5: weights is no list"),
    ):
        file.write_text("".join([*lines, bad]), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            add_ratings(folder, [file])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"study": "S", "rater": "x", "id": "1-001", "choice": "left"}', 'choice "left" is none'),
        ('{"study": "S", "rater": "x", "id": "1-001"}', "choice is null; give a text"),
        (
            '{"study": "S", "rater": "x", "id": "9-999", "choice": "a"}',
            'id "9-999" is not in study',
        ),
        ('{"study": "../x", "rater": "x", "id": "1-001", "choice": "a"}', "study '../x' is none"),
        ('{"study": "S", "rater": "rater-1", "id": "1-001", "choice": "a"}', "already in"),
        ('{"study": ["S"], "id": "1-001", "choice": "a"}', "give a text"),
        ("[1]", "damaged"),
        ("{", "damaged"),
        ("[" * 5000, "damaged"),
    ],
)
def test_edited_files_give_one_line(folder: Path, study: Path, line: str, message: str) -> None:
    file = rate(folder, 1)
    number = len(file.read_text(encoding="utf-8").splitlines()) + 1
    with file.open("a", encoding="utf-8") as out:
        out.write(line.replace('"S"', f'"{key_of(folder)[0]}"') + "\n")
    before = (folder / "results.json").read_bytes()
    with pytest.raises(UserError) as failed:
        add_ratings(folder, [file])
    assert str(failed.value).startswith(f"{file}:{number}: ")
    assert message in str(failed.value)
    assert "\n" not in str(failed.value)
    assert (folder / "results.json").read_bytes() == before


def test_an_edited_key_or_other_responses_are_errors(folder: Path, study: Path) -> None:
    file = rate(folder, 1)
    for given in (folder.parent / "missing.jsonl", folder.parent / "empty.jsonl"):
        (folder.parent / "empty.jsonl").write_text("\n", encoding="utf-8")
        with pytest.raises(UserError, match=given.name):
            add_ratings(folder, [given])
    results = folder / "results.json"
    content = results.read_text(encoding="utf-8")
    hashes = read_results(folder).models[0].runs[0].hashes["responses.jsonl"]
    results.write_text(content.replace(hashes, "0" * 64), encoding="utf-8")
    with pytest.raises(UserError, match=r":1: the responses of the comparison have changed"):
        add_ratings(folder, [file])
    results.write_text(content.replace('"version": 6', '"version": 5'), encoding="utf-8")
    with pytest.raises(UserError, match="has version 5"):
        add_ratings(folder, [file])
    results.write_text(content, encoding="utf-8")
    (key,) = (folder / "studies").glob("*.json")
    key.write_text(key.read_text("utf-8").replace('"long"', '"short"'), encoding="utf-8")
    with pytest.raises(UserError, match=r"studies/\w+\.json: has changed since it was written"):
        add_ratings(folder, [file])
