"""Networks that transformers has a class for, so that its `from_pretrained` needs no dialog.

Three of its classes are our Transformer: Pegasus with norms first and Marian with norms last, both
with sinusoidal positions, and Blenderbot with norms first and learned positions.

A sinusoidal table of transformers has all sines, then all cosines, and Marian computes it when it
is loaded; ours alternates. So the D dimensions of every state are written in the order of
transformers: even ones, then odd ones. A sum, a norm and a product with the states are the same in
any order of D, if all weights have that order. The dimensions of heads and of the feed-forward
network's inner states keep theirs.

Shapes: D width, L positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from dialog.config.schema import Recipe
from dialog.export.format import learned_lengths, table_length, transformer_settings
from dialog.export.formats.huggingface.generation import TOKENS
from dialog.models.positions import SinusoidalPositions
from dialog.models.seq2seq import TIE_ALIASES, TIES, Seq2Seq
from dialog.models.transformer import TransformerSettings
from dialog.runs.run import Run

SIDES = ("encoder", "decoder")
SINUSOIDAL = "sinusoidal"
LEARNED = "learned"
PEGASUS = "pegasus"
MARIAN = "marian"
BLENDERBOT = "blenderbot"
CLASSES = {(True, SINUSOIDAL): PEGASUS, (False, SINUSOIDAL): MARIAN, (True, LEARNED): BLENDERBOT}
"""Type of the model in transformers, by ``norm_first`` and ``positions``.

