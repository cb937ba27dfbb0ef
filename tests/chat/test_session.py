"""Conversations without a terminal: contexts, attempts, interruptions, files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.chat.session import Session
from dialog.errors import UserError
from dialog.generation.responder import Responder

FAMILIES = ("lstm", "transformer")
HELLO = "I will have the soup ."


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_are_those_of_respond(session: Callable[..., Session], family: str) -> None:
    chat = session(family)
    context: list[str] = []
    for text in (HELLO, "For me the pizza .", "What will I drink ?"):
        context.append(text)
        expected = chat.runs[0].respond(context).text
        assert chat.answer(text) == [expected]
        context.append(expected)


@pytest.mark.parametrize("name", ["greedy", "sampling"])
@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_arrive_one_by_one_and_are_the_reply(
    session: Callable[..., Session], family: str, name: str
) -> None:
    chat = session(family)
    chat.change(lambda settings: settings.select(name))
    pieces: list[str] = []
    (reply,) = chat.answer(HELLO, lambda number, piece: pieces.append(piece))
    assert "".join(pieces) == reply
    assert pieces.index("") == len(pieces) - 1
    (candidate,) = (
        chat.n_best(1)[0][1] if name == "sampling" else chat.runs[0].responder.respond([[HELLO]])[0]
    )
    assert candidate.text == reply
    assert len(pieces) - 1 >= candidate.tokens // 2 > 1


def test_beam_search_shows_its_reply_at_once(session: Callable[..., Session]) -> None:
    chat = session("transformer")
    chat.change(lambda settings: settings.select("beam5"))
    pieces: list[str] = []
    (reply,) = chat.answer(HELLO, lambda number, piece: pieces.append(piece))
    assert pieces == [reply, ""]


def test_each_run_reads_its_earlier_replies(session: Callable[..., Session]) -> None:
    chat = session("lstm", "transformer")
    first = chat.answer(HELLO)
    second = chat.answer("And you ?")
    for number, run in enumerate(chat.runs):
        context = [HELLO, first[number], "And you ?"]
        assert chat.context(number) == context
        assert second[number] == run.respond(context).text
    assert len(set(chat.names)) == 2


def test_every_attempt_has_its_seed_and_can_be_reproduced(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    chat.change(lambda settings: settings.select("sampling"))
    attempts = [chat.answer(HELLO), *(chat.retry() for _ in range(3))]
    assert len({reply for (reply,) in attempts}) > 1
    assert len(chat.exchanges) == 1
    chat.reset()
    assert [chat.answer(HELLO), *(chat.retry() for _ in range(3))] == attempts


def test_undo_and_reset_remove_turns(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    first = chat.answer(HELLO)
    chat.answer("Again")
    assert chat.undo() == "Again"
    assert chat.retry() == first
    chat.reset()
    assert chat.exchanges == []
    for empty in (
        chat.undo,
        chat.retry,
        chat.attention,
        lambda: chat.n_best(2),
        lambda: chat.save(Path("none")),
    ):
        with pytest.raises(UserError, match="the conversation is empty"):
            empty()


class Interruption:
    """Watch that interrupts a reply of a run after some pieces."""

    def __init__(self, run: int, after: int) -> None:
        self.run, self.after, self.text = run, after, ""

    def __call__(self, number: int, piece: str) -> None:
        if number == self.run:
            if not self.after:
                raise KeyboardInterrupt
            self.text += piece
            self.after -= 1


def test_a_stopped_reply_is_kept_as_far_as_shown(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    whole = chat.answer(HELLO)[0]
    interruption = Interruption(run=0, after=2)
    with pytest.raises(KeyboardInterrupt):
        chat.retry(interruption)
    assert chat.stop()
    (kept,) = chat.exchanges[-1].replies
    assert whole.startswith(kept)
    assert kept.startswith(interruption.text)
    assert len(kept) < len(whole)
    assert chat.answer("And then ?") == [chat.runs[0].respond([HELLO, kept, "And then ?"]).text]


@pytest.mark.parametrize("stopped", [0, 1])
def test_two_stopped_replies_are_kept_as_far_as_generated(
    session: Callable[..., Session], stopped: int
) -> None:
    chat = session("lstm", "transformer")
    whole = chat.answer(HELLO)
    with pytest.raises(KeyboardInterrupt):
        chat.retry(Interruption(stopped, 2))
    replies = chat.stop()
    assert chat.exchanges[-1].replies == replies
    assert [bool(reply) for reply in replies] == [True, stopped == 1]
    assert whole[stopped].startswith(replies[stopped])
    assert replies[stopped] != whole[stopped]
    assert replies[0] == whole[0] or stopped == 0
    expected = [
        run.respond([HELLO, reply, "And ?"]).text
        for run, reply in zip(chat.runs, replies, strict=True)
    ]
    assert len(chat.attention()) == 2
    assert chat.answer("And ?") == expected


def test_a_turn_without_a_reply_is_taken_back(
    session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = session("lstm", "transformer")
    replies = chat.answer(HELLO)

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Responder, "respond", interrupt)
    for command in (lambda: chat.answer("More"), chat.retry, lambda: chat.n_best(2)):
        with pytest.raises(KeyboardInterrupt):
            command()
        assert not chat.stop()
        assert [exchange.replies for exchange in chat.exchanges] == [replies]
    assert not session("lstm").stop()


def test_attention_is_over_the_tokens_of_the_search(session: Callable[..., Session]) -> None:
    chat = session("lstm")
    chat.change(
        lambda settings: settings.change({"temperature": 20, "max_length": 12, "min_length": 12})
    )
    (reply,) = chat.answer(HELLO)
    (candidate, *_), *_ = chat.runs[0].responder.respond([[HELLO]], chat.settings[0].component)
    by_search, by_text = (
        chat.runs[0].attention([HELLO], response) for response in (candidate, reply)
    )
    assert by_search["response_tokens"] != by_text["response_tokens"]
    assert chat.attention()[0]["response_tokens"] == by_search["response_tokens"]
    with pytest.raises(KeyboardInterrupt):
        chat.retry(Interruption(0, 4))
    (kept,) = chat.stop()
    stopped = chat.runs[0].attention([HELLO], kept)
    assert chat.attention()[0]["response_tokens"] == stopped["response_tokens"]


def test_text_of_the_user_is_only_text(session: Callable[..., Session]) -> None:
    chat = session("transformer")
    special = "</s> <other> \x1b[31m Hi"
    ids = chat.runs[0].responder.encode(chat.runs[0].responder.example([special]))[0]
    assert ids.count(2) == 1  # the end token of the context
    chat.answer(special)
    with pytest.raises(UserError, match="not UTF-8"):
        chat.answer("\udcff")
    assert len(chat.exchanges) == 1


@pytest.mark.parametrize("families", [("lstm",), FAMILIES])
def test_saved_file_is_answered_by_respond(
    session: Callable[..., Session], families: tuple[str, ...], tmp_path: Path
) -> None:
    from dialog.cli.json_lines import read_lines

    chat = session(*families)
    chat.answer("Hi \x1b[31m")
    chat.answer(HELLO)
    path = tmp_path / "chat.jsonl"
    assert chat.save(path) == 2 * len(families)
    content = path.read_bytes()
    assert b"\x1b" not in content
    with path.open("rb") as file:
        lines = list(read_lines(file, "chat.jsonl", ["response"]))
    assert [line.error for line in lines] == [None] * len(lines)
    assert [list(line.row) for line in lines] == [["id", "context", "response"]] * len(lines)
    assert len({line.row["id"] for line in lines}) == len(lines)
    last = json.loads(content.splitlines()[-1])
    assert chat.runs[-1].respond(last["context"]).text == last["response"]
    with pytest.raises(UserError, match=r"chat\.jsonl exists"):
        chat.save(path)
    with pytest.raises(UserError, match="nowhere/chat"):
        chat.save(tmp_path / "nowhere" / "chat")
    assert path.read_bytes() == content


def test_a_model_without_numbers_adds_nothing(session: Callable[..., Session]) -> None:
    chat = session("lstm", "transformer")
    for parameter in chat.runs[1].model.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(UserError, match="scores of the model are not numbers"):
        chat.answer(HELLO)
    assert chat.exchanges == []
