"""Sampling with temperature and truncation.

Shapes: N rows of the batch, n rows that have not been removed, C candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import inf

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.data.tokenizers.tokenizer import PAD
from dialog.generation.constraints import Constraints
from dialog.generation.search import Replies, Step, best_first
from dialog.generation.searches.rows import RowSearch, decode_rows
from dialog.models.contracts import Memory, State

GROUPS = 2048
"""Groups of tokens of which one is sorted."""
FEW = 256
"""Tokens up to which all are sorted."""
MOST_CANDIDATES = 2**20


class Sampling(RowSearch):
    """Draw each token from p(v)^(1 / temperature), renormalised over the tokens that all
    truncations keep.

    The draws depend on the seed, the source and its id, and on nothing else: a response does not
    depend on the rest of the batch, and equal sources with different ids get independent responses.

    Args:
        temperature: Above 0; below 1 prefers probable tokens. Truncations apply to the scaled
            distribution.
        top_k: Keep the k most probable tokens (Fan et al. 2018); 0 keeps all.
        top_p: Keep the smallest set of most probable tokens with this much mass (Holtzman
            et al. 2020).
        min_p: Keep tokens with at least this share of the largest probability (Nguyen et al. 2024).
        typical_p: Keep the smallest set with this much mass whose information is nearest to the
            entropy (Meister et al. 2023).
        candidates: Number of draws; the most probable one is the response. Those without an end
            token come last.
        seed: Seed of the draws.
    """

    def __init__(
        self,
        *,
        constraints: Constraints,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        candidates: int = 1,
        seed: int = 1,
    ) -> None:
        if not 0 < temperature < inf:
            raise ValueError(
                f"temperature is {temperature}; give a number above 0, or use greedy search"
            )
        if top_k < 0:
            raise ValueError(f"top_k is {top_k}; give 0 for all tokens, or a number above 0")
        for name, value in (("top_p", top_p), ("typical_p", typical_p)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} is {value}; give a number above 0, up to 1")
        if not 0 <= min_p < 1:
            raise ValueError(f"min_p is {min_p}; give a number from 0, below 1")
        if not 1 <= candidates <= MOST_CANDIDATES:
            raise ValueError(
                f"candidates is {candidates}; give a number from 1 to {MOST_CANDIDATES}"
            )
        super().__init__(constraints)
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.min_p = min_p
        self.typical_p = typical_p
        self.candidates = candidates
        self.streams = candidates == 1
        self.seed = seed

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode ``candidates`` responses for each row of `first` [N, 1], the most probable
        first.
        """
        uniform = self.uniform(source, ids, self.candidates)  # [N * C, max_length + 1]
        first, source = (part.repeat_interleave(self.candidates, 0) for part in (first, source))
        if self.candidates > 1:
            memory = memory.repeat(self.candidates)
            state = state.repeat(self.candidates)
        drawn = decode_rows(self, step, first, memory, state, source, uniform)
        groups = [drawn[at : at + self.candidates] for at in range(0, len(drawn), self.candidates)]
        return [best_first(reply for reply in group if reply is not None) for group in groups]

    def choose(self, preferences: Tensor, numbers: Tensor | None) -> Tensor:
        """Draw a token of each row."""
        assert numbers is not None  # of `uniform`
        return draw(self.truncate(preferences), numbers)

    def uniform(self, source: Tensor, ids: Sequence[str], times: int) -> Tensor:
        """Return numbers in [0, 1) for each token of each candidate [N * times, max_length + 1]."""
        shape = (times, self.constraints.max_length + 1)
        names = ids or [""] * len(source)
        draws = [
            row_uniform(self.seed, *row, shape) for row in zip(source.tolist(), names, strict=True)
        ]
        return torch.from_numpy(np.concatenate(draws)).to(source.device)

    def truncate(self, preferences: Tensor) -> Tensor:
        """Return the probabilities to draw from [n, V], 0 where truncated."""
        highest = preferences.amax(-1, keepdim=True)  # subtracted, so that no temperature overflows
        scaled = ((preferences - highest) / self.temperature).softmax(-1)  # [n, V]
        kept = scaled
        if self.top_k:
            smallest = scaled.topk(min(self.top_k, scaled.shape[-1])).values[:, -1:]  # [n, 1]
            kept = kept.masked_fill(scaled < smallest, 0.0)
        if self.min_p:
            kept = kept.masked_fill(scaled < self.min_p * scaled.amax(-1, keepdim=True), 0.0)
        if self.top_p < 1:
            kept = masked(kept, within_mass(scaled.detach(), -scaled.detach(), self.top_p))
        if self.typical_p < 1:
            information = -scaled.clamp_min(torch.finfo(scaled.dtype).tiny).log()
            entropy = (scaled * information).sum(-1, keepdim=True)
            distance = (information - entropy).abs()
            kept = masked(kept, within_mass(scaled.detach(), distance.detach(), self.typical_p))
        nothing = kept.sum(-1, keepdim=True) == 0  # truncations that exclude each other
        return torch.addcmul(kept, scaled, nothing.float())


