from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dialog.report.formats.results import results_of_json
from dialog.report.sections.attention import attention_statistics
from dialog.report.sections.breakdown import breakdown, calibration
from dialog.report.sections.context_use import context_use
from dialog.report.sections.cost import cost, runs
from dialog.report.sections.curves import curves
from dialog.report.sections.order import appendix, main_sections
from dialog.report.sections.parity import broken_settings, parity
from dialog.report.tables import ReportSection, ReportTable, mean_and_deviation


def captions_of(section: ReportSection) -> str:
    return " ".join(part.caption for part in (*section.figures, *section.tables))


def texts(table: ReportTable) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_differing_settings_come_first_and_equal_ones_are_folded(results: dict[str, Any]) -> None:
    differing, equal = parity(results_of_json(results)).tables
    assert list(texts(differing)) == [
        "data hello",
        "optimizer.lr",
    ], "those that must be equal first"
    assert [row[-1].mark for row in differing.rows] == ["broken", "differs"]
    assert differing.folded == ""
    assert equal.folded == "2 equal settings"
    assert texts(equal)["vocabulary"] == ["8,000", "8,000", "✓ equal"]
    assert [row[0].text for row in broken_settings(results_of_json(results))] == ["data hello"]
    assert parity(results_of_json(results)).notes == (
        "1 of 2 settings that must be equal for a fair comparison differ: data hello.",
    )


def test_unknown_settings_are_not_called_different(results: dict[str, Any]) -> None:
    results["parity"] += [
        {"what": "tokenizer", "equal": False, "must": True, "values": ["unknown", "unknown"]}
    ]
    assert parity(results_of_json(results)).notes == (
        (
            "1 of 3 settings that must be equal for a fair comparison differ: data hello. 1 of 3"
            " settings that must be equal for a fair comparison are not known for all contenders:"
            " tokenizer."
        ),
    )
    assert broken_settings(results_of_json(results))[-1][-1].text == "✗ unknown"


def test_a_kept_contract_says_so(results: dict[str, Any]) -> None:
    results["parity"] = [row for row in results["parity"] if row["equal"]]
    section = parity(results_of_json(results))
    assert section.notes == (
        "None of the 1 settings that must be equal for a fair comparison differs.",
    )
    assert [table.folded for table in section.tables] == ["2 equal settings"]


def test_statements_of_other_systems_are_no_contract(results: dict[str, Any]) -> None:
    """What only a system.yaml states is shown; what the other one does not state may be equal."""
    stated = {"what": "data as stated", "equal": False, "must": False, "values": ["x", "unknown"]}
    results["parity"] = [stated]
    section = parity(results_of_json(results))
    assert section.notes == ()
    assert [cell.text for cell in section.tables[0].rows[0]][1:] == ["x", "unknown", "unknown"]
    results["parity"] = []
    assert not parity(results_of_json(results)).tables


def test_relative_differences_of_settings(results: dict[str, Any]) -> None:
    for values, text in (
        ([100, 103], "differs by 3.0 %"),
        ([9, 2, 1], "differs by a factor of 9"),
        ([1, 0], "differs"),
        ([None, "b"], "differs"),
        ([6.195e6, 8.52e6], "differs by 37.5 %"),
    ):
        results["parity"] = [
            {"what": "parameters", "equal": False, "must": False, "values": values}
        ]
        assert texts(parity(results_of_json(results)).tables[0])["parameters"][-1] == text
    assert texts(parity(results_of_json(results)).tables[0])["parameters"][:2] == [
        "6.20 M",
        "8.52 M",
    ]
    results["parity"] = [
        {"what": "FLOPs", "equal": False, "must": False, "values": [313_900.0, 0.25]}
    ]
    assert texts(parity(results_of_json(results)).tables[0])["FLOPs"][:2] == ["314 k", "0.25"]


def test_cost(results: dict[str, Any]) -> None:
    (table,) = cost(results_of_json(results)).tables
    shown = texts(table)
    assert shown["Parameters"] == ["8,540,000", "9,100,000"]
    assert shown["Training time"][0] == "23 min 27 s ± 7.0 s"
    assert shown["Target tokens seen"] == ["1,000,000", "1,000,000"]
    assert shown["FLOPs per target token"] == ["51.0 M", "60.0 M"]
    assert shown["Time to 1.400 bits per byte"] == ["5 min 00 s", "6 min 30 s"]
    assert shown["Peak memory"][0] == "1.61 GiB"
    assert "Diverged runs" not in shown


