"""A BERT of two layers with random weights, which tests make themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

TEXT = "hello how are you today fine thanks and what time is it . ?"
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
WORDS = [*SPECIAL, *TEXT.split()]


def save_encoder(folder: Path) -> Path:
    """Write model and tokenizer to a folder; a test without transformers is skipped."""
    transformers = pytest.importorskip("transformers")
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {
        name: f"[{name[:-6].upper()}]"
        for name in ("pad_token", "cls_token", "sep_token", "unk_token")
    }
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, **names
    )
    fast.save_pretrained(folder)
    torch.manual_seed(3)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    config = transformers.BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=32, initializer_range=0.5, **sizes
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder
