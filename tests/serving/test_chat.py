"""``POST /v1/chat/completions``: the responses are those of the run, in OpenAI's format."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client import CHAT, Client, messages

from dialog.generation.row_loop import RowLoop
from dialog.runs.run import Run
from dialog.serving.replies import before_stop, without_stop

TURNS = ("Hello .", "Hi ! How are you ?", "Where is Anna ?")


def test_greedy_response_is_that_of_the_run(client: Client, run: Run) -> None:
    answer = client.chat(*TURNS, model=run.name)
    (candidate,) = run.respond(TURNS).candidates
    content = answer.json
    assert answer.status == 200
    assert answer.reply == candidate.text
    assert content["object"] == "chat.completion"
    assert content["model"] == run.name
    assert content["choices"][0]["finish_reason"] == "stop"
    source, _ = run.responder.encode(run.responder.example(TURNS))
    assert content["usage"] == {
        "prompt_tokens": len(source),
        "completion_tokens": candidate.tokens,
        "total_tokens": len(source) + candidate.tokens,
    }


def test_stream_is_the_same_response_in_pieces(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = RowLoop.advance

    def slow(loop: RowLoop) -> None:  # a busy machine sends several tokens at once
        time.sleep(0.05)
        advance(loop)

    monkeypatch.setattr(RowLoop, "advance", slow)
    answer = client.chat(*TURNS, stream=True, stream_options={"include_usage": True})
    *chunks, end, usage = answer.events
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    pieces = [chunk["choices"][0]["delta"]["content"] for chunk in chunks[1:]]
    assert len(pieces) > 1
    assert "".join(pieces) == run.respond(TURNS).text
    assert end["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"] == client.chat(*TURNS).json["usage"]
    assert len({chunk["id"] for chunk in (*chunks, end, usage)}) == 1


def test_search_that_does_not_stream_is_one_piece(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    beam = {"name": "beam", "width": 3}
    monkeypatch.setattr(run.recipe.generation, "search", beam)
    _, piece, _ = client.chat(*TURNS, stream=True).events
    assert piece["choices"][0]["delta"]["content"] == run.respond(TURNS, beam).text


def test_content_may_be_a_list_of_texts(client: Client) -> None:
    parts = [{"type": "text", "text": "Where is "}, {"type": "text", "text": "Anna ?"}]
    answer = client.post(CHAT, {"messages": [{"role": "user", "content": parts}]})
    assert answer.reply == client.chat("Where is Anna ?").reply


def test_seed_repeats_a_drawn_response(client: Client) -> None:
    drawn = [
        client.chat(*TURNS, temperature=1.5, seed=seed).reply for seed in (*range(8), *range(8))
    ]
    assert drawn[:8] == drawn[8:]
    assert len(set(drawn)) > 1


def test_responses_without_a_seed_differ(client: Client) -> None:
    assert len({client.chat(*TURNS, temperature=1.5).reply for _ in range(8)}) > 1


def test_several_responses(client: Client, run: Run) -> None:
    choices = client.chat(*TURNS, n=3, temperature=1.2, seed=1).json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    expected = run.responder.respond(
        [TURNS], {"name": "sampling", "temperature": 1.2, "candidates": 3}, ids=["1"]
    )
    assert [choice["message"]["content"] for choice in choices] == [
        candidate.text for candidate in expected[0]
    ]


@pytest.mark.parametrize(
    "search",
    [
        {"name": "sampling", "candidates": 16, "temperature": 1.5},
        {"name": "beam", "width": 5, "candidates": 5},
        {"name": "anti_lm", "search": {"name": "beam", "width": 5, "candidates": 5}},
        {"name": "anti_lm", "search": {"name": "sampling", "candidates": 4, "temperature": 1.5}},
    ],
    ids=lambda search: f"{search['name']}, {search.get('search', search)['name']}",
)
def test_the_best_of_several_is_the_single_response(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch, search: dict[str, Any]
) -> None:
    monkeypatch.setattr(run.recipe.generation, "search", search)
    single = client.chat(*TURNS, seed=1).reply
    for number in (2, 3):
        choices = client.chat(*TURNS, seed=1, n=number).json["choices"]
        assert len(choices) == number
        assert choices[0]["message"]["content"] == single
    assert len(client.chat(*TURNS, seed=1, n=8).json["choices"]) == 8


def test_a_search_that_draws_within_another_takes_the_seed(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = {"name": "sampling", "candidates": 2, "temperature": 1.5}
    monkeypatch.setattr(run.recipe.generation, "search", {"name": "anti_lm", "search": inner})
    assert len({client.chat(*TURNS, seed=1).reply for _ in range(3)}) == 1
    assert len({client.chat(*TURNS).reply for _ in range(8)}) > 1


def test_temperature_of_zero_is_greedy(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = client.chat(*TURNS).reply
    monkeypatch.setattr(run.recipe.generation, "search", {"name": "sampling", "temperature": 1.5})
    assert client.chat(*TURNS, temperature=0).reply == greedy


def test_limits_of_tokens_lower_the_run_s(client: Client, run: Run) -> None:
    full, longer, short = (
        client.chat(*TURNS, **fields) for fields in ({}, {"max_tokens": 10**6}, {"max_tokens": 2})
    )
    assert longer.reply == full.reply
    assert run.respond(TURNS).candidates[0].tokens > 2
    assert short.json["choices"][0]["finish_reason"] == "length"
    assert short.json["usage"]["completion_tokens"] == 2
    assert client.chat(*TURNS, max_completion_tokens=2).reply == short.reply


def test_frequency_penalty_is_the_constraint(client: Client, run: Run) -> None:
    penalised = run.responder.respond([TURNS], {"name": "greedy", "frequency_penalty": 2.0})[0][
        0
    ].text
    assert client.chat(*TURNS, frequency_penalty=2.0).reply == penalised


def test_settings_of_the_search_are_those_of_recipes(client: Client, run: Run) -> None:
    sampling = {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.95}
    drawn = run.responder.respond(
        [TURNS], {"name": "sampling", **sampling, "repetition_penalty": 1.3}, ids=["1"]
    )
    assert client.chat(*TURNS, **sampling, repetition_penalty=1.3, seed=1).reply == drawn[0][0].text
    assert client.chat(*TURNS, temperature=2, top_k=1).reply == client.chat(*TURNS).reply
    penalised = run.responder.respond([TURNS], {"name": "greedy", "repetition_penalty": 5.0})[0][
        0
    ].text
    assert client.chat(*TURNS, repetition_penalty=5.0).reply == penalised


def test_fields_that_change_nothing_are_ignored(client: Client) -> None:
    fields = {
        "user": "x",
        "metadata": {},
        "logprobs": False,
        "top_logprobs": 0,
        "tools": [],
        "stop": None,
        "presence_penalty": 0,
    }
    body = {
        "messages": messages(*TURNS),
        "response_format": {"type": "text"},
        "tool_choice": "auto",
        **fields,
    }
    body["messages"][1] |= {"refusal": None, "annotations": [], "tool_calls": None}
    assert client.post(CHAT, body).reply == client.chat(*TURNS).reply


def test_tools_are_reported_as_ignored(client: Client) -> None:
    """Open WebUI sends some with each request."""
    answer = client.chat(*TURNS, tools=[{"type": "function", "function": {"name": "time"}}])
    assert answer.reply == client.chat(*TURNS).reply
    assert [warning.partition(":")[0] for warning in answer.json["warnings"]] == ["tools"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": messages("a") * 201}, "messages"),
        ({"messages": [{"role": "system", "content": "Be kind ."}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "5"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content.0.type",
        ),
        (
            {"messages": [{"role": "user", "content": "a", "tool_calls": [{}]}]},
            "messages.0.tool_calls",
        ),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_p": 1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"n": 9, "temperature": 1}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"frequency_penalty": 3}, "frequency_penalty"),
        ({"tools": [{"type": "function"}], "tool_choice": "required"}, "tool_choice"),
        ({"stop": [""]}, "stop.0"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"stream_options": {"usage": True}}, "stream_options.usage"),
        ({"generation": "beam5"}, "generation"),
    ],
)
def test_invalid_fields_are_named(client: Client, fields: dict[str, object], field: str) -> None:
    answer = client.post(CHAT, {"messages": messages(*TURNS), **fields})
    error = answer.json["error"]
    assert (answer.status, error["type"], error["param"]) == (400, "invalid_request_error", field)
    assert answer.error.startswith(f"{field}: ")


def test_misspelt_field_names_the_right_one(client: Client) -> None:
    answer = client.chat(*TURNS, temprature=1)
    assert (answer.status, answer.json["error"]["param"]) == (400, "temprature")
    assert "'temperature'" in answer.error


def test_several_responses_of_greedy_search_are_those_of_a_beam(client: Client, run: Run) -> None:
    choices = client.chat(*TURNS, n=3, temperature=0).json["choices"]
    beam = {"name": "beam", "width": 5, "candidates": 3}
    expected = [each.text for each in run.respond(TURNS, beam).candidates]
    assert [choice["message"]["content"] for choice in choices] == expected


@pytest.mark.parametrize("temperature", [0, 1.2])
def test_several_responses_are_streamed(client: Client, temperature: float) -> None:
    fields = {"n": 3, "temperature": temperature, "seed": 1}
    texts = ["", "", ""]
    reasons = [""] * 3
    for each in client.chat(*TURNS, stream=True, **fields).events:
        (choice,) = each["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
        reasons[choice["index"]] = choice["finish_reason"]
    choices = client.chat(*TURNS, **fields).json["choices"]
    assert texts == [choice["message"]["content"] for choice in choices]
    assert reasons == [choice["finish_reason"] for choice in choices]


@pytest.mark.parametrize("search", [{"name": "greedy"}, {"name": "beam"}, {"name": "contrastive"}])
def test_stop_ends_a_response_of_any_search(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch, search: dict[str, Any]
) -> None:
    monkeypatch.setattr(run.recipe.generation, "search", search)
    full = client.chat(*TURNS).reply
    word = full.split()[-2]
    stop = [f"{word} {full.split()[-1]}", "never"]
    expected = full[: full.index(stop[0])]
    answer = client.chat(*TURNS, stop=stop)
    assert answer.reply == expected
    assert answer.json["choices"][0]["finish_reason"] == "stop"
    pieces = [
        each["choices"][0]["delta"].get("content", "")
        for each in client.chat(*TURNS, stop=stop, stream=True).events
    ]
    assert "".join(pieces) == expected
    assert client.chat(*TURNS, stop=full[0]).reply == ""
    assert client.chat(*TURNS, stop="never").reply == full


def test_a_growing_text_holds_back_what_may_begin_a_stop() -> None:
    stops = ["STOP", "\n\n"]
    assert without_stop("a ST", stops) == "a "
    assert without_stop("a STO and", stops) == "a STO and"
    assert without_stop("a\n", stops) == "a"
    assert without_stop("a STOP b", stops) == before_stop("a STOP b", stops) == "a "
    assert without_stop("ab", []) == "ab"


@pytest.mark.parametrize("search", [{"name": "greedy"}, {"name": "beam"}])
def test_logprobs_are_those_of_the_run(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch, search: dict[str, Any]
) -> None:
    monkeypatch.setattr(run.recipe.generation, "search", search)
    (best, *_) = run.respond(TURNS).candidates
    shown = client.chat(*TURNS, logprobs=True).json["choices"][0]["logprobs"]["content"]
    scores = [each["logprob"] for each in shown]
    assert scores == pytest.approx(best.token_scores[: len(scores)], abs=1e-4)
    assert len(scores) == best.tokens - 1  # without the end token
    text = b"".join(bytes(each["bytes"]) for each in shown).decode()
    assert text.strip() == best.text
    *_, end = client.chat(*TURNS, logprobs=True, stream=True).events
    assert end["choices"][0]["logprobs"]["content"] == shown
    assert client.chat(*TURNS).json["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_are_ignored_and_reported(client: Client, role: str) -> None:
    body = {"messages": [{"role": role, "content": "Be kind ."}, *messages(*TURNS)]}
    answer = client.post(CHAT, body)
    assert answer.reply == client.chat(*TURNS).reply
    (warning,) = answer.json["warnings"]
    assert warning.startswith("messages.0: ")
    assert client.post(CHAT, {**body, "stream": True}).events[0]["warnings"] == [warning]
    assert "warnings" not in client.chat(*TURNS).json


def test_unknown_model(client: Client) -> None:
    answer = client.chat(*TURNS, model="gpt")
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")
    assert client.get("/v1/models").json["data"][0]["id"] in answer.error


def test_parallel_chats_get_the_responses_of_sequential_ones(client: Client, run: Run) -> None:
    contexts = [(f"Anna has {number} apples .", "Fine .", "How many ?") for number in range(50)]
    with ThreadPoolExecutor(25) as pool:
        replies = list(pool.map(lambda turns: client.chat(*turns).reply, contexts))
        drawn = list(
            pool.map(lambda turns: client.chat(*turns, temperature=1.2, seed=4).reply, contexts)
        )
    assert replies == [run.respond(context).text for context in contexts]
    assert drawn == [client.chat(*context, temperature=1.2, seed=4).reply for context in contexts]
    assert len({*replies, *drawn}) > 1
