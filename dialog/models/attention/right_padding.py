"""Self-attention over rows that are padded on the right, without a mask.

A boolean mask rules out flash attention. Here each row is two sequences of a jagged nested tensor
that lies where the padded one does: its real tokens, and its padding, whose outputs mean nothing.
Nothing is packed, and the host does not wait for lengths.

Formula: `F.scaled_dot_product_attention` with the mask; results are equal at real tokens. Test:
``test_right_padding_needs_no_mask`` in tests/models/attention/test_multi_head.py; on a GPU
``test_long_sources_need_no_mask`` in tests/gpu/test_cuda_attention.py.

Shapes: B rows, S tokens, H heads, W width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LONG = 512
"""Tokens from which attention without a mask is used; for fewer, its overhead on the host is more
than what it saves.
"""


def is_long(query: Tensor) -> bool:
    """Return whether queries [B, H, S, W] are attended to without a mask: long ones, where there is
    flash attention.
    """
    half = query.dtype in (torch.bfloat16, torch.float16)
    return query.device.type == "cuda" and half and query.shape[2] >= LONG


def attend_to_real(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: float
) -> Tensor:
    """Attend with queries, keys and values [B, H, S, W] of the same tokens; mask [B, 1, 1, S], with
    padding on the right -> [B, H, S, W].
    """
    rows, _, tokens, _ = query.shape
    begins = torch.arange(rows, device=query.device) * tokens  # [B]
    ends = begins + mask.sum(-1).flatten()  # [B]
    offsets = F.pad(torch.stack([begins, ends], 1).flatten(), (0, 1), value=rows * tokens)
    # a sequence may be empty, as queries and as keys; fused kernels only refuse that it is said
    nested = (
        torch.nested.nested_tensor_from_jagged(
            part.transpose(1, 2).flatten(0, 1), offsets, min_seqlen=1, max_seqlen=tokens
        ).transpose(1, 2)
        for part in (query, keys, values)
    )
    query, keys, values = nested
    mixed = F.scaled_dot_product_attention(
        query, keys, values, dropout_p=dropout
    )  # [2 B, H, .., W]
    real = mixed.transpose(1, 2).values()  # [B S, H, W]
    return torch.unflatten(real, 0, (rows, tokens)).transpose(1, 2)
