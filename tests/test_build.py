"""A run folder is all that one needs to go on, and nothing in it can do harm."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dialog
from dialog.build import build_corpus
from dialog.cli import main
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF
from dialog.errors import UserError
from dialog.runs.check import check_recipe
from dialog.runs.evaluate import evaluate
from dialog.runs.prepare import prepare_data

CONTEXT = ["Hello, I booked three nights.", "Welcome.", "Which day is it?"]
CONTEXTS = [CONTEXT, CONTEXT[:1], ["A table for six, please."], [*CONTEXT, "It is Monday.", "What is my name?"], []]


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def run(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> dialog.Run:
    return dialog.load(trained(request.param))


@pytest.fixture
def copied(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    """A run folder that may be spoilt."""
    return Path(shutil.copytree(trained("transformer"), tmp_path / "copied"))


def complaint(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``dialog respond`` says to a folder: one line, and exit code 2."""
    monkeypatch.setattr(sys, "argv", ["dialog", "respond", str(folder)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    told = capsys.readouterr()
    (line,) = told.err.splitlines()
    assert told.out == ""
    assert str(folder) in line
    return line


# ------------------------------------------------------------------ loading


def test_a_folder_that_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not a run folder" in complaint(tmp_path, monkeypatch, capsys)
    assert "not a run folder" in complaint(tmp_path / "missing", monkeypatch, capsys)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_run_that_is_not_finished(
    copied: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / name).unlink()
    assert f"no {name}" in complaint(copied, monkeypatch, capsys)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def scrambled(content: bytes) -> bytes:
    return content[:8] + b"\0" * 40 + content[48:]


@pytest.mark.parametrize("damage", [cut, scrambled, lambda _: b"", lambda _: b"{}"])
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_damaged_run(
    copied: Path,
    name: str,
    damage: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (copied / name).write_bytes(damage((copied / name).read_bytes()))
    assert name in complaint(copied, monkeypatch, capsys)


def test_weights_of_another_network(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = copied / "recipe.yaml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("embedding_size: 24", "embedding_size: 32"))
    assert "does not fit the recipe" in complaint(copied, monkeypatch, capsys)


def test_an_unknown_precision_names_those_there_are(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"bfloat15.*bfloat16"):
        dialog.load(copied, precision="bfloat15")


def test_an_override_that_makes_no_network(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"^model: .*dropout"):
        dialog.load(copied, overrides=["model.dropout=5"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(copied: Path) -> None:
    with pytest.raises(dialog.UserError, match=r"^device cuda: "):
        dialog.load(copied, device="cuda")


def test_what_is_public_is_listed() -> None:
    assert set(dialog.__all__) <= set(dir(dialog))


def test_half_precision_responds(run: dialog.Run) -> None:
    half = dialog.load(run.folder, precision="bfloat16")
    assert half.respond(CONTEXT).candidates[0].tokens > 0
    assert half.score(CONTEXT, "Monday.") == pytest.approx(run.score(CONTEXT, "Monday."), rel=0.05)


# ------------------------------------------------------------------ trust

PARTS = {
    "generation.search": "greedy",
    "model.encoder": "transformer",
    "model.decoder": "transformer",
    "model.loss": "cross_entropy",
    "data.corpus": "builtin",
    "data.tokenizer": "byte_bpe",
    "optimizer": "adamw",
    "optimizer.schedule": "inverse_sqrt",
    "logger": "none",
}


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a mark when it is imported: the path of the mark."""
    mark = tmp_path / "imported"
    text = f"from pathlib import Path\nfrom dialog.generation.greedy import Greedy\nPath({str(mark)!r}).touch()\n"
    (tmp_path / "foreign_parts.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "foreign_parts", raising=False)
    return mark


def tampered(folder: Path, place: str, name: str) -> None:
    """Give the component at ``place`` of the run's recipe another name."""
    from omegaconf import OmegaConf

    recipe = OmegaConf.load(folder / "recipe.yaml")
    assert OmegaConf.select(recipe, f"{place}.name") == PARTS[place]
    OmegaConf.update(recipe, f"{place}.name", name)
    OmegaConf.save(recipe, folder / "recipe.yaml")


@pytest.mark.parametrize("place", PARTS)
def test_a_recipe_that_came_with_a_run_imports_nothing(
    copied: Path, place: str, foreign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tampered(copied, place, "foreign_parts.Greedy")
    line = complaint(copied, monkeypatch, capsys)
    assert "foreign_parts.Greedy" in line
    assert "--trust" in line
    assert not foreign.exists()


def test_unless_its_author_is_trusted(copied: Path, foreign: Path) -> None:
    tampered(copied, "generation.search", "foreign_parts.Greedy")
    loaded = dialog.load(copied, trust=True)
    assert foreign.exists()
    assert (
        loaded.respond(CONTEXT).text
        == dialog.load(copied, overrides=["generation.search.name=greedy"]).respond(CONTEXT).text
    )


# ------------------------------------------------------------------ a run alone


def test_a_run_that_was_moved_still_answers(run: dialog.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the prepared data, elsewhere, with nothing but what answering needs."""
    moved = tmp_path / "elsewhere" / "mine"
    moved.mkdir(parents=True)
    for name in ("recipe.yaml", "tokenizer.json", "model.safetensors"):
        shutil.copy(run.folder / name, moved)
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "empty"))
    monkeypatch.chdir(moved.parent)
    again = dialog.load("mine")
    assert [each.text for each in again.respond_batch(CONTEXTS)] == [each.text for each in run.respond_batch(CONTEXTS)]
    assert again.score(CONTEXT, "Monday.") == run.score(CONTEXT, "Monday.")
    assert not (tmp_path / "empty").exists()


# ------------------------------------------------------------------ answers, scores and maps


def test_a_batch_answers_as_one_by_one(run: dialog.Run) -> None:
    together = run.respond_batch(CONTEXTS)
    assert len({reply.candidates[0].score for reply in together}) > 1
    for context, reply in zip(CONTEXTS, together, strict=True):
        alone = run.respond(context)
        assert alone.text == reply.text == alone.candidates[0].text
        assert alone.candidates[0].score == pytest.approx(reply.candidates[0].score, abs=1e-4)
        assert alone.candidates[0].tokens == reply.candidates[0].tokens
    assert run.respond_batch([]) == []


def test_a_text_is_no_context(run: dialog.Run) -> None:
    with pytest.raises(TypeError, match=r"list of turns: give \[text\]"):
        run.respond("How are you ?")
    with pytest.raises(TypeError, match="list of turns"):
        run.score("How are you ?", "Fine .")


def test_the_score_of_an_answer_is_what_scoring_gives_it(run: dialog.Run) -> None:
    """Where the text of the answer has the tokens that were said, and an end."""
    limit = {"name": "greedy", "max_length": 200}
    checked = 0
    for context, reply in zip(CONTEXTS, run.respond_batch(CONTEXTS, search=limit), strict=True):
        (candidate,) = reply.candidates
        if candidate.tokens == len(run.tokenizer.encode(reply.text)) + 1:
            assert run.score(context, reply.text) == pytest.approx(candidate.score, abs=1e-3)
            checked += 1
    assert checked


def test_scores_are_those_of_a_probability(run: dialog.Run) -> None:
    """Logarithms of numbers below 1, the smaller the more is said."""
    assert run.score(CONTEXT, "") < 0
    assert run.score(CONTEXT, "Monday. Monday.") < run.score(CONTEXT, "Monday.") < 0
    assert math.isfinite(run.score([], "Hello"))


def test_limits_may_be_given_with_a_search(run: dialog.Run) -> None:
    reply = run.respond(CONTEXT, search={"name": "greedy", "min_length": 5, "max_length": 5})
    assert reply.candidates[0].tokens in (5, 6)
    with pytest.raises(dialog.UserError, match="did you mean 'greedy'"):
        run.respond(CONTEXT, search={"name": "gredy"})


def test_the_maps_of_an_answer(run: dialog.Run) -> None:
    reply = run.respond(CONTEXT)
    found = reply.attention()
    assert found == run.attention(CONTEXT, reply.text)
    assert found.keys() == {"context_tokens", "response_tokens", "maps"}
    ids = run.tokenizer.encode(reply.text)
    assert found["response_tokens"] == [*map(run.tokenizer.label, ids), "</s>"]
    spoken = [token for turn in CONTEXT for token in (None, *run.tokenizer.encode(turn))]
    assert len(found["context_tokens"]) == len(spoken) + 1
    sizes = {"source": len(spoken) + 1, "target": len(ids) + 1}
    modules = dict(run.model.named_modules())
    assert sum(each["kind"] == "cross" for each in found["maps"]) > 0
    for each in found["maps"]:
        assert each["name"] in modules
        weights = np.array(each["weights"])
        columns = "source" if each["kind"] == "cross" else each["side"]
        assert weights.shape[1:] == (sizes[each["side"]], sizes[columns])
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_speakers_alternate_and_the_last_turn_is_the_others(run: dialog.Run) -> None:
    shown = run.attention(CONTEXT, "")["context_tokens"]
    roles = [token for token in shown if token in ("<self>", "<other>")]
    assert roles == ["<other>", "<self>", "<other>"]
    assert shown[-1] == "</s>"


# ------------------------------------------------------------------ whatever one says

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


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_text_is_text(run: dialog.Run, text: str) -> None:
    """What looks like a token of ours is read as what it is, and nothing breaks."""
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


def test_an_answer_says_no_special_token(run: dialog.Run) -> None:
    """Even of a network that would like to."""
    wild = dialog.load(run.folder)
    with torch.no_grad():
        wild.model.head.weight[:6] *= 50
        wild.model.head.weight[EOS] = 0
    for reply in wild.respond_batch(CONTEXTS):
        assert "<" not in reply.text


def test_an_evaluation_that_fails_leaves_nothing(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def dialogues(self, split: str) -> object:
            yield Dialogue("d1", (Turn("A", "Hi"), Turn("B", "Hello")))
            raise UserError("corpus.jsonl:2: broken")

    before = {path: path.read_bytes() for path in copied.rglob("*.*") if path.is_file()}
    monkeypatch.setattr("dialog.runs.evaluate.build_corpus", lambda recipe: Broken())
    with pytest.raises(UserError, match="broken"):
        evaluate(dialog.load(copied), "test", quiet=True)
    assert {path: path.read_bytes() for path in copied.rglob("*.*") if path.is_file()} == before


def test_training_does_not_write_over_a_run(tiny: Callable[..., Any], copied: Path) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    with pytest.raises(dialog.UserError, match="exists"):
        dialog.train(tiny("transformer"), copied)
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


def test_a_run_is_complete_and_trains_again_as_it_is(trained: Callable[[str], Path], tmp_path: Path) -> None:
    """The same recipe and seed give the same weights."""
    folder = trained("transformer")
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "recipe.yaml", "environment.json", "tokenizer.json", "checkpoints", "model.safetensors", "metrics.jsonl",
        "attention", "evaluation",
    }  # fmt: skip
    again = dialog.train(dialog.compose(str(folder / "recipe.yaml")), tmp_path / "again", quiet=True)
    assert (again.folder / "recipe.yaml").read_text() == (folder / "recipe.yaml").read_text()
    first, second = (dialog.load(each).model.state_dict() for each in (folder, again.folder))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_corpus_is_downloaded_where_it_is_read_and_not_where_a_recipe_is_checked() -> None:
    recipe = dialog.compose(
        "dailydialog/transformer", ["logger=none", "trainer.accelerator=cpu", "trainer.devices=1"]
    ).recipe
    assert check_recipe(recipe) == 1
    for read in (build_corpus, prepare_data):
        with pytest.raises(UserError, match=r"^data\.corpus: dailydialog is not here and DIALOG_OFFLINE"):
            read(recipe)


def test_bpe_dropout_changes_what_is_trained_on_and_takes_byte_bpe(tiny: Callable[..., Any], tmp_path: Path) -> None:
    few = ("trainer.max_steps=3", "trainer.val_check_interval=3")
    tokens = []
    for name, chance in (("without", 0.0), ("with", 0.5), ("again", 0.5)):
        recipe = tiny("transformer", f"data.bpe_dropout={chance}", *few)
        tokens.append(dialog.train(recipe, tmp_path / name, quiet=True).target_tokens)
    assert tokens[0] < tokens[1] == tokens[2]
    words = tiny("transformer", "data.bpe_dropout=0.1", "data.tokenizer={name: word}")
    with pytest.raises(UserError, match=r"^data\.bpe_dropout: "):
        dialog.train(words, tmp_path / "words", quiet=True)
    assert not (tmp_path / "words").exists()


def test_what_was_said_long_ago_is_read_no_more_than_in_training(copied: Path) -> None:
    run = dialog.load(copied, overrides=["data.context_turns=2"])
    before = ["Hello, my name is Ann.", "Good day."]
    long, short = [*before, *CONTEXT], CONTEXT[-2:]
    assert run.respond(long).text == run.respond(short).text
    assert run.score(long, "Yes.") == run.score(short, "Yes.")
    assert run.attention(long, "Yes.")["context_tokens"] == run.attention(short, "Yes.")["context_tokens"]
