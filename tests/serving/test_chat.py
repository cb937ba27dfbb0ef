"""``POST /v1/chat/completions``: the responses are those of the run, in OpenAI's format."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client import Client, messages

from dialog.runs.run import Run

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


def test_stream_is_the_same_response_in_pieces(client: Client, run: Run) -> None:
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


def test_search_that_does_not_stream_is_one_piece(client: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    beam = {"name": "beam", "width": 3}
    monkeypatch.setattr(run.recipe.generation, "search", beam)
    _, piece, _ = client.chat(*TURNS, stream=True).events
    assert piece["choices"][0]["delta"]["content"] == run.respond(TURNS, beam).text


def test_content_may_be_a_list_of_texts(client: Client) -> None:
    parts = [{"type": "text", "text": "Where is "}, {"type": "text", "text": "Anna ?"}]
    answer = client.post("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
    assert answer.reply == client.chat("Where is Anna ?").reply


def test_seed_repeats_a_drawn_response(client: Client) -> None:
    drawn = [client.chat(*TURNS, temperature=1.5, seed=seed).reply for seed in (*range(8), *range(8))]
    assert drawn[:8] == drawn[8:]
    assert len(set(drawn)) > 1


def test_responses_without_a_seed_differ(client: Client) -> None:
    assert len({client.chat(*TURNS, temperature=1.5).reply for _ in range(8)}) > 1


def test_several_responses(client: Client, run: Run) -> None:
    choices = client.chat(*TURNS, n=3, temperature=1.2, seed=1).json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    expected = run.responder.respond([TURNS], {"name": "sampling", "temperature": 1.2, "candidates": 3}, ids=["1"])
    assert [choice["message"]["content"] for choice in choices] == [candidate.text for candidate in expected[0]]


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


def test_temperature_of_zero_is_greedy(client: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = client.chat(*TURNS).reply
    monkeypatch.setattr(run.recipe.generation, "search", {"name": "sampling", "temperature": 1.5})
    assert client.chat(*TURNS, temperature=0).reply == greedy


def test_limits_of_tokens_lower_the_run_s(client: Client, run: Run) -> None:
    full, longer, short = (client.chat(*TURNS, **fields) for fields in ({}, {"max_tokens": 10**6}, {"max_tokens": 2}))
    assert longer.reply == full.reply
    assert run.respond(TURNS).candidates[0].tokens > 2
    assert short.json["choices"][0]["finish_reason"] == "length"
    assert short.json["usage"]["completion_tokens"] == 2
    assert client.chat(*TURNS, max_completion_tokens=2).reply == short.reply


def test_frequency_penalty_is_the_constraint(client: Client, run: Run) -> None:
    penalised = run.responder.respond([TURNS], {"name": "greedy", "frequency_penalty": 2.0})[0][0].text
    assert client.chat(*TURNS, frequency_penalty=2.0).reply == penalised


def test_fields_that_change_nothing_are_ignored(client: Client) -> None:
    fields = {"user": "x", "metadata": {}, "logprobs": False, "tools": [], "stop": None, "presence_penalty": 0}
    assert client.chat(*TURNS, response_format={"type": "text"}, **fields).reply == client.chat(*TURNS).reply


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": []}, "messages: List should have at least 1 item"),
        ({"messages": messages("a") * 201}, "messages: List should have at most 200 items"),
        ({"messages": [{"role": "system", "content": "Be kind ."}]}, "messages.0.role: Input should be 'user' or"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages.0.content: give a text or a list of parts of type text",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content.0.type: Input should be 'text'",
        ),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "a"}] * 2}, "messages: user and assistant alternate"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "messages: user and assistant alternate"),
        ({"temperature": "warm"}, "temperature: Input should be a valid number"),
        ({"temperature": 2.5}, "temperature: Input should be less than or equal to 2"),
        ({"top_p": 0}, "top_p: Input should be greater than 0"),
        ({"n": 9, "temperature": 1}, "n: Input should be less than or equal to 8"),
        ({"n": 2}, "n: greedy search returns one response; set temperature above 0"),
        ({"n": 2, "temperature": 1, "stream": True}, "n: a streamed response is a single one"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"frequency_penalty": 3}, "frequency_penalty: Input should be less than or equal to 2"),
        ({"tools": [{"type": "function"}]}, "tools is not supported by this model"),
        ({"stop": "none"}, "stop is not supported by this model"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported by this model"),
        ({"logit_bias": {"1": 5}}, "logit_bias is not supported by this model"),
    ],
)
def test_invalid_fields_are_named(client: Client, fields: dict[str, object], message: str) -> None:
    answer = client.post("/v1/chat/completions", {"messages": messages(*TURNS), **fields})
    assert answer.status == 400
    assert answer.error.startswith(message)
    assert answer.json["error"]["type"] == "invalid_request_error"


def test_unknown_model(client: Client) -> None:
    answer = client.chat(*TURNS, model="gpt")
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")
    assert client.get("/v1/models").json["data"][0]["id"] in answer.error


def test_parallel_chats_get_the_responses_of_sequential_ones(client: Client, run: Run) -> None:
    contexts = [(f"Anna has {number} apples .", "Fine .", "How many ?") for number in range(50)]
    with ThreadPoolExecutor(25) as pool:
        replies = list(pool.map(lambda turns: client.chat(*turns).reply, contexts))
        drawn = list(pool.map(lambda turns: client.chat(*turns, temperature=1.2, seed=4).reply, contexts))
    assert replies == [run.respond(context).text for context in contexts]
    assert drawn == [client.chat(*context, temperature=1.2, seed=4).reply for context in contexts]
    assert len(set(replies)) > 1
