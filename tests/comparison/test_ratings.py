from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from dialog.cli import main
from dialog.comparison.statistics.ratings import (
    Rater,
    add_ratings,
    agreement,
    exact_interval,
    kept_ratings,
    majority,
    rate,
    sign_test,
)
from dialog.errors import UserError
from dialog.escaping import json_copy
from dialog.report.formats.results import Agreement, RaterCounts, Ratings, results_of_json
from dialog.report.sections.ratings import rating_fingerprint

NAMES = ("lstm", "transformer")
Write = Callable[..., Path]


@pytest.fixture
def results() -> dict[str, Any]:
    rating = [
        {"id": f"p{n}", "context": ["hi"], "responses": ["a", "b"], "models": [n % 2, 1 - n % 2]}
        for n in range(20)
    ]
    lists = ("warnings", "looks", "parity", "differences", "crossings", "tuning")
    lists += ("breakdown", "samples", "disagreements", "judges")
    objects = (
        *("ranking", "environment", "references", "context_use", "calibration", "attention"),
    )
    numbers = {"version": 6, "seconds": 1.0, "dialogues": 20, "examples": 20}
    fields = numbers | {"command": "", "split": "test", "verdict": "", "primary": "f1"}
    fields |= {name: [] for name in lists} | {name: {} for name in objects}
    fields["statistics"] = {"level": 0.95, "resamples": 1, "looks": 1, "seeds": {}}
    models = [{"name": name, "kind": "recipe"} for name in NAMES]
    return fields | {"fingerprint": "f" * 64, "models": models, "rating": rating}


@pytest.fixture
def write(tmp_path: Path, results: dict[str, Any]) -> Write:
    """Return a function that writes a file of ratings."""

    def write_file(choices: dict[str, str], rater: str = "", **changes: object) -> Path:
        ratings = [{"id": pair, "choice": choice} for pair, choice in choices.items()]
        content = {
            "format": 1,
            "fingerprint": rating_fingerprint(results_of_json(results)),
            "rater": rater,
            "ratings": ratings,
        }
        path = tmp_path / f"ratings-{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(content | changes), encoding="utf-8")
        return path

    return write_file


def prefer(results: dict[str, Any], model: int) -> dict[str, str]:
    """Return the choices of a rater who always prefers one contender, whatever its side."""
    return {
        pair["id"]: ("left", "right")[pair["models"].index(model)] for pair in results["rating"]
    }


def test_choices_are_decoded_to_contenders(results: dict[str, Any], write: Write) -> None:
    choices = prefer(results, 1) | {"p0": "tie", "p1": "skip"}
    ratings = rate(results_of_json(results), [write(choices, "Ann")])
    (entry,) = ratings.pairs
    assert (entry.a, entry.b, entry.rater) == ("lstm", "transformer", "Ann")
    assert (entry.wins_a, entry.wins_b, entry.ties, entry.share) == (0, 18, 1, 0.0)
    assert entry.p == 2 / 2**18
    assert ratings.raters == (RaterCounts("Ann", 1, left=9, right=9, tie=1),)
    assert ratings.agreement == ()


def test_several_raters_have_a_majority_and_agreement(
    results: dict[str, Any], write: Write
) -> None:
    files = [
        write(prefer(results, 0), "Ann"),
        write(prefer(results, 1), "Ann"),
        write(prefer(results, 1)),
    ]
    ratings = rate(results_of_json(results), files)
    assert [entry.rater for entry in ratings.pairs] == [
        "Ann (1)",
        "Ann (2)",
        "ratings-2",
        "all raters",
    ]
    assert ratings.pairs[-1].wins_b == 20
    raw = {tuple(entry.raters): entry.raw for entry in ratings.agreement}
    assert raw == {
        ("Ann (1)", "Ann (2)"): 0,
        ("Ann (1)", "ratings-2"): 0,
        ("Ann (2)", "ratings-2"): 1,
    }


def test_each_pair_of_three_contenders_has_its_counts(
    results: dict[str, Any], write: Write
) -> None:
    results["models"].append({"name": "plato", "kind": "recipe"})
    for number, pair in enumerate(results["rating"]):
        pair["models"] = [2, 0] if number < 5 else pair["models"]
    ratings = rate(
        results_of_json(results),
        [
            write(
                {f"p{n}": "left" for n in range(10)},
                fingerprint=rating_fingerprint(results_of_json(results)),
            )
        ],
    )
    assert [(entry.a, entry.b, entry.wins_a, entry.wins_b) for entry in ratings.pairs] == [
        ("lstm", "transformer", 2, 3),
        ("lstm", "plato", 0, 5),
    ]


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (3, 3), (9, 2), (0, 18), (31, 19), (27, 14)])
def test_interval_and_sign_test_agree_with_scipy(wins: int, losses: int) -> None:
    if wins + losses:
        reference = stats.binomtest(wins, wins + losses)
        assert sign_test(wins, losses) == pytest.approx(reference.pvalue)
        interval = reference.proportion_ci(method="exact")
        assert exact_interval(wins, wins + losses) == pytest.approx((interval.low, interval.high))
        assert (interval.low <= 0.5 <= interval.high) == (reference.pvalue > 0.05)
    else:
        assert (sign_test(0, 0), exact_interval(0, 0)) == (1, (0, 1))


