"""Fill CTranslate2's specification of a Transformer with the weights of a network.

Shapes: D width, I inner width of the feed-forward network, P positions, V vocabulary; a layer of O
outputs and I inputs has the weight [O, I], here and there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from dialog.data.tokenizers.tokenizer import BOS, EOS, SPECIAL_TOKENS, UNK
from dialog.export.model_settings import transformer_settings
from dialog.models.attention import MultiHeadAttention
from dialog.models.heads import VocabularyHead
from dialog.models.positions import LearnedPositions, PositionEncoding
from dialog.models.seq2seq import Seq2Seq, TokenEmbedding
from dialog.models.transformer import TransformerDecoder, TransformerEncoder, TransformerSettings
from dialog.models.transformer.feed_forward import FeedForward, SwiGLU
from dialog.models.transformer.layers import DecoderLayer, EncoderLayer
from dialog.models.transformer.sublayers import Residual

if TYPE_CHECKING:
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import (
        FeedForwardSpec,
        TransformerDecoderSpec,
        TransformerEncoderSpec,
        TransformerSpec,
    )
    from numpy import float32
    from numpy.typing import NDArray

POSITIONS = ("sinusoidal", "learned", "rotary")
GATED = "swiglu"
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", GATED: "SWISH"}
"""Member of CTranslate2's `Activation`, by the name of ours."""


@torch.no_grad()
def specification(model: Seq2Seq, vocabulary: list[str], table_length: int) -> TransformerSpec:
    """Return the specification, validated and ready to be saved; equal tables are stored once.

    Args:
        model: With a Transformer encoder, a Transformer decoder and a vocabulary head.
        vocabulary: Text of each token, by id.
        table_length: Number of rows of a sinusoidal table.
    """
    from ctranslate2.specs.transformer_spec import (
        TransformerDecoderSpec,
        TransformerEncoderSpec,
        TransformerSpec,
    )

    source, target = (transformer_settings(model, side) for side in ("encoder", "decoder"))
    encoder = cast("TransformerEncoder", model.encoder)
    decoder = cast("TransformerDecoder", model.decoder)
    spec = TransformerSpec(
        TransformerEncoderSpec(**arguments_of(source)),
        # the mean, as our `pointer`
        TransformerDecoderSpec(**arguments_of(target), alignment_heads=target.heads),
    )
    fill_side(spec.encoder, encoder, source, model.source_embedding, table_length)
    fill_side(spec.decoder, decoder, target, model.target_embedding, table_length)
    spec.encoder.embeddings[0].weight = array(model.source_embedding.table.weight)  # [V, D]
    spec.decoder.embeddings.weight = array(model.target_embedding.table.weight)  # [V, D]
    for layer_spec, module in zip(spec.decoder.layer, decoder.layers, strict=True):
        layer = cast("DecoderLayer", module)
        fill_attention(
            layer_spec.attention, layer.cross_attention, layer.cross_residual, crosses=True
        )
    fill_output(spec.decoder.projection, cast("VocabularyHead", model.head))
    fill_config(spec, vocabulary, epsilon=epsilon_of(encoder))
    spec.validate()
    spec.optimize()
    return spec


def epsilon_of(encoder: TransformerEncoder) -> float:
    """Return what the norms add to a variance or a mean square; CTranslate2 has one number for a
    network.
    """
    norm = cast("EncoderLayer", encoder.layers[0]).self_residual.norm
    return cast("nn.LayerNorm | nn.RMSNorm", norm).eps or 0.0


def arguments_of(settings: TransformerSettings) -> dict[str, Any]:
    """Return the arguments of CTranslate2's specification of an encoder or a decoder."""
    from ctranslate2.specs.common_spec import Activation

    return {
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "num_heads_kv": settings.key_value_heads,
        "pre_norm": settings.norm_first,
        "rms_norm": settings.norm == "rms_norm",
        "activation": Activation[ACTIVATIONS[settings.activation]],
        "ffn_glu": settings.activation == GATED,
        # 0: the whole width of a head
        "rotary_dim": 0 if settings.positions["name"] == "rotary" else None,
        "rotary_interleave": True,  # pairs of neighbours
    }


