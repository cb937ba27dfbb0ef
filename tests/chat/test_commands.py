"""Lines of a chat and their effects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.chat.attention_text import attention_lines, shade
from dialog.chat.commands import COMMANDS, apply
from dialog.chat.self_chat import NamedTurn, repetition, report_lines
from dialog.chat.session import Session
from dialog.chat.terminal import WordStream, fold, side_by_side, wrap
from dialog.errors import UserError
from dialog.escaping import one_line
from dialog.report.terminal import display_width

HELLO = "I will have the soup ."


def test_lines_are_text_or_commands(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    assert apply(chat, "  ").replies == ()
    assert apply(chat, f" {HELLO} ").replies == (chat.runs[0].respond([HELLO]).text,)
    apply(chat, "//etc is a folder")
    assert chat.exchanges[-1].text == "/etc is a folder"
    assert apply(chat, "/undo").lines == ("removed: /etc is a folder",)
    assert apply(chat, "/quit").quit
    listed = apply(chat, "/help").lines
    assert [line.split()[0] for line in listed[: len(COMMANDS)]] == list(COMMANDS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/sett top_p=0.9", "unknown command '/sett'; did you mean '/set'?"),
        ("/set top_p", "'top_p' is not KEY=VALUE, such as max_length=20"),
        ("/search bem5", "unknown search 'bem5'; did you mean 'beam5'?"),
        ("/nbest many", "/nbest: give a number of candidates from 1 to 100"),
        ("/nbest 0", "/nbest: give a number"),
        ("/save", "/save: give a new file"),
        ("/why", "/why: the conversation is empty"),
        ("/why first", "/why: give nothing, a layer, or a layer and a head"),
        ("/search none.yaml", "none.yaml: cannot be read"),
        ("/search a\0.yaml", "/search: the argument contains the character NUL"),
        ("/save a\0b", "/save: the argument contains the character NUL"),
        ("/save ~nobody at all/x.jsonl", "/save: ~nobody at all/x.jsonl: no such home folder"),
        (f"/nbest {'9' * 5000}", "/nbest: give a number"),
        (f"/why {'9' * 5000}", "/why: give nothing, a layer"),
        (f"/set max_length={'9' * 5000}", "override 'max_length=9999"),
        ("/undo 2", "/undo: takes no argument"),
        ("/set temp=0.7", "unknown setting 'temp'; did you mean 'temperature'?"),
    ],
)
def test_wrong_commands_change_nothing(
    session: Callable[..., Session], line: str, message: str
) -> None:
    chat = session("lstm")
    before = chat.settings[0].describe()
    with pytest.raises(UserError) as error:
        apply(chat, line)
    assert str(error.value).startswith(message)
    assert (chat.exchanges, chat.settings[0].describe()) == ([], before)


def test_candidates_are_listed_with_score_and_length(session: Callable[..., Session]) -> None:
    chat = session("transformer")
    apply(chat, HELLO)
    search, header, *rows = apply(chat, "/nbest 3").lines
    assert search.startswith("beam, width=5, candidates=3")
    assert header.split() == ["rank", "log-probability", "tokens", "text"]
    assert len(rows) == 3
    expected = (
        chat.runs[0].respond([HELLO], {"name": "beam", "width": 5, "candidates": 3}).candidates
    )
    for row, item in zip(rows, expected, strict=True):
        assert row.split()[:3] == [f"{item.rank:.2f}", f"{item.score:.2f}", str(item.tokens)]
        assert row.endswith(f"  {one_line(item.text)}")
    assert len(chat.exchanges) == 1


def test_a_second_attempt_without_draws_is_explained(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    apply(chat, HELLO)
    assert "/search sampling" in apply(chat, "/retry").lines[0]
    apply(chat, "/set prefix=Well")
    assert apply(chat, "/retry").lines == ()  # the setting has changed the reply
    apply(chat, "/set top_p=0.9")
    assert apply(chat, "/retry").lines == ()


def test_lines_are_broken_between_words() -> None:
    row = " -1.2  8  My local class is very nice ."
    assert fold(row, 40) == [row]
    assert fold(row, 24) == [" -1.2  8  My local class", "          is very nice ."]
    assert fold("你好 再见", 5) == ["你好", "再见"]
    assert fold("/undo  " + "a" * 20, 20) == ["/undo  " + "a" * 13, "       " + "a" * 7]


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_streamed_words_are_broken_between_words(size: int) -> None:
    """The pieces together are the text, with a line break for a space where a line is full."""
    text = "Of course . Then it is for a bus, 真的, and it stops here ."
    stream = WordStream(12)
    pieces = [stream.add(text[start : start + size]) for start in range(0, len(text), size)]
    shown = "".join(pieces) + stream.end()
    assert shown.replace("\n", " ") == text
    assert max(map(display_width, shown.split("\n"))) <= 12
    assert shown.split("\n")[:2] == ["Of course .", "Then it is"]
    assert stream.add("x" * 50).startswith("x" * 41)


def test_settings_of_two_runs_are_shown_by_name(session: Callable[..., Session]) -> None:
    chat = session("lstm", "transformer")
    assert len(apply(chat, "/search beam5").lines) == 1
    chat.settings[1] = chat.settings[1].change({"width": 6})
    assert [line.split(":")[0] for line in apply(chat, "/set").lines] == chat.names


# ------------------------------------------------------------------ attention


@pytest.mark.parametrize("family", ["lstm", "transformer"])
@pytest.mark.parametrize("width", [40, 200])
def test_attention_names_the_strongest_tokens(
    session: Callable[..., Session], family: str, width: int
) -> None:
    chat = session(family)
    apply(chat, HELLO)
    apply(chat, "And a tea .")
    lines = apply(chat, "/why", width=width).lines
    maps = chat.attention()[0]
    tokens = len(maps["response_tokens"])
    assert len(lines) == 2 * tokens + 3
    assert max(map(display_width, lines[1 : 1 + tokens] + lines[2 + tokens :])) <= width
    crosses = [layer["weights"] for layer in maps["maps"] if layer["kind"] == "cross"]
    sums = [
        sum(head[0][place] for weights in crosses for head in weights)
        for place in range(len(maps["context_tokens"]))
    ]
    mean = max(sums) / sum(len(weights) for weights in crosses)
    strongest = maps["context_tokens"][sums.index(max(sums))].strip("▁")
    assert f"{mean:.2f} {strongest}" in lines[1] or width == 40
    assert lines[2 + tokens].count("┬") == 3 or width == 40


def test_attention_of_a_layer_or_head_can_be_chosen() -> None:
    weights = [[[[0.8, 0.2]], [[0.4, 0.6]]], [[[0.1, 0.9]], [[0.3, 0.7]]]]  # layers, heads, rows
    layers = [
        {"kind": "cross", "side": "target", "columns": "source", "weights": heads}
        for heads in weights
    ]
    maps = {"context_tokens": ["a", "b"], "response_tokens": ["c"], "maps": layers}
    for place, title, values in (
        ([], "attention, mean of 2 layers and 2 heads: ", ["0.60", "b", "0.40", "a"]),
        ([1], "attention, layer 1, mean of 2 heads: ", ["0.80", "b", "0.20", "a"]),
        ([0, 1], "attention, layer 0, head 1: ", ["0.60", "b", "0.40", "a"]),
    ):
        lines = attention_lines(maps, 80, place)
        assert lines[0].startswith(title)
        assert lines[1].split() == ["c", *values]
        assert lines[2].endswith(f"█ is {values[0]}")
        assert lines[-1].count("█") == 1
    for place, message in (
        ([2], "layer 2; choose from 0 to 1"),
        ([0, 2], "head 2; choose from 0 to 1"),
    ):
        with pytest.raises(UserError, match=message):
            attention_lines(maps, 80, place)
    single = {**maps, "maps": [{**layers[0], "weights": weights[0][:1]}]}
    assert attention_lines(single, 80)[0].startswith("attention: each reply token")
    ensemble = {**maps, "maps": [layers[0], *single["maps"]]}  # its networks have 2 heads and 1
    assert attention_lines(ensemble, 80)[1].split()[1:] == ["0.70", "a", "0.30", "b"]
    assert attention_lines(ensemble, 80, [0, 1])[1].split()[1:] == ["0.60", "b", "0.40", "a"]
    with pytest.raises(UserError, match="head 1; choose from 0 to 0"):
        attention_lines(ensemble, 80, [1, 1])


@pytest.mark.parametrize(("height", "shown"), [(None, 40), (85, 40), (84, 39), (30, 12), (5, 3)])
def test_long_replies_fill_the_terminal_and_no_more(height: int | None, shown: int) -> None:
    layer = {"kind": "cross", "side": "target", "columns": "source", "weights": [[[0.5, 0.5]] * 40]}
    maps = {
        "context_tokens": ["a", "b"],
        "response_tokens": [f"t{place}" for place in range(40)],
        "maps": [layer],
    }
    lines = attention_lines(maps, 80, height=height)
    assert [sum(line.startswith(f"t{place} ") for line in lines) for place in range(40)] == [
        2
    ] * shown + [0] * (40 - shown)
    assert lines[-1].startswith(f"{40 - shown} more reply token") == (shown < 40)
    assert lines[-1].endswith("`python -m dialog attention` shows all") == (shown < 40)
    assert height is None or height < 11 or len(lines) < height  # a line is left for the prompt


def test_a_run_without_attention_has_no_map() -> None:
    maps = {"context_tokens": ["a"], "response_tokens": ["b"], "maps": []}
    with pytest.raises(UserError, match="this run has no attention"):
        attention_lines(maps, 80)


def test_shades_grow_with_the_weight() -> None:
    shades = [shade(weight / 100) for weight in range(101)]
    assert list(dict.fromkeys(shades)) == list(" ░▒▓█")
    assert (shade(0.05), shade(0.2), shade(0.5), shade(1.0)) == (" ", "░", "▒", "█")


def test_tokens_in_the_map_cannot_control_the_terminal() -> None:
    layer = {"kind": "cross", "side": "target", "columns": "source", "weights": [[[0.5, 0.5]]]}
    lines = attention_lines(
        {"context_tokens": ["\x1b[31m", "b"], "response_tokens": ["\x1b"], "maps": [layer]}, 80
    )
    assert "\x1b" not in "".join(lines)


def test_a_character_of_several_tokens_is_one_in_the_map() -> None:
    weights = [[[0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]]
    layer = {"kind": "cross", "side": "target", "columns": "source", "weights": weights}
    halves = ["\\xf0\\x9f", "\\x98\\x80"]
    lines = attention_lines(
        {"context_tokens": [*halves, "b"], "response_tokens": halves, "maps": [layer]}, 80
    )
    assert lines[1].split() == ["😀", "0.62", "😀", "0.38", "b"]
    assert lines[2].startswith("block map: 2 context tokens")


# ------------------------------------------------------------------ layout and repetition


def test_columns_are_aligned_also_with_wide_letters() -> None:
    assert side_by_side(["one two 你好 four", "你好吗" * 4], 24) == [
        "one two       你好吗你好",
        "你好 four     吗你好吗你",
        "              好吗",
    ]


def test_long_words_are_split() -> None:
    assert wrap("a bcdefgh ij", 3) == ["a", "bcd", "efg", "h", "ij"]
    assert wrap("abc d", 3) == ["abc", "d"]
    assert wrap("", 3) == [""]


def test_repetition_counts_what_occurred_before() -> None:
    turns = [
        NamedTurn("a", "x y z"),
        NamedTurn("b", "X y z"),
        NamedTurn("a", "x y z w"),
        NamedTurn("b", "q"),
    ]
    report = repetition(turns)
    assert list(report) == ["all", "a", "b"]
    assert report["all"] == pytest.approx(
        {"repeated_turns": 1 / 4, "repeated_trigrams": 2 / 4, "distinct_2": 3 / 7}
    )
    assert report["b"] == {"repeated_turns": 0.0, "repeated_trigrams": 0.0, "distinct_2": 1.0}
    assert repetition([NamedTurn("a", ",,,,"), NamedTurn("a", "!")])["a"]["distinct_2"] == 0.0, (
        "no bigrams"
    )


def test_names_in_the_table_cannot_control_the_terminal() -> None:
    lines = report_lines(
        {"\x1b[31m": {"a": 0.1, "b": 0.2, "c": 0.3}, "你好": {"a": 0.1, "b": 0.2, "c": 0.3}}
    )
    assert "\x1b" not in "".join(lines)
    assert len(set(map(display_width, lines))) == 1


def test_a_saved_chat_is_named(session: Callable[..., Session], tmp_path: Path) -> None:
    chat = session("lstm")
    apply(chat, HELLO)
    assert apply(chat, f"/save {tmp_path}/a b.jsonl").lines == (
        f"1 reply saved to {tmp_path}/a b.jsonl",
    )
    assert (tmp_path / "a b.jsonl").is_file()
