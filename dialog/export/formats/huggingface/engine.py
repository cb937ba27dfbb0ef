"""An exported folder, opened and computed by transformers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.utils import logging

import dialog.export.formats.huggingface.network  # noqa: F401 - AutoModelForSeq2SeqLM then knows our class
from dialog.data.tokenizers.tokenizer import BOS, PAD
from dialog.export.format import Tokens, until_end
from dialog.export.formats.huggingface.generation import TOKENS, generation_config


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers within the block."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def open_folder(folder: Path) -> ExportedTransformers:
    """Open an exported folder in float32, without running any code of it."""
    with without_progress_bars():
        model = AutoModelForSeq2SeqLM.from_pretrained(
            str(folder), dtype=torch.float32, use_safetensors=True
        )
    return ExportedTransformers(model)


def open_with_code(folder: Path, file: str, name: str) -> ExportedTransformers:
    """Open an exported folder in float32 with a class of one of its files, which is run."""
    module_name = f"{__name__}.{Path(file).stem}"
    spec = spec_from_file_location(module_name, folder / file)
    assert spec is not None
    assert spec.loader is not None
    # dataclasses look for their module there
    sys.modules[module_name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        with without_progress_bars():
            model = getattr(module, name).from_pretrained(
                str(folder), dtype=torch.float32, use_safetensors=True
            )
    finally:
        del sys.modules[module_name]
    return ExportedTransformers(model)


class ExportedTransformers:
    """Model of transformers; generation_config.json has no influence on its responses."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model: Any = model  # a class that its library finds by config.json
        model.generation_config = generation_config(TOKENS)

    @torch.inference_mode()
    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats of each token of each target, computed as one
        batch.
        """
        source, mask = padded(sources)
        inputs, _ = padded([[BOS, *target[:-1]] for target in targets])
        output = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs)
        # [B, T]
        values = (
            output.logits.log_softmax(-1).gather(-1, padded(targets)[0].unsqueeze(-1)).squeeze(-1)
        )
        return [row[: len(target)] for row, target in zip(values.tolist(), targets, strict=True)]

    @torch.inference_mode()
    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step, computed as one batch."""
        source, mask = padded(sources)
        rows = self.model.generate(
            input_ids=source,
            attention_mask=mask,
            do_sample=False,
            num_beams=1,
            max_new_tokens=length,
        )
        return [until_end(row) for row in rows[:, 1:].tolist()]


def padded(rows: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
    """Return rows of tokens with padding on the right, and the mask of real tokens, both [B, T]."""
    length = max(map(len, rows))
    tokens = torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return tokens, mask
