"""Denoising auto-encoding.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import EOS, OTHER, PAD, UNK, Tokenizer
from dialog.errors import UserError
from dialog.training.objectives.objective import Task, end_rows, task
from dialog.training.objectives.unpaired_text import Utterances
from dialog.training.teacher_forcing import check_fraction


class Denoising:
    """Reconstruct an utterance from a noisy copy: ``<s> <other> noised </s>`` to
    ``<s> utterance </s>``.

    Lample et al. 2018, section 2.3. The utterances are the batch's responses. With ``path``, a
    UTF-8 text of one utterance a line, they are random lines of that text, one for each row of the
    batch, truncated to ``max_tokens``.

    Args:
        path: The text.
        deletion: Probability of deleting a token.
        masking: Probability of replacing a token by <unk>.
        distance: The most positions that a token moves.
        max_tokens: The most tokens of an utterance of the text, </s> included.
        tokenizer: The run's tokenizer, for the text.
    """

    def __init__(
        self,
        *,
        path: str | None = None,
        deletion: float = 0.1,
        masking: float = 0.1,
        distance: int = 3,
        max_tokens: int = 64,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        check_fraction("deletion", deletion)
        check_fraction("masking", masking)
        if distance < 0 or max_tokens < 2:
            raise ValueError(
                f"distance must be at least 0, not {distance}; max_tokens at least 2, not"
                f" {max_tokens}"
            )
        if path is not None and not Path(path).is_file():
            raise UserError(
                f"denoising: path: {path} is not a file; set path to a text of one utterance a line"
            )
        self.text = (
            Utterances(Path(path), tokenizer, max_tokens=max_tokens)
            if path is not None and tokenizer
            else None
        )
        self.unread_path = path if self.text is None else None
        self.noise = {"deletion": deletion, "masking": masking}
        self.distance = distance

    def __call__(self, batch: Batch) -> Task:
        """Return a task with as many rows as the batch."""
        if self.unread_path is not None:
            raise ValueError(
                f"{self.unread_path} needs a tokenizer: DialogModule(..., tokenizer=...)"
            )
        clean = batch.target[:, 1:]  # [B, T]
        if self.text is not None:
            clean = self.text.draw(len(clean)).to(clean.device, non_blocking=True)  # [B, T]
        return task(OTHER, noised(clean, **self.noise, distance=self.distance), clean)


def noised(tokens: Tensor, *, deletion: float, masking: float, distance: int) -> Tensor:
    """Delete, mask and shuffle the ids of rows ``ids </s>`` padded on the right [B, T]; Lample
    et al. 2018, 2.3.

    Each id is deleted with probability ``deletion``; each remaining id becomes <unk> with
    probability ``masking``. Ids are sorted by i + U(0, k + 1) for the i-th id, so none moves by
    more than the ``distance`` k.
    """
    length = tokens.shape[1]
    words = (tokens != PAD) & (tokens != EOS)  # [B, T]
    kept = words & (_uniform(tokens) >= deletion)
    keys = torch.arange(length, device=tokens.device) + (distance + 1) * _uniform(tokens)  # [B, T]
    # [B, T], deleted ids last
    order = keys.masked_fill(~kept, torch.inf).argsort(dim=1, stable=True)
    masked = tokens.gather(1, order).masked_fill(_uniform(tokens) < masking, UNK)
    return end_rows(masked, kept.sum(1))


def _uniform(tokens: Tensor) -> Tensor:
    # whatever precision training uses
    return torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32)
