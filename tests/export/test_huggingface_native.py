"""Networks as classes of transformers: `from_pretrained` computes what the run does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM
from transformers.utils import logging

from dialog.analysis.attention.maps import attention_maps
from dialog.build import build_model
from dialog.config.schema import ModelConfig
from dialog.config.trust import trusted
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.export.format import Tokens
from dialog.export.formats.huggingface import HuggingFaceFormat
from dialog.export.formats.huggingface.native import unsupported, write_native
from dialog.export.parity import TOLERANCE, log_probabilities, measure_parity
from dialog.models.seq2seq import Seq2Seq, count_parameters
from dialog.runs.run import Run

CHOICES = sorted((Path(__file__).parents[2] / "configs" / "model").glob("*.yaml"))
SMALL = {"name": "transformer", "layers": 2, "heads": 4, "feed_forward_size": 40}
PEGASUS, MARIAN, BLENDERBOT = (
    "PegasusForConditionalGeneration",
    "MarianMTModel",
    "BlenderbotForConditionalGeneration",
)
LAST, LEARNED = {"norm_first": False}, {"positions": {"name": "learned", "length": 60}}
SOURCES = [[5, 40, 41, 42, 4, 99, 100, EOS], [5, 301, EOS], [EOS]]
TARGETS = [[30, 31, 32, EOS], [EOS], [77, 78, 79, 80, 81, EOS]]


def both(**settings: object) -> dict[str, dict[str, object]]:
    """Encoder and decoder with the same settings."""
    return {side: {**SMALL, **settings} for side in ("encoder", "decoder")}


UNEQUAL = {
    "encoder": {**SMALL, "layers": 3, "heads": 2, "feed_forward_size": 20, "layer_drop": 0.25},
    "decoder": {**SMALL, "layers": 1, "heads": 6, "feed_forward_size": 52, "layer_drop": 0.125},
}
BIAS = {"head": {"name": "vocabulary", "bias": True}}
EQUAL: dict[str, tuple[str, dict[str, Any]]] = {
    "norms first": (PEGASUS, both()),
    "unscaled": (PEGASUS, both() | {"scale_embeddings": False, "tie_embeddings": "source"}),
    "one head": (PEGASUS, both(heads=1, key_value_heads=1, activation="gelu") | BIAS),
    "norms last": (MARIAN, both(**LAST)),
    "output": (MARIAN, both(**LAST) | {"tie_embeddings": "output"}),
    "source": (MARIAN, both(**LAST) | {"tie_embeddings": "source", "scale_embeddings": False}),
    "learned": (BLENDERBOT, both(**LEARNED)),
    "learned, source": (BLENDERBOT, both(**LEARNED) | {"tie_embeddings": "source"} | BIAS),
    "gelu, learned": (BLENDERBOT, both(activation="gelu", **LEARNED) | {"scale_embeddings": False}),
}
PARITY: dict[str, tuple[str, dict[str, Any]]] = {
    "pegasus": (PEGASUS, UNEQUAL | BIAS),
    "marian": (
        MARIAN,
        {side: own | {"activation": "gelu"} | LAST for side, own in UNEQUAL.items()}
        | BIAS
        | {"tie_embeddings": False},
    ),
    "blenderbot": (BLENDERBOT, {side: own | LEARNED for side, own in UNEQUAL.items()}),
}


class Loaded:
    """A folder that only transformers has read."""

    def __init__(self, folder: Path) -> None:
        self.network, self.info = AutoModelForSeq2SeqLM.from_pretrained(
            folder, output_loading_info=True
        )

    @property
    def name(self) -> str:
        return type(self.network).__name__

    @torch.inference_mode()
    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        references = padded(targets)  # [B, T]
        # [B, T]
        inputs = torch.cat([torch.full_like(references[:, :1], BOS), references[:, :-1]], 1)
        logits = self.network(**encoded(sources), decoder_input_ids=inputs).logits  # [B, T, V]
        values = logits.log_softmax(-1).gather(-1, references.unsqueeze(-1)).squeeze(-1)  # [B, T]
        return [row[: len(target)].tolist() for row, target in zip(values, targets, strict=True)]

    @torch.inference_mode()
    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        rows = self.network.generate(
            **encoded(sources), max_new_tokens=length, do_sample=False, num_beams=1
        ).tolist()
        assert all(row[0] == BOS for row in rows)
        return [row[1 : row.index(EOS) + 1] if EOS in row else row[1:] for row in rows]


def padded(rows: Sequence[Tokens]) -> torch.Tensor:
    # [B, T]
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def encoded(sources: Sequence[Tokens]) -> dict[str, torch.Tensor]:
    mask = padded([[1] * len(source) for source in sources])  # [B, S]
    return {"input_ids": padded(sources), "attention_mask": mask}


@pytest.fixture(autouse=True)
def no_progress_bars() -> Iterator[None]:
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[Run], Loaded]:
    """Writes a run, and loads it by transformers."""

    def load(run: Run) -> Loaded:
        assert unsupported(run.model) == ""
        write_native(run, tmp_path, {})
        return Loaded(tmp_path)

    return load


def difference(model: Seq2Seq, loaded: Loaded) -> float:
    """Largest difference of a log-probability in a padded batch."""
    pairs = zip(SOURCES, TARGETS, loaded.log_probabilities(SOURCES, TARGETS), strict=True)
    with torch.inference_mode():
        rows = [
            (log_probabilities(model, source, target), values) for source, target, values in pairs
        ]
    return max(
        abs(one - other) for own, values in rows for one, other in zip(own, values, strict=True)
    )


# ------------------------------------------------------------------ equal networks


@pytest.mark.parametrize("name", PARITY)
def test_transformers_computes_the_network(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    class_name, model = PARITY[name]
    run = random_run(**model)
    loaded = exported(run)
    assert loaded.name == class_name
    parity = measure_parity(run.model, loaded, max_source=run.recipe.data.max_source)
    assert parity.holds, parity
    assert parity.greedy_equal >= parity.sources - 1


@pytest.mark.parametrize("name", EQUAL)
def test_variations_are_equal(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    class_name, model = EQUAL[name]
    run = random_run(**model)
    loaded = exported(run)
    assert loaded.name == class_name
    assert difference(run.model, loaded) < TOLERANCE
    assert loaded.info == {
        "missing_keys": set(),
        "unexpected_keys": set(),
        "mismatched_keys": set(),
        "error_msgs": [],
    }


@pytest.mark.parametrize("settings", [{}, LAST])
def test_a_width_may_be_odd(
    settings: dict[str, object], random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    run = random_run()
    config = replace(run.recipe.model, embedding_size=15, **both(heads=3, **settings))
    model = build_model(config, len(run.tokenizer)).eval()
    run = replace(run, recipe=replace(run.recipe, model=config), model=model)
    assert difference(run.model, exported(run)) < TOLERANCE


def test_no_code_outside_transformers_is_needed(
    random_run: Callable[..., Run], exported: Callable[[Run], Loaded], tmp_path: Path
) -> None:
    loaded = exported(random_run(**both()))
    assert {type(module).__module__.partition(".")[0] for module in loaded.network.modules()} == {
        "transformers",
        "torch",
    }
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    assert not list(tmp_path.glob("*.py"))


@pytest.mark.parametrize("name", PARITY)
def test_a_batch_changes_no_response(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    loaded = exported(random_run(**PARITY[name][1]))
    sources = [SOURCES[0] * 3, *SOURCES]
    assert loaded.greedy(sources, 12) == [loaded.greedy([source], 12)[0] for source in sources]


def test_attention_maps_are_those_of_the_network(
    trained_run: Callable[[str], Run], tmp_path: Path
) -> None:
    run = trained_run("transformer")
    HuggingFaceFormat().write(run, tmp_path)
    network = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager")
    source, target = torch.tensor([SOURCES[0]]), torch.tensor([[BOS, 30, 31]])
    output = network(input_ids=source, decoder_input_ids=target, output_attentions=True)
    maps = {
        one.name: one.weights for one in attention_maps(run.model, source, source != PAD, target)
    }
    for layer, weights in enumerate(output.cross_attentions):
        torch.testing.assert_close(
            weights, maps[f"decoder.layers.{layer}.cross_attention"], rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("name", ["unscaled", "source", *PARITY])
def test_a_loaded_network_can_be_saved_again(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded], tmp_path: Path
) -> None:
    run = random_run(**(EQUAL | PARITY)[name][1])
    exported(run).network.save_pretrained(tmp_path / "again")
    assert difference(run.model, Loaded(tmp_path / "again")) < TOLERANCE


# ------------------------------------------------------------------ weights and configuration


@pytest.mark.parametrize("name", ["norms first", "norms last", "output", "learned"])
def test_tables_are_shared_as_in_the_network(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded], tmp_path: Path
) -> None:
    run = random_run(**EQUAL[name][1])
    total = count_parameters(run.model)["total"]
    extra = () if "learned" in name else ("embed_positions",)
    assert total == elements(exported(run).network.named_parameters(), without=extra)
    stored = load_file(tmp_path / "model.safetensors").items()
    assert total == elements(stored, without=("final_logits_bias", *extra))


def elements(tensors: Iterable[tuple[str, torch.Tensor]], *, without: Sequence[str]) -> int:
    return sum(
        tensor.numel() for name, tensor in tensors if not any(part in name for part in without)
    )


def test_the_table_of_positions_is_that_of_transformers(
    random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    network = exported(random_run(**both())).network
    for part in (network.model.encoder, network.model.decoder):
        torch.testing.assert_close(
            part.embed_positions.weight, part.embed_positions.create_weight()
        )


def test_the_padding_row_is_kept(
    random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    run = random_run(**both(**LEARNED))
    table = run.model.source_embedding.table.weight
    torch.nn.init.ones_(table[PAD])  # as output weights, it is trained
    torch.testing.assert_close(exported(run).network.get_input_embeddings().weight, table)


@pytest.mark.parametrize("settings", [{}, LAST])
def test_a_recipe_with_long_sequences_has_more_positions(
    settings: dict[str, object], random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    run = random_run(**both(**settings))
    short = exported(run).network.config.max_position_embeddings
    recipe = replace(run.recipe, data=replace(run.recipe.data, max_source=1100))
    loaded = exported(replace(run, recipe=recipe))
    source, target = [7] * 1099 + [EOS], [8, EOS]
    own = log_probabilities(run.model, source, target)
    assert loaded.log_probabilities([source], [target])[0] == pytest.approx(own, abs=TOLERANCE)
    assert (short, loaded.network.config.max_position_embeddings) == (1024, 1100)
    recipe = replace(run.recipe, generation=replace(run.recipe.generation, max_length=1100))
    assert exported(replace(run, recipe=recipe)).network.config.max_position_embeddings == 1101


def test_rates_of_dropout_are_in_the_configuration(
    random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    rates = {"attention_dropout": 0.125, "activation_dropout": 0.0}
    sides = {side: own | rates for side, own in UNEQUAL.items()}
    config = exported(random_run(**sides, dropout=0.375)).network.config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (
        0.375,
        0.125,
        0.0,
    )
    assert (config.encoder_layerdrop, config.decoder_layerdrop) == (0.25, 0.125)
    config = exported(random_run(**both(), dropout=0.375)).network.config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (
        0.375,
        0.375,
        0.375,
    )


@pytest.mark.parametrize("name", PARITY)
def test_generation_has_no_rules_of_the_class(
    name: str, random_run: Callable[..., Run], exported: Callable[[Run], Loaded]
) -> None:
    generation = exported(random_run(**PARITY[name][1])).network.generation_config
    assert generation.forced_eos_token_id is None
    assert not generation.encoder_no_repeat_ngram_size
    tokens = (generation.pad_token_id, generation.bos_token_id, generation.eos_token_id)
    assert (*tokens, generation.decoder_start_token_id) == (PAD, BOS, EOS, BOS)


def test_writing_is_silent_and_changes_nothing(
    random_run: Callable[..., Run], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.enable_progress_bar()
    run = random_run(**both(**LAST))
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    state = torch.random.get_rng_state()
    HuggingFaceFormat().write(run, tmp_path)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled()
    torch.testing.assert_close(run.model.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)


# ------------------------------------------------------------------ others


def meta_model(**model: object) -> Seq2Seq:
    with torch.device("meta"):
        return build_model(trusted(ModelConfig(**{"embedding_size": 24} | model)), 300)


@pytest.mark.parametrize("path", CHOICES, ids=lambda path: path.stem)
def test_only_plain_transformers_of_the_recipes_are_supported(path: Path) -> None:
    values = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(values, dict)
    reason = unsupported(meta_model(**values))
    plain = ("transformer", "sankar2019_transformer", "gym/transformer")
    assert bool(reason) == (path.stem not in plain), reason


OTHERS: dict[str, dict[str, Any]] = {
    "model.encoder is gru": {"encoder": {"name": "gru", "size": 24}, "decoder": SMALL},
    "model.decoder is lstm": {
        "encoder": SMALL,
        "decoder": {"name": "lstm", "size": 24, "attention": {"name": "none"}},
    },
    "model.head is pointer_generator": both() | {"head": {"name": "pointer_generator"}},
    "model.encoder.norm is rms_norm": both(norm="rms_norm"),
    "model.decoder.activation is swiglu": both(activation="relu")
    | {"decoder": {**SMALL, "activation": "swiglu"}},
    "model.encoder.key_value_heads is 2, but model.encoder.heads 4": both(key_value_heads=2),
    "model.encoder.positions is rotary": both(heads=2, positions={"name": "rotary"}),
    "model.encoder.positions is learned with norm_first=false": both(**LAST, **LEARNED),
    "model.encoder.norm_first differs from model.decoder.norm_first": both()
    | {"decoder": {**SMALL, **LAST}},
    "model.encoder.activation differs from model.decoder.activation": both()
    | {"encoder": {**SMALL, "activation": "gelu"}},
    "model.encoder.positions differs from model.decoder.positions": both()
    | {"decoder": {**SMALL, **LEARNED}},
    "model.encoder.positions.length differs from model.decoder.positions.length": both(**LEARNED)
    | {"decoder": {**SMALL, "positions": {"name": "learned"}}},
    "model.encoder.attention_dropout differs from model.decoder.attention_dropout": both()
    | {"encoder": {**SMALL, "attention_dropout": 0.5}},
    "model.encoder.activation_dropout differs from model.decoder.activation_dropout": both()
    | {"encoder": {**SMALL, "activation_dropout": 0.5}},
    "model.tie_embeddings is output with norm_first=true": both() | {"tie_embeddings": "output"},
    "model.tie_embeddings is none with norm_first=true": both(**LEARNED)
    | {"tie_embeddings": False},
}


@pytest.mark.parametrize("reason", OTHERS)
def test_the_reason_names_the_key(reason: str) -> None:
    assert unsupported(meta_model(**OTHERS[reason])) == reason


def test_equal_rates_may_be_written_differently() -> None:
    assert (
        unsupported(
            meta_model(**both() | {"encoder": {**SMALL, "attention_dropout": 0.3}}, dropout=0.3)
        )
        == ""
    )


def test_a_component_of_a_user_is_unsupported() -> None:
    own = {**SMALL, "name": "dialog.models.transformer.TransformerEncoder"}
    assert unsupported(meta_model(encoder=own, decoder=SMALL)) == f"model.encoder is {own['name']}"
    positions = {"name": "dialog.models.positions.SinusoidalPositions"}
    assert (
        unsupported(meta_model(**both(positions=positions)))
        == f"model.encoder.positions is {positions['name']}"
    )
