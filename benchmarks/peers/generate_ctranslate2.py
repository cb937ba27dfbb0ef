"""Generate with CTranslate2; it runs in the environment of dialog, whose export needs it."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec
from serving import TOKENS, VOCABULARY, Generate, serve

SIZE = 256
INNER = 1024
LAYERS = 3
HEADS = 4
PAD = "<pad>"
BEGIN = "<s>"
END = "</s>"


def build(family: str, precision: str) -> Generate:
    """Return the Transformer with random weights."""
    assert family == "transformer"
    with tempfile.TemporaryDirectory() as folder:
        specification().save(folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type=precision, inter_threads=1, intra_threads=1
        )
    limits = {"min_decoding_length": TOKENS, "max_decoding_length": TOKENS}

    def generate(sources: list[list[int]], width: int) -> list[int]:
        texts = [[str(token) for token in source] for source in sources]
        results = translator.translate_batch(texts, beam_size=width, **limits)
        return [len(result.hypotheses[0]) for result in results]

    return generate


def specification() -> TransformerSpec:
    """Return norms first, one table of embeddings."""
    generator = np.random.default_rng(1)

    def linear(spec: Any, rows: int, columns: int) -> None:
        spec.weight = generator.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)
        spec.bias = np.zeros(rows, np.float32)

    def norm(spec: Any) -> None:
        spec.gamma = np.ones(SIZE, np.float32)
        spec.beta = np.zeros(SIZE, np.float32)

    spec = TransformerSpec.from_config(LAYERS, HEADS, pre_norm=True)
    table = generator.normal(0, SIZE**-0.5, (VOCABULARY, SIZE)).astype(np.float32)
    angles = np.outer(np.arange(512), np.exp(-math.log(1e4) * np.arange(0, SIZE, 2) / SIZE))
    positions = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
    for side in (spec.encoder, spec.decoder):
        norm(side.layer_norm)
        side.scale_embeddings = True
        side.position_encodings.encodings = positions
        for layer in side.layer:
            attentions = [(layer.self_attention, (3 * SIZE, SIZE))]
            if side is spec.decoder:
                attentions.append((layer.attention, (SIZE, 2 * SIZE, SIZE)))
            for attention, sizes in attentions:
                norm(attention.layer_norm)
                for part, rows in zip(attention.linear, sizes, strict=True):
                    linear(part, rows, SIZE)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, INNER, SIZE)
            linear(layer.ffn.linear_1, SIZE, INNER)
    spec.encoder.embeddings[0].weight = table
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    spec.decoder.projection.bias = np.zeros(VOCABULARY, np.float32)
    words = [PAD, BEGIN, END, "<unk>", *map(str, range(4, VOCABULARY))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    return spec


if __name__ == "__main__":
    serve(build)