def test_diverged_runs_and_files_of_responses(three: dict[str, Any]) -> None:
    shown = texts(cost(results_of_json(three)).tables[0])
    assert shown["Diverged runs"] == ["1", "0", "0"]
    assert shown["Parameters"][2] == shown["Training time"][2] == shown["Seeds"][2] == "–"
    rows = [[cell.text for cell in row] for row in runs(results_of_json(three)).tables[0].rows]
    assert [row[1] for row in rows] == ["0", "1", "2 (diverged)", "0", "1", "2", "–"]
    assert {len(row) for row in rows} == {len(runs(results_of_json(three)).tables[0].head)}


def test_learning_curves_over_tokens_time_and_flops(results: dict[str, Any]) -> None:
    section = curves(results_of_json(results))
    (figure,) = section.figures
    assert len(figure.drawings) == 3
    for drawing, label in zip(
        figure.drawings, ("target tokens", "training time (minutes)", "FLOPs"), strict=True
    ):
        assert label in drawing
        assert drawing.count("<polygon") == 2, "a band per model"
    assert section.notes == ("lstm leads until 18 s hello",)
    results["models"][0]["tokenizer"] = "other"
    assert not any(
        "target tokens" in drawing
        for drawing in curves(results_of_json(results)).figures[0].drawings
    )


def test_curves_of_one_seed_have_no_band(one_seed: dict[str, Any]) -> None:
    one_seed["models"][0]["flops_per_target_token"] = None
    (figure,) = curves(results_of_json(one_seed)).figures
    assert len(figure.drawings) == 2
    assert "<polygon" not in figure.drawings[0]


def test_diverged_runs_are_not_drawn(three: dict[str, Any]) -> None:
    (figure,) = curves(results_of_json(three)).figures
    assert "Diverged runs are not drawn" in figure.caption
    lines = figure.drawings[0].count('stroke-width="0.8"')
    assert lines == 5


def test_use_of_the_context(results: dict[str, Any]) -> None:
    tiny = results["context_use"]["rows"][-1]
    tiny["values"]["lstm"] = {
        "mean": -2e-5,
        "std": 1e-5,
        "interval": [-3e-5, -1e-5],
        "n": 3,
        "perplexity_token": 9.0,
    }
    section = context_use(results_of_json(results))
    shown = texts(section.tables[0])
    assert shown[tiny["perturbation"]][0] == "0.000 [0.000, 0.000]"
    assert shown["shuffle the turns"] == ["+0.010 [+0.006, +0.014]", "+0.020 [+0.016, +0.024]"]
    assert shown["only the last turn"][0] == "−0.010 [−0.014, −0.006]"
    assert len(section.figures[0].drawings) == 2
    assert "2,000 examples" in section.tables[0].caption


def test_captions_of_one_run_each_do_not_mention_seeds(
    one_seed: dict[str, Any], results: dict[str, Any]
) -> None:
    one_seed["attention"]["statistics"] = [
        run for run in one_seed["attention"]["statistics"] if run["seed"] == 0
    ]
    for section in (context_use, breakdown, attention_statistics):
        for captions, mentioned in (
            (captions_of(section(results_of_json(results))), True),
            (captions_of(section(results_of_json(one_seed))), False),
        ):
            assert ("seeds" in captions) == mentioned, captions
    assert "95 % interval over dialogues" in captions_of(context_use(results_of_json(one_seed)))


def test_contenders_without_likelihood_have_dashes(three: dict[str, Any]) -> None:
    assert texts(context_use(results_of_json(three)).tables[0])["word drop"][2] == "–"
    assert texts(breakdown(results_of_json(three)).tables[0])["inform"][2] == "–"
    assert texts(calibration(results_of_json(three)).tables[0])["Calibration error ↓"] == [
        "2.1 %",
        "3.1 %",
        "–",
    ]


