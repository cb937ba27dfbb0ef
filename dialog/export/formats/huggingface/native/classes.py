"""Choice of the class: which networks transformers can hold, and why it cannot hold the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from dialog.export.model_settings import learned_lengths, transformer_settings
from dialog.models.seq2seq import TIE_ALIASES, TIES, Seq2Seq
from dialog.models.transformer import TransformerSettings

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


def unsupported(model: Seq2Seq) -> str:
    """Return why no class of transformers computes the network, as a clause; "" if one does."""
    if type(model) is not Seq2Seq:
        return f"the network is of the class {type(model).__name__}"  # such as an ensemble
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