BART and mBART have a norm after the embeddings, and the sinusoids of M2M100 have other frequencies.
A learned table in Marian would be lost when the model is saved again, since Marian does not save
its table.
"""
ACTIVATIONS = ("relu", "gelu")
READS = 1
WRITES = 0
"""Dimension of a weight that is the state's, in a layer that reads states, and in one that returns
them.
"""
PARTS = {
    "self_attention.query": ("self_attn.q_proj", READS),
    "self_attention.key": ("self_attn.k_proj", READS),
    "self_attention.value": ("self_attn.v_proj", READS),
    "self_attention.output": ("self_attn.out_proj", WRITES),
    "self_residual.norm": ("self_attn_layer_norm", WRITES),
    "cross_attention.query": ("encoder_attn.q_proj", READS),
    "cross_attention.key": ("encoder_attn.k_proj", READS),
    "cross_attention.value": ("encoder_attn.v_proj", READS),
    "cross_attention.output": ("encoder_attn.out_proj", WRITES),
    "cross_residual.norm": ("encoder_attn_layer_norm", WRITES),
    "feed_forward.0": ("fc1", READS),
    "feed_forward.3": ("fc2", WRITES),
    "feed_residual.norm": ("final_layer_norm", WRITES),
}
"""Name of each part of a layer in transformers."""
SHARED = "model.shared.weight"
TABLES = {
    "source_embedding.table": (SHARED, "model.encoder.embed_tokens.weight"),
    "target_embedding.table": ("model.decoder.embed_tokens.weight",),
    "head": ("lm_head.weight",),
    **{f"{side}.positions.table": (f"model.{side}.embed_positions.weight",) for side in SIDES},
}
"""Names of each table in transformers."""


def write_native(run: Run, folder: Path, extra: Mapping[str, Any]) -> None:
    """Write config.json, with the ``extra`` values, and model.safetensors of a network that is not
    `unsupported`.

    With ``tie_embeddings=source`` the table is written once for the source and once for the target;
    fine-tuning then trains two tables.
    """
    values = config_values(run.model, run.recipe)
    config = AutoConfig.for_model(**values, **extra)
    with torch.device("meta"):
        network = AutoModelForSeq2SeqLM.from_config(config)
    tensors = renamed(run.model, values["max_position_embeddings"])
    if not values.get("share_encoder_decoder_embeddings", True):
        del tensors[SHARED]
    network.load_state_dict(tensors, strict=True, assign=True)
    network.tie_weights()
    network.save_pretrained(folder)


def config_values(model: Seq2Seq, recipe: Recipe) -> dict[str, Any]:
    """Return the content of config.json, without rules of generation."""
    settings = all_settings(model)
    encoder = settings["encoder"]
    one_table, tied = ties_of(model)
    kind = CLASSES[encoder.norm_first, encoder.positions["name"]]
    values: dict[str, Any] = {
        "model_type": kind,
        "vocab_size": model.arguments["vocabulary"],
        "d_model": encoder.input_size,
        "max_position_embeddings": next(iter(learned_lengths(model)), table_length(recipe)),
        "activation_function": encoder.activation,
        "scale_embedding": model.arguments["scale_embeddings"],
        "tie_word_embeddings": tied,
        "dropout": encoder.dropout,
        **inner_rates(encoder),
        **TOKENS,
        # else the last token of a response of the greatest length is the end token
        "forced_eos_token_id": None,
    }
    for side, own in settings.items():
        values[f"{side}_layers"] = own.layers
        values[f"{side}_attention_heads"] = own.heads
        values[f"{side}_ffn_dim"] = own.feed_forward_size
        values[f"{side}_layerdrop"] = own.layer_drop
    if kind == MARIAN:
        values["share_encoder_decoder_embeddings"] = one_table
    if kind == BLENDERBOT:
        values["encoder_no_repeat_ngram_size"] = 0  # else a response has no trigram of its source
    return values


def unsupported(model: Seq2Seq) -> str:
    """Return why no class of transformers computes the network, as a clause; "" if one does."""
    reasons = chain(_component_reasons(model), _side_reasons(model), _shared_reasons(model))
    # the first one only: each check assumes that those before it found nothing
    return next(reasons, "")


def all_settings(model: Seq2Seq) -> dict[str, TransformerSettings]:
    """Return the settings of the encoder and of the decoder, which are Transformers."""
    return {side: transformer_settings(model, side) for side in SIDES}


def inner_rates(settings: TransformerSettings) -> dict[str, float]:
    """Return the rates of dropout inside attention and feed-forward network; None means
    ``dropout``.
    """
    rates = {name: getattr(settings, name) for name in ("attention_dropout", "activation_dropout")}
    return {name: settings.dropout if rate is None else rate for name, rate in rates.items()}


def ties_of(model: Seq2Seq) -> tuple[bool, bool]:
    """Return whether source and target share a table, and whether target and output layer do."""
    return TIES[_tie_name(model)]


def _tie_name(model: Seq2Seq) -> str:
    chosen: bool | str = model.arguments["tie_embeddings"]
    return TIE_ALIASES.get(chosen, str(chosen))


def _component_reasons(model: Seq2Seq) -> Iterator[str]:
    """Yield each component that is of another family."""
    expected = {"encoder": "transformer", "decoder": "transformer", "head": "vocabulary"}
    for part, name in expected.items():
        chosen = model.arguments[part]["name"]
        if chosen != name:
            yield f"model.{part} is {chosen}"


def _side_reasons(model: Seq2Seq) -> Iterator[str]:
    """Yield what transformers lacks in an encoder or a decoder."""
    for side, own in all_settings(model).items():
        positions = own.positions["name"]
        if own.norm != "layer_norm":
            yield f"model.{side}.norm is {own.norm}"
        if own.activation not in ACTIVATIONS:
            yield f"model.{side}.activation is {own.activation}"
        if own.key_value_heads not in (None, own.heads):
            yield (
                f"model.{side}.key_value_heads is {own.key_value_heads}, but model.{side}.heads"
                f" {own.heads}"
            )
        if positions not in (SINUSOIDAL, LEARNED):
            yield f"model.{side}.positions is {positions}"
        if (own.norm_first, positions) not in CLASSES:
            yield f"model.{side}.positions is {positions} with norm_first=false"


def _shared_reasons(model: Seq2Seq) -> Iterator[str]:
    """Yield what encoder and decoder share in transformers, but not in the network."""
    encoder, decoder = map(_shared_values, all_settings(model).values())
    for key, value in encoder.items():
        if value != decoder[key]:
            yield f"model.encoder.{key} differs from model.decoder.{key}"
    if len(set(learned_lengths(model))) > 1:
        yield "model.encoder.positions.length differs from model.decoder.positions.length"
    if encoder["norm_first"] and not ties_of(model)[0]:
        yield f"model.tie_embeddings is {_tie_name(model)} with norm_first=true"


def _shared_values(settings: TransformerSettings) -> Mapping[str, Any]:
    """Return the values for which transformers has one key for encoder and decoder."""
    return {
        "norm_first": settings.norm_first,
        "activation": settings.activation,
        "positions": settings.positions["name"],
        **inner_rates(settings),
    }


def renamed(model: Seq2Seq, positions: int) -> dict[str, Tensor]:
    """Return copies of all weights by their names in transformers, with the dimensions of states in
    its order.

    A shared table is listed under each of its names. Sinusoidal tables have ``positions`` rows.
    """
    size, vocabulary = (int(model.arguments[key]) for key in ("embedding_size", "vocabulary"))
    sinusoidal = transformer_settings(model, "encoder").positions["name"] == SINUSOIDAL
    order = torch.arange(size)
    if sinusoidal:
        order = torch.cat([order[0::2], order[1::2]])  # [D]
    tensors = {"final_logits_bias": torch.zeros(1, vocabulary)}
    for name, tensor in model.state_dict().items():
        if name == "head.bias":
            tensors["final_logits_bias"] = tensor.clone().unsqueeze(0)  # [1, V]
        else:
            tensors |= {
                new: _reordered(tensor, dimension, order) for new, dimension in _new_names(name)
            }
    if sinusoidal:
        table = SinusoidalPositions(size)(torch.zeros(1, positions, size)).squeeze(0)  # [L, D]
        tensors |= {
            f"model.{side}.embed_positions.weight": table.index_select(1, order) for side in SIDES
        }
    return tensors


def _reordered(tensor: Tensor, dimension: int, order: Tensor) -> Tensor:
    """Return a copy with a dimension in a new order; the bias of a layer that reads states has no
    such dimension.
    """
    return tensor.index_select(dimension, order) if dimension < tensor.dim() else tensor.clone()


def _new_names(name: str) -> Iterator[tuple[str, int]]:
    """Yield the names of a weight in transformers, and its dimension of the state."""
    module, _, kind = name.rpartition(".")
    if module in TABLES:
        yield from ((table, READS) for table in TABLES[module])
        return
    side, _, part = module.partition(".")
    if part == "norm":
        yield f"model.{side}.layer_norm.{kind}", WRITES
        return
    layers, number, part = part.split(".", 2)
    new, dimension = PARTS[part]
    yield f"model.{side}.{layers}.{number}.{new}.{kind}", dimension
