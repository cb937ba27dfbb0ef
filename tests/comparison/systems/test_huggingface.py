"""Hugging Face models with random weights: greedy responses and likelihoods are those of the
network alone.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from dialog.comparison.systems.huggingface import Model, main
from dialog.errors import UserError

transformers = pytest.importorskip("transformers")
WORDS = ["how", "are", "you", "?", "i", "am", "fine", ".", "and", "hello", "there"]
CONTEXTS = [["hello there", "how are you ?"], ["hello"], ["i am fine .", "and you ?", "fine ."]]
REFERENCES = ["i am fine .", "hello zebra there", "how are you ?"]
KINDS = ["causal", "sequence to sequence"]


def save(folder: Path, kind: str) -> str:
    tokens = ["<pad>", "</s>", "<unk>", *WORDS]
    model = WordLevel({word: place for place, word in enumerate(tokens)}, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokens), "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": 1}
    network = (
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=40, **sizes)
        )
        if kind == "causal"
        else transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                d_model=16,
                d_kv=8,
                d_ff=32,
                num_layers=2,
                num_heads=2,
                decoder_start_token_id=0,
                **sizes,
            )
        )
    )
    with torch.no_grad():
        for tensor in network.parameters():
            tensor.mul_(6)  # away from uniform distributions
    network.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("models") / request.param.replace(" ", "-")
    return Model(save(folder, request.param), max_new_tokens=5)


def logits_after(model: Model, source: list[int], target: list[int]) -> torch.Tensor:
    """Logits [T, V] of the network alone, without padding; the last is after the whole target."""
    with torch.inference_mode():
        if model.is_causal:
            logits = model.network(torch.tensor([[*source, *target]])).logits[0]
            return logits[len(source) - 1 :]
        start = model.network.config.decoder_start_token_id
        return model.network(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target]])
        ).logits[0]


def test_likelihoods_are_those_of_each_reference_alone(model: Model) -> None:
    scores = model.score(CONTEXTS, REFERENCES)
    for context, reference, score in zip(CONTEXTS, REFERENCES, scores, strict=True):
        target = model.target(reference)
        logits = logits_after(model, model.source(context), target)[:-1]
        log_p = logits.double().log_softmax(-1)
        expected = -sum(float(log_p[place, token]) for place, token in enumerate(target))
        assert score["nll"] == pytest.approx(expected, rel=1e-4)
        assert target[-1] == model.end
        assert score["reference_tokens"] == len(target) == len(reference.split()) + 1
        correct = sum(int(row.argmax()) == token for row, token in zip(log_p, target, strict=True))
        assert score["reference_correct"] == correct
    assert [score["reference_unknown_bytes"] for score in scores] == [0, len("zebra"), 0]
    assert [score["reference_unknown"] for score in scores] == [0, 1, 0]


def test_responses_are_greedy(model: Model) -> None:
    responses = model.respond(CONTEXTS)
    for context, response in zip(CONTEXTS, responses, strict=True):
        tokens: list[int] = []
        while len(tokens) < model.max_new_tokens and model.end not in tokens:
            after = logits_after(model, model.source(context), tokens)[-1]
            tokens.append(int(after.argmax()))
        assert response == model.tokenizer.decode(tokens, skip_special_tokens=True).strip()
    assert any(responses)


def test_a_long_context_loses_its_beginning(model: Model) -> None:
    long = [["hello there"] * 50]
    assert model.score(long, REFERENCES[:1])[0]["nll"] > 0
    assert len(model.respond(long)) == 1
    if model.is_causal:
        assert len(model.source(long[0])) == 40 - model.max_new_tokens


def test_the_chat_template_is_used(model: Model) -> None:
    model.tokenizer.chat_template = (
        "{% for turn in messages %}{{ turn['content'] if turn['role'] == 'user' else '?' }} "
        "{% endfor %}{% if add_generation_prompt %}.{% endif %}"
    )
    try:
        tokens = model.source(["hello", "fine", "you"])
    finally:
        model.tokenizer.chat_template = None
    assert model.tokenizer.convert_ids_to_tokens(tokens) == ["hello", "?", "you", "."]


def test_lines_in_and_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "model", "causal")
    rows: list[dict[str, Any]] = [
        {"id": str(n), "context": context, "references": [reference]}
        for n, (context, reference) in enumerate(zip(CONTEXTS, REFERENCES, strict=True))
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    main([folder, "batch=2", "max_new_tokens=3", "beams=2"])
    first, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["system"]["parameters"] > 0
    assert [line["id"] for line in lines] == ["0", "1", "2"]
    assert {"response", "nll"} <= lines[0].keys()


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_model_that_cannot_be_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"hf:{name}: cannot be loaded"):
        Model(name)
    with pytest.raises(UserError, match=f"hf:./{name}/x: no such folder"):
        Model(f"./{name}/x")
