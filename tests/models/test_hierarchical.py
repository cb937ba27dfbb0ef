"""The hierarchical encoder against a loop over rows and turns, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.data.batching import collate, with_turn_shape
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF
from dialog.models.contracts import Encoded
from dialog.models.hierarchical import Fold, HierarchicalEncoder, turn_numbers

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]

SIZE = 4
LSTM = {"name": "lstm", "size": SIZE, "layers": 2}
GRU = {"name": "gru", "size": 6}
TRANSFORMER = {"name": "transformer", "heads": 2, "feed_forward_size": 5, "layers": 1}
PAIRS = [
    (LSTM, GRU),
    (TRANSFORMER, LSTM),
    (GRU, {**TRANSFORMER, "heads": 3}),
    (TRANSFORMER, TRANSFORMER),
]
every_pair = pytest.mark.parametrize(
    ("tokens", "turns"), PAIRS, ids=lambda component: component["name"]
)
DIALOGUES = [[2, 1, 3], [6], [1, 1, 1, 1], [4, 1], [3]]
"""Lengths of the turns of each row."""


def encoder_of(tokens: dict[str, Any], turns: dict[str, Any]) -> HierarchicalEncoder:
    return HierarchicalEncoder(input_size=SIZE, tokens=tokens, turns=turns)


def laid_out(dialogues: list[list[int]], padding: int = 1) -> tuple[Tensor, Tensor]:
    """Turns [B, S] counted from 0, and mask [B, S]; padding has the number of the last turn, as in
    `turn_numbers`.
    """
    total = max(map(sum, dialogues)) + padding
    rows = [
        [turn for turn, length in enumerate(lengths) for _ in range(length)]
        for lengths in dialogues
    ]
    turns = torch.tensor([row + [row[-1] if row else 0] * (total - len(row)) for row in rows])
    return turns, torch.tensor([[place < len(row) for place in range(total)] for row in rows])


def spans(lengths: list[int]) -> list[slice]:
    return [slice(sum(lengths[:turn]), sum(lengths[: turn + 1])) for turn in range(len(lengths))]


def real(count: int) -> Tensor:
    return torch.ones(1, count, dtype=torch.bool)


# ------------------------------------------------------------------ turns and folds


@pytest.mark.parametrize(
    "sources", [[[5, 9, 9, 4, 9], [9, 9]], [[4], [5], [9]], [[5, 4, 5, 4], []], [[9] * 6, [4, 9]]]
)
def test_shape_known_to_the_host_is_that_of_the_device(sources: list[list[int]]) -> None:
    batch = with_turn_shape(collate([(source, [BOS, EOS]) for source in sources]))
    turns, mask = turn_numbers(batch.source, (OTHER, SELF)), batch.source != PAD
    read, given = Fold.of(turns, mask), Fold.of(turns, mask, batch.turn_shape)
    assert batch.turn_shape == read.mask.shape[1:]
    assert torch.equal(read.mask, given.mask)


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ([8, 1, 2, 9, 3, 8, 0], [0, 0, 0, 1, 1, 2, 2]),
        # the beginning of the first turn is truncated
        ([1, 2, 9, 3, 8, 8, 9], [0, 0, 1, 1, 2, 3, 4]),
        ([9, 0, 0, 0, 0, 0, 0], [0] * 7),
        ([8, 9, 8, 9, 8, 9, 8], [0, 1, 2, 3, 4, 5, 6]),
        ([1, 2, 3, 4, 5, 6, 7], [0] * 7),
        ([0, 0, 0, 0, 0, 0, 0], [0] * 7),
    ],
)
def test_a_turn_begins_with_one_of_the_turn_tokens(source: list[int], numbers: list[int]) -> None:
    rows = torch.tensor([source, [1] * 7])
    assert turn_numbers(rows, (8, 9)).tolist() == [numbers, [0] * 7]
    assert not turn_numbers(rows, ()).any()


@pytest.mark.parametrize("padding", [0, 1, 5])
def test_fold_splits_and_joins_turns(padding: int, draw: Draw) -> None:
    dialogues = [*DIALOGUES, []]
    turns, mask = laid_out(dialogues, padding)
    fold, states = Fold.of(turns, mask), draw(*turns.shape, 3)
    parts = fold.split(states)
    assert parts.shape == (6, 4, 6, 3)
    assert fold.mask.shape == (6, 4, 6)
    for row, lengths in enumerate(dialogues):
        for turn in range(4):
            length = lengths[turn] if turn < len(lengths) else 0
            assert fold.mask[row, turn].tolist() == [place < length for place in range(6)]
            assert not parts[row, turn, length:].any()
            if length:
                assert torch.equal(parts[row, turn, :length], states[row, spans(lengths)[turn]])
    joined = fold.join(parts)
    assert joined.shape == states.shape
    assert torch.equal(joined[mask], states[mask])


# ------------------------------------------------------------------ the encoder


def by_hand(encoder: HierarchicalEncoder, inputs: Tensor) -> list[Tensor]:
    """States [S, M] of each row's real tokens and its summary [M], turn by turn and without
    padding.
    """
    outputs = []
    weight, bias = encoder.join.weight, encoder.join.bias
    for row, lengths in enumerate(DIALOGUES):
        read: list[Encoded] = [
            encoder.tokens(inputs[row : row + 1, span], real(span.stop - span.start))
            for span in spans(lengths)
        ]
        dialogue = encoder.turns(
            torch.stack([turn.summary for turn in read], 1), real(len(lengths))
        )
        outputs.append(
            torch.stack(
                [
                    weight @ torch.cat([state, dialogue.states[0, number]]) + bias
                    for number, turn in enumerate(read)
                    for state in turn.states[0]
                ]
            )
        )
        outputs.append(weight @ torch.cat([read[-1].summary[0], dialogue.summary[0]]) + bias)
    return outputs


@every_pair
def test_encoder_equals_a_loop_over_rows_and_turns(
    tokens: dict[str, Any], turns: dict[str, Any], draw: Draw, stir: Stir, agree: Agree
) -> None:
    encoder, (numbers, mask) = stir(encoder_of(tokens, turns)), laid_out(DIALOGUES)
    inputs = draw(*mask.shape, SIZE).requires_grad_()
    encoded = encoder(inputs, mask, numbers)
    assert encoded.states.shape == (*mask.shape, encoder.size)
    assert torch.equal(encoded.mask, mask)
    assert not encoded.states[~mask].any()
    ours = [
        each
        for row, lengths in enumerate(DIALOGUES)
        for each in (encoded.states[row, : sum(lengths)], encoded.summary[row])
    ]
    agree(ours, by_hand(encoder, inputs), [inputs, *encoder.parameters()])


@every_pair
def test_padding_changes_nothing(
    tokens: dict[str, Any], turns: dict[str, Any], draw: Draw, stir: Stir
) -> None:
    encoder, (numbers, mask) = stir(encoder_of(tokens, turns)), laid_out(DIALOGUES, padding=1)
    inputs = draw(*mask.shape, SIZE)
    encoded = encoder(inputs, mask, numbers)
    garbage = torch.where(mask.unsqueeze(-1), inputs, 50 * draw(*inputs.shape))
    odd = torch.where(mask, numbers, 9)
    wider = torch.cat([garbage, 50 * draw(len(inputs), 4, SIZE)], 1)
    more, (_, further) = torch.cat([odd, odd[:, -4:]], 1), laid_out(DIALOGUES, padding=5)
    for output in (encoder(garbage, mask, odd), encoder(wider, further, more)):
        torch.testing.assert_close(
            output.states[:, : mask.shape[1]], encoded.states, rtol=0, atol=1e-12
        )
        torch.testing.assert_close(output.summary, encoded.summary, rtol=0, atol=1e-12)


@every_pair
def test_turns_are_independent_before_the_join(
    tokens: dict[str, Any], turns: dict[str, Any], draw: Draw, stir: Stir
) -> None:
    encoder, (numbers, mask) = stir(encoder_of(tokens, turns)), laid_out([[2, 3, 1]])
    inner: list[Tensor] = []
    encoder.tokens.register_forward_hook(lambda _, __, encoded: inner.append(encoded.states))
    inputs = draw(*mask.shape, SIZE)
    other = inputs.clone()
    other[:, 2:5] += draw(1, 3, SIZE)  # the turn in the middle
    states = [encoder(each, mask, numbers).states for each in (inputs, other)]
    assert torch.equal(inner[0][[0, 2]], inner[1][[0, 2]])
    assert (inner[0][1] - inner[1][1]).abs().max() > 1e-3
    for span in spans([2, 3, 1]):  # after the join all depend on the dialogue
        assert (states[0][:, span] - states[1][:, span]).abs().amax(-1).min() > 1e-6


@every_pair
def test_maps_of_tokens_and_of_turns(
    tokens: dict[str, Any], turns: dict[str, Any], draw: Draw, stir: Stir
) -> None:
    encoder, (numbers, mask) = stir(encoder_of(tokens, turns)), laid_out(DIALOGUES)
    inputs, shown = draw(*mask.shape, SIZE), []
    hooked = encoder(inputs, mask, numbers, lambda *call: shown.append(call))
    torch.testing.assert_close(
        hooked.states, encoder(inputs, mask, numbers).states, rtol=0, atol=1e-12
    )
    maps = dict(shown)
    assert len(maps) == len(shown) == [tokens["name"], turns["name"]].count("transformer")
    for module, weights in maps.items():
        within = any(module is each for each in encoder.tokens.modules())
        assert weights.shape[0] == len(DIALOGUES)
        assert weights.shape[2:] == ((mask.shape[1],) * 2 if within else (4, 4))
        for row, lengths in enumerate(DIALOGUES):
            alone: list[Tensor] = []
            read = [
                encoder.tokens(
                    inputs[row : row + 1, span],
                    real(span.stop - span.start),
                    lambda _, weights, seen=alone: seen.append(weights[0]),
                )
                for span in spans(lengths)
            ]
            if within:
                expected = torch.zeros_like(weights[row])
                for span, block in zip(spans(lengths), alone, strict=True):
                    expected[:, span, span] = block
                torch.testing.assert_close(weights[row], expected, rtol=0, atol=1e-12)
            else:
                alone.clear()
                encoder.turns(
                    torch.stack([turn.summary for turn in read], 1),
                    real(len(lengths)),
                    lambda _, weights, seen=alone: seen.append(weights[0]),
                )
                count = len(lengths)
                torch.testing.assert_close(
                    weights[row, :, :count, :count], alone[0], rtol=0, atol=1e-12
                )
                assert not weights[row, :, :count, count:].any()


@every_pair
@pytest.mark.parametrize("dialogues", [[[2, 1], []], [[], []]], ids=["one row", "all rows"])
def test_rows_without_real_tokens_are_finite(
    tokens: dict[str, Any],
    turns: dict[str, Any],
    dialogues: list[list[int]],
    draw: Draw,
    stir: Stir,
) -> None:
    encoder, (numbers, mask) = stir(encoder_of(tokens, turns)), laid_out(dialogues)
    inputs = draw(*mask.shape, SIZE).requires_grad_()
    shown: list[Tensor] = []
    encoded = encoder(inputs, mask, numbers, lambda _, weights: shown.append(weights))
    assert all(weights.isfinite().all() for weights in shown)
    (encoded.states.square().sum() + encoded.summary.square().sum()).backward()
    assert encoded.states.isfinite().all()
    assert encoded.summary.isfinite().all()
    assert not encoded.states[~mask].any()
    assert inputs.grad is not None
    assert inputs.grad.isfinite().all()
    assert not inputs.grad[~mask].any()
    assert all(each.grad is None or each.grad.isfinite().all() for each in encoder.parameters())