def test_kappa_is_zero_by_chance_and_one_for_equal_choices() -> None:
    sides = ["left", "right", "tie"]
    one = Rater("a", {str(n): sides[n % 3] for n in range(9)})
    other = Rater("b", {str(n): sides[n // 3] for n in range(9)})
    assert agreement(one, other) == Agreement(("a", "b"), 9, pytest.approx(1 / 3), 0)
    assert agreement(one, one).kappa == 1
    same = Rater("c", {"1": "left"})
    assert agreement(same, same).kappa is None
    assert agreement(same, Rater("d", {"2": "left"})).raw is None


def test_a_majority_has_more_votes_than_any_other_choice() -> None:
    votes = {
        "1": ("left", "right"),
        "2": ("left", "left", "tie"),
        "3": ("left", "tie", "tie"),
        "4": ("right",),
    }
    raters = [
        Rater(str(n), {pair: row[n] for pair, row in votes.items() if n < len(row)})
        for n in range(3)
    ]
    assert majority(raters).choices == {"1": "tie", "2": "left", "3": "tie", "4": "right"}


@pytest.mark.parametrize(
    ("choices", "changes", "message"),
    [
        ({"p0": "left"}, {"fingerprint": "0" * 32}, "rates another comparison"),
        ({"other": "left"}, {}, "rating 1: unknown pair 'other'"),
        (
            {"p0": "left", "p1": "up"},
            {},
            "rating 2: choice 'up' is not one of left, right, tie, skip",
        ),
        ({"p0": "skip"}, {}, "has no ratings"),
        ({}, {"ratings": 3}, "damaged (ratings is not a list of objects)"),
        ({}, {"ratings": [{"id": ["p0"], "choice": "left"}]}, "rating 1: unknown pair ['p0']"),
        ({}, {"ratings": [{"id": "p0", "choice": {}}]}, "rating 1: choice {}"),
        (
            {},
            {"ratings": [{"id": "p0", "choice": "tie"}] * 2},
            "rating 2: pair 'p0' is rated twice",
        ),
        ({"p0": "left"}, {"format": 2}, "format 2 of ratings is unsupported"),
    ],
)
def test_bad_files_give_one_line(
    results: dict[str, Any],
    write: Write,
    choices: dict[str, str],
    changes: dict[str, object],
    message: str,
) -> None:
    file = write(choices, **changes)
    with pytest.raises(UserError) as error:
        rate(results_of_json(results), [file])
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', "\x00"])
def test_damaged_files_give_one_line(results: dict[str, Any], tmp_path: Path, content: str) -> None:
    file = tmp_path / "ratings.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        rate(results_of_json(results), [file])


def test_a_comparison_without_pairs(results: dict[str, Any], write: Write) -> None:
    file = write({"p0": "left"})
    with pytest.raises(UserError, match="no pairs for rating"):
        rate(results_of_json(results | {"rating": []}), [file])


# ------------------------------------------------------------------ command line


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def comparison(results: dict[str, Any], tmp_path: Path) -> Path:
    """Return a comparison folder with results.json only."""
    folder = tmp_path / "comparison"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def test_compare_adds_ratings_to_results_and_reports(
    results: dict[str, Any],
    comparison: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [write(prefer(results, 1), "Ann"), write(prefer(results, 0) | {"p3": "tie"}, "Bob")]
    options = [argument for file in files for argument in ("--ratings", str(file))]
    assert run(["compare", str(comparison), *options], monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "Ann" in shown
    assert "Cohen's kappa" in shown
    written = json.loads((comparison / "results.json").read_text(encoding="utf-8"))
    assert [entry["wins_a"] for entry in written["ratings"]["pairs"]] == [0, 19, 0]
    for file in ("report.html", "report.md", "report.tex"):
        assert "Blind rating: results" in (comparison / file).read_text(encoding="utf-8")
    assert run(["compare", str(comparison), *options, "--json"], monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["ratings"] == written["ratings"]
    kept = kept_ratings(comparison / "results.json", results_of_json(results))
    assert json_copy(kept) == written["ratings"]
    other = results_of_json(results | {"fingerprint": "other"})
    assert kept_ratings(comparison / "results.json", other) == Ratings()
    assert kept_ratings(comparison / "missing.json", results_of_json(results)) == Ratings()


def test_invalid_ratings_change_nothing(
    comparison: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {path.name: path.read_bytes() for path in comparison.iterdir()}
    file = str(write({"p0": "left"}, fingerprint="other"))
    for arguments, message in (
        ([str(comparison), "--ratings", file], "rates another comparison"),
        ([str(comparison), "--ratings", "missing.json"], "missing.json: No such file"),
        (["missing", "--ratings", file], "missing: is not a finished comparison"),
        (
            [str(comparison), "other", "--ratings", file],
            "--ratings: needs a finished comparison folder",
        ),
    ):
        assert run(["compare", *arguments], monkeypatch) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line
    after = {
        path.name: path.read_bytes()
        for path in comparison.iterdir()
        if not path.name.startswith(".")
    }
    assert after == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 4}, "version 4"),
        ({"version": 99}, "version 99"),
        ({"models": [{"name": 3}]}, r"models\[0\].name"),
        ({"rating": [{"id": "1"}]}, r"rating\[0\]"),
    ],
)
def test_unusable_results_are_one_line(
    comparison: Path, changes: dict[str, object], what: str
) -> None:
    """It names the file, what is wrong, and the command that writes it again."""
    file = comparison / "results.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes), encoding="utf-8")
    with pytest.raises(UserError, match=rf"results\.json: .*{what}.*compare {comparison}"):
        add_ratings(comparison, [])
