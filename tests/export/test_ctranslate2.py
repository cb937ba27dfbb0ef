"""Parity of CTranslate2 over all settings of Transformers, what it lacks, and the code of its
card.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn

from dialog.config.compose import shipped_folder
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS, SELF, Tokenizer
from dialog.errors import UserError
from dialog.export.card import program
from dialog.export.export import export
from dialog.export.format import Exported
from dialog.export.formats.ctranslate2 import CTranslate2
from dialog.export.parity import TOLERANCE, Parity, log_probabilities, measure_parity
from dialog.models.contracts import Only
from dialog.runs.run import Run

CONTEXT = ["Hi !", "Hello . How are you ?"]
"""The context in the code of the card."""
SIZES = {"size": 24, "feed_forward_size": 32, "layers": 2}
CHOICES = {path.stem: path for path in sorted((shipped_folder("configs") / "model").glob("*.yaml"))}
SEARCHES = {
    path.stem: path for path in sorted((shipped_folder("configs") / "generation").glob("*.yaml"))
}
LACKING = {
    choice: "model.encoder"
    for choice, path in CHOICES.items()
    if yaml.safe_load(path.read_text(encoding="utf-8"))["encoder"]["name"] != "transformer"
} | {"transformer_to_lstm": "model.decoder"}
"""Key that the message names, by the choice of the network."""
TRANSFORMER = {"name": "transformer", "heads": 4, "feed_forward_size": 32, "layers": 2}


def small(value: object) -> object:
    """Make the sizes of a network's section tiny."""
    if not isinstance(value, dict):
        return value
    return {key: SIZES[key] if key in SIZES else small(part) for key, part in value.items()}


def network_of(choice: str) -> dict[str, Any]:
    section = yaml.safe_load(CHOICES[choice].read_text(encoding="utf-8"))
    keys = ("encoder", "decoder", "head", "tie_embeddings", "scale_embeddings")
    return {key: small(section[key]) for key in keys if key in section}


def both(**settings: object) -> dict[str, Any]:
    return {"encoder": TRANSFORMER | settings, "decoder": TRANSFORMER | settings}


def positions(name: str, **arguments: object) -> dict[str, Any]:
    return both(positions={"name": name, **arguments})


VARIATIONS: dict[str, dict[str, Any]] = {
    "norms last": both(norm_first=False),
    "norms last, RMSNorm": both(norm_first=False, norm="rms_norm"),
    "gelu, tied source": both(activation="gelu") | {"tie_embeddings": "source"},
    "swiglu, norms last": both(activation="swiglu", norm_first=False),
    "learned positions": positions("learned", length=48),
    "rotary, one head of keys and values": both(key_value_heads=1, positions={"name": "rotary"}),
    "two heads of keys and values": both(key_value_heads=2),
    "tied output, biases": both()
    | {"tie_embeddings": "output", "head": {"name": "vocabulary", "bias": True}},
    "three tables, not scaled": both() | {"tie_embeddings": "none", "scale_embeddings": False},
    "different sides": {
        "encoder": {
            "name": "transformer",
            "heads": 2,
            "feed_forward_size": 20,
            "layers": 1,
            "norm": "rms_norm",
        },
        "decoder": TRANSFORMER
        | {"layers": 3, "norm_first": False, "activation": "gelu", "positions": {"name": "rotary"}},
    },
    "sides swapped": {
        "encoder": TRANSFORMER
        | {"activation": "swiglu", "key_value_heads": 2, "positions": {"name": "rotary"}},
        "decoder": {
            "name": "transformer",
            "heads": 2,
            "feed_forward_size": 20,
            "layers": 1,
            "norm": "rms_norm",
        },
    },
}


def exported(run: Run, folder: Path) -> Exported:
    form = CTranslate2()
    form.check(run.model)
    form.write(run, folder)
    return form.load(folder)


def parity_of(run: Run, folder: Path) -> Parity:
    return measure_parity(run.model, exported(run, folder), max_source=48)