def masked(probabilities: Tensor, kept: Tensor) -> Tensor:
    """Return probabilities, 0 where not kept; `masked_fill` takes three times as long on a CPU."""
    return probabilities * kept.view(torch.uint8).float()


def within_mass(probabilities: Tensor, order: Tensor, mass: float) -> Tensor:
    """Return which tokens [n, V] belong to the smallest set, in ascending order, whose mass reaches
    a limit.

    Equal tokens are taken in the order of their ids; all numbers of `order` have one sign. On a
    CPU, a sort of a large vocabulary can take longer than a step of the model. Tokens are put into
    groups by `order` instead, and only the group that reaches the limit is sorted. Sums are in
    float64, rounded to float32, as `cumsum` computes them.
    """
    if order.device.type != "cpu" or order.dtype != torch.float32 or order.shape[-1] <= FEW:
        return within_sorted(probabilities, order.argsort(stable=True), mass)
    numbers = order.numpy()  # for NumPy, whose comparisons are faster
    keys = numbers.view(np.int32) - numbers.min(1, keepdims=True).view(np.int32)
    np.abs(keys, out=keys)  # [n, V], as floats of one sign are ordered like their bits
    spread = keys[:, :: len(keys[0]) // FEW].mean(1, keepdims=True)  # [n, 1], of some keys
    groups = keys >> np.frexp(2 * spread / GROUPS)[1].clip(0)  # [n, V]
    # the last group also has all that are far from the first
    np.clip(groups, 0, GROUPS - 1, out=groups)
    sums = torch.zeros(len(keys), GROUPS, dtype=torch.double)
    # [n, GROUPS]
    reached = sums.scatter_add_(1, torch.from_numpy(groups).long(), probabilities.double()).cumsum(
        1
    )
    limit = torch.full_like(probabilities[:, :1], mass)
    # [n, 1], GROUPS if no group reaches the limit
    last = torch.searchsorted(reached.float(), limit)
    # [n], the mass of the groups before
    start = F.pad(reached, (1, 0)).gather(1, last).numpy().squeeze(1)
    last_group = last.int().numpy()
    kept = groups < last_group  # [n, V]
    places = np.flatnonzero(groups == last_group)  # [m], in the order of rows and ids
    rows = places // keys.shape[1]
    by_order = ((rows << 32) + keys.ravel()[places]).argsort(kind="stable")
    places = places[by_order]
    rows = rows[by_order]
    own = probabilities.numpy().ravel()[places].astype(np.float64)
    before = own.cumsum() - own
    before += start[rows] - before[np.searchsorted(rows, rows)]
    kept.ravel()[places] = before.astype(np.float32) < np.float32(mass)
    return torch.from_numpy(kept)


def within_sorted(probabilities: Tensor, ids: Tensor, mass: float) -> Tensor:
    """Return which tokens [n, V] belong to the smallest set of the sorted tokens `ids` whose mass
    reaches a limit.
    """
    before = probabilities.gather(1, ids).cumsum(-1).roll(1, -1)
    before[:, 0] = 0.0
    return torch.zeros_like(probabilities, dtype=torch.bool).scatter_(1, ids, before < mass)


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Draw one token of each row [n] by the inverse of the distribution function, from numbers in
    [0, 1) [n].
    """
    cumulative = probabilities.double().cumsum(-1)  # [n, V]
    point = (uniform.double() * cumulative[:, -1]).unsqueeze(1)
    return (
        torch.searchsorted(cumulative, point, right=True)
        .squeeze(1)
        .clamp_max(probabilities.shape[-1] - 1)
    )


def row_uniform(seed: int, source: list[int], name: str, shape: tuple[int, int]) -> np.ndarray:
    """Return numbers in [0, 1) that depend on a seed, a source without its padding, and its id
    only.
    """
    text = repr((seed, [token for token in source if token != PAD], name))
    digest = blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(shape)
