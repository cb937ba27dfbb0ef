"""Kinds of source tokens over which attention mass is summed.

Shapes: B rows, S tokens, V vocabulary, K kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dialog.analysis.attention.groups import token_kind
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, Tokenizer

MASSES = ("mass_start", "mass_end", "mass_roles", "mass_punctuation")
"""Mass on the first token, on `</s>`, on the role tokens, and on tokens of punctuation or symbols
alone.
"""


@dataclass(frozen=True)
class TokenKinds:
    """Tokens of a vocabulary that are punctuation or symbols alone."""

    punctuation: Tensor  # [V], True or False

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> TokenKinds:
        """Classify the tokens of a vocabulary, as on the pages of single examples."""
        return cls(
            torch.tensor(
                [token_kind(tokenizer, token) == "punctuation" for token in range(len(tokenizer))]
            )
        )

    def indicators(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return 1 or 0 for each token [B, S] and each of `MASSES`, 0 at padding: [B, S, K]."""
        first = torch.zeros_like(mask)
        first[:, 0] = True
        roles = (tokens == OTHER) | (tokens == SELF)
        punctuation = self.punctuation.to(tokens.device)[tokens]
        # [B, S, K]
        return torch.stack([first, tokens == EOS, roles, punctuation], -1) & mask.unsqueeze(-1)