def fill_config(spec: TransformerSpec, vocabulary: list[str], *, epsilon: float) -> None:
    """Set the vocabulary, the tokens that the engine adds, and the epsilon of all norms.

    Sources are complete, so the engine adds no token to them.
    """
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token = SPECIAL_TOKENS[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    spec.config.eos_token = SPECIAL_TOKENS[EOS]
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = epsilon  # its default for RMSNorm is 1e-6


def fill_side(
    spec: TransformerEncoderSpec | TransformerDecoderSpec,
    part: TransformerEncoder | TransformerDecoder,
    settings: TransformerSettings,
    embedding: TokenEmbedding,
    table_length: int,
) -> None:
    """Fill all that encoders and decoders have in common, except for the table of the
    embeddings.
    """
    spec.scale_embeddings = embedding.scale
    if settings.positions["name"] != "rotary":
        spec.position_encodings.encodings = position_table(part.positions, settings, table_length)
    if settings.norm_first:
        fill_norm(spec.layer_norm, part.norm)
    for layer_spec, module in zip(spec.layer, part.layers, strict=True):
        layer = cast("EncoderLayer | DecoderLayer", module)
        fill_attention(
            layer_spec.self_attention, layer.self_attention, layer.self_residual, crosses=False
        )
        fill_feed_forward(
            layer_spec.ffn,
            layer.feed_forward,
            layer.feed_residual,
            gated=settings.activation == GATED,
        )


def position_table(
    positions: PositionEncoding, settings: TransformerSettings, length: int
) -> NDArray[float32]:
    """Return what is added at each position [P, D]: P is the length of a learned table, else
    ``length``.
    """
    if settings.positions["name"] == "learned":
        return array(cast("LearnedPositions", positions).table.weight)  # [P, D]
    return array(positions(torch.zeros(1, length, settings.input_size))[0])  # [P, D]


def fill_attention(
    spec: MultiHeadAttentionSpec,
    attention: MultiHeadAttention,
    residual: Residual,
    *,
    crosses: bool,
) -> None:
    """Fill an attention and its norm: query, key and value in one layer, or the query apart if it
    crosses.
    """
    projections = [attention.query, attention.key, attention.value]
    groups = [projections[:1], projections[1:]] if crosses else [projections]
    for linear, layers in zip(spec.linear, [*groups, [attention.output]], strict=True):
        fill_linear(linear, layers)
    fill_norm(spec.layer_norm, residual.norm)


def fill_feed_forward(
    spec: FeedForwardSpec, network: nn.Module, residual: Residual, *, gated: bool
) -> None:
    """Fill a feed-forward network, whose first layer may have a gate, and its norm."""
    if gated:
        swiglu = cast("SwiGLU", network)
        fill_linear(spec.linear_0, [swiglu.gate])
        fill_linear(spec.linear_0_noact, [swiglu.value])
        fill_linear(spec.linear_1, [swiglu.output])
    else:
        first, _, _, last = cast("FeedForward", network)
        fill_linear(spec.linear_0, [cast("nn.Linear", first)])
        fill_linear(spec.linear_1, [cast("nn.Linear", last)])
    fill_norm(spec.layer_norm, residual.norm)


def fill_linear(spec: LinearSpec, layers: Sequence[nn.Linear]) -> None:
    """Fill one layer with the outputs of several, side by side."""
    weights: list[Tensor] = [layer.weight for layer in layers]
    spec.weight = array(torch.cat(weights))  # [O_1 + O_2 + .., I]
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    if biases:
        spec.bias = array(torch.cat(biases))  # [O_1 + O_2 + ..]


def fill_output(spec: LinearSpec, head: VocabularyHead) -> None:
    """Fill the output layer."""
    spec.weight = array(head.weight)  # [V, D]
    if head.bias is not None:
        spec.bias = array(head.bias)  # [V]


def fill_norm(spec: LayerNormSpec, norm: nn.Module) -> None:
    """Fill a LayerNorm, or an RMSNorm, which has no bias."""
    parameters = dict(norm.named_parameters())
    spec.gamma = array(parameters["weight"])  # [D]
    if "bias" in parameters:
        spec.beta = array(parameters["bias"])  # [D]


def array(tensor: Tensor) -> NDArray[float32]:
    """Return a tensor as an array in float32 of the same shape."""
    values: NDArray[float32] = tensor.detach().float().numpy()
    return values
