"""The examples of the auxiliary objectives."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import dialog
from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.errors import UserError
from dialog.training.objectives import ContextModel, Denoising, Reverse

Draw = Callable[..., Batch]
Words = Callable[[Tensor], list[int]]


def test_denoising_of_responses(batch: Draw, words: Words) -> None:
    rows = batch()
    source, target = Denoising(deletion=0.0, masking=0.0, distance=0)(rows)
    assert torch.equal(target, rows.target)
    for noisy, clean in zip(source.tolist(), rows.target, strict=True):
        assert noisy[:2] == [BOS, OTHER]
        assert words(torch.tensor(noisy[2:])) == words(clean[1:])


def test_denoising_depends_on_the_random_state_only(batch: Draw) -> None:
    rows, objective, sources = batch(), Denoising(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        sources.append(objective(rows).source)
    assert torch.equal(sources[0], sources[1])
    assert sources[0].shape != sources[2].shape or not torch.equal(sources[0], sources[2])


def test_denoising_of_a_text(text: Path, tokenizer: Tokenizer, batch: Draw, words: Words) -> None:
    torch.manual_seed(1)
    objective = Denoising(
        path=str(text), deletion=0.0, masking=0.0, distance=0, tokenizer=tokenizer
    )
    source, target = objective(batch(5))
    assert source[:, :2].tolist() == [[BOS, OTHER]] * 5
    assert target[:, 0].tolist() == [BOS] * 5
    lines = text.read_text("utf-8").splitlines()
    for noisy, clean in zip(source[:, 2:], target[:, 1:], strict=True):
        assert words(noisy) == words(clean)
        assert tokenizer.decode(words(clean)) in lines
    with pytest.raises(ValueError, match=r"text\.txt needs a tokenizer"):
        Denoising(path=str(text))(batch(5))


def test_denoising_needs_a_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"^denoising: path: .*text\.txt is not a file"):
        Denoising(path=str(tmp_path / "text.txt"), tokenizer=tokenizer)


def test_reverse_predicts_the_last_turn() -> None:
    pairs = [
        ([SELF, 7, 8, OTHER, 9, 10, 11, EOS], [BOS, 12, EOS]),
        ([OTHER, 9, EOS], [BOS, 13, 14, 15, EOS]),
        ([8, 9, EOS], [BOS, 13, EOS]),  # truncated within its only turn
        ([EOS], [BOS, 16, EOS]),  # the first turn of a dialogue
    ]
    source, target = Reverse()(collate(pairs, range(4)))
    assert source.tolist() == [
        [BOS, SELF, 12, EOS, PAD, PAD],
        [BOS, SELF, 13, 14, 15, EOS],
        [BOS, SELF, 13, EOS, PAD, PAD],
        [BOS, SELF, 16, EOS, PAD, PAD],
    ]
    assert target.tolist() == [
        [BOS, 9, 10, 11, EOS],
        [BOS, 9, EOS, PAD, PAD],
        [BOS, 8, 9, EOS, PAD],
        [BOS, PAD, PAD, PAD, PAD],
    ]


def test_reverse_never_predicts_a_fact() -> None:
    pairs = [
        ([SELF, 7, OTHER, 8, OTHER, 9, 10, EOS], [BOS, 12, EOS]),  # two facts, a turn
        ([SELF, 7, OTHER, 8, EOS], [BOS, 12, EOS]),  # two facts, no turn
        ([SELF, 7, OTHER, 8, 10, EOS], [BOS, 12, EOS]),  # two facts, the end of a truncated turn
    ]
    _, target = Reverse()(collate(pairs, range(3), facts=[4, 4, 4]))
    assert target.tolist() == [[BOS, 9, 10, EOS], [BOS, PAD, PAD, PAD], [BOS, 10, EOS, PAD]]


def test_context_is_predicted_without_a_source() -> None:
    pairs = [([SELF, 7, OTHER, 9, EOS], [BOS, 12, EOS]), ([EOS], [BOS, 13, EOS])]
    source, target = ContextModel()(collate(pairs, range(2)))
    assert source.tolist() == [[BOS, OTHER]] * 2
    assert target.tolist() == [[BOS, SELF, 7, OTHER, 9, EOS], [BOS, EOS, PAD, PAD, PAD, PAD]]


def test_only_auxiliary_sources_begin_with_bos(prepared: Path) -> None:
    for rows in dialog.DialogDataModule(prepared, batch_tokens=1200).val_dataloader():
        assert not (rows.source == BOS).any()
        assert not (rows.source == UNK).any()
        assert all(
            (objective(rows).source[:, 0] == BOS).all()
            for objective in (ContextModel(), Denoising(), Reverse())
        )