@pytest.fixture(scope="module")
def trained_transformer(trained_run: Callable[[str], Run]) -> Run:
    return trained_run("transformer")


@pytest.fixture(scope="module")
def folder(trained_transformer: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("ctranslate2") / "exported"
    parity = export(trained_transformer, "ctranslate2", output)
    assert parity.longest_source == 48
    return output


@pytest.fixture(scope="module")
def babbling(
    random_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, Path]:
    """A run whose responses repeat tokens and do not end, and its exported folder."""
    run, output = random_run(**both()), tmp_path_factory.mktemp("babbling")
    exported(run, output)
    run.tokenizer.save(output / "tokenizer.json")
    return run, output


# ------------------------------------------------------------------ networks


@pytest.mark.parametrize("variation", VARIATIONS)
def test_the_engine_computes_every_setting(
    variation: str, random_run: Callable[..., Run], tmp_path: Path
) -> None:
    parity = parity_of(random_run(**VARIATIONS[variation]), tmp_path)
    assert parity.holds, str(parity)


@pytest.mark.parametrize("choice", sorted({*CHOICES} - {*LACKING}))
def test_the_engine_computes_shipped_transformers(
    choice: str, random_run: Callable[..., Run], tmp_path: Path
) -> None:
    parity = parity_of(random_run(**network_of(choice)), tmp_path)
    assert parity.holds, str(parity)


# the heads of retnet do not fit the small width of the runs here
@pytest.mark.parametrize("choice", sorted(each for each in LACKING if "retnet" not in each))
def test_other_shipped_networks_are_refused(choice: str, random_run: Callable[..., Run]) -> None:
    run = random_run(**network_of(choice))
    with pytest.raises(
        UserError,
        match=rf"^{LACKING[choice]}: CTranslate2 supports only .*; use --format huggingface",
    ):
        CTranslate2().check(run.model)


@pytest.mark.parametrize(
    ("key", "network"),
    [
        ("model.head", both() | {"head": {"name": "pointer_generator"}}),
        ("model.encoder.positions", positions("dialog.models.positions.RotaryPositions")),
        (
            "model.decoder",
            both()
            | {"decoder": {**TRANSFORMER, "name": "dialog.models.transformer.TransformerDecoder"}},
        ),
    ],
)
def test_custom_parts_are_refused(
    key: str, network: dict[str, Any], random_run: Callable[..., Run]
) -> None:
    run = random_run(**network)
    with pytest.raises(
        UserError, match=rf"^{key}: CTranslate2 supports only .*; use --format huggingface"
    ):
        CTranslate2().check(run.model)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms_of_small_states_agree(
    norm: str, random_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = random_run(**both(norm=norm, positions={"name": "rotary"}))
    with torch.no_grad():
        # its squares are below the epsilon of the norms
        run.model.source_embedding.table.weight *= 1e-3
    parity = parity_of(run, tmp_path)
    assert parity.holds, str(parity)


def test_a_response_can_end_at_once(random_run: Callable[..., Run], tmp_path: Path) -> None:
    run = random_run(**both(), head={"name": "vocabulary", "bias": True})
    assert isinstance(run.model.head.bias, Tensor)
    with torch.no_grad():
        run.model.head.bias[EOS] = 50.0
    assert exported(run, tmp_path).greedy([[SELF, 20, EOS], [SELF, EOS]], 5) == [[EOS], [EOS]]


@pytest.mark.parametrize("name", ["sinusoidal", "rotary"])
def test_the_longest_source_of_a_recipe_is_read(
    name: str, random_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = random_run(**positions(name))
    data = replace(run.recipe.data, max_source=1100)
    network = exported(replace(run, recipe=replace(run.recipe, data=data)), tmp_path)
    source, target = [SELF, *(6 + number % 200 for number in range(1098)), EOS], [7, 8, EOS]
    [computed] = network.log_probabilities([source], [target])
    with torch.inference_mode():
        assert computed == pytest.approx(
            log_probabilities(run.model, source, target), abs=TOLERANCE
        )


def test_attention_is_the_mean_of_the_last_layer(
    random_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = random_run(**both())
    exported(run, tmp_path)
    from ctranslate2 import Translator

    tokens = json.loads((tmp_path / "shared_vocabulary.json").read_text(encoding="utf-8"))
    source = [SELF, 20, 30, 40, EOS]
    [result] = Translator(str(tmp_path), intra_threads=1).translate_batch(
        [[tokens[token] for token in source]],
        beam_size=1,
        max_decoding_length=5,
        return_attention=True,
    )
    response = [tokens.index(token) for token in result.hypotheses[0]]
    assert response
    maps: list[Tensor] = []

    def keep(module: nn.Module, weights: Tensor) -> None:
        maps.append(weights.mean(1)[0])

    pointer = run.model.decoder.pointer
    assert pointer is not None
    sources, targets = torch.tensor([source]), torch.tensor([[BOS, *response[:-1]]])
    with torch.inference_mode():
        run.model(sources, torch.ones_like(sources, dtype=torch.bool), targets, Only(pointer, keep))
    torch.testing.assert_close(torch.tensor(result.attention[0]), maps[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("vocabulary", [{"a": 6, "b": 8}, {"a": 7}])
def test_an_id_without_a_token_is_refused(
    vocabulary: dict[str, int], random_run: Callable[..., Run]
) -> None:
    run = random_run(**both())
    special = {
        token: number
        for number, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", "<other>", "<self>"])
    }
    model = {"type": "WordLevel", "vocab": special | vocabulary, "unk_token": "<unk>"}
    changed = replace(
        run, tokenizer=Tokenizer(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    )
    with pytest.raises(UserError, match=r"^data\.tokenizer: .*; use --format onnx"):
        CTranslate2().write(changed, Path("unused"))


# ------------------------------------------------------------------ the code of the card


def generating(run: Run, **generation: object) -> Run:
    return replace(run, recipe=replace(run.recipe, generation=GenerationConfig(**generation)))


def response_of_run(run: Run, context: Sequence[str] = CONTEXT) -> list[int]:
    return [token for token in run.respond(context).candidates[0].ids if token != EOS]


def response_of_card(
    run: Run, folder: Path, patch: pytest.MonkeyPatch, context: Sequence[str] = CONTEXT
) -> list[int]:
    """Run the code of the card in a folder, and return the tokens of the response."""
    patch.chdir(folder)
    names: dict[str, Any] = {}
    code = program(run, CTranslate2())  # the code that a user copies
    assert '["Hi !", "Hello . How are you ?"]' in code
    exec(code.replace('["Hi !", "Hello . How are you ?"]', repr([*context])), names)
    response: list[int] = names["response"]
    return response


CONSTRAINED: list[dict[str, Any]] = [
    {"search": {"name": "greedy", "max_length": 3}},
    {"search": {"name": "greedy"}, "min_length": 9, "max_length": 12},
    {"search": {"name": "greedy"}, "min_length": 9, "no_repeat_ngram": 1},
    {"search": {"name": "greedy"}, "min_length": 9, "repetition_penalty": 4.0},
    {"search": {"name": "greedy"}, "prefix": "I `'"},
]
OTHERS: list[dict[str, Any]] = [
    {"search": {"name": "greedy"}},
    {"search": {"name": "sampling", "top_k": 1}},
    {"search": {"name": "sampling", "top_p": 1e-6}},
    {"search": {"name": "sampling", "temperature": 1e-4}},
    {"search": {"name": "beam", "width": 4}},
    {"search": {"name": "beam", "width": 3, "length_penalty": 2.0}},
    {"search": {"name": "beam", "width": 3, "length_penalty": 0.0, "normalisation": "gnmt"}},
]


@pytest.mark.parametrize("generation", [*CONSTRAINED, *OTHERS], ids=str)
def test_the_code_of_the_card_responds_as_the_run(
    generation: dict[str, Any],
    trained_transformer: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = generating(trained_transformer, **generation)
    expected = response_of_run(run)
    assert expected
    assert response_of_card(run, folder, monkeypatch) == expected


@pytest.mark.parametrize("generation", [CONSTRAINED[1], *OTHERS[::4]], ids=str)
def test_an_empty_context_is_answered_as_by_the_run(
    generation: dict[str, Any],
    trained_transformer: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = generating(trained_transformer, **generation)
    expected = response_of_run(run, [])
    assert expected
    assert response_of_card(run, folder, monkeypatch, []) == expected


@pytest.mark.parametrize("generation", CONSTRAINED, ids=str)
def test_constraints_change_what_an_endless_run_repeats(
    generation: dict[str, Any], babbling: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = generating(babbling[0], **generation)
    expected = response_of_run(run)
    assert expected != response_of_run(generating(run))
    assert response_of_card(run, babbling[1], monkeypatch) == expected


def test_sampling_draws(babbling: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run = generating(babbling[0], search={"name": "sampling"})
    assert response_of_card(run, babbling[1], monkeypatch) != response_of_card(
        run, babbling[1], monkeypatch
    )
    assert "sampling_topk=3," in CTranslate2().usage(
        generating(run, search={"name": "sampling", "top_k": 3})
    )


def test_the_code_prints_the_text(
    trained_transformer: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = generating(trained_transformer)
    response_of_card(run, folder, monkeypatch)
    assert capsys.readouterr() == (run.respond(CONTEXT, {"name": "greedy"}).text + "\n", "")


def test_no_special_token_is_generated(
    random_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = random_run(**both(), head={"name": "vocabulary", "bias": True})
    assert isinstance(run.model.head.bias, Tensor)
    with torch.no_grad():
        run.model.head.bias[: SELF + 1] = 50.0
    export(run, "ctranslate2", tmp_path / "exported")
    run = generating(run, min_length=5, max_length=8)
    expected = response_of_run(run)
    assert len(expected) == 5
    assert response_of_card(run, tmp_path / "exported", monkeypatch) == expected


@pytest.mark.parametrize("choice", sorted(SEARCHES))
def test_lacking_searches_are_named(choice: str, trained_transformer: Run) -> None:
    generation = yaml.safe_load(SEARCHES[choice].read_text(encoding="utf-8"))
    code = CTranslate2().usage(generating(trained_transformer, **generation))
    ast.parse(code)
    has_it = choice in {"greedy", "beam5", "dialogue", "sampling", "top_k", "top_p"}
    assert ("# greedy search: CTranslate2 lacks the recipe's" in code) is not has_it
    if not has_it:
        assert "beam_size=1," in code


@pytest.mark.parametrize(
    "generation",
    [
        {"banned": ["a"]},
        {"required": ["a"]},
        {"block_context_ngram": 3},
        {"frequency_penalty": 0.5},
    ],
    ids=str,
)
def test_lacking_constraints_are_named(
    generation: dict[str, Any], trained_transformer: Run
) -> None:
    code = CTranslate2().usage(generating(trained_transformer, **generation))
    assert f"# not in CTranslate2: generation.{next(iter(generation))}\n" in code


@pytest.mark.parametrize(
    "arguments", [{"candidates": 2}, {"min_p": 0.1}, {"typical_p": 0.5}, {"top_k": 5, "top_p": 0.5}]
)
def test_lacking_arguments_of_sampling_are_named(
    arguments: dict[str, Any], trained_transformer: Run
) -> None:
    code = CTranslate2().usage(
        generating(trained_transformer, search={"name": "sampling", **arguments})
    )
    assert "# greedy search: CTranslate2 lacks the recipe's 'sampling' with its arguments\n" in code
