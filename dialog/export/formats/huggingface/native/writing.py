"""Writing of a network as a class of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dialog.config.schema import Recipe
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.export.formats.huggingface.native.classes import (
    BLENDERBOT,
    CLASSES,
    MARIAN,
    all_settings,
    inner_rates,
    ties_of,
)
from dialog.export.formats.huggingface.native.weights import SHARED, renamed
from dialog.export.model_settings import learned_lengths, table_length
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.run import Run


def write(run: Run, folder: Path, extra: Mapping[str, Any]) -> None:
    """Write config.json, with the ``extra`` values, and model.safetensors of a network that is not
    `unsupported`.

    With ``tie_embeddings=source`` the table is written once for the source and once for the target;
    fine-tuning then trains two tables.
    """
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

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
    (one_table, tied) = ties_of(model)
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
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
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
