"""Cases of the parts of `dialog.models.recurrence`, and of the decoder without an encoder."""

from typing import Any

Component = dict[str, Any]

SIZES: Component = {"layers": 1, "heads": 2, "feed_forward_size": 12}
MIXERS: list[Component] = [
    {"name": "min_gru", "width": 12},
    {"name": "min_lstm", "norm_first": False},
    {"name": "mlstm", "chunk": 3},
    {"name": "slstm"},
    {"name": "mamba2", "state_size": 3, "chunk": 2},
    {"name": "gated_delta", "negative_eigenvalues": True, "chunk": 3},
    {"name": "gla", "norm": "rms_norm", "activation": "swiglu"},
    {"name": "retnet", "chunk": 2},
    {"name": "rwkv7", "chunk": 2},
    {"name": "mixer", "mixer": {"name": "gla", "chunk": 2}},
]
MIXER_PARTS: list[Component] = [each | SIZES for each in MIXERS]
"""As encoder and as decoder."""
NO_CROSS: list[Component] = [each | {"cross_attention": "none"} for each in MIXER_PARTS]
PREFIX: list[Component] = [each | {"cross_attention": "prefix"} for each in MIXER_PARTS]
CAUSAL: list[Component] = [each | {"causal": True} for each in MIXER_PARTS]
EMBEDDING: Component = {"name": "embedding"}
DECODER_ONLY: list[Component] = [
    {"name": "decoder_only", "positions": {"name": "rotary"}, "key_value_heads": 1} | SIZES,
    {"name": "decoder_only", "context": "causal", "positions": {"name": "learned", "length": 32}}
    | SIZES
    | {"layers": 2, "norm_first": False},
]
NEW_ENCODERS = [*MIXER_PARTS, CAUSAL[4], EMBEDDING]
NEW_DECODERS = [*MIXER_PARTS, NO_CROSS[0], NO_CROSS[5], PREFIX[4], *DECODER_ONLY]
NEW_PAIRS: list[tuple[Component, Component]] = [
    *zip(MIXER_PARTS, MIXER_PARTS, strict=True),
    *zip(CAUSAL[::4], NO_CROSS[::4], strict=True),
    *((EMBEDDING, each) for each in [*PREFIX, *DECODER_ONLY]),
]
"""Each part once with all laws; with all other parts it is in test_combinations.py."""
