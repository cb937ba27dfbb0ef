"""Our class for transformers, and what every folder for transformers has in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel
from transformers import GenerationConfig as TransformersGenerationConfig

from dialog.analysis.attention.maps import attention_maps
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK
from dialog.errors import UserError
from dialog.export import parity
from dialog.export.card import program
from dialog.export.export import export
from dialog.export.format import padded, until_end
from dialog.export.formats.huggingface import NETWORK, HuggingFaceFormat, write_own
from dialog.export.formats.huggingface.engine import without_progress_bars
from dialog.export.formats.huggingface.generation import TOKENS, generation_settings
from dialog.export.formats.huggingface.network import DialogConfig, DialogForConditionalGeneration
from dialog.generation.build import build_search
from dialog.runs.run import Run

Runs = Callable[..., Run]
LSTM = {"name": "lstm", "size": 24}
ADDITIVE = {"name": "additive", "size": 16}
TRANSFORMER = {"name": "transformer", "layers": 2, "heads": 2, "feed_forward_size": 48}
MODERN = {
    **TRANSFORMER,
    "heads": 4,
    "key_value_heads": 2,
    "norm": "rms_norm",
    "activation": "swiglu",
}
ROTARY = {**MODERN, "positions": {"name": "rotary"}}
UNIFORM = {**LSTM, "layers": 2, "initialisation": "uniform"}
UNTIED = {"tie_embeddings": "none", "head": {"name": "vocabulary", "bias": True, "deviation": 1.0}}
SANKAR = {"encoder": {**UNIFORM, "bidirectional": False}, **UNTIED, "scale_embeddings": False}
SANKAR_DECODER = {
    **{
        **UNIFORM,
        "name": "lstm_luong",
        "attention": {"name": "bilinear"},
        "bridge": {"name": "final"},
    },
    **{"input_feeding": False, "attentional_dropout": False},
}
POINTING = {"name": "lstm_luong", "size": 24, "attention": ADDITIVE}
INTERACTIVE = {"name": "interactive", "scorer": ADDITIVE}
NETWORKS: dict[str, dict[str, Any]] = {
    "gru_bahdanau": {
        "encoder": {"name": "gru", "size": 20},
        "decoder": {**LSTM, "name": "gru", "attention": ADDITIVE},
    },
    "hred": {"encoder": {"name": "hierarchical", "tokens": LSTM, "turns": LSTM}},
    "lstm_luong": {
        "decoder": {"name": "lstm_luong", "size": 20, "attention": {"name": "bilinear"}}
    },
    "lstm_multihead": {
        "decoder": {
            **LSTM,
            "attention": {"name": "multi_head", "heads": 2, "join": "concatenation"},
        }
    },
    "lstm_no_attention": {"decoder": {**LSTM, "attention": {"name": "none"}}},
    "lstm_pointer": {"decoder": POINTING, "head": {"name": "pointer_generator"}},
    "lstm_interactive": {"decoder": {**LSTM, "attention": INTERACTIVE}},
    "lstm_to_transformer": {"encoder": {**LSTM, "size": 30}, "decoder": TRANSFORMER},
    "transformer_to_lstm": {"encoder": TRANSFORMER, "decoder": {**LSTM, "attention": ADDITIVE}},
    "transformer_modern": {"encoder": ROTARY, "decoder": ROTARY, "tie_embeddings": "output"},
    "sankar2019_lstm": {**SANKAR, "decoder": {**UNIFORM, "name": "lstm_plain"}},
    "sankar2019_lstm_attention": {**SANKAR, "decoder": SANKAR_DECODER, "tie_embeddings": "source"},
}
CONTEXTS = (
    ["hi"],
    ["hello there", "what is the first word ?"],
    ["one two", "three", "please count the words now"],
)
BEAM = {"name": "beam", "width": 4, "candidates": 3}
SAMPLINGS: tuple[dict[str, float], ...] = (
    *({}, {"temperature": 0.7, "top_k": 5}, {"top_p": 0.6}, {"top_p": 0.9, "min_p": 0.3}),
    *({"top_k": 9, "min_p": 0.2}, {"typical_p": 0.5, "temperature": 1.3}),
)
SOURCE, TARGET = torch.tensor([[OTHER, 9, 10, SELF, 12, EOS]]), torch.tensor([[BOS, 7, 8, 11]])


def opened(folder: Path) -> PreTrainedModel:
    with without_progress_bars():
        return AutoModelForSeq2SeqLM.from_pretrained(str(folder))


def with_generation(run: Run, **section: object) -> Run:
    return replace(run, recipe=replace(run.recipe, generation=GenerationConfig(**section)))


def written(run: Run, folder: Path) -> PreTrainedModel:
    folder.mkdir(exist_ok=True)
    HuggingFaceFormat().write(run, folder)
    return opened(folder)


def source_ids(run: Run) -> list[list[int]]:
    return [run.responder.encode(run.responder.example(context))[0] for context in CONTEXTS]


@pytest.fixture(scope="module")
def folder(trained_run: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "lstm"
    export(trained_run("lstm"), "huggingface", path)
    return path


@pytest.fixture(scope="module")
def lstm(folder: Path) -> DialogForConditionalGeneration:
    return opened(folder)


# ------------------------------------------------------------------ the network


@pytest.mark.parametrize("name", NETWORKS)
def test_computes_what_the_network_does(
    random_run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(parity, "GREEDY_LENGTH", 12)
    run = random_run(**NETWORKS[name])
    HuggingFaceFormat().check(run.model)
    HuggingFaceFormat().write(run, tmp_path)
    result = parity.measure_parity(run.model, HuggingFaceFormat().load(tmp_path), max_source=40)
    assert result.holds, str(result)
    assert (result.longest_source, result.greedy_ties) == (40, 0)


@pytest.mark.parametrize("tie", ["all", "output", "source", "none"])
def test_tied_weights_stay_tied(random_run: Runs, tmp_path: Path, tie: str) -> None:
    run = random_run(tie_embeddings=tie)
    own = written(run, tmp_path).network
    tensors = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(
        map(torch.numel, run.model.parameters())
    )
    tables = own.source_embedding.table.weight, own.target_embedding.table.weight, own.head.weight
    ties = tables[0] is tables[1], tables[1] is tables[2]
    assert (
        ties
        == {
            "all": (True, True),
            "output": (False, True),
            "source": (True, False),
            "none": (False, False),
        }[tie]
    )


def test_round_trip_after_a_training_step(
    lstm: DialogForConditionalGeneration, folder: Path, tmp_path: Path
) -> None:
    model = opened(folder).train()
    source, mask = padded([[SELF, 9, 10, EOS], [OTHER, 11, EOS]])
    labels = torch.tensor([[7, 8, EOS], [12, EOS, -100]])
    output = model(input_ids=source, attention_mask=mask, labels=labels)
    output.loss.backward()
    assert all(
        weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters()
    )
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    with without_progress_bars():
        model.eval().save_pretrained(str(tmp_path))
    again = opened(tmp_path)(input_ids=source, attention_mask=mask, labels=labels)
    assert torch.equal(
        again.logits, model(input_ids=source, attention_mask=mask, labels=labels).logits
    )
    before = lstm(input_ids=source, attention_mask=mask, labels=labels)
    assert not torch.allclose(again.logits, before.logits, atol=1e-3)


def test_loss_is_the_mean_of_real_labels(lstm: DialogForConditionalGeneration) -> None:
    sources, targets = [[SELF, 9, 10, EOS], [OTHER, 11, EOS]], [[7, 8, 13, EOS], [12, EOS]]
    source, mask = padded(sources)
    labels = padded(targets)[0]
    loss = lstm(
        input_ids=source, attention_mask=mask, labels=labels.masked_fill(labels == PAD, -100)
    ).loss
    values = [
        parity.log_probabilities(lstm.network, *pair) for pair in zip(sources, targets, strict=True)
    ]
    assert float(loss.detach()) == pytest.approx(-sum(map(sum, values)) / 6, abs=1e-5)


@pytest.mark.parametrize("name", ["hred", "transformer_modern"])
def test_dropout_is_that_of_the_network(random_run: Runs, name: str) -> None:
    network = random_run(**NETWORKS[name], dropout=0.4).model.train()
    model = DialogForConditionalGeneration(DialogConfig(network=network.arguments)).train()
    model.network.load_state_dict(network.state_dict())
    torch.manual_seed(1)
    logits = model(input_ids=SOURCE, decoder_input_ids=TARGET).logits
    torch.manual_seed(1)
    torch.testing.assert_close(logits, network(SOURCE, SOURCE != PAD, TARGET))


def test_targets_can_be_continued(lstm: DialogForConditionalGeneration) -> None:
    whole = lstm(input_ids=SOURCE, decoder_input_ids=TARGET, use_cache=True)
    encoded = lstm.get_encoder()(SOURCE)
    first = lstm(encoder_outputs=encoded, decoder_input_ids=TARGET[:, :1], use_cache=True)
    assert lstm(encoder_outputs=encoded, decoder_input_ids=TARGET).past_key_values is None
    rest = lstm(
        decoder_input_ids=TARGET[:, 1:], past_key_values=first.past_key_values, use_cache=True
    )
    torch.testing.assert_close(torch.cat([first.logits, rest.logits], 1), whole.logits)
    assert [output.past_key_values.get_seq_length() for output in (first, rest, whole)] == [1, 4, 4]
    again = lstm(
        decoder_input_ids=TARGET[:, 1:], past_key_values=first.past_key_values, return_dict=False
    )
    assert torch.equal(again[0], rest.logits)
    torch.testing.assert_close(whole.encoder_last_hidden_state, encoded.last_hidden_state)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("transformer_modern", (2, 2, 2)), ("hred", (0, 0, 1)), ("lstm_pointer", (0, 0, 1))],
)
def test_attention_is_that_of_the_hook(
    random_run: Runs, tmp_path: Path, name: str, counts: tuple[int, int, int]
) -> None:
    run = random_run(**NETWORKS[name])
    model = written(run, tmp_path)
    maps = attention_maps(run.model, SOURCE, SOURCE != PAD, TARGET)
    wanted: dict[str, list[Tensor]] = {
        "encoder_attentions": [],
        "decoder_attentions": [],
        "cross_attentions": [],
    }
    for one in maps:
        if not one.name.endswith(".turns"):
            kind = (
                "cross"
                if one.kind == "cross"
                else {"source": "encoder", "target": "decoder"}[one.side]
            )
            wanted[f"{kind}_attentions"].append(one.weights)
    output = model(input_ids=SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    assert tuple(map(len, wanted.values())) == counts
    for key, weights in wanted.items():
        torch.testing.assert_close(list(output[key]), weights)
    shown = {"return_dict_in_generate": True, "output_attentions": True}
    steps = model.generate(input_ids=SOURCE, decoder_input_ids=TARGET, max_new_tokens=1, **shown)
    torch.testing.assert_close(list(steps.cross_attentions[0]), wanted["cross_attentions"])
    assert "cross_attentions" not in model(input_ids=SOURCE, decoder_input_ids=TARGET)


# ------------------------------------------------------------------ generate


@pytest.mark.parametrize(
    "settings", [{"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2}]
)
@pytest.mark.parametrize("name", ["hred", "sankar2019_lstm", "transformer_modern", "lstm_pointer"])
def test_generate_in_batches_and_without_cache(
    random_run: Runs, tmp_path: Path, name: str, settings: dict[str, int]
) -> None:
    run = random_run(**NETWORKS[name])
    model, sources = (
        written(run, tmp_path),
        [[SELF, 9, 10, OTHER, 17, EOS], [OTHER, 11, EOS], [SELF, 20, 21, 22, EOS]],
    )
    source, mask = padded(sources)
    settings = {**settings, "max_new_tokens": 9}
    rows = model.generate(input_ids=source, attention_mask=mask, **settings).tolist()
    assert len(rows) == len(sources) * settings.get("num_return_sequences", 1)
    assert len(set(map(tuple, rows))) > 1
    assert (
        rows
        == model.generate(
            input_ids=source, attention_mask=mask, use_cache=False, **settings
        ).tolist()
    )
    # the mask of the padding tokens
    assert rows == model.generate(input_ids=source, **settings).tolist()
    alone = [
        row
        for one in sources
        for row in model.generate(input_ids=torch.tensor([one]), **settings).tolist()
    ]
    assert [until_end(row) for row in rows] == [until_end(row) for row in alone]


@pytest.mark.parametrize("limits", [{}, {"no_repeat_ngram": 2}, {"repetition_penalty": 1.4}])
def test_greedy_responses_are_those_of_the_run(
    random_run: Runs, tmp_path: Path, limits: dict[str, Any]
) -> None:
    run = with_generation(random_run(seed=4), max_length=9, **limits)
    model, sources = written(run, tmp_path), source_ids(run)
    rows = [model.generate(torch.tensor([source]))[0, 1:].tolist() for source in sources]
    assert rows == [
        list(reply.candidates[0].ids) for reply in run.respond_batch(CONTEXTS, {"name": "greedy"})
    ]
    # without limits special tokens are generated
    special = HuggingFaceFormat().load(tmp_path).greedy(sources, 9)
    assert rows != special


@pytest.mark.parametrize(("alpha", "shortest"), [(0.0, 4), (1.0, 4), (0.6, 12)])
def test_beam_search_is_that_of_the_run(
    trained_run: Runs, tmp_path: Path, alpha: float, shortest: int
) -> None:
    search = {**BEAM, "length_penalty": alpha}
    run = with_generation(
        trained_run("lstm"), search=search, max_length=30, min_length=shortest, no_repeat_ngram=3
    )
    model, (source, mask) = written(run, tmp_path), padded(source_ids(run))
    rows = [until_end(row) for row in model.generate(source, attention_mask=mask)[:, 1:].tolist()]
    wanted = [
        list(candidate.ids)
        for reply in run.respond_batch(CONTEXTS)
        for candidate in reply.candidates
    ]
    assert all(row[-1] == EOS for row in wanted)
    assert min(map(len, wanted)) <= shortest + 4
    assert len(set(map(tuple, wanted))) >= 4
    assert rows == wanted


@pytest.mark.parametrize("search", SAMPLINGS)
def test_sampling_draws_from_the_same_tokens(
    random_run: Runs, tmp_path: Path, search: dict[str, float]
) -> None:
    limits = {"repetition_penalty": 1.3, "no_repeat_ngram": 2, "min_length": 0}
    run = with_generation(random_run(), search={"name": "sampling", **search}, **limits)
    assert not generation_settings(run.recipe.generation).lacking
    model, source, history = (
        written(run, tmp_path),
        torch.tensor([[SELF, 9, 10, EOS]]),
        torch.tensor([[7, 9, 7]]),
    )
    target = torch.cat([torch.tensor([[BOS]]), history], 1)
    output = model.generate(
        source,
        decoder_input_ids=target,
        max_new_tokens=1,
        return_dict_in_generate=True,
        output_scores=True,
    )
    sampling: Any = build_search(run.recipe.generation.search, run.recipe.generation)
    logits = run.model(source, source != PAD, target)[:, -1]
    start = sampling.constraints.start(1, "cpu")
    kept = sampling.truncate(sampling.constraints(logits, history, source, start)[1])
    torch.testing.assert_close(
        output.scores[0].softmax(-1), (kept / kept.sum()).detach(), rtol=1e-4, atol=1e-6
    )
    assert int((kept == 0).sum()) >= 6  # the special tokens and the repeated one at least


def test_settings_name_what_they_lack() -> None:
    def lacking(**section: object) -> list[str]:
        return generation_settings(GenerationConfig(**section)).lacking

    assert (
        lacking()
        == lacking(search={"name": "greedy", "min_length": 3}, repetition_penalty=1.2)
        == []
    )
    assert lacking(search=BEAM, repetition_penalty=1.2) == ["generation.repetition_penalty"]
    constraints: dict[str, Any] = {"banned": ["no"], "required": ["yes"], "prefix": "so"}
    constraints |= {"frequency_penalty": 0.5, "block_context_ngram": 3}
    assert {*lacking(**constraints)} == {f"generation.{key}" for key in constraints}
    assert lacking(search={**BEAM, "normalisation": "gnmt", "length_penalty": 0.0}) == []
    samplings = ({"candidates": 16}, {"top_k": 5, "top_p": 0.9}, {"min_p": 0.1, "typical_p": 0.9})
    others = ({**BEAM, "normalisation": "gnmt"}, {"name": "contrastive"})
    for search in (*({"name": "sampling", **one} for one in samplings), *others):
        assert [text.startswith("generation.search") for text in lacking(search=search)] == [True]


def test_settings_of_the_search_itself() -> None:
    values = generation_settings(
        GenerationConfig(search={**BEAM, "max_length": 7, "length_penalty": 0.5})
    ).values
    assert values == {
        **TOKENS,
        **{"do_sample": False, "num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.5},
        **{"early_stopping": True, "max_new_tokens": 7, "min_new_tokens": 1},
        "suppress_tokens": [PAD, BOS, UNK, OTHER, SELF],
    }
    values = generation_settings(
        GenerationConfig(search={"name": "beam", "width": 1}, min_length=0)
    ).values
    assert (values["num_beams"], "min_new_tokens" in values, "early_stopping" in values) == (
        1,
        False,
        False,
    )
    # not their 50
    assert generation_settings(GenerationConfig(search={"name": "sampling"})).values["top_k"] == 0


# ------------------------------------------------------------------ the folder


def test_folder_and_card(
    trained_run: Runs,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors", "parity.json"),
        *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    }
    assert "auto_map" not in json.loads((folder / "config.json").read_text())
    run = trained_run("lstm")
    assert run.recipe.generation.search == {"name": "greedy"}
    code = program(run, HuggingFaceFormat())
    assert code in (folder / "README.md").read_text()
    assert f"\nimport {NETWORK}" in code
    monkeypatch.chdir(folder)
    names, empty = dict[str, Any](), dict[str, Any]()
    with without_progress_bars():
        exec(code.replace('["Hi !", "Hello . How are you ?"]', "[]"), empty)
        exec(code, names)
    HuggingFaceFormat().load(folder)
    HuggingFaceFormat().write(run, tmp_path)
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert len(set(modes.values())) == 1, modes
    replies = [run.respond(values["context"], {"name": "greedy"}) for values in (empty, names)]
    assert [values["response"] for values in (empty, names)] == [
        list(reply.candidates[0].ids) for reply in replies
    ]
    text = "".join(f"{reply.text}\n" for reply in replies)
    assert tuple(capfd.readouterr()) == (text, "")  # reading and writing print nothing


def test_card_names_what_differs(random_run: Runs) -> None:
    run = with_generation(random_run(), search={"name": "diverse_beam"}, banned=["no"])
    comments = [
        line for line in HuggingFaceFormat().usage(run).splitlines() if line.startswith("#")
    ]
    other = ("generation.search diverse_beam, here greedy search", "generation.banned")
    assert comments == [f"# unlike the run: {text}" for text in other]


def test_tokenizer_of_the_folder(trained_run: Runs, folder: Path) -> None:
    tokenizer, own = AutoTokenizer.from_pretrained(str(folder)), trained_run("lstm").tokenizer
    for text in ("what is the first word ?", "</s> <other> \u00e6 \U0001f600", ""):
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == own.encode(text)
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (
        PAD,
        BOS,
        EOS,
    )
    assert tokenizer.padding_side == "right"


def test_generation_config_does_not_change_parity(
    random_run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = random_run()
    write_own(run.model, tmp_path, {})
    wrong = {
        **TOKENS,
        "num_beams": 3,
        "do_sample": True,
        "max_new_tokens": 2,
        "suppress_tokens": list(range(100)),
    }
    TransformersGenerationConfig(**wrong).save_pretrained(str(tmp_path))
    monkeypatch.setattr(parity, "GREEDY_LENGTH", 8)
    assert parity.measure_parity(run.model, HuggingFaceFormat().load(tmp_path), max_source=12).holds


# ------------------------------------------------------------------ errors


def test_no_code_that_a_folder_names_is_run(random_run: Runs, tmp_path: Path) -> None:
    write_own(random_run().model, tmp_path, {})
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for part in ("encoder", "decoder"):
        hostile = json.loads(json.dumps(config))
        hostile["network"][part] = {
            "name": "tests_of_export.hostile.Part",
            "inner": [{"name": "x"}],
        }
        path.write_text(json.dumps(hostile))
        with pytest.raises(UserError, match=r"network imports 'tests_of_export\.hostile\.Part'"):
            opened(tmp_path)
    config["network"]["decoder"]["surprise"] = 1
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match="surprise"):
        opened(tmp_path)


def test_missing_weights_are_an_error(random_run: Runs, tmp_path: Path) -> None:
    write_own(random_run().model, tmp_path, {})
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["network.decoder.readout.bias"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"model\.safetensors: weights of a Linear are missing"):
        opened(tmp_path)


def test_the_trainer_of_transformers_can_leave_out_the_cache() -> None:
    # a list: the Trainer adds another to it
    assert DialogConfig.keys_to_ignore_at_inference == ["past_key_values"]


def test_errors_of_forward(lstm: DialogForConditionalGeneration) -> None:
    source = torch.tensor([[SELF, 9, EOS]])
    with pytest.raises(ValueError, match="pad sources on the right"):
        lstm(input_ids=source, attention_mask=torch.tensor([[0, 1, 1]]), labels=source)
    with pytest.raises(ValueError, match="decoder_input_ids or labels"):
        lstm(input_ids=source)
    with pytest.raises(ValueError, match="input_ids or encoder_outputs"):
        lstm(labels=source)
    with pytest.raises(ValueError, match="output_hidden_states is unsupported"):
        lstm(input_ids=source, labels=source, output_hidden_states=True)


def test_check_names_what_cannot_be_exported(random_run: Runs) -> None:
    model = random_run().model
    model.arguments["decoder"]["attention"] = {"name": "my_lab.Location"}
    with pytest.raises(UserError, match=r"model\.decoder imports 'my_lab\.Location'.*onnx"):
        HuggingFaceFormat().check(model)
