"""Small networks, batches and modules for the tests of training."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import dialog
from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF
from dialog.models.seq2seq import Seq2Seq

VOCABULARY = 23
ENCODERS: dict[str, dict[str, Any]] = {
    "lstm": {"name": "lstm", "size": 8},
    "transformer": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1},
}
DECODERS: dict[str, dict[str, Any]] = {
    "lstm": {"name": "lstm", "size": 8, "attention": {"name": "additive", "size": 6}},
    "lstm_luong": {
        "name": "lstm_luong",
        "size": 8,
        "attention": {"name": "bilinear"},
        "input_feeding": False,
    },
    "transformer": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2},
}


@pytest.fixture
def network() -> Callable[..., Seq2Seq]:
    """``network(decoder, **options)``: in float64, with parameters far from 0."""

    def build(
        decoder: str = "transformer",
        encoder: str = "lstm",
        vocabulary: int = VOCABULARY,
        **options: Any,
    ) -> Seq2Seq:
        torch.manual_seed(5)
        parts = {"encoder": ENCODERS[encoder], "decoder": DECODERS[decoder]}
        model = Seq2Seq(
            vocabulary, padding=PAD, embedding_size=8, turn_tokens=(OTHER, SELF), **parts, **options
        )
        with torch.no_grad():
            for parameter in model.double().parameters():
                parameter.copy_(0.5 * torch.randn_like(parameter))
        return model

    return build


@pytest.fixture
def batch() -> Callable[..., Batch]:
    """``batch(rows, longest)``: random dialogues of one or two turns and responses of 1 to
    ``longest`` tokens.
    """

    def draw(rows: int = 6, longest: int = 7) -> Batch:
        generator = torch.Generator().manual_seed(rows)

        def words(most: int) -> list[int]:
            count = int(torch.randint(1, most + 1, (1,), generator=generator))
            return torch.randint(6, VOCABULARY, (count,), generator=generator).tolist()

        pairs = []
        for row in range(rows):
            context = (
                [SELF, *words(4), OTHER, *words(5), EOS] if row % 2 else [OTHER, *words(5), EOS]
            )
            pairs.append((context, [BOS, *words(longest - 1), EOS]))
        return collate(pairs, range(rows), target_bytes=rows)

    return draw


@pytest.fixture
def loss_and_gradients() -> Callable[
    [dialog.DialogModule, Batch], tuple[Tensor, dict[str, Tensor]]
]:
    """``loss_and_gradients(module, batch)``: the loss of a training step, and the gradients of
    three times that.
    """

    def step(module: dialog.DialogModule, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        torch.manual_seed(9)
        module.on_train_start()
        loss = module.training_step(batch, 0)
        module.model.zero_grad()
        (3 * loss).backward()
        parameters = module.model.named_parameters()
        return loss.detach(), {
            name: each.grad for name, each in parameters if each.grad is not None
        }

    return step


@pytest.fixture
def module(tiny: Callable[..., Any]) -> Callable[..., dialog.DialogModule]:
    """``module(family, **options)``: a module with a tiny network, for the prepared data."""

    def build(
        family: str = "transformer",
        kind: type[dialog.DialogModule] = dialog.DialogModule,
        **options: Any,
    ) -> dialog.DialogModule:
        torch.manual_seed(1)
        return kind(dialog.build_model(tiny(family).recipe.model, 400), padding=PAD, **options)

    return build


class Scripted(dialog.DialogModule):
    """Its validations return given losses."""

    losses: Iterator[float] = iter(())

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        if batch_index == 0:
            self.split_metrics.update(
                nll=next(self.losses), correct=0, tokens=1, bytes=1, unknown_bytes=0
            )


@pytest.fixture
def scripted(module: Callable[..., dialog.DialogModule]) -> Callable[..., dialog.DialogModule]:
    """``scripted(losses, **options)``: a module whose n-th validation has the n-th loss."""

    def build(losses: list[float], **options: Any) -> dialog.DialogModule:
        built = module(kind=Scripted, **options)
        built.losses = iter(losses)
        return built

    return build


@pytest.fixture
def data(prepared: Path) -> dialog.DialogDataModule:
    return dialog.DialogDataModule(prepared, batch_tokens=1200)