def test_breakdown_has_small_multiples(results: dict[str, Any]) -> None:
    section = breakdown(results_of_json(results))
    assert len(section.figures[0].drawings) == 5
    titles = [group.title for group in section.tables[0].groups]
    assert titles == [
        "Context turns",
        "Context words",
        "Response words",
        "Occurrences of the rarest word in train",
        "Dialogue act",
    ]
    lines = [drawing.count("<polyline") for drawing in section.figures[0].drawings]
    assert lines[-1] == lines[0] - 2, "no lines between dialogue acts, which have no order"
    assert texts(section.tables[0])["17+"] == ["1.410", "1.450", "3,600"]
    assert len(section.tables) == 1, "without F1, as results.json of earlier versions"


def test_breakdown_of_known_answers_comes_first(results: dict[str, Any]) -> None:
    for model in results["models"]:
        model["summary"]["all"]["answer_accuracy"] = {"mean": 0.8, "std": None, "n": 1}
    by_words = next(part for part in results["breakdown"] if part["by"] == "context words")
    trained = {**by_words["buckets"][0], "label": "trained: up to 9 words"}
    results["breakdown"].append({"by": "context length", "buckets": [trained]})
    section = breakdown(results_of_json(results))
    assert len(section.figures[0].drawings) == 6, "without a chart of a single bucket"
    assert trained["label"] in section.figures[0].drawings[0]
    answers = texts(section.tables[0])
    assert answers["8-15"] == ["80.0 %", "80.0 %", "1,800"]
    assert answers[trained["label"]] == ["90.0 %", "90.0 %", "900"]
    assert answers["State after 100 tokens"] == ["100 KiB", "200 KiB", "–"]


def test_breakdown_of_f1_is_folded(results: dict[str, Any]) -> None:
    for bucket in (bucket for part in results["breakdown"] for bucket in part["buckets"]):
        bucket["f1"] = {"lstm": 14.234, "transformer": None}
    f1 = breakdown(results_of_json(results)).tables[1]
    assert f1.folded == "F1"
    assert texts(f1)["17+"] == ["14.23", "–", "3,600"]


def test_empty_fields_leave_their_sections_out(
    bare: dict[str, Any], results: dict[str, Any]
) -> None:
    assert [section.title for section in main_sections(results_of_json(bare))] == [
        "Likelihood",
        "Generated responses",
        "Cost",
    ]
    assert [section.title for section in appendix(results_of_json(bare))] == ["Runs"]
    assert [section.title for section in main_sections(results_of_json(results))] == [
        "Differences",
        *("Parity contract", "Likelihood", "Generated responses", "Cost", "Learning curves"),
        *("Use of the context", "Breakdown", "Calibration", "Attention statistics"),
    ]


def test_attention_statistics(results: dict[str, Any]) -> None:
    section = attention_statistics(results_of_json(results))
    table, meanings = section.tables
    shown = texts(table)
    assert shown["entropy"] == ["0.410 ± 0.014 (0.200 to 0.600)"] * 2 + ["1.000"]
    assert shown["erasure"] == ["−0.200 ± 0.000"] * 2 + ["–"]
    assert [group.title for group in table.groups] == [
        "Shape",
        "Mass on kinds of tokens",
        "Agreement",
    ]
    assert len(section.figures[0].drawings) == 3
    assert meanings.folded
    assert mean_and_deviation([0.4, 0.42]) == pytest.approx((0.41, 0.02 / 2**0.5))
    assert mean_and_deviation([0.4]) == (0.4, None)
    assert "standard deviation" in section.figures[0].caption
    results["attention"] = {}
    assert attention_statistics(results_of_json(results)) == ReportSection("Attention statistics")


def test_notes_on_curves_of_many_contenders_are_few(
    results_of: Callable[..., dict[str, Any]],
) -> None:
    results = results_of(["lstm", "gru", "hred"])
    entry = results["crossings"][0]
    results["crossings"] = [entry | {"text": str(n), "crosses": n % 2 == 0} for n in range(20)]
    assert curves(results_of_json(results)).notes == (
        "0",
        "2",
        "4",
        "6",
        "8",
        "10",
        "4 more pairs of curves cross; results.json lists them.",
    )
