"""Statistics of attention over a split, per layer and head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dialog.analysis.attention.attribution import agreement_sums
from dialog.analysis.attention.batch_maps import UNIFORM, BatchMaps, Examples
from dialog.analysis.attention.sums import Totals
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.seq2seq import Seq2Seq


def statistics(
    model: Seq2Seq,
    batches: Iterable[Examples],
    kinds: TokenKinds,
    *,
    sample: Iterable[Examples] = (),
    budget: int = 8192,
) -> dict[str, Any]:
    """Return the statistics of each head of each attention module under teacher forcing, as JSON.

    ``rows`` has a dict of means per head: ``module``, ``head``, and the statistics of `sums`, None
    where one is not defined. Cross-attention has all of them, self-attention only those that need
    no response. The rows ``mean`` and ``rollout`` are maps made of all heads; ``uniform`` is what
    equal weights would give. ``similarity`` has the mean cosine of the rows of each pair of heads
    of the same kind. One pass over the batches, in memory that does not grow with their number;
    sums are float64. ``rows`` is empty for a model without attention.

    Args:
        model: Evaluated without dropout, and left in the mode that it was in.
        batches: The split.
        kinds: Of the model's vocabulary.
        sample: Single examples (B = 1) on which ``erasure`` and ``gradient`` are measured, see
            `agreement_sums`.
        budget: Tokens of a pass over variants of one example of the sample.
    """
    totals: dict[str, Totals] = {}
    cosines: dict[str, Totals] = {}
    heads: dict[str, list[str]] = {}
    examples = tokens = 0
    training = model.training
    model.eval()
    for batch in batches:
        maps = BatchMaps(model, batch, kinds)
        examples += len(batch.source)
        tokens += int((batch.target[:, 1:] != PAD).sum())
        for name, weights, axes in maps.maps():
            totals.setdefault(name, Totals()).add(maps.sums(name, weights, axes))
        for group, (names, similarity) in maps.similarities().items():
            heads[group] = names
            cosines.setdefault(group, Totals()).add({"similarity": similarity})
    attributions = Totals()
    sampled = 0
    for example in sample:
        sampled += 1
        for name, sums in agreement_sums(
            model, BatchMaps(model, example, kinds), example, budget=budget
        ).items():
            (totals[name] if name else attributions).add(sums)
    model.train(training)
    matrices = {group: _matrix(total) for group, total in cosines.items()}
    mean_cosines = {
        name: (sum(matrix[place]) - matrix[place][place]) / (len(matrix) - 1)
        if len(matrix) > 1
        else None
        for group, matrix in matrices.items()
        for place, name in enumerate(heads[group])
    }
    rows = [
        {**row, "similarity": mean_cosines.get(f"{row['module']}.{row['head']}")}
        for row in _rows(totals)
    ]
    return {
        "examples": examples,
        "target_tokens": tokens,
        "rows": rows,
        "similarity": [
            {"kind": group, "heads": heads[group], "matrix": matrix}
            for group, matrix in matrices.items()
            if len(matrix) > 1
        ],
        "sample": {"examples": sampled, **next(attributions.means(), {})},
    }


def curve_statistics(
    model: Seq2Seq, batches: Iterable[Examples], kinds: TokenKinds, *, self_attention: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of `statistics` for each validation of a training, in a fraction of the time.

    Without mass per turn, similarity and the row of equal weights; self-attention only if asked
    for.
    """
    totals: dict[str, Totals] = {}
    training = model.training
    model.eval()
    for batch in batches:
        maps = BatchMaps(model, batch, kinds)
        for name, weights, axes in maps.maps():
            if name != UNIFORM and (self_attention or axes.turns is not None):
                totals.setdefault(name, Totals()).add(maps.sums(name, weights, axes, by_turn=False))
    model.train(training)
    return _rows(totals)


def _rows(totals: Mapping[str, Totals]) -> list[dict[str, Any]]:
    """Return the means of each head of each module."""
    return [
        {"module": module, "head": head, **means}
        for module, total in totals.items()
        for head, means in enumerate(total.means())
    ]


def _matrix(total: Totals) -> list[list[float]]:
    """Return the mean of a matrix."""
    sums, number = total.values["similarity"]
    matrix: list[list[float]] = (sums / number.clamp(min=1)).tolist()
    return matrix
