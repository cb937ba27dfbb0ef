"""Responses, scores and attention maps of a loaded run."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import torch

import dialog
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF
from dialog.errors import UserError

CONTEXT = ["Hello, I booked three nights.", "Welcome.", "Which day is it?"]
CONTEXTS = [
    CONTEXT,
    CONTEXT[:1],
    ["A table for six, please."],
    [*CONTEXT, "It is Monday.", "What is my name?"],
    [],
]

SEARCHES = [
    {"name": "greedy"},
    {"name": "beam", "candidates": 5},
    {"name": "diverse_beam", "candidates": 3},
    {"name": "delayed_beam", "candidates": 2},
    {"name": "sampling", "candidates": 3},
    {"name": "contrastive"},
    {"name": "anti_lm", "repetition_penalty": 1.2},
]


# ------------------------------------------------------------------ self-contained folder


def test_moved_run_gives_the_same_responses(
    run: dialog.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without prepared data, from a copy of three files."""
    moved = tmp_path / "elsewhere" / "mine"
    moved.mkdir(parents=True)
    for name in ("recipe.yaml", "tokenizer.json", "model.safetensors"):
        shutil.copy(run.folder / name, moved)
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "empty"))
    monkeypatch.chdir(moved.parent)
    again = dialog.load("mine")
    assert [each.text for each in again.respond_batch(CONTEXTS)] == [
        each.text for each in run.respond_batch(CONTEXTS)
    ]
    assert again.score(CONTEXT, "Monday.") == run.score(CONTEXT, "Monday.")
    assert not (tmp_path / "empty").exists()


# ------------------------------------------------------------------ responses, scores and maps


@pytest.mark.parametrize(
    ("context", "response", "message"),
    [
        ("Hello .", "Fine .", r"not a string; pass \[text\]"),
        (None, "Fine .", "expected a list of turns, not None"),
        (["Hello .", 3], "Fine .", "turn 2 is 3, not a string"),
        (["Hello ."], None, "response: expected a string, not None"),
    ],
)
def test_text_of_another_type_is_named(
    run: dialog.Run, context: list[str], response: str, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        run.score(context, response)


def test_statistics_of_an_unknown_split(run: dialog.Run) -> None:
    with pytest.raises(UserError, match="unknown split 'tst'; choose from train, validation, test"):
        run.attention_statistics("tst")


def test_batch_and_single_responses_agree(run: dialog.Run) -> None:
    together = run.respond_batch(CONTEXTS)
    assert len({reply.candidates[0].score for reply in together}) > 1
    for context, reply in zip(CONTEXTS, together, strict=True):
        alone = run.respond(context)
        assert alone.text == reply.text == alone.candidates[0].text
        assert alone.candidates[0].score == pytest.approx(reply.candidates[0].score, abs=1e-4)
        assert alone.candidates[0].tokens == reply.candidates[0].tokens
    assert run.respond_batch([]) == []


def test_a_reply_is_a_table_in_a_notebook(run: dialog.Run) -> None:
    reply = run.respond(
        ["<script>1</script> $x$ \x1b", "Hi & bye"], {"name": "beam", "candidates": 3}
    )
    table = Xml.fromstring(reply._repr_html_().replace("<br>", "<br/>"))
    assert "mathjax_ignore" in table.attrib["class"]
    assert "".join(table.find("caption").itertext()) == "<script>1</script> $x$ \\x1bHi & bye"
    cells = [["".join(cell.itertext()) for cell in row] for row in table.findall("tr")[1:]]
    assert cells == [
        [item.text, f"{item.score:.2f}", str(item.tokens)] for item in reply.candidates
    ]


def test_draws_for_equal_contexts(run: dialog.Run) -> None:
    """They are numbered, or have ids; the other contexts of a batch change nothing."""
    search = {"name": "sampling", "candidates": 2}
    hello, bye = ["Hello ."], ["Bye ."]

    def drawn(contexts: list[list[str]], ids: list[str] | None = None) -> list[list[Sequence[int]]]:
        replies = run.respond_batch(contexts, search, ids=ids)
        return [[candidate.ids for candidate in reply.candidates] for reply in replies]

    one, other, two, three = drawn([hello, bye, hello, hello])
    assert [one, other] == [*drawn([hello]), *drawn([bye])]
    assert len({tuple(reply[0]) for reply in (one, two, three)}) == 3
    assert drawn([hello, hello, bye], ["7", "8", "7"])[1:] == [
        *drawn([hello], ["8"]),
        *drawn([bye], ["7"]),
    ]
    with pytest.raises(UserError, match="1 ids for 2 contexts"):
        drawn([hello, bye], ["7"])


def test_a_string_is_not_a_context(run: dialog.Run) -> None:
    with pytest.raises(TypeError, match=r"expected a list of turns"):
        run.respond("How are you ?")
    with pytest.raises(TypeError, match="expected a list of turns"):
        run.score("How are you ?", "Fine .")


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search["name"])
def test_candidate_score_is_the_score_of_its_text(run: dialog.Run, search: dict[str, Any]) -> None:
    """Up to the rounding of float32, for responses whose text encodes to the generated tokens, with
    an end token.
    """
    checked = 0
    for context, reply in zip(
        CONTEXTS, run.respond_batch(CONTEXTS, {**search, "max_length": 100}), strict=True
    ):
        for candidate in reply.candidates:
            if [*run.tokenizer.encode(candidate.text), EOS] == list(candidate.ids):
                assert run.score(context, candidate.text) == pytest.approx(
                    candidate.score, abs=3e-5
                )
                assert math.fsum(candidate.token_scores) == candidate.score
                checked += 1
    assert checked


