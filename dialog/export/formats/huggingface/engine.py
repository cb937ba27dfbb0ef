"""An exported folder, opened and computed by transformers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig
from transformers.utils import logging

import dialog.export.formats.huggingface.network  # noqa: F401 - AutoModelForSeq2SeqLM then knows our class
from dialog.data.tokenizers.tokenizer import BOS
from dialog.export.format import Tokens, padded, token_scores, until_end
from dialog.export.formats.huggingface.generation import TOKENS


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


class ExportedTransformers:
    """Folder opened in float32 by a class of transformers; generation_config.json has no influence
    on its responses.
    """

    def __init__(self, folder: Path, kind: Any = AutoModelForSeq2SeqLM) -> None:
        with without_progress_bars():
            self.model: Any = kind.from_pretrained(
                str(folder), dtype=torch.float32, use_safetensors=True
            )
        self.model.generation_config = GenerationConfig(**TOKENS)

    @torch.inference_mode()
    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats of each token of each target, computed as one
        batch.
        """
        source, mask = padded(sources)
        inputs, _ = padded([[BOS, *target[:-1]] for target in targets])
        output = self.model(input_ids=source, attention_mask=mask.long(), decoder_input_ids=inputs)
        return token_scores(output.logits, targets)

    @torch.inference_mode()
    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step, computed as one batch."""
        source, mask = padded(sources)
        rows = self.model.generate(
            input_ids=source,
            attention_mask=mask.long(),
            do_sample=False,
            num_beams=1,
            max_new_tokens=length,
        )
        return [until_end(row) for row in rows[:, 1:].tolist()]


def open_with_code(file: Path, name: str) -> ExportedTransformers:
    """Open a folder with a class of one of its files, which is run."""
    module_name = f"{__name__}.{file.stem}"
    spec = spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    # dataclasses look for their module there
    sys.modules[module_name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return ExportedTransformers(file.parent, getattr(module, name))
    finally:
        del sys.modules[module_name]
