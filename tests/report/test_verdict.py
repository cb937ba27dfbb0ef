from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from dialog.report.formats.results import results_of_json
from dialog.report.terminal import display_width
from dialog.report.verdict import terminal_table, verdict_lines


def test_the_verdict_is_a_paragraph_and_notes(results: dict[str, Any]) -> None:
    assert verdict_lines(results_of_json(results)) == results["verdict"].split("\n")
    assert verdict_lines(results_of_json(results | {"verdict": ""})) == []


def test_the_terminal_shows_the_verdict_first(three: dict[str, Any]) -> None:
    lines = terminal_table(results_of_json(three)).splitlines()
    assert lines[0] == "warning: lstm: seed 2 diverged hello"
    assert lines[1].startswith("lstm is better than transformer")
    first = lines.index("")
    assert lines[first + 1].split() == ["lstm", "transformer", "plato.jsonl"]


def test_columns_are_aligned_and_decided_values_marked(results: dict[str, Any]) -> None:
    lines = terminal_table(results_of_json(results), 200).splitlines()
    start = next(index for index, line in enumerate(lines) if "p (adj.)" in line)
    table = lines[start : lines.index("", start)]
    assert table[1] == "-" * max(map(display_width, table))
    ends = {
        match.end()
        for line in table
        if (match := re.search(r"^\S.*?(\[.*?\](?: pp)?(?: \*)?)", line))
    }
    assert len(ends) == 1, "the intervals end in one column"
    bits = next(line for line in table if line.startswith("Bits per byte"))
    assert bits.count("*") == 3, "the winner, the difference and its interval"
    assert next(line for line in table if line.startswith("F1")).count("*") == 0
    assert any(line.startswith("*: decided, ") for line in lines)
    assert "Differences and intervals: lstm − transformer." in lines
    assert any(line.startswith("must be equal but differs: data hello") for line in lines)


def test_long_names_are_broken_into_lines(results: dict[str, Any]) -> None:
    names = ("dailydialog/lstm_bahdanau[attention=none]", "multi30k/transformer")
    for model, name in zip(results["models"], names, strict=True):
        model["name"] = name
    lines = terminal_table(results_of_json(results), 200).splitlines()
    first = next(index for index, line in enumerate(lines) if line.split() == ["dailydialog/"])
    assert lines[first + 1].split()[:2] == ["lstm_bahdanau", "multi30k/"]
    assert lines[first + 2].split()[:3] == ["[attention=none]", "transformer", "Difference"]


@pytest.mark.parametrize("width", [80, 200])
def test_many_contenders_have_a_row_each_the_best_first(
    results_of: Callable[..., dict[str, Any]], width: int
) -> None:
    names = [
        f"task/{name}" for name in ("lstm", "gru", "transformer", "hred", "lstm_to_transformer")
    ]
    results = results_of(names, seeds=1)
    for model, bits in zip(results["models"], (1.5, 1.2, 1.4, 1.3, 1.1), strict=True):
        model["summary"]["all"]["bits_per_byte"]["mean"] = bits
    lines = terminal_table(results_of_json(results), width).splitlines()
    assert max(map(display_width, lines)) <= width
    rule = next(index for index, line in enumerate(lines) if set(line) == {"-"})
    table = lines[rule + 1 : lines.index("", rule)]
    assert [line.split()[:2] for line in table] == [
        *(["lstm_to_transformer", "1.100"], ["gru", "1.200"], ["hred", "1.300"]),
        *(["transformer", "1.400"], ["lstm", "1.500"]),
    ]
    assert ("Perplexity" in "".join(lines[:rule])) == (width == 200)


def test_bare_results(bare: dict[str, Any]) -> None:
    text = terminal_table(results_of_json(bare))
    assert "±" not in text
    assert "*" not in text
    assert text.startswith(" ")


def test_hostile_text_cannot_control_the_terminal(hostile: dict[str, Any]) -> None:
    hostile["warnings"] = [hostile["models"][0]["name"]]
    text = terminal_table(results_of_json(hostile))
    assert not set(text) & set("\x1b\u202e\x00\t")
    assert "\\x1b[2J" in text


def test_wide_characters_keep_the_columns(results: dict[str, Any]) -> None:
    results["models"][0]["name"] = "模型"
    lines = terminal_table(results_of_json(results)).splitlines()
    head = next(line for line in lines if "模型" in line)
    first = next(line for line in lines if line.startswith("Bits per byte"))
    assert display_width(head[: head.index("模型")]) + 4 == display_width(
        re.match(r".*?± \S+", first)[0]
    )


NAMES = (
    "dailydialog/sankar2019/lstm_attention[model.decoder.attention=additive]",
    "an/" + "unbroken" * 6,
)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("names", [("lstm", "transformer"), NAMES, (*NAMES, "third/contender")])
def test_lines_fit_the_terminal_and_lose_no_metric(
    results_of: Callable[..., dict[str, Any]], names: tuple[str, ...], width: int
) -> None:
    lines = terminal_table(results_of_json(results_of(names)), width).splitlines()
    tables = [line for line in lines if not any(name in line for name in names)]
    assert max(map(display_width, tables)) <= width
    for metric in ("Bits per byte ↓", "my_lab.warmth", "Training time"):
        rows = [line for line in lines if line.startswith(metric)]
        assert sum(row.count("±") for row in rows) == len(names) * (metric != "Training time")
        assert any("[" in row for row in rows) == (len(names) == 2 and metric != "Training time")


def test_a_terminal_shows_the_main_figures_and_names_the_report(results: dict[str, Any]) -> None:
    lines = terminal_table(results_of_json(results), 80).splitlines()
    rows = [line.partition("  ")[0] for line in lines if "±" in line and not line.startswith("±")]
    assert rows == [
        *(
            "Bits per byte ↓",
            "Perplexity per token ↓",
            "F1 ↑",
            "sacreBLEU ↑",
            "Distinct-2",
            "Words per response",
        ),
        "my_lab.warmth",
    ], "metrics that users add, but no variants of a metric"
    assert [line.split("  ")[0] for line in lines if line.startswith(("Param", "Train", "Time", "Peak"))] == [
        "Parameters", "Training time", "Time per response",
    ]  # fmt: skip
    text = " ".join(lines)
    assert "must be equal but differs: data hello: hello / hello" in text
    assert text.endswith("The report has all 14 metrics, tests and examples.")


def test_settings_that_a_file_of_responses_lacks_are_one_line(results: dict[str, Any]) -> None:
    what = (
        ("tokenizer", ["a1", "unknown"]),
        ("lengths", ["7 turns", "unknown"]),
        ("precision", ["32-true", "16"]),
    )
    results["parity"] = [
        {"what": name, "must": True, "equal": False, "values": values} for name, values in what
    ]
    text = " ".join(terminal_table(results_of_json(results), 80).splitlines())
    assert "must be equal but not known for all contenders: tokenizer, lengths" in text
    assert text.count("must be equal") == 2


def test_a_narrow_terminal_has_fewer_columns_or_several_tables(results: dict[str, Any]) -> None:
    heads = [
        " ".join(line for line in terminal_table(results_of_json(results), width).splitlines())
        for width in (200, 80, 50)
    ]
    assert ["Prob. of" in head for head in heads] == [True, False, False]
    assert ["p (adj.)" in head for head in heads] == [True, False, True]
    assert heads[2].count("Bits per byte") > heads[2].count("Parameters"), (
        "a part without empty rows"
    )