def test_scores_are_log_probabilities(run: dialog.Run) -> None:
    """Negative, and smaller for longer responses."""
    assert run.score(CONTEXT, "") < 0
    assert run.score(CONTEXT, "Monday. Monday.") < run.score(CONTEXT, "Monday.") < 0
    assert math.isfinite(run.score([], "Hello"))


def test_outer_white_space_of_a_context_does_not_matter(run: dialog.Run) -> None:
    assert run.score([f" \n{turn}\t" for turn in CONTEXT], "Monday.") == run.score(
        CONTEXT, "Monday."
    )


def test_search_may_set_length_limits(run: dialog.Run) -> None:
    reply = run.respond(CONTEXT, search={"name": "greedy", "min_length": 5, "max_length": 5})
    assert reply.candidates[0].tokens in (5, 6)
    with pytest.raises(dialog.UserError, match="did you mean 'greedy'"):
        run.respond(CONTEXT, search={"name": "gredy"})


def test_attention_maps_of_a_response(run: dialog.Run) -> None:
    reply = run.respond(CONTEXT)
    maps = reply.attention()
    given = run.attention(CONTEXT, reply.text)
    np.testing.assert_equal(dict(maps), dict(given))
    assert maps.keys() >= {"context_tokens", "response_tokens", "maps"}
    ids = run.tokenizer.encode(reply.text)
    assert maps["response_tokens"] == [*map(run.tokenizer.label, ids), "</s>"]
    context_ids = [token for turn in CONTEXT for token in (None, *run.tokenizer.encode(turn))]
    assert len(maps["context_tokens"]) == len(context_ids) + 1
    sizes = {"source": len(context_ids) + 1, "target": len(ids) + 1}
    modules = dict(run.model.named_modules())
    assert sum(each["kind"] == "cross" for each in maps["maps"]) > 0
    for each in maps["maps"]:
        assert each["name"] in modules
        weights = each["weights"]
        assert weights.dtype == np.float32, "lists of numbers take ten times the memory"
        columns = "source" if each["kind"] == "cross" else each["side"]
        assert weights.shape[1:] == (sizes[each["side"]], sizes[columns])
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_roles_alternate_and_the_last_turn_is_other(run: dialog.Run) -> None:
    shown = run.attention(CONTEXT, "")["context_tokens"]
    roles = [token for token in shown if token in ("<self>", "<other>")]
    assert roles == ["<other>", "<self>", "<other>"]
    assert shown[-1] == "</s>"


# ------------------------------------------------------------------ hostile text

HOSTILE = [
    "</s>",
    "<s></s><pad>",
    "Hi </s> <other> so",
    "<self>",
    "\x00\x1b[2J\x07",
    "\u202e\u200b",
    "",
    " ",
    "\n\n",
    "🎉" * 50,
    "a" * 5000,
]


def test_a_printed_run_is_one_line(run: dialog.Run) -> None:
    text = repr(run)
    assert "\n" not in text
    assert str(run.folder) in text
    assert len(text) < len(str(run.folder)) + 100


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_text_is_text(run: dialog.Run, text: str) -> None:
    """Text that looks like a special token is encoded as text."""
    shown = run.attention(["Hi", text], "so")["context_tokens"]
    assert shown.count("</s>") == 1
    assert shown.count("<other>") <= 1
    assert shown.count("<self>") <= 1
    assert "<pad>" not in shown
    assert len(shown) <= run.recipe.data.max_source
    assert all(token.isprintable() for token in shown)
    reply = run.respond(["Hi", text])
    assert not {"</s>", "<s>", "<pad>", "<self>", "<other>"} & set(
        map(run.tokenizer.label, run.tokenizer.encode(reply.text))
    )
    assert math.isfinite(reply.candidates[0].score)
    assert math.isfinite(run.score(["Hi"], text))
    assert not {EOS, OTHER, SELF} & set(run.tokenizer.encode(text))


def test_responses_contain_no_special_token(run: dialog.Run) -> None:
    """Even if the model gives special tokens the highest logits."""
    wild = dialog.load(run.folder)
    with torch.no_grad():
        wild.model.head.weight[:6] *= 50
        wild.model.head.weight[EOS] = 0
    for reply in wild.respond_batch(CONTEXTS):
        assert "<" not in reply.text


def test_context_is_limited_to_context_turns(copied: Path) -> None:
    run = dialog.load(copied, overrides=["data.context_turns=2"])
    before = ["Hello, my name is Ann.", "Good day."]
    long, short = [*before, *CONTEXT], CONTEXT[-2:]
    assert run.respond(long).text == run.respond(short).text
    assert run.score(long, "Yes.") == run.score(short, "Yes.")
    assert (
        run.attention(long, "Yes.")["context_tokens"]
        == run.attention(short, "Yes.")["context_tokens"]
    )
