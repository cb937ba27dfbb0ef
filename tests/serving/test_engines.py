"""ONNX Runtime in place of the network: the same responses by the same routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client import Client, serving

from dialog.cli.serve import serve as serve_command
from dialog.errors import UserError
from dialog.export.engine import with_engine
from dialog.runs.load import load
from dialog.serving.app import Service

pytest.importorskip("onnxruntime")
TURNS = ["Hi .", "Hello . How are you ?", "Fine . And you ?"]
FIELDS: list[dict[str, object]] = [
    {},
    {"stream": True},
    {"temperature": 0.8, "seed": 3, "n": 3},
    {"search": "beam5", "n": 2},
    {"stop": ["a", "."]},
    {"max_tokens": 3, "stream": True, "repetition_penalty": 1.5},
]


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def pair(
    request: pytest.FixtureRequest, trained: Callable[[str], Path]
) -> Iterator[tuple[Client, Client]]:
    """Services of a run by the network, and by ONNX Runtime."""
    run = load(trained(request.param), device="cpu")
    with (
        serving(Service(run)) as network,
        serving(Service(with_engine(run, "onnx"))) as engine,
    ):
        yield network, engine


@pytest.mark.parametrize("fields", FIELDS)
def test_equal_responses(pair: tuple[Client, Client], fields: dict[str, object]) -> None:
    texts = []
    for client in pair:
        answer = client.chat(*TURNS, **fields)
        assert answer.status == 200, answer.text
        parts = answer.events if "stream" in fields else [answer.json]
        choices = [choice for part in parts for choice in part["choices"]]
        texts.append(
            [
                choice["message"]["content"]
                if "message" in choice
                else choice["delta"].get("content")
                for choice in choices
            ]
        )
    first, second = ["".join(text or "" for text in own) for own in texts]
    assert first == second


def test_many_clients_have_their_own_responses(pair: tuple[Client, Client]) -> None:
    network, engine = pair
    contexts = [["Hi ."], ["Where is Anna ?", "In the kitchen .", "And you ?"], TURNS] * 4
    with ThreadPoolExecutor(12) as pool:
        together = [
            answer.reply for answer in pool.map(lambda turns: engine.chat(*turns), contexts)
        ]
    assert together[:3] == [network.chat(*turns).reply for turns in contexts[:3]]
    assert together == together[:3] * 4


def test_what_an_engine_lacks(
    pair: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch, trained: Callable[[str], Path]
) -> None:
    _, engine = pair
    generation = engine.service.first.run.recipe.generation
    monkeypatch.setattr(generation, "search", {"name": "contrastive"})
    answer = engine.chat(*TURNS)
    assert answer.status == 400
    assert "contrastive" in answer.error
    with pytest.raises(UserError, match="ctranslate2"):
        serve_command.main([str(trained("lstm")), "--engine", "ctranslate2"], standalone_mode=False)
