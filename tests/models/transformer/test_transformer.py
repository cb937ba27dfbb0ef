"""Transformer layers and stacks against torch's own with copied weights, in float64.

In training mode without dropout torch takes its plain path, not its inference kernel.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dialog.config.components import construct
from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import Encoded
from dialog.models.transformer import TransformerDecoder, TransformerEncoder
from dialog.models.transformer.cache import SelfAttentionState
from dialog.models.transformer.layers import DecoderLayer, EncoderLayer
from dialog.models.transformer.transformer_settings import TransformerSettings

SIZE, HEADS, INNER, ROWS = 8, 2, 12, 3
Stir = Callable[[nn.Module], nn.Module]
Named = dict[str, Tensor]

pytestmark = [
    pytest.mark.parametrize("norm_first", [True, False], ids=["norm first", "norm last"]),
    pytest.mark.parametrize("activation", ["relu", "gelu"]),
]


# ------------------------------------------------------------------ our weights under torch's names


def prefixed(prefix: str, named: Named) -> Named:
    return {f"{prefix}.{name}": tensor for name, tensor in named.items()}


def own(prefix: str, module: nn.Module) -> Named:
    return prefixed(prefix, dict(module.named_parameters()))


def attention(ours: MultiHeadAttention) -> Named:
    thirds = (ours.query, ours.key, ours.value)
    return {
        "in_proj_weight": torch.cat([layer.weight for layer in thirds]),
        "in_proj_bias": torch.cat([layer.bias for layer in thirds]),
        **own("out_proj", ours.output),
    }


def encoder_weights(ours: nn.Module) -> Named:
    first, _, _, second = ours.feed_forward
    return {
        **prefixed("self_attn", attention(ours.self_attention)),
        **own("linear1", first),
        **own("linear2", second),
        **own("norm1", ours.self_residual.norm),
        **own("norm2", ours.feed_residual.norm),
    }


def decoder_weights(ours: nn.Module) -> Named:
    first, _, _, second = ours.feed_forward
    return {
        **prefixed("self_attn", attention(ours.self_attention)),
        **prefixed("multihead_attn", attention(ours.cross_attention)),
        **own("linear1", first),
        **own("linear2", second),
        **own("norm1", ours.self_residual.norm),
        **own("norm2", ours.cross_residual.norm),
        **own("norm3", ours.feed_residual.norm),
    }


def stack_weights(ours: nn.Module, layer_weights: Callable[[nn.Module], Named]) -> Named:
    named = own("norm", ours.norm)
    for depth, layer in enumerate(ours.layers):
        named |= prefixed(f"layers.{depth}", layer_weights(layer))
    return named


def call(theirs: nn.Module, named: Named, *arguments: Tensor, **masks: Tensor) -> Tensor:
    """Run torch's module with our weights, so that the gradients of both arrive in ours."""
    assert named.keys() == dict(theirs.named_parameters()).keys()
    return torch.func.functional_call(theirs.double().train(), named, arguments, masks)


# ------------------------------------------------------------------ parity


def encoder_layer(norm_first: bool, activation: str) -> nn.Module:
    return nn.TransformerEncoderLayer(
        SIZE, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
    )


def decoder_layer(norm_first: bool, activation: str) -> nn.Module:
    return nn.TransformerDecoderLayer(
        SIZE, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
    )


def settings(norm_first: bool, activation: str) -> TransformerSettings:
    sizes = {"input_size": SIZE, "heads": HEADS, "feed_forward_size": INNER, "layers": 1}
    return TransformerSettings(**sizes, norm_first=norm_first, activation=activation)


def unchanged(heads: Tensor) -> Tensor:
    return heads


