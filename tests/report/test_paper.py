"""The folder of a paper."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.grid.folder import Contender, Grid
from dialog.config.compose import compose
from dialog.config.schema import to_dict
from dialog.paper.folder import recipes_of, texts_of, write_charts
from dialog.paper.pdf import write_pdf
from dialog.report.drawing.canvas import Canvas
from dialog.report.formats.results import results_of_json
from dialog.report.sections.order import main_sections
from dialog.report.short_names import displayed

RECIPE = {
    "seed": 3,
    "data": {
        "path": "/home/me/data",
        "corpus": {"name": "dailydialog"},
        "tokenizer": {"name": "byte_bpe"},
    },
    "model": {"encoder": {"name": "lstm", "size": 128}, "decoder": {"name": "my_lab.Own"}},
    "optimizer": {"name": "adamw", "lr": 0.1, "clip_%": "a_b & {c}"},
}
OTHER = {**RECIPE, "optimizer": {"name": "adamw", "lr": 0.2, "clip_%": "a_b & {c}"}}


def texts(results: dict[str, Any], *recipes: dict[str, Any]) -> dict[str, str]:
    shown = displayed(results_of_json(results))
    return texts_of(shown, dict(zip(shown.names, recipes, strict=False)))


def test_texts_compile_alone_and_cite_what_is_there(
    results: dict[str, Any], three: dict[str, Any], hostile: dict[str, Any], bare: dict[str, Any]
) -> None:
    for content in (results, three, hostile, bare):
        files = texts(content, RECIPE, OTHER)
        whole = "".join(files.values())
        plain = re.sub(r"\\[\\{}]", "", whole)
        assert plain.count("{") == plain.count("}")
        assert sorted(re.findall(r"\\begin\{(\w+)\}", whole)) == sorted(
            re.findall(r"\\end\{(\w+)\}", whole)
        )
        included = {f"{name}.tex" for name in re.findall(r"\\input\{([^}]*)\}", whole)}
        assert included | {"paper.tex", "references.bib"} == files.keys()
        labels = re.findall(r"\\label\{([^}]*)\}", whole)
        assert len(labels) == len(set(labels))
        assert set(re.findall(r"\\ref\{([^}]*)\}", whole)) <= set(labels)
        cited = set(",".join(re.findall(r"\\citep\{([^}]*)\}", whole)).split(","))
        assert cited == set(re.findall(r"^@\w+\{(.*),$", files["references.bib"], re.MULTILINE))


def test_methods_follow_the_settings(
    results: dict[str, Any], three: dict[str, Any], results_of: Callable[..., dict[str, Any]]
) -> None:
    for entry in results["differences"]:
        entry["method"] = "t over seeds and dialogues"
    text = texts(results, RECIPE, OTHER)["methods.tex"]
    assert "Each was trained with 3 seeds (0, 1, 2)." in text
    assert r"test split of DailyDialog~\citep{li-2017-dailydialog} (1,000 dialogues)" in text
    assert r"lstm (encoder lstm~\citep{hochreiter-1997-lstm}; decoder my\_lab.Own; " in text
    assert "satterthwaite" in text
    assert "koehn" not in text
    assert "holm-1979" in text
    assert "bretz" not in text
    assert "Planned looks at results: 1;" in text

    several = results_of(("a", "b", "c"), seeds=1)
    several["statistics"]["looks"] = 3
    for entry in several["differences"]:
        entry["method"] = "paired bootstrap and randomization over dialogues (one run each)"
    text = texts(several, RECIPE)["methods.tex"]
    assert "over 3 pairs and all metrics is at most 5 \\%" in text
    assert "multiplied by 3" in text
    assert "satterthwaite" not in text
    assert {"koehn-2004-significance", "bretz-2009-graphical"} <= set(
        re.findall(r"[\w-]+-\d{4}-\w+", text)
    )

    for entry in three["differences"]:
        entry |= {"p": None, "p_holm": None}
    text = texts(three)["methods.tex"]
    assert "tested at" not in text
    assert "DailyDialog" not in text
    assert "plato.jsonl (responses of 1 run)" in text


def test_methods_list_metrics_by_their_tests(results: dict[str, Any]) -> None:
    """Metrics with a p are secondary, whatever the ranking has; without interval they have none."""
    for entry in results["differences"]:
        if entry["metric"] == "chrf":
            entry["p"] = None
        elif entry["metric"] == "rouge_l":
            entry |= {"p": None, "p_holm": None, "interval": []}
    results["ranking"]["rouge_l"] = results["ranking"]["f1"]
    text = texts(results)["methods.tex"]
    sentences = [
        next(line for line in text.splitlines() if line.startswith(start))
        for start in ("Secondary metrics", "Shown with intervals", "Shown without intervals")
    ]
    found = [[name in line for name in ("sacreBLEU", "chrF", "ROUGE")] for line in sentences]
    assert found == [[True, False, False], [False, True, False], [False, False, True]]


def test_methods_say_how_the_primary_metric_was_chosen(results: dict[str, Any]) -> None:
    for options, primary, declared in (
        ("", "bits_per_byte", True),
        ("", "f1", False),
        (" --primary f1", "f1", True),
    ):
        content = {**results, "primary": primary, "command": f"dialog compare a b{options}"}
        text = texts(content)["methods.tex"]
        assert ("declared before" in text) == declared, (options, primary)
        assert ("give likelihoods" in text) != declared


def test_a_copied_subset_is_no_further_test(results: dict[str, Any]) -> None:
    """If all dialogues are leaked, their records are those of all dialogues."""
    before = texts(results)["methods.tex"]
    for model in results["models"]:
        for run in model["runs"]:
            run["metrics"]["subsets"] = {"clean": {"examples": 0}, "leaked": {"examples": 7740}}
    after = texts(results)["methods.tex"]
    count = [int(re.search(r"the (\d+) secondary hyp", text)[1]) for text in (before, after)]
    per_subset = len(results["differences"]) // 3
    assert count == [3 * per_subset - 1, 2 * per_subset - 1]


def test_hyperparameters_differ_or_are_shared(results: dict[str, Any]) -> None:
    text = texts(results, RECIPE, OTHER)["hyperparameters.tex"]
    differing, shared = re.findall(r"\\toprule.*?\\bottomrule", text, re.DOTALL)
    assert r"lr & 0.1 & 0.2 \\" in differing
    assert differing.count(r" & ") == 2 * 2
    assert r"clip\_\% & a\_b \& \{c\} \\" in shared
    assert "encoder.size & 128" in shared
    assert "/home/me" not in text, "places of the machine are no settings"
    assert "hyperparameters.tex" not in texts(results)


def test_recipes_have_the_values_that_trials_chose(results: dict[str, Any], tmp_path: Path) -> None:
    recipe = to_dict(compose("quickstart/transformer").recipe)
    tuned = Contender("lstm", "recipe", "h", recipe, tune=("optimizer.lr=0.1,0.2",))
    for place, trial in enumerate(results["tuning"][:2]):
        trial |= {"values": list(tuned.trials)[place], "chosen": place == 1}
    files = Contender("transformer", "responses", "h", hashes=("h",), files=("a.jsonl",))
    grid = Grid(tmp_path, (tuned, files), ())
    recipes = recipes_of(grid, results_of_json(results))
    assert list(recipes) == ["lstm"]
    assert recipes["lstm"]["optimizer"]["lr"] == 0.2


def test_the_checklist_knows_or_asks(results: dict[str, Any], three: dict[str, Any]) -> None:
    known = texts(results, RECIPE, OTHER)["checklist.tex"]
    items = dict(re.findall(r"\\item\[(\w\d) .*?\] (.*)", known))
    assert len(items) == 18
    assert "To be filled in" in items["A1"]
    assert items["B1"].startswith(r"DailyDialog~\citep{li-2017-dailydialog}")
    assert "CC BY-NC-SA 4.0" in items["B2"]
    assert "8,540,000 parameters" in items["C1"]
    assert "To be filled in" not in items["C3"] + items["C4"]
    ann = {"rater": "ann", "ratings": 9, "ties": 3, "first": 0.5, "checks": 5, "wrong": 0}
    raters = [{**ann, "excluded": False}, {**ann, "excluded": True}]
    results["ratings"] = {"raters": raters}
    assert "by 2 raters." in texts(results)["checklist.tex"]
    assert "by 1 rater, after 1 were excluded" in texts(results)["methods.tex"]
    results["environment"] = {}
    files = dict(re.findall(r"\\item\[(\w\d) .*?\] (.*)", texts(results)["checklist.tex"]))
    assert all("To be filled in" in files[item] for item in ("B1", "B2", "C1", "C2"))


def test_each_chart_has_its_data(
    results_of: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charts: list[str] = []
    monkeypatch.setattr("dialog.paper.folder.write_pdf", lambda path, svg: charts.append(path.stem))
    shown = displayed(results_of_json(results_of(("=1+1", "b"), text="\x1b[2J")))
    for section in main_sections(shown):
        write_charts(section, shown, tmp_path)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.csv")}
    assert len(charts) > 10
    assert {name.rpartition("-")[0] for name in charts} <= texts.keys()
    tables = {name: list(csv.reader(text.splitlines())) for name, text in texts.items()}
    assert all(len(row) == len(rows[0]) for rows in tables.values() for row in rows)
    curve = [row for row in tables["learning-curves"] if row[:2] == ["'=1+1", "0"]]
    assert len(curve) == 20, "points with a validation, of a name that is no formula"
    assert curve[0][2:4] == ["20", "50000"]
    assert "answer_accuracy" not in tables["breakdown"][0], "the answers are not known"
    assert "\x1b" not in "".join(texts.values())


def test_a_chart_is_one_page_with_embedded_fonts(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    canvas = Canvas(100, 60, label="$x$ \u4f60")
    canvas.rectangle((5, 5), (10, 10), ("#ff0000", "#00ff00"))
    canvas.line([(0, 0), (50, 50)], dashed=True)
    canvas.area([(0, 0), (50, 50), (50, 0)], ("#ff0000", "#00ff00"), opacity=0.5)
    canvas.dot((5, 5), ("#ff0000", "#00ff00"), tip="5")
    canvas.ring((9, 9), ("#ff0000", "#00ff00"))
    canvas.text("$\\frac{1}{2}$ longer than the canvas \u4f60 \u2190", (90, 30))
    canvas.text("turned", (10, 50), angle=-90, anchor="middle", bold=True)
    write_pdf(tmp_path / "a.pdf", str(canvas))
    write_pdf(tmp_path / "b.pdf", str(canvas))
    content = (tmp_path / "a.pdf").read_bytes()
    assert content == (tmp_path / "b.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b", content)) == 1
    assert content.count(b"/FontFile2") >= content.count(b"/FontDescriptor") // 2 > 0
    assert b"/Subtype /Type3" not in content
    width = float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", content)[1])
    assert width > 90 * 0.75 + 150, "the page holds all of the text"


# TeX is no Python package: only its own installation compiles the paper
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_pdflatex_compiles_the_paper(hostile: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, text in texts(hostile, RECIPE, OTHER).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shown = displayed(results_of_json(hostile))
    for section in main_sections(shown):
        write_charts(section, shown, tmp_path / "figures")
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"]
    for command in (latex, ["bibtex", "paper"], latex, latex):
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False
        )
        assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "paper.log").read_text(encoding="utf-8", errors="replace")
    assert "undefined" not in log
