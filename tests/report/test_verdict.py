from __future__ import annotations

import re
from typing import Any

from dialog.report.terminal import display_width
from dialog.report.verdict import other_verdicts, terminal_table, verdict_lines


def test_the_verdict_is_on_all_dialogues(results: dict[str, Any]) -> None:
    (line,) = verdict_lines(results)
    assert "the all dialogues" in line
    assert "clean" not in line
    assert [subset.partition(":")[0] for subset in other_verdicts(results)] == ["Clean", "Leaked"]
    results["verdicts"] = []
    assert verdict_lines(results) == [results["verdict"]]


def test_several_pairs_have_a_line_each(results: dict[str, Any]) -> None:
    pairs = [("a", "b", "all"), ("a", "c", "all"), ("a", "b", "clean"), ("a", "c", "clean")]
    results["verdicts"] = [{"a": a, "b": b, "subset": subset, "text": subset} for a, b, subset in pairs]
    assert verdict_lines(results) == ["a and b: all", "a and c: all"]
    assert [*other_verdicts(results).values()] == [["a and b: clean", "a and c: clean"]]


def test_the_terminal_shows_the_verdict_first(three: dict[str, Any]) -> None:
    lines = terminal_table(three).splitlines()
    assert lines[0] == "warning: lstm: seed 2 diverged hello"
    assert lines[1].startswith("lstm and transformer: lstm is better than transformer by 0.021")
    assert lines[3].startswith("transformer and plato.jsonl: ")
    assert lines[5].split() == ["lstm", "transformer", "plato.jsonl"]


def test_columns_are_aligned_and_decided_values_marked(results: dict[str, Any]) -> None:
    lines = terminal_table(results).splitlines()
    start = next(index for index, line in enumerate(lines) if "p (Holm)" in line)
    table = lines[start : next(index for index, line in enumerate(lines) if line.startswith("* "))]
    assert table[1] == "-" * max(map(display_width, table))
    ends = {match.end() for line in table if (match := re.search(r"^\S.*?(\[.*?\](?: pp)?)", line))}
    assert len(ends) == 1, "the intervals end in one column"
    bits = next(line for line in table if line.startswith("Bits per byte"))
    assert bits.count("*") == 2
    assert next(line for line in table if line.startswith("F1")).count("*") == 0
    assert "* decided: significant after Holm's correction" in lines
    assert any(line.startswith("must be equal but differs: data hello") for line in lines)


def test_long_names_are_broken_into_lines(results: dict[str, Any]) -> None:
    names = ("dailydialog/lstm_bahdanau[attention=none]", "dailydialog/transformer")
    for model, name in zip(results["models"], names, strict=True):
        model["name"] = name
    lines = terminal_table(results).splitlines()
    first = next(index for index, line in enumerate(lines) if line.split() == ["dailydialog/"])
    assert lines[first + 1].split() == ["lstm_bahdanau", "dailydialog/"]
    assert lines[first + 2].split()[:3] == ["[attention=none]", "transformer", "Difference"]


def test_bare_results(bare: dict[str, Any]) -> None:
    text = terminal_table(bare)
    assert "±" not in text
    assert "*" not in text
    assert text.startswith(" ")


def test_hostile_text_cannot_control_the_terminal(hostile: dict[str, Any]) -> None:
    hostile["warnings"] = hostile["models"][0]["name"]
    text = terminal_table(hostile)
    assert not set(text) & set("\x1b\u202e\x00\t")
    assert "\\x1b[2J" in text


def test_wide_characters_keep_the_columns(results: dict[str, Any]) -> None:
    results["models"][0]["name"] = "模型"
    lines = terminal_table(results).splitlines()
    head = next(line for line in lines if "模型" in line)
    first = next(line for line in lines if line.startswith("Bits per byte"))
    assert display_width(head[: head.index("模型")]) + 4 == display_width(re.match(r".*?± \S+", first)[0])
