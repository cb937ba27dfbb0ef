"""Rank the reference of an example among references of other examples by their likelihood.

Shapes: C contexts, K candidates of each, S source tokens, T target tokens, B targets in a batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from dialog.data.dialogue import Example
from dialog.data.store.layout import ROLES, encode_example, target_ids
from dialog.data.tokenizers.tokenizer import PAD, Tokenizer
from dialog.models.likelihood import target_scores
from dialog.models.seq2seq import Seq2Seq

CANDIDATES = 20
EXAMPLES = 200
"""Most examples that are ranked."""
SEED = 0
CONTEXTS = 32
"""Contexts that are encoded together."""
TOKENS = 2048
"""Most target tokens that are scored together, padding included; a longer target is scored alone.
"""


def candidate_ranks(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    examples: Callable[[], Iterator[Example]],
    *,
    max_source: int,
    layout: str = ROLES,
    rank: int = 0,
    world: int = 1,
) -> dict[int, int] | None:
    """Return the rank from 1 of the reference among 20 candidates, by the index of the example in
    its split.

    At most 200 examples are ranked, drawn with a fixed seed; their candidates are the reference and
    19 references of other examples, all different, drawn likewise. The score of a candidate is its
    mean log-likelihood per token given the context, end token included; candidates with the score
    of the reference rank before it. Examples and candidates are the same for all models of one
    split. Each process ranks every `world`-th group of examples.

    Returns:
        The ranks of this process; None if the split has less than 20 different references.
    """
    drawn = draw_candidates([example.response.text for example in examples()])
    if drawn is None:
        return None
    sources = {
        index: encode_example(
            tokenizer, example, max_source=max_source, max_target=None, layout=layout
        )[0]
        for index, example in enumerate(examples())
        if index in drawn
    }
    ranks: dict[int, int] = {}
    order = sorted(sources, key=lambda index: (len(sources[index]), index))
    for start in range(rank * CONTEXTS, len(order), world * CONTEXTS):
        group = order[start : start + CONTEXTS]
        targets = [
            [target_ids(tokenizer.encode(text), max_target=None) for text in drawn[index]]
            for index in group
        ]
        scores = candidate_scores(model, [sources[index] for index in group], targets)
        better = (scores[:, 1:] >= scores[:, :1]).sum(1).tolist()
        ranks |= {index: 1 + count for index, count in zip(group, better, strict=True)}
    return ranks


def joined(shards: Sequence[dict[int, int] | None]) -> dict[int, int] | None:
    """Return the ranks of all processes."""
    ranks: dict[int, int] = {}
    for shard in shards:
        if shard is None:
            return None
        ranks |= shard
    return ranks


def draw_candidates(references: Sequence[str]) -> dict[int, list[str]] | None:
    """Return the candidates of each drawn example by its index, the reference first; None without
    20 different ones.
    """
    if len(set(references)) < CANDIDATES:
        return None
    draw = random.Random(SEED)
    drawn = {}
    for index in sorted(draw.sample(range(len(references)), min(EXAMPLES, len(references)))):
        candidates = {references[index]: None}  # a set in the order of insertion
        while len(candidates) < CANDIDATES:
            candidates[draw.choice(references)] = None
        drawn[index] = list(candidates)
    return drawn


@torch.inference_mode()
def candidate_scores(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[Sequence[int]]]
) -> Tensor:
    """Return the mean log-likelihood per token of K targets for each source [C, K]; each source is
    encoded once.
    """
    device = next(model.parameters()).device
    source = padded(sources).to(device)  # [C, S]
    memory, state = model.start(source, source != PAD)
    flat = [ids for candidates in targets for ids in candidates]  # C * K
    scores = torch.empty(len(flat), dtype=torch.float64)
    for batch in batches([len(ids) for ids in flat]):
        target = padded([flat[index] for index in batch]).to(device)  # [B, T + 1]
        # [B], the source of each target
        rows = torch.tensor(batch, device=device) // len(targets[0])
        # [B, T, ..]
        decoded, _ = model.decode(target[:, :-1], memory.select(rows), state.select(rows))
        labels = target[:, 1:]  # [B, T]
        real = labels != PAD
        nll = target_scores(model.head, decoded, labels, real).nll  # [B, T]
        scores[batch] = -(nll.double().sum(1) / real.sum(1)).cpu()
    return scores.view(len(sources), -1)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of targets in batches of similar length, at most `TOKENS` tokens each,
    padding included.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if batch and (len(batch) + 1) * lengths[index] > TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return lists of ids as one tensor, padded on the right."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD
    )