def real(length: int) -> Tensor:
    return torch.arange(length) < torch.tensor([length, length // 2, 1]).unsqueeze(1)


def later(length: int) -> Tensor:
    """Torch's causal mask: True = hidden, as in its documentation."""
    return torch.ones(length, length).triu(1).bool()


def test_encoder_layer_agrees_with_torch(
    norm_first: bool,
    activation: str,
    draw: Callable[..., Tensor],
    stir: Stir,
    agree: Callable[..., None],
) -> None:
    ours = stir(EncoderLayer(settings(norm_first, activation)))
    states, mask = draw(ROWS, 6, SIZE).requires_grad_(), real(6)
    expected = call(
        encoder_layer(norm_first, activation),
        encoder_weights(ours),
        states,
        src_key_padding_mask=~mask,
    )
    for hook in (None, lambda *_: None):
        agree(
            [ours(states, mask[:, None, None], unchanged, hook=hook)],
            [expected],
            [states, *ours.parameters()],
        )


def test_decoder_layer_agrees_with_torch(
    norm_first: bool,
    activation: str,
    draw: Callable[..., Tensor],
    stir: Stir,
    agree: Callable[..., None],
) -> None:
    ours = stir(DecoderLayer(settings(norm_first, activation)))
    target, source, mask = (
        draw(ROWS, 5, SIZE).requires_grad_(),
        draw(ROWS, 6, SIZE).requires_grad_(),
        real(6),
    )
    masks = {"tgt_mask": later(5), "memory_key_padding_mask": ~mask}
    expected = call(
        decoder_layer(norm_first, activation), decoder_weights(ours), target, source, **masks
    )
    for hook in (None, lambda *_: None):
        keys_values = ours.cross_attention.keys_values(source)
        others = {"mask": mask[:, None, None], "turn": unchanged, "hook": hook}
        state = SelfAttentionState.empty(1, like=keys_values[0])
        output, (keys, values) = ours(
            target, state.layers[0], keys_values, state.extended(5), **others
        )
        agree([output], [expected], [target, source, *ours.parameters()])
        assert keys.shape == values.shape == (ROWS, HEADS, 5, SIZE // HEADS)


def with_positions(inputs: Tensor) -> Tensor:
    steps, size = torch.arange(inputs.shape[1], dtype=torch.float64), inputs.shape[2]
    columns = [
        (torch.cos if d % 2 else torch.sin)(steps / 10000 ** ((d - d % 2) / size))
        for d in range(size)
    ]
    return inputs + torch.stack(columns, 1)


@pytest.mark.parametrize("layers", [1, 3])
def test_encoder_agrees_with_torchs_stack(
    norm_first: bool,
    activation: str,
    layers: int,
    draw: Callable[..., Tensor],
    stir: Stir,
    agree: Callable[..., None],
) -> None:
    ours = stir(
        construct(
            TransformerEncoder,
            input_size=SIZE,
            heads=HEADS,
            feed_forward_size=INNER,
            layers=layers,
            norm_first=norm_first,
            activation=activation,
        )
    )
    norm = nn.LayerNorm(SIZE) if norm_first else None
    theirs = nn.TransformerEncoder(
        encoder_layer(norm_first, activation), layers, norm, enable_nested_tensor=False
    )
    inputs, mask = draw(ROWS, 6, SIZE).requires_grad_(), real(6)
    states = call(
        theirs,
        stack_weights(ours, encoder_weights),
        with_positions(inputs),
        src_key_padding_mask=~mask,
    ) * mask.unsqueeze(-1)
    summary = torch.stack(
        [row[row_mask].mean(0) for row, row_mask in zip(states, mask, strict=True)]
    )
    encoded = ours(inputs, mask)
    agree([encoded.states, encoded.summary], [states, summary], [inputs, *ours.parameters()])
    assert ours.size == SIZE
    assert torch.equal(encoded.mask, mask)


@pytest.mark.parametrize("memory_size", [SIZE, 5], ids=["no bridge", "bridge"])
@pytest.mark.parametrize("layers", [1, 3])
def test_decoder_agrees_with_torchs_stack(
    norm_first: bool,
    activation: str,
    layers: int,
    memory_size: int,
    draw: Callable[..., Tensor],
    stir: Stir,
    agree: Callable[..., None],
) -> None:
    ours = stir(
        construct(
            TransformerDecoder,
            input_size=SIZE,
            memory_size=memory_size,
            heads=HEADS,
            feed_forward_size=INNER,
            layers=layers,
            norm_first=norm_first,
            activation=activation,
        )
    )
    norm = nn.LayerNorm(SIZE) if norm_first else None
    theirs = nn.TransformerDecoder(decoder_layer(norm_first, activation), layers, norm)
    inputs, states, mask = (
        draw(ROWS, 5, SIZE).requires_grad_(),
        draw(ROWS, 6, memory_size).requires_grad_(),
        real(6),
    )
    encoded = Encoded(states, mask, draw(ROWS, memory_size))
    bridged = states if memory_size == SIZE else states @ ours.bridge.weight.T + ours.bridge.bias
    masks = {"tgt_mask": later(5), "memory_key_padding_mask": ~mask}
    expected = call(
        theirs, stack_weights(ours, decoder_weights), with_positions(inputs), bridged, **masks
    )
    for sizes in ([5], [2, 1, 2]):
        memory, state = ours.start(encoded)
        assert state.length == 0
        parts = []
        for part in inputs.split(sizes, 1):
            output, state = ours(part, memory, state)
            parts.append(output)
        agree([torch.cat(parts, 1)], [expected], [inputs, states, *ours.parameters()])
        assert state.length == 5
